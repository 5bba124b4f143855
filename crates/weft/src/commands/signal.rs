//! `weft signal`: signals explicit rates for one interface, without a node.

use crate::config;
use crate::daemon::Level;
use crate::host;
use crate::outcome::{Failure, Outcome};
use std::path::Path;

/// Checks the configuration in `file`. Warnings do not cause a failure.
pub fn check(file: &Path) -> Result<Outcome, Failure> {
    let (host, report) = config::host::load(file).map_err(Failure::new)?;
    eprint!("{report}");
    let count = host.signal.rules.len();
    println!("{}: valid ({count} rule{})", file.display(), if count == 1 { "" } else { "s" });
    Ok(Outcome::Well)
}

/// Signals explicit rates for the interface that `file` names, until a signal ends the process.
pub fn run(file: &Path, level: Level) -> Result<Outcome, Failure> {
    host::run(file, level)?;
    Ok(Outcome::Well)
}
