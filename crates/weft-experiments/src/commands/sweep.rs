//! `weft-lab sweep` and `weft-lab merge`: run sweeps, in virtual time also in parts, and join the parts.

use super::lab;
use super::sim::{progress, threads};
use crate::cli::{SweepOptions, World};
use std::path::{Path, PathBuf};
use weft_config::outcome::{Failure, Outcome, json};
use weft_report::{AboutSweep, Shard, SweepFile, sweep_table};
use weft_scenario::{MixResult, SCHEMA, Sweep, SweepResult};
use weft_world::pair::run_sweep;

/// Runs the sweep in `file`. It fails when one of its mixes does.
pub fn sweep(file: &Path, options: &SweepOptions) -> Result<Outcome, Failure> {
    if let Some(option) = options.misplaced() {
        let world = if options.world == World::Lab { "--world lab" } else { "--world sim, the default" };
        return Err(Failure::with(Outcome::Usage, format!("{option} has no effect with {world}: leave it out")));
    }
    let recipe = lab::read(file)?;
    let mut sweep = Sweep::parse(&recipe, &lab::name(file)).map_err(lab::refused)?;
    if let Some(seeds) = &options.seeds {
        sweep.seeds = seeds.clone().collect();
    }
    let result = match options.world {
        World::Lab => weft_lab::sweep(&sweep, &lab::run_options(&options.of_the_lab())).map_err(lab::failed)?,
        World::Sim => in_virtual_time(sweep, recipe, options)?,
    };
    print!("{}", if options.json { json(&result)? } else { sweep_table(&result) });
    Ok(if result.pass { Outcome::Well } else { Outcome::Failed })
}

/// Runs the part of a sweep that `--shard` names, or all of it.
fn in_virtual_time(sweep: Sweep, recipe: String, options: &SweepOptions) -> Result<SweepResult, Failure> {
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
    Ok(SweepResult { schema: SCHEMA, sweep: sweep.name, world: "sim".into(), mixes: judged, pass })
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
