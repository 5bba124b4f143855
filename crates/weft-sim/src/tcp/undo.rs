//! Telling by DSACK that nothing had been lost (RFC 3708), so that the response can be undone (RFC 4015).

/// Follows the copies sent in the last loss recovery: if the receiver reports each as a duplicate, all originals had arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Undo {
    began_at: u64,
    copies: u32,
    armed: bool,
}

impl Undo {
    /// The window is reduced, with all before `una` acknowledged.
    pub fn begin(&mut self, una: u64) {
        *self = Undo { began_at: una, copies: 0, armed: true };
    }

    /// A segment leaves again.
    pub fn copy_sent(&mut self) {
        self.copies += 1;
    }

    /// The receiver has the segment at `seq` twice. Says whether that accounts for all copies.
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
