//! Reno: slow start, additive increase, multiplicative decrease (RFC 5681).
//!
//! It uses appropriate byte counting (RFC 3465).

use super::window::CongestionWindow;
use super::{AckEvent, Law};
use std::time::Duration;
use weft_units::Instant;

/// The window of a Reno sender, with the bytes counted toward its next increase.
#[derive(Clone, Debug)]
pub(super) struct Reno {
    window: CongestionWindow,
    /// Maximum number of bytes by which one acknowledgment opens the window in slow start.
    ///
    /// `None` if the window grows by the number of acknowledgments instead of acknowledged bytes.
    abc_limit_bytes: Option<f64>,
    /// Bytes acknowledged since the window last opened (bytes_acked of RFC 3465 §2.1).
    counted: f64,
    /// True in the slow start after a timeout.
    ///
    /// An acknowledgment then opens the window by at most one segment (RFC 3465 §2.3).
    after_timeout: bool,
    before: CongestionWindow,
}

impl Reno {
    pub fn new(abc_limit_segments: u32, mss: u32, initial_window_bytes: u64) -> Reno {
        let window = CongestionWindow::new(mss, initial_window_bytes);
        let abc_limit_bytes = (abc_limit_segments > 0).then_some(f64::from(abc_limit_segments) * window.mss);
        Reno { window, abc_limit_bytes, counted: 0.0, after_timeout: false, before: window }
    }

    /// Returns the maximum number of bytes by which an acknowledgment opens the window in slow start.
    ///
    /// The rules are those of RFC 3465 §2.2 and §2.3.
    fn slow_start_limit(&self) -> f64 {
        if self.after_timeout { self.window.mss } else { self.abc_limit_bytes.unwrap_or(self.window.mss) }
    }

    fn avoid_congestion(&mut self, acked_bytes: f64) {
        if self.abc_limit_bytes.is_none() {
            self.window.cwnd += acked_bytes.min(self.window.mss) * self.window.mss / self.window.cwnd;
            return;
        }
        self.counted += acked_bytes;
        while self.counted >= self.window.cwnd {
            self.counted -= self.window.cwnd;
            self.window.cwnd += self.window.mss;
        }
    }
}

impl Law for Reno {
    fn on_ack(&mut self, ack: &AckEvent) {
        if ack.in_recovery || ack.app_limited {
            return;
        }
        let mut bytes = ack.acked_bytes as f64;
        if self.window.in_slow_start() {
            bytes = self.window.slow_start(bytes.min(self.slow_start_limit()));
        }
        if !self.window.in_slow_start() {
            self.after_timeout = false;
            self.avoid_congestion(bytes);
        }
    }

    fn on_congestion(&mut self, _now: Instant, flight_bytes: u64) {
        self.before = self.window;
        self.window.reduce(flight_bytes as f64 / 2.0);
        self.counted = 0.0;
    }

    fn on_timeout(&mut self, _now: Instant, flight_bytes: u64) {
        self.before = self.window;
        self.window.collapse(flight_bytes as f64 / 2.0);
        self.counted = 0.0;
        self.after_timeout = true;
    }

    fn on_spurious(&mut self) {
        self.window.undo(&self.before);
        self.after_timeout = false;
    }

    fn on_restart(&mut self, _now: Instant, idle: Duration, rto: Duration) {
        self.window.restart(idle, rto);
    }

    fn cwnd_bytes(&self) -> u64 {
        self.window.cwnd_bytes()
    }

    fn window_mut(&mut self) -> Option<&mut CongestionWindow> {
        Some(&mut self.window)
    }

    fn ssthresh_bytes(&self) -> u64 {
        self.window.ssthresh_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::testing::{MSS, acked, now, per_round};

    fn reno(abc_limit_segments: u32) -> Reno {
        Reno::new(abc_limit_segments, MSS as u32, 10 * MSS)
    }

    /// Acknowledges a whole window, each segment separately, and returns the new window.
    fn round(reno: &mut Reno) -> u64 {
        per_round(reno, MSS, now())
    }

    #[test]
    fn slow_start_doubles_each_round() {
        let mut r = reno(1);
        assert_eq!([round(&mut r), round(&mut r), round(&mut r)], [20 * MSS, 40 * MSS, 80 * MSS]);
    }

    #[test]
    fn with_one_ack_for_two_segments_the_limit_decides() {
        let mut conservative = reno(1);
        assert_eq!(per_round(&mut conservative, 2 * MSS, now()), 15 * MSS);
        let mut full = reno(2);
        assert_eq!(per_round(&mut full, 2 * MSS, now()), 20 * MSS);
    }

    #[test]
    fn congestion_avoidance_opens_one_segment_a_round_however_acks_come() {
        for ack_bytes in [MSS / 4, MSS, 2 * MSS, 5 * MSS] {
            let mut r = reno(1);
            r.on_congestion(now(), 40 * MSS);
            assert_eq!(r.cwnd_bytes(), 20 * MSS);
            for n in 1..=10 {
                assert_eq!(per_round(&mut r, ack_bytes, now()) / MSS, 20 + n, "acks of {ack_bytes}");
            }
        }
    }

    #[test]
    fn without_byte_counting_delayed_acks_open_half_a_segment_a_round() {
        let mut r = reno(0);
        assert_eq!(per_round(&mut r, 2 * MSS, now()), 15 * MSS);
        r.on_congestion(now(), 80 * MSS);
        for _ in 0..10 {
            per_round(&mut r, 2 * MSS, now());
        }
        assert!((r.window.segments() - 45.0).abs() < 0.2, "{}", r.window.segments());
    }

    #[test]
    fn loss_halves_what_was_in_flight_and_keeps_two_segments() {
        let mut r = reno(2);
        r.on_congestion(now(), 9 * MSS);
        assert_eq!((r.cwnd_bytes(), r.ssthresh_bytes()), (9 * MSS / 2, 9 * MSS / 2));
        r.on_congestion(now(), 2 * MSS);
        assert_eq!((r.cwnd_bytes(), r.ssthresh_bytes()), (2 * MSS, 2 * MSS));
    }

    #[test]
    fn slow_start_after_a_timeout_counts_one_segment_an_ack() {
        let mut r = reno(2);
        r.on_timeout(now(), 20 * MSS);
        assert_eq!((r.cwnd_bytes(), r.ssthresh_bytes()), (MSS, 10 * MSS));
        r.on_ack(&acked(2 * MSS, now()));
        assert_eq!(r.cwnd_bytes(), 2 * MSS);
    }

    #[test]
    fn neither_recovery_nor_an_idle_application_opens_the_window() {
        let mut r = reno(2);
        r.on_ack(&AckEvent { in_recovery: true, ..acked(MSS, now()) });
        r.on_ack(&AckEvent { app_limited: true, ..acked(MSS, now()) });
        assert_eq!(r.cwnd_bytes(), 10 * MSS);
    }

    #[test]
    fn a_spurious_reduction_is_undone() {
        let mut r = reno(2);
        r.on_congestion(now(), 10 * MSS);
        r.on_spurious();
        assert_eq!((r.cwnd_bytes(), r.ssthresh_bytes()), (10 * MSS, u64::MAX));
        r.on_timeout(now(), 10 * MSS);
        r.on_ack(&acked(MSS, now()));
        r.on_spurious();
        assert_eq!((r.cwnd_bytes(), r.ssthresh_bytes()), (10 * MSS, u64::MAX));
        r.on_ack(&acked(2 * MSS, now()));
        assert_eq!(r.cwnd_bytes(), 12 * MSS);
    }
}
