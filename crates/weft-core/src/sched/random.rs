//! Random spraying: picks a path at random for each unit, in proportion to the weights.

use super::{Eligible, PathChoice, PathView, PathWeights, UnitView, draw};
use weft_units::Rng;

/// Picks at random among the usable paths. Bulk skips paths that are full.
#[derive(Clone, Debug)]
pub struct Random {
    rng: Rng,
    weights: PathWeights,
}

impl Random {
    /// Returns a scheduler that draws from `rng`.
    pub fn new(rng: Rng) -> Random {
        Random { rng, weights: PathWeights::default() }
    }

    /// Sets each path's share of the units, in order of the path views. The shares replace the views' weights.
    pub fn set_weights(&mut self, weights: &[u32]) {
        self.weights.set(weights);
    }

    /// Picks a path at random by weight. A bulk unit is held if all usable paths are full.
    pub fn pick(&mut self, paths: &[PathView], unit: UnitView) -> PathChoice {
        let eligible = Eligible::among(paths);
        let (shares, sum) = self.weights.shares(paths, |p| eligible.includes(p) && (p.room || unit.urgent));
        if sum == 0 {
            let blocked = paths.iter().any(|p| eligible.includes(p));
            return if blocked { PathChoice::Hold } else { PathChoice::NoPath };
        }
        draw(shares, self.rng.below(sum)).map_or(PathChoice::NoPath, PathChoice::Path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{BULK, path};
    use super::*;

    #[test]
    fn shares_follow_the_weights() {
        let mut s = Random::new(Rng::new(5));
        s.set_weights(&[1, 2, 0, 5]);
        let paths = [path(1, 0); 4];
        let mut sent = [0; 4];
        for _ in 0..8_000 {
            let PathChoice::Path(at) = s.pick(&paths, BULK) else { panic!("no path chosen") };
            sent[at] += 1;
        }
        assert_eq!(sent[2], 0);
        assert!((900..1_100).contains(&sent[0]) && (1_850..2_150).contains(&sent[1]), "{sent:?}");
    }
}
