//! Fair shares (paper 003): criteria, their exact solutions, and parameters that realise them.
//!
//! A criterion yields a weight r for each loop. [`aimd`] converts weights to b, or [`Share`](crate::service::Share)
//! applies them to α. *Equal* means r = 1. *Weighted* uses the configured weights. *Max-min* and *proportional*
//! depend on which loops share which bottleneck. For these two criteria [`solve`] computes the rates from capacities
//! and routes, and the rates are the weights (the paper's table III).

pub mod aimd;
pub mod controller;
pub mod solve;

use alloc::vec::Vec;

/// A fairness criterion, which determines the fair shares of loops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Criterion {
    /// All loops get the same rate.
    Equal,
    /// Loops get rates in proportion to their configured weights.
    #[default]
    Weighted,
    /// No loop can get more unless a loop gets less whose rate in proportion to its weight is already no higher.
    MaxMin,
    /// The sum of weight × log(rate) over all loops is maximal. A loop that crosses many bottlenecks gets less.
    Proportional,
}

impl Criterion {
    /// Returns the weight r of each loop, relative to the others.
    ///
    /// `capacities` are those of the bottlenecks. `routes` lists the bottlenecks of each loop. Only max-min and
    /// proportional need them.
    pub fn weights(self, weights: &[f64], capacities: &[f64], routes: &[&[usize]]) -> Vec<f64> {
        match self {
            Criterion::Equal => weights.iter().map(|_| 1.0).collect(),
            Criterion::Weighted => weights.to_vec(),
            Criterion::MaxMin => solve::max_min(capacities, routes, weights),
            Criterion::Proportional => solve::proportional(capacities, routes, weights),
        }
    }
}

/// Returns the weighted fairness index F = (Σ x/r)² / (N Σ (x/r)²) of N loops with rates x and weights r.
///
/// It is one if all loops get their share, and 1/N if one loop gets everything. It is also one without loops, and if
/// all rates are zero.
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
        // The loops have x/r = 1 and 2, so the index is (1 + 2)² / (2 · (1 + 4)) = 9 / 10.
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
