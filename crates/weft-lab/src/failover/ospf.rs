//! FRR's OSPF on the four nodes, with or without BFD.

use super::contender::RunningNetwork;
use super::diamond::{LabDiamond, NAMES, link_name, links_of};
use crate::LabError;
use crate::frr::{OspfNode, OspfRouter, OspfTimers};
use crate::variants::Daemon;
use std::net::Ipv4Addr;

/// FRR's running daemons on the four nodes.
pub(super) struct Ospf {
    nodes: Vec<OspfRouter>,
    daemons: Vec<Daemon>,
}

/// Returns the loopback address of a node, to which all nodes have routes.
fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, 0, node as u8 + 1)
}

impl Ospf {
    /// Starts FRR's daemons on all nodes.
    pub fn start(diamond: &LabDiamond, timers: OspfTimers) -> Result<Ospf, LabError> {
        let mut ospf = Ospf { nodes: Vec::new(), daemons: Vec::new() };
        for (number, node) in diamond.nodes.iter().enumerate() {
            node.sysctl("net.ipv4.ip_forward", "1")?;
            let router = OspfNode {
                node,
                directory: diamond.file(&format!("{node}.frr")),
                address: address(number),
                interfaces: links_of(number).map(|(link, _)| link_name(link)).collect(),
                timers,
            };
            ospf.nodes.push(router.start(&mut ospf.daemons)?);
        }
        Ok(ospf)
    }
}

impl RunningNetwork for Ospf {
    fn far_end(&self) -> Ipv4Addr {
        address(NAMES.len() - 1)
    }

    fn is_whole(&self) -> Result<bool, LabError> {
        for router in &self.nodes {
            if !router.is_whole()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
