//! Schedulers: which path a unit takes.

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
use weighted_round_robin::{Order, WeightedRoundRobin};

/// A path as a scheduler sees it. A path is known by its position in the slice, which must not change while it lives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PathView {
    /// It may carry traffic.
    pub usable: bool,
    /// It may have failed: taken only where no other is usable.
    pub suspect: bool,
    /// It may take another bulk unit. For earliest-delivery, room must reach as far as the bulk set's largest skew.
    pub room: bool,
    /// When a unit that overtakes all bulk could leave (the pacer).
    pub ready_at: Instant,
    /// The time that the bulk committed to it takes.
    pub backlog: Duration,
    /// What it can carry now.
    pub rate: Rate,
    /// One-way delay in microseconds, relative to an origin common to all paths.
    pub delay_us: i64,
    /// How much later an urgent unit is taken to arrive, in microseconds: on a path that loses much, as if it had to be repeated.
    pub late_us: i64,
    /// Its share, where none was set by [`Scheduler::set_weights`].
    pub weight: u32,
    /// The share of packets it loses, 0 to 1.
    pub loss: f32,
}

/// A unit as a scheduler sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitView {
    /// IP bytes.
    pub bytes: u32,
    /// The hash of its flow.
    pub flow_hash: u32,
    /// It overtakes bulk in the path queue, and is never held: a unit of a sparse flow, a repair.
    pub urgent: bool,
}

/// Where a unit goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// To the path at this position.
    Path(usize),
    /// A copy to every usable path (a bulk unit: that has room).
    All,
    /// Nowhere yet: it stays in its flow queue.
    Hold,
    /// No path is usable.
    NoPath,
}

/// The strategies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchedulerKind {
    /// The path on which the unit arrives first.
    EarliestDelivery,
    /// Each path in turn.
    RoundRobin,
    /// In proportion to weights, strictly.
    WeightedRoundRobin(Order),
    /// A path at random, by weight.
    Random,
    /// By the flow's hash, in weighted ranges.
    FlowHash,
    /// A copy on every path.
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
    /// A scheduler of that kind; `rng` is for those that draw lots.
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

    /// Where `unit` goes now. Call it again for a unit that was held; for any other answer the unit is taken to be sent.
    pub fn pick(&mut self, now: Instant, paths: &[PathView], unit: UnitView) -> Choice {
        match self {
            Scheduler::EarliestDelivery(s) => s.pick(now, paths, unit),
            Scheduler::RoundRobin(s) => s.pick(paths, unit),
            Scheduler::WeightedRoundRobin(s) => s.pick(paths, unit),
            Scheduler::Random(s) => s.pick(paths, unit),
            Scheduler::FlowHash(s) => s.pick(paths, unit),
            Scheduler::Redundant(s) => s.pick(paths, unit),
        }
    }

    /// Sets the shares by position, in place of the views' own; an empty slice goes back to those. Counters start anew.
    /// Earliest-delivery, round-robin and redundant know no shares.
    pub fn set_weights(&mut self, weights: &[u32]) {
        match self {
            Scheduler::WeightedRoundRobin(s) => s.set_weights(weights),
            Scheduler::Random(s) => s.set_weights(weights),
            Scheduler::FlowHash(s) => s.set_weights(weights),
            Scheduler::EarliestDelivery(_) | Scheduler::RoundRobin(_) | Scheduler::Redundant(_) => {}
        }
    }

    /// Whether bulk goes to the path at `position`.
    pub fn carries_bulk(&self, position: usize) -> bool {
        match self {
            Scheduler::EarliestDelivery(s) => s.carries_bulk(position),
            _ => true,
        }
    }
}

/// Which paths come into question: the usable ones, and of those the suspect ones only where there is no other.
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

/// The shares of the paths: those that were set, else the views' own; all equal where they are all zero.
#[derive(Clone, Debug, Default)]
struct Weights {
    set: alloc::vec::Vec<u32>,
}

impl Weights {
    fn set(&mut self, weights: &[u32]) {
        self.set.clear();
        self.set.extend_from_slice(weights);
    }

    fn of(&self, position: usize, path: &PathView) -> u32 {
        if self.set.is_empty() { path.weight } else { self.set.get(position).copied().unwrap_or(0) }
    }

    /// The share of each path for which `counts` holds (zero for others), by position, and their sum.
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

/// The position at which the running sum of `shares` passes `ticket`.
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

    /// A good, idle path.
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

    /// A full packet of bulk.
    pub const BULK: UnitView = UnitView { bytes: 1_500, flow_hash: 0, urgent: false };
    /// A full packet that overtakes bulk.
    pub const URGENT: UnitView = UnitView { urgent: true, ..BULK };
}

#[cfg(test)]
mod tests {
    use super::testing::{BULK, URGENT, path};
    use super::*;

    const ALL: [SchedulerKind; 7] = [
        SchedulerKind::EarliestDelivery,
        SchedulerKind::RoundRobin,
        SchedulerKind::WeightedRoundRobin(Order::Smooth),
        SchedulerKind::WeightedRoundRobin(Order::Block),
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
                Choice::Path(at) => at == 1,
                Choice::All => true,
                _ => false,
            };
            assert_eq!(s.pick(Instant::ZERO, &[], BULK), Choice::NoPath, "{kind:?}");
            paths[0].usable = false;
            paths[2].suspect = true;
            for _ in 0..5 {
                assert!(goes_to(s.pick(Instant::ZERO, &paths, BULK)), "{kind:?}: the only good path");
            }
            paths[1].room = false;
            paths[2].room = false;
            assert_eq!(s.pick(Instant::ZERO, &paths, BULK), Choice::Hold, "{kind:?}: full");
            assert!(goes_to(s.pick(Instant::ZERO, &paths, URGENT)), "{kind:?}: urgent is never held");
            paths[1].usable = false;
            let choice = s.pick(Instant::ZERO, &paths, URGENT);
            assert!(matches!(choice, Choice::Path(2) | Choice::All), "{kind:?}: a suspect path is better than none");
            paths[2].usable = false;
            assert_eq!(s.pick(Instant::ZERO, &paths, URGENT), Choice::NoPath, "{kind:?}");
        }
    }
}
