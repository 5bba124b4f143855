//! Computes the additional delay of packets after the transmitter, with five kinds of jitter.

use super::spec::{Jitter, JitterKind};
use super::timeline::exponential;
use crate::jitter::Wander;
use weft_units::{Duration, Instant, Rng};

/// Mean time between two transmit opportunities of an aggregating medium, as a fraction of the jitter limit.
///
/// Derived: of exponentially distributed times with this mean, 95 % are below the limit.
const AGGREGATION_MEAN: f64 = 1.0 / 3.0;
/// Shortest and longest time between two spikes of the delay.
const SPIKES_EVERY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// Idle time, in multiples of the jitter limit, after which a gate does not draw the release instants in between.
///
/// It bounds the number of random draws after a long pause.
const IDLE_LIMITS: u32 = 1_000;

/// Draws the additional delay (jitter) of each packet after its transmission.
#[derive(Clone, Debug)]
pub struct Delay {
    wander: Wander,
    has_wander: bool,
    more: More,
}

#[derive(Clone, Debug)]
enum More {
    Nothing,
    Gate(ReleaseGate),
    Independent { limit: Duration, rng: Rng },
    Spikes(Spikes),
}

impl Delay {
    /// Creates the additional delay of one direction of a link.
    ///
    /// It is the sum of a delay that wanders between zero and `wander`, and the delay of `jitter`. The first uses the
    /// same random numbers as on a link without impairments.
    pub fn new(wander: Duration, jitter: Option<Jitter>, rng: &Rng, now: Instant) -> Delay {
        let own = rng.split(14);
        let more = match jitter.filter(|jitter| !jitter.limit.is_zero()) {
            None => More::Nothing,
            Some(Jitter { kind, limit }) => match kind {
                JitterKind::Wander => More::Nothing,
                JitterKind::Independent => More::Independent { limit, rng: own },
                JitterKind::Spikes => More::Spikes(Spikes::new(limit, own, now)),
                JitterKind::Grants | JitterKind::Aggregation => More::Gate(ReleaseGate::new(kind, limit, own, now)),
            },
        };
        Delay { wander: Wander::new(rng.split(2), wander, now), has_wander: !wander.is_zero(), more }
    }

    /// Changes the maximum of the wandering delay from `now` on.
    pub fn set_wander(&mut self, limit: Duration, now: Instant) {
        self.has_wander = !limit.is_zero();
        self.wander.set_limit(limit, now);
    }

    /// Returns the additional delay of a packet that left the transmitter at `time`.
    ///
    /// `time` must not be earlier than in the previous call.
    pub fn at(&mut self, time: Instant) -> Duration {
        let wander = if self.has_wander { self.wander.at(time) } else { Duration::ZERO };
        wander
            + match &mut self.more {
                More::Nothing => Duration::ZERO,
                More::Gate(gate) => gate.opens(time) - time,
                More::Independent { limit, rng } => limit.mul_f64(rng.unit()),
                More::Spikes(spikes) => spikes.at(time),
            }
    }

    /// True if the additional delays never let one packet overtake another.
    pub fn keeps_order(&self) -> bool {
        !matches!(self.more, More::Independent { .. })
    }
}

/// A medium that releases packets only at discrete instants, whose spacing is random.
#[derive(Clone, Debug)]
struct ReleaseGate {
    kind: JitterKind,
    limit: Duration,
    rng: Rng,
    next: Instant,
}

impl ReleaseGate {
    fn new(kind: JitterKind, limit: Duration, rng: Rng, now: Instant) -> ReleaseGate {
        ReleaseGate { kind, limit, rng, next: now }
    }

    /// Returns the first instant at or after `time` at which the medium releases packets.
    fn opens(&mut self, time: Instant) -> Instant {
        if time.since(self.next) > self.limit * IDLE_LIMITS {
            self.next = time;
        }
        while self.next < time {
            let spacing = self.spacing().max(Duration::from_nanos(1));
            self.next += spacing;
        }
        self.next
    }

    fn spacing(&mut self) -> Duration {
        match self.kind {
            JitterKind::Aggregation => exponential(&mut self.rng, self.limit.mul_f64(AGGREGATION_MEAN)).min(self.limit),
            _ => self.limit.mul_f64(0.5 + 0.5 * self.rng.unit()),
        }
    }
}

/// Sudden delays that decrease linearly, half as fast as time passes, so that packets keep their order.
#[derive(Clone, Debug)]
struct Spikes {
    limit: Duration,
    rng: Rng,
    begins: Instant,
    height: Duration,
    next: Instant,
}

impl Spikes {
    fn new(limit: Duration, rng: Rng, now: Instant) -> Spikes {
        let mut spikes = Spikes { limit, rng, begins: now, height: Duration::ZERO, next: now };
        spikes.next = now + spikes.pause();
        spikes
    }

    fn pause(&mut self) -> Duration {
        let [least, most] = SPIKES_EVERY;
        least + (most - least).mul_f64(self.rng.unit())
    }

    fn at(&mut self, time: Instant) -> Duration {
        while time >= self.next {
            self.begins = self.next;
            self.height = self.limit.mul_f64(0.3 + 0.7 * self.rng.unit());
            let pause = self.pause();
            self.next += pause;
        }
        self.height.saturating_sub((time - self.begins) / 2)
    }
}
