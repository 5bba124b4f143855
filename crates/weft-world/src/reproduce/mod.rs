//! Rows of the reproduction checklist: what papers 000 and 002 claim, run in the simulator and judged.
//!
//! Each row runs its cases over several seeds and gives means with 95 % confidence intervals (Student's t). A case that several
//! rows need runs once. Results depend on the seeds alone, not on threads.

mod case;
mod checks;
mod document;
mod estimate;
mod laboratory;
mod row;
mod rows;
mod sweep;

pub use document::document;
pub use estimate::Estimate;
use estimate::r_squared;
use laboratory::Laboratory;
pub use laboratory::{Effort, Progress, RUN_LENGTH, WARMUP};
pub use row::{Chart, Curve, Figure, Measured, Picture, RowResult};
use serde::Serialize;
use weft_units::Duration;

/// What a reproduction gave.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Reproduction {
    /// Version of this format.
    pub schema: u32,
    /// Always "sim".
    pub world: &'static str,
    /// Seeds of each case.
    pub seeds: u64,
    /// Seconds of a run.
    pub duration_s: f64,
    /// Seconds at its beginning that do not count.
    pub warmup_s: f64,
    /// Runs in all.
    pub runs: usize,
    /// Their length in all.
    pub simulated_s: f64,
    /// The rows in the checklist's order.
    pub rows: Vec<RowResult>,
    /// Pictures of the figures.
    #[serde(skip)]
    pub pictures: Vec<Picture>,
}

/// The names of all rows.
pub fn ids() -> Vec<&'static str> {
    rows::all().iter().map(|row| row.id).collect()
}

/// Runs the rows of these names, or all of them if none is named.
///
/// # Errors
/// When there is no row of such a name, or a case cannot be run.
pub fn reproduce(wanted: &[String], effort: Effort, progress: &dyn Progress) -> Result<Reproduction, String> {
    if let Some(unknown) = wanted.iter().find(|name| !ids().contains(&name.as_str())) {
        return Err(format!("there is no row `{unknown}`: there are {}", ids().join(", ")));
    }
    let mut lab = Laboratory::new(effort, progress);
    let (mut results, mut pictures) = (Vec::new(), Vec::new());
    for row in rows::all().iter().filter(|row| wanted.is_empty() || wanted.iter().any(|name| name == row.id)) {
        lab.turn_to(row.id);
        let finding = (row.examine)(&mut lab)?;
        pictures.extend(finding.picture.clone());
        results.push(row.result(finding));
    }
    let seconds = |time: Duration| time.as_secs_f64();
    let (length, warmup) = effort.run_length();
    Ok(Reproduction {
        schema: 1,
        world: "sim",
        seeds: effort.seeds,
        duration_s: seconds(length),
        warmup_s: seconds(warmup),
        runs: lab.runs,
        simulated_s: seconds(lab.simulated),
        rows: results,
        pictures,
    })
}
