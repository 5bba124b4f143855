//! BBR version 1: paces at the bandwidth that it measures.
//!
//! It follows draft-cardwell-iccrg-bbr-congestion-control-00, which comments in this module call "the BBR draft". Its
//! input are acknowledgments with samples of the delivery rate. Its output are a congestion window and a pacing rate.

use super::{AckEvent, Law, RateSample};
use std::time::Duration;
use weft_units::{Instant, Rate, Rng};

/// Pacing gain in the phase Startup. A pacing gain is the pacing rate divided by the measured bandwidth.
///
/// Derived: 2/ln 2 is the least gain that doubles the rate in each round.
const HIGH_GAIN: f64 = 2.885_390_081_777_927;
/// Pacing gains of the phases of ProbeBW, which follow each other in this order.
///
/// Standard: draft-cardwell-iccrg-bbr-congestion-control-00.
const GAIN_CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Number of round trips for which a measured bandwidth counts.
///
/// Standard: draft-cardwell-iccrg-bbr-congestion-control-00.
const BANDWIDTH_ROUNDS: usize = 10;
/// Time for which a measured minimum RTT counts. After it, BBR measures anew in a ProbeRTT phase.
///
/// Standard: draft-cardwell-iccrg-bbr-congestion-control-00.
const MIN_RTT_LIFETIME: Duration = Duration::from_secs(10);
/// Minimum duration of a ProbeRTT phase.
///
/// Standard: draft-cardwell-iccrg-bbr-congestion-control-00.
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// Minimum congestion window in segments, with which data and acknowledgments still flow.
///
/// Standard: draft-cardwell-iccrg-bbr-congestion-control-00.
const MIN_PIPE_SEGMENTS: u64 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BbrState {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// The maximum of the bandwidth, measured over the last [`BANDWIDTH_ROUNDS`] round trips.
#[derive(Clone, Debug, Default)]
struct RoundMax {
    rounds: [Rate; BANDWIDTH_ROUNDS],
}

impl RoundMax {
    fn begin_round(&mut self, round: u64) {
        *self.slot(round) = Rate::ZERO;
    }

    fn measured(&mut self, round: u64, rate: Rate) {
        let slot = self.slot(round);
        *slot = rate.max(*slot);
    }

    fn get(&self) -> Rate {
        self.rounds.iter().copied().fold(Rate::ZERO, Rate::max)
    }

    fn slot(&mut self, round: u64) -> &mut Rate {
        &mut self.rounds[(round % BANDWIDTH_ROUNDS as u64) as usize]
    }
}

/// Counts round trips: a round lasts until a segment that was sent in it is acknowledged.
///
/// The definition is that of the BBR draft, §4.1.1.3.
#[derive(Clone, Copy, Debug, Default)]
struct RoundCounter {
    count: u64,
    /// Number of bytes that had been delivered to the receiver when the present round began.
    begun_at: u64,
    /// True if the acknowledgment that is being processed began a round.
    starts: bool,
}

/// Detects that the path carries no higher rate (BBR draft, §4.3.2.2).
///
/// The pipe is full if the rate grew by less than a quarter in three rounds.
#[derive(Clone, Copy, Debug, Default)]
struct FullPipe {
    filled: bool,
    baseline: Rate,
    rounds_without_growth: u32,
}

/// The state of the present ProbeRTT phase, which determines its end.
#[derive(Clone, Copy, Debug, Default)]
struct ProbeRtt {
    /// Earliest end of the phase. `None` until the data in flight has fallen to the minimum window.
    until: Option<Instant>,
    round_done: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BbrRecovery {
    None,
    /// A loss was detected. Recovery begins with the next acknowledgment.
    Entering,
    /// The first round of recovery, in which the sender sends only as many bytes as were delivered.
    Conserving,
    Growing,
}

/// The congestion control BBR: its model of the path, and its state.
#[derive(Clone, Debug)]
pub(super) struct Bbr {
    mss: u64,
    initial_window: u64,
    rng: Rng,
    state: BbrState,
    bandwidth: RoundMax,
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    round: RoundCounter,
    full_pipe: FullPipe,
    delivered: u64,
    /// Samples of the bandwidth are ignored until this number of bytes has been delivered.
    ///
    /// Until then, ProbeRTT limited the sending rate.
    limited_until_delivered: u64,
    cycle_index: usize,
    cycle_start: Instant,
    probe_rtt: ProbeRtt,
    restarted_from_idle: bool,
    recovery: BbrRecovery,
    cwnd: u64,
    /// Congestion window before recovery or ProbeRTT reduced it.
    prior_cwnd: u64,
    pacing_rate: Rate,
    seen_rtt: bool,
}

impl Bbr {
    pub fn new(seed: u64, mss: u32, initial_window_bytes: u64) -> Bbr {
        let mss = u64::from(mss.max(1));
        let initial_window = initial_window_bytes.max(mss);
        Bbr {
            mss,
            initial_window,
            rng: Rng::new(seed),
            state: BbrState::Startup,
            bandwidth: RoundMax::default(),
            min_rtt: None,
            min_rtt_at: Instant::ZERO,
            round: RoundCounter::default(),
            full_pipe: FullPipe::default(),
            delivered: 0,
            limited_until_delivered: 0,
            cycle_index: 0,
            cycle_start: Instant::ZERO,
            probe_rtt: ProbeRtt::default(),
            restarted_from_idle: false,
            recovery: BbrRecovery::None,
            cwnd: initial_window,
            prior_cwnd: 0,
            pacing_rate: Rate::from_bytes_over(initial_window, Duration::from_millis(1)).scaled(HIGH_GAIN),
            seen_rtt: false,
        }
    }

    fn pacing_gain(&self) -> f64 {
        match self.state {
            BbrState::Startup => HIGH_GAIN,
            BbrState::Drain => 1.0 / HIGH_GAIN,
            BbrState::ProbeBw => GAIN_CYCLE[self.cycle_index],
            BbrState::ProbeRtt => 1.0,
        }
    }

    fn cwnd_gain(&self) -> f64 {
        match self.state {
            BbrState::Startup | BbrState::Drain => HIGH_GAIN,
            BbrState::ProbeBw => 2.0,
            BbrState::ProbeRtt => 1.0,
        }
    }

    /// Returns `gain` times bandwidth times minimum RTT, plus three send quanta, in bytes (BBR draft, §4.2.3.2).
    ///
    /// The result includes three send quanta, because sender and receiver process several segments together.
    fn inflight(&self, gain: f64) -> u64 {
        match self.min_rtt {
            None => self.initial_window,
            Some(rtt) => (gain * self.bandwidth.get().bytes_in(rtt) as f64) as u64 + 3 * self.send_quantum(),
        }
    }

    /// Returns the send quantum: the number of bytes that are sent in one burst (BBR draft, §4.2.2).
    fn send_quantum(&self) -> u64 {
        match self.pacing_rate.bps() {
            0..1_200_000 => self.mss,
            1_200_000..24_000_000 => 2 * self.mss,
            _ => self.pacing_rate.bytes_in(Duration::from_millis(1)).min(64 << 10),
        }
    }

    fn min_pipe(&self) -> u64 {
        MIN_PIPE_SEGMENTS * self.mss
    }

    fn update_bandwidth(&mut self, sample: &RateSample) {
        self.delivered = sample.delivered;
        self.round.starts = sample.prior_delivered >= self.round.begun_at;
        if self.round.starts {
            self.round.begun_at = sample.delivered;
            self.round.count += 1;
            self.bandwidth.begin_round(self.round.count);
            if self.recovery == BbrRecovery::Conserving {
                self.recovery = BbrRecovery::Growing;
            }
        }
        if sample.rate >= self.bandwidth.get() || !self.limited(sample) {
            self.bandwidth.measured(self.round.count, sample.rate);
        }
    }

    fn limited(&self, sample: &RateSample) -> bool {
        sample.app_limited || sample.prior_delivered < self.limited_until_delivered
    }

    fn update_full_pipe(&mut self, sample: &RateSample) {
        if self.full_pipe.filled || !self.round.starts || self.limited(sample) {
            return;
        }
        let bandwidth = self.bandwidth.get();
        let full = &mut self.full_pipe;
        if bandwidth >= full.baseline.scaled(1.25) {
            *full = FullPipe { baseline: bandwidth, ..FullPipe::default() };
            return;
        }
        full.rounds_without_growth += 1;
        full.filled = full.rounds_without_growth >= 3;
    }

    fn check_drain(&mut self, ack: &AckEvent) {
        if self.state == BbrState::Startup && self.full_pipe.filled {
            self.state = BbrState::Drain;
        }
        if self.state == BbrState::Drain && ack.flight_bytes <= self.inflight(1.0) {
            self.enter_probe_bw(ack.now);
        }
    }

    /// Begins the phases of ProbeBW, at a random one except the one with gain 3/4 (BBR draft, §4.3.4.2).
    fn enter_probe_bw(&mut self, now: Instant) {
        self.state = BbrState::ProbeBw;
        self.cycle_index = GAIN_CYCLE.len() - 1 - self.rng.below(7) as usize;
        self.advance_cycle(now);
    }

    fn advance_cycle(&mut self, now: Instant) {
        self.cycle_start = now;
        self.cycle_index = (self.cycle_index + 1) % GAIN_CYCLE.len();
    }

    fn check_cycle(&mut self, ack: &AckEvent) {
        if self.state == BbrState::ProbeBw && self.phase_is_over(ack) {
            self.advance_cycle(ack.now);
        }
    }

    fn phase_is_over(&self, ack: &AckEvent) -> bool {
        let gain = self.pacing_gain();
        let lasted = ack.now - self.cycle_start > self.min_rtt.unwrap_or(Duration::MAX);
        let prior_inflight = ack.flight_bytes + ack.acked_bytes + ack.lost_bytes;
        if gain > 1.0 {
            lasted && (ack.lost_bytes > 0 || prior_inflight >= self.inflight(gain))
        } else if gain < 1.0 {
            lasted || prior_inflight <= self.inflight(1.0)
        } else {
            lasted
        }
    }

    /// Updates the minimum RTT with an acknowledgment. Returns true if the old minimum was no longer valid.
    fn update_min_rtt(&mut self, ack: &AckEvent) -> bool {
        let expired = ack.now > self.min_rtt_at + MIN_RTT_LIFETIME;
        if let Some(rtt) = ack.rtt
            && (expired || self.min_rtt.is_none_or(|min| rtt <= min))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = ack.now;
        }
        expired
    }

    fn check_probe_rtt(&mut self, ack: &AckEvent, expired: bool) {
        if self.state != BbrState::ProbeRtt && expired && !self.restarted_from_idle {
            self.prior_cwnd = self.saved_cwnd();
            self.state = BbrState::ProbeRtt;
            self.probe_rtt = ProbeRtt::default();
        }
        if self.state == BbrState::ProbeRtt {
            self.go_on_with_probe_rtt(ack);
        }
        self.restarted_from_idle = false;
    }

    fn go_on_with_probe_rtt(&mut self, ack: &AckEvent) {
        self.limited_until_delivered = self.delivered + ack.flight_bytes;
        let Some(until) = self.probe_rtt.until else {
            if ack.flight_bytes <= self.min_pipe() {
                self.probe_rtt.until = Some(ack.now + PROBE_RTT_DURATION);
                self.round.begun_at = self.delivered;
            }
            return;
        };
        self.probe_rtt.round_done |= self.round.starts;
        if self.probe_rtt.round_done && ack.now > until {
            self.min_rtt_at = ack.now;
            self.restore_cwnd();
            if self.full_pipe.filled {
                self.enter_probe_bw(ack.now);
            } else {
                self.state = BbrState::Startup;
            }
        }
    }

    fn set_pacing_rate(&mut self, gain: f64, srtt: Option<Duration>) {
        if let (false, Some(srtt)) = (self.seen_rtt, srtt) {
            self.seen_rtt = true;
            self.pacing_rate = Rate::from_bytes_over(self.initial_window, srtt).scaled(gain);
        }
        let rate = self.bandwidth.get().scaled(gain);
        if self.full_pipe.filled || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    fn set_cwnd(&mut self, ack: &AckEvent) {
        self.modulate_for_recovery(ack);
        if self.recovery != BbrRecovery::Conserving {
            let target = self.inflight(self.cwnd_gain());
            let grown = self.cwnd + ack.acked_bytes;
            if self.full_pipe.filled {
                self.cwnd = grown.min(target);
            } else if self.cwnd < target || self.delivered < self.initial_window {
                self.cwnd = grown;
            }
            self.cwnd = self.cwnd.max(self.min_pipe());
        }
        if self.state == BbrState::ProbeRtt {
            self.cwnd = self.cwnd.min(self.min_pipe());
        }
    }

    /// Changes the congestion window during recovery from losses (BBR draft, §4.2.3.4).
    fn modulate_for_recovery(&mut self, ack: &AckEvent) {
        if self.recovery == BbrRecovery::None {
            return;
        }
        self.cwnd = self.cwnd.saturating_sub(ack.lost_bytes).max(self.mss);
        if self.recovery == BbrRecovery::Entering {
            self.recovery = BbrRecovery::Conserving;
            self.round.begun_at = self.delivered;
            self.cwnd = ack.flight_bytes + ack.acked_bytes.max(self.mss);
        }
        if self.recovery == BbrRecovery::Conserving {
            self.cwnd = self.cwnd.max(ack.flight_bytes + ack.acked_bytes);
        }
    }

    /// Returns the congestion window before recovery or ProbeRTT reduced it.
    fn saved_cwnd(&self) -> u64 {
        if self.recovery == BbrRecovery::None && self.state != BbrState::ProbeRtt {
            self.cwnd
        } else {
            self.prior_cwnd.max(self.cwnd)
        }
    }

    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }
}

impl Law for Bbr {
    fn on_ack(&mut self, ack: &AckEvent) {
        self.round.starts = false;
        if let Some(sample) = &ack.delivery {
            self.update_bandwidth(sample);
            self.check_cycle(ack);
            self.update_full_pipe(sample);
        }
        self.check_drain(ack);
        let expired = self.update_min_rtt(ack);
        self.check_probe_rtt(ack, expired);
        self.set_pacing_rate(self.pacing_gain(), ack.srtt);
        self.set_cwnd(ack);
    }

    fn on_congestion(&mut self, _now: Instant, _flight_bytes: u64) {
        self.prior_cwnd = self.saved_cwnd();
        self.recovery = BbrRecovery::Entering;
    }

    fn on_ecn(&mut self, _now: Instant, _flight_bytes: u64) {}

    fn on_timeout(&mut self, _now: Instant, _flight_bytes: u64) {
        self.prior_cwnd = self.saved_cwnd();
        self.recovery = BbrRecovery::Growing;
        self.cwnd = self.mss;
    }

    fn on_recovery_exit(&mut self, _now: Instant) {
        self.recovery = BbrRecovery::None;
        self.restore_cwnd();
    }

    fn on_spurious(&mut self) {
        self.recovery = BbrRecovery::None;
        self.restore_cwnd();
        self.full_pipe = FullPipe { filled: self.full_pipe.filled, ..FullPipe::default() };
    }

    /// Resumes after an idle time at the measured bandwidth, without slow start (BBR draft, §4.3.4.4).
    fn on_restart(&mut self, _now: Instant, _idle: Duration, _rto: Duration) {
        self.restarted_from_idle = true;
        if self.state == BbrState::ProbeBw {
            self.set_pacing_rate(1.0, None);
        }
    }

    fn cwnd_bytes(&self) -> u64 {
        self.cwnd
    }

    fn ssthresh_bytes(&self) -> u64 {
        u64::MAX
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.pacing_rate)
    }
}

#[cfg(test)]
#[path = "bbr_tests.rs"]
mod tests;
