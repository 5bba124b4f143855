//! Admission of leased lines toward each member (paper 004 §7.4).
//!
//! Over-subscribed leased lines would make the rate control of VPNs unstable.

use crate::api::{PeerConfig, Refusal};
use alloc::string::String;
use weft_core::service::{LeaseAdmission, LeaseId, MemberId, SegmentId, Service};
use weft_session::PublicKey;
use weft_units::{Rate, VpnId};

/// The leased lines admitted so far.
pub struct Leases<'a> {
    peers: &'a [PeerConfig],
    admission: LeaseAdmission,
}

impl<'a> Leases<'a> {
    pub fn new(peers: &'a [PeerConfig]) -> Leases<'a> {
        let mut admission = LeaseAdmission::new(1.0);
        for (number, peer) in (0..).zip(peers) {
            // No line is leased yet, so this revokes none.
            admission.set_capacity(SegmentId(number), peer.policy.leasable.unwrap_or(Rate::ZERO));
        }
        Leases { peers, admission }
    }

    /// Admits the leased line of a VPN toward each of its members. Does nothing for a VPN with another service.
    pub fn admit<'k>(
        &mut self,
        vpn: VpnId,
        service: Service,
        members: impl Iterator<Item = &'k PublicKey>,
    ) -> Result<(), Refusal> {
        let Service::LeasedLine { rate } = service else { return Ok(()) };
        let number = |key: &PublicKey| self.peers.iter().position(|peer| peer.public_key == *key);
        let segments: alloc::vec::Vec<SegmentId> = members.filter_map(number).map(|n| SegmentId(n as u32)).collect();
        if segments.is_empty() {
            return Ok(());
        }
        // Admission expects the two ends of a leased line. This one leads to all members at once, so both ends are
        // given as number 0.
        self.admission
            .admit(LeaseId(vpn.0), rate, [MemberId(0); 2], &segments)
            .map_err(|_| self.refusal(rate, &segments))
    }

    /// Returns the refusal for the member toward which the least rate is left.
    fn refusal(&self, asked: Rate, segments: &[SegmentId]) -> Refusal {
        let tightest = segments.iter().copied().min_by_key(|segment| self.admission.free(*segment));
        let segment = tightest.unwrap_or(SegmentId(0));
        let peer = self.peers.get(segment.0 as usize);
        Refusal {
            peer: peer.map_or_else(String::new, |peer| peer.name.clone()),
            asked,
            free: self.admission.free(segment),
            leasable: peer.and_then(|peer| peer.policy.leasable).unwrap_or(Rate::ZERO),
        }
    }
}
