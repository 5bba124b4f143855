//! A lane: the network between the two nodes that one set of flows uses.
//!
//! Every variant makes lanes of the same type.

use crate::net::NetNamespace;
use crate::variants::{Daemon, WeftControl};
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;
use weft_scenario::Flow;

/// The addresses and programs with which flows send packets from the first node to the second.
pub(crate) struct LabLane {
    /// The lane's name in the results.
    pub name: String,
    /// Position of the lane's link in the scenario's list of links, if the lane has only one.
    pub link: Option<usize>,
    /// The first node's address in this lane.
    pub home: Ipv4Addr,
    /// The second node's address in this lane.
    pub hub: Ipv4Addr,
    /// True if TCP applications must use MPTCP sockets.
    pub mptcp: bool,
    /// Time that OpenVPN's client took to connect, if there is one.
    pub setup: Option<Duration>,
    /// Both nodes' addresses in each VPN, in the scenario's order of VPNs. Empty if the flows use no VPNs.
    pub vpns: Vec<[Ipv4Addr; 2]>,
    /// Addresses of the scenario's hosts behind the first node. Empty if their flows come from the node itself.
    pub hosts: Vec<Ipv4Addr>,
    /// The control sockets of pairs of daemons, first node first.
    ///
    /// With several pairs, each pair has one VPN.
    pub weft: Vec<[WeftControl; 2]>,
    /// The lane's programs. They end when the lane is dropped.
    pub daemons: Vec<Daemon>,
}

impl LabLane {
    /// Returns a lane without a tunnel.
    pub fn plain(name: String, link: Option<usize>, home: Ipv4Addr, hub: Ipv4Addr) -> LabLane {
        LabLane {
            name,
            link,
            home,
            hub,
            mptcp: false,
            setup: None,
            vpns: Vec::new(),
            hosts: Vec::new(),
            weft: Vec::new(),
            daemons: Vec::new(),
        }
    }

    /// Returns both nodes' addresses for a flow, the first node's first.
    pub fn addresses(&self, flow: &Flow) -> [Ipv4Addr; 2] {
        let vpn = flow.vpn.and_then(|position| self.vpns.get(position));
        vpn.copied().unwrap_or([self.home, self.hub])
    }

    /// Returns the address of the host that begins a flow. `None` if the flow may use any address of the first node.
    pub fn host_of(&self, flow: &Flow) -> Option<Ipv4Addr> {
        self.hosts.get(flow.host?).copied()
    }

    /// Returns a command for a TCP application on `node`.
    pub fn tcp_command(&self, node: &NetNamespace, program: &str) -> Command {
        if !self.mptcp {
            return node.command(program);
        }
        let mut command = node.command("mptcpize");
        command.args(["run", program]);
        command
    }
}
