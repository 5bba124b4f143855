//! The rates of VPNs' loops over time, and their fairness.

use super::Estimate;
use super::laboratory::Outcomes;
use crate::network::NetworkRun;
use weft_core::fair::index;
use weft_sim::edge::TICK;

/// Returns the rate of each VPN in one run between two times in seconds, in bit/s.
///
/// It is the sum over the VPN's loops in the direction up. `vpns` is the number of VPNs.
pub(super) fn rates(run: &NetworkRun, vpns: usize, from_s: f64, to_s: f64) -> Vec<f64> {
    let [first, end] = [from_s, to_s].map(|time| (time / TICK.as_secs_f64()).round() as usize);
    let mut rates = vec![0.0; vpns];
    for this in run.loops.iter().filter(|this| this.which.is_up) {
        let bytes: u64 = this.by_tick.iter().take(end).skip(first).map(|bytes| u64::from(*bytes)).sum();
        if let Some(rate) = rates.get_mut(this.which.vpn as usize) {
            *rate += bytes as f64 * 8.0 / (to_s - from_s);
        }
    }
    rates
}

/// Returns the fairness index of the VPNs' rates in each step of `step_s` seconds until `end_s`.
///
/// Each entry has the end of the step, in seconds, and the index.
pub(super) fn indices(run: &NetworkRun, weights: &[f64], step_s: f64, end_s: f64) -> Vec<(f64, f64)> {
    let steps = (end_s / step_s).round() as u32;
    let of = |step: u32| (f64::from(step) * step_s, f64::from(step + 1) * step_s);
    let one = |(from, to)| (to, index(&rates(run, weights.len(), from, to), weights));
    (0..steps).map(of).map(one).collect()
}

/// Returns the mean of the fairness index over those steps that end after `from_s`. Each run gives one value.
///
/// The steps are those of [`indices`].
pub(super) fn mean_index(runs: &Outcomes, weights: &[f64], step_s: f64, from_s: f64, end_s: f64) -> Estimate {
    Estimate::of(runs.iter().map(|run| {
        let late: Vec<f64> =
            indices(run, weights, step_s, end_s).iter().filter(|(to, _)| *to > from_s).map(|(_, f)| *f).collect();
        late.iter().sum::<f64>() / late.len().max(1) as f64
    }))
}

/// Returns the fairness index of the VPNs' rates over the whole time from `from_s` to `to_s`.
///
/// Each run gives one value.
pub(super) fn index_between(runs: &Outcomes, weights: &[f64], from_s: f64, to_s: f64) -> Estimate {
    Estimate::of(runs.iter().map(|run| index(&rates(run, weights.len(), from_s, to_s), weights)))
}

/// Returns the time in seconds at which the fairness index first reaches `bound`. Each run gives one value.
///
/// The index is the mean over five steps of one second, and the time is the end of the first of them. If a run never
/// reaches `bound`, its time is `end_s`.
pub(super) fn settling(runs: &Outcomes, weights: &[f64], bound: f64, end_s: f64) -> Estimate {
    Estimate::of(runs.iter().map(|run| {
        let all = indices(run, weights, 1.0, end_s);
        let reached = all.windows(5).find(|five| five.iter().map(|(_, f)| f).sum::<f64>() / 5.0 >= bound);
        reached.and_then(|five| five.first()).map_or(end_s, |(at, _)| *at)
    }))
}

/// Returns the fairness index over time. Each point has a time in seconds, and the estimate over all runs.
pub(super) fn index_curve(runs: &Outcomes, weights: &[f64], end_s: f64) -> Vec<(f64, Estimate)> {
    let all: Vec<Vec<(f64, f64)>> = runs.iter().map(|run| indices(run, weights, 1.0, end_s)).collect();
    let at = |n: usize| Estimate::of(all.iter().filter_map(|run| run.get(n)).map(|(_, f)| *f));
    let times = all.first().into_iter().flatten().enumerate();
    times.map(|(n, (time, _))| (*time, at(n))).collect()
}

/// Returns the rate of VPN number `vpn` of `vpns` between two times in seconds, in Mbit/s. Each run gives one value.
pub(super) fn rate_mbps(runs: &Outcomes, vpns: usize, vpn: usize, from_s: f64, to_s: f64) -> Estimate {
    Estimate::of(runs.iter().map(|run| rates(run, vpns, from_s, to_s).get(vpn).copied().unwrap_or(0.0) / 1e6))
}

/// Returns `value` of a link's results in the direction up. Each run gives one value.
pub(super) fn of_link(runs: &Outcomes, link: &str, value: fn(&weft_scenario::LinkResult) -> f64) -> Estimate {
    let found = |run: &NetworkRun| {
        let link = run.run.links.iter().find(|result| result.name == link && result.direction == "up");
        link.map_or(0.0, value)
    };
    Estimate::of(runs.iter().map(found))
}

/// Returns `value` of the queue in the direction up of link number `link` of the scenario. Each run gives one value.
pub(super) fn of_queue(runs: &Outcomes, link: usize, value: fn(&crate::network::LinkQueue) -> f64) -> Estimate {
    Estimate::of(runs.iter().map(|run| run.queues.get(link).map_or(0.0, |[up, _]| value(up))))
}

/// Returns the goodputs of those flows of a run whose names begin with `prefix`, in bit/s.
pub(super) fn goodputs(run: &NetworkRun, prefix: &str) -> Vec<f64> {
    let flows = run.run.flows.iter().filter(|flow| flow.name.starts_with(prefix));
    flows.filter_map(|flow| flow.goodput_bps).collect()
}

/// Returns the bytes that the flows whose names begin with `prefix` delivered in each second from `from_s` on.
///
/// The outer list has one entry for each second, the inner list one for each flow.
pub(super) fn by_second(run: &NetworkRun, prefix: &str, from_s: usize) -> Vec<Vec<f64>> {
    let flows = run.run.flows.iter().zip(&run.delivered_by_second).filter(|(flow, _)| flow.name.starts_with(prefix));
    let flows: Vec<&Vec<u64>> = flows.map(|(_, delivered)| delivered).collect();
    let seconds = flows.iter().map(|delivered| delivered.len()).min().unwrap_or(0);
    let during = |second: usize| flows.iter().map(move |all| all[second].saturating_sub(all[second - 1]) as f64);
    (from_s.max(1)..seconds).map(|second| during(second).collect()).collect()
}

/// Returns the coefficient of variation: the standard deviation divided by the mean.
pub(super) fn variation(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
    if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{BuiltLoop, LoopRun};
    use weft_scenario::{FlowResult, VpnResult};
    use weft_sim::NodeId;

    fn run() -> NetworkRun {
        let this = |vpn, by_tick: Vec<u32>| LoopRun {
            which: BuiltLoop { vpn, from: NodeId(0), to: NodeId(1), name: String::new(), is_up: true },
            by_tick,
            epochs: 0,
            result: VpnResult::default(),
        };
        NetworkRun { loops: vec![this(0, vec![1_250; 20]), this(1, vec![2_500; 10])], ..NetworkRun::default() }
    }

    #[test]
    fn rates_and_indices_go_by_time() {
        assert_eq!(rates(&run(), 3, 0.0, 1.0), [100e3, 200e3, 0.0]);
        assert_eq!(rates(&run(), 2, 0.5, 1.5), [100e3, 100e3]);
        let points = indices(&run(), &[1.0, 2.0], 1.0, 2.0);
        assert_eq!(points, [(1.0, 1.0), (2.0, 0.5)]);
    }

    #[test]
    fn seconds_are_taken_apart() {
        let mut run = run();
        run.run.flows =
            ["ftp0", "noise", "ftp1"].map(|name| FlowResult { name: name.into(), ..FlowResult::default() }).into();
        run.delivered_by_second = vec![vec![5, 10, 30], vec![1, 1, 1], vec![0, 7, 7]];
        assert_eq!(by_second(&run, "ftp", 0), [[5.0, 7.0], [20.0, 0.0]]);
        assert_eq!(by_second(&run, "ftp", 2), [[20.0, 0.0]]);
    }

    #[test]
    fn the_coefficient_of_variation() {
        assert_eq!(variation(&[2.0, 2.0]), 0.0);
        assert_eq!(variation(&[1.0, 3.0]), 0.5);
    }
}
