//! Flow-hash scheduling (paper 000's flow-level forwarding).
//!
//! Each path owns a range of the hash space in proportion to its weight. The scheduler keeps no state per flow. When
//! a path fails, only its own flows are hashed again, among the remaining paths. When the path returns, so do its
//! flows.

use super::{Eligible, PathChoice, PathView, PathWeights, UnitView, draw};

/// The flow-hash scheduler: keeps each flow on one path, so that nothing is reordered.
#[derive(Clone, Debug, Default)]
pub struct FlowHash {
    weights: PathWeights,
}

impl FlowHash {
    /// Sets each path's share of the flows, in order of the path views. The shares replace the views' weights.
    pub fn set_weights(&mut self, weights: &[u32]) {
        self.weights.set(weights);
    }

    /// Picks the path whose range contains the flow's hash, or another one if this path may not be used.
    ///
    /// If the path is full, a bulk unit is held.
    pub fn pick(&mut self, paths: &[PathView], unit: UnitView) -> PathChoice {
        let eligible = Eligible::among(paths);
        let home = self.range(paths, unit.flow_hash, |_| true).filter(|&at| eligible.includes(&paths[at]));
        let refuge = || self.range(paths, rehash(unit.flow_hash), |p| eligible.includes(p));
        match home.or_else(refuge) {
            Some(at) if paths[at].room || unit.urgent => PathChoice::Path(at),
            Some(_) => PathChoice::Hold,
            None => PathChoice::NoPath,
        }
    }

    fn range(&self, paths: &[PathView], hash: u32, counts: impl Fn(&PathView) -> bool + Copy) -> Option<usize> {
        let (shares, sum) = self.weights.shares(paths, counts);
        draw(shares, ((u128::from(hash) * u128::from(sum)) >> 32) as u64)
    }
}

/// Mixes the bits of a hash (MurmurHash3's finaliser) to choose another path for a flow whose path failed.
///
/// The flows of one range then spread over all remaining paths.
fn rehash(hash: u32) -> u32 {
    let mut h = hash;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{BULK, path};
    use super::*;
    use alloc::vec::Vec;

    fn assign(s: &mut FlowHash, paths: &[PathView]) -> Vec<usize> {
        (0..10_000u32)
            .map(|n| {
                let unit = UnitView { flow_hash: n.wrapping_mul(0x9e37_79b9), ..BULK };
                let PathChoice::Path(at) = s.pick(paths, unit) else { panic!("no path chosen") };
                at
            })
            .collect()
    }

    #[test]
    fn ranges_are_as_wide_as_the_weights() {
        let mut s = FlowHash::default();
        s.set_weights(&[50, 75, 100]);
        let homes = assign(&mut s, &[path(1, 0); 3]);
        let count = |at| homes.iter().filter(|&&h| h == at).count();
        let expected = [2_222, 3_333, 4_444];
        assert!((0..3).all(|at| count(at).abs_diff(expected[at]) < 100), "{:?}", [0, 1, 2].map(count));
    }

    #[test]
    fn only_the_flows_of_a_lost_path_move_and_they_spread() {
        let mut s = FlowHash::default();
        let mut paths = [path(1, 0); 4];
        let before = assign(&mut s, &paths);
        paths[1].usable = false;
        let after = assign(&mut s, &paths);
        let mut refuge = [0; 4];
        for (b, a) in before.iter().zip(&after) {
            assert!(b == a || *b == 1);
            if *b == 1 {
                refuge[*a] += 1;
            }
        }
        assert!([0, 2, 3].iter().all(|&at| refuge[at] > 700) && refuge[1] == 0, "{refuge:?}");
        paths[1].usable = true;
        assert_eq!(assign(&mut s, &paths), before);
    }
}
