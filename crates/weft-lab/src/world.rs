//! Two nodes and the emulated links between them, built from a scenario.

use crate::LabError;
use crate::emulator::{EmulatedCapacity, EmulatedDirection, EmulatedLinkSpec, Emulator, EmulatorHandle, EndSpec};
use crate::net::{Lab, NetNamespace};
use crate::scratch::Scratch;
use std::net::Ipv4Addr;
use std::time::Duration;
use weft_scenario::{self as scenario, Link, Scenario, Traces};

const LINK_MTU: u16 = 1500;
/// Returns the emulator's description of one direction.
pub(crate) fn emulated(
    spec: &scenario::DirectionSpec,
    base_rtt: Duration,
    traces: &Traces,
) -> Result<EmulatedDirection, LabError> {
    let (capacity, rate) = match &spec.capacity {
        scenario::Capacity::Rate(rate) => (EmulatedCapacity::Rate(*rate), *rate),
        scenario::Capacity::Trace(name) => {
            let trace = traces.get(name).ok_or_else(|| LabError::Scenario(format!("there is no trace `{name}`")))?;
            (EmulatedCapacity::Trace(trace.clone()), trace.mean_rate())
        }
    };
    Ok(EmulatedDirection {
        capacity,
        delay: spec.delay,
        jitter: spec.jitter,
        reorder: false,
        loss: spec.loss,
        queue_bytes: spec.queue.bytes(rate, base_rtt),
        cut: false,
        impaired: None,
    })
}

/// The addresses of one link.
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
    /// The scenario from which it was built.
    pub scenario: Scenario,
    emulator: Emulator,
    pub home: NetNamespace,
    pub hub: NetNamespace,
    pub links: Vec<WorldLink>,
    pub scratch: Scratch,
    _lab: Lab,
}

impl LabPair {
    pub fn build(scenario: &Scenario, traces: &Traces, seed: u64) -> Result<LabPair, LabError> {
        if let Some(link) = scenario.links.iter().find(|link| link.rebind.is_some()) {
            let why = format!("link `{}` has `rebind`: the lab has no NAT; use `weft-lab sim`", link.name);
            return Err(LabError::Scenario(why));
        }
        let lab = Lab::new()?;
        let [home, hub] = [lab.node(&scenario.nodes[0])?, lab.node(&scenario.nodes[1])?];
        let links: Vec<WorldLink> = scenario.links.iter().zip(0..).map(|(link, number)| place(link, number)).collect();
        let specs = scenario.links.iter().zip(&links).map(|(link, place)| {
            let direction = |spec: &scenario::DirectionSpec| {
                let impaired = spec.impaired(seed, &link.name, true);
                Ok::<_, LabError>(EmulatedDirection { impaired, ..emulated(spec, link.base_rtt(), traces)? })
            };
            let end = |node: &NetNamespace, address| EndSpec {
                node: node.clone(),
                interface: place.name.clone(),
                ipv4: Some(address),
                ipv6: None,
            };
            Ok(EmulatedLinkSpec {
                ends: [end(&home, place.home), end(&hub, place.hub)],
                mtu: LINK_MTU,
                forward: direction(&link.up)?,
                backward: direction(&link.down)?,
            })
        });
        let emulator = Emulator::start(specs.collect::<Result<_, LabError>>()?, seed)?;
        Ok(LabPair { scenario: scenario.clone(), emulator, home, hub, links, scratch: Scratch::new()?, _lab: lab })
    }

    pub fn emulator(&self) -> EmulatorHandle {
        self.emulator.handle()
    }
}

fn place(link: &Link, number: u8) -> WorldLink {
    WorldLink { name: link.name.clone(), home: Ipv4Addr::new(10, 77, number, 1), hub: Ipv4Addr::new(10, 77, number, 2) }
}
