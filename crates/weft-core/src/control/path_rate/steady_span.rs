use super::rate_meter::RateMeter;
use crate::sense::Sample;
use weft_units::Duration;
use weft_units::tuned::{Constant, Tuned};

/// Maximum change of the delay within a span, as a fraction of the span.
///
/// *Derived*: packets that were sent over a time `t` arrive over `t` plus the change of the delay. The rate measured
/// over the span is thus wrong by this fraction at most. A mean over eight times the noise has the same error.
const CHANGE: f64 = 1.0 / 8.0;
/// Minimum number of samples in a span.
///
/// Of fewer delays, two may be equal by chance although the path's jitter is large. *Tuned*: of 277 random links, 208
/// pass the sweep with 4, and 202 with 8, which is too slow for links below 1 Mbit/s.
const LEAST_SAMPLES: Tuned<u32> = Tuned::new(Constant::SteadySamples, 4);

/// Measures the delivery rate over short spans in which the delay hardly changes.
///
/// A mean over a long time suppresses jitter, but it also hides a capacity that changes within that time. While the
/// delay stays the same, packets arrive exactly as they were sent, whatever the path did before. A short span is then
/// enough. Spans do not overlap.
#[derive(Clone, Copy, Debug, Default)]
pub struct SteadySpan {
    meter: RateMeter,
    /// Shortest and longest delay of the span, in seconds. The delay at its start is included.
    delays_s: [f64; 2],
    samples: u32,
}

impl SteadySpan {
    /// Adds a sample whose last packet had this queueing `delay`.
    ///
    /// At the end of a span, which lasts at least `least`, it returns the delivery rate in bits per second if the delay
    /// was steady. It never exceeds the rate sent.
    pub fn on_sample(&mut self, sample: &Sample, delay: Duration, least: Duration) -> Option<f64> {
        let delay_s = delay.as_secs_f64();
        self.meter.on_sample(sample, Duration::MAX);
        self.delays_s = [self.delays_s[0].min(delay_s), self.delays_s[1].max(delay_s)];
        self.samples += 1;
        let span_s = self.meter.interval_s();
        if span_s < least.as_secs_f64().max(f64::MIN_POSITIVE) || self.samples < LEAST_SAMPLES.get() {
            return None;
        }
        let is_steady = self.delays_s[1] - self.delays_s[0] <= CHANGE * span_s;
        let bps = self.meter.delivered_bps();
        *self = SteadySpan { delays_s: [delay_s; 2], ..SteadySpan::default() };
        is_steady.then_some(bps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::{Instant, Rng};

    const EVERY: Duration = Duration::from_millis(10);

    /// Returns the sample of packets that were sent at `bps` in 10 ms. Their delay rose from `before` to `now`.
    fn sample(bps: f64, before: Duration, now: Duration) -> Sample {
        let bytes = (bps * EVERY.as_secs_f64() / 8.0) as u64;
        Sample {
            rtt: Duration::from_millis(20) + now,
            one_way_delay_us: now.as_micros() as u32,
            largest_sent_at: Instant::ZERO,
            largest_bytes: 1500,
            received_bytes: bytes,
            receive_interval: (EVERY + now).saturating_sub(before),
            send_interval: EVERY,
            backlogged: true,
            ce_packets: 0,
            delivered_packets: 1 + bytes / 1500,
            delivered_bytes: bytes,
            lost_packets: 0,
            lost_bytes: 0,
            sent_after_bytes: 0,
            in_flight_bytes: bytes,
        }
    }

    #[test]
    fn a_steady_delay_shows_the_rate_sent() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let (bps, delay) = (1e5 * 1e4f64.powf(rng.unit()), Duration::from_micros(rng.below(200_000)));
            let (least, mut span, mut found) = (Duration::from_millis(1 + rng.below(300)), SteadySpan::default(), 0);
            span.delays_s = [delay.as_secs_f64(); 2];
            for _ in 0..100 {
                if let Some(measured) = span.on_sample(&sample(bps, delay, delay), delay, least) {
                    assert!((0.99..1.01).contains(&(measured / bps)), "{bps}: {measured}");
                    found += 1;
                }
            }
            assert!(found >= 3, "{least:?}: {found}");
        }
    }

    /// The bottleneck forwards at `capacity`, more is sent, and the path adds jitter of any distribution.
    #[test]
    fn a_rate_is_never_measured_an_eighth_above_what_arrived() {
        let (mut rng, mut found) = (Rng::new(2), 0);
        for _ in 0..300 {
            let (sent, faster) = (1e6 * 1e2f64.powf(rng.unit()), 1.0 + rng.unit().powi(2));
            let jitter_us = 1 + rng.below(30_000) / (1 + rng.below(30));
            let (mut span, mut before, mut queue_s) = (SteadySpan::default(), Duration::ZERO, 0.0);
            for _ in 0..100 {
                queue_s += EVERY.as_secs_f64() * (faster - 1.0);
                let delay = Duration::from_secs_f64(queue_s) + Duration::from_micros(rng.below(jitter_us));
                let delay = delay.max(before.saturating_sub(EVERY));
                let measured = span.on_sample(&sample(sent, before, delay), delay, EVERY * 5);
                before = delay;
                if let Some(measured) = measured {
                    found += 1;
                    assert!(measured <= 1.13 * sent / faster, "{sent} sent, {faster} times the capacity: {measured}");
                }
            }
        }
        assert!(found > 100, "{found}");
    }

    #[test]
    fn jitter_beyond_an_eighth_of_the_span_shows_no_rate() {
        let mut rng = Rng::new(3);
        let (mut spans, mut found) = (0, 0);
        for _ in 0..200 {
            let (mut span, mut before) = (SteadySpan::default(), Duration::ZERO);
            let jitter_us = 20_000 + rng.below(40_000);
            for _ in 0..100 {
                let delay = Duration::from_micros(rng.below(jitter_us)).max(before.saturating_sub(EVERY));
                found += u32::from(span.on_sample(&sample(1e7, before, delay), delay, EVERY * 4).is_some());
                spans += u32::from(span.samples == 0);
                before = delay;
            }
        }
        assert!(spans > 2_000 && found * 50 < spans, "{found} of {spans}");
    }
}
