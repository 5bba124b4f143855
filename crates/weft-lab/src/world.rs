//! Two nodes and the emulated links between them: a scenario come to life.

use crate::LabError;
use crate::emulator::{Capacity, Direction, DirectionSpec, Emulator, EmulatorHandle, EndSpec, LinkSpec};
use crate::net::{Lab, Node};
use crate::scratch::Scratch;
use std::net::Ipv4Addr;
use std::time::Duration;
use weft_scenario::trace::{OPPORTUNITY_BYTES, Trace};
use weft_scenario::{self as scenario, FlowDirection, Link, PAYLOAD_BYTES, Scenario, Traces};

const LINK_MTU: u16 = 1500;
/// The emulator's description of one direction.
pub(crate) fn emulated(
    spec: &scenario::DirectionSpec,
    base_rtt: Duration,
    traces: &Traces,
) -> Result<DirectionSpec, LabError> {
    let (capacity, rate) = match &spec.capacity {
        scenario::Capacity::Rate(rate) => (Capacity::Rate(*rate), *rate),
        scenario::Capacity::Trace(name) => {
            let trace = traces.get(name).ok_or_else(|| LabError::Scenario(format!("there is no trace `{name}`")))?;
            (Capacity::Trace(trace.clone()), trace.mean_rate())
        }
    };
    Ok(DirectionSpec {
        capacity,
        delay: spec.delay,
        jitter: spec.jitter,
        reorder: false,
        loss: spec.loss,
        queue_bytes: spec.queue.bytes(rate, base_rtt),
        cut: false,
    })
}

/// Goodput that no protocol without a tunnel can beat, in bit/s. Traces count their opportunities after the warm-up.
pub(crate) fn bound_bps(scenario: &Scenario, direction: FlowDirection, traces: &Traces) -> f64 {
    let window_s = (scenario.duration - scenario.warmup).as_secs_f64();
    let of_traces: f64 = scenario
        .links
        .iter()
        .filter_map(|link| match &link.towards(direction).capacity {
            scenario::Capacity::Trace(name) => traces.get(name),
            scenario::Capacity::Rate(_) => None,
        })
        .map(|trace| {
            trace.opportunities(scenario.warmup, scenario.duration) as f64 * PAYLOAD_BYTES as f64 * 8.0 / window_s
        })
        .sum();
    scenario.constant_rate_bound_bps(direction) + of_traces
}

/// One link's place in the world.
#[derive(Clone, Debug)]
pub(crate) struct WorldLink {
    /// Its name, and its interface's in both nodes.
    pub name: String,
    /// The first node's address on it.
    pub home: Ipv4Addr,
    /// The second node's address on it.
    pub hub: Ipv4Addr,
}

/// Two nodes joined by emulated links.
pub(crate) struct World {
    emulator: Emulator,
    pub home: Node,
    pub hub: Node,
    pub links: Vec<WorldLink>,
    pub scratch: Scratch,
    _lab: Lab,
}

impl World {
    pub fn build(scenario: &Scenario, traces: &Traces, seed: u64) -> Result<World, LabError> {
        let lab = Lab::new()?;
        let [home, hub] = [lab.node(&scenario.nodes[0])?, lab.node(&scenario.nodes[1])?];
        let links: Vec<WorldLink> = scenario.links.iter().zip(0..).map(|(link, number)| place(link, number)).collect();
        let specs = scenario.links.iter().zip(&links).map(|(link, place)| {
            let end = |node: &Node, address| EndSpec {
                node: node.clone(),
                interface: place.name.clone(),
                ipv4: Some(address),
                ipv6: None,
            };
            Ok(LinkSpec {
                ends: [end(&home, place.home), end(&hub, place.hub)],
                mtu: LINK_MTU,
                forward: emulated(&link.up, link.base_rtt(), traces)?,
                backward: emulated(&link.down, link.base_rtt(), traces)?,
            })
        });
        let emulator = Emulator::start(specs.collect::<Result<_, LabError>>()?, seed)?;
        Ok(World { emulator, home, hub, links, scratch: Scratch::new()?, _lab: lab })
    }

    pub fn emulator(&self) -> EmulatorHandle {
        self.emulator.handle()
    }
}

/// Has every trace start now, so that all variants meet the same opportunities at the same time of the run.
pub(crate) fn restart_traces(emulator: &EmulatorHandle, scenario: &Scenario, traces: &Traces) -> Result<(), LabError> {
    for (position, link) in scenario.links.iter().enumerate() {
        for (direction, described) in [(Direction::Forward, &link.up), (Direction::Backward, &link.down)] {
            let spec = emulated(described, link.base_rtt(), traces)?;
            let Capacity::Trace(trace) = &spec.capacity else { continue };
            // The emulator lets a trace run on unless something else was there in between.
            let pause = DirectionSpec { capacity: Capacity::Rate(trace.mean_rate()), ..spec.clone() };
            emulator.set(position, direction, pause)?;
            emulator.set(position, direction, spec)?;
        }
    }
    Ok(())
}

fn place(link: &Link, number: u8) -> WorldLink {
    WorldLink { name: link.name.clone(), home: Ipv4Addr::new(10, 77, number, 1), hub: Ipv4Addr::new(10, 77, number, 2) }
}

/// The 95th percentile over time of the age of an omniscient sender's newest arrival, in milliseconds, when it uses all links at
/// once (Winstein et al., Sprout, NSDI 2013, §5.1). A constant-rate link has an opportunity for each full packet.
pub(crate) fn omniscient_ms_p95(scenario: &Scenario, direction: FlowDirection, traces: &Traces) -> Option<f64> {
    const STEP: Duration = Duration::from_millis(1);
    let sources: Vec<(Duration, Option<&Trace>, Duration)> = scenario
        .links
        .iter()
        .map(|link| {
            let spec = link.towards(direction);
            match &spec.capacity {
                scenario::Capacity::Trace(name) => (spec.delay, traces.get(name), Duration::ZERO),
                scenario::Capacity::Rate(rate) => (spec.delay, None, rate.time_for(OPPORTUNITY_BYTES)),
            }
        })
        .collect();
    let age_ms = |now: Duration| {
        let ages = sources.iter().map(|(delay, trace, spacing)| match trace {
            None => *delay + *spacing / 2,
            Some(trace) => *delay + age_of_last(trace, now.saturating_sub(*delay)),
        });
        ages.min().map_or(0.0, |age| age.as_secs_f64() * 1e3)
    };
    let steps = ((scenario.duration - scenario.warmup).as_millis() / STEP.as_millis()) as u32;
    scenario::percentile((0..steps).map(|n| age_ms(scenario.warmup + STEP * n)), 0.95)
}

/// How long before `now` the trace's last opportunity came.
fn age_of_last(trace: &Trace, now: Duration) -> Duration {
    match trace.count_before(now + Duration::from_nanos(1)).checked_sub(1) {
        Some(last) => now.saturating_sub(trace.time_of(last)),
        None => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(links: &str) -> Scenario {
        Scenario::parse(&format!("name = \"t\"\nduration = \"10 s\"\nwarmup = \"2 s\"\n{links}"), "t").unwrap()
    }

    #[test]
    fn the_bound_counts_payload_of_rates_and_of_opportunities() {
        let scenario =
            scenario("[[link]]\nname = \"a\"\nrate = \"15 Mbit/s\"\n[[link]]\nname = \"b\"\ntrace = \"t\"\n");
        let ten_ms: String = (1..=100).map(|n| format!("{}\n", n * 10)).collect();
        let traces = Traces::from([("t".to_owned(), Trace::parse(&ten_ms, "t").unwrap())]);
        let bound = bound_bps(&scenario, FlowDirection::Up, &traces);
        assert!((bound - (15e6 * 1448.0 / 1500.0 + 100.0 * 1448.0 * 8.0)).abs() < 1.0, "{bound}");
    }

    #[test]
    fn an_omniscient_sender_waits_for_the_nearest_opportunity() {
        let scenario = scenario("[[link]]\nname = \"b\"\ntrace = \"t\"\ndelay = \"20 ms\"\n");
        let ten_ms: String = (1..=100).map(|n| format!("{}\n", n * 10)).collect();
        let traces = Traces::from([("t".to_owned(), Trace::parse(&ten_ms, "t").unwrap())]);
        let p95 = omniscient_ms_p95(&scenario, FlowDirection::Up, &traces).unwrap();
        assert!((28.0..=30.0).contains(&p95), "{p95}");
    }
}
