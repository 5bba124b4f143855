//! How long a path may stay silent before it is suspect.

use crate::sense::Rtt;
use weft_units::Duration;

/// Nothing is suspected sooner: below this, a busy peer is silent for longer than a dead one.
const FLOOR: Duration = Duration::from_millis(30);
/// Nothing is trusted longer: a clock that jumped, or a peer that stood still, leaves absurd samples in SRTT and RTTVAR.
pub const CEILING: Duration = Duration::from_secs(1);

/// How long after sending an eliciting packet the path is suspect if no report has come: SRTT + 4·RTTVAR (RFC 6298), the time the
/// peer may hold a report, and twice the jitter, at least 30 ms, at most 1 s.
pub fn suspect_after(rtt: &Rtt, report_interval: Duration, jitter: Duration) -> Duration {
    (rtt.smoothed() + rtt.variation() * 4 + report_interval + jitter * 2).clamp(FLOOR, CEILING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Instant;

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
