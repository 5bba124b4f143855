//! Records which part of this node's list of revocations a peer has received, and limits false revocations from it.

use crate::path::Resend;
use weft_units::{Duration, Instant};

/// Maximum number of revocations with a false signature that are checked for a peer in a session.
const MAX_FALSE: u8 = 16;
/// Time after a false revocation from a peer in which no other revocation from it is checked.
///
/// *Derived*: a check takes 40 µs. A peer that sends 1,000 revocations a second then causes one check a second.
const FALSE_APART: Duration = Duration::from_secs(1);

/// Which part of this node's list of revocations a peer has received, and false revocations received from it.
#[derive(Debug, Default)]
pub struct RevocationSync {
    /// Number of revocations, from the beginning of this node's list, that the peer has acknowledged.
    pub told: u16,
    /// Time until which a sent datagram with revocations counts as in flight; `None` if none is.
    pub under_way_until: Option<Instant>,
    /// Number of revocations with a false signature that arrived from the peer.
    false_ones: u8,
    /// Arrival time of the last revocation with a false signature.
    false_at: Option<Instant>,
}

impl RevocationSync {
    /// True if the signature of a revocation from the peer may be checked now.
    pub fn may_check(&self, now: Instant) -> bool {
        self.false_ones < MAX_FALSE && self.false_at.is_none_or(|at| now - at >= FALSE_APART)
    }

    /// Records that a revocation from the peer had a false signature.
    pub fn on_false(&mut self, now: Instant) {
        self.false_ones += 1;
        self.false_at = Some(now);
    }

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

    /// Returns the time at which revocations are sent again if no acknowledgement arrives.
    pub fn deadline(&self) -> Option<Instant> {
        self.under_way_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use weft_units::Rng;

    #[test]
    fn false_revocations_are_checked_once_a_second_and_sixteen_times() {
        let mut rng = Rng::new(32);
        for _ in 0..200 {
            let (mut sync, mut now, mut checked) = (RevocationSync::default(), Instant::ZERO, Vec::new());
            for _ in 0..1_000 {
                now += Duration::from_nanos(rng.below(300_000_000));
                if sync.may_check(now) {
                    sync.on_false(now);
                    checked.push(now);
                }
            }
            assert_eq!(checked.len(), usize::from(MAX_FALSE));
            assert!(checked.windows(2).all(|pair| pair[1] - pair[0] >= FALSE_APART));
            assert!(checked.windows(2).all(|pair| pair[1] - pair[0] < FALSE_APART + Duration::from_millis(300)));
        }
    }

    /// Sends the list while each datagram arrives or is lost at random.
    ///
    /// The peer has the whole list in the end. The recorded number never exceeds the number that arrived.
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
