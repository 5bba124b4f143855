//! The options of a run of the lab.

use std::path::PathBuf;

/// The options with which the lab runs a scenario or a sweep.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Directory for time series (CSV) and pictures (SVG). `None` writes no files.
    pub out: Option<PathBuf>,
    /// Names of the variants to run. An empty list selects all variants of the scenario.
    pub variants: Vec<String>,
    /// Number of runs of each variant. `None` selects the number that the scenario names.
    pub repeat: Option<u32>,
    /// Directory with the Mahimahi traces that the scenario's links use.
    ///
    /// The lab generates each trace that is missing in this directory.
    pub traces: Option<PathBuf>,
    /// The `weft` program. Without it, variants that need it are skipped.
    pub weft_binary: Option<PathBuf>,
    /// True if the lab shows its progress on standard error.
    pub progress: bool,
}
