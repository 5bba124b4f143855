//! Leased lines must fit what there is to lease toward each member (paper 004 §7.4): over-subscribed, their law is unstable.

use crate::config::PeerConfig;
use alloc::string::String;
use core::fmt;
use weft_core::service::{Admission, LeaseId, MemberId, SegmentId, Service};
use weft_session::PublicKey;
use weft_units::{Rate, VpnId};

/// Why a leased line was refused: toward this peer there is not enough left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The peer.
    pub peer: String,
    /// What was asked for.
    pub asked: Rate,
    /// What is left of what may be leased.
    pub free: Rate,
    /// What may be leased toward it in all; zero where nothing is said.
    pub leasable: Rate,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal { peer, asked, free, leasable } = self;
        match *leasable {
            Rate::ZERO => write!(f, "{asked} toward {peer} are asked for, where nothing may be leased"),
            _ => {
                write!(f, "{asked} toward {peer} are asked for, where {free} are left of {leasable} that may be leased")
            }
        }
    }
}

/// The lines leased so far.
pub(crate) struct Leases<'a> {
    peers: &'a [PeerConfig],
    admission: Admission,
}

impl<'a> Leases<'a> {
    pub(crate) fn new(peers: &'a [PeerConfig]) -> Leases<'a> {
        let mut admission = Admission::new(1.0);
        for (number, peer) in (0..).zip(peers) {
            // Nothing is leased yet, so nothing is revoked.
            admission.set_capacity(SegmentId(number), peer.policy.leasable.unwrap_or(Rate::ZERO));
        }
        Leases { peers, admission }
    }

    /// Leases what a VPN asks for, toward each of its members.
    pub(crate) fn admit<'k>(
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
        // One line to all members at once: who they are is of no account here.
        self.admission
            .admit(LeaseId(vpn.0), rate, [MemberId(0); 2], &segments)
            .map_err(|_| self.refusal(rate, &segments))
    }

    /// Where least is left.
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
