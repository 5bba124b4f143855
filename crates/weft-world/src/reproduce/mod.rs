//! Tests the claims of the reproduction checklist, its rows, in the simulator.
//!
//! A row is one claim of papers 000 to 004. Each row runs its cases with several seeds and returns means with 95 %
//! confidence intervals (Student's t). A case that several rows need runs once. Results depend on the seeds only, not
//! on the number of threads.

mod case;
mod checks;
mod counts;
mod document;
mod earlier;
mod estimate;
mod fairness;
mod laboratory;
mod row;
mod rows;
mod sweep;

pub use counts::RowCounts;
pub use document::document;
pub use estimate::Estimate;
use estimate::r_squared;
use laboratory::Laboratory;
pub use laboratory::{Effort, Progress, RUN_LENGTH, WARMUP};
pub use row::{Figure, Measured, Picture, RowChart, RowCurve, RowResult, RowVerdict, Surface, Surfaces};
use serde::Serialize;

/// The results of all rows that were run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Reproduction {
    /// Version of the format of these results.
    pub schema: u32,
    /// The world in which the rows ran: always "sim".
    pub world: &'static str,
    /// Number of seeds of each case.
    pub seeds: u64,
    /// Simulated duration of a run in seconds, unless its row states another one.
    pub duration_s: f64,
    /// Simulated duration of the warm-up of such a run, in seconds.
    pub warmup_s: f64,
    /// Number of runs for all rows together.
    pub runs: usize,
    /// Total simulated time of all runs, in seconds.
    pub simulated_s: f64,
    /// The rows, in the checklist's order.
    pub rows: Vec<RowResult>,
    /// Pictures of the papers' figures.
    #[serde(skip)]
    pub pictures: Vec<Picture>,
    /// Pictures of surfaces, which show a value for each pair of two settings.
    #[serde(skip)]
    pub surfaces: Vec<Surfaces>,
}

/// Rows of the checklist that a simulation cannot show.
const ELSEWHERE: [&str; 4] = ["D7", "D8", "D9", "D10"];

/// Returns the names of all rows that the simulator can test.
pub fn ids() -> Vec<&'static str> {
    rows::all().iter().map(|row| row.id).collect()
}

/// Runs the rows with these names, or all rows if `wanted` is empty.
///
/// After each row the function calls `keep` with the results so far.
///
/// # Errors
/// Returns an error if there is no row of such a name, if a case cannot be run, or if `keep` fails.
pub fn reproduce(
    wanted: &[String],
    effort: Effort,
    progress: &dyn Progress,
    mut keep: impl FnMut(&Reproduction) -> Result<(), String>,
) -> Result<Reproduction, String> {
    let is_row = |name: &String| ids().iter().any(|id| id.eq_ignore_ascii_case(name));
    if let Some(unknown) = wanted.iter().find(|name| !is_row(name)) {
        if ELSEWHERE.iter().any(|id| id.eq_ignore_ascii_case(unknown)) {
            return Err(format!(
                "row {unknown} is of processor and memory, not of a network: `make bench` measures it (docs/operate/scale.md)"
            ));
        }
        return Err(format!("there is no row `{unknown}`: there are {}", ids().join(", ")));
    }
    let mut lab = Laboratory::new(effort, progress);
    let mut so_far = Reproduction::begun(effort);
    for row in rows::all()
        .iter()
        .filter(|row| wanted.is_empty() || wanted.iter().any(|name| name.eq_ignore_ascii_case(row.id)))
    {
        lab.turn_to(row.id);
        let finding = (row.examine)(&mut lab)?;
        so_far.pictures.extend(finding.picture.clone());
        so_far.surfaces.extend(finding.surfaces.clone());
        so_far.rows.push(row.result(finding, lab.seeds_used()));
        (so_far.runs, so_far.simulated_s) = (lab.runs, lab.simulated.as_secs_f64());
        keep(&so_far)?;
    }
    Ok(so_far)
}

impl Reproduction {
    fn begun(effort: Effort) -> Reproduction {
        let (length, warmup) = effort.run_length();
        Reproduction {
            schema: 1,
            world: "sim",
            seeds: effort.seeds,
            duration_s: length.as_secs_f64(),
            warmup_s: warmup.as_secs_f64(),
            runs: 0,
            simulated_s: 0.0,
            rows: Vec::new(),
            pictures: Vec::new(),
            surfaces: Vec::new(),
        }
    }
}
