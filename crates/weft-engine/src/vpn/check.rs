//! What a configuration may not say of VPNs.

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

/// Why a configuration was refused. Nothing has changed then.
#[derive(Clone, PartialEq, Debug)]
pub enum ConfigError {
    /// For a peer.
    Peer(PeerError),
    /// For a VPN, by its name.
    Vpn(String, VpnError),
    /// For a route to a peer, by the peer's name.
    Route(String, RouteError),
}

/// Why a VPN was refused.
#[derive(Clone, PartialEq, Debug)]
pub enum VpnError {
    /// Number 0 is the default VPN's.
    ReservedId,
    /// Two have this number.
    DuplicateId(VpnId),
    /// Two have this name.
    DuplicateName,
    /// It would get no share.
    NoWeight,
    /// What it is promised makes no sense.
    Share(ShareError),
    /// Its leased line does not fit.
    Lease(Refusal),
    /// A member is not among the peers.
    UnknownMember,
    /// A peer is a member twice: its name.
    DuplicateMember(String),
    /// A prefix of this member (`None`: of the node itself) overlaps with one of that member.
    Overlap {
        /// The prefix.
        prefix: Prefix,
        /// Who claims it.
        of: Option<String>,
        /// Whose it is.
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
            VpnError::DuplicateId(id) => write!(f, "id {id} is another's already"),
            VpnError::DuplicateName => f.write_str("another has this name already"),
            VpnError::NoWeight => f.write_str("with weight 0 it would get nothing"),
            VpnError::Share(why) => why.fmt(f),
            VpnError::Lease(why) => why.fmt(f),
            VpnError::UnknownMember => f.write_str("a member is not among the peers"),
            VpnError::DuplicateMember(name) => write!(f, "`{name}` is a member twice"),
            VpnError::Overlap { prefix, of, with } => {
                let [of, with] = [of, with].map(|who| who.as_deref().unwrap_or("this node"));
                write!(f, "{}/{} of {of} overlaps with a prefix of {with}", prefix.address, prefix.length)
            }
        }
    }
}

impl core::error::Error for ConfigError {}

/// Looks for mistakes in `vpns`, whose members shall be among `peers`.
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

/// Prefixes of one VPN do not overlap, but for default routes, which lie around all others.
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
