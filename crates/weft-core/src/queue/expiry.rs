//! When waiting units become too old to be of use.

use weft_units::Instant;

/// The times from which a waiting unit is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expiry {
    /// Dropped from then on where a newer unit of its flow waits behind it.
    pub superseded_at: Instant,
    /// Dropped from then on even if it is the newest of its flow.
    pub useless_at: Instant,
}

impl Expiry {
    /// Whether the unit is to be dropped at `now`; `is_newest`: no newer unit of its flow waits.
    pub(super) fn has_passed(&self, now: Instant, is_newest: bool) -> bool {
        now >= if is_newest { self.useless_at } else { self.superseded_at }
    }
}
