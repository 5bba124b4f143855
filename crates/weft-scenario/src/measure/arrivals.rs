//! Computes the results of a `probe` flow from the arrivals of its datagrams.

use crate::{Flow, FlowDirection, FlowResult, Scenario, percentile};
use std::time::Duration;

/// Payload of a probe in bytes.
///
/// As small as a voice packet.
pub const PROBE_PAYLOAD_BYTES: usize = 100;
/// Number of recent arrivals whose least delay identifies the link that carries a probe flow.
pub const RECENT_PROBES: usize = 50;

/// A probe that arrived.
///
/// Its times count from the start of the run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProbeArrival {
    /// Sequence number of the probe, from 0.
    pub sequence: u64,
    /// Time at which the probe was sent.
    pub sent: Duration,
    /// Time at which the probe arrived.
    pub received: Duration,
}

impl ProbeArrival {
    /// Returns the time from the probe's sending until its arrival, in milliseconds.
    pub fn one_way_ms(&self) -> f64 {
        self.received.saturating_sub(self.sent).as_secs_f64() * 1e3
    }
}

/// Returns the result of a flow that sent `sent` datagrams at a constant interval.
///
/// It leaves out the datagrams that were sent before `warmup`. All times count from the start of the run.
pub fn probe_result(flow: &Flow, warmup: Duration, arrivals: &[ProbeArrival], sent: u64) -> FlowResult {
    let from = warmup.max(flow.start);
    let counted: Vec<ProbeArrival> = arrivals.iter().filter(|a| a.sent >= from).copied().collect();
    let sent_before = ((from - flow.start).as_secs_f64() / flow.interval.as_secs_f64()).ceil() as u64;
    let mut sequences: Vec<u64> = counted.iter().map(|a| a.sequence).collect();
    sequences.sort_unstable();
    sequences.dedup();
    let one_way = |share| percentile(counted.iter().map(ProbeArrival::one_way_ms), share);
    FlowResult {
        name: flow.name.clone(),
        longest_gap_ms: Some(longest_gap(arrivals, from, flow.stop).as_secs_f64() * 1e3),
        one_way_ms_p50: one_way(0.5),
        one_way_ms_p95: one_way(0.95),
        one_way_ms_p99: one_way(0.99),
        delay_variation_ms_p999: one_way(0.999).zip(one_way(0.0)).map(|(late, least)| late - least),
        lost: Some(sent.saturating_sub(sent_before).saturating_sub(sequences.len() as u64) as f64),
        ..FlowResult::default()
    }
}

/// Returns the index of the link that carries a probe flow.
///
/// `seen` is the least one-way delay among the recent probes. The result is the link with the longest delay that does
/// not exceed `seen`. Before any probe has arrived it is the link with the least delay.
pub fn carrying_link(scenario: &Scenario, flow: &str, seen: Option<Duration>) -> Option<usize> {
    let direction = scenario.flows.iter().find(|f| f.name == flow).map_or(FlowDirection::Up, |f| f.direction);
    let delays: Vec<Duration> = scenario.links.iter().map(|link| link.towards(direction).delay).collect();
    let seen = seen.unwrap_or_default();
    let possible = delays.iter().enumerate().filter(|(_, delay)| **delay <= seen).max_by_key(|(_, delay)| **delay);
    possible.or(delays.iter().enumerate().min_by_key(|(_, delay)| **delay)).map(|(position, _)| position)
}

/// Returns the longest time within `from..to` without an arrival.
///
/// If the last arrival before the first gap was before `from`, the gap counts from that arrival.
pub fn longest_gap(arrivals: &[ProbeArrival], from: Duration, to: Duration) -> Duration {
    let mut last = from;
    let mut longest = Duration::ZERO;
    for arrival in arrivals {
        if arrival.received > to {
            break;
        }
        if arrival.received > from {
            longest = longest.max(arrival.received.saturating_sub(last));
        }
        last = arrival.received;
    }
    longest.max(to.saturating_sub(last.max(from)))
}

/// Returns the 95th percentile of the newest arrival's age over the time `from..to`, in milliseconds.
///
/// The newest arrival is the arrived probe that was sent last. Its age is the time since it was sent.
pub fn newest_age_ms_p95(arrivals: &[ProbeArrival], from: Duration, to: Duration) -> Option<f64> {
    const STEP: Duration = Duration::from_millis(1);
    let mut next = arrivals.iter().peekable();
    let mut newest: Option<Duration> = None;
    let mut ages = Vec::new();
    let mut now = from;
    while now < to {
        while let Some(arrival) = next.next_if(|a| a.received <= now) {
            newest = newest.max(Some(arrival.sent));
        }
        ages.push(now.saturating_sub(newest.unwrap_or_default()).as_secs_f64() * 1e3);
        now += STEP;
    }
    percentile(ages, 0.95)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn steady(delay_ms: u64, without: std::ops::Range<u64>) -> Vec<ProbeArrival> {
        (0..1000)
            .filter(|n| !without.contains(n))
            .map(|n| ProbeArrival { sequence: n, sent: ms(n), received: ms(n + delay_ms) })
            .collect()
    }

    #[test]
    fn a_gap_is_found_where_it_is() {
        let arrivals = steady(8, 300..350);
        assert_eq!(longest_gap(&arrivals, ms(100), ms(900)), ms(51));
        assert_eq!(longest_gap(&arrivals, ms(400), ms(900)), ms(1));
        assert_eq!(longest_gap(&arrivals, ms(900), ms(1200)), ms(193), "silence until the end is a gap");
    }

    #[test]
    fn the_newest_arrival_is_as_old_as_its_delay() {
        let p95 = newest_age_ms_p95(&steady(8, 0..0), ms(100), ms(900)).unwrap();
        assert!((8.0..=9.0).contains(&p95), "{p95}");
        let with_outage = newest_age_ms_p95(&steady(8, 300..400), ms(100), ms(900)).unwrap();
        assert!((65.0..=75.0).contains(&with_outage), "{with_outage}");
    }
}
