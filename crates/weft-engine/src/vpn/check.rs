//! Checks the configuration of VPNs.

use crate::api::{ConfigError, PeerConfig, Prefix, VpnConfig, VpnError};
use crate::vpn::Leases;
use alloc::collections::BTreeSet;
use weft_core::route::prefix_map::PrefixMap;
use weft_core::service::Share;
use weft_units::VpnId;

/// Checks ids, names, shares, members, prefixes and leases of `vpns`. Their members must be among `peers`.
pub fn check_vpns(peers: &[PeerConfig], vpns: &[VpnConfig]) -> Result<(), ConfigError> {
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

/// Adds the prefixes of the member `who` to `owners`. Fails if one overlaps a prefix that `owners` has already.
///
/// A default route overlaps only another default route. `owners` has the prefixes of one VPN.
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
