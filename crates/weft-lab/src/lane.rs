//! A lane: what one set of flows goes through, whatever the variant.

use crate::net::Node;
use crate::variants::{Daemon, WeftControl};
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;
use weft_scenario::Flow;

/// A way from the first node to the second.
pub(crate) struct Lane {
    /// The variant's name in the results.
    pub name: String,
    /// The only link used, by its position, where it is one.
    pub link: Option<usize>,
    /// The first node's address on this way.
    pub home: Ipv4Addr,
    /// The second node's address on this way.
    pub hub: Ipv4Addr,
    /// Whether TCP applications are to use MPTCP sockets.
    pub mptcp: bool,
    /// How long OpenVPN's client took to connect, where there is one.
    pub setup: Option<Duration>,
    /// Both nodes' addresses in each VPN, by its position; nothing where all flows share one network.
    pub vpns: Vec<[Ipv4Addr; 2]>,
    /// Pairs of running wefts to ask and to tell, that of the first node first; several pairs have a VPN each.
    pub weft: Vec<[WeftControl; 2]>,
    /// The programs that make the way; they end with it.
    pub daemons: Vec<Daemon>,
}

impl Lane {
    /// A way without a tunnel.
    pub fn plain(name: String, link: Option<usize>, home: Ipv4Addr, hub: Ipv4Addr) -> Lane {
        Lane {
            name,
            link,
            home,
            hub,
            mptcp: false,
            setup: None,
            vpns: Vec::new(),
            weft: Vec::new(),
            daemons: Vec::new(),
        }
    }

    /// Both nodes' addresses for a flow, the first node's first.
    pub fn addresses(&self, flow: &Flow) -> [Ipv4Addr; 2] {
        let vpn = flow.vpn.and_then(|position| self.vpns.get(position));
        vpn.copied().unwrap_or([self.home, self.hub])
    }

    /// A command for a TCP application on `node`.
    pub fn tcp_command(&self, node: &Node, program: &str) -> Command {
        if !self.mptcp {
            return node.command(program);
        }
        let mut command = node.command("mptcpize");
        command.args(["run", program]);
        command
    }
}
