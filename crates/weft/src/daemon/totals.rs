//! What proxies may send toward each peer: what its paths carry, less some room.

use crate::config::{Config, proxy_prefix};
use std::time::Duration;
use weft_engine::PayloadRate;
use weft_tcp_er::proxy::{Total, Totals};
use weft_units::Instant;

/// How often it is looked at.
pub const INTERVAL: Duration = Duration::from_millis(100);
/// So much of it is used, in hundredths, so that the queue stands before the proxies and not in the tunnel …
const USED: u64 = 95;
/// … but for one interval in so many more than all of it, since paths show what they carry only when they are full.
const TRIED: u64 = 125;
const TRY_FOR: Duration = Duration::from_millis(500);
const TRY_EVERY: Duration = Duration::from_secs(5);
/// A change by a smaller part is none.
const WORTH: u64 = 50;

/// The totals toward the peers of `config`, after `last`.
pub fn totals<'a>(
    config: &Config,
    rates: impl Iterator<Item = PayloadRate<'a>>,
    now: Instant,
    last: &Totals,
) -> Totals {
    let since_start = now.since(Instant::ZERO).as_nanos();
    let is_trying = since_start % TRY_EVERY.as_nanos() < TRY_FOR.as_nanos();
    let part = if is_trying { TRIED } else { USED };
    let mut totals = Totals::default();
    for PayloadRate { public_key, rate } in rates {
        let Some(peer) = config.peers.iter().find(|peer| peer.public_key.value == *public_key) else { continue };
        let prefixes = peer.prefixes.iter().map(|at| proxy_prefix(at.value)).collect();
        let bytes_per_s = rate.map(|rate| rate.bps() / 8 * part / 100);
        let before = last.0.get(totals.0.len()).and_then(|total| total.bytes_per_s);
        totals.0.push(Total { bytes_per_s: steady(before, bytes_per_s), prefixes });
    }
    totals
}

fn steady(before: Option<u64>, now: Option<u64>) -> Option<u64> {
    match (before, now) {
        (Some(before), Some(now)) if before.abs_diff(now) <= before / WORTH => Some(before),
        (_, now) => now,
    }
}

#[cfg(test)]
mod tests {
    use super::steady;

    #[test]
    fn small_changes_are_none() {
        assert_eq!(steady(Some(1_000), Some(1_015)), Some(1_000));
        assert_eq!(steady(Some(1_000), Some(1_030)), Some(1_030));
        assert_eq!((steady(None, Some(5)), steady(Some(5), None)), (Some(5), None));
    }
}
