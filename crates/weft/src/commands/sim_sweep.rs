//! `weft sim sweep` and `weft sim merge`: run sweeps in virtual time, whole or in parts.

use super::show::json;
use super::sim::{progress, threads};
use crate::cli::SimSweepOptions;
use crate::outcome::{Failure, Outcome};
use std::fs;
use std::path::{Path, PathBuf};
use weft_report::{AboutSweep, Shard, SweepFile, sweep_table};
use weft_scenario::{MixResult, SCHEMA, Sweep, SweepResult};
use weft_world::pair::run_sweep;

/// Runs a sweep, or the part of it that `--shard` names.
pub fn sweep(file: &Path, options: &SimSweepOptions) -> Result<Outcome, Failure> {
    let name = file.display().to_string();
    let recipe = fs::read_to_string(file).map_err(|why| Failure::new(format!("{name}: {why}")))?;
    let mut sweep = Sweep::parse(&recipe, &name).map_err(|why| Failure::new(format!("{why}\n")))?;
    if let Some(seeds) = &options.seeds {
        sweep.seeds = seeds.clone().collect();
    }
    let shard = options.shard.unwrap_or(Shard::WHOLE);
    let mixes = u32::try_from(sweep.seeds.len()).unwrap_or(u32::MAX);
    let about = AboutSweep { sweep: sweep.name.clone(), world: "sim".into(), recipe, mixes };
    let mut part = SweepFile::new(about, shard);
    let progress = progress(options.quiet, "mixes");
    let ran = run_sweep(&sweep, threads(options.threads), |position| shard.takes(position), &progress);
    let ran = ran.map_err(Failure::new)?;
    for (position, mix) in &ran {
        part.add(*position, mix);
    }
    let judged: Vec<MixResult> = ran.into_iter().map(|(_, mix)| mix).collect();
    if let Some(out) = &options.out {
        part.save(out).map_err(|why| Failure::new(format!("{}: {why}", out.display())))?;
    }
    let pass = judged.iter().all(|mix| mix.pass);
    let result = SweepResult { schema: SCHEMA, sweep: sweep.name, world: "sim".into(), mixes: judged, pass };
    print!("{}", if options.json { json(&result)? } else { sweep_table(&result) });
    Ok(if pass { Outcome::Well } else { Outcome::Failed })
}

/// Joins the parts of a sweep into one file and prints a summary.
pub fn merge(out: &Path, files: &[PathBuf]) -> Result<Outcome, Failure> {
    let failed = |file: &Path, why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", file.display()));
    let read = |file: &PathBuf| SweepFile::read(file).map_err(|why| failed(file, &why));
    let parts = files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let whole = SweepFile::merge(parts).map_err(|why| Failure::new(why.to_string()))?;
    whole.save(out).map_err(|why| failed(out, &why))?;
    println!("{}", json(&whole.summary())?.trim_end());
    Ok(Outcome::Well)
}
