//! Parsing of `[router]`: transit, and the size of the flow table.

use crate::config::read::Section;

/// Number of flows that the table keeps if none is set.
///
/// *Tuned*: 10^6 flows take at most 256 MB and are more than a site of 10,000 hosts has at once.
const FLOWS: u32 = 1_000_000;

/// `[router]`: transit, and the size of the flow table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouterSettings {
    /// True if the node forwards decrypted packets from one peer to another.
    pub transit: bool,
    /// Number of flows that the table keeps.
    pub flows: u32,
}

impl Default for RouterSettings {
    fn default() -> RouterSettings {
        RouterSettings { transit: false, flows: FLOWS }
    }
}

/// Parses `[router]`.
pub fn read(mut section: Section<'_, '_>) -> RouterSettings {
    let transit = section.flag("transit").unwrap_or(false);
    let flows = section.integer("flows", 1_024..(1 << 24) + 1).map_or(FLOWS, |at| at.value as u32);
    section.finish();
    RouterSettings { transit, flows }
}
