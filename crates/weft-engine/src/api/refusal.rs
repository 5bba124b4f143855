//! The reasons why a configuration or a change of a VPN is refused.

use super::config::Prefix;
use super::relay::RouteError;
use alloc::string::String;
use core::fmt;
use weft_core::service::ShareError;
use weft_session::PeerError;
use weft_units::{Rate, VpnId};

/// The reason why a configuration was refused. Nothing has changed in that case.
#[derive(Clone, PartialEq, Debug)]
pub enum ConfigError {
    /// A peer in the configuration is invalid.
    Peer(PeerError),
    /// A VPN in the configuration is invalid. Holds its name.
    Vpn(String, VpnError),
    /// A relayed route to a peer is invalid. Holds the peer's name.
    Route(String, RouteError),
}

/// The reason why the configuration of a VPN was refused.
#[derive(Clone, PartialEq, Debug)]
pub enum VpnError {
    /// The VPN's id is 0, which is reserved for the default VPN.
    ReservedId,
    /// Two VPNs have this id.
    DuplicateId(VpnId),
    /// Another VPN has the same name.
    DuplicateName,
    /// The VPN's weight is zero.
    NoWeight,
    /// The service promised to the VPN is invalid.
    Share(ShareError),
    /// The rate left for leased lines toward a member is too small for the VPN's line.
    Lease(Refusal),
    /// A member of the VPN is not a peer of this node.
    UnknownMember,
    /// A peer is listed as a member of the VPN twice. Holds its name.
    DuplicateMember(String),
    /// A prefix of one member of the VPN overlaps with a prefix of another. `None` stands for this node.
    Overlap {
        /// The prefix that overlaps with one of another member.
        prefix: Prefix,
        /// Name of the member that claims the prefix; `None` for this node.
        of: Option<String>,
        /// Name of the member that already has an overlapping prefix; `None` for this node.
        with: Option<String>,
    },
}

impl From<PeerError> for ConfigError {
    fn from(why: PeerError) -> ConfigError {
        ConfigError::Peer(why)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Peer(why) => why.fmt(f),
            ConfigError::Vpn(name, why) => write!(f, "VPN `{name}`: {why}"),
            ConfigError::Route(name, why) => write!(f, "route to `{name}`: {why}"),
        }
    }
}

impl fmt::Display for VpnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VpnError::ReservedId => f.write_str("id 0 is the default VPN's"),
            VpnError::DuplicateId(id) => write!(f, "another VPN has id {id}"),
            VpnError::DuplicateName => f.write_str("another VPN has this name"),
            VpnError::NoWeight => f.write_str("weight 0 would give it no rate: set a weight above 0"),
            VpnError::Share(why) => why.fmt(f),
            VpnError::Lease(why) => why.fmt(f),
            VpnError::UnknownMember => f.write_str("a member is not a peer of this node"),
            VpnError::DuplicateMember(name) => write!(f, "`{name}` is listed twice as a member"),
            VpnError::Overlap { prefix, of, with } => {
                let [of, with] = [of, with].map(|who| who.as_deref().unwrap_or("this node"));
                write!(f, "{}/{} of {of} overlaps with a prefix of {with}", prefix.address, prefix.length)
            }
        }
    }
}

impl core::error::Error for ConfigError {}

/// The refusal of a leased line, because the rate left for leased lines toward a peer is too small.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Name of the peer toward which the line was to be leased.
    pub peer: String,
    /// The rate requested for the leased line.
    pub asked: Rate,
    /// The leasable rate toward the peer that other lines leave.
    pub free: Rate,
    /// Total leasable rate toward the peer. Zero if none is configured.
    pub leasable: Rate,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal { peer, asked, free, leasable } = self;
        match *leasable {
            Rate::ZERO => write!(f, "{asked} toward {peer} requested, but nothing may be leased there"),
            _ => {
                write!(f, "{asked} toward {peer} requested, but only {free} of the leasable {leasable} are free")
            }
        }
    }
}
