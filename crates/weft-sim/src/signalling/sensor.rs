//! Estimates the available capacity of a legacy path, whose routers grant no explicit rates.
//!
//! The sensor sends pairs of probes. Other packets that arrive at the narrowest link between the two probes of a pair
//! increase the gap between the probes. The method is Spruce (Strauss, Katabi, Kaashoek 2003), one of the sensors of
//! paper 001's S³. One pair of probes gives only a rough value. If the estimate is too high, a queue grows. While a
//! queue stands, its growth gives a better value: it is the arrival rate less the capacity.

use crate::NodeId;
use crate::source::exponential;
use weft_units::{Duration, Instant, Rate, Rng};

/// Size of a probe in IP bytes.
pub(crate) const PROBE_BYTES: u32 = 1_500;
/// Fraction of the path's capacity that the probes of the sensor use.
const PROBE_SHARE: f64 = 0.025;
/// Maximum number of values, one from each pair of probes, over which the estimate is averaged.
const PAIRS: u32 = 512;
/// Weight in the average of a value that is measured while a queue stands. Other values have the weight 1.
const BUSY_COUNTS: u32 = 8;
/// Queueing delay that two successive pairs of probes must show, so that a queue counts as standing.
///
/// Bursts of other traffic cause less delay than this.
const STANDS: Duration = Duration::from_millis(12);
/// Number of measured pairs of probes below which there is no estimate of the available capacity.
const FEW_PAIRS: u32 = 16;

/// A message between the sensors at the two ends of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SensorMessage {
    /// The first probe of a pair, with the number of the pair.
    First(u32),
    /// The second probe of a pair, with the number of the pair and its transmission time.
    Second(u32, Instant),
    /// The far end's answer to a pair of probes.
    Gap {
        /// Time between the arrivals of the two probes.
        gap: Duration,
        /// Transmission time of the second probe.
        left: Instant,
        /// Arrival time of the second probe.
        came: Instant,
    },
}

/// The sensor at the beginning of a path, which sends the probes.
#[derive(Clone, Debug)]
pub struct NearSensor {
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
    /// Arrival time at the far end of the second probe of the pair that was answered last.
    came: Instant,
}

impl NearSensor {
    /// Creates a sensor of the path to the node `to`. The path's narrowest link has this capacity.
    pub fn new(to: NodeId, capacity: Rate, seed: u64) -> NearSensor {
        let (rng, next) = (Rng::new(seed), Instant::ZERO);
        NearSensor {
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

    /// Returns the node at the far end of the path.
    pub fn to(&self) -> NodeId {
        self.to
    }

    /// Returns the rate that other traffic and the probes leave on the narrowest link.
    ///
    /// Returns `None` until 16 pairs have been measured.
    pub fn available(&self) -> Option<Rate> {
        let left_bps = self.left_bps - self.capacity.bps() as f64 * PROBE_SHARE;
        (self.answers >= FEW_PAIRS).then(|| Rate::from_bps(left_bps.max(0.0) as u64).min(self.capacity))
    }

    /// Returns an estimate of the bytes that wait in queues along the path.
    ///
    /// It is the delay of the last probe, less that of the fastest probe so far, times the capacity.
    pub fn queued_bytes(&self) -> u64 {
        self.capacity.bytes_in(self.queueing)
    }

    /// Returns the time at which the next probe is sent.
    pub(super) fn deadline(&self) -> Instant {
        self.next
    }

    /// Returns the next probe to send, and sets the time of the one after it.
    ///
    /// The second probe of a pair follows the first by the time that the narrowest link needs to transmit one probe.
    pub(super) fn probe(&mut self, now: Instant) -> SensorMessage {
        self.is_between = !self.is_between;
        if self.is_between {
            self.next = now + self.gap();
            return SensorMessage::First(self.pair);
        }
        self.next = now + exponential(self.interval(), &mut self.rng);
        self.pair = self.pair.wrapping_add(1);
        SensorMessage::Second(self.pair.wrapping_sub(1), now)
    }

    /// Processes the far end's answer to a pair of probes.
    ///
    /// `own` is the rate of the flows that this router sends onto the path, whose granted rates the estimate must
    /// include.
    pub(super) fn receive(&mut self, gap: Duration, left: Instant, came: Instant, own: Rate) {
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
            // The value is negative if more data arrived at the link between the two probes than it can transmit in
            // that time.
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
