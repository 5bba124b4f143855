use weft_units::{Duration, Instant};

/// Minimum length of a span, in which the changes of the delay and of the queue are compared.
///
/// The jitter that the schedulers of LTE, 5G and Wi-Fi links produce has a shorter period.
const LEAST_SPAN: Duration = Duration::from_millis(50);
/// Number of spans over which means are taken. *Standard*: SRTT has a gain of 1/8 (RFC 6298).
const SPANS: f64 = 8.0;

/// Largest deviation of one span that enters the mean in full, as a multiple of the mean deviation.
///
/// A span's deviation is the part of its delay change that neither the queue nor the steady error explains.
/// [`LEAST_SURPRISE_S`] is added to the limit.
const SURPRISE: f64 = 4.0;
/// Largest deviation of one span that enters the mean in full while the mean deviation is zero, in seconds.
const LEAST_SURPRISE_S: f64 = 0.001;

/// The part of a path's one-way delay that its own queue does not explain.
///
/// Its causes are jitter, radio grants and a varying rate. The sent bytes and the bottleneck's rate determine how the
/// queue must have changed over a span. The rest of the delay's change is unexplained. A wrong capacity estimate
/// makes this rest steady. The mean deviation from the steady rest is the noise.
#[derive(Clone, Copy, Debug, Default)]
pub struct DelayNoise {
    started: Option<Instant>,
    delay_s: f64,
    /// Queueing delay predicted from the sent bytes, in seconds: at the start of the span, and now.
    queue_s: [f64; 2],
    spans: f64,
    rest_s: f64,
    deviation_s: f64,
}

impl DelayNoise {
    /// Adds the delay of one packet. At the end of a span, the span's deviation enters the mean.
    ///
    /// `delay_s` is its delay above the baseline. `standing_s` is the part of it that is a standing queue. `growth_s`
    /// is the growth of the queue since the previous packet. A span lasts at least `round_trip`.
    pub fn on_sample(&mut self, now: Instant, delay_s: f64, standing_s: f64, growth_s: f64, round_trip: Duration) {
        let [before_s, queue_s] = &mut self.queue_s;
        *queue_s = (*queue_s + growth_s).max(0.0);
        if self.started.is_some_and(|started| now - started < round_trip.max(LEAST_SPAN)) {
            return;
        }
        let rest_s = delay_s - self.delay_s - (*queue_s - *before_s);
        if self.started.is_some() {
            self.learn((rest_s - self.rest_s).abs());
            self.rest_s += (rest_s - self.rest_s) / SPANS;
        }
        (self.started, self.delay_s) = (Some(now), delay_s);
        self.queue_s = [standing_s.min(delay_s); 2];
    }

    /// Ends the current span, because one of the two clocks changed.
    ///
    /// Delays before and after that cannot be compared.
    pub fn on_new_clock(&mut self) {
        self.started = None;
    }

    /// Adds the deviation of one span to the mean deviation.
    ///
    /// Once the mean is known, a deviation far above it is limited, because a step of the capacity is not noise.
    fn learn(&mut self, deviation_s: f64) {
        let most_s = if self.spans < SPANS { f64::MAX } else { self.deviation_s * SURPRISE + LEAST_SURPRISE_S };
        self.spans = (self.spans + 1.0).min(SPANS);
        self.deviation_s += (deviation_s.min(most_s) - self.deviation_s) / self.spans;
    }

    /// Returns the noise: the mean absolute error of the predicted change of the delay over a span.
    pub fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.deviation_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    const EVERY: Duration = Duration::from_millis(60);

    /// Returns the measured noise in seconds after `spans` spans.
    ///
    /// The queueing delay is `queue_s(n)`, and `extra_s(n)` is a further delay that no queue explains.
    fn noise_s(spans: u64, mut queue_s: impl FnMut(u64) -> f64, mut extra_s: impl FnMut(u64) -> f64) -> f64 {
        let (mut noise, mut now, mut before_s) = (DelayNoise::default(), Instant::ZERO, 0.0);
        for n in 0..spans {
            let queue = queue_s(n);
            noise.on_sample(now, queue + extra_s(n), queue, queue - before_s, Duration::from_millis(20));
            (now, before_s) = (now + EVERY, queue);
        }
        noise.mean().as_secs_f64()
    }

    #[test]
    fn a_queue_that_is_predicted_is_no_noise() {
        let mut rng = Rng::new(1);
        for _ in 0..50 {
            let most_us = 1_000 + rng.below(50_000);
            let left = noise_s(400, |_| rng.below(most_us) as f64 * 1e-6, |_| 0.0);
            assert!(left < 1e-5, "{most_us} us: {left}");
        }
    }

    #[test]
    fn jitter_is_noise_whatever_the_queue_does() {
        let mut rng = Rng::new(2);
        for _ in 0..50 {
            let (queue_us, jitter_us) = (1 + rng.below(20_000), 1_000 + rng.below(50_000));
            let mut other = rng.clone();
            let most_s = jitter_us as f64 * 1e-6;
            let of_both = noise_s(400, |_| rng.below(queue_us) as f64 * 1e-6, |_| other.below(jitter_us) as f64 * 1e-6);
            // The jitter is uniform. Two values drawn uniformly from a range differ by a third of the range on average.
            assert!((0.1..0.7).contains(&(of_both / most_s)), "{queue_us}, {jitter_us} us: {of_both}");
        }
    }

    #[test]
    fn a_single_step_is_hardly_noise() {
        let mut rng = Rng::new(3);
        for _ in 0..50 {
            let (at, after, step_s) = (20 + rng.below(300), 1 + rng.below(4), (50 + rng.below(150)) as f64 * 1e-3);
            let left = noise_s(at + after, |_| 0.0, |n| if n >= at { step_s } else { 0.0 });
            // Without the limit on the deviation of one span, an eighth of the step would be left in the mean.
            assert!(left <= step_s / 20.0, "{step_s} s: {left}");
        }
    }
}
