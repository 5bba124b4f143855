//! `weft up`.

use crate::daemon::{self, Level};
use crate::outcome::{Failure, Outcome};
use std::path::Path;

/// Runs the node until it is told to stop.
pub fn up(config: &Path, level: Level) -> Result<Outcome, Failure> {
    daemon::run(config, level)?;
    Ok(Outcome::Well)
}
