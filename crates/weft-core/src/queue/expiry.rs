//! Times from which a waiting unit is useless and is dropped.

use weft_units::Instant;

/// Times from which a waiting unit is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expiry {
    /// From this time the queue drops the unit if a newer unit of its flow waits behind it.
    pub superseded_at: Instant,
    /// From this time the queue drops the unit even if it is the newest of its flow.
    pub useless_at: Instant,
}

impl Expiry {
    /// True if the unit must be dropped at `now`.
    ///
    /// `is_newest` means that no newer unit of its flow waits.
    pub(super) fn has_passed(&self, now: Instant, is_newest: bool) -> bool {
        now >= if is_newest { self.useless_at } else { self.superseded_at }
    }
}
