//! Runs a sweep or a part of it: many random mixes of links, each with a verdict.

use super::world::EngineSettings;
use super::{PairOptions, run};
use crate::side_by_side::side_by_side;
use weft_scenario::{MixResult, RunResult, Scenario, Sweep, Variant, VariantKind};

/// Runs those mixes of a sweep for whose position in the list of seeds `takes` returns true.
///
/// Returns the results in the order of the positions. The function runs `threads` mixes at a time, each on its own
/// thread. The result does not depend on `threads`. The function calls `done` with the number of finished mixes and
/// the number of all mixes.
///
/// # Errors
/// Returns an error if a mix cannot be run.
pub fn run_sweep(
    sweep: &Sweep,
    threads: usize,
    takes: impl Fn(u32) -> bool,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<(u32, MixResult)>, String> {
    let mixes: Vec<(u32, u64)> =
        (0..).zip(sweep.seeds.iter().copied()).filter(|(position, _)| takes(*position)).collect();
    let one = |(position, seed): &(u32, u64)| Ok((*position, sweep.examine(*seed, run_mix)?));
    side_by_side(threads, &mixes, one, done).into_iter().collect()
}

/// Runs weft in all mixes of a sweep, without the links alone for comparison.
///
/// It runs each mix once and returns the results in the order of the seeds. Its arguments and errors are those of
/// [`run_sweep`].
pub fn run_weft(sweep: &Sweep, threads: usize, done: &(dyn Fn(usize, usize) + Sync)) -> Result<Vec<MixResult>, String> {
    let once = Sweep { repeats: 1, ..sweep.clone() };
    let one = |seed: &u64| {
        once.examine(*seed, |scenario| {
            run_mix(&Scenario { variants: vec![Variant::plain(VariantKind::Weft)], ..scenario.clone() })
        })
    };
    side_by_side(threads, &once.seeds, one, done).into_iter().collect()
}

fn run_mix(scenario: &Scenario) -> Result<RunResult, String> {
    let options = PairOptions { threads: 1, ..PairOptions::default() };
    let traces = scenario.load_traces(None).map_err(|why| why.to_string())?;
    Ok(run(scenario, &traces, &options, &|_| Ok(EngineSettings::default()), &|_, _| ())?.result)
}
