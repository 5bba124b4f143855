//! `weft check`: checks a configuration and prints its mistakes.

use crate::config;
use crate::outcome::json;
use crate::outcome::{Failure, Outcome};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// Output of `weft check --json`.
#[derive(Serialize)]
struct CheckReport {
    schema: u32,
    file: String,
    /// True if a node would start with this configuration.
    is_usable: bool,
    /// Reason why the file could not be read. `None` if it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    findings: Vec<config::Diagnostic>,
}

/// Checks the configuration in `file`. Warnings do not cause a failure.
pub fn check(file: &Path, as_json: bool) -> Result<Outcome, Failure> {
    if as_json {
        return check_json(file);
    }
    let loaded = config::load(file).map_err(Failure::new)?;
    eprint!("{}", loaded.report);
    let count = loaded.config.peers.len();
    println!("{}: valid ({count} peer{})", file.display(), if count == 1 { "" } else { "s" });
    for pool in loaded.config.access.iter().flat_map(|access| access.pools()) {
        println!("clients: add {} to this node's prefixes on the other nodes", pool.value);
    }
    let exits: BTreeSet<&str> = loaded.config.default_routes().map(|(peer, _)| peer).collect();
    for peer in exits {
        println!(
            "default route: {peer} must forward and translate addresses; weft doctor there reports whether it forwards"
        );
    }
    Ok(Outcome::Well)
}

fn check_json(file: &Path) -> Result<Outcome, Failure> {
    let (is_usable, unreadable, findings) = match config::read_and_check(file) {
        Ok((loaded, report)) => (loaded.is_some(), None, report.diagnostics()),
        Err(why) => (false, Some(why.trim_end().to_owned()), Vec::new()),
    };
    let file = file.display().to_string();
    print!("{}", json(&CheckReport { schema: 1, file, is_usable, unreadable, findings })?);
    Ok(if is_usable { Outcome::Well } else { Outcome::Failed })
}
