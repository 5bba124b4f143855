//! Exact fair rates of loops, computed from capacities and routes.
//!
//! The solvers suit tens of links and thousands of loops, at long intervals. Do not call them per packet.

use alloc::vec;
use alloc::vec::Vec;

/// Maximum number of passes over all links in [`proportional`].
const ROUNDS: usize = 400;
/// Number of bisection steps with which [`proportional`] finds a link's price.
const BISECTIONS: usize = 60;
/// Relative change of a price below which [`proportional`] stops.
const TOLERANCE: f64 = 1e-9;

/// Returns weighted max-min rates, computed by water-filling.
///
/// `routes` lists the links of each loop, as indices into `capacities`. The rates of all loops grow in proportion to
/// their weights until a link is full. The rates of the loops on that link are then fixed, and the other rates grow
/// further. A loop without links gets an infinite rate. Links that do not exist are ignored.
pub fn max_min(capacities: &[f64], routes: &[&[usize]], weights: &[f64]) -> Vec<f64> {
    let loops = routes.len().min(weights.len());
    let mut rates = vec![f64::INFINITY; loops];
    let passes = |i: usize, link: usize| routes[i].contains(&link);
    let mut open: Vec<bool> = (0..loops).map(|i| routes[i].iter().any(|l| *l < capacities.len())).collect();
    while open.contains(&true) {
        let level = |link: usize| {
            let (mut free, mut weight) = (capacities[link], 0.0);
            for i in (0..loops).filter(|i| passes(*i, link)) {
                if open[i] { weight += weights[i] } else { free -= rates[i] }
            }
            (weight > 0.0).then(|| (free.max(0.0) / weight, link))
        };
        let Some((share, link)) = (0..capacities.len()).filter_map(level).min_by(|a, b| a.0.total_cmp(&b.0)) else {
            break;
        };
        for i in (0..loops).filter(|i| passes(*i, link)) {
            if open[i] {
                rates[i] = share * weights[i];
                open[i] = false;
            }
        }
    }
    rates
}

/// Returns weighted proportionally fair rates.
///
/// `routes` lists the links of each loop, as indices into `capacities`. Each link has a price at which its loops just
/// fill it. The price is zero if they do not fill it. A loop's rate is its weight divided by the sum of the prices on
/// its route (Kelly). Bisection finds the prices link by link until no price changes.
pub fn proportional(capacities: &[f64], routes: &[&[usize]], weights: &[f64]) -> Vec<f64> {
    let loops = routes.len().min(weights.len());
    let mut prices = vec![0.0; capacities.len()];
    let price_of = |prices: &[f64], i: usize| routes[i].iter().filter_map(|l| prices.get(*l)).sum::<f64>();
    for _ in 0..ROUNDS {
        let mut moved = 0.0f64;
        for link in 0..capacities.len() {
            let users: Vec<(f64, f64)> = (0..loops)
                .filter(|i| routes[*i].contains(&link))
                .map(|i| (weights[i], price_of(&prices, i) - prices[link]))
                .collect();
            let price = clearing_price(capacities[link], &users);
            moved = moved.max((price - prices[link]).abs() / price.max(1e-300));
            prices[link] = price;
        }
        if moved < TOLERANCE {
            break;
        }
    }
    (0..loops).map(|i| weights[i] / price_of(&prices, i)).collect()
}

/// Returns the price of a link of this capacity at which its loops just fill it.
///
/// `users` lists each loop's weight, and the sum of the prices of the other links on its route. The price is zero if
/// the loops do not fill the link even without a price.
fn clearing_price(capacity: f64, users: &[(f64, f64)]) -> f64 {
    let demand = |price: f64| users.iter().map(|(weight, other)| weight / (price + other)).sum::<f64>();
    let weight: f64 = users.iter().map(|(weight, _)| weight).sum();
    if weight == 0.0 || demand(0.0) <= capacity {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, weight / capacity);
    for _ in 0..BISECTIONS {
        let middle = (low + high) / 2.0;
        if demand(middle) > capacity { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(rates: &[f64], expected: &[f64]) {
        assert_eq!(rates.len(), expected.len());
        for (rate, expected) in rates.iter().zip(expected) {
            assert!((rate / expected - 1.0).abs() < 1e-3, "{rates:?}");
        }
    }

    #[test]
    fn paper_003_table_iii() {
        // VPN 1 crosses all three links. VPNs 2, 3 and 4 each cross one link. The capacity of the third link, B3 in the
        // paper, varies.
        let routes: [&[usize]; 4] = [&[0, 1, 2], &[0], &[1], &[2]];
        for (b3, last) in [(10.0, 5.0), (20.0, 15.0), (30.0, 25.0)] {
            close(&max_min(&[20.0, 10.0, b3], &routes, &[1.0; 4]), &[5.0, 15.0, 5.0, last]);
        }
    }

    #[test]
    fn weights_count_in_max_min() {
        let routes: [&[usize]; 3] = [&[0], &[0, 1], &[1]];
        close(&max_min(&[30.0, 100.0], &routes, &[1.0, 2.0, 4.0]), &[10.0, 20.0, 80.0]);
        assert_eq!(max_min(&[1.0], &[&[], &[7]], &[1.0, 1.0]), [f64::INFINITY; 2]);
    }

    #[test]
    fn the_long_flow_of_paper_004_figure_6() {
        // M bottlenecks of capacity C = 100 with K = 4 cross flows each: the long flow gets C / (1 + K M).
        for (m, long) in [(1, 20.0), (2, 11.111), (3, 7.692), (4, 5.882), (5, 4.762), (6, 4.0)] {
            let links: Vec<usize> = (0..m).collect();
            let mut routes: Vec<&[usize]> = vec![&links];
            routes.extend((0..m).flat_map(|j| [&links[j..=j]; 4]));
            let rates = proportional(&vec![100.0; m], &routes, &vec![1.0; 1 + 4 * m]);
            close(&rates[..2], &[long, (100.0 - long) / 4.0]);
        }
    }

    #[test]
    fn an_unfilled_link_costs_nothing() {
        close(&proportional(&[10.0, 1_000.0], &[&[0, 1], &[0]], &[1.0, 3.0]), &[2.5, 7.5]);
    }
}
