//! `weft up`.

use crate::daemon::{self, Level};
use crate::outcome::{Failure, Outcome};
use std::path::Path;

/// Runs the node until it is told to stop.
pub fn up(config: &Path, verbose: bool, quiet: bool) -> Result<Outcome, Failure> {
    let level = match (verbose, quiet) {
        (_, true) => Level::Error,
        (true, _) => Level::Debug,
        _ => Level::Info,
    };
    daemon::run(config, level)?;
    Ok(Outcome::Well)
}
