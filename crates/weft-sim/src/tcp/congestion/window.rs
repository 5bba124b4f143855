//! What the laws that hold a window have in common.

use std::time::Duration;

/// A congestion window and its slow-start threshold, in bytes (RFC 5681 §3.1).
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Window {
    pub mss: u64,
    pub cwnd: u64,
    pub ssthresh: u64,
    initial: u64,
    /// Growth that does not make a byte yet.
    fraction: f64,
}

impl Window {
    pub fn new(mss: u32, initial: u64) -> Window {
        let mss = u64::from(mss.max(1));
        let initial = initial.max(mss);
        Window { mss, cwnd: initial, ssthresh: u64::MAX, initial, fraction: 0.0 }
    }

    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Opens the window by `bytes`, as far as ssthresh allows; returns what is left of them.
    pub fn slow_start(&mut self, bytes: u64) -> u64 {
        let growth = bytes.min(self.ssthresh.saturating_sub(self.cwnd));
        self.cwnd = self.cwnd.saturating_add(growth);
        bytes - growth
    }

    /// Opens the window by `bytes`, keeping fractions for the next time.
    pub fn grow(&mut self, bytes: f64) {
        let grown = self.fraction + bytes.max(0.0);
        let whole = grown as u64;
        self.cwnd = self.cwnd.saturating_add(whole);
        self.fraction = grown - whole as f64;
    }

    /// Fast recovery: window and threshold become `bytes`, at least two segments.
    pub fn reduce(&mut self, bytes: u64) {
        self.ssthresh = bytes.max(2 * self.mss);
        self.cwnd = self.ssthresh;
    }

    /// Timeout: the threshold becomes `bytes`, at least two segments, and the window one segment.
    pub fn collapse(&mut self, bytes: u64) {
        self.reduce(bytes);
        self.cwnd = self.mss;
    }

    /// Undoes a reduction: as large as `before` it, or as now, if that is larger.
    pub fn undo(&mut self, before: &Window) {
        self.cwnd = self.cwnd.max(before.cwnd);
        self.ssthresh = self.ssthresh.max(before.ssthresh);
    }

    /// After idling, the window halves for each `rto` idled, down to the initial window; the threshold remembers three quarters of it
    /// (RFC 2861 §3.2).
    pub fn restart(&mut self, idle: Duration, rto: Duration) {
        let periods = idle.as_nanos().checked_div(rto.as_nanos()).unwrap_or(0);
        if periods == 0 {
            return;
        }
        self.ssthresh = self.ssthresh.max(self.cwnd - self.cwnd / 4);
        let halved = self.cwnd.checked_shr(u32::try_from(periods).unwrap_or(u32::MAX)).unwrap_or(0);
        self.cwnd = halved.max(self.initial.min(self.cwnd));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idling_halves_the_window_each_timeout_and_remembers_three_quarters() {
        let mut w = Window::new(1000, 10_000);
        w.cwnd = 64_000;
        w.ssthresh = 20_000;
        w.restart(Duration::from_millis(199), Duration::from_millis(200));
        assert_eq!((w.cwnd, w.ssthresh), (64_000, 20_000));
        w.restart(Duration::from_millis(450), Duration::from_millis(200));
        assert_eq!((w.cwnd, w.ssthresh), (16_000, 48_000));
        w.restart(Duration::from_secs(3600), Duration::from_millis(200));
        assert_eq!((w.cwnd, w.ssthresh), (10_000, 48_000));
    }

    #[test]
    fn fractions_of_a_byte_add_up() {
        let mut w = Window::new(1000, 10_000);
        (0..1000).for_each(|_| w.grow(0.25));
        assert_eq!(w.cwnd, 10_250);
    }

    #[test]
    fn slow_start_stops_at_the_threshold() {
        let mut w = Window::new(1000, 4000);
        w.ssthresh = 5500;
        assert_eq!(w.slow_start(2000), 500);
        assert_eq!(w.cwnd, 5500);
        assert!(!w.in_slow_start());
    }
}
