//! Reports the goodput of flows while a part of the network was disturbed.

use crate::VariantRun;
use crate::stats::median;
use serde::{Deserialize, Serialize};

/// The goodput of all flows during one `[[event]]` with its repetitions, or during all undisturbed time together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DisturbanceResult {
    /// The disturbance, such as `cut sat-0, sat-1`.
    ///
    /// Empty for the undisturbed time.
    pub what: String,
    /// Time at which the disturbance first began, in seconds since the start of the run.
    pub at_s: f64,
    /// Time for which the disturbance lasted, the sum over its repetitions, in seconds.
    pub lasted_s: f64,
    /// Goodput during the disturbance of the flows of each `[[flow]]` entry.
    pub flows: Vec<GroupGoodput>,
}

/// The combined goodput of all flows that one `[[flow]]` entry describes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct GroupGoodput {
    /// Name of the flow entry in the scenario file.
    pub name: String,
    /// Payload per time that the applications of these flows received during the disturbance, in bit/s.
    pub goodput_bps: f64,
}

/// Returns the median goodput over the runs for each disturbance.
///
/// The runs are of one variant, so they all have the same disturbances.
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
