//! Who gets how much: fairness criteria as weights, their exact solutions, and AIMD parameters that realise them (paper 003).
//!
//! A criterion becomes a weight r for each loop; [`aimd`] turns weights into b, or [`Share`](crate::service::Share) carries them to
//! α. *Equal* is r = 1, *weighted* the configured weights. *Max-min* and *proportional* depend on who shares which
//! bottleneck: [`solve`] finds the rates from capacities and routes, and the rates are the weights (the paper's table III).

pub mod aimd;
pub mod controller;
pub mod solve;

use alloc::vec::Vec;

/// What is fair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Criterion {
    /// Everybody the same.
    Equal,
    /// By configured weight.
    #[default]
    Weighted,
    /// Nobody can have more unless somebody who has less, for his weight, loses.
    MaxMin,
    /// The sum of weight × log rate is largest: who passes many bottlenecks gets less.
    Proportional,
}

impl Criterion {
    /// The weight r of each loop, relative to the others. `capacities` are those of the bottlenecks, `routes` says which of them
    /// each loop passes; both are needed by max-min and proportional only.
    pub fn weights(self, weights: &[f64], capacities: &[f64], routes: &[&[usize]]) -> Vec<f64> {
        match self {
            Criterion::Equal => weights.iter().map(|_| 1.0).collect(),
            Criterion::Weighted => weights.to_vec(),
            Criterion::MaxMin => solve::max_min(capacities, routes, weights),
            Criterion::Proportional => solve::proportional(capacities, routes, weights),
        }
    }
}

/// The weighted fairness index F = (Σ x/r)² / (N Σ (x/r)²): one if all get what they should, 1/N if one gets everything.
/// One also for nobody, and for nothing at all.
pub fn index(rates: &[f64], weights: &[f64]) -> f64 {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for (rate, weight) in rates.iter().zip(weights) {
        let normal = rate / weight;
        n += 1.0;
        sum += normal;
        squares += normal * normal;
    }
    if squares > 0.0 { sum * sum / (n * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn the_index() {
        assert!((index(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]) - 1.0).abs() < 1e-12);
        assert!((index(&[4.0, 0.0, 0.0, 0.0], &[1.0; 4]) - 0.25).abs() < 1e-12);
        // x/r = 1, 2: 9 / (2 · 5).
        assert!((index(&[1.0, 4.0], &[1.0, 2.0]) - 0.9).abs() < 1e-12);
    }

    #[test]
    fn criteria_become_weights() {
        let (weights, routes): (_, [&[usize]; 3]) = ([1.0, 2.0, 1.0], [&[0, 1], &[0], &[1]]);
        let of = |criterion: Criterion| criterion.weights(&weights, &[9.0, 30.0], &routes);
        assert_eq!(of(Criterion::Equal), vec![1.0; 3]);
        assert_eq!(of(Criterion::Weighted), weights);
        assert_eq!(of(Criterion::MaxMin), vec![3.0, 6.0, 27.0]);
        assert_eq!(of(Criterion::Proportional).len(), 3);
    }
}
