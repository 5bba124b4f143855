//! Parsing of `[router]`: transit, the size of the flow table, and the target use of ports.

use crate::config::read::Section;
use crate::config::signal::percent;

/// Number of flows that the table keeps if none is set.
///
/// *Tuned*: 10^6 flows take at most 256 MB and are more than a site of 10,000 hosts has at once.
const FLOWS: u32 = 1_000_000;

/// `[router]`: transit, the size of the flow table, and the target use of ports.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RouterSettings {
    /// True if the node forwards decrypted packets from one peer to another.
    pub transit: bool,
    /// Number of flows that the table keeps.
    pub flows: u32,
    /// Fraction of its paths' capacity that a port uses at most, 0.5 to 1. `None`: all that the paths carry.
    pub target_use: Option<f64>,
}

impl Default for RouterSettings {
    fn default() -> RouterSettings {
        RouterSettings { transit: false, flows: FLOWS, target_use: None }
    }
}

/// Parses `[router]`.
pub fn read(mut section: Section<'_, '_>) -> RouterSettings {
    let transit = section.flag("transit").unwrap_or(false);
    let flows = section.integer("flows", 1_024..(1 << 24) + 1).map_or(FLOWS, |at| at.value as u32);
    let target_use = section.parsed("target-use", "\"95 %\"", share_to_use).map(|at| at.value);
    section.finish();
    RouterSettings { transit, flows, target_use }
}

/// Parses the target use of a port: a percentage from 50 to 100.
fn share_to_use(text: &str) -> Result<f64, &'static str> {
    match percent(text)? {
        share @ 0.5..=1.0 => Ok(share),
        _ => Err("a port uses 50 % to 100 % of what its paths carry; for less, set `max-rate-up` of the links"),
    }
}
