//! Schedulers: each picks the path on which a unit travels.
//!
//! The engine describes its paths as [`PathView`]s and the next unit as a [`UnitView`]. [`Scheduler::pick`] answers
//! with a path, or leaves the unit in its flow queue. A scheduler never sends and never reads a clock.

pub mod earliest_delivery;
pub mod flow_hash;
pub mod random;
pub mod redundant;
pub mod round_robin;
pub mod weighted_round_robin;

use earliest_delivery::{EarliestDelivery, EarliestDeliveryConfig};
use flow_hash::FlowHash;
use random::Random;
use redundant::Redundant;
use round_robin::RoundRobin;
use weft_units::{Duration, Instant, Rate, Rng};
use weighted_round_robin::{RoundOrder, WeightedRoundRobin};

/// Properties of a path on which a scheduler's decision depends.
///
/// The position in the slice identifies a path. It must not change while the path exists.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PathView {
    /// True if the path may carry traffic.
    pub usable: bool,
    /// True if the path may have failed. Schedulers use it only if no other path is usable.
    pub suspect: bool,
    /// True if the path queue accepts another bulk unit.
    ///
    /// With earliest delivery, the path queue must be as long as the largest difference in delay between the paths that
    /// carry bulk.
    pub room: bool,
    /// Time at which the pacer would send a unit that overtakes all bulk.
    pub ready_at: Instant,
    /// Time that the path needs to send the bulk that already waits in its queue.
    pub backlog: Duration,
    /// Rate at which the path is paced now.
    pub rate: Rate,
    /// One-way delay in microseconds, relative to an origin common to all paths.
    pub delay_us: i64,
    /// Extra delay assumed for an urgent unit, in microseconds.
    ///
    /// On a path with high loss it is the delay of a retransmission.
    pub late_us: i64,
    /// Path's share of the traffic, relative to the sum of all weights, unless [`Scheduler::set_weights`] sets one.
    pub weight: u32,
    /// Fraction of packets that the path loses, 0 to 1.
    pub loss: f32,
}

/// Properties of a unit on which a scheduler's decision depends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitView {
    /// Length of the IP packet in bytes.
    pub bytes: u32,
    /// Hash of the unit's flow.
    pub flow_hash: u32,
    /// True if the unit overtakes bulk in the path queue and is never held.
    ///
    /// It is a unit of a sparse flow, or a retransmission.
    pub urgent: bool,
}

/// Decision of a scheduler about a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathChoice {
    /// Send on the path at this position in the slice of path views, counted from 0.
    Path(usize),
    /// Send a copy on every usable path. On a full path the copy waits behind all other units.
    All,
    /// Keep the unit in its flow queue for now.
    Hold,
    /// No path is usable.
    NoPath,
}

/// The scheduling strategies, for the choice of a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchedulerKind {
    /// Picks the path on which the unit arrives first.
    EarliestDelivery,
    /// Picks each path in turn.
    RoundRobin,
    /// Serves paths strictly in proportion to weights.
    WeightedRoundRobin(RoundOrder),
    /// Picks a path at random, by weight.
    Random,
    /// Picks the path whose range of hash values contains the flow's hash. The ranges are proportional to weights.
    FlowHash,
    /// Sends a copy on every path.
    Redundant,
}

/// A scheduler of the configured strategy.
#[derive(Clone, Debug)]
pub enum Scheduler {
    /// See [`EarliestDelivery`].
    EarliestDelivery(EarliestDelivery),
    /// See [`RoundRobin`].
    RoundRobin(RoundRobin),
    /// See [`WeightedRoundRobin`].
    WeightedRoundRobin(WeightedRoundRobin),
    /// See [`Random`].
    Random(Random),
    /// See [`FlowHash`].
    FlowHash(FlowHash),
    /// See [`Redundant`].
    Redundant(Redundant),
}

impl Scheduler {
    /// Returns a scheduler of the given kind. Strategies that choose at random draw from `rng`.
    pub fn new(kind: SchedulerKind, rng: Rng) -> Scheduler {
        match kind {
            SchedulerKind::EarliestDelivery => {
                Scheduler::EarliestDelivery(EarliestDelivery::new(EarliestDeliveryConfig::default()))
            }
            SchedulerKind::RoundRobin => Scheduler::RoundRobin(RoundRobin::default()),
            SchedulerKind::WeightedRoundRobin(order) => Scheduler::WeightedRoundRobin(WeightedRoundRobin::new(order)),
            SchedulerKind::Random => Scheduler::Random(Random::new(rng)),
            SchedulerKind::FlowHash => Scheduler::FlowHash(FlowHash::default()),
            SchedulerKind::Redundant => Scheduler::Redundant(Redundant),
        }
    }

    /// Returns the path that `unit` takes now, or [`PathChoice::Hold`].
    ///
    /// Call it again for a unit that was held. After any other result the scheduler assumes that the unit is sent.
    pub fn pick(&mut self, now: Instant, paths: &[PathView], unit: UnitView) -> PathChoice {
        match self {
            Scheduler::EarliestDelivery(s) => s.pick(now, paths, unit),
            Scheduler::RoundRobin(s) => s.pick(paths, unit),
            Scheduler::WeightedRoundRobin(s) => s.pick(paths, unit),
            Scheduler::Random(s) => s.pick(paths, unit),
            Scheduler::FlowHash(s) => s.pick(paths, unit),
            Scheduler::Redundant(s) => s.pick(paths, unit),
        }
    }

    /// Sets each path's share of the traffic, in order of the path views. The shares replace the views' weights.
    ///
    /// An empty slice restores the weights in the views. All counters restart. Earliest delivery, round robin and
    /// redundant ignore shares.
    pub fn set_weights(&mut self, weights: &[u32]) {
        match self {
            Scheduler::WeightedRoundRobin(s) => s.set_weights(weights),
            Scheduler::Random(s) => s.set_weights(weights),
            Scheduler::FlowHash(s) => s.set_weights(weights),
            Scheduler::EarliestDelivery(_) | Scheduler::RoundRobin(_) | Scheduler::Redundant(_) => {}
        }
    }

    /// True if the path at `position` in the slice of path views carries bulk.
    pub fn carries_bulk(&self, position: usize) -> bool {
        match self {
            Scheduler::EarliestDelivery(s) => s.carries_bulk(position),
            _ => true,
        }
    }
}

/// Selects the paths that may carry a unit: usable ones, and suspect ones only if no other is usable.
#[derive(Clone, Copy)]
struct Eligible {
    suspects_too: bool,
}

impl Eligible {
    fn among(paths: &[PathView]) -> Eligible {
        Eligible { suspects_too: !paths.iter().any(|p| p.usable && !p.suspect) }
    }

    fn includes(self, path: &PathView) -> bool {
        path.usable && (self.suspects_too || !path.suspect)
    }
}

/// Shares of the paths: those set by the caller, otherwise the views' weights.
///
/// If all shares are zero, all paths have the same share.
#[derive(Clone, Debug, Default)]
struct PathWeights {
    set: alloc::vec::Vec<u32>,
}

impl PathWeights {
    fn set(&mut self, weights: &[u32]) {
        self.set.clear();
        self.set.extend_from_slice(weights);
    }

    fn of(&self, position: usize, path: &PathView) -> u32 {
        if self.set.is_empty() { path.weight } else { self.set.get(position).copied().unwrap_or(0) }
    }

    /// Returns the share of each path by position, and their sum.
    ///
    /// Paths for which `counts` returns false have share zero.
    fn shares<'a>(
        &'a self,
        paths: &'a [PathView],
        counts: impl Fn(&PathView) -> bool + Copy + 'a,
    ) -> (impl Iterator<Item = u64> + Clone + 'a, u64) {
        let raw = move |(at, path): (usize, &PathView)| if counts(path) { u64::from(self.of(at, path)) } else { 0 };
        let sum: u64 = paths.iter().enumerate().map(raw).sum();
        let equal = u64::from(sum == 0);
        let share = move |at_path: (usize, &PathView)| raw(at_path) + if counts(at_path.1) { equal } else { 0 };
        let sum = if sum == 0 { paths.iter().filter(|p| counts(p)).count() as u64 } else { sum };
        (paths.iter().enumerate().map(share), sum)
    }
}

/// Returns the first position at which the running sum of `shares` exceeds `ticket`, or `None` if none does.
fn draw(shares: impl Iterator<Item = u64>, mut ticket: u64) -> Option<usize> {
    for (position, share) in shares.enumerate() {
        if ticket < share {
            return Some(position);
        }
        ticket -= share;
    }
    None
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Returns a good, idle path.
    pub fn path(rate_mbps: u64, delay_ms: i64) -> PathView {
        PathView {
            usable: true,
            suspect: false,
            room: true,
            ready_at: Instant::ZERO,
            backlog: Duration::ZERO,
            rate: Rate::from_mbps(rate_mbps),
            delay_us: delay_ms * 1_000,
            late_us: 0,
            weight: 1,
            loss: 0.0,
        }
    }

    /// A bulk unit of full packet length.
    pub const BULK: UnitView = UnitView { bytes: 1_500, flow_hash: 0, urgent: false };
    /// A unit of full packet length that overtakes bulk.
    pub const URGENT: UnitView = UnitView { urgent: true, ..BULK };
}

#[cfg(test)]
mod tests {
    use super::testing::{BULK, URGENT, path};
    use super::*;

    const ALL: [SchedulerKind; 7] = [
        SchedulerKind::EarliestDelivery,
        SchedulerKind::RoundRobin,
        SchedulerKind::WeightedRoundRobin(RoundOrder::Smooth),
        SchedulerKind::WeightedRoundRobin(RoundOrder::Block),
        SchedulerKind::Random,
        SchedulerKind::FlowHash,
        SchedulerKind::Redundant,
    ];

    #[test]
    fn what_every_strategy_promises() {
        for kind in ALL {
            let mut s = Scheduler::new(kind, Rng::new(1));
            let mut paths = [path(10, 5), path(10, 5), path(10, 5)];
            let goes_to = |choice| match choice {
                PathChoice::Path(at) => at == 1,
                PathChoice::All => true,
                _ => false,
            };
            assert_eq!(s.pick(Instant::ZERO, &[], BULK), PathChoice::NoPath, "{kind:?}");
            paths[0].usable = false;
            paths[2].suspect = true;
            for _ in 0..5 {
                assert!(goes_to(s.pick(Instant::ZERO, &paths, BULK)), "{kind:?}: the only good path");
            }
            paths[1].room = false;
            paths[2].room = false;
            assert_eq!(s.pick(Instant::ZERO, &paths, BULK), PathChoice::Hold, "{kind:?}: full");
            assert!(goes_to(s.pick(Instant::ZERO, &paths, URGENT)), "{kind:?}: urgent is never held");
            paths[1].usable = false;
            let choice = s.pick(Instant::ZERO, &paths, URGENT);
            assert!(
                matches!(choice, PathChoice::Path(2) | PathChoice::All),
                "{kind:?}: a suspect path is better than none"
            );
            paths[2].usable = false;
            assert_eq!(s.pick(Instant::ZERO, &paths, URGENT), PathChoice::NoPath, "{kind:?}");
        }
    }
}
