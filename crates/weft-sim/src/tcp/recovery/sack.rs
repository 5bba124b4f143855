//! Loss recovery from the SACK scoreboard (RFC 6675).

use crate::tcp::scoreboard::Scoreboard;

/// RFC 6675's variables. Sequence numbers are exclusive ends: "the byte after".
#[derive(Clone, Debug, Default)]
pub(in crate::tcp) struct Sack {
    duplicates: u32,
    /// Everything before it that is not SACKed is lost: IsLost holds below, and is false above.
    lost_below: u64,
    high_rxt: u64,
    rescue_rxt: u64,
}

impl Sack {
    /// An acknowledgment brought new SACKs and nothing else (§2's duplicate). Says whether they are `dup_thresh` (§5 step 1).
    pub fn duplicate(&mut self, dup_thresh: u32) -> bool {
        self.duplicates += 1;
        self.duplicates >= dup_thresh
    }

    /// The cumulative acknowledgment moved.
    pub fn advanced(&mut self) {
        self.duplicates = 0;
    }

    /// Marks what IsLost says is lost, with SACKs up to `high_sacked`. Returns the bytes that left the pipe.
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

    /// Recovery begins with the retransmission of the segment that ends at `first_end` (§5 step 4.3).
    pub fn enter(&mut self, first_end: u64) {
        self.high_rxt = first_end;
        self.rescue_rxt = first_end;
    }

    /// The segment that ends at `end` leaves again (§5 step C.2).
    pub fn retransmitted(&mut self, end: u64) {
        self.high_rxt = self.high_rxt.max(end);
    }

    /// NextSeg's rules 3 and 4 (§4), when there is nothing lost and nothing new to send: which segment to send again.
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

/// The last segment in `from..top` with `dup_thresh` separate SACKed runs above it, or more than `dup_thresh - 1` segments' bytes.
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
