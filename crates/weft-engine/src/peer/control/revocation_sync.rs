//! Progress of one peer through the node's list of revocations.

use crate::path::Resend;
use weft_units::Instant;

/// Maximum number of false revocations accepted from a peer in a session.
///
/// Checking a signature is work, so further ones are ignored.
pub const MAX_FALSE: u8 = 16;

/// Progress of one peer through the node's list of revocations.
#[derive(Debug, Default)]
pub struct RevocationSync {
    /// Number of revocations that the peer has acknowledged.
    pub told: u16,
    /// Time until which a datagram with revocations counts as in flight.
    pub under_way_until: Option<Instant>,
    /// Number of false revocations received from the peer.
    pub false_ones: u8,
    /// Arrival time of the last false revocation.
    pub false_at: Option<Instant>,
}

impl RevocationSync {
    pub fn is_due(&self, now: Instant, known: usize) -> bool {
        usize::from(self.told) < known && self.under_way_until.is_none_or(|until| until <= now)
    }

    pub fn on_delivered(&mut self, resend: Resend) {
        if resend.revocations > 0 {
            self.told = self.told.max(resend.revocations);
            self.under_way_until = None;
        }
    }

    pub fn on_lost(&mut self, resend: Resend) {
        if resend.revocations > self.told {
            self.under_way_until = None;
        }
    }

    /// Returns the time at which revocations are sent again.
    pub fn deadline(&self) -> Option<Instant> {
        self.under_way_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::{Duration, Rng};

    /// Draws the fate of each datagram. The peer has the whole list in the end, and is never taken to have more of it
    /// than arrived.
    #[test]
    fn a_peer_gets_the_whole_list_whatever_is_lost() {
        let mut rng = Rng::new(31);
        for _ in 0..200 {
            let (mut sync, mut now, known) = (RevocationSync::default(), Instant::ZERO, 1 + rng.below(100) as u16);
            let (mut arrived, mut datagrams) = (0, 0);
            while usize::from(sync.told) < usize::from(known) {
                now += Duration::from_millis(1 + rng.below(300));
                if !sync.is_due(now, known.into()) {
                    continue;
                }
                let until = (sync.told + 1 + rng.below(8) as u16).min(known);
                sync.under_way_until = Some(now + Duration::from_millis(500));
                let resend = Resend { revocations: until, ..Resend::default() };
                datagrams += 1;
                match rng.below(3) {
                    0 => sync.on_lost(resend),
                    1 => {}
                    _ => {
                        arrived = arrived.max(until);
                        sync.on_delivered(resend);
                    }
                }
                assert!(sync.told <= arrived);
                assert!(datagrams < 10_000, "no progress");
            }
            assert!(!sync.is_due(now + Duration::from_secs(9), known.into()), "nothing is sent again");
        }
    }
}
