//! Parsing of `[exit]`: peers reach the Internet through this node.

use super::read::Section;

/// `[exit]`: the node forwards packets from the tunnel to its own IP networks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exit {
    /// True if the packets leave with this machine's own address as their source.
    pub masquerade: bool,
}

/// Parses `[exit]`.
pub fn read(mut section: Section<'_, '_>) -> Exit {
    let masquerade = section.flag("masquerade").unwrap_or(true);
    section.finish();
    Exit { masquerade }
}
