//! Two nodes and the emulated links between them, built from a scenario.

use crate::LabError;
use crate::apps::NO_SHORT_FLOWS;
use crate::emulator::{EmulatedDirection, EmulatedLinkSpec, Emulator, EmulatorHandle, EndSpec};
use crate::net::{Lab, NetNamespace};
use crate::scratch::Scratch;
use std::net::Ipv4Addr;
use weft_scenario::{App, Link, Scenario, Traces};

const LINK_MTU: u16 = 1500;

/// The name of one link, and the addresses of both nodes on it.
#[derive(Clone, Debug)]
pub(crate) struct WorldLink {
    /// The link's name, and its interface's name in both nodes.
    pub name: String,
    /// The first node's address on the link.
    pub home: Ipv4Addr,
    /// The second node's address on the link.
    pub hub: Ipv4Addr,
}

/// Two nodes joined by emulated links.
pub(crate) struct LabPair {
    /// The scenario from which the nodes and links were built.
    pub scenario: Scenario,
    emulator: Emulator,
    /// The settings of both directions of each link at the start of the run, the up direction first.
    pub directions: Vec<[EmulatedDirection; 2]>,
    pub home: NetNamespace,
    pub hub: NetNamespace,
    pub links: Vec<WorldLink>,
    pub scratch: Scratch,
    _lab: Lab,
}

impl LabPair {
    pub fn build(scenario: &Scenario, traces: &Traces, seed: u64) -> Result<LabPair, LabError> {
        if let Some(link) = scenario.links.iter().find(|link| link.rebind.is_some()) {
            let why = format!(
                "link `{}` has `rebind`, but the lab has no NAT: run the scenario with `weft-lab sim`",
                link.name
            );
            return Err(LabError::Scenario(why));
        }
        if let Some(flow) = scenario.flows.iter().find(|flow| flow.app == App::ShortFlows) {
            return Err(LabError::Scenario(format!("flow `{}` cannot run in the lab: {NO_SHORT_FLOWS}", flow.name)));
        }
        let lab = Lab::new()?;
        let [home, hub] = [lab.node(&scenario.nodes[0])?, lab.node(&scenario.nodes[1])?];
        let links: Vec<WorldLink> = scenario.links.iter().zip(0..).map(|(link, number)| place(link, number)).collect();
        let directions = scenario.links.iter().map(|link| EmulatedDirection::both(link, traces, seed, true));
        let directions = directions.collect::<Result<Vec<_>, LabError>>()?;
        let specs = directions.iter().zip(&links).map(|(both, place)| {
            let [forward, backward] = both.clone();
            let end = |node: &NetNamespace, address| EndSpec {
                node: node.clone(),
                interface: place.name.clone(),
                ipv4: Some(address),
                ipv6: None,
            };
            let ends = [end(&home, place.home), end(&hub, place.hub)];
            EmulatedLinkSpec { ends, mtu: LINK_MTU, forward, backward }
        });
        let emulator = Emulator::start(specs.collect(), seed)?;
        let (scenario, scratch) = (scenario.clone(), Scratch::new()?);
        Ok(LabPair { scenario, emulator, directions, home, hub, links, scratch, _lab: lab })
    }

    pub fn emulator(&self) -> EmulatorHandle {
        self.emulator.handle()
    }
}

fn place(link: &Link, number: u8) -> WorldLink {
    WorldLink { name: link.name.clone(), home: Ipv4Addr::new(10, 77, number, 1), hub: Ipv4Addr::new(10, 77, number, 2) }
}
