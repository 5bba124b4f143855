//! How long a path may stay silent before it is suspect.

use crate::sense::Rtt;
use weft_units::Duration;

/// Nothing is suspected sooner: below this, a busy peer is silent for longer than a dead one.
const FLOOR: Duration = Duration::from_millis(30);
/// Nothing is trusted longer: a clock that jumped, or a peer that stood still, leaves absurd samples in SRTT and RTTVAR.
pub const CEILING: Duration = Duration::from_secs(1);

/// By chance alone so many questions in a row stay unanswered so often at most,
const BY_CHANCE: f64 = 1e-6;
/// and so many, at least and at most, are asked.
const LEAST_MISSES: f64 = 3.0;
const MOST_MISSES: f64 = 24.0;

/// How long after sending an eliciting packet the path is suspect if no report has come: SRTT + 4·RTTVAR (RFC 6298), the time the
/// peer may hold a report, and twice the jitter, at least 30 ms, at most 1 s.
pub fn suspect_after(rtt: &Rtt, report_interval: Duration, jitter: Duration) -> Duration {
    (rtt.smoothed() + rtt.variation() * 4 + report_interval + jitter * 2).clamp(FLOOR, CEILING)
}

/// How many questions in a row must stay unanswered before their silence means anything: three, or so many more that by loss alone
/// it would happen less than once in a million, and at most 24. A question and its answer are lost with 1 − (1 − `loss`)²: four at 1 %,
/// 14 at 20 %. At a hundred questions a second that is less than one false alarm in two hours; a second round of as many confirms
/// before a path is called down.
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
