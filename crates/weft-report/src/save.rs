//! Writes the files that a run of a scenario leaves: its result, its picture and its time series.

use crate::run_picture;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};
use weft_scenario::{RunResult, RunSeries, Scenario, Series, write_csv};

/// Writes a result into `directory`, and creates the directory if necessary.
///
/// The files are the result as JSON, a picture, and the time series of each run as CSV. `runs` contains the runs of
/// each variant, by the variant's name.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn save_run(
    directory: &Path,
    scenario: &Scenario,
    result: &RunResult,
    runs: &BTreeMap<String, Vec<RunSeries>>,
) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for (name, runs) in runs {
        for (run, number) in runs.iter().zip(1..) {
            let file = format!("{}-{}-{number}.csv", scenario.name, name.replace([':', '/'], "-"));
            write_csv(&directory.join(file), &run.series)?;
        }
    }
    let json = serde_json::to_string_pretty(result)?;
    fs::write(directory.join(format!("{}.json", scenario.name)), json)?;
    let shown: BTreeMap<&str, &[Series]> =
        runs.iter().filter_map(|(name, runs)| Some((name.as_str(), middle(runs)?.series.as_slice()))).collect();
    run_picture(&picture_of(directory, scenario), scenario, result, &shown)
}

/// Returns the path of the picture that [`save_run`] writes for this scenario.
pub fn picture_of(directory: &Path, scenario: &Scenario) -> PathBuf {
    directory.join(format!("{}.svg", scenario.name))
}

/// Returns the run with the median goodput, of which the picture shows the time series.
///
/// Of an even number of runs, it is the one just above the middle.
fn middle(runs: &[RunSeries]) -> Option<&RunSeries> {
    let mut sorted: Vec<&RunSeries> = runs.iter().collect();
    sorted.sort_by(|a, b| a.goodput_bps.total_cmp(&b.goodput_bps));
    sorted.get(runs.len() / 2).copied()
}
