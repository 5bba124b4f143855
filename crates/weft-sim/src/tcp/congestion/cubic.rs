//! CUBIC: the window is a cubic function of the time since the last loss (RFC 9438).
//!
//! It also implements Linux's variant, which grows by whole segments. The module `hystart` decides when slow
//! start ends before a loss.

use super::hystart::{Advice, HyStart};
use super::window::CongestionWindow;
use super::{AckEvent, CubicGrowth, HyStartKind, Law};
use std::time::Duration;
use weft_units::Instant;

/// Scaling constant C of the cubic function, in segments per second cubed.
///
/// Standard: RFC 9438 §5.
const C: f64 = 0.4;
/// Factor by which a loss multiplies the bytes in flight to give the new window.
///
/// Standard: RFC 9438 §4.6.
const BETA: f64 = 0.7;
/// Segments per round trip by which the window grows in the Reno-friendly region.
///
/// With it, the window has the same average as that of Reno. *Derived*: 3(1 − β)/(1 + β) (RFC 9438 §4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Maximum time for which a computed growth per acknowledgment is used if the window does not change.
///
/// Standard: the CUBIC of Linux (tcp_cubic).
const PACE_KEPT: Duration = Duration::from_millis(31);

/// The window of a CUBIC sender, and what it remembers of the last loss.
#[derive(Clone, Debug)]
pub(super) struct Cubic {
    window: CongestionWindow,
    hystart: HyStart,
    /// True if the initial slow start has ended, or if HyStart has decided that it must end.
    hystart_done: bool,
    fast_convergence: bool,
    growth: CubicGrowth,
    memory: Memory,
    before: (CongestionWindow, Memory),
    /// Time since which the application has not written enough data to fill the window.
    limited_since: Option<Instant>,
}

/// The values that CUBIC keeps from the last loss.
///
/// They are restored if that loss was spurious. Windows are in segments.
#[derive(Clone, Copy, Debug)]
struct Memory {
    /// Window to which the curve rises after the last loss (W_max).
    ///
    /// It is the window at that loss, or less with fast convergence. `None` before the first loss and after a timeout.
    max: Option<f64>,
    /// Window when ssthresh was last set (cwnd_prior).
    prior: f64,
    epoch: Option<CubicEpoch>,
}

/// The state of congestion avoidance since the last loss or timeout.
#[derive(Clone, Copy, Debug)]
struct CubicEpoch {
    start: Instant,
    /// Time K in seconds from the start of the epoch until the window has grown to `plateau` again.
    k: f64,
    plateau: f64,
    /// Window that Reno would have (W_est).
    reno: f64,
    steps: Steps,
}

/// The counters with which the window grows by whole segments, as in Linux.
#[derive(Clone, Copy, Debug)]
struct Steps {
    /// Number of segments that must be acknowledged before the window grows by one segment.
    per_segment: f64,
    acked: f64,
    /// Window for which the growth was computed, and the time of that computation.
    worked_out: (f64, Instant),
}

impl Steps {
    /// Processes `segments` acknowledged segments and returns the number of segments by which the window grows now.
    fn on_acked(&mut self, segments: f64) -> f64 {
        // If `per_segment` has fallen, `acked` can exceed it several times. The window nevertheless grows by only one
        // segment for the acknowledgments collected so far, so that it does not jump.
        let collected = if self.acked >= self.per_segment { 1.0 } else { 0.0 };
        self.acked = if collected > 0.0 { segments } else { self.acked + segments };
        let grown = (self.acked / self.per_segment).floor();
        if grown > 0.0 {
            self.acked -= grown * self.per_segment;
        }
        collected + grown
    }
}

impl CubicEpoch {
    fn new(now: Instant, cwnd: f64, max: Option<f64>) -> CubicEpoch {
        let plateau = max.unwrap_or(cwnd).max(cwnd);
        let steps = Steps { per_segment: f64::INFINITY, acked: 0.0, worked_out: (0.0, now) };
        CubicEpoch { start: now, k: libm::cbrt((plateau - cwnd) / C), plateau, reno: cwnd, steps }
    }

    /// Returns W_cubic at `since` after the start of the epoch (RFC 9438 equation 1).
    fn window_at(&self, since: Duration) -> f64 {
        let t = since.as_secs_f64() - self.k;
        C * t * t * t + self.plateau
    }
}

impl Cubic {
    pub fn new(
        hystart: HyStartKind,
        fast_convergence: bool,
        growth: CubicGrowth,
        mss: u32,
        initial_window_bytes: u64,
    ) -> Cubic {
        let window = CongestionWindow::new(mss, initial_window_bytes);
        let memory = Memory { max: None, prior: window.segments(), epoch: None };
        Cubic {
            window,
            hystart: HyStart::new(hystart),
            hystart_done: false,
            fast_convergence,
            growth,
            memory,
            before: (window, memory),
            limited_since: None,
        }
    }

    /// Performs slow start. Returns the number of bytes of `ack` that remain for congestion avoidance.
    fn slow_start(&mut self, ack: &AckEvent) -> f64 {
        let bytes = (ack.acked_bytes as f64).min(self.hystart.stretch_limit_segments() * self.window.mss);
        let advice = if self.hystart_done { Advice::Grow } else { self.hystart.on_ack(ack, self.window.segments()) };
        match advice {
            Advice::Grow => self.window.slow_start(bytes),
            Advice::GrowSlowly => self.window.slow_start(bytes / 4.0),
            Advice::Leave => {
                self.hystart_done = true;
                self.window.ssthresh = self.window.cwnd;
                self.memory.prior = self.window.segments();
                bytes
            }
        }
    }

    fn avoid_congestion(&mut self, now: Instant, acked_bytes: f64, srtt: Duration) {
        let cwnd = self.window.segments();
        let memory = &mut self.memory;
        let epoch = memory.epoch.get_or_insert_with(|| CubicEpoch::new(now, cwnd, memory.max));
        let share = (acked_bytes / self.window.cwnd).min(1.0);
        let alpha = if epoch.reno < memory.prior { ALPHA } else { 1.0 };
        epoch.reno += alpha * share;
        let t = now - epoch.start;
        let grown = if epoch.window_at(t) < epoch.reno {
            epoch.reno.max(cwnd)
        } else {
            let target = epoch.window_at(t + srtt).clamp(cwnd, 1.5 * cwnd);
            cwnd + (target - cwnd) * share
        };
        self.window.cwnd = grown * self.window.mss;
    }

    /// Grows the window in congestion avoidance as Linux's `bictcp_update` and `tcp_cong_avoid_ai` do.
    fn step_by_segments(&mut self, now: Instant, acked_bytes: f64, min_rtt: Duration) {
        let segments = self.window.segments().floor();
        let memory = &mut self.memory;
        let epoch = memory.epoch.get_or_insert_with(|| CubicEpoch::new(now, segments, memory.max));
        let acked = acked_bytes / self.window.mss;
        epoch.reno += ALPHA * acked / segments;
        let (before, at) = epoch.steps.worked_out;
        if before != segments || now - at > PACE_KEPT {
            let ahead = epoch.window_at(now - epoch.start + min_rtt) - segments;
            let slowest = if memory.max.is_none() { 20.0 } else { 100.0 * segments };
            let curve = if ahead > 0.0 { segments / ahead } else { slowest };
            let behind = epoch.reno.floor() - segments;
            let friendly = if behind >= 1.0 { segments / behind } else { slowest };
            epoch.steps.per_segment = curve.min(slowest).min(friendly).max(2.0);
            epoch.steps.worked_out = (segments, now);
        }
        self.window.cwnd += epoch.steps.on_acked(acked) * self.window.mss;
    }

    /// Moves the start of the epoch forward by the time in which the application limited the sender (RFC 9438 §4.2).
    fn resume(&mut self, now: Instant) {
        if let (Some(since), Some(epoch)) = (self.limited_since.take(), &mut self.memory.epoch) {
            epoch.start += now - since;
        }
    }

    /// Stores the window and the memory for an undo, and computes the memory after the loss (RFC 9438 §4.7).
    fn remember(&mut self) {
        self.before = (self.window, self.memory);
        self.hystart_done = true;
        let cwnd = self.window.segments();
        let released = self.fast_convergence && self.memory.max.is_some_and(|max| cwnd < max);
        self.memory =
            Memory { max: Some(if released { cwnd * (1.0 + BETA) / 2.0 } else { cwnd }), prior: cwnd, epoch: None };
        self.limited_since = None;
    }
}

impl Law for Cubic {
    fn on_ack(&mut self, ack: &AckEvent) {
        if ack.in_recovery {
            return;
        }
        if ack.app_limited {
            self.limited_since.get_or_insert(ack.now);
            return;
        }
        self.resume(ack.now);
        let mut bytes = ack.acked_bytes as f64;
        if self.window.in_slow_start() {
            bytes = self.slow_start(ack);
        }
        if !self.window.in_slow_start() {
            match self.growth {
                CubicGrowth::Continuous => self.avoid_congestion(ack.now, bytes, ack.srtt.unwrap_or_default()),
                CubicGrowth::Linux => self.step_by_segments(ack.now, bytes, ack.min_rtt.unwrap_or_default()),
            }
        }
    }

    fn on_congestion(&mut self, _now: Instant, flight_bytes: u64) {
        self.remember();
        self.window.reduce(flight_bytes as f64 * BETA);
    }

    fn on_timeout(&mut self, _now: Instant, flight_bytes: u64) {
        self.remember();
        self.memory.max = None;
        self.window.collapse(flight_bytes as f64 * BETA);
    }

    fn on_spurious(&mut self) {
        let (window, memory) = self.before;
        if self.window.undo(&window) {
            self.memory = memory;
        }
    }

    fn on_restart(&mut self, now: Instant, idle: Duration, rto: Duration) {
        self.window.restart(idle, rto);
        self.limited_since.get_or_insert(now.before(idle));
        self.resume(now);
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
    use crate::tcp::congestion::testing::{MSS, RTT, acked, now, per_round};

    fn cubic() -> Cubic {
        Cubic::new(HyStartKind::Off, true, CubicGrowth::Continuous, MSS as u32, 10 * MSS)
    }

    /// Returns a CUBIC sender after a loss at a window of `segments`.
    fn after_loss(segments: u64) -> Cubic {
        let mut c = cubic();
        c.window.cwnd = (segments * MSS) as f64;
        c.on_congestion(now(), segments * MSS);
        c
    }

    #[test]
    fn the_window_follows_the_closed_form() {
        let mut c = after_loss(1000);
        assert_eq!(c.cwnd_bytes(), 700 * MSS);
        let k = libm::cbrt(1000.0 * (1.0 - 0.7) / 0.4);
        assert!((k - 9.086).abs() < 0.001);
        let start = now() + RTT;
        for round in 0..150 {
            per_round(&mut c, 2 * MSS, start + RTT * round);
            let t = 0.1 * f64::from(round + 1);
            // The window targets the curve one round later, and lags behind the target by about a round.
            let (earliest, latest) = (0.4 * (t - 0.1 - k).powi(3) + 1000.0, 0.4 * (t + 0.1 - k).powi(3) + 1000.0);
            let w = c.window.segments();
            assert!((earliest - 0.5..=latest + 0.5).contains(&w), "after {t} s {w}, expected {earliest} to {latest}");
        }
        assert!((c.memory.epoch.unwrap().k - k).abs() < 1e-9);
    }

    #[test]
    fn a_small_window_grows_as_reno_with_alpha_then_with_one() {
        let mut c = after_loss(20);
        let windows: Vec<f64> =
            (0..16).map(|round| per_round(&mut c, MSS, now() + RTT * (round + 1) / 10) as f64 / MSS as f64).collect();
        // The window grows from 14 segments by 0.529 segments a round up to 20, and then by 1 segment a round.
        assert!((windows[9] - windows[4] - 5.0 * ALPHA).abs() < 0.15, "{windows:?}");
        assert!((windows[15] - windows[13] - 2.0).abs() < 0.15, "{windows:?}");
    }

    #[test]
    fn growth_by_whole_segments_lags_what_it_follows_and_never_jumps() {
        let after = |growth| {
            let mut c = after_loss(20);
            c.growth = growth;
            let window_after = |n| {
                c.on_ack(&acked(MSS, now() + Duration::from_micros(500) * n));
                c.window.segments()
            };
            (0..200).map(window_after).collect::<Vec<f64>>()
        };
        let [continuous, linux] = [CubicGrowth::Continuous, CubicGrowth::Linux].map(after);
        let mean = |windows: &[f64]| windows.iter().sum::<f64>() / windows.len() as f64;
        assert!(mean(&linux) < mean(&continuous) - 0.2 && linux[199] >= 17.0, "{linux:?} beside {continuous:?}");
        assert!(linux.windows(2).all(|w| [0.0, 1.0].contains(&(w[1] - w[0]))), "{linux:?}");
    }

    #[test]
    fn a_loss_below_the_last_maximum_releases_more() {
        let mut c = after_loss(1000);
        assert_eq!(c.memory.max, Some(1000.0));
        c.window.cwnd = 800_000.0;
        c.on_congestion(now(), 800 * MSS);
        assert_eq!(c.memory.max, Some(800.0 * 0.85));
        assert_eq!(c.cwnd_bytes(), 560 * MSS);
        c.fast_convergence = false;
        c.window.cwnd = 600_000.0;
        c.on_congestion(now(), 600 * MSS);
        assert_eq!(c.memory.max, Some(600.0));
    }

    #[test]
    fn the_window_never_aims_above_one_and_a_half_times_itself() {
        let mut c = after_loss(100);
        let late = now() + Duration::from_secs(3600);
        c.on_ack(&acked(MSS, now()));
        for n in 0..100 {
            let before = c.window.cwnd;
            c.on_ack(&acked(MSS, late + Duration::from_micros(n)));
            assert!(c.window.cwnd - before <= 0.5 * MSS as f64 + 1e-6);
        }
    }

    #[test]
    fn after_a_timeout_growth_begins_convex_from_where_slow_start_ends() {
        let mut c = cubic();
        c.window.cwnd = 100_000.0;
        c.on_timeout(now(), 100 * MSS);
        assert_eq!((c.cwnd_bytes(), c.ssthresh_bytes()), (MSS, 70 * MSS));
        while c.window.in_slow_start() {
            c.on_ack(&acked(MSS, now()));
        }
        c.on_ack(&acked(MSS, now()));
        let epoch = c.memory.epoch.unwrap();
        assert_eq!((epoch.k, epoch.plateau), (0.0, 70.0));
    }

    #[test]
    fn time_limited_by_the_application_does_not_count() {
        let mut busy = after_loss(1000);
        let mut paused = busy.clone();
        let pause = Duration::from_secs(60);
        per_round(&mut busy, MSS, now());
        per_round(&mut paused, MSS, now());
        paused.on_ack(&AckEvent { app_limited: true, ..acked(MSS, now() + RTT) });
        per_round(&mut busy, MSS, now() + RTT);
        per_round(&mut paused, MSS, now() + RTT + pause);
        assert_eq!(busy.cwnd_bytes(), paused.cwnd_bytes());
        busy.on_restart(now() + RTT * 2, Duration::ZERO, RTT);
        paused.on_restart(now() + RTT * 2 + pause * 2, pause, pause * 2);
        assert_eq!(
            per_round(&mut busy, MSS, now() + RTT * 2),
            per_round(&mut paused, MSS, now() + RTT * 2 + pause * 2)
        );
    }

    #[test]
    fn a_spurious_loss_leaves_no_trace() {
        let mut c = after_loss(1000);
        per_round(&mut c, MSS, now() + RTT);
        let undisturbed = c.clone();
        c.on_congestion(now() + RTT * 2, c.cwnd_bytes());
        per_round(&mut c, MSS, now() + RTT * 2);
        c.on_spurious();
        assert_eq!(c.window.cwnd, undisturbed.window.cwnd);
        assert_eq!(c.memory.max, Some(1000.0));
        assert_eq!(c.memory.epoch.map(|e| e.start), undisturbed.memory.epoch.map(|e| e.start));
    }

    #[test]
    fn a_rising_delay_ends_slow_start_without_a_loss() {
        let mut c = Cubic::new(HyStartKind::Classic, true, CubicGrowth::Continuous, MSS as u32, 10 * MSS);
        for n in 0..200 {
            let event = acked(MSS, now() + Duration::from_millis(5) * n);
            c.on_ack(&AckEvent {
                rtt: Some(RTT + Duration::from_millis(u64::from(n))),
                flight_bytes: 20 * MSS,
                ..event
            });
        }
        assert!(c.ssthresh_bytes() < 100 * MSS && c.cwnd_bytes() < 100 * MSS, "{}", c.cwnd_bytes());
    }
}
