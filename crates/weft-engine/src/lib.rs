//! One weft node as a sans-IO state machine.
//!
//! Inputs enter by `handle_*`, outputs leave by `poll_*` and `deliver`, and [`Engine::next_timeout`] returns the next
//! wake-up time. The engine has no clock, no entropy source, no socket and no environment. The caller passes the time
//! with every call and a seed at the start. The program runs it on a kernel, and the simulator runs it in virtual
//! time.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod config;
mod drill;
mod egress;
mod event;
mod explain;
mod facts;
mod handshakes;
mod headers;
mod intake;
mod interface;
mod join;
mod links;
mod node;
mod overlay;
mod path;
mod peer;
mod peers;
mod prefixes;
mod relay;
mod signal;
mod snapshot;
mod stamps;
mod trust;
mod unit;
mod vpn;

pub use config::{
    AckPolicy, Bundle, Dscp, EngineConfig, Entry, LinkConfig, MemberConfig, PeerConfig, Policy, Prefix, QueueKind,
    Recovery, Reorder, Schedule, VpnConfig, Weights, WrrOrder,
};
pub use drill::{DRILL_MAX, DrillError, DrillPhase, DrillReport, DrillTarget, PeerDrill, WayDrill};
pub use event::{Command, CommandError, Event, PathState, RelayTotals, VpnChange};
pub use explain::{Explanation, FlowPattern, KnownFlow, Match, PathReason};
pub use facts::{SessionFacts, Shown, Stranger, Tried};
pub use interface::{LinkEvent, Received, Transmit, Unreachable};
pub use node::Engine;
pub use overlay::{Contact, ContactStatus, MAX_ENDPOINTS, OverlayConfig, OverlayMember, OverlayStatus, Unmet};
pub use peer::AddressPairs;
pub use prefixes::OwnedPrefix;
pub use relay::{Departing, Forward, MAX_RELAYS, RouteError, relays_to};
pub use signal::{
    Grant, HostLink, Leaving, RateController, SignalConfig, SignalFlow, SignalHost, SignalPeer, SignalRule,
    SignalStatus, SignalTotals,
};
pub use snapshot::{
    FlowSnapshot, MemberSnapshot, PathSnapshot, PayloadRate, PeerSnapshot, ReachSnapshot, SensedSnapshot, Snapshot,
    VpnSnapshot,
};
pub use trust::{CertifiedPeer, Clash, Outside, Rejection, RevokeError, TrustConfig};
pub use vpn::{ConfigError, Refusal, VpnError, VpnTotals};
pub use weft_core::ingress::VpnStatus;
pub use weft_core::route::calls;
pub use weft_core::route::overlay::{NodeStanding, Quality as LinkQuality};
pub use weft_core::route::ownership::Conflict;
pub use weft_wire::er_sig::{KEY_LEN as SIGNAL_KEY_LEN, SignalKey};
pub use weft_wire::ip::FlowKey;
pub use weft_wire::ownership::ClaimVerdict;
