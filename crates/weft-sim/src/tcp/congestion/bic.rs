//! BIC: a binary search for the window at which the last loss came (Xu, Harfoush and Rhee, INFOCOM 2004), with Linux's constants.

use super::window::Window;
use super::{AckEvent, Law};
use std::time::Duration;
use weft_units::Instant;

/// Up to this window it is Reno.
const LOW_WINDOW: f64 = 14.0;
/// The most the window opens in a round trip.
const MAX_INCREMENT: f64 = 16.0;
/// The search goes this fraction of the way in a round trip.
const B: f64 = 4.0;
/// Round trips that the last B segments before the maximum take.
const SMOOTH_PART: f64 = 20.0;
/// What remains of the window after a loss.
const BETA: f64 = 819.0 / 1024.0;
/// Least growth in a round trip while no loss is remembered.
const UNKNOWN_GROWTH: f64 = 0.05;

/// BIC's window and what it remembers of the last loss.
#[derive(Clone, Debug)]
pub(super) struct Bic {
    window: Window,
    /// Where the last loss came, in segments; none before it and after a timeout.
    last_max: Option<f64>,
    /// Segments that an acknowledgment covers, averaged.
    delayed_ack_ratio: f64,
    before: (Window, Option<f64>),
}

impl Bic {
    pub fn new(mss: u32, initial_window_bytes: u64) -> Bic {
        let window = Window::new(mss, initial_window_bytes);
        Bic { window, last_max: None, delayed_ack_ratio: 2.0, before: (window, None) }
    }

    /// Fast convergence: a loss below the last maximum gives room to others.
    fn remember(&mut self) {
        self.before = (self.window, self.last_max);
        let cwnd = self.window.segments();
        let released = self.last_max.is_some_and(|max| cwnd < max);
        self.last_max = Some(if released { cwnd * (1.0 + BETA) / 2.0 } else { cwnd });
    }

    /// The window after a loss, in bytes.
    fn reduced(&self) -> f64 {
        self.window.cwnd * if self.window.segments() <= LOW_WINDOW { 0.5 } else { BETA }
    }
}

/// Segments by which a window of `cwnd` opens in a round trip in which every segment is acknowledged by itself.
fn increment(cwnd: f64, last_max: Option<f64>) -> f64 {
    if cwnd <= LOW_WINDOW {
        return 1.0;
    }
    let max = last_max.unwrap_or(0.0);
    let step = if cwnd < max {
        let distance = (max - cwnd) / B;
        if distance <= 1.0 { B / SMOOTH_PART } else { distance.min(MAX_INCREMENT) }
    } else if cwnd < max + B {
        B / SMOOTH_PART
    } else if cwnd < max + MAX_INCREMENT * (B - 1.0) {
        (cwnd - max) / (B - 1.0)
    } else {
        MAX_INCREMENT
    };
    if last_max.is_none() { step.max(UNKNOWN_GROWTH * cwnd) } else { step }
}

impl Law for Bic {
    fn on_ack(&mut self, ack: &AckEvent) {
        if ack.in_recovery {
            return;
        }
        let acked = ack.acked_bytes as f64 / self.window.mss;
        self.delayed_ack_ratio += (acked - self.delayed_ack_ratio) / 16.0;
        if ack.app_limited {
            return;
        }
        if self.window.in_slow_start() {
            self.window.slow_start(ack.acked_bytes as f64);
        } else {
            let cwnd = self.window.segments();
            let opened = increment(cwnd, self.last_max) * self.delayed_ack_ratio / cwnd;
            self.window.cwnd += opened.min(1.0) * self.window.mss;
        }
    }

    fn on_congestion(&mut self, _now: Instant, _flight_bytes: u64) {
        self.remember();
        self.window.reduce(self.reduced());
    }

    fn on_timeout(&mut self, _now: Instant, _flight_bytes: u64) {
        self.remember();
        self.last_max = None;
        self.delayed_ack_ratio = 2.0;
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

    fn ssthresh_bytes(&self) -> u64 {
        self.window.ssthresh_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::testing::{MSS, now, per_round};

    #[test]
    fn the_increment_is_the_table_of_the_search() {
        let table = [
            (10.0, Some(200.0), 1.0),
            (100.0, Some(200.0), 16.0),
            (160.0, Some(200.0), 10.0),
            (190.0, Some(200.0), 2.5),
            (196.0, Some(200.0), 0.2),
            (200.0, Some(200.0), 0.2),
            (203.9, Some(200.0), 0.2),
            (204.0, Some(200.0), 4.0 / 3.0),
            (230.0, Some(200.0), 10.0),
            (248.0, Some(200.0), 16.0),
            (100.0, None, 16.0),
            (1000.0, None, 50.0),
        ];
        for (cwnd, max, expected) in table {
            assert!((increment(cwnd, max) - expected).abs() < 1e-9, "{cwnd} {max:?}: {}", increment(cwnd, max));
        }
    }

    /// A window that met a loss at `segments`, with its delayed-ACK ratio settled for acknowledgments of `acked` segments.
    fn after_loss(segments: f64, acked: f64) -> Bic {
        let mut b = Bic::new(MSS as u32, 10 * MSS);
        b.window.cwnd = segments * MSS as f64;
        b.delayed_ack_ratio = acked;
        b.on_congestion(now(), b.cwnd_bytes());
        b
    }

    #[test]
    fn a_round_opens_by_the_increment_however_acks_are_delayed() {
        for acked in [1, 2, 4] {
            let mut b = after_loss(1000.0, acked as f64);
            let start = b.window.segments();
            assert!((start - 1000.0 * 819.0 / 1024.0).abs() < 1e-9);
            per_round(&mut b, acked * MSS, now());
            assert!((b.window.segments() - start - 16.0).abs() < 0.3, "{acked}: {}", b.window.segments() - start);
        }
    }

    #[test]
    fn a_small_window_is_halved_and_grows_by_one() {
        let mut b = after_loss(14.0, 1.0);
        assert_eq!(b.cwnd_bytes(), 7 * MSS);
        per_round(&mut b, MSS, now());
        assert!((b.window.segments() - 8.0).abs() < 0.1, "{}", b.window.segments());
    }

    #[test]
    fn a_loss_below_the_last_maximum_releases_more() {
        let mut b = after_loss(1000.0, 1.0);
        assert_eq!(b.last_max, Some(1000.0));
        b.on_congestion(now(), b.cwnd_bytes());
        let lost_at = 1000.0 * BETA;
        assert_eq!(b.last_max, Some(lost_at * (1.0 + BETA) / 2.0));
        b.on_spurious();
        assert_eq!((b.window.segments(), b.last_max), (lost_at, Some(1000.0)));
    }

    #[test]
    fn a_timeout_forgets_the_maximum() {
        let mut b = after_loss(1000.0, 1.0);
        b.window.cwnd = 1_024_000.0;
        b.on_timeout(now(), b.cwnd_bytes());
        assert_eq!((b.cwnd_bytes(), b.ssthresh_bytes(), b.last_max), (MSS, 819 * MSS, None));
    }
}
