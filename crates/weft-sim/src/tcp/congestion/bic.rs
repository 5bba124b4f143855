//! BIC: a binary search for the window of the last loss, with Linux's constants.
//!
//! The algorithm is that of Xu, Harfoush and Rhee (INFOCOM 2004).

use super::window::CongestionWindow;
use super::{AckEvent, Law};
use std::time::Duration;
use weft_units::Instant;

/// Window up to which BIC behaves as Reno, in segments.
///
/// Standard: the BIC of Linux (tcp_bic.c).
const LOW_WINDOW: u64 = 14;
/// Maximum number of segments by which the window grows in one round trip.
///
/// Standard: the BIC of Linux (tcp_bic.c).
const MAX_INCREMENT: u64 = 16;
/// Divisor of the binary search: in one round trip, the window grows by 1/B of the distance to the last maximum.
///
/// Standard: the BIC of Linux (tcp_bic.c).
const B: u64 = 4;
/// Number of round trips in which the window grows by [`B`] segments when it is near the window of the last loss.
const SMOOTH_PART: u64 = 20;
/// Window after a loss, as a fraction of the window before it, in units of 1/[`BETA_SCALE`].
///
/// Standard: the BIC of Linux (tcp_bic.c).
const BETA: u64 = 819;
/// Denominator of [`BETA`].
///
/// Standard: the BIC of Linux (tcp_bic.c).
const BETA_SCALE: u64 = 1024;
/// Before the first loss: maximum number of acknowledgments after which the window grows by a segment.
///
/// Standard: the BIC of Linux (tcp_bic.c).
const UNKNOWN_ACKS: u64 = 20;
/// Value of `delayed_ack_ratio` if each acknowledgment covers one segment, in sixteenths of a segment.
///
/// Standard: the BIC of Linux (tcp_bic.c).
const RATIO_ONE: u64 = 16;

/// BIC's congestion window, and the window at the last loss.
///
/// The window is in whole segments, as in Linux, because rounding matters while windows are small.
#[derive(Clone, Debug)]
pub(super) struct Bic {
    window: CongestionWindow,
    /// Window in segments at the last loss, or less with fast convergence.
    ///
    /// `None` before the first loss and after a timeout.
    last_max: Option<u64>,
    /// Average number of segments that an acknowledgment covers, in whole sixteenths.
    ///
    /// As in Linux it falls from its first value, 2, only to 31/16 if every segment is acknowledged, because it is
    /// rounded. The window then opens almost twice as fast as the binary search prescribes.
    delayed_ack_ratio: u64,
    before: (CongestionWindow, Option<u64>),
}

impl Bic {
    pub fn new(mss: u32, initial_window_bytes: u64) -> Bic {
        let window = CongestionWindow::new(mss, initial_window_bytes);
        Bic { window, last_max: None, delayed_ack_ratio: 2 * RATIO_ONE, before: (window, None) }
    }

    /// Returns the congestion window in whole segments.
    fn segments(&self) -> u64 {
        self.window.segments() as u64
    }

    /// Stores the congestion window at a loss as the new maximum.
    ///
    /// Fast convergence: if the window is below the last maximum, less than the window is stored. Other flows then get
    /// more capacity.
    fn remember(&mut self) {
        self.before = (self.window, self.last_max);
        let cwnd = self.segments();
        let released = self.last_max.is_some_and(|max| cwnd < max);
        self.last_max = Some(if released { cwnd * (BETA_SCALE + BETA) / (2 * BETA_SCALE) } else { cwnd });
    }

    /// Returns the congestion window to use after a loss, in bytes.
    fn reduced(&self) -> f64 {
        let cwnd = self.segments();
        let segments = if cwnd <= LOW_WINDOW { cwnd / 2 } else { cwnd * BETA / BETA_SCALE };
        segments as f64 * self.window.mss
    }
}

/// Returns the number of acknowledgments after which a window of `cwnd` segments grows by one segment.
fn acks_per_increment(cwnd: u64, last_max: Option<u64>, delayed_ack_ratio: u64) -> u64 {
    if cwnd <= LOW_WINDOW {
        return cwnd.max(1);
    }
    let max = last_max.unwrap_or(0);
    let acks = if cwnd < max {
        match (max - cwnd) / B {
            0..=1 => cwnd * SMOOTH_PART / B,
            distance => cwnd / distance.min(MAX_INCREMENT),
        }
    } else if cwnd < max + B {
        cwnd * SMOOTH_PART / B
    } else if cwnd < max + MAX_INCREMENT * (B - 1) {
        cwnd * (B - 1) / (cwnd - max)
    } else {
        cwnd / MAX_INCREMENT
    };
    let acks = if last_max.is_none() { acks.min(UNKNOWN_ACKS) } else { acks };
    (acks * RATIO_ONE / delayed_ack_ratio.max(1)).max(1)
}

impl Law for Bic {
    fn on_ack(&mut self, ack: &AckEvent) {
        if ack.in_recovery || ack.acked_bytes == 0 {
            return;
        }
        let acked = ack.acked_bytes as f64 / self.window.mss;
        self.delayed_ack_ratio = self.delayed_ack_ratio + libm::ceil(acked) as u64 - self.delayed_ack_ratio / RATIO_ONE;
        if ack.app_limited {
            return;
        }
        if self.window.in_slow_start() {
            self.window.slow_start(ack.acked_bytes as f64);
        } else {
            let acks = acks_per_increment(self.segments(), self.last_max, self.delayed_ack_ratio);
            self.window.cwnd += self.window.mss / acks as f64;
        }
    }

    fn on_congestion(&mut self, _now: Instant, _flight_bytes: u64) {
        self.remember();
        self.window.reduce(self.reduced());
    }

    fn on_timeout(&mut self, _now: Instant, _flight_bytes: u64) {
        self.remember();
        self.last_max = None;
        self.delayed_ack_ratio = 2 * RATIO_ONE;
        self.window.collapse(self.reduced());
    }

    fn on_spurious(&mut self) {
        let (window, last_max) = self.before;
        if self.window.undo(&window) {
            self.last_max = last_max;
        }
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

    fn reduces_in_proportion(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::testing::{MSS, acked, now, per_round};

    #[test]
    fn the_increment_is_the_table_of_the_search() {
        let table = [
            (10, Some(200), 10),
            (100, Some(200), 100 / 16),
            (160, Some(200), 160 / 10),
            (190, Some(200), 190 / 2),
            (193, Some(200), 193 * 5),
            (200, Some(200), 200 * 5),
            (203, Some(200), 203 * 5),
            (204, Some(200), 204 * 3 / 4),
            (230, Some(200), 230 / 10),
            (248, Some(200), 248 / 16),
            (100, None, 100 / 16),
            (1000, None, 20),
        ];
        for (cwnd, max, expected) in table {
            assert_eq!(acks_per_increment(cwnd, max, RATIO_ONE), expected, "{cwnd} {max:?}");
        }
        assert_eq!(acks_per_increment(14, Some(200), 2 * RATIO_ONE), 14);
        assert_eq!(acks_per_increment(160, Some(200), 2 * RATIO_ONE), 8);
    }

    /// Returns the state after a loss with a window of `segments` segments.
    ///
    /// Its `delayed_ack_ratio` is that after many acknowledgments of `acked` segments each.
    fn after_loss(segments: f64, acked: u64) -> Bic {
        let mut b = Bic::new(MSS as u32, 10 * MSS);
        b.window.cwnd = segments * MSS as f64;
        b.delayed_ack_ratio = acked * RATIO_ONE;
        b.on_congestion(now(), b.cwnd_bytes());
        b
    }

    #[test]
    fn a_round_opens_by_the_increment_however_acks_are_delayed() {
        for acked in [1, 2, 4] {
            let mut b = after_loss(1000.0, acked);
            let start = b.window.segments();
            assert_eq!(start, 799.0);
            per_round(&mut b, acked * MSS, now());
            assert!((b.window.segments() - start - 16.0).abs() < 1.0, "{acked}: {}", b.window.segments() - start);
        }
    }

    /// Without delayed acknowledgments the ratio stays at 31/16, because it is rounded to sixteenths.
    ///
    /// Linux does this in bictcp_acked of tcp_bic.c, and ns-2's TCP-Linux does the same.
    #[test]
    fn without_delayed_acknowledgments_the_ratio_stays_above_one() {
        let mut b = Bic::new(MSS as u32, 10 * MSS);
        (0..100).for_each(|_| b.on_ack(&acked(MSS, now())));
        assert_eq!(b.delayed_ack_ratio, 31);
        b.window.cwnd = 1000.0 * MSS as f64;
        b.window.ssthresh = b.window.cwnd;
        b.last_max = Some(2000);
        per_round(&mut b, MSS, now());
        assert!((b.window.segments() - 1031.0).abs() < 1.0, "{}", b.window.segments());
    }

    /// Only cumulative acknowledgments let the window grow (RFC 5681 §3.1).
    ///
    /// Linux calls the congestion control for no other acknowledgment.
    #[test]
    fn selective_acknowledgments_alone_leave_the_window() {
        let mut b = after_loss(1000.0, 1);
        let (window, ratio) = (b.window, b.delayed_ack_ratio);
        (0..300).for_each(|_| b.on_ack(&acked(0, now())));
        assert_eq!((b.window, b.delayed_ack_ratio), (window, ratio));
    }

    #[test]
    fn a_small_window_is_halved_and_grows_by_one() {
        let mut b = after_loss(14.0, 2);
        assert_eq!(b.cwnd_bytes(), 7 * MSS);
        per_round(&mut b, MSS, now());
        assert!((b.window.segments() - 8.0).abs() < 0.1, "{}", b.window.segments());
    }

    #[test]
    fn a_loss_below_the_last_maximum_releases_more() {
        let mut b = after_loss(1000.0, 1);
        assert_eq!(b.last_max, Some(1000));
        b.on_congestion(now(), b.cwnd_bytes());
        assert_eq!(b.last_max, Some(799 * (1024 + 819) / 2048));
        b.on_spurious();
        assert_eq!((b.window.segments(), b.last_max), (799.0, Some(1000)));
    }

    #[test]
    fn a_timeout_forgets_the_maximum() {
        let mut b = after_loss(1000.0, 1);
        b.window.cwnd = 1_024_000.0;
        b.on_timeout(now(), b.cwnd_bytes());
        assert_eq!((b.cwnd_bytes(), b.ssthresh_bytes(), b.last_max), (MSS, 819 * MSS, None));
    }
}
