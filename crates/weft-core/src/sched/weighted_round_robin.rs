//! Weighted round robin as in NATALIE (paper 002).
//!
//! It keeps to the order strictly, so that a full path blocks the other paths.

use super::{Eligible, PathChoice, PathView, PathWeights, UnitView};
use alloc::vec::Vec;

/// Order of paths within a round. Paper 002 does not state it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RoundOrder {
    /// Distributes each path's turns as evenly as possible over the round.
    ///
    /// Every counter grows by its weight. The scheduler serves the path with the largest counter and subtracts the
    /// sum of weights from it.
    #[default]
    Smooth,
    /// Each path sends as many units in a row as its weight states.
    Block,
}

/// Strict weighted round robin: of every Σw units, path i carries wᵢ.
///
/// The throughput is min Cᵢ·Σw/wᵢ, where Cᵢ is the capacity of path i. Weights that do not match the capacities waste
/// throughput.
#[derive(Clone, Debug)]
pub struct WeightedRoundRobin {
    order: RoundOrder,
    weights: PathWeights,
    counters: Vec<i64>,
}

impl WeightedRoundRobin {
    /// Returns a scheduler with counters at zero. It uses the weights in the path views.
    pub fn new(order: RoundOrder) -> WeightedRoundRobin {
        WeightedRoundRobin { order, weights: PathWeights::default(), counters: Vec::new() }
    }

    /// Sets each path's share, in order of the path views, and restarts the counters (NATALIE's `weights`).
    pub fn set_weights(&mut self, weights: &[u32]) {
        self.weights.set(weights);
        self.counters.fill(0);
    }

    /// Picks the path whose turn it is.
    ///
    /// While that path is full, a bulk unit gets [`PathChoice::Hold`] and the turn stays with the path.
    pub fn pick(&mut self, paths: &[PathView], unit: UnitView) -> PathChoice {
        self.counters.resize(paths.len(), 0);
        let eligible = Eligible::among(paths);
        let turn = match self.order {
            RoundOrder::Smooth => self.smooth_turn(paths, eligible),
            RoundOrder::Block => self.block_turn(paths, eligible),
        };
        let Some(at) = turn else { return PathChoice::NoPath };
        if !paths[at].room && !unit.urgent {
            return PathChoice::Hold;
        }
        match self.order {
            RoundOrder::Smooth => self.advance_smooth(paths, eligible, at),
            RoundOrder::Block => self.counters[at] -= 1,
        }
        PathChoice::Path(at)
    }

    fn smooth_turn(&self, paths: &[PathView], eligible: Eligible) -> Option<usize> {
        let (shares, _) = self.weights.shares(paths, |p| eligible.includes(p));
        let mut best = None;
        for (at, (share, counter)) in shares.zip(&self.counters).enumerate() {
            let credit = counter + share as i64;
            if share > 0 && best.is_none_or(|(_, most)| credit > most) {
                best = Some((at, credit));
            }
        }
        best.map(|(at, _)| at)
    }

    fn advance_smooth(&mut self, paths: &[PathView], eligible: Eligible, served: usize) {
        let (shares, sum) = self.weights.shares(paths, |p| eligible.includes(p));
        for (share, counter) in shares.zip(&mut self.counters) {
            *counter += share as i64;
        }
        self.counters[served] -= sum as i64;
    }

    /// Returns the position of the path whose turn it is in block order, or `None` if no path is eligible.
    ///
    /// Each counter starts at its path's weight and falls with each unit. When the counters of all eligible paths are
    /// at zero, the next round starts.
    fn block_turn(&mut self, paths: &[PathView], eligible: Eligible) -> Option<usize> {
        let (shares, sum) = self.weights.shares(paths, |p| eligible.includes(p));
        if sum == 0 {
            return None;
        }
        let unspent = |counters: &[i64]| shares.clone().zip(counters).position(|(share, &left)| share > 0 && left > 0);
        if let Some(at) = unspent(&self.counters) {
            return Some(at);
        }
        for (share, counter) in shares.clone().zip(&mut self.counters) {
            *counter = share as i64;
        }
        unspent(&self.counters)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{BULK, path};
    use super::*;

    fn turns<const N: usize>(s: &mut WeightedRoundRobin, paths: &[PathView]) -> [usize; N] {
        [(); N].map(|()| match s.pick(paths, BULK) {
            PathChoice::Path(at) => at,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn smooth_spreads_and_block_does_not() {
        let paths = [path(1, 0); 3];
        let mut smooth = WeightedRoundRobin::new(RoundOrder::Smooth);
        smooth.set_weights(&[5, 1, 1]);
        assert_eq!(turns(&mut smooth, &paths), [0, 0, 1, 0, 2, 0, 0, 0]);
        let mut block = WeightedRoundRobin::new(RoundOrder::Block);
        block.set_weights(&[3, 1, 2]);
        assert_eq!(turns(&mut block, &paths), [0, 0, 0, 1, 2, 2, 0]);
    }

    #[test]
    fn a_full_path_keeps_its_turn() {
        for order in [RoundOrder::Smooth, RoundOrder::Block] {
            let mut s = WeightedRoundRobin::new(order);
            let mut paths = [path(1, 0); 2];
            assert_eq!(turns(&mut s, &paths), [0]);
            paths[1].room = false;
            assert_eq!([s.pick(&paths, BULK), s.pick(&paths, BULK)], [PathChoice::Hold; 2]);
            paths[1].room = true;
            assert_eq!(turns(&mut s, &paths), [1, 0]);
        }
    }

    #[test]
    fn setting_weights_starts_a_new_round() {
        let paths = [path(1, 0); 2];
        let mut s = WeightedRoundRobin::new(RoundOrder::Block);
        s.set_weights(&[3, 1]);
        assert_eq!(turns(&mut s, &paths), [0, 0]);
        s.set_weights(&[1, 2]);
        assert_eq!(turns(&mut s, &paths), [0, 1, 1, 0]);
    }

    /// Returns the throughput in Mbit/s for a row of paper 002, Table I.
    ///
    /// Strict round robin with blocking serves three links of 100 Mbit/s (94 Mbit/s of goodput). Each path queues up
    /// to `queue` units. The clock ticks once per unit time of one link.
    fn throughput_mbps(order: RoundOrder, weights: [u32; 3], queue: u64) -> f64 {
        const LINK_MBPS: f64 = 94.0;
        let mut s = WeightedRoundRobin::new(order);
        s.set_weights(&weights);
        let mut paths = [path(100, 0); 3];
        let mut backlog = [0u64; 3];
        let (mut sent, ticks) = (0u64, 40_000);
        for _ in 0..ticks {
            loop {
                for (path, units) in paths.iter_mut().zip(&backlog) {
                    path.room = *units < queue;
                }
                let PathChoice::Path(at) = s.pick(&paths, BULK) else { break };
                backlog[at] += 1;
                sent += 1;
            }
            backlog = backlog.map(|units| units.saturating_sub(1));
        }
        LINK_MBPS * sent as f64 / ticks as f64
    }

    #[test]
    fn table_i_of_paper_002() {
        let rows = [
            ([2, 2, 2], 280.0),
            ([2, 2, 3], 220.0),
            ([2, 2, 4], 188.0),
            ([2, 3, 2], 220.0),
            ([2, 3, 3], 251.0),
            ([2, 3, 4], 211.0),
            ([2, 4, 4], 235.0),
            ([3, 3, 4], 235.0),
            ([3, 4, 3], 234.0),
            ([3, 4, 4], 258.0),
        ];
        for (weights, paper_mbps) in rows {
            let sum: u32 = weights.iter().sum();
            let law = weights.iter().map(|w| 94.0 * f64::from(sum) / f64::from(*w)).fold(f64::MAX, f64::min);
            for order in [RoundOrder::Block, RoundOrder::Smooth] {
                let measured = throughput_mbps(order, weights, 20);
                assert!((measured / law - 1.0).abs() < 0.005, "{weights:?} {order:?}: {measured}, law {law}");
                assert!(
                    (measured / paper_mbps - 1.0).abs() < 0.03,
                    "{weights:?} {order:?}: {measured}, paper {paper_mbps}"
                );
            }
        }
    }
}
