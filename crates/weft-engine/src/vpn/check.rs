//! Checks the configuration of VPNs.

use super::{Leases, Refusal};
use crate::config::{PeerConfig, Prefix, VpnConfig};
use crate::relay::RouteError;
use alloc::collections::BTreeSet;
use alloc::string::String;
use core::fmt;
use weft_core::route::prefix_map::PrefixMap;
use weft_core::service::{Share, ShareError};
use weft_session::PeerError;
use weft_units::VpnId;

/// The reason for which a configuration was refused. Nothing has changed in that case.
#[derive(Clone, PartialEq, Debug)]
pub enum ConfigError {
    /// A peer is invalid.
    Peer(PeerError),
    /// A VPN is invalid. Holds its name.
    Vpn(String, VpnError),
    /// A route to a peer is invalid. Holds the peer's name.
    Route(String, RouteError),
}

/// The reason for which a VPN was refused.
#[derive(Clone, PartialEq, Debug)]
pub enum VpnError {
    /// The id is 0, which is reserved for the default VPN.
    ReservedId,
    /// Two VPNs have this id.
    DuplicateId(VpnId),
    /// Two VPNs have this name.
    DuplicateName,
    /// The weight is zero.
    NoWeight,
    /// The promised service is invalid.
    Share(ShareError),
    /// The leased line does not fit.
    Lease(Refusal),
    /// A member is not among the peers.
    UnknownMember,
    /// A peer is listed as a member twice. Holds its name.
    DuplicateMember(String),
    /// A prefix of one member overlaps with a prefix of another. `None` stands for this node.
    Overlap {
        /// The prefix.
        prefix: Prefix,
        /// The member that claims the prefix.
        of: Option<String>,
        /// The member that already has an overlapping prefix.
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

/// Checks `vpns`. Their members must be among `peers`.
pub(crate) fn check_vpns(peers: &[PeerConfig], vpns: &[VpnConfig]) -> Result<(), ConfigError> {
    let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
    let mut leases = Leases::new(peers);
    for vpn in vpns {
        let refuse = |why| Err(ConfigError::Vpn(vpn.name.clone(), why));
        if vpn.id == VpnId::DEFAULT {
            return refuse(VpnError::ReservedId);
        }
        if !ids.insert(vpn.id) {
            return refuse(VpnError::DuplicateId(vpn.id));
        }
        if !names.insert(vpn.name.as_str()) {
            return refuse(VpnError::DuplicateName);
        }
        if vpn.weight == 0 {
            return refuse(VpnError::NoWeight);
        }
        if let Err(why) = Share::new(vpn.weight.into(), vpn.service) {
            return refuse(VpnError::Share(why));
        }
        check_members(peers, vpn).or_else(refuse)?;
        let members = vpn.members.iter().map(|member| &member.public_key);
        leases.admit(vpn.id, vpn.service, members).map_err(VpnError::Lease).or_else(refuse)?;
    }
    Ok(())
}

fn check_members(peers: &[PeerConfig], vpn: &VpnConfig) -> Result<(), VpnError> {
    let mut owners = PrefixMap::default();
    claim(&mut owners, None, &vpn.prefixes)?;
    for (at, member) in vpn.members.iter().enumerate() {
        let peer = peers.iter().find(|peer| peer.public_key == member.public_key).ok_or(VpnError::UnknownMember)?;
        if vpn.members[..at].iter().any(|other| other.public_key == member.public_key) {
            return Err(VpnError::DuplicateMember(peer.name.clone()));
        }
        claim(&mut owners, Some(&peer.name), &member.prefixes)?;
    }
    Ok(())
}

/// Claims the prefixes of a member. Prefixes of one VPN must not overlap, except for default routes.
fn claim<'a>(
    owners: &mut PrefixMap<Option<&'a str>>,
    who: Option<&'a str>,
    prefixes: &[Prefix],
) -> Result<(), VpnError> {
    for &prefix in prefixes {
        if let Some(with) = owners.overlap(prefix.address, prefix.length) {
            return Err(VpnError::Overlap { prefix, of: who.map(Into::into), with: with.map(Into::into) });
        }
        let _ = owners.insert(prefix.address, prefix.length, who);
    }
    Ok(())
}
