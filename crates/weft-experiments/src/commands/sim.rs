//! `weft-lab sim`: runs scenarios in virtual time.

use super::engine_settings::settings;
use crate::cli::SimOptions;
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use weft_config::outcome::{Failure, Outcome, json};
use weft_report::{Chart, charts_picture, grid_table, network_grid_table, run_table};
use weft_scenario::{AnyScenario, NetworkScenario, RunResult, Scenario, Series, Variant};
use weft_world::Observers;
use weft_world::network::run_all;
use weft_world::pair::{self, PairOptions};

/// Maximum number of curves in one panel of a picture: those whose values have the largest sum are shown.
const SHOWN: usize = 6;

/// Runs the scenario in `file` and prints the result as a table or as JSON.
pub fn run(file: &Path, options: &SimOptions) -> Result<Outcome, Failure> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|why| Failure::new(format!("{name}: {why}")))?;
    match AnyScenario::parse(&text, &name).map_err(refused)? {
        AnyScenario::Pair(scenario) => {
            print!("{}", run_cells(&scenario, &name, &text, options)?);
            if let Some(out) = &options.run.out {
                super::lab::print_pictures(out, &scenario.cells());
            }
        }
        AnyScenario::Network(network) => {
            let results =
                network.cells().iter().map(|cell| run_network(cell, options)).collect::<Result<Vec<_>, _>>()?;
            print!("{}", network_text(&network, &results, options.run.json)?);
        }
    }
    Ok(Outcome::Well)
}

/// Returns the results of a network as text: one result for each combination of values in its `[grid]`.
pub(super) fn network_text(network: &NetworkScenario, results: &[RunResult], as_json: bool) -> Result<String, Failure> {
    Ok(match results {
        [result] if as_json => json(result)?,
        results if as_json => json(&results)?,
        [result] => run_table(result),
        results => network_grid_table(&network.name, results),
    })
}

/// Runs a scenario of two nodes for each combination of values in its `[grid]`, and returns the results as text.
fn run_cells(scenario: &Scenario, file: &str, text: &str, options: &SimOptions) -> Result<String, Failure> {
    let cells = scenario.cells();
    let results =
        cells.iter().map(|cell| run_pair(cell, file, text, options)).collect::<Result<Vec<RunResult>, _>>()?;
    Ok(match &results[..] {
        [result] if options.run.json => json(result)?,
        results if options.run.json => json(&results)?,
        [result] => run_table(result),
        results => grid_table(scenario, results),
    })
}

/// Runs a scenario of two nodes. `text` is its text, and `file` names it in errors.
pub(super) fn run_pair(
    scenario: &Scenario,
    file: &str,
    text: &str,
    options: &SimOptions,
) -> Result<RunResult, Failure> {
    let traces = scenario.load_traces(options.run.traces.as_deref()).map_err(refused)?;
    let pair_options = PairOptions {
        variants: options.run.variant.clone(),
        repeat: options.run.repeat,
        seed: options.seed,
        threads: threads(options.threads),
        looks: options.run.out.clone().map(|out| (eyes(options), out)),
    };
    if let Some(out) = &options.run.out {
        std::fs::create_dir_all(out).map_err(|why| cannot_write(out, &why))?;
    }
    let settings = |variant: &Variant| settings(scenario, variant, file, text);
    let run = pair::run(scenario, &traces, &pair_options, &settings, &progress(options.run.quiet, "runs"))
        .map_err(Failure::new)?;
    if let Some(out) = &options.run.out {
        weft_report::save_run(out, scenario, &run.result, &run.series).map_err(|why| cannot_write(out, &why))?;
    }
    Ok(run.result)
}

fn run_network(network: &NetworkScenario, options: &SimOptions) -> Result<RunResult, Failure> {
    let traces = network.load_traces(options.run.traces.as_deref()).map_err(refused)?;
    let repeats = u64::from(options.run.repeat.unwrap_or(network.repeats));
    let first = options.seed.unwrap_or(network.seed);
    let seeds: Vec<u64> = (0..repeats).map(|n| first.wrapping_add(n)).collect();
    let eyes = eyes(options);
    if let Some(out) = &options.run.out {
        std::fs::create_dir_all(out).map_err(|why| cannot_write(out, &why))?;
    }
    let looks = options.run.out.as_deref().map(|out| (&eyes, out));
    let (result, series) = run_all(
        network,
        &traces,
        &options.run.variant,
        &seeds,
        threads(options.threads),
        looks,
        &progress(options.run.quiet, "runs"),
    )
    .map_err(Failure::new)?;
    if let Some(out) = &options.run.out {
        save_network(out, network, &result, &series)?;
    }
    Ok(result)
}

/// Writes the result of all runs into one file, and a picture of each run.
pub(super) fn save_network(
    out: &Path,
    network: &NetworkScenario,
    result: &RunResult,
    series: &BTreeMap<String, Vec<Series>>,
) -> Result<(), Failure> {
    let file = out.join(format!("{}.json", network.name));
    std::fs::create_dir_all(out).map_err(|why| cannot_write(out, &why))?;
    std::fs::write(&file, json(result)?).map_err(|why| cannot_write(&file, &why))?;
    for (stem, series) in series {
        let file = out.join(format!("{stem}.svg"));
        charts_picture(&file, stem, &network.description, &charts(series)).map_err(|why| cannot_write(&file, &why))?;
    }
    Ok(())
}

fn eyes(options: &SimOptions) -> Observers {
    Observers { captured: options.pcap.clone(), traced: options.trace.clone(), ..Observers::default() }
}

/// Returns the charts of a run's flows and queues. Each shows the [`SHOWN`] curves whose values have the largest sum.
fn charts(series: &[Series]) -> [Chart; 2] {
    let panel = |title, wanted: &dyn Fn(&Series) -> bool, scale| {
        let total = |series: &Series| series.points.iter().map(|(_, value)| value).sum::<f64>();
        let mut most: Vec<&Series> = series.iter().filter(|series| wanted(series)).collect();
        most.sort_by(|a, b| total(b).total_cmp(&total(a)));
        most.truncate(SHOWN);
        Chart::of_series(title, most, scale)
    };
    let is_link = |series: &Series| series.name.contains(".up") || series.name.contains(".down");
    [
        panel("Goodput of flows, Mbit/s", &|series| series.unit == "bit/s" && !is_link(series), 1e6),
        panel("Queues, kB", &|series| series.name.ends_with(".queue"), 1e3),
    ]
}

fn refused(why: weft_scenario::ScenarioError) -> Failure {
    Failure::new(format!("{why}\n"))
}

fn cannot_write(path: &Path, why: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {why}", path.display()))
}

/// Returns the requested number of threads, or one per core.
pub(super) fn threads(asked: Option<u16>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.map_or_else(cores, usize::from)
}

/// Prints the number of finished runs on standard error.
pub(super) fn progress(quiet: bool, what: &str) -> impl Fn(usize, usize) + Sync {
    let shown = !quiet && std::io::stderr().is_terminal();
    move |done, all| {
        if shown {
            let end = if done == all { '\n' } else { '\r' };
            eprint!("{done} of {all} {what}{end}");
            let _ = std::io::stderr().flush();
        }
    }
}
