//! `weft-lab parity`: runs scenarios in the lab and in virtual time, and compares the results.

use super::{lab, sim};
use crate::cli::SimOptions;
use std::path::{Path, PathBuf};
use weft_config::outcome::{Failure, Outcome, json};
use weft_lab::RunOptions;
use weft_scenario::{RunResult, Scenario, Variant, VariantKind};

/// Compares the results of the scenarios in `files` in the lab with those in virtual time.
///
/// A scenario with an earlier result in `results` is not run in the lab.
pub fn parity(files: &[PathBuf], results: &[PathBuf], options: &SimOptions) -> Result<Outcome, Failure> {
    let known = results.iter().map(|file| read_result(file)).collect::<Result<Vec<_>, _>>()?;
    let scenarios = files.iter().map(|file| read_scenario(file)).collect::<Result<Vec<_>, _>>()?;
    // All lab runs precede the first simulator thread: the lab may have to enter a user namespace, which the kernel
    // permits only to a process with a single thread.
    let mut both = Vec::new();
    for (file, (text, scenario)) in files.iter().zip(&scenarios) {
        let earlier = known.iter().find(|result| result.scenario == scenario.name).cloned();
        both.push((file, text, scenario, earlier.map_or_else(|| run_lab(scenario, options), Ok)?));
    }
    let mut rows = Vec::new();
    for (file, text, scenario, lab) in both {
        let variants = shared_variants(&scenario.variants, &lab, &options.run.variant);
        let mut own = options.clone();
        own.run.variant = variants;
        let sim = sim::run_pair(scenario, &file.display().to_string(), text, &own)?;
        rows.extend(weft_report::parity(&lab, &sim));
    }
    print!("{}", if options.run.json { json(&rows)? } else { weft_report::parity_table(&rows) });
    Ok(if rows.iter().all(weft_report::ParityRow::is_inside) { Outcome::Well } else { Outcome::Failed })
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|why| Failure::new(format!("{}: {why}", file.display())))
}

/// Returns the text of a scenario file, and the scenario.
fn read_scenario(file: &Path) -> Result<(String, Scenario), Failure> {
    let text = read(file)?;
    let scenario = Scenario::parse(&text, &file.display().to_string());
    scenario.map(|scenario| (text, scenario)).map_err(|why| Failure::new(format!("{why}\n")))
}

fn read_result(file: &Path) -> Result<RunResult, Failure> {
    let wrong = |why| {
        Failure::new(format!(
            "the file {} is not a result that `weft-lab run` wrote: {why}: name another file",
            file.display()
        ))
    };
    serde_json::from_str(&read(file)?).map_err(wrong)
}

fn run_lab(scenario: &Scenario, options: &SimOptions) -> Result<RunResult, Failure> {
    let lab = RunOptions { out: None, ..lab::run_options(&options.run) };
    weft_lab::run(scenario, &lab).map_err(|why| Failure::new(why.to_string()))
}

/// Returns the names of the variants that are in the lab's result and in `chosen`. An empty `chosen` means all.
fn shared_variants(variants: &[Variant], lab: &RunResult, chosen: &[String]) -> Vec<String> {
    let has = |variant: &&Variant| {
        let prefix = match variant.kind {
            VariantKind::EachLink => "link:".to_owned(),
            VariantKind::WeftEachLink if variant.name == variant.kind.word() => "weft:".to_owned(),
            VariantKind::WeftEachLink => format!("{}:", variant.name),
            _ => variant.name.clone(),
        };
        lab.variants.iter().any(|result| result.name.starts_with(&prefix))
    };
    let is_chosen = |variant: &&Variant| chosen.is_empty() || chosen.contains(&variant.name);
    variants.iter().filter(is_chosen).filter(has).map(|variant| variant.name.clone()).collect()
}
