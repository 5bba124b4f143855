//! Pairs of a local link and a peer's address, and which of these pairs no path tries.

use alloc::string::String;
use alloc::vec::Vec;

/// Numbers of pairs of a local link and an address of the peer, and of such pairs that no path tries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AddressPairs {
    /// Number of all pairs whose link and address have the same address family.
    pub all: usize,
    /// Number of these pairs that have no path and were never tried.
    pub not_tried: usize,
    /// Number of the peer's addresses that each link tries at the same time.
    pub at_once: usize,
    /// Names of the links without a path to the peer, because the limit of open paths to the peer is reached.
    pub links_without_path: Vec<String>,
    /// Datagrams dropped because the peer sent them on more paths than a peer may open.
    pub refused_datagrams: u64,
}

impl AddressPairs {
    /// True if every pair was tried and no datagram of the peer was refused.
    pub fn is_complete(&self) -> bool {
        self.not_tried == 0 && self.links_without_path.is_empty() && self.refused_datagrams == 0
    }
}
