//! What the engine tells its user, and what it can be told to do.

use crate::drill::{DrillError, DrillTarget};
use crate::facts::Stranger;
use crate::overlay::Unmet;
use crate::peer::AddressPairs;
use crate::signal::Grant;
use crate::trust::Rejection;
use crate::vpn::VpnError;
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
use weft_wire::ownership::Verdict;

/// A change worth a log line or an action of the program.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A secure session stands. `fresh`: the peer (re)started.
    Established {
        /// With whom.
        peer: PeerId,
        /// First contact with this start of the peer.
        fresh: bool,
    },
    /// The session ended, and why.
    Lost {
        /// With whom.
        peer: PeerId,
        /// For the log.
        cause: &'static str,
    },
    /// A handshake was refused for its stamp. Told once a minute for each peer.
    StampRefused {
        /// The other node.
        peer: PeerId,
        /// The stamp, and why it was refused.
        refused: RefusedStamp,
        /// The peer refused this node's; otherwise this node refused the peer's.
        by_peer: bool,
    },
    /// A handshake that no peer's configuration explains. A few of them are told in a minute, the same once.
    TurnedAway(Stranger),
    /// Two running nodes use one key. Told once a minute for each peer.
    KeyShared {
        /// The peer whose sessions come and go by that.
        peer: PeerId,
        /// It is this node's key, as the peer says; otherwise it is the peer's.
        is_own: bool,
    },
    /// A path changed its state, and why.
    Path {
        /// The peer it leads to.
        peer: PeerId,
        /// The path.
        path: PathId,
        /// Its link here.
        link: LinkId,
        /// Its address there.
        remote: SocketAddr,
        /// The state now.
        state: PathState,
        /// For the log.
        cause: &'static str,
    },
    /// Some pairs of a link here and an address of the peer are not tried. Told when the links or addresses have changed.
    NotTried {
        /// The peer.
        peer: PeerId,
        /// How many, and why.
        pairs: AddressPairs,
    },
    /// Two peers have the same relay label, which is part of the hash of a key. Relays pass nothing on for the first one.
    LabelClash {
        /// The peer that is not relayed.
        peer: PeerId,
        /// The peer that keeps the label.
        owner: PeerId,
    },
    /// A peer came by certificate, or showed a new one: what lies behind it is known now.
    Joined {
        /// The peer.
        peer: PeerId,
    },
    /// A peer that came by certificate is no more.
    Left {
        /// Its name; the number may soon be another's.
        name: String,
        /// For the log.
        cause: &'static str,
    },
    /// A certificate of the network's root did not make its owner a peer. Told once in ten minutes for each.
    Refused {
        /// The name it claims.
        name: String,
        /// Its owner's key.
        public_key: PublicKey,
        /// For the log.
        why: Rejection,
    },
    /// A node that the configuration says to begin with was called in vain. Told again when the cause is another.
    Unmet {
        /// Its key.
        public_key: PublicKey,
        /// For the log.
        why: Unmet,
    },
    /// A node that keeps claims of who owns what has refused this node's. Told once for each.
    ClaimRefused {
        /// Its place.
        holder: NodeId,
        /// Why.
        why: Verdict,
    },
    /// Two nodes have certificates for one prefix, as this node, which keeps such claims, has seen.
    Conflict(Conflict),
    /// A call of an application has come, or ended.
    Call(calls::Event),
    /// A key was revoked, and was not known to be: to be stored, for it holds for ever.
    Revoked(Revocation),
    /// The TUN device's MTU should be this many bytes.
    InnerMtu(u16),
    /// Routes to the peers' prefixes should carry this `reordering` metric (paper 000, eq. 1); `None`: the kernel's default.
    ReorderingMetric(Option<u32>),
    /// A flow that starts here may send so fast, or longer as fast as before.
    Granted(Grant),
    /// What was granted to a flow that starts here is no more: it goes on as if nothing had been asked.
    Withdrawn(FlowKey),
    /// A [`Command::Drill`] is over: all is as it was.
    DrillOver {
        /// What was cut: `link eth0`.
        of: String,
    },
    /// A path answered a [`Command::Ping`].
    Pong {
        /// The peer.
        peer: PeerId,
        /// The path.
        path: PathId,
        /// Round-trip time.
        rtt: Duration,
        /// The number the ping was started with.
        id: u32,
    },
}

/// What is known of a path's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathState {
    /// No answer on it yet.
    Opening,
    /// Carries everything.
    Good,
    /// Loses much: carries bulk only.
    Degraded,
    /// Silent for longer than its jitter explains: its traffic is duplicated elsewhere until it is confirmed.
    Suspect,
    /// Carries nothing; probed.
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

/// What can be asked of a running engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Use these weights from the next unit on, by link name; counters restart (NATALIE). Other links keep theirs. `None`: measured again.
    SetWeights(Option<Vec<(String, u32)>>),
    /// Changes a VPN's share, until the next reload.
    SetVpn {
        /// The VPN's name.
        vpn: String,
        /// What of it.
        change: VpnChange,
    },
    /// Ping the peer over every path; answers come as [`Event::Pong`].
    Ping {
        /// The peer's name.
        peer: String,
        /// Any number, handed back.
        id: u32,
    },
    /// Let a link or a node fall silent for a while: see [`Engine::drill_report`](crate::Engine::drill_report).
    Drill {
        /// Which.
        of: DrillTarget,
        /// For how long: [`DRILL_MAX`](crate::DRILL_MAX) at most.
        time: Duration,
        /// Even where no other path would remain.
        force: bool,
    },
    /// Tell every peer that this node goes away.
    Close,
}

/// What of a VPN's share changes; by default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VpnChange {
    /// Its weight, above zero.
    pub weight: Option<u32>,
    /// What it is promised.
    pub service: Option<Service>,
}

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandError {
    /// No peer of that name; these are known.
    UnknownPeer(Vec<String>),
    /// No link of that name; these are known.
    UnknownLink(String, Vec<String>),
    /// No VPN of that name; these are known.
    UnknownVpn(String, Vec<String>),
    /// No prefix holds the destination.
    NoRoute,
    /// All weights are zero.
    NoWeight,
    /// The VPN cannot be so; nothing has changed.
    Vpn(VpnError),
    /// There is no drill.
    Drill(DrillError),
    /// The peer has no session now.
    NotEstablished,
}

/// What a node has passed on between others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayTotals {
    /// Datagrams passed on.
    pub datagrams: u64,
    /// Their bytes, without IP and UDP headers.
    pub bytes: u64,
    /// Datagrams not passed on: this node is no relay, or the next one is no peer of it or cannot be reached.
    pub refused_datagrams: u64,
    /// Datagrams dropped because too many waited for a link with a limit, or for too long.
    pub dropped_datagrams: u64,
}
