//! Max-min fair sharing of one total rate among several flows.

/// Returns the rate up to which every flow may send, so that all flows share `total` fairly (max-min).
///
/// Flows that need less leave the rest to other flows. `demands` are the rates that the flows need, in the unit of
/// `total`; `u64::MAX` marks a flow that would use any rate. The function sorts `demands`. Without flows it returns
/// `total`.
pub fn level(total: u64, demands: &mut [u64]) -> u64 {
    demands.sort_unstable();
    let mut left = total;
    for (served, demand) in demands.iter().enumerate() {
        let others = (demands.len() - served) as u64;
        let fair = left / others;
        if *demand >= fair {
            return fair;
        }
        left -= demand;
    }
    // All demands are met. Any single flow may use the remaining rate in addition to the largest demand.
    left + demands.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::level;
    use proptest::prelude::*;
    use weft_core::fair::solve::max_min;

    const ALL: u64 = u64::MAX;

    #[test]
    fn a_connection_that_needs_less_leaves_the_rest_to_others() {
        assert_eq!(level(900, &mut []), 900);
        assert_eq!(level(900, &mut [ALL, ALL, ALL]), 300);
        assert_eq!(level(900, &mut [ALL, 100, ALL]), 400);
        assert_eq!(level(900, &mut [100, 200]), 800);
        assert_eq!(level(900, &mut [700]), 900);
        assert_eq!(level(0, &mut [ALL, 5]), 0);
    }

    proptest! {
        #[test]
        fn it_is_max_min(total in 1_u64..1 << 40, limits in prop::collection::vec(1_u64..1 << 38, 1..20)) {
            let mut demands = limits.clone();
            let level = level(total, &mut demands);
            // `max_min` solves the same problem as a network: one link that all flows share, and one link for each
            // flow, with the flow's demand as capacity.
            let capacities: Vec<f64> = std::iter::once(total).chain(limits.iter().copied()).map(|rate| rate as f64).collect();
            let routes: Vec<[usize; 2]> = (1..=limits.len()).map(|own| [0, own]).collect();
            let routes: Vec<&[usize]> = routes.iter().map(|route| &route[..]).collect();
            let rates = max_min(&capacities, &routes, &vec![1.0; limits.len()]);
            for (limit, rate) in limits.iter().zip(rates) {
                let granted = level.min(*limit) as f64;
                prop_assert!((granted - rate).abs() <= 1.0 + rate * 1e-9, "{granted} and {rate} of {total}, {limits:?}");
            }
        }
    }
}
