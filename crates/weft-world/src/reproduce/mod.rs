//! Rows of the reproduction checklist: what papers 000, 002, 003 and 004 claim, run in the simulator and judged.
//!
//! Each row runs its cases over several seeds and gives means with 95 % confidence intervals (Student's t). A case that several
//! rows need runs once. Results depend on the seeds alone, not on threads.

mod case;
mod checks;
mod document;
mod earlier;
mod estimate;
mod fairness;
mod laboratory;
mod row;
mod rows;
mod sweep;

pub use document::document;
pub use estimate::Estimate;
use estimate::r_squared;
use laboratory::Laboratory;
pub use laboratory::{Effort, Progress, RUN_LENGTH, WARMUP};
pub use row::{Chart, Curve, Figure, Measured, Panels, Picture, RowResult, Surface};
use serde::Serialize;

/// What a reproduction gave.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Reproduction {
    /// Version of this format.
    pub schema: u32,
    /// Always "sim".
    pub world: &'static str,
    /// Seeds of each case.
    pub seeds: u64,
    /// Seconds of a run of papers 000 and 002.
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

/// Rows of the checklist that no simulation shows.
const ELSEWHERE: [&str; 4] = ["D7", "D8", "D9", "D10"];

/// The names of all rows.
pub fn ids() -> Vec<&'static str> {
    rows::all().iter().map(|row| row.id).collect()
}

/// Runs the rows of these names, or all of them if none is named. After each, `keep` gets what there is so far.
///
/// # Errors
/// When there is no row of such a name, a case cannot be run, or `keep` refuses.
pub fn reproduce(
    wanted: &[String],
    effort: Effort,
    progress: &dyn Progress,
    mut keep: impl FnMut(&Reproduction) -> Result<(), String>,
) -> Result<Reproduction, String> {
    if let Some(unknown) = wanted.iter().find(|name| !ids().contains(&name.as_str())) {
        if ELSEWHERE.contains(&unknown.as_str()) {
            return Err(format!(
                "row {unknown} is of processor and memory, not of a network: `make bench` measures it (docs/scale.md)"
            ));
        }
        return Err(format!("there is no row `{unknown}`: there are {}", ids().join(", ")));
    }
    let mut lab = Laboratory::new(effort, progress);
    let mut so_far = Reproduction::begun(effort);
    for row in rows::all().iter().filter(|row| wanted.is_empty() || wanted.iter().any(|name| name == row.id)) {
        lab.turn_to(row.id);
        let finding = (row.examine)(&mut lab)?;
        so_far.pictures.extend(finding.picture.clone());
        so_far.rows.push(row.result(finding));
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
        }
    }
}
