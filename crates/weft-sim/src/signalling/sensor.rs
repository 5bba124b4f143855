//! What is left of a legacy path between two nodes that take part: pairs of probes, which what arrives at the narrowest link between them
//! pulls apart (Strauss, Katabi, Kaashoek: Spruce, 2003; one of the sensors of paper 001's S³). One pair says little, and where too much is
//! taken to be left a queue grows. While one stands, how fast it does says more: what arrives beyond what the path carries.

use crate::NodeId;
use crate::source::exponential;
use weft_units::{Duration, Instant, Rate, Rng};

/// IP bytes of a probe.
pub(crate) const PROBE_BYTES: u32 = 1_500;
/// What probes may take of the path.
const PROBE_SHARE: f64 = 0.025;
/// So many pairs are averaged, at most.
const PAIRS: u32 = 512;
/// While a queue stands a pair counts for so many,
const BUSY_COUNTS: u32 = 8;
/// and it stands if both of two pairs have met this, which bursts of others do not come to.
const STANDS: Duration = Duration::from_millis(12);
/// Before so many nothing is said.
const FEW_PAIRS: u32 = 16;

/// What sensors at the two ends of a path say to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    /// The first of a pair.
    First(u32),
    /// The second, and when it left.
    Second(u32, Instant),
    /// What was between the two when they arrived, and when the second did so and had left.
    Gap {
        /// Between the two.
        gap: Duration,
        /// When the second left.
        left: Instant,
        /// When it arrived.
        came: Instant,
    },
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
    left_bps: f64,
    least_delay: Duration,
    queueing: Duration,
    /// When the last pair arrived that was answered.
    came: Instant,
}

impl Sensor {
    /// A sensor of the path to `to`, whose narrowest link has this capacity.
    pub fn new(to: NodeId, capacity: Rate, seed: u64) -> Sensor {
        let (rng, next) = (Rng::new(seed), Instant::ZERO);
        Sensor {
            to,
            capacity,
            rng,
            pair: 0,
            next,
            is_between: false,
            answers: 0,
            left_bps: 0.0,
            least_delay: Duration::MAX,
            queueing: Duration::ZERO,
            came: Instant::ZERO,
        }
    }

    /// The path's far end.
    pub fn to(&self) -> NodeId {
        self.to
    }

    /// What is there for flows: what others and the probes leave of the narrowest link. None while too little is known.
    pub fn available(&self) -> Option<Rate> {
        let left_bps = self.left_bps - self.capacity.bps() as f64 * PROBE_SHARE;
        (self.answers >= FEW_PAIRS).then(|| Rate::from_bps(left_bps.max(0.0) as u64).min(self.capacity))
    }

    /// What is queued on the way, in bytes, by how much longer the last probe took than the fastest.
    pub fn queued_bytes(&self) -> u64 {
        self.capacity.bytes_in(self.queueing)
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
        Probe::Second(self.pair.wrapping_sub(1), now)
    }

    /// The far end says what was between two probes and when the second came, while flows that pass here sent `own`.
    pub(super) fn hear(&mut self, gap: Duration, left: Instant, came: Instant, own: Rate) {
        let (before, since) = (self.queueing, came - self.came);
        self.least_delay = self.least_delay.min(came - left);
        self.queueing = (came - left) - self.least_delay;
        self.came = came;
        self.answers = self.answers.saturating_add(1);
        let (capacity, own) = (self.capacity.bps() as f64, own.bps() as f64);
        let (idle, counts) = if before.min(self.queueing) >= STANDS {
            let grown = self.queueing.as_secs_f64() - before.as_secs_f64();
            (-capacity * grown / since.as_secs_f64(), BUSY_COUNTS)
        } else {
            // Below zero where more arrived between the two than the link carries.
            (capacity * (2.0 - gap.as_secs_f64() / self.gap().as_secs_f64()), 1)
        };
        let weight = f64::from(counts) / f64::from(self.answers.clamp(counts, PAIRS));
        self.left_bps += (idle + own - self.left_bps) * weight;
    }

    fn gap(&self) -> Duration {
        self.capacity.time_for(PROBE_BYTES.into())
    }

    fn interval(&self) -> Duration {
        self.gap().mul_f64(2.0 / PROBE_SHARE)
    }
}
