//! The addresses to which initiations for a peer are sent, and the pairs of a link and an address that failed.

use crate::api::AddressPairs;
use alloc::vec::Vec;
use core::net::SocketAddr;
use weft_units::{Instant, LinkId};

/// History of the attempts on pairs of a link and an address of the peer that have no path now.
#[derive(Debug, Default)]
pub struct Attempts {
    /// Link, address, and number of failed attempts at the address on the link since that pair last answered.
    pub failed: Vec<(LinkId, SocketAddr, u32)>,
    /// Number of initiations sent so far on pairs without a path. It selects the pairs for the next initiations.
    pub called: usize,
    /// Time of the last change of links or addresses; `None` once the pairs without an attempt were reported.
    pub changed_at: Option<Instant>,
    pub said: AddressPairs,
}

impl Attempts {
    pub fn of(&self, link: LinkId, remote: &SocketAddr) -> u32 {
        let failed = self.failed.iter().find(|(by, to, _)| *by == link && to == remote);
        failed.map_or(0, |(_, _, times)| *times)
    }

    pub fn count(&mut self, link: LinkId, remote: SocketAddr) {
        match self.failed.iter_mut().find(|(by, to, _)| *by == link && *to == remote) {
            Some((_, _, times)) => *times = times.saturating_add(1),
            None => self.failed.push((link, remote, 1)),
        }
    }

    /// Deletes the failed attempts of a link that is gone, because addresses may answer when the link returns.
    pub fn forget_link(&mut self, now: Instant, link: LinkId) {
        self.failed.retain(|(by, _, _)| *by != link);
        self.changed_at = Some(now);
    }
}

/// The addresses of a peer, besides those of its configuration, and the attempts to reach it.
pub struct Addresses {
    /// Addresses that stand for the configured relayed routes to the peer.
    pub routes: Vec<SocketAddr>,
    /// Addresses that stand for the detours to the peer: relayed routes that were not configured.
    pub detours: Vec<SocketAddr>,
    /// Source addresses of the peer's last initiation.
    ///
    /// The handshake succeeds only if the peer gets an answer at one of these addresses.
    pub handshake_from: Vec<SocketAddr>,
    /// Attempts to reach the peer on pairs of a link and an address.
    pub attempts: Attempts,
    /// Id of the next path that this node opens.
    pub next_path: u16,
}

impl Addresses {
    pub fn new(first_path: u16) -> Addresses {
        Addresses {
            routes: Vec::new(),
            detours: Vec::new(),
            handshake_from: Vec::new(),
            attempts: Attempts::default(),
            next_path: first_path,
        }
    }

    /// Forgets all addresses and attempts, because the peer was removed.
    pub fn clear(&mut self) {
        self.routes.clear();
        self.detours.clear();
        self.attempts = Attempts::default();
    }
}
