//! `weft doctor`: checks this machine for a node.
//!
//! It also prints how routers can put the tunnel's packets into a queue of their own.
//!
//! With `--peer` it asks the running node and probes the links to one peer instead. It changes nothing.

mod checks;
mod forwarding;
mod isolation;
mod kill_switch;
mod links;
mod node;
mod peer;
mod proxies;
mod service;

use crate::config;
use crate::escape;
use crate::outcome::json;
use crate::outcome::{Failure, Outcome};
use crate::table::Table;
pub use peer::peer;

pub use checks::Check;
use checks::{Machine, Verdict};
use isolation::QueueCommands;
use serde::Serialize;
use std::path::Path;
use weft_engine::Dscp;

#[derive(Serialize)]
struct Diagnosis {
    schema: u32,
    checks: Vec<Check>,
    /// Router commands for each code point that the configuration sets for a peer.
    isolation: Vec<QueueCommands>,
}

/// Checks this machine, and a configuration with its file if there is one.
pub fn diagnose(file: Option<&Path>, config: Option<&config::Config>) -> Vec<Check> {
    checks::all(&Machine::default(), file, config)
}

/// Checks this machine and a configuration: that in `file`, or else that in `default` if it exists.
pub fn doctor(file: Option<&Path>, default: &Path, as_json: bool) -> Result<Outcome, Failure> {
    let config = match file.or_else(|| default.exists().then_some(default)) {
        Some(file) => Some(config::load(file).map_err(Failure::new)?.config),
        None => None,
    };
    let file = file.or_else(|| default.exists().then_some(default));
    let checks = diagnose(file, config.as_ref());
    let peers = config.iter().flat_map(|config| &config.peers);
    let mut code_points: Vec<u8> = peers
        .filter_map(|peer| if let Dscp::Fixed(code_point) = peer.policy.dscp { Some(code_point) } else { None })
        .collect();
    code_points.sort_unstable();
    code_points.dedup();
    let isolation: Vec<_> = code_points.into_iter().map(QueueCommands::of).collect();
    let is_bad = checks.iter().any(|check| check.verdict == Verdict::Bad);
    let diagnosis = Diagnosis { schema: 1, checks, isolation };
    let text = if as_json { json(&diagnosis)? } else { text(&diagnosis, config.is_some()) };
    print!("{}", escape::lines(&text));
    Ok(if is_bad { Outcome::Degraded } else { Outcome::Well })
}

fn text(diagnosis: &Diagnosis, has_config: bool) -> String {
    let mut table = Table::new(&["CHECK", "VERDICT", "FOUND", "ADVICE"]);
    for Check { name, verdict, found, help } in &diagnosis.checks {
        table.row([name.clone(), verdict.word().to_owned(), found.clone(), help.clone()]);
    }
    let mut text = format!("{table}\n");
    if !has_config {
        text += "No configuration: give one with -c FILE to check links and code points too.\n\n";
    }
    match &diagnosis.isolation[..] {
        [] => text += isolation::WHY_SET_ONE,
        all => all.iter().for_each(|isolation| text += &isolation.text()),
    }
    text
}
