//! Events from the engine to the program, and commands from the program to the engine.

use super::access::DeniedPacket;
use super::address_pairs::AddressPairs;
use super::drill::{DrillError, DrillTarget};
use super::facts::Stranger;
use super::overlay::Unmet;
use super::refusal::VpnError;
use super::signal::Grant;
use super::trust::Rejection;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use weft_core::route::calls;
use weft_core::route::ownership::Conflict;
use weft_core::service::Service;
use weft_session::{PublicKey, RefusedStamp, Revocation};
use weft_units::{LinkId, NodeId, PathId, PeerId};
use weft_wire::ip::FlowKey;
use weft_wire::ownership::ClaimVerdict;

/// An event that the program logs or acts on.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A session with a peer was established.
    Established {
        /// The peer with which the session was established.
        peer: PeerId,
        /// True for the first session after a start or restart of the peer's program.
        fresh: bool,
    },
    /// The session with a peer ended.
    Lost {
        /// The peer whose session ended.
        peer: PeerId,
        /// The reason why the session ended, for the log.
        cause: &'static str,
    },
    /// A handshake was refused because of its stamp. Reported at most once a minute for each peer.
    StampRefused {
        /// The peer that sent or refused the handshake.
        peer: PeerId,
        /// The refused stamp, and the reason why it was refused.
        refused: RefusedStamp,
        /// True if the peer refused this node's stamp. False if this node refused the peer's stamp.
        by_peer: bool,
    },
    /// A handshake arrived from a stranger.
    ///
    /// At most eight such events are reported in a minute, and at most one of them for each stranger.
    TurnedAway(Stranger),
    /// Two running nodes use one key. Reported at most once a minute for each peer.
    KeyShared {
        /// The peer whose sessions alternate because of the shared key.
        peer: PeerId,
        /// True if the shared key is this node's, as the peer reported. False if it is the peer's.
        is_own: bool,
    },
    /// A path changed its state.
    Path {
        /// The peer at the far end of the path.
        peer: PeerId,
        /// Number of the path.
        path: PathId,
        /// The path's local link.
        link: LinkId,
        /// The path's remote address.
        remote: SocketAddr,
        /// The state to which the path changed.
        state: PathState,
        /// The reason why the path changed its state, as text for the log.
        cause: &'static str,
    },
    /// Some pairs of a local link and a peer's address are not tried. Reported after links or addresses changed.
    NotTried {
        /// The peer to which the addresses belong.
        peer: PeerId,
        /// Counts of all pairs and of the pairs that are not tried, and the reasons.
        pairs: AddressPairs,
    },
    /// Two peers have the same relay label (first 32 bits of a key's hash). Relays forward nothing for `peer`.
    LabelClash {
        /// The peer that gets no relayed datagrams.
        peer: PeerId,
        /// The peer that keeps the label. Relays forward datagrams with this label to it.
        owner: PeerId,
    },
    /// Rules of access dropped packets. Reported at most once a second.
    Denied {
        /// The last packet that was dropped.
        packet: DeniedPacket,
        /// Number of further packets that were dropped since the last report of this event.
        more: u64,
    },
    /// A peer joined by certificate, or presented a new certificate. Its prefixes are now known.
    Joined {
        /// The peer that joined or renewed its certificate.
        peer: PeerId,
    },
    /// A peer that joined by certificate was removed.
    Left {
        /// Name of the peer that was removed. Its peer number may soon be another peer's.
        name: String,
        /// The reason why the peer was removed, for the log.
        cause: &'static str,
    },
    /// A node presented a certificate that the network's root signed, and this node rejected it.
    ///
    /// Reported at most once in ten minutes for each certificate.
    Refused {
        /// The name in the certificate.
        name: String,
        /// The key of the certificate's owner.
        public_key: PublicKey,
        /// The reason why the certificate was rejected, for the log.
        why: Rejection,
    },
    /// A contact in the configuration of the overlay could not be reached. Reported again when the reason changes.
    Unmet {
        /// The contact's key.
        public_key: PublicKey,
        /// The reason why the contact could not be reached, for the log.
        why: Unmet,
    },
    /// A node that stores claims of prefixes refused this node's claim. Reported once for each such node.
    ClaimRefused {
        /// Overlay id of the node that refused the claim.
        holder: NodeId,
        /// Reason why that node refused the claim.
        why: ClaimVerdict,
    },
    /// Two nodes have certificates for one prefix. This node received a claim of the prefix from each of them.
    Conflict(Conflict),
    /// An event of a call over the overlay: an application's request to the node that is responsible for a key.
    Call(calls::CallEvent),
    /// A key was revoked, and this node did not know it before.
    ///
    /// The program must store it, because a revocation never ends.
    Revoked(Revocation),
    /// The MTU that the TUN device should have, in bytes.
    InnerMtu(u16),
    /// The TCP `reordering` metric for routes to the peers' prefixes (paper 000, eq. 1).
    ///
    /// `None` selects the kernel's default.
    ReorderingMetric(Option<u32>),
    /// A rate was granted to a flow that starts here, or such a grant was renewed.
    Granted(Grant),
    /// The grant of a rate to this flow, which starts here, ended.
    ///
    /// The flow continues as if it had never requested a rate.
    Withdrawn(FlowKey),
    /// A [`Command::Drill`] ended, and the links or nodes that it cut work again.
    DrillOver {
        /// The target that was cut, such as `link eth0`.
        of: String,
    },
    /// A path answered a [`Command::Ping`].
    Pong {
        /// The peer that answered.
        peer: PeerId,
        /// Number of the path over which the ping was sent.
        path: PathId,
        /// Time from the ping to its answer.
        rtt: Duration,
        /// The id given with the [`Command::Ping`].
        id: u32,
    },
}

/// The state of a path, which decides which traffic it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathState {
    /// The path has not answered yet.
    Opening,
    /// The path carries all traffic.
    Good,
    /// The path has high loss. It carries only bulk.
    Degraded,
    /// The path is silent for longer than its jitter explains.
    ///
    /// Other paths duplicate its traffic until it answers or goes down.
    Suspect,
    /// The path carries no traffic. Probes test it.
    Down,
}

impl fmt::Display for PathState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathState::Opening => "opening",
            PathState::Good => "good",
            PathState::Degraded => "degraded",
            PathState::Suspect => "suspect",
            PathState::Down => "down",
        })
    }
}

/// A command to a running engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Sets the weights of links, by link name, from the next unit on (NATALIE, paper 002).
    ///
    /// The schedule's counters restart. Links that are not named keep their weights. `None` returns to measured
    /// weights.
    SetWeights(Option<Vec<(String, u32)>>),
    /// Changes a VPN's share until the next reload.
    SetVpn {
        /// Name of the VPN to change.
        vpn: String,
        /// The settings to change.
        change: VpnChange,
    },
    /// Pings the peer over every path. Each answer is reported as [`Event::Pong`].
    Ping {
        /// Name of the peer to ping.
        peer: String,
        /// Any number. Each [`Event::Pong`] of this ping contains it.
        id: u32,
    },
    /// Starts a drill: drops all datagrams over a link or a node for a limited time.
    ///
    /// [`Engine::drill_report`](crate::Engine::drill_report) returns the results.
    Drill {
        /// The link or node to cut.
        of: DrillTarget,
        /// Duration of the cut, at most [`DRILL_MAX`](crate::DRILL_MAX).
        time: Duration,
        /// True to cut the target even if some peer would then have no other path.
        force: bool,
    },
    /// Informs every peer that this node is leaving.
    Close,
}

/// A change to a VPN's share. The default changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VpnChange {
    /// The new weight of the VPN, above zero; `None`: no change.
    pub weight: Option<u32>,
    /// The new service that the VPN is promised; `None`: no change.
    pub service: Option<Service>,
}

/// The reason for which a command was refused.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandError {
    /// No peer has the name in the command. Holds the names of all peers.
    UnknownPeer(Vec<String>),
    /// No link has the name in the command. Holds that name and the names of all links.
    UnknownLink(String, Vec<String>),
    /// No VPN has the name in the command. Holds that name and the names of all VPNs.
    UnknownVpn(String, Vec<String>),
    /// No prefix of a peer contains the destination.
    NoRoute,
    /// All weights in the command are zero.
    NoWeight,
    /// The VPN cannot have the requested share. Nothing has changed.
    Vpn(VpnError),
    /// The drill cannot start.
    Drill(DrillError),
    /// The peer has no session at present.
    NotEstablished,
}
