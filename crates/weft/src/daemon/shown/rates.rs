//! Rates of paths and flows over the last second, computed from their totals.

use crate::status::{Flow, Path, Peer};
use std::collections::BTreeMap;
use weft_engine::Engine;
use weft_units::{Duration, Instant};

/// Maximum number of paths and flows with a rate. Further ones have none.
const MAX_METERS: usize = 4_096;

/// Subject of a rate: one direction of a path, or a flow.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Of {
    Sent(u8),
    Received(u8),
    Flow(u16),
}

/// The rates of all paths and flows, by peer.
#[derive(Debug, Default)]
pub struct TrafficRates {
    meters: BTreeMap<(String, Of), Meter>,
}

#[derive(Debug)]
struct Meter {
    at: Instant,
    bytes: u64,
    bps: Option<u64>,
}

impl TrafficRates {
    /// Records the bytes that each path and flow has carried so far; must be called once a second.
    pub fn note(&mut self, now: Instant, engine: &Engine) {
        for (peer, path) in engine.path_snapshots(now) {
            self.meter(now, peer, Of::Sent(path.id.0), path.sent_bytes);
            self.meter(now, peer, Of::Received(path.id.0), path.received_bytes);
        }
        for (peer, flow, bytes) in engine.flow_bytes() {
            self.meter(now, peer, Of::Flow(flow.0), bytes);
        }
        self.meters.retain(|_, meter| meter.at == now);
    }

    fn meter(&mut self, now: Instant, peer: &str, of: Of, bytes: u64) {
        let key = (peer.to_owned(), of);
        let has_room = self.meters.len() < MAX_METERS;
        if let Some(meter) = self.meters.get_mut(&key) {
            meter.note(now, bytes);
        } else if has_room {
            self.meters.insert(key, Meter { at: now, bytes, bps: None });
        }
    }

    /// Writes the rates of a peer's paths and flows into its status.
    pub fn fill(&self, peer: &mut Peer) {
        let Peer { name, paths, flows, .. } = peer;
        let of = |of: Of| self.meters.get(&(name.clone(), of)).and_then(|meter| meter.bps);
        for Path { id, sending_bps, receiving_bps, .. } in paths {
            (*sending_bps, *receiving_bps) = (of(Of::Sent(*id)), of(Of::Received(*id)));
        }
        for Flow { id, rate_bps, .. } in flows {
            *rate_bps = of(Of::Flow(*id));
        }
    }
}

impl Meter {
    fn note(&mut self, now: Instant, bytes: u64) {
        let time = now - self.at;
        if time.is_zero() {
            return;
        }
        // A total below the earlier one belongs to another path or flow that has the id now.
        let more = bytes.checked_sub(self.bytes);
        self.bps = more.map(|more| bits_per_second(more, time));
        (self.at, self.bytes) = (now, bytes);
    }
}

fn bits_per_second(bytes: u64, time: Duration) -> u64 {
    (bytes as f64 * 8.0 / time.as_secs_f64()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_rate_is_that_of_the_last_interval_and_starts_anew_with_another_flow() {
        let mut meter = Meter { at: at(0), bytes: 500, bps: None };
        meter.note(at(1_000), 1_500);
        assert_eq!(meter.bps, Some(8_000));
        meter.note(at(3_000), 1_500);
        assert_eq!(meter.bps, Some(0));
        meter.note(at(4_000), 10);
        assert_eq!(meter.bps, None);
    }
}
