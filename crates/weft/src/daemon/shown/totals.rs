//! Rates that proxies may send toward each peer: slightly more than its paths carry.

use crate::config::proxy_prefix;
use std::time::Duration;
use weft_engine::PayloadRate;
use weft_tcp_er::proxy::{PeerTotals, Total};

/// Interval between two readings of the paths' rates.
const INTERVAL: Duration = Duration::from_millis(100);
/// Interval between two readings while a rate grows by more than [`GROWS`].
const INTERVAL_WHILE_GROWING: Duration = Duration::from_millis(10);
/// Rate in percent of the earlier rate, above which the growth is taken for fast.
const GROWS: u64 = 120;
/// Rate for proxies, in percent of the paths' rate.
///
/// It is above 100 because paths show their capacity only while they are full. The queue before the tunnel drops the
/// excess from the flows that send it, so other flows do not wait behind it.
const USED: u64 = 104;
/// Reciprocal of the smallest relative change of a rate that is reported: changes up to a fiftieth are ignored.
const WORTH: u64 = 50;

/// Returns the rates toward all peers, including peers that joined by certificate. `last` are the earlier rates.
pub fn totals<'a>(rates: impl Iterator<Item = PayloadRate<'a>>, last: &PeerTotals) -> PeerTotals {
    let mut totals = PeerTotals::default();
    for PayloadRate { prefixes, rate, .. } in rates {
        let prefixes = prefixes.iter().map(|prefix| proxy_prefix(*prefix)).collect();
        let bytes_per_s = rate.map(|rate| rate.bps() / 8 * USED / 100);
        let before = last.0.get(totals.0.len()).and_then(|total| total.bytes_per_s);
        totals.0.push(Total { bytes_per_s: steady(before, bytes_per_s), prefixes });
    }
    totals
}

/// Returns the time until the next reading of the paths' rates, from the earlier rates and the present ones.
pub fn next_check_in(before: &PeerTotals, now: &PeerTotals) -> Duration {
    let hundred = |rate: Option<u64>, times: u64| rate.unwrap_or(0).saturating_mul(times);
    let grows = |before, now| hundred(now, 100) > hundred(before, GROWS);
    let mut both = before.0.iter().zip(&now.0);
    if both.any(|(before, now)| grows(before.bytes_per_s, now.bytes_per_s)) { INTERVAL_WHILE_GROWING } else { INTERVAL }
}

fn steady(before: Option<u64>, now: Option<u64>) -> Option<u64> {
    match (before, now) {
        (Some(before), Some(now)) if before.abs_diff(now) <= before / WORTH => Some(before),
        (_, now) => now,
    }
}

#[cfg(test)]
mod tests {
    use super::{INTERVAL, INTERVAL_WHILE_GROWING, next_check_in, steady};
    use crate::config::proxy_prefix;
    use weft_engine::{PayloadRate, Prefix};
    use weft_session::Identity;
    use weft_tcp_er::proxy::{PeerTotals, Total};
    use weft_units::Rate;

    #[test]
    fn every_peer_of_the_engine_has_a_total_with_its_prefixes() {
        let key = Identity::from_secret([7; 32]).public_key();
        let prefix = Prefix { address: [10, 97, 3, 0].into(), length: 24 };
        let rate = PayloadRate { public_key: &key, prefixes: &[prefix], rate: Some(Rate::from_mbps(8)) };
        let totals = super::totals([rate].into_iter(), &PeerTotals::default());
        let [total] = &totals.0[..] else { panic!("{}", totals.0.len()) };
        assert_eq!((total.bytes_per_s, &total.prefixes[..]), (Some(1_040_000), &[proxy_prefix(prefix)][..]));
    }

    #[test]
    fn small_changes_are_none() {
        assert_eq!(steady(Some(1_000), Some(1_015)), Some(1_000));
        assert_eq!(steady(Some(1_000), Some(1_030)), Some(1_030));
        assert_eq!((steady(None, Some(5)), steady(Some(5), None)), (Some(5), None));
    }

    #[test]
    fn a_growing_total_is_read_more_often() {
        let totals = |of: &[Option<u64>]| {
            PeerTotals(of.iter().map(|bytes_per_s| Total { bytes_per_s: *bytes_per_s, prefixes: Vec::new() }).collect())
        };
        let before = totals(&[Some(1_000), None]);
        assert_eq!(next_check_in(&before, &totals(&[Some(1_190), None])), INTERVAL);
        assert_eq!(next_check_in(&before, &totals(&[Some(500), None])), INTERVAL);
        assert_eq!(next_check_in(&before, &totals(&[Some(2_000), None])), INTERVAL_WHILE_GROWING);
        assert_eq!(next_check_in(&before, &totals(&[Some(1_000), Some(900)])), INTERVAL_WHILE_GROWING);
    }
}
