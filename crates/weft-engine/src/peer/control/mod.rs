//! The state of the exchange of control frames between this node and a peer.

pub mod mail;
pub mod probes;
pub mod revocation_sync;
pub mod riding_report;
mod send_revocations;
pub mod watch;

use crate::relay::ReachableNodes;
use mail::OverlayMail;
use probes::Probes;
use revocation_sync::RevocationSync;
use watch::Watch;
use weft_units::{Duration, Instant};
use weft_wire::load_report::TransitLoad;

/// State of those exchanges of control frames with a peer that take several datagrams.
pub struct Exchange {
    next_token: u32,
    pub revocation_sync: RevocationSync,
    pub overlay: OverlayMail,
    /// Number of entries of this relay's list of reports about its peers that were sent to this peer.
    pub bulletin_position: u64,
    /// Nodes to which the peer can relay datagrams, according to its reports.
    pub reach: ReachableNodes,
    /// Probes to the peer of the current drill, or of the last one.
    pub probes: Option<Probes>,
    /// Load of a port of this node that the peer is to be told.
    pub load: Option<TransitLoad>,
}

impl Exchange {
    pub fn new(first_token: u32) -> Exchange {
        Exchange {
            next_token: first_token,
            revocation_sync: RevocationSync::default(),
            overlay: OverlayMail::default(),
            bulletin_position: 0,
            reach: ReachableNodes::default(),
            probes: None,
            load: None,
        }
    }

    /// Returns the token of a new ping. Tokens repeat after 2^32 pings.
    pub fn take_token(&mut self) -> u32 {
        let token = self.next_token;
        self.next_token = token.wrapping_add(1);
        token
    }
}

/// The times of the session with a peer: when it began or ended, and when it was last used.
pub struct SessionTimes {
    pub established_at: Option<Instant>,
    pub heard_at: Option<Instant>,
    /// Time at which the last session ended, or at which the peer was added. Valid only while there is no session.
    pub alone_since: Instant,
    pub busy_at: Instant,
    pub watch: Watch,
    /// Longest interval between probes of those paths to the peer that are in use.
    ///
    /// Set only while a routing protocol watches the peer.
    pub probe_pace: Option<Duration>,
    /// True if the peer accepts reports in datagrams with data.
    pub takes_reports_with_data: bool,
    /// True if a relayed route begins with this peer. Other peers may then be reachable only while this peer answers.
    pub is_first_relay: bool,
}

impl SessionTimes {
    /// Returns the times of a peer that has had no session yet.
    ///
    /// `peers` is the number of this node's peers. With many peers, each is probed less often until its first packet.
    pub fn new(now: Instant, peers: usize) -> SessionTimes {
        let watch = Watch::unpaid(now, peers);
        SessionTimes {
            established_at: None,
            heard_at: None,
            alone_since: now,
            busy_at: now,
            watch,
            probe_pace: None,
            takes_reports_with_data: false,
            is_first_relay: false,
        }
    }
}
