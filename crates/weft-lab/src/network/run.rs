//! Runs a whole network scenario: every variant and every repeat, one after another.
//!
//! Collects the result.

use super::check::check;
use super::play::{Played, play};
use crate::options::RunOptions;
use crate::progress::RunProgress;
use crate::{LabError, interrupt, net, scratch};
use std::collections::BTreeMap;
use weft_scenario::{
    NetworkScenario, NetworkVariant, RunResult, SCHEMA, Series, Skipped, Traces, VariantResult, VariantRun,
};
use weft_units::nearest;

/// Maximum number of times that a run is repeated because the emulator delivered its packets too late.
///
/// The last run is then reported.
const LATE_REPEATS: u32 = 2;

/// The results of all runs of a network scenario.
#[derive(Clone, Debug)]
pub struct NetworkRuns {
    /// The figures of all variants, in the format of schema 1.
    pub result: RunResult,
    /// Goodput of flows over time, by scenario, variant and run.
    pub series: BTreeMap<String, Vec<Series>>,
}

/// Runs a network on this machine's kernel.
///
/// Each node is a namespace with real sockets. The nodes run the real program if the variant has an overlay.
/// If this process is not root, call the function before the process starts a thread (see
/// [`crate::net::acquire_privilege`]).
///
/// # Errors
/// Returns an error if the network needs a feature that the kernel or the lab lacks. Also fails if the
/// network cannot be built or if the user interrupts. [`RunResult::skipped`] lists a variant whose program is
/// missing.
pub fn run_network(network: &NetworkScenario, options: &RunOptions) -> Result<NetworkRuns, LabError> {
    net::acquire_privilege()?;
    interrupt::watch();
    scratch::remove_stale();
    let variants = wanted(network, &options.variants)?;
    check(network, &variants)?;
    let traces = network.load_traces(options.traces.as_deref()).map_err(|why| LabError::Scenario(why.to_string()))?;
    let repeats = options.repeat.unwrap_or(network.repeats).max(1);
    let progress = RunProgress::new(options.progress, variants.len() * repeats as usize, network.duration);
    let mut runs: BTreeMap<&str, Vec<VariantRun>> = BTreeMap::new();
    let (mut series, mut skipped, mut number) = (BTreeMap::new(), Vec::<Skipped>::new(), 0);
    for repeat in 0..repeats {
        for variant in &variants {
            progress.begin(number, format!("{} {}/{repeats}", variant.name, repeat + 1));
            number += 1;
            if skipped.iter().any(|skipped| skipped.name == variant.name) {
                continue;
            }
            match sound(network, variant, &traces, repeat, options, &progress, number - 1) {
                Ok(played) => {
                    runs.entry(&variant.name).or_default().push(played.run);
                    series.insert(format!("{}-{}-{}", network.name, variant.name, repeat + 1), played.series);
                }
                Err(LabError::Missing(reason)) => {
                    progress.print_line(&format!("variant {} is skipped: {reason}", variant.name));
                    skipped.push(Skipped { name: variant.name.clone(), reason });
                }
                Err(error) => return Err(error),
            }
        }
    }
    let of = |variant: &&NetworkVariant| {
        Some(VariantResult::from_runs(variant.name.clone(), None, runs.remove(variant.name.as_str())?))
    };
    let result = RunResult {
        schema: SCHEMA,
        scenario: network.name.clone(),
        world: "lab".into(),
        seed: network.seed,
        duration_s: network.duration.as_secs_f64(),
        warmup_s: network.warmup.as_secs_f64(),
        repeats,
        bound_bps: 0.0,
        variants: variants.iter().filter_map(of).collect(),
        skipped,
    };
    Ok(NetworkRuns { result, series })
}

/// Runs a variant until the emulator delivered its packets on time, at most 1 + [`LATE_REPEATS`] times.
///
/// Returns the last run.
fn sound(
    network: &NetworkScenario,
    variant: &NetworkVariant,
    traces: &Traces,
    repeat: u32,
    options: &RunOptions,
    progress: &RunProgress,
    number: usize,
) -> Result<Played, LabError> {
    let seed = network.seed.wrapping_add(u64::from(repeat));
    let mut late = 0;
    loop {
        let played = play(network, variant, traces, seed, options, &|into| progress.tick(number, into))?;
        if played.is_sound {
            return Ok(played);
        }
        let verdict = if late == LATE_REPEATS { "the result is reported anyway" } else { "the run is repeated" };
        let lateness_ms = played.run.lateness_ms_p999;
        progress.print_line(&format!(
            "variant {}: the machine was too busy, so packets left {lateness_ms:.1} ms late (p99.9): {verdict}",
            variant.name
        ));
        if late == LATE_REPEATS {
            return Ok(played);
        }
        late += 1;
    }
}

fn wanted<'a>(network: &'a NetworkScenario, chosen: &[String]) -> Result<Vec<&'a NetworkVariant>, LabError> {
    let find = |name: &String| {
        let names = || network.variants.iter().map(|variant| variant.name.as_str());
        network.variants.iter().find(|variant| variant.name == *name).ok_or_else(|| {
            let hint = nearest(name, names()).map_or(String::new(), |known| format!("; did you mean `{known}`?"));
            let list = names().collect::<Vec<_>>().join(", ");
            LabError::Scenario(format!("there is no variant `{name}` (the scenario has {list}){hint}"))
        })
    };
    if chosen.is_empty() { Ok(network.variants.iter().collect()) } else { chosen.iter().map(find).collect() }
}
