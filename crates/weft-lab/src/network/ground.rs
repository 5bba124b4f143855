//! Builds a network's nodes and links, with static routes.

use super::routes::{batches, interface};
use crate::LabError;
use crate::emulator::{EmulatedDirection, EmulatedLinkSpec, Emulator, EmulatorHandle, EndSpec};
use crate::net::{Lab, NetNamespace};
use crate::scratch::Scratch;
use crate::world::emulated;
use std::fs;
use std::path::PathBuf;
use weft_scenario::{CostMetric, LinkDirection, LinkEnd, NetworkLink, NetworkScenario, Traces};

const LINK_MTU: u16 = 1500;

/// Namespaces and emulated links.
pub(super) struct Ground {
    emulator: Emulator,
    /// The nodes, in the scenario's order.
    pub nodes: Vec<NetNamespace>,
    scratch: Scratch,
    _lab: Lab,
}

impl Ground {
    pub fn build(network: &NetworkScenario, cost: CostMetric, traces: &Traces, seed: u64) -> Result<Ground, LabError> {
        let lab = Lab::new()?;
        let nodes = network.nodes.iter().map(|name| lab.node(name)).collect::<Result<Vec<NetNamespace>, _>>()?;
        let links = (0..network.links.len()).map(|link| link_spec(network, &nodes, link, traces, seed));
        let emulator = Emulator::start(links.collect::<Result<_, LabError>>()?, seed)?;
        let ground = Ground { emulator, nodes, scratch: Scratch::new()?, _lab: lab };
        for (node, batch) in ground.nodes.iter().zip(batches(network, cost)) {
            let file = ground.file(&format!("{node}.routes"));
            fs::write(&file, batch)?;
            node.ip(&format!("-batch {}", file.display()))?;
            node.sysctl("net.ipv4.ip_forward", "1")?;
        }
        Ok(ground)
    }

    /// Returns the path of a file in the scratch directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub fn emulator(&self) -> EmulatorHandle {
        self.emulator.handle()
    }
}

fn link_spec(
    network: &NetworkScenario,
    nodes: &[NetNamespace],
    link: usize,
    traces: &Traces,
    seed: u64,
) -> Result<EmulatedLinkSpec, LabError> {
    let missing = || LabError::Scenario(format!("link {link} leads nowhere"));
    let description = network.links.get(link).ok_or_else(missing)?;
    let end = |end: usize| {
        let node = description.ends.get(end).and_then(|node| nodes.get(*node)).ok_or_else(missing)?;
        let (interface, address) = (interface(network, link), LinkEnd { link, end }.address());
        Ok::<_, LabError>(EndSpec { node: node.clone(), interface, ipv4: Some(address), ipv6: None })
    };
    let [mut forward, mut backward] = directions(description, traces)?;
    forward.impaired = description.up.spec.impaired(seed, &description.name, false);
    backward.impaired = description.down.spec.impaired(seed, &description.name, false);
    Ok(EmulatedLinkSpec { ends: [end(0)?, end(1)?], mtu: LINK_MTU, forward, backward })
}

/// Returns both directions of a link for the emulator, up first.
pub(super) fn directions(link: &NetworkLink, traces: &Traces) -> Result<[EmulatedDirection; 2], LabError> {
    let base_rtt = link.up.spec.delay + link.down.spec.delay;
    let one = |direction: &LinkDirection| emulated(&direction.spec, base_rtt, traces);
    Ok([one(&link.up)?, one(&link.down)?])
}
