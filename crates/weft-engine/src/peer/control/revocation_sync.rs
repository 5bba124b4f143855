//! Progress of one peer through the node's list of revocations.

use crate::path::Resend;
use weft_units::Instant;

/// Most false revocations accepted from a peer in a session.
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
