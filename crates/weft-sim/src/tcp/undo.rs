//! Detects by DSACK that the segments that were declared lost had all arrived (RFC 3708).
//!
//! The window reduction can then be undone (RFC 4015).

/// Counts the retransmissions of the last loss recovery that the receiver has not reported as duplicates.
///
/// If the receiver reports each retransmission as a duplicate, all original segments had arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Undo {
    began_at: u64,
    copies: u32,
    armed: bool,
}

impl Undo {
    /// Restarts the count of unreported retransmissions at 0, when the window is reduced.
    ///
    /// `una` is the sequence number of the first unacknowledged byte.
    pub fn begin(&mut self, una: u64) {
        *self = Undo { began_at: una, copies: 0, armed: true };
    }

    /// Adds one to the count of retransmissions that the receiver has not reported as duplicates.
    pub fn copy_sent(&mut self) {
        self.copies += 1;
    }

    /// Processes a DSACK for the segment at `seq`, of which the receiver got two copies.
    ///
    /// It returns true if the receiver has now reported all retransmissions, so that nothing was lost.
    pub fn duplicate_reported(&mut self, seq: u64) -> bool {
        if !self.armed || seq < self.began_at || self.copies == 0 {
            return false;
        }
        self.copies -= 1;
        self.armed = self.copies > 0;
        !self.armed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_all_copies_twice_mean_that_nothing_was_lost() {
        let mut undo = Undo::default();
        assert!(!undo.duplicate_reported(0));
        undo.begin(1000);
        undo.copy_sent();
        undo.copy_sent();
        assert!(!undo.duplicate_reported(500));
        assert!(!undo.duplicate_reported(1000));
        assert!(undo.duplicate_reported(2000));
        assert!(!undo.duplicate_reported(2000));
    }
}
