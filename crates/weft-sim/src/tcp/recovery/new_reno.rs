//! Fast retransmit and fast recovery without SACK (RFC 5681 §3.2, RFC 6582), in the variant that resets the timer on the first
//! partial acknowledgment only.

/// RFC 3042: at most two segments beyond the window, on the first two duplicate acknowledgments.
const LIMITED_TRANSMIT_SEGMENTS: u32 = 2;

/// Counts duplicates, and inflates the window by what they say has left the network.
#[derive(Clone, Debug, Default)]
pub(in crate::tcp) struct NewReno {
    duplicates: u32,
    inflation: i64,
    had_partial: bool,
}

impl NewReno {
    /// Not in recovery: one more duplicate. Says whether they are `dup_thresh` now.
    pub fn duplicate(&mut self, dup_thresh: u32) -> bool {
        self.duplicates += 1;
        self.duplicates == dup_thresh
    }

    /// The last acknowledgments were duplicates.
    pub fn has_duplicates(&self) -> bool {
        self.duplicates > 0
    }

    /// Fast recovery begins: what `dup_thresh` duplicates stand for has left the network (RFC 5681 §3.2 step 3).
    pub fn enter(&mut self, dup_thresh: u32, mss: u64) {
        self.inflation = i64::from(dup_thresh) * mss as i64;
        self.had_partial = false;
    }

    /// In recovery: one more segment has left (RFC 5681 §3.2 step 4).
    pub fn inflate(&mut self, mss: u64) {
        self.inflation += mss as i64;
    }

    /// In recovery: `acked` bytes, but not all. Says whether the timer restarts (RFC 6582 §3.2 step 3).
    pub fn partial(&mut self, acked: u64, mss: u64) -> bool {
        self.inflation -= acked as i64;
        if acked >= mss {
            self.inflation += mss as i64;
        }
        !std::mem::replace(&mut self.had_partial, true)
    }

    /// New data was acknowledged outside of recovery, or recovery ends.
    pub fn reset(&mut self) {
        self.duplicates = 0;
        self.inflation = 0;
    }

    /// The window in fast recovery.
    pub fn inflated(&self, cwnd: u64) -> u64 {
        cwnd.saturating_add_signed(self.inflation)
    }

    /// How far limited transmit may go beyond the window.
    pub fn limited_transmit(&self, dup_thresh: u32, mss: u64) -> u64 {
        u64::from(self.duplicates.min(LIMITED_TRANSMIT_SEGMENTS).min(dup_thresh.saturating_sub(1))) * mss
    }
}
