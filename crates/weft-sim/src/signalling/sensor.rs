//! What is left of a legacy path between two nodes that take part: pairs of probes, which what arrives at the narrowest link between them
//! pulls apart (Strauss, Katabi, Kaashoek: Spruce, 2003; one of the sensors of paper 001's S³).

use crate::NodeId;
use crate::source::exponential;
use weft_units::{Duration, Instant, Rate, Rng};

/// IP bytes of a probe.
pub(crate) const PROBE_BYTES: u32 = 1_500;
/// What probes may take of the path.
const PROBE_SHARE: f64 = 0.05;
/// So many pairs are averaged, at most.
const PAIRS: u32 = 128;
/// Before so many nothing is said.
const FEW_PAIRS: u32 = 16;

/// What sensors at the two ends of a path say to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    /// The first of a pair.
    First(u32),
    /// The second.
    Second(u32),
    /// What was between the two when they arrived.
    Gap(Duration),
}

/// The near end of a path.
#[derive(Clone, Debug)]
pub struct Sensor {
    to: NodeId,
    capacity: Rate,
    rng: Rng,
    pair: u32,
    next: Instant,
    is_between: bool,
    answers: u32,
    idle_bps: f64,
}

impl Sensor {
    /// A sensor of the path to `to`, whose narrowest link has this capacity.
    pub fn new(to: NodeId, capacity: Rate, seed: u64) -> Sensor {
        let (rng, next) = (Rng::new(seed), Instant::ZERO);
        Sensor { to, capacity, rng, pair: 0, next, is_between: false, answers: 0, idle_bps: 0.0 }
    }

    /// The path's far end.
    pub fn to(&self) -> NodeId {
        self.to
    }

    /// What others leave idle of the narrowest link, below zero where more arrives than it carries; none while too little is known.
    pub fn idle_bps(&self) -> Option<f64> {
        (self.answers >= FEW_PAIRS).then_some(self.idle_bps)
    }

    /// How long its averages reach back.
    pub(super) fn memory(&self) -> Duration {
        self.interval() * PAIRS
    }

    /// When the next probe leaves.
    pub(super) fn deadline(&self) -> Instant {
        self.next
    }

    /// A probe leaves: the second as long after the first as the narrowest link takes to send that.
    pub(super) fn probe(&mut self, now: Instant) -> Probe {
        self.is_between = !self.is_between;
        if self.is_between {
            self.next = now + self.gap();
            return Probe::First(self.pair);
        }
        self.next = now + exponential(self.interval(), &mut self.rng);
        self.pair = self.pair.wrapping_add(1);
        Probe::Second(self.pair.wrapping_sub(1))
    }

    /// The far end says what was between two probes.
    pub(super) fn hear(&mut self, gap: Duration) {
        let stretched = gap.as_secs_f64() / self.gap().as_secs_f64();
        let idle_bps = self.capacity.bps() as f64 * (2.0 - stretched);
        self.answers = self.answers.saturating_add(1);
        self.idle_bps += (idle_bps - self.idle_bps) / f64::from(self.answers.min(PAIRS));
    }

    fn gap(&self) -> Duration {
        self.capacity.time_for(PROBE_BYTES.into())
    }

    fn interval(&self) -> Duration {
        self.gap().mul_f64(2.0 / PROBE_SHARE)
    }
}
