//! Computes the bounds on goodput and delay that no sender can exceed.

use crate::channel::{self, Impaired, ImpairmentTimeline, Serializer};
use crate::trace::{OPPORTUNITY_BYTES, Trace};
use crate::{Capacity, FlowDirection, Link, PACKET_BYTES, PAYLOAD_BYTES, Scenario, Traces, percentile};
use std::time::Duration;
use weft_units::Instant;

/// Returns the direction for which the upper bound of goodput is computed.
///
/// It is the direction of the scenario's first TCP flow, or up if there is none.
pub fn bulk_direction(scenario: &Scenario) -> FlowDirection {
    let bulk = scenario.flows.iter().find(|flow| flow.app.is_tcp());
    bulk.map_or(FlowDirection::Up, |flow| flow.direction)
}

/// Returns the upper bound of goodput over all links without a tunnel, in bit/s.
///
/// For a link with a trace, it counts the delivery opportunities after the warm-up. For an impaired link, it counts the
/// bytes that the link can transmit after the warm-up, in a run with the scenario's seed.
pub fn bound_bps(scenario: &Scenario, direction: FlowDirection, traces: &Traces) -> f64 {
    let window_s = (scenario.duration - scenario.warmup).as_secs_f64();
    let (mut of_rates, mut of_others) = (0.0, 0.0);
    for link in &scenario.links {
        let spec = link.towards(direction);
        match &spec.capacity {
            _ if spec.impairments.is_timed() || spec.impairments.policer.is_some() => {
                of_others += impaired_bytes(scenario, link, direction, traces) * PAYLOAD_SHARE * 8.0 / window_s;
            }
            Capacity::Rate(rate) => of_rates += rate.bps() as f64 * PAYLOAD_SHARE,
            Capacity::Trace(name) => {
                let count = |trace: &Trace| trace.opportunities(scenario.warmup, scenario.duration) as f64;
                of_others += traces.get(name).map_or(0.0, count) * PAYLOAD_BYTES as f64 * 8.0 / window_s;
            }
        }
    }
    of_rates + of_others
}

/// Payload of a full packet as a fraction of its size.
///
/// Derived: 1448/1500.
const PAYLOAD_SHARE: f64 = PAYLOAD_BYTES as f64 / PACKET_BYTES as f64;

/// Returns the IP bytes that an impaired link can carry after the warm-up, in a run with the scenario's seed.
fn impaired_bytes(scenario: &Scenario, link: &Link, direction: FlowDirection, traces: &Traces) -> f64 {
    let spec = link.towards(direction);
    let capacity = match &spec.capacity {
        Capacity::Rate(rate) => channel::LinkCapacity::Rate(*rate),
        Capacity::Trace(name) => match traces.get(name) {
            Some(trace) => channel::LinkCapacity::Trace(trace.clone()),
            None => return 0.0,
        },
    };
    let schedule = Impaired::schedule(scenario.seed, &link.name);
    let bytes = |from: Duration, to: Duration| {
        let timeline = ImpairmentTimeline::new(&spec.impairments, schedule, Instant::ZERO);
        let mut serializer = Serializer::new(&capacity, timeline, Instant::ZERO, Instant::ZERO);
        serializer.bytes_between(Instant::ZERO + from, Instant::ZERO + to, false) as f64
    };
    let (warmup, end) = (scenario.warmup, scenario.duration);
    let all = bytes(warmup, end);
    let Some(policer) = spec.impairments.policer.filter(|policer| !policer.only_udp) else { return all };
    let begins = policer.after.clamp(warmup, end);
    let policed = policer.rate.bytes_in(end - begins) + policer.bucket_bytes;
    all.min(bytes(warmup, begins) + policed as f64)
}

/// Returns the 95th percentile of an omniscient sender's delay over all links, in milliseconds.
///
/// The delay at a moment is the time since the newest arrived packet was sent, when the sender uses all links at once
/// (Winstein et al., Sprout, NSDI 2013, §5.1). The percentile is over time. A link with a constant rate can deliver a
/// full packet whenever one fits.
pub fn omniscient_ms_p95(scenario: &Scenario, direction: FlowDirection, traces: &Traces) -> Option<f64> {
    const STEP: Duration = Duration::from_millis(1);
    let sources: Vec<(Duration, Option<&Trace>, Duration)> = scenario
        .links
        .iter()
        .map(|link| {
            let spec = link.towards(direction);
            match &spec.capacity {
                Capacity::Trace(name) => (spec.delay, traces.get(name), Duration::ZERO),
                Capacity::Rate(rate) => (spec.delay, None, rate.time_for(OPPORTUNITY_BYTES)),
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
    percentile((0..steps).map(|n| age_ms(scenario.warmup + STEP * n)), 0.95)
}

/// Returns the time from the trace's last delivery opportunity until `now`. Both count from the trace's start.
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
