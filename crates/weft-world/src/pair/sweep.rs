//! A sweep, or a part of it: many random mixes of links, each judged.

use super::world::EngineSettings;
use super::{PairOptions, run};
use weft_scenario::{MixResult, Sweep, Traces};

/// Runs the mixes at the positions that `takes` accepts and hands each to `done`, in order. The result does not depend on
/// `threads`.
///
/// # Errors
/// When a mix cannot be run.
pub fn run_sweep(
    sweep: &Sweep,
    threads: usize,
    takes: impl Fn(u32) -> bool,
    mut done: impl FnMut(u32, &MixResult),
) -> Result<(), String> {
    let options = PairOptions { threads, ..PairOptions::default() };
    for (position, &seed) in (0..).zip(&sweep.seeds).filter(|(position, _)| takes(*position)) {
        let scenario = sweep.scenario(seed);
        let ran = run(&scenario, &Traces::new(), &options, &|_| Ok(EngineSettings::default()), &|_, _| ())?;
        done(position, &sweep.judge(seed, &scenario.links, ran.result));
    }
    Ok(())
}
