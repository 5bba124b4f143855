//! `weft up`: runs the node.

use crate::daemon::{self, Level};
use crate::outcome::{Failure, Outcome};
use std::path::Path;

/// Runs the node until `weft down` or a signal ends it.
pub fn up(config: &Path, level: Level) -> Result<Outcome, Failure> {
    daemon::run(config, level)?;
    Ok(Outcome::Well)
}
