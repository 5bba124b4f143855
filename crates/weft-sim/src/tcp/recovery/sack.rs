//! Recovers losses with the SACK scoreboard (RFC 6675).

use crate::tcp::scoreboard::Scoreboard;

/// The variables of SACK-based loss recovery (RFC 6675).
///
/// Sequence numbers are those after the last byte of a segment.
#[derive(Clone, Debug, Default)]
pub(in crate::tcp) struct Sack {
    duplicates: u32,
    /// Sequence number below which every segment without a SACK is lost.
    ///
    /// IsLost of RFC 6675 is true for segments below this number without a SACK, and false for all other segments.
    lost_below: u64,
    high_rxt: u64,
    rescue_rxt: u64,
}

impl Sack {
    /// Counts an acknowledgment that contained only new SACKs (RFC 6675 §2: duplicate acknowledgment).
    ///
    /// It returns true if the count is at least `dup_thresh` (RFC 6675 §5 step 1).
    pub fn duplicate(&mut self, dup_thresh: u32) -> bool {
        self.duplicates += 1;
        self.duplicates >= dup_thresh
    }

    /// Resets the count of duplicates, because the cumulative acknowledgment has advanced.
    pub fn advanced(&mut self) {
        self.duplicates = 0;
    }

    /// Marks the segments for which IsLost is true, given SACKs up to `high_sacked`.
    ///
    /// It returns the number of bytes that left the pipe.
    pub fn detect(&mut self, board: &mut Scoreboard, high_sacked: u64, dup_thresh: u32, mss: u64) -> u64 {
        let from = board.position(self.lost_below);
        let top = board.position(high_sacked);
        let Some(last) = last_lost(board, from, top, dup_thresh, mss) else { return 0 };
        let before = board.pipe_bytes();
        (from..=last).for_each(|index| board.mark_original_lost(index));
        if let Some(sent) = board.get(last) {
            self.lost_below = sent.end();
        }
        before - board.pipe_bytes()
    }

    /// Begins recovery, in which the segment that ends at `first_end` is retransmitted first (RFC 6675 §5 step 4.3).
    pub fn enter(&mut self, first_end: u64) {
        self.high_rxt = first_end;
        self.rescue_rxt = first_end;
    }

    /// Records the retransmission of the segment that ends at `end` (RFC 6675 §5 step C.2).
    pub fn retransmitted(&mut self, end: u64) {
        self.high_rxt = self.high_rxt.max(end);
    }

    /// Returns the index in `board` of the segment that rules 3 and 4 of NextSeg (RFC 6675 §4) select.
    ///
    /// The sender uses it when nothing is lost and no new data may be sent.
    pub fn next_speculative(
        &mut self,
        board: &Scoreboard,
        una: u64,
        high_sacked: u64,
        recovery_point: u64,
    ) -> Option<usize> {
        let third = (board.position(self.high_rxt)..board.position(high_sacked))
            .find(|&index| board.get(index).is_some_and(|sent| !sent.is_sacked() && !sent.is_repeated()));
        if let Some(index) = third {
            return Some(index);
        }
        if una <= self.rescue_rxt {
            return None;
        }
        let rescue = board.iter().rposition(|sent| !sent.is_sacked())?;
        self.rescue_rxt = recovery_point;
        Some(rescue)
    }
}

/// Returns the index of the last lost segment among the segments with the indices `from..top`.
///
/// A segment is lost if above it are `dup_thresh` separate SACKed ranges, or more SACKed bytes than `dup_thresh - 1`
/// segments have.
fn last_lost(board: &Scoreboard, from: usize, top: usize, dup_thresh: u32, mss: u64) -> Option<usize> {
    let enough_bytes = u64::from(dup_thresh.saturating_sub(1)) * mss;
    let (mut runs, mut bytes, mut in_run) = (0, 0, false);
    (from..top).rev().find(|&index| {
        let Some(sent) = board.get(index) else { return false };
        if sent.is_sacked() {
            runs += u32::from(!in_run);
            bytes += u64::from(sent.len);
        }
        in_run = sent.is_sacked();
        !in_run && (runs >= dup_thresh || bytes > enough_bytes)
    })
}
