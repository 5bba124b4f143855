//! Namespaces in a row, each joined to the next by a veth pair.

use super::super::site::bare_world;
use crate::LabError;
use crate::net::NetNamespace;
use crate::world::LabPair;
use std::net::Ipv4Addr;

/// Name of the interface that leads to the next node.
pub(super) const NEXT: &str = "next";
/// Name of the interface that leads back to the previous node.
pub(super) const BACK: &str = "back";

/// The nodes of the bench: the two ends (the nodes of `world`), and the nodes between them.
pub(super) struct RelayChain {
    pub world: LabPair,
    between: Vec<NetNamespace>,
}

impl RelayChain {
    pub fn build(between: usize) -> Result<RelayChain, LabError> {
        let world = bare_world()?;
        let node = |number: usize| world.home.sibling(&format!("between{number}"));
        let between = (1..=between).map(node).collect::<Result<_, _>>()?;
        let chain = RelayChain { world, between };
        let nodes = chain.nodes();
        for (number, (node, next)) in nodes.iter().zip(nodes.iter().skip(1)).enumerate() {
            node.ip(&format!("link add {NEXT} type veth peer name {BACK} netns {}", next.netns_path()))?;
            node.add_address(NEXT, &format!("{}/24", address(number, 1)))?;
            next.add_address(BACK, &format!("{}/24", address(number, 2)))?;
            node.set_interface(NEXT, true)?;
            next.set_interface(BACK, true)?;
        }
        Ok(chain)
    }

    /// Returns all nodes, from the first to the last.
    pub fn nodes(&self) -> Vec<&NetNamespace> {
        let ends = (&self.world.home, &self.world.hub);
        [ends.0].into_iter().chain(&self.between).chain([ends.1]).collect()
    }

    /// Returns, for each node but the first, the address to which the previous node sends.
    pub fn endpoints(&self) -> Vec<Ipv4Addr> {
        (0..=self.between.len()).map(|number| address(number, 2)).collect()
    }
}

/// Returns the address of one end of the veth pair between node `number` and the next node.
fn address(number: usize, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, number as u8, host)
}
