//! `weft up`: runs the node. `weft guard`: sets the kill switch before the node runs, while the machine boots.

use crate::config;
use crate::daemon::machine::kill_switch;
use crate::daemon::{self, Level, Log};
use crate::outcome::{Failure, Outcome};
use std::path::Path;

/// Runs the node until `weft down` or a signal ends it.
pub fn up(config: &Path, level: Level) -> Result<Outcome, Failure> {
    daemon::run(config, level)?;
    Ok(Outcome::Well)
}

/// Sets the kill switch if the configuration has it. When the node starts, it takes over the kill switch.
pub fn guard(file: &Path) -> Result<Outcome, Failure> {
    let config = config::load(file).map_err(Failure::new)?.config;
    let log = Log::new(Level::Error);
    let is_set = kill_switch::set_once(&config, log).map_err(Failure::new)?;
    println!("{}", if is_set { "kill switch set; weft down lifts it" } else { "no kill switch is configured" });
    Ok(Outcome::Well)
}
