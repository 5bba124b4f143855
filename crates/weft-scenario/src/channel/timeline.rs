//! Schedules the outages, rate swings and handovers of a link over time.

use super::spec::{HandoverSpec, Impairments, OutageSpec, Swing, SwingShape};
use weft_units::{Duration, Instant, Rate, Rng};

/// Number of steps that a random-walk rate makes in each [`Swing::every`].
const WALK_STEPS: u32 = 8;
/// Maximum step of a random walk, as a fraction of the distance from log(least rate) to log(greatest rate).
///
/// Derived: the sum of eight steps, each uniform up to this maximum, has a standard deviation of one such distance.
const WALK_STEP: f64 = 0.6;

/// The state of a link, which holds until the next outage, change of rate or handover.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Conditions {
    /// True if an outage makes the link drop all packets.
    pub silent: bool,
    /// True if the link transmits nothing, so that packets wait in the queue.
    pub stalled: bool,
    /// The present rate, if the rate of the link swings; `None`: the link has its configured capacity.
    pub swing: Option<Rate>,
    /// Factor by which handovers multiply the link's rate; 1 without handovers.
    pub factor: f64,
    /// Delay that the last handover adds to the propagation delay.
    pub extra: Duration,
    /// Time until which this state lasts at least.
    pub until: Instant,
}

/// The outages, swings and handovers of a link in order of time.
///
/// A clone is cheap and continues with the same events.
#[derive(Clone, Debug)]
pub struct ImpairmentTimeline {
    start: Instant,
    outages: Option<Outages>,
    swings: Option<Swings>,
    handovers: Option<Handovers>,
}

impl ImpairmentTimeline {
    /// Creates the timeline of a run that begins at `start`.
    ///
    /// Nothing happens before `start`. `schedule` is the seed of outages, swings and handovers.
    pub fn new(impairments: &Impairments, schedule: u64, start: Instant) -> ImpairmentTimeline {
        let rng = Rng::new(schedule);
        ImpairmentTimeline {
            start,
            outages: impairments.outage.map(|spec| Outages::new(spec, rng.split(1), start)),
            swings: impairments.swing.map(|spec| Swings::new(spec, rng.split(2), start)),
            handovers: impairments.handover.map(|spec| Handovers::new(spec, rng.split(3), start)),
        }
    }

    /// Returns the state of the link at `time`.
    ///
    /// `time` must not be earlier than the start of the state that the previous call returned.
    #[inline]
    pub fn at(&mut self, time: Instant) -> Conditions {
        let mut now = Conditions {
            silent: false,
            stalled: false,
            swing: None,
            factor: 1.0,
            extra: Duration::ZERO,
            until: self.start,
        };
        if time < self.start {
            return now;
        }
        now.until = Instant::FAR_FUTURE;
        if let Some(outages) = &mut self.outages {
            outages.lay_over(time, &mut now);
        }
        if let Some(swings) = &mut self.swings {
            swings.lay_over(time, &mut now);
        }
        if let Some(handovers) = &mut self.handovers {
            handovers.lay_over(time, &mut now);
        }
        now
    }
}

/// Draws a time from an exponential distribution with this mean.
pub(super) fn exponential(rng: &mut Rng, mean: Duration) -> Duration {
    mean.mul_f64(-libm::log(1.0 - rng.unit()))
}

#[derive(Clone, Debug)]
struct Outages {
    spec: OutageSpec,
    rng: Rng,
    start: Instant,
    end: Instant,
}

impl Outages {
    fn new(spec: OutageSpec, mut rng: Rng, origin: Instant) -> Outages {
        let pause = spec.every.saturating_sub(spec.lasting);
        let first = if spec.spread { exponential(&mut rng, pause) } else { pause.mul_f64(rng.unit()) };
        Outages { spec, rng, start: origin + first, end: origin + first + spec.lasting }
    }

    fn lay_over(&mut self, time: Instant, now: &mut Conditions) {
        while time >= self.end {
            let pause = self.spec.every.saturating_sub(self.spec.lasting);
            self.start = self.end + if self.spec.spread { exponential(&mut self.rng, pause) } else { pause };
            self.end = self.start + self.spec.lasting;
        }
        if time < self.start {
            now.until = now.until.min(self.start);
            return;
        }
        now.until = now.until.min(self.end);
        now.silent = !self.spec.hold;
        now.stalled |= self.spec.hold;
    }
}

#[derive(Clone, Debug)]
struct Swings {
    spec: Swing,
    rng: Rng,
    /// Position of the rate between low (0) and high (1), on a logarithmic scale.
    place: f64,
    end: Instant,
}

impl Swings {
    fn new(spec: Swing, mut rng: Rng, origin: Instant) -> Swings {
        let place = if spec.shape == SwingShape::Square { f64::from(u8::from(rng.chance(0.5))) } else { rng.unit() };
        Swings { spec, rng, place, end: origin + spec.step() }
    }

    fn rate(&self) -> Rate {
        let [low, high] = [self.spec.low, self.spec.high].map(|rate| libm::log(rate.bps() as f64));
        match self.place {
            place if place <= 0.0 => self.spec.low,
            place if place >= 1.0 => self.spec.high,
            place => Rate::from_bps(libm::exp(low + (high - low) * place) as u64),
        }
    }

    fn lay_over(&mut self, time: Instant, now: &mut Conditions) {
        while time >= self.end {
            self.end += self.spec.step();
            self.place = match self.spec.shape {
                SwingShape::Square => 1.0 - self.place,
                SwingShape::Walk => reflected(self.place + WALK_STEP * (2.0 * self.rng.unit() - 1.0)),
            };
        }
        now.swing = Some(self.rate());
        now.until = now.until.min(self.end);
    }
}

impl Swing {
    /// Returns the time after which the rate changes again.
    fn step(&self) -> Duration {
        match self.shape {
            SwingShape::Square => self.every,
            SwingShape::Walk => self.every / WALK_STEPS,
        }
    }
}

/// Reflects a position of the random walk at 0 or at 1, so that the result lies between them.
///
/// `place` lies between −1 and 2.
fn reflected(place: f64) -> f64 {
    let place = place.abs();
    if place > 1.0 { 2.0 - place } else { place }
}

#[derive(Clone, Debug)]
struct Handovers {
    spec: HandoverSpec,
    rng: Rng,
    /// Time at which the next handover begins.
    next: Instant,
    /// Time at which the stall of the last handover ends.
    stalled_until: Instant,
    factor: f64,
    extra: Duration,
}

impl Handovers {
    fn new(spec: HandoverSpec, mut rng: Rng, origin: Instant) -> Handovers {
        let next = origin + spec.every.mul_f64(rng.unit());
        let mut handovers = Handovers { spec, rng, next, stalled_until: origin, factor: 1.0, extra: Duration::ZERO };
        handovers.draw();
        handovers
    }

    fn draw(&mut self) {
        let [least, most] = self.spec.rate;
        self.factor = least + (most - least) * self.rng.unit();
        self.extra = self.spec.step.mul_f64(self.rng.unit());
    }

    fn lay_over(&mut self, time: Instant, now: &mut Conditions) {
        while time >= self.next {
            self.stalled_until = self.next + self.spec.stall;
            self.next += self.spec.every;
            self.draw();
        }
        now.factor = self.factor;
        now.extra = self.extra;
        now.until = now.until.min(self.next);
        if time < self.stalled_until {
            now.stalled = true;
            now.until = now.until.min(self.stalled_until);
        }
    }
}
