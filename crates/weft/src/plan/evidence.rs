//! Rates of a path, and how each of them is known.

use crate::status::{Path, PathHistory, Point};
use crate::table::{rate, span};
use std::time::Duration;
use weft_units::Rate;

/// A rate, and a text that states how it is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownRate {
    pub rate: Rate,
    pub source: String,
}

impl KnownRate {
    fn new(bps: u64, source: impl Into<String>) -> Option<KnownRate> {
        (bps > 0).then(|| KnownRate { rate: Rate::from_bps(bps), source: source.into() })
    }
}

/// Returns the rate at which a node can send on its path, and the evidence for it. `None` if there is no evidence.
///
/// The best evidence is the median of the last ten minutes (else of the last day), because the present rate may be that
/// of a short disturbance. Then follows the present rate, and last the link's limit. `limit_bps` is that limit, which
/// the node sets itself and which the rate does not exceed.
pub fn sending_rate(path: &Path, history: Option<&PathHistory>, limit_bps: Option<u64>) -> Option<KnownRate> {
    let typical = history.and_then(|history| typical(&history.seconds).or_else(|| typical(&history.minutes)));
    let limit = || KnownRate::new(limit_bps?, "not measured: assumed to be the link's configured limit");
    let known = match (present_rate(path), typical) {
        (Some(now), Some(typical)) => {
            Some(KnownRate { source: format!("{}: {}", now.source, typical.source), ..typical })
        }
        (Some(now), None) => Some(now),
        (None, Some(typical)) => Some(KnownRate {
            source: format!(
                "the path carries no traffic now, so its rate for the simulation is the {}",
                typical.source
            ),
            ..typical
        }),
        (None, None) => limit(),
    }?;
    Some(match limit_bps.map(Rate::from_bps).filter(|limit| *limit < known.rate) {
        Some(limit) => {
            let source = format!(
                "the link's configured limit, because the path's rate of {} is higher ({})",
                known.rate, known.source
            );
            KnownRate { rate: limit, source }
        }
        None => known,
    })
}

/// Returns the present estimate of the path's capacity: measured under load, or else by packet trains.
///
/// Returns `None` if there is no estimate.
fn present_rate(path: &Path) -> Option<KnownRate> {
    let learnt = || KnownRate::new(path.capacity_bps?, "measured under load");
    let by_trains = || {
        let sensed = path.sensed.as_ref()?;
        let age = span(Duration::from_millis(sensed.age_ms));
        KnownRate::new(sensed.capacity_bps?, format!("measured by packet trains {age} ago"))
    };
    learnt().or_else(by_trains)
}

/// Returns the median of the capacities in a history. `None` if the history has none.
fn typical(points: &[Point]) -> Option<KnownRate> {
    let mut values: Vec<u64> = points.iter().filter_map(|point| point.capacity_bps).map(|bps| bps as u64).collect();
    values.sort_unstable();
    let (least, most) = (rate(values.first().copied()), rate(values.last().copied()));
    let source = format!("median of the last {} measured rates, which are {least} to {most}", values.len());
    values.get(values.len() / 2).and_then(|median| KnownRate::new(*median, source))
}

/// Returns the rate from the peer.
///
/// Only the peer measures this rate. `far` is the peer's view of the path. Without `far`, the rate is assumed to be
/// the rate `to` the peer, or the rate that the path receives now if that is higher.
pub fn receiving_rate(path: &Path, far: Option<&Path>, to: &KnownRate) -> KnownRate {
    let measured = far.and_then(|far| sending_rate(far, None, None));
    let by_peer = |known: KnownRate| KnownRate { source: format!("from the peer's status: {}", known.source), ..known };
    measured.map(by_peer).unwrap_or_else(|| {
        match path.receiving_bps.map(Rate::from_bps).filter(|received| *received > to.rate) {
            Some(rate) => KnownRate { rate, source: "at least: received in the last second".to_owned() },
            None => KnownRate { rate: to.rate, source: "not measured here: assumed to be the other way's".to_owned() },
        }
    })
}
