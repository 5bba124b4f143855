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
    for pool in loaded.config.access.iter().flat_map(|access| access.pools()) {
        println!("clients: the other nodes need {} among this node's prefixes", pool.value);
    }
    for (peer, _) in loaded.config.default_routes() {
        println!(
            "default route: {peer} must forward and translate addresses; weft doctor there says whether it forwards"
        );
    }
    Ok(Outcome::Well)
}
