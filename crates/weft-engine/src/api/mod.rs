//! Plain data that passes between the engine and its caller.
//!
//! Configuration and commands enter the engine. Events, snapshots, reports and the reasons of a refusal leave it. This
//! folder imports nothing from the rest of the engine.

mod access;
mod address_pairs;
pub(crate) mod config;
mod drill;
mod event;
mod explain;
mod facts;
mod flows;
mod interface;
mod outside;
mod overlay;
mod refusal;
mod relay;
mod routing;
mod signal;
mod snapshot;
mod transit;
mod trust;

pub use access::{AccessConfig, AccessTotals, DeniedPacket};
pub use address_pairs::AddressPairs;
pub use config::{
    AckPolicy, Bundle, Dscp, EngineConfig, Entry, LinkConfig, MemberConfig, PeerConfig, PeerQueue, Policy, Prefix,
    Recovery, Reorder, Schedule, VpnConfig, Weights, WrrOrder,
};
pub use drill::{DRILL_MAX, DrillError, DrillPhase, DrillReport, DrillTarget, PeerDrill, WayDrill};
pub use event::{Command, CommandError, Event, PathState, VpnChange};
pub use explain::{Explanation, FlowPattern, KnownFlow, Match, PathReason};
pub use facts::{SessionFacts, Shown, Stranger, Tried};
pub use flows::{FlowTotals, FlowView, FlowsConfig, PortSettings, PortView, UserView};
pub use interface::{LinkEvent, Received, Transmit, Unreachable};
pub use outside::{Clash, Outside};
pub use overlay::{
    Contact, ContactStatus, LinkMapStatus, MAX_ENDPOINTS, MAX_FOUND_ROUTES, MapMember, OverlayConfig, OverlayMember,
    OverlayStatus, ReportedLink, RouteStatus, Unmet,
};
pub use refusal::{ConfigError, Refusal, VpnError};
pub use relay::{Departing, Forward, RelayTotals, RouteError};
pub use routing::{LearntChange, LearntRefusal};
pub use signal::{Grant, RateController, SignalConfig, SignalFlow, SignalPeer, SignalRule, SignalStatus, SignalTotals};
pub use snapshot::{
    FlowSnapshot, MemberSnapshot, OwnedPrefix, PathSnapshot, PayloadRate, PeerSnapshot, ReachSnapshot, SensedSnapshot,
    Snapshot, VpnSnapshot, VpnTotals,
};
pub use transit::{Alternate, HeardLoadView, TransitConfig, TransitTotals};
pub use trust::{CertifiedPeer, Rejection, RevokeError, TrustConfig};
