//! All variants of a network, all repeats, side by side on the processor's cores.

use super::run::run;
use crate::side_by_side::side_by_side;
use weft_scenario::{Network, NetworkVariant, RunResult, SCHEMA, Traces, VariantResult, VariantRun, nearest};

/// Runs a network's variants, all of them if `chosen` is empty, once for each of `seeds`. `done` is told how many of how many runs
/// are over. The result does not depend on `threads`.
///
/// # Errors
/// When there is no such variant, and as [`run`].
pub fn run_all(
    network: &Network,
    traces: &Traces,
    chosen: &[String],
    seeds: &[u64],
    threads: usize,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<RunResult, String> {
    let variants = wanted(network, chosen)?;
    let jobs: Vec<(&NetworkVariant, u64)> = variants.iter().flat_map(|v| seeds.iter().map(move |s| (*v, *s))).collect();
    let one = |(variant, seed): &(&NetworkVariant, u64)| run(network, variant, *seed, traces).map(|run| run.run);
    let mut runs = side_by_side(threads, &jobs, one, done).into_iter();
    let mut results = Vec::new();
    for variant in variants {
        let own: Vec<VariantRun> = runs.by_ref().take(seeds.len()).collect::<Result<_, String>>()?;
        results.push(VariantResult::from_runs(variant.name.clone(), None, own));
    }
    Ok(RunResult {
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
    })
}

fn wanted<'a>(network: &'a Network, chosen: &[String]) -> Result<Vec<&'a NetworkVariant>, String> {
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
