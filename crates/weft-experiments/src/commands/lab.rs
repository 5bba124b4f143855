//! `weft-lab run` and `weft-lab failover`: run scenarios and cut links on this machine's kernel.

use super::sim::{network_text, save_network};
use crate::cli::{FailoverArguments, ScenarioOptions};
use std::io::IsTerminal as _;
use std::path::Path;
use weft_config::beside;
use weft_config::outcome::{Failure, Outcome, json};
use weft_lab::{FailoverOptions, LabError, NetworkRuns, RunOptions};
use weft_scenario::{AnyScenario, Scenario};

const NO_WEFT: &str = "the program `weft` is neither beside this one nor in PATH: build it with `cargo build --release -p weft`, or install it";

/// Runs the scenario in `file` and prints the result as a table or as JSON.
pub fn run(file: &Path, options: &ScenarioOptions) -> Result<Outcome, Failure> {
    let options_of_run = run_options(options);
    match AnyScenario::parse(&read(file)?, &name(file)).map_err(refused)? {
        AnyScenario::Pair(scenario) => {
            print!("{}", run_cells(&scenario, options, &options_of_run)?);
            if let Some(out) = &options.out {
                print_pictures(out, &scenario.cells());
            }
        }
        AnyScenario::Network(network) => {
            let mut results = Vec::new();
            for cell in network.cells() {
                let NetworkRuns { result, series } = weft_lab::run_network(&cell, &options_of_run).map_err(failed)?;
                if let Some(out) = &options.out {
                    save_network(out, &cell, &result, &series)?;
                }
                results.push(result);
            }
            print!("{}", network_text(&network, &results, options.json)?);
        }
    }
    Ok(Outcome::Well)
}

/// Runs a scenario of two nodes for each combination of values in its `[grid]`, and returns the results as text.
fn run_cells(scenario: &Scenario, options: &ScenarioOptions, options_of_run: &RunOptions) -> Result<String, Failure> {
    let cells = scenario.cells();
    let results =
        cells.iter().map(|cell| weft_lab::run(cell, options_of_run)).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    Ok(match &results[..] {
        [result] if options.json => json(result)?,
        results if options.json => json(&results)?,
        [result] => weft_report::run_table(result),
        results => weft_report::grid_table(scenario, results),
    })
}

/// Prints the paths of the pictures. On a terminal they follow the table.
pub(super) fn print_pictures(out: &Path, scenarios: &[Scenario]) {
    for scenario in scenarios {
        let file = weft_report::picture_of(out, scenario);
        let whole = std::path::absolute(&file).unwrap_or(file);
        eprintln!("picture: {}", whole.display());
    }
}

/// Compares the effect of silent cuts on weft and on OSPF.
///
/// The outcome is a failure if weft was measured and its longest gap exceeds both 50 ms and 1.5 round trips.
pub fn failover(arguments: &FailoverArguments) -> Result<Outcome, Failure> {
    let options = FailoverOptions {
        weft_binary: beside::program("weft").ok_or_else(|| Failure::new(NO_WEFT))?,
        repeat: arguments.repeat,
        count: arguments.count,
        interval: arguments.interval,
        restart: arguments.restart,
        only: arguments.only.clone(),
    };
    let tell = |next: &str| {
        if !arguments.quiet {
            eprintln!("{next}");
        }
    };
    let result = weft_lab::failover(&options, tell).map_err(failed)?;
    let text = json(&result)?;
    if let Some(directory) = &arguments.out {
        let save = |name: &str, text: &str| std::fs::write(directory.join(name), text);
        let saved = std::fs::create_dir_all(directory)
            .and_then(|()| save("failover.json", &text))
            .and_then(|()| save("failover.csv", &weft_lab::failover_csv(&result)));
        saved.map_err(|why| Failure::new(format!("{}: {why}", directory.display())))?;
    }
    print!("{}", if arguments.json { text } else { weft_lab::failover_table(&result) });
    Ok(if result.is_held() { Outcome::Well } else { Outcome::Failed })
}

pub(super) fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|why| Failure::new(format!("{}: {why}", file.display())))
}

pub(super) fn name(file: &Path) -> String {
    file.display().to_string()
}

pub(super) fn refused(why: weft_scenario::ScenarioError) -> Failure {
    Failure::new(format!("{why}\n"))
}

pub(super) fn failed(why: LabError) -> Failure {
    Failure::new(why.to_string())
}

pub(super) fn run_options(options: &ScenarioOptions) -> RunOptions {
    RunOptions {
        out: options.out.clone(),
        variants: options.variant.clone(),
        repeat: options.repeat,
        traces: options.traces.clone(),
        weft_binary: beside::program("weft"),
        progress: !options.quiet && (std::io::stderr().is_terminal() || !options.json),
    }
}
