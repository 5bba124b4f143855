//! What flows got while something was wrong in the network.

use crate::VariantRun;
use crate::stats::median;
use serde::{Deserialize, Serialize};

/// A time during which something was wrong, or all times when nothing was.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DisturbanceResult {
    /// What: `cut sat-0, sat-1` …; empty for undisturbed time.
    pub what: String,
    /// Its beginning, in seconds from that of the run.
    pub at_s: f64,
    /// How long it lasted, in seconds.
    pub lasted_s: f64,
    /// What flows got in that time.
    pub flows: Vec<GroupGoodput>,
}

/// The flows of one `[[flow]]` together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct GroupGoodput {
    /// Its name in the file.
    pub name: String,
    /// Application payload that arrived, in bit/s.
    pub goodput_bps: f64,
}

/// Medians over runs, which all have the same disturbances.
pub(crate) fn medians(runs: &[VariantRun]) -> Vec<DisturbanceResult> {
    let Some(first) = runs.first() else { return Vec::new() };
    let goodput = |run: &VariantRun, disturbance: usize, flow: usize| {
        Some(run.disturbances.get(disturbance)?.flows.get(flow)?.goodput_bps)
    };
    let one = |(d, disturbance): (usize, &DisturbanceResult)| {
        let flows = disturbance.flows.iter().enumerate().map(|(f, flow)| GroupGoodput {
            name: flow.name.clone(),
            goodput_bps: median(runs.iter().filter_map(|run| goodput(run, d, f))).unwrap_or(0.0),
        });
        DisturbanceResult { flows: flows.collect(), ..disturbance.clone() }
    };
    first.disturbances.iter().enumerate().map(one).collect()
}
