//! Limit on log lines about a peer, so that a peer cannot fill the log.

use std::collections::HashMap;
use std::time::Duration;
use weft_units::{Instant, PeerId};

/// Minimum mean interval between two log lines about one peer.
const INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of lines at once after a long silence, so that each path of a peer can fail and return twice.
const BURST: u32 = 128;

/// Token bucket of one peer's log lines.
#[derive(Default)]
struct Allowance {
    /// Time at which the allowance is whole again. Each written line moves it on by one [`INTERVAL`].
    paid_at: Instant,
    omitted: u64,
}

/// Token buckets of all peers.
#[derive(Default)]
pub struct Allowances(HashMap<PeerId, Allowance>);

impl Allowances {
    /// Returns the number of lines omitted since the last logged line. `None` if no line may be logged now.
    pub fn take(&mut self, now: Instant, peer: PeerId) -> Option<u64> {
        let allowance = self.0.entry(peer).or_default();
        let paid_at = allowance.paid_at.max(now) + INTERVAL;
        if paid_at.since(now) > INTERVAL * BURST {
            allowance.omitted += 1;
            return None;
        }
        allowance.paid_at = paid_at;
        Some(std::mem::take(&mut allowance.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_events_of_one_peer_are_logged_in_part_and_counted() {
        let (mut allowances, mut logged, mut omitted) = (Allowances::default(), 0u64, 0);
        for ms in 0..60_000 {
            let now = Instant::from_millis(1_000 + ms);
            if let Some(before) = allowances.take(now, PeerId(1)) {
                (logged, omitted) = (logged + 1, omitted + before);
            }
        }
        assert!((200..=250).contains(&logged), "{logged} lines in a minute");
        assert!(logged + omitted > 59_000, "{omitted} are said to be omitted");
        let now = Instant::from_millis(61_000);
        assert!((0..BURST).all(|_| allowances.take(now, PeerId(2)) == Some(0)), "another peer has its own");
    }
}
