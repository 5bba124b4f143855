//! Prefixes that a routing protocol assigns to members: learnt, withdrawn, and removed with their members.
//!
//! A route's next hop names the member. Only a prefix from the configuration or a certificate decides behind which
//! member a next hop lies. A learnt prefix must never decide that: the route would depend on itself.

use crate::api::{LearntRefusal, Prefix};
use crate::vpn::{Vpn, Vpns};
use core::net::IpAddr;
use weft_units::{PeerId, VpnId};

/// The owner of a learnt prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Learnt {
    pub peer: PeerId,
    /// Number of the routing protocol, as the kernel's routing table stores it.
    pub protocol: u8,
}

impl Vpn {
    /// Returns the member that has an address according to the configuration or a certificate.
    ///
    /// Learnt prefixes and default routes are ignored.
    pub fn assigned(&self, address: IpAddr) -> Option<PeerId> {
        self.routes.longest(address).filter(|(length, _)| *length > 0).map(|(_, peer)| peer)
    }

    /// Assigns a learnt prefix to the member behind which `next_hop` lies.
    ///
    /// # Errors
    /// Fails if the next hop lies behind no member. The prefix is then withdrawn.
    pub fn learn(&mut self, prefix: Prefix, next_hop: IpAddr, protocol: u8) -> Result<(), LearntRefusal> {
        let Some(peer) = self.assigned(next_hop) else {
            self.unlearn(prefix);
            let depends = self.learnt.longest(next_hop).is_some_and(|(length, _)| length > 0);
            return Err(if depends { LearntRefusal::Loop } else { LearntRefusal::NoPeer });
        };
        self.learnt.set(prefix.address, prefix.length, Learnt { peer, protocol });
        Ok(())
    }

    /// Withdraws a learnt prefix from the member to which it was assigned.
    pub fn unlearn(&mut self, prefix: Prefix) {
        self.learnt.remove(prefix.address, prefix.length);
    }

    /// Returns the number of learnt prefixes.
    pub fn learnt_count(&self) -> usize {
        self.learnt.len()
    }

    /// Withdraws the learnt prefixes of nodes that are no longer members.
    pub(super) fn forget_strangers(&mut self) {
        for (address, length, of) in self.learnt.entries() {
            if self.members.binary_search(&of.peer).is_err() {
                self.learnt.remove(address, length);
            }
        }
    }
}

impl Vpns {
    /// Withdraws all learnt prefixes that lie behind a peer.
    pub fn forget_learnt(&mut self, peer: PeerId) {
        let others = self.others.values_mut().map(AsMut::as_mut);
        for vpn in core::iter::once(&mut self.default).chain(others).filter(|vpn| !vpn.learnt.is_empty()) {
            for (address, length, of) in vpn.learnt.entries() {
                if of.peer == peer {
                    vpn.learnt.remove(address, length);
                }
            }
        }
    }

    /// Returns the members of a VPN to which a packet for a link-local multicast group is sent.
    ///
    /// The list is empty for other packets.
    pub fn multicast_members(&self, id: VpnId, destination: IpAddr) -> &[PeerId] {
        let members = self.get(id).filter(|_| self.floods_multicast && is_link_local_group(destination));
        members.map_or(&[], |vpn| &vpn.members)
    }
}

/// True for groups whose packets no router forwards.
///
/// Standard: 224.0.0.0/24 (RFC 5771 §4) and ff02::/16 (RFC 4291 §2.7).
fn is_link_local_group(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(address) => address.octets().starts_with(&[0xff, 0x02]),
    }
}
