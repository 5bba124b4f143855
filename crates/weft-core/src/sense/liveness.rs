//! Time and number of unanswered probes after which a silent path becomes suspect.

use crate::sense::Rtt;
use weft_units::Duration;

/// Least time without a report after which a path becomes suspect.
///
/// In a shorter time, the silence of a busy peer cannot be distinguished from that of a dead peer.
const FLOOR: Duration = Duration::from_millis(30);
/// Greatest time without a report after which a path becomes suspect.
///
/// A clock step or a stalled peer makes SRTT and RTTVAR far too large, so the computed time needs a limit.
pub const CEILING: Duration = Duration::from_secs(1);

/// Maximum acceptable probability that loss alone leaves a whole run of probes unanswered.
const BY_CHANCE: f64 = 1e-6;
/// Minimum number of unanswered probes in a row before a path becomes suspect.
const LEAST_MISSES: f64 = 3.0;
/// Maximum number of unanswered probes in a row before a path becomes suspect.
const MOST_MISSES: f64 = 24.0;

/// Returns the time without a report after which a path becomes suspect.
///
/// The time starts at the departure of an eliciting packet, which asks for a report. It is SRTT + 4·RTTVAR (RFC
/// 6298), plus the time for which the peer may hold a report, plus twice the jitter. It is at least 30 ms and at most
/// 1 s.
pub fn suspect_after(rtt: &Rtt, report_interval: Duration, jitter: Duration) -> Duration {
    (rtt.smoothed() + rtt.variation() * 4 + report_interval + jitter * 2).clamp(FLOOR, CEILING)
}

/// Returns the number of probes in a row that must stay unanswered before the path becomes suspect.
///
/// It is at least 3 and at most 24. Within these bounds, loss alone causes such a row with a probability below one in
/// a million. Either the probe or its answer is lost with probability 1 − (1 − `loss`)². The result is 4 at 1 % loss
/// and 14 at 20 %. At 100 probes a second this gives less than one false alarm in two hours. A second row of the same
/// length confirms the failure before a path is declared down.
pub fn misses_that_matter(loss: f64) -> u32 {
    let passed = 1.0 - loss.clamp(0.0, 0.9);
    let missed = 1.0 - passed * passed;
    let in_a_row = libm::ceil(libm::log(BY_CHANCE) / libm::log(missed));
    if in_a_row > 0.0 { in_a_row.clamp(LEAST_MISSES, MOST_MISSES) as u32 } else { LEAST_MISSES as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Instant;

    #[test]
    fn the_more_is_lost_the_more_must_be_missed() {
        let of = [0.0, 0.003, 0.01, 0.05, 0.15, 0.2, 0.5, 1.0].map(misses_that_matter);
        assert_eq!(of, [3, 3, 4, 6, 11, 14, 24, 24]);
    }

    #[test]
    fn follows_the_round_trip_time_within_bounds() {
        let mut rtt = Rtt::default();
        rtt.on_sample(Instant::ZERO, Duration::from_millis(40));
        let silence = suspect_after(&rtt, Duration::from_millis(10), Duration::from_millis(3));
        assert_eq!(silence, Duration::from_millis(40 + 80 + 10 + 6));
        let mut short = Rtt::default();
        short.on_sample(Instant::ZERO, Duration::from_micros(300));
        assert_eq!(suspect_after(&short, Duration::from_millis(1), Duration::ZERO), FLOOR);
        short.on_sample(Instant::ZERO, Duration::from_secs(32));
        assert_eq!(suspect_after(&short, Duration::from_millis(1), Duration::ZERO), CEILING, "the clock jumped");
    }
}
