use weft_units::{Duration, Instant};

/// Shortest span over which the delay's change is compared with the queue's: the schedulers of LTE, 5G and Wi-Fi links make
/// their jitter within it.
const LEAST_SPAN: Duration = Duration::from_millis(50);
/// Spans that the means are taken over: 1 / the gain of RFC 6298's SRTT.
const SPANS: f64 = 8.0;

/// Of one deviation no more than so many times the mean counts,
const SURPRISE: f64 = 4.0;
/// and this, s, where the mean is next to nothing.
const LEAST_SURPRISE_S: f64 = 0.001;

/// How much of a path's one-way delay its own queue does not explain: jitter, grants of a radio, a rate that varies.
///
/// What was sent and what the bottleneck passed on say how the queue must have changed over a span. The rest of the delay's change
/// is unexplained. A capacity that is estimated too high or too low makes a steady rest; the mean deviation from that is the noise.
#[derive(Clone, Copy, Debug, Default)]
pub struct DelayNoise {
    started: Option<Instant>,
    delay_s: f64,
    /// Queue at the start of the span, and as it must be now.
    queue_s: [f64; 2],
    spans: f64,
    rest_s: f64,
    deviation_s: f64,
}

impl DelayNoise {
    /// Takes in the delay above the baseline that a packet met, of which `standing_s` stands. Since the packet before it the queue
    /// must have grown by `growth_s`. `round_trip` is the shortest span compared.
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

    /// Takes in one deviation. Once the mean is known, a deviation far above it counts in part: a step of the capacity is no noise.
    fn learn(&mut self, deviation_s: f64) {
        let most_s = if self.spans < SPANS { f64::MAX } else { self.deviation_s * SURPRISE + LEAST_SURPRISE_S };
        self.spans = (self.spans + 1.0).min(SPANS);
        self.deviation_s += (deviation_s.min(most_s) - self.deviation_s) / self.spans;
    }

    /// Mean absolute error of a predicted change of the delay over a round trip.
    pub fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.deviation_s)
    }
}
