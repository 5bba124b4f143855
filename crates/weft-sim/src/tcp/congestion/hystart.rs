//! Decides when a sender leaves slow start before the first loss.

use super::{AckEvent, HyStartKind};
use std::time::Duration;
use weft_units::Instant;

/// Window below which classic HyStart never ends slow start, in segments.
const LOW_WINDOW_SEGMENTS: f64 = 16.0;
const RTT_SAMPLES: u32 = 8;
const MIN_RTT_THRESHOLD: Duration = Duration::from_millis(4);
const MAX_RTT_THRESHOLD: Duration = Duration::from_millis(16);
const RTT_DIVISOR: u32 = 8;
const CONSERVATIVE_ROUNDS: u32 = 5;
const PLUS_PLUS_STRETCH_LIMIT_SEGMENTS: f64 = 8.0;
/// Longest pause between two successive acknowledgments in which they still count as one train.
const ACK_TRAIN_SPACING: Duration = Duration::from_millis(2);

/// The answer of HyStart to an acknowledgment: how slow start continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Advice {
    Grow,
    /// Conservative slow start, with a quarter of the growth (CSS_GROWTH_DIVISOR of RFC 9406).
    GrowSlowly,
    Leave,
}

/// The exit detectors of slow start: HyStart++ (RFC 9406 §4.2), or classic HyStart as in Linux.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    kind: HyStartKind,
    /// Number of bytes that must still be acknowledged or lost until the present round ends.
    round_remaining: u64,
    round_start: Instant,
    round_min_rtt: Duration,
    last_round_min_rtt: Duration,
    samples: u32,
    train_end: Instant,
    conservative: Option<Conservative>,
}

/// The state of conservative slow start (RFC 9406 §4.2), which follows a rise of the delay.
#[derive(Clone, Copy, Debug)]
struct Conservative {
    baseline_min_rtt: Duration,
    rounds: u32,
}

impl HyStart {
    pub fn new(kind: HyStartKind) -> HyStart {
        HyStart {
            kind,
            round_remaining: 0,
            round_start: Instant::ZERO,
            round_min_rtt: Duration::MAX,
            last_round_min_rtt: Duration::MAX,
            samples: 0,
            train_end: Instant::ZERO,
            conservative: None,
        }
    }

    /// Processes an acknowledgment in slow start, and returns how slow start continues.
    ///
    /// `cwnd_segments` is the congestion window.
    pub fn on_ack(&mut self, ack: &AckEvent, cwnd_segments: f64) -> Advice {
        if self.kind == HyStartKind::Off {
            return Advice::Grow;
        }
        if self.round_remaining == 0 {
            self.begin_round(ack);
        }
        if let Some(rtt) = ack.rtt {
            self.round_min_rtt = self.round_min_rtt.min(rtt);
            self.samples += 1;
        }
        let advice = match self.kind {
            HyStartKind::PlusPlus => self.plus_plus(),
            _ => self.classic(ack, cwnd_segments),
        };
        self.round_remaining = self.round_remaining.saturating_sub(ack.acked_bytes + ack.lost_bytes);
        if self.round_remaining == 0 { self.end_round(advice) } else { advice }
    }

    /// Returns the maximum number of segments by which one acknowledgment opens the window in slow start.
    ///
    /// It is L of RFC 9406 §4.3 without pacing. Linux has no such limit.
    pub fn stretch_limit_segments(&self) -> f64 {
        if self.kind == HyStartKind::PlusPlus { PLUS_PLUS_STRETCH_LIMIT_SEGMENTS } else { f64::INFINITY }
    }

    /// Begins a round, which ends when the data now in flight is acknowledged.
    fn begin_round(&mut self, ack: &AckEvent) {
        self.round_remaining = ack.flight_bytes + ack.acked_bytes + ack.lost_bytes;
        self.round_start = ack.now;
        self.train_end = ack.now;
        self.last_round_min_rtt = self.round_min_rtt;
        self.round_min_rtt = Duration::MAX;
        self.samples = 0;
    }

    fn end_round(&mut self, advice: Advice) -> Advice {
        match &mut self.conservative {
            Some(conservative) => {
                conservative.rounds += 1;
                if conservative.rounds >= CONSERVATIVE_ROUNDS { Advice::Leave } else { advice }
            }
            None => advice,
        }
    }

    fn plus_plus(&mut self) -> Advice {
        if self.samples >= RTT_SAMPLES {
            match self.conservative {
                Some(conservative) if self.round_min_rtt < conservative.baseline_min_rtt => self.conservative = None,
                None if self.delay_rose_over(self.last_round_min_rtt) => {
                    self.conservative = Some(Conservative { baseline_min_rtt: self.round_min_rtt, rounds: 0 });
                }
                _ => {}
            }
        }
        if self.conservative.is_some() { Advice::GrowSlowly } else { Advice::Grow }
    }

    fn classic(&mut self, ack: &AckEvent, cwnd_segments: f64) -> Advice {
        let Some(min_rtt) = ack.min_rtt else { return Advice::Grow };
        if cwnd_segments < LOW_WINDOW_SEGMENTS {
            return Advice::Grow;
        }
        let queue = self.samples > RTT_SAMPLES && self.delay_rose_over(min_rtt);
        if self.train_fills_half(ack.now, min_rtt) || queue { Advice::Leave } else { Advice::Grow }
    }

    /// Returns true if the least RTT of this round exceeds `base` by at least HyStart's threshold.
    ///
    /// The threshold is an eighth of `base`, within 4 to 16 ms.
    fn delay_rose_over(&self, base: Duration) -> bool {
        let threshold = (base / RTT_DIVISOR).clamp(MIN_RTT_THRESHOLD, MAX_RTT_THRESHOLD);
        self.round_min_rtt >= base.saturating_add(threshold)
    }

    /// Returns true if the acknowledgments of this round arrived without a gap for half of the RTT.
    fn train_fills_half(&mut self, now: Instant, min_rtt: Duration) -> bool {
        if now - self.train_end > ACK_TRAIN_SPACING {
            return false;
        }
        self.train_end = now;
        now - self.round_start > min_rtt / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::testing::{MSS, acked, now};

    /// Simulates rounds of 20 segments, `spacing` apart, and returns the advice at the end of each.
    ///
    /// The RTT of a round is `rtt_ms(round)`.
    fn rounds(kind: HyStartKind, spacing: Duration, rtt_ms: impl Fn(u32) -> u64, count: u32) -> Vec<Advice> {
        let mut h = HyStart::new(kind);
        let mut advices = Vec::new();
        for round in 0..count {
            let rtt = Duration::from_millis(rtt_ms(round));
            let start = now() + Duration::from_millis(100) * round;
            let mut advice = Advice::Grow;
            for n in 0..20 {
                let event = AckEvent { rtt: Some(rtt), flight_bytes: 19 * MSS, ..acked(MSS, start + spacing * n) };
                let said = h.on_ack(&event, 40.0);
                advice = if advice == Advice::Leave { advice } else { said };
            }
            advices.push(advice);
        }
        advices
    }

    #[test]
    fn a_steady_delay_lets_slow_start_go_on() {
        for kind in [HyStartKind::PlusPlus, HyStartKind::Classic] {
            assert!(rounds(kind, Duration::from_millis(3), |_| 100, 10).iter().all(|a| *a == Advice::Grow));
        }
    }

    #[test]
    fn a_rise_that_stays_leads_through_five_slow_rounds_out() {
        let advice = rounds(HyStartKind::PlusPlus, Duration::from_millis(3), |r| if r < 3 { 100 } else { 113 }, 8);
        assert_eq!(advice[..3], [Advice::Grow; 3]);
        assert_eq!(advice[3..7], [Advice::GrowSlowly; 4]);
        assert_eq!(advice[7], Advice::Leave);
    }

    #[test]
    fn a_rise_that_passes_returns_to_slow_start() {
        let advice = rounds(HyStartKind::PlusPlus, Duration::from_millis(3), |r| if r == 3 { 113 } else { 100 }, 6);
        assert_eq!(advice[2..6], [Advice::Grow, Advice::GrowSlowly, Advice::Grow, Advice::Grow]);
    }

    #[test]
    fn a_rise_below_an_eighth_is_noise() {
        let advice = rounds(HyStartKind::PlusPlus, Duration::from_millis(3), |r| if r < 3 { 100 } else { 112 }, 6);
        assert!(advice.iter().all(|a| *a == Advice::Grow), "{advice:?}");
    }

    #[test]
    fn the_classic_detectors_leave_on_delay_and_on_a_long_train() {
        let delay = rounds(HyStartKind::Classic, Duration::from_millis(3), |r| if r < 3 { 100 } else { 120 }, 4);
        assert_eq!(delay, [Advice::Grow, Advice::Grow, Advice::Grow, Advice::Leave]);
        let train = rounds(HyStartKind::Classic, Duration::from_millis(2), |_| 100, 1);
        assert_eq!(train, [Advice::Grow], "38 ms are not half of 100 ms");
        let mut h = HyStart::new(HyStartKind::Classic);
        let last =
            (0..40).map(|n| AckEvent { flight_bytes: 99 * MSS, ..acked(MSS, now() + Duration::from_millis(2) * n) });
        assert_eq!(last.map(|event| h.on_ack(&event, 40.0)).position(|a| a == Advice::Leave), Some(26));
    }
}
