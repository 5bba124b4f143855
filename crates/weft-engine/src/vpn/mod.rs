//! The VPNs of this node: their members, prefixes, weights and counters.
//!
//! A destination is routed by longest prefix match within its VPN. VPNs may use the same addresses.

mod check;
mod entries;
mod learnt;
mod leases;
mod next_hops;
mod opening;
mod transit;
mod transit_loads;

pub use check::check_vpns;
pub use entries::Admitted;
pub use learnt::Learnt;
pub use leases::Leases;
pub use next_hops::NextHops;
pub use opening::{GateDecision, News, Openings};
pub use transit::Transit;
pub use transit_loads::TransitLoads;

use crate::api::{PeerConfig, Prefix, VpnConfig, VpnTotals};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::net::IpAddr;
use hashbrown::HashMap;
use weft_core::control_loop::LoopConfig;
use weft_core::flow::hash::SeededState;
use weft_core::ingress::Profile;
use weft_core::route::prefix_map::PrefixMap;
use weft_core::service::Service;
use weft_flows::ClassId;
use weft_flows::load::HeardLoads;
use weft_session::PublicKey;
use weft_units::{Instant, PeerId, Rate, VpnId};
use weft_wire::ip::FlowKey;

/// A flow at its ingress edge. It includes the VPN, because VPNs may use the same addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VpnFlow {
    pub vpn: VpnId,
    pub key: FlowKey,
}

impl Hash for VpnFlow {
    /// Hashes a flow.
    ///
    /// A flow of the default VPN has the hash of its key, which selects its path in the flow-hash schedule.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
        if self.vpn != VpnId::DEFAULT {
            self.vpn.hash(state);
        }
    }
}

/// One VPN.
#[derive(Default)]
pub struct Vpn {
    pub name: String,
    pub weight: u32,
    pub service: Service,
    /// Queue and loop of the VPN, or `None` for the default VPN.
    profile: Option<Arc<Profile>>,
    /// Member peers, sorted.
    pub members: Vec<PeerId>,
    pub totals: VpnTotals,
    /// Prefixes of the configuration and of certificates.
    routes: PrefixMap<PeerId>,
    /// Prefixes learnt from a routing protocol.
    learnt: PrefixMap<Learnt>,
}

impl Vpn {
    /// Returns the rate control algorithm of the VPN's loops with its parameters, or `None` without rate control.
    pub fn control(&self) -> Option<&LoopConfig> {
        self.profile.as_ref()?.control.as_ref()
    }

    fn add(&mut self, peer: PeerId, prefixes: &[Prefix]) {
        self.members.push(peer);
        for prefix in prefixes {
            // If two peers have the same prefix, the first keeps it.
            let _ = self.routes.insert(prefix.address, prefix.length, peer);
        }
    }

    /// Returns the member behind which a destination lies, or `None` if there is none.
    #[inline]
    pub fn route(&self, destination: IpAddr) -> Option<PeerId> {
        self.longest(destination).map(|(_, peer)| peer)
    }

    /// Returns the longest prefix that contains a destination, as its length and the member that has it.
    ///
    /// A prefix learnt from a routing protocol applies only if it is longer than each matching prefix of the
    /// configuration and of certificates.
    #[inline]
    fn longest(&self, destination: IpAddr) -> Option<(u8, PeerId)> {
        let assigned = self.routes.longest(destination);
        if self.learnt.is_empty() {
            return assigned;
        }
        match (assigned, self.learnt.longest(destination)) {
            (assigned, Some((length, learnt))) if assigned.is_none_or(|(other, _)| length > other) => {
                Some((length, learnt.peer))
            }
            (assigned, _) => assigned,
        }
    }

    /// Returns all prefixes with the members that have them, sorted by address.
    ///
    /// For a prefix learnt from a routing protocol, the last value is the protocol's number. Such a prefix follows an
    /// equal one from the configuration or a certificate.
    pub fn prefixes(&self) -> Vec<(Prefix, PeerId, Option<u8>)> {
        let assigned = self.routes.entries().into_iter();
        let mut all: Vec<_> =
            assigned.map(|(address, length, peer)| (Prefix { address, length }, peer, None)).collect();
        if !self.learnt.is_empty() {
            let learnt = self.learnt.entries().into_iter();
            all.extend(learnt.map(|(address, length, of)| (Prefix { address, length }, of.peer, Some(of.protocol))));
            all.sort_by_key(|(prefix, _, protocol)| (prefix.address, prefix.length, *protocol));
        }
        all
    }

    /// Returns all prefixes that contain a destination, with their members. The last one decides the route.
    pub fn matches(&self, destination: IpAddr) -> Vec<(Prefix, PeerId)> {
        let learnt = self.learnt.matches(destination).map(|(length, of)| (length, false, of.peer));
        let assigned = self.routes.matches(destination).map(|(length, peer)| (length, true, peer));
        let mut all: Vec<_> = learnt.chain(assigned).collect();
        all.sort_by_key(|(length, is_assigned, _)| (*length, *is_assigned));
        all.into_iter().map(|(length, _, peer)| (Prefix { address: destination, length }, peer)).collect()
    }
}

/// All VPNs of this node.
pub struct Vpns {
    default: Vpn,
    others: HashMap<VpnId, Box<Vpn>, SeededState>,
    weights: entries::VpnWeights,
    /// True if packets to link-local multicast groups go to all members of their VPN.
    pub floods_multicast: bool,
    /// State of transit. `None` if the node never forwards packets from peers to other peers.
    pub transit: Option<Transit>,
    /// Prefixes of the default VPN with several next hops. `None` if there are none.
    pub next_hops: Option<Box<NextHops>>,
    /// Loads of their ports that peers have reported.
    pub heard: HeardLoads,
}

impl Vpns {
    pub fn new(seed: u64) -> Vpns {
        let default = Vpn { weight: 1, ..Vpn::default() };
        let others = HashMap::with_hasher(SeededState::new(seed));
        Vpns {
            default,
            others,
            weights: entries::VpnWeights::default(),
            floods_multicast: false,
            transit: None,
            next_hops: None,
            heard: HeardLoads::default(),
        }
    }

    #[inline]
    pub fn get(&self, id: VpnId) -> Option<&Vpn> {
        if id == VpnId::DEFAULT { Some(&self.default) } else { self.others.get(&id).map(Box::as_ref) }
    }

    #[inline]
    pub fn get_mut(&mut self, id: VpnId) -> Option<&mut Vpn> {
        if id == VpnId::DEFAULT { Some(&mut self.default) } else { self.others.get_mut(&id).map(Box::as_mut) }
    }

    /// True if a peer is a member of a VPN.
    pub fn has_member(&self, id: VpnId, peer: PeerId) -> bool {
        self.get(id).is_some_and(|vpn| vpn.members.binary_search(&peer).is_ok())
    }

    /// True if a source address lies behind a peer in the VPN `id`, or if the peer is an alternate of its prefix.
    pub fn is_behind(&self, id: VpnId, peer: PeerId, source: IpAddr) -> bool {
        let Some((length, owner)) = self.get(id).and_then(|vpn| vpn.longest(source)) else { return false };
        let hops = self.next_hops.as_deref().filter(|_| id == VpnId::DEFAULT);
        owner == peer || hops.is_some_and(|hops| hops.has_member(peer, source, length))
    }

    /// Returns the next hop of a host's packet in the default VPN, or `None` if its destination has only its owner.
    ///
    /// `asks` returns the class of the packet's flow and the guarantee that it asks for.
    pub fn next_hop(
        &mut self,
        now: Instant,
        key: &FlowKey,
        destination: IpAddr,
        asks: impl FnOnce() -> (ClassId, Rate),
    ) -> Option<PeerId> {
        let (length, _) = self.default.longest(destination)?;
        self.next_hops.as_mut()?.next_hop(now, (destination, length), key, &self.heard, asks)
    }

    /// Records a packet from a peer for a host here, so that its answers take the same next hop.
    ///
    /// A packet for another peer is ignored.
    #[inline]
    pub fn on_arrived(&mut self, now: Instant, (id, peer): (VpnId, PeerId), key: &FlowKey) {
        let is_here = self.next_hops.is_some() && self.onward(id, peer, key.dst).is_none();
        if let Some(hops) = self.next_hops.as_mut().filter(|_| id == VpnId::DEFAULT && is_here)
            && let Some((length, _)) = self.default.longest(key.src)
        {
            hops.on_arrived(now, peer, key, length);
        }
    }

    /// Replaces the alternates. `seed` is the seed of the hash by which flows are spread over next hops.
    pub fn set_alternates(&mut self, alternates: Vec<(Prefix, PeerId)>, seed: u64) {
        if alternates.is_empty() {
            self.next_hops = None;
        } else if self.next_hops.as_ref().is_none_or(|hops| hops.configured() != alternates) {
            self.next_hops = Some(Box::new(NextHops::new(alternates, seed)));
        }
        self.resolve_alternates();
    }

    /// Joins each alternate with the owner of its prefix. Call it after the peers' prefixes have changed.
    pub fn resolve_alternates(&mut self) {
        let Vpns { default, next_hops: Some(hops), .. } = self else { return };
        hops.resolve(|prefix| {
            let mut containing = default.routes.matches(prefix.address);
            containing.find(|(length, _)| *length == prefix.length).map(|(_, peer)| peer)
        });
    }

    /// Records a packet of the default VPN that is forwarded from one peer to another.
    pub fn on_forwarded(&mut self, now: Instant, ends: (PeerId, PeerId), id: VpnId, destination: IpAddr) {
        if let Some(transit) = self.transit.as_mut().filter(|_| id == VpnId::DEFAULT)
            && let Some((length, _)) = self.default.longest(destination)
        {
            transit.loads.on_forwarded(now, ends, destination, length);
        }
    }

    /// Returns the peer to which this node forwards a packet from the peer `from`, or `None` if there is none.
    ///
    /// A peer's prefix applies only if it is longer than each matching prefix behind this node and is no default route.
    /// Only the kernel forwards by a default route, because it may have a better one.
    pub fn onward(&self, id: VpnId, from: PeerId, destination: IpAddr) -> Option<PeerId> {
        let transit = self.transit.as_ref()?;
        self.beyond(id, from, destination, transit.local_length(destination))
    }

    /// Returns the peer behind which a packet's destination lies, or `None` if that is `from` or this node.
    ///
    /// The packet came from the peer `from`. `local` is the length of the longest prefix behind this node that contains
    /// the destination. A default route is ignored.
    pub fn beyond(&self, id: VpnId, from: PeerId, destination: IpAddr, local: Option<u8>) -> Option<PeerId> {
        let (length, next) = self.get(id)?.longest(destination)?;
        let is_local = local.is_some_and(|local| local >= length);
        (next != from && length > 0 && !is_local).then_some(next)
    }

    /// Counts a unit that arrived from a peer and was dropped, because the peer may not send it.
    pub fn count_stray(&mut self, id: VpnId) {
        if let Some(vpn) = self.get_mut(id) {
            vpn.totals.strays += 1;
        }
    }

    /// Counts a packet of a VPN that was dropped before transmission.
    pub fn count_drop(&mut self, id: VpnId) {
        if let Some(vpn) = self.get_mut(id) {
            vpn.totals.dropped_packets += 1;
        }
    }

    /// Builds the default VPN from the peers' own prefixes.
    pub fn set_default<'a>(&mut self, peers: impl Iterator<Item = (PeerId, &'a PeerConfig)>) {
        self.default.members.clear();
        self.default.routes.clear();
        for (id, peer) in peers.filter(|(_, peer)| !peer.prefixes.is_empty()) {
            self.default.add(id, &peer.prefixes);
        }
    }

    /// Applies a checked configuration. Counters of existing VPNs continue. Members that are not peers are omitted.
    pub fn set_others(&mut self, configs: Vec<VpnConfig>, peer: impl Fn(&PublicKey) -> Option<PeerId>) {
        let empty = HashMap::with_hasher(*self.others.hasher());
        let mut before = core::mem::replace(&mut self.others, empty);
        self.others.reserve(configs.len());
        self.weights = entries::VpnWeights::of(&configs);
        let mut known = entries::Profiles::default();
        for config in configs {
            let (totals, learnt) = before.remove(&config.id).map(|vpn| (vpn.totals, vpn.learnt)).unwrap_or_default();
            let profile = Some(known.of(&config, &self.weights));
            let mut vpn = Vpn {
                name: config.name,
                weight: config.weight,
                service: config.service,
                profile,
                totals,
                learnt,
                ..Vpn::default()
            };
            for member in &config.members {
                if let Some(peer) = peer(&member.public_key) {
                    vpn.add(peer, &member.prefixes);
                }
            }
            vpn.members.sort_unstable();
            vpn.members.shrink_to_fit();
            vpn.routes.shrink_to_fit();
            vpn.forget_strangers();
            self.others.insert(config.id, Box::new(vpn));
        }
    }

    /// Returns all VPNs except the default one, in the order of their ids.
    pub fn others(&self) -> Vec<(VpnId, &Vpn)> {
        let mut all: Vec<_> = self.others.iter().map(|(id, vpn)| (*id, vpn.as_ref())).collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }

    /// Returns the id of the VPN with this name, except for the default VPN.
    pub fn by_name(&self, name: &str) -> Option<VpnId> {
        self.others.iter().find(|(_, vpn)| vpn.name == name).map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Policy;
    use alloc::vec;
    use weft_session::Identity;
    use weft_units::Rng;

    /// An alternate is found by its exact prefix, whatever longer and shorter prefixes begin at the same address.
    #[test]
    fn an_alternate_counts_for_exactly_its_prefix() {
        let mut rng = Rng::new(12);
        for _ in 0..200 {
            let (address, alternate) = (IpAddr::from([10, 16 * rng.below(16) as u8, 0, 0]), PeerId(99));
            let mut lengths: Vec<u8> = (12..=32).filter(|_| rng.chance(0.3)).collect();
            lengths.push(12);
            lengths.sort_unstable();
            lengths.dedup();
            let config = |(nth, length): (usize, &u8)| PeerConfig {
                preshared_key: None,
                name: alloc::format!("peer{nth}"),
                public_key: Identity::from_secret([nth as u8 + 1; 32]).public_key(),
                endpoints: Vec::new(),
                routes: Vec::new(),
                prefixes: vec![Prefix { address, length: *length }],
                policy: Policy::default(),
            };
            let configs: Vec<PeerConfig> = lengths.iter().enumerate().map(config).collect();
            let mut vpns = Vpns::new(1);
            vpns.set_default(configs.iter().enumerate().map(|(nth, config)| (PeerId(nth as u16), config)));
            let chosen = rng.below(lengths.len() as u64) as usize;
            vpns.set_alternates(vec![(Prefix { address, length: lengths[chosen] }, alternate)], 1);
            for _ in 0..50 {
                let IpAddr::V4(base) = address else { return };
                let source =
                    IpAddr::from((u32::from(base) | (rng.next_u64() as u32 >> (12 + rng.below(20)))).to_be_bytes());
                let owner = vpns.default.route(source).expect("the shortest prefix contains all");
                let is_chosen = usize::from(owner.0) == chosen;
                assert_eq!(
                    vpns.is_behind(VpnId::DEFAULT, alternate, source),
                    is_chosen,
                    "{source} {lengths:?} {chosen}"
                );
            }
        }
    }
}
