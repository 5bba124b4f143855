//! Builds a network's nodes and links, with static routes.

use super::routes::{batches, interface};
use crate::LabError;
use crate::emulator::{EmulatedDirection, EmulatedLinkSpec, Emulator, EmulatorHandle, EndSpec};
use crate::net::{Lab, NetNamespace};
use crate::scratch::Scratch;
use std::fs;
use std::path::PathBuf;
use weft_scenario::{CostMetric, LinkEnd, NetworkScenario, Traces};

const LINK_MTU: u16 = 1500;

/// The namespaces and emulated links of a network.
pub(super) struct Ground {
    emulator: Emulator,
    /// The settings of both directions of each link at the start of the run, the up direction first.
    pub directions: Vec<[EmulatedDirection; 2]>,
    /// The namespace of each node, in the order of the scenario's nodes.
    pub nodes: Vec<NetNamespace>,
    scratch: Scratch,
    _lab: Lab,
}

impl Ground {
    pub fn build(network: &NetworkScenario, cost: CostMetric, traces: &Traces, seed: u64) -> Result<Ground, LabError> {
        let lab = Lab::new()?;
        let nodes = network.nodes.iter().map(|name| lab.node(name)).collect::<Result<Vec<NetNamespace>, _>>()?;
        let directions = network.links.iter().map(|link| EmulatedDirection::both(link, traces, seed, false));
        let directions = directions.collect::<Result<Vec<_>, LabError>>()?;
        let links = directions.iter().enumerate().map(|(link, both)| link_spec(network, &nodes, link, both));
        let emulator = Emulator::start(links.collect::<Result<_, LabError>>()?, seed)?;
        let ground = Ground { emulator, directions, nodes, scratch: Scratch::new()?, _lab: lab };
        for (node, batch) in ground.nodes.iter().zip(batches(network, cost)) {
            let file = ground.file(&format!("{node}.routes"));
            fs::write(&file, batch)?;
            node.ip(&format!("-batch {}", file.display()))?;
            node.sysctl("net.ipv4.ip_forward", "1")?;
        }
        Ok(ground)
    }

    /// Returns the path of the file `name` in the temporary directory of this run.
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
    directions: &[EmulatedDirection; 2],
) -> Result<EmulatedLinkSpec, LabError> {
    let missing = || {
        LabError::Scenario(format!(
            "weft-lab does not find link number {link} of the scenario or a node at its end: report this error of \
             weft-lab"
        ))
    };
    let description = network.links.get(link).ok_or_else(missing)?;
    let end = |end: usize| {
        let node = description.ends.get(end).and_then(|node| nodes.get(*node)).ok_or_else(missing)?;
        let (interface, address) = (interface(network, link), LinkEnd { link, end }.address());
        Ok::<_, LabError>(EndSpec { node: node.clone(), interface, ipv4: Some(address), ipv6: None })
    };
    let [forward, backward] = directions.clone();
    Ok(EmulatedLinkSpec { ends: [end(0)?, end(1)?], mtu: LINK_MTU, forward, backward })
}
