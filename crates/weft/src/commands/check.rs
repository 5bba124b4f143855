//! `weft check`.

use crate::config;
use crate::outcome::{Failure, Outcome};
use std::path::Path;

/// Checks the configuration in `file`; warnings do not make it bad.
pub fn check(file: &Path) -> Result<Outcome, Failure> {
    let loaded = config::load(file).map_err(Failure::new)?;
    eprint!("{}", loaded.report);
    let count = loaded.config.peers.len();
    println!("{}: well ({count} peer{})", file.display(), if count == 1 { "" } else { "s" });
    if let Some(access) = &loaded.config.access {
        println!("clients: the other nodes need {} among this node's prefixes", access.pool.value);
    }
    Ok(Outcome::Well)
}
