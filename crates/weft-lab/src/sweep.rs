//! A sweep: many random mixes of links, each run as a scenario.

use crate::LabError;
use crate::options::RunOptions;
use crate::run::run;
use std::fs;
use weft_scenario::{SCHEMA, Sweep, SweepResult};

/// Runs every mix of a sweep and judges it.
///
/// With progress enabled, it prints one line for each mix to standard error.
///
/// # Errors
/// Returns an error if [`run`] does.
pub fn sweep(sweep: &Sweep, options: &RunOptions) -> Result<SweepResult, LabError> {
    let sweep = Sweep { repeats: options.repeat.unwrap_or(sweep.repeats), ..sweep.clone() };
    let of_mix = RunOptions { repeat: None, ..options.clone() };
    let mut mixes = Vec::new();
    for (number, &seed) in sweep.seeds.iter().enumerate() {
        let mix = sweep.examine(seed, |scenario| run(scenario, &of_mix))?;
        if options.progress {
            let verdict = if mix.pass { "passed" } else { "FAILED" };
            let (mixes, links) = (sweep.seeds.len(), mix.links.join(", "));
            eprintln!("mix {} of {mixes}, drawn from seed {seed}, {verdict}; its links: {links}", number + 1);
        }
        mixes.push(mix);
    }
    let result = SweepResult {
        schema: SCHEMA,
        sweep: sweep.name.clone(),
        world: "lab".into(),
        pass: mixes.iter().all(|mix| mix.pass),
        mixes,
    };
    if let Some(out) = &options.out {
        fs::create_dir_all(out)?;
        let json = serde_json::to_string_pretty(&result).map_err(std::io::Error::other)?;
        fs::write(out.join(format!("{}.json", sweep.name)), json)?;
    }
    Ok(result)
}
