//! Runs all variants and repeats of a network in parallel on the processor's cores.

use super::observed_run::run_observed;
use super::run::run;
use crate::check_duration;
use crate::observers::Observers;
use crate::side_by_side::side_by_side;
use std::collections::BTreeMap;
use std::path::Path;
use weft_scenario::{NetworkScenario, NetworkVariant, RunResult, SCHEMA, Series, Traces, VariantResult, VariantRun};
use weft_units::nearest;

/// Runs variants of a network, each once for each of `seeds`. An empty `chosen` selects all variants.
///
/// Up to `threads` runs are made at a time; the result does not depend on that number. The function calls `done` with
/// the number of finished runs and the number of all runs. With `looks`, every run writes the requested records as
/// files into that directory. Their names contain scenario, variant and run. The result then also contains each run's
/// time series, by the same name.
///
/// # Errors
/// Returns an error if the network's duration is too long, if there is no such variant, or if [`run`] or
/// [`run_observed`] fails.
pub fn run_all(
    network: &NetworkScenario,
    traces: &Traces,
    chosen: &[String],
    seeds: &[u64],
    threads: usize,
    looks: Option<(&Observers, &Path)>,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<(RunResult, BTreeMap<String, Vec<Series>>), String> {
    check_duration(network.duration)?;
    let variants = wanted(network, chosen)?;
    let jobs: Vec<(&NetworkVariant, usize)> =
        variants.iter().flat_map(|variant| (0..seeds.len()).map(move |repeat| (*variant, repeat))).collect();
    let stem = |variant: &NetworkVariant, repeat| format!("{}-{}-{}", network.name, variant.name, repeat + 1);
    let one = |(variant, repeat): &(&NetworkVariant, usize)| match looks {
        None => run(network, variant, seeds[*repeat], traces).map(|run| (run.run, Vec::new())),
        Some((observers, directory)) => {
            run_observed(network, variant, seeds[*repeat], traces, observers, directory, &stem(variant, *repeat))
                .map(|(run, series)| (run.run, series))
        }
    };
    let mut runs = side_by_side(threads, &jobs, one, done).into_iter();
    let mut all_series = BTreeMap::new();
    let mut results = Vec::new();
    for variant in variants {
        let mut own: Vec<VariantRun> = Vec::new();
        for (repeat, ran) in runs.by_ref().take(seeds.len()).enumerate() {
            let (run, series) = ran?;
            own.push(run);
            if looks.is_some() {
                all_series.insert(stem(variant, repeat), series);
            }
        }
        results.push(VariantResult::from_runs(variant.name.clone(), None, own));
    }
    let result = RunResult {
        schema: SCHEMA,
        scenario: network.name.clone(),
        world: "sim".into(),
        seed: seeds.first().copied().unwrap_or(network.seed),
        duration_s: network.duration.as_secs_f64(),
        warmup_s: network.warmup.as_secs_f64(),
        repeats: seeds.len() as u32,
        bound_bps: 0.0,
        variants: results,
        skipped: Vec::new(),
    };
    Ok((result, all_series))
}

fn wanted<'a>(network: &'a NetworkScenario, chosen: &[String]) -> Result<Vec<&'a NetworkVariant>, String> {
    let find = |name: &String| {
        let names = || network.variants.iter().map(|v| v.name.as_str());
        network.variants.iter().find(|variant| variant.name == *name).ok_or_else(|| {
            let hint = nearest(name, names()).map_or(String::new(), |known| format!("; did you mean `{known}`?"));
            let list = names().collect::<Vec<_>>().join(", ");
            format!("there is no variant `{name}` (the scenario has {list}){hint}")
        })
    };
    if chosen.is_empty() { Ok(network.variants.iter().collect()) } else { chosen.iter().map(find).collect() }
}
