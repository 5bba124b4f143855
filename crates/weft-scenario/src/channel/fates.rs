//! Decides for each transmitted packet whether the link loses, duplicates or delays it.

use super::spec::{BurstLoss, Impairments, LongLoss, ReorderSpec};
use weft_units::{Duration, Instant, Rng};

/// The fate of a packet after its transmission: whether it is lost, duplicated or late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketFate {
    /// True if the packet is lost.
    pub lost: bool,
    /// True if the packet arrives twice, at the same time.
    pub twice: bool,
    /// Additional delay of this packet alone, in which later packets can overtake it.
    pub late: Duration,
}

/// Draws the fates of the packets on one direction of a link, one after another.
#[derive(Clone, Debug)]
pub struct FateSequence {
    independent: Rng,
    bursts: Option<Bursts>,
    long: Option<(LongLoss, Rng)>,
    reorder: Option<(ReorderSpec, Rng)>,
    duplicate: Option<(f64, Rng)>,
}

impl FateSequence {
    /// Creates the random streams for the fates of packets in one direction.
    ///
    /// Each kind of fate has its own stream, split from `rng`. Independent loss has the same stream as on links without
    /// impairments.
    pub fn new(impairments: &Impairments, rng: &Rng) -> FateSequence {
        FateSequence {
            independent: rng.split(1),
            bursts: impairments.burst_loss.map(|spec| Bursts::new(spec, rng.split(10))),
            long: impairments.long_loss.map(|spec| (spec, rng.split(11))),
            reorder: impairments.reorder.map(|spec| (spec, rng.split(12))),
            duplicate: (impairments.duplicate > 0.0).then(|| (impairments.duplicate, rng.split(13))),
        }
    }

    /// Returns the fate of the next packet, of `bytes`, which left the transmitter at `at`.
    ///
    /// `loss` is the probability that the packet is lost, independent of other packets.
    pub fn next(&mut self, at: Instant, bytes: u64, loss: f64) -> PacketFate {
        let mut lost = loss > 0.0 && self.independent.chance(loss);
        lost |= self.bursts.as_mut().is_some_and(|bursts| bursts.loses(at));
        lost |= self.long.as_mut().is_some_and(|(spec, rng)| bytes > spec.over && rng.chance(spec.share));
        let late =
            self.reorder.as_mut().filter(|_| !lost).and_then(|(spec, rng)| rng.chance(spec.share).then_some(spec.by));
        let twice = !lost && self.duplicate.as_mut().is_some_and(|(share, rng)| rng.chance(*share));
        PacketFate { lost, twice, late: late.unwrap_or(Duration::ZERO) }
    }
}

/// Pause between two packets after which the burst-loss state is drawn anew.
///
/// The state changes only when a packet passes. Without this limit, a burst of ten packets would last for ten seconds
/// for a sender that sends one packet a second. Tuned: above the time between two packets at 0.5 Mbit/s, and below the
/// least retransmission timer of 200 ms.
const MEMORY: Duration = Duration::from_millis(100);

/// The Gilbert-Elliott model of burst loss, whose state advances with each packet.
#[derive(Clone, Debug)]
struct Bursts {
    spec: BurstLoss,
    rng: Rng,
    is_bad: bool,
    last: Instant,
}

impl Bursts {
    fn new(spec: BurstLoss, mut rng: Rng) -> Bursts {
        let is_bad = rng.chance(spec.share);
        Bursts { spec, rng, is_bad, last: Instant::ZERO }
    }

    /// Returns true if burst loss drops the next packet, which left the transmitter at `at`.
    fn loses(&mut self, at: Instant) -> bool {
        if at - self.last > MEMORY {
            self.is_bad = self.rng.chance(self.spec.share);
        }
        self.last = at;
        let is_lost = self.is_bad;
        let change = if self.is_bad { 1.0 / self.spec.length } else { self.spec.begins() };
        if self.rng.chance(change) {
            self.is_bad = !self.is_bad;
        }
        is_lost
    }
}

impl BurstLoss {
    /// Returns the probability that a burst begins after a packet in the good state.
    ///
    /// Derived: in the long run, the fraction of packets in the bad state is `begins / (begins + 1 / length)`.
    pub(super) fn begins(&self) -> f64 {
        self.share / (self.length * (1.0 - self.share))
    }
}
