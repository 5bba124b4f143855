//! Implements the congestion window that Reno, CUBIC and BIC share.

use std::time::Duration;

/// A congestion window and its slow-start threshold, in bytes (RFC 5681 §3.1).
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct CongestionWindow {
    pub mss: f64,
    pub cwnd: f64,
    pub ssthresh: f64,
    initial: f64,
    /// True if limited slow start (RFC 3742) is in use, which grows large windows more slowly.
    limited: bool,
}

/// Window above which limited slow start grows more slowly, in segments.
///
/// Above it, the window grows by at most half of this value in a round trip. Standard: max_ssthresh of RFC 3742.
const LIMITED_BEYOND: f64 = 100.0;

impl CongestionWindow {
    pub fn new(mss: u32, initial_bytes: u64) -> CongestionWindow {
        let mss = f64::from(mss.max(1));
        let initial = (initial_bytes as f64).max(mss);
        CongestionWindow { mss, cwnd: initial, ssthresh: f64::INFINITY, initial, limited: false }
    }

    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Returns the window in segments.
    pub fn segments(&self) -> f64 {
        self.cwnd / self.mss
    }

    /// Opens the window by `bytes`, at most up to ssthresh. Returns the bytes that were not needed for that.
    pub fn slow_start(&mut self, bytes: f64) -> f64 {
        let slower = self.slowdown();
        let growth = (bytes / slower).min(self.ssthresh - self.cwnd).max(0.0);
        self.cwnd += growth;
        bytes - growth * slower
    }

    /// Returns the number by which limited slow start divides the growth (K of RFC 3742 §2); 1 in normal slow start.
    fn slowdown(&self) -> f64 {
        if self.limited && self.segments() > LIMITED_BEYOND {
            (2.0 * self.segments() / LIMITED_BEYOND).floor()
        } else {
            1.0
        }
    }

    /// Sets the window to `bytes`, from which limited slow start continues.
    pub fn begin_at(&mut self, bytes: f64) {
        (self.cwnd, self.limited) = (bytes, true);
    }

    /// Sets window and threshold to `bytes`, at least two segments, for fast recovery.
    pub fn reduce(&mut self, bytes: f64) {
        self.ssthresh = bytes.max(2.0 * self.mss);
        self.cwnd = self.ssthresh;
    }

    /// Reduces threshold and window after a timeout.
    ///
    /// The threshold becomes `bytes`, at least two segments, and the window one segment.
    pub fn collapse(&mut self, bytes: f64) {
        self.reduce(bytes);
        self.cwnd = self.mss;
    }

    /// Undoes a reduction. Returns true if the window was below that of `before` and is restored.
    ///
    /// It never lowers a window or threshold that has grown beyond `before`.
    pub fn undo(&mut self, before: &CongestionWindow) -> bool {
        self.ssthresh = self.ssthresh.max(before.ssthresh);
        let undone = before.cwnd > self.cwnd;
        self.cwnd = self.cwnd.max(before.cwnd);
        undone
    }

    /// Halves the window for each `rto` in `idle`, not below the initial window (RFC 2861 §3.2).
    ///
    /// The slow-start threshold becomes at least three quarters of the old window.
    pub fn restart(&mut self, idle: Duration, rto: Duration) {
        let periods = idle.as_nanos().checked_div(rto.as_nanos()).unwrap_or(0);
        if periods == 0 {
            return;
        }
        self.ssthresh = self.ssthresh.max(0.75 * self.cwnd);
        let floor = self.initial.min(self.cwnd);
        for _ in 0..periods {
            self.cwnd /= 2.0;
            if self.cwnd <= floor {
                self.cwnd = floor;
                break;
            }
        }
    }

    pub fn cwnd_bytes(&self) -> u64 {
        self.cwnd as u64
    }

    /// Returns the slow-start threshold in bytes, which is `u64::MAX` before the first reduction.
    pub fn ssthresh_bytes(&self) -> u64 {
        self.ssthresh as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idling_halves_the_window_each_timeout_and_remembers_three_quarters() {
        let mut w = CongestionWindow::new(1000, 10_000);
        w.cwnd = 64_000.0;
        w.ssthresh = 20_000.0;
        w.restart(Duration::from_millis(199), Duration::from_millis(200));
        assert_eq!((w.cwnd_bytes(), w.ssthresh_bytes()), (64_000, 20_000));
        w.restart(Duration::from_millis(450), Duration::from_millis(200));
        assert_eq!((w.cwnd_bytes(), w.ssthresh_bytes()), (16_000, 48_000));
        w.restart(Duration::from_secs(u64::MAX / 2), Duration::from_nanos(1));
        assert_eq!((w.cwnd_bytes(), w.ssthresh_bytes()), (10_000, 48_000));
    }

    #[test]
    fn a_limited_slow_start_opens_by_fifty_segments_a_round() {
        let mut w = CongestionWindow::new(1000, 10_000);
        w.begin_at(100_000.0);
        let round = |w: &mut CongestionWindow| {
            let before = w.cwnd;
            (0..before as u64 / 1000).for_each(|_| _ = w.slow_start(1000.0));
            ((w.cwnd - before) / 1000.0).round()
        };
        assert!((45.0..=55.0).contains(&round(&mut w)));
        (0..20).for_each(|_| _ = round(&mut w));
        assert!((45.0..=55.0).contains(&round(&mut w)), "however large it is");
    }

    #[test]
    fn slow_start_stops_at_the_threshold() {
        let mut w = CongestionWindow::new(1000, 4000);
        w.ssthresh = 5500.0;
        assert_eq!(w.slow_start(2000.0), 500.0);
        assert_eq!(w.cwnd_bytes(), 5500);
        assert!(!w.in_slow_start());
    }
}
