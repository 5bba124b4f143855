use std::path::PathBuf;

/// How to run a scenario or a sweep.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Where time series (CSV) and pictures (SVG) go; nowhere if none.
    pub out: Option<PathBuf>,
    /// Only these variants, by name; all of the scenario's if empty.
    pub variants: Vec<String>,
    /// Runs of each variant; as the scenario says if none.
    pub repeat: Option<u32>,
    /// A directory with Mahimahi traces; a trace that is not found there is made by our own generator.
    pub traces: Option<PathBuf>,
    /// The `weft` program; variants that need it are skipped if none.
    pub weft_binary: Option<PathBuf>,
    /// Whether to show progress on standard error.
    pub progress: bool,
}
