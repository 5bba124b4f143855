//! Implements fast retransmit and fast recovery without SACK (RFC 5681 §3.2, RFC 6582).
//!
//! It is the variant that resets the timer only on the first partial acknowledgment.

/// Maximum number of segments that limited transmit sends beyond the window, on two duplicate acknowledgments.
///
/// Standard: RFC 3042.
const LIMITED_TRANSMIT_SEGMENTS: u32 = 2;

/// Counts duplicate acknowledgments. In fast recovery, it inflates the window by the segments that left the network.
#[derive(Clone, Debug, Default)]
pub(in crate::tcp) struct NewReno {
    duplicates: u32,
    inflation: i64,
    had_partial: bool,
}

impl NewReno {
    /// Records a duplicate acknowledgment outside recovery, and returns true if it is number `dup_thresh`.
    pub fn duplicate(&mut self, dup_thresh: u32) -> bool {
        self.duplicates += 1;
        self.duplicates == dup_thresh
    }

    /// Returns true if duplicate acknowledgments have arrived since the last acknowledgment of new data.
    pub fn has_duplicates(&self) -> bool {
        self.duplicates > 0
    }

    /// Begins fast recovery (RFC 5681 §3.2 step 3).
    ///
    /// The window is inflated by `dup_thresh` segments, which have left the network.
    pub fn enter(&mut self, dup_thresh: u32, mss: u64) {
        self.inflation = i64::from(dup_thresh) * mss as i64;
        self.had_partial = false;
    }

    /// Inflates the window by one segment for a duplicate in recovery (RFC 5681 §3.2 step 4).
    pub fn inflate(&mut self, mss: u64) {
        self.inflation += mss as i64;
    }

    /// Processes a partial acknowledgment of `acked` bytes in recovery.
    ///
    /// It returns true if the caller must restart the retransmission timer (RFC 6582 §3.2 step 3).
    pub fn partial(&mut self, acked: u64, mss: u64) -> bool {
        self.inflation -= acked as i64;
        if acked >= mss {
            self.inflation += mss as i64;
        }
        !std::mem::replace(&mut self.had_partial, true)
    }

    /// Resets the counters at the end of recovery, or when new data is acknowledged outside recovery.
    pub fn reset(&mut self) {
        self.duplicates = 0;
        self.inflation = 0;
    }

    /// Returns the congestion window `cwnd` plus the inflation of fast recovery, in bytes.
    pub fn inflated(&self, cwnd: u64) -> u64 {
        cwnd.saturating_add_signed(self.inflation)
    }

    /// Returns the number of bytes by which the sender may exceed the congestion window for limited transmit.
    pub fn limited_transmit(&self, dup_thresh: u32, mss: u64) -> u64 {
        u64::from(self.duplicates.min(LIMITED_TRANSMIT_SEGMENTS).min(dup_thresh.saturating_sub(1))) * mss
    }
}
