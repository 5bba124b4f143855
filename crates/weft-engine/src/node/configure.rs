//! Configuration of peers, VPNs and rules of access: applied at the start and changed by reloads.
//!
//! A reload is checked as a whole before anything changes. Peers are matched by key and VPNs by id, so that unchanged
//! ones keep their sessions, paths and queues.

use super::*;
use crate::api::AccessConfig;
use weft_flows::allow::NodeGroups;
use weft_units::planted::{self, Fault};

impl Engine {
    /// Applies a changed configuration.
    ///
    /// Peers are matched by key and VPNs by id. This node's own key and preferred cipher stay.
    pub fn reconfigure(
        &mut self,
        now: Instant,
        peers: Vec<PeerConfig>,
        vpns: Vec<VpnConfig>,
        links: Vec<LinkConfig>,
        inner_mtu: Option<u16>,
    ) -> Result<(), ConfigError> {
        self.check_peers(&peers)?;
        check_vpns(&peers, &vpns)?;
        check_routes(&self.sessions.public_key(), &peers)?;
        self.give_way_to_configured(now, &peers);
        self.links.configure(links);
        self.limit_inner_mtu(inner_mtu);
        for index in 0..self.peers.len() {
            let (key, id) = (self.peers[index].config.public_key, self.peers[index].id);
            if !self.is_present(&self.peers[index]) || self.is_dynamic(id) {
                continue;
            }
            let is_same = |p: &&PeerConfig| p.public_key == key && !planted::is(Fault::ReloadEndsSessions);
            match peers.iter().find(is_same) {
                Some(config) => {
                    self.sessions.set_preshared_key(id, config.preshared_key.clone());
                    let (config, rng) = (config.clone(), self.rng.clone());
                    self.with_peer(now, index, |p, cx| p.set_config(cx, config, &rng));
                }
                None => self.remove_peer(now, index, "no longer configured"),
            }
        }
        for config in peers {
            if self.sessions.peer_by_key(&config.public_key).is_none() {
                self.add_peer(now, config)?;
            }
        }
        self.set_routes(now);
        self.set_vpns(now, vpns);
        self.open_all_paths(now);
        self.start_handshakes(now);
        Ok(())
    }

    /// Replaces the settings of all links. Sessions and flows continue.
    pub fn set_links(&mut self, now: Instant, links: Vec<LinkConfig>) {
        self.links.configure(links);
        self.open_all_paths(now);
    }

    /// Opens the missing paths of all peers on all links, and closes paths that are no longer wanted.
    fn open_all_paths(&mut self, now: Instant) {
        let links: Vec<_> = self.links.iter().chain(self.relaying.routes.up()).cloned().collect();
        for link in links {
            self.open_paths(now, &link);
        }
    }

    fn check_peers(&self, peers: &[PeerConfig]) -> Result<(), PeerError> {
        if peers.len() > usize::from(u16::MAX) {
            return Err(PeerError::TooMany);
        }
        for (index, peer) in peers.iter().enumerate() {
            if peer.public_key == self.sessions.public_key() {
                return Err(PeerError::Myself);
            }
            if peers[..index].iter().any(|p| p.public_key == peer.public_key) {
                return Err(PeerError::Duplicate);
            }
        }
        Ok(())
    }

    fn add_peer(&mut self, now: Instant, config: PeerConfig) -> Result<(), PeerError> {
        let key = config.public_key;
        let id = self.sessions.add_peer(session_peer(&config))?;
        self.place_peer(now, id, config);
        if self.trust.revocations.has(&key) {
            self.sessions.bar_peer(id);
        }
        Ok(())
    }

    /// Creates the engine's state of a peer that the session layer has accepted.
    pub(super) fn place_peer(&mut self, now: Instant, id: PeerId, config: PeerConfig) {
        let first_path = u16::from(self.sessions.public_key() > config.public_key);
        self.hosts.flows.set_name(id, &config.name);
        let peer = Peer::new(now, id, config, &self.rng, first_path, self.peers.len() + 1);
        match self.peers.get_mut(usize::from(id.0)) {
            Some(slot) => *slot = peer,
            None => self.peers.push(peer),
        }
        if let Some(port) = self.hosts.port {
            self.with_peer(now, id.0.into(), |p, cx| p.set_port(cx, Some(port)));
        }
        self.refresh_access(id);
    }

    /// Removes a peer. Its slot in the list of peers stays, so that the other peers keep their numbers.
    pub(super) fn remove_peer(&mut self, now: Instant, index: usize, cause: &'static str) {
        let id = self.peers[index].id;
        self.with_peer(now, index, |p, cx| p.retire(cx, cause));
        self.overlay.forget_peer(id);
        self.vpns.forget_learnt(id);
        if let Some(transit) = &mut self.vpns.transit {
            transit.loads.forget(id);
        }
        self.hosts.flows.forget_member(id);
        self.diagnosis.facts.forget(id);
        self.sessions.remove_peer(id);
        self.refresh_access(id);
    }

    /// Returns the number of the present peer with this name.
    ///
    /// # Errors
    /// Fails with [`CommandError::UnknownPeer`], which contains the names of all present peers.
    pub(super) fn present_peer(&self, name: &str) -> Result<PeerId, CommandError> {
        let present = || self.peers.iter().filter(|peer| self.is_present(peer));
        let found = present().find(|peer| peer.config.name == name).map(|peer| peer.id);
        found.ok_or_else(|| CommandError::UnknownPeer(present().map(|peer| peer.config.name.clone()).collect()))
    }

    /// True if `peer` is present. False if the peer was removed and only its slot remains.
    pub(super) fn is_present(&self, peer: &Peer) -> bool {
        self.sessions.peer_by_key(&peer.config.public_key) == Some(peer.id)
    }

    /// Applies VPNs that were checked, and makes the default VPN from the peers' own prefixes.
    pub(super) fn set_vpns(&mut self, now: Instant, vpns: Vec<VpnConfig>) {
        self.vpns.set_default(self.peers.iter().map(|peer| (peer.id, &peer.config)));
        self.vpns.resolve_alternates();
        self.vpns.set_others(vpns, |key| self.sessions.peer_by_key(key));
        for index in 0..self.peers.len() {
            self.give_entries(now, PeerId(index as u16));
        }
    }

    fn give_entries(&mut self, now: Instant, peer: PeerId) {
        let (share, entries) = self.vpns.entries(peer);
        let controller = self.vpns.controller(now);
        self.with_peer(now, peer.0.into(), |peer, cx| peer.set_vpns(cx, share, &entries, controller));
        self.promise_rates(now, peer, None);
    }

    /// Lets admission decide about the rates that the VPNs are promised toward a peer.
    ///
    /// The caller must first set the queue of the VPN `given` to the service in its configuration, or the queues of
    /// all VPNs if `given` is `None`.
    fn promise_rates(&mut self, now: Instant, peer: PeerId, given: Option<VpnId>) {
        if self.peers.get(usize::from(peer.0)).is_some_and(|of| self.is_present(of)) {
            self.hosts.flows.promise(now, peer, &self.vpns.services(peer), given);
            self.with_peer(now, peer.0.into(), |peer, cx| peer.follow_promises(cx));
        }
    }

    /// Updates relayed routes and VPNs after a peer was added or removed, or after its prefixes changed.
    pub(super) fn on_peer_changed(&mut self, now: Instant, peer: PeerId) {
        self.vpns.set_default(self.peers.iter().map(|peer| (peer.id, &peer.config)));
        self.vpns.resolve_alternates();
        self.give_entries(now, peer);
        self.set_routes(now);
        self.refresh_access(peer);
    }

    /// Sets the rules of access to the hosts here; `None` removes them.
    ///
    /// Without rules every packet of a peer may enter. Call it after the peers and the trust were set.
    pub fn set_access(&mut self, config: Option<AccessConfig>) {
        self.hosts.access.set(config, self.rng.next_u64());
        for index in 0..self.peers.len() {
            self.refresh_access(PeerId(index as u16));
        }
    }

    /// Passes the name and the groups of a peer to the rules of access, or that it is no longer present.
    pub(super) fn refresh_access(&mut self, id: PeerId) {
        if self.hosts.access.0.is_none() {
            return;
        }
        let present = self.peers.get(usize::from(id.0)).filter(|peer| self.is_present(peer));
        let member = present.map(|peer| {
            let groups = match self.trust.certificate_of(id) {
                Some(certificate) => certificate.claims().groups.clone(),
                None => self.configured_groups(&peer.config.public_key),
            };
            NodeGroups { name: peer.config.name.clone(), groups }
        });
        if let Some(gate) = &mut self.hosts.access.0 {
            gate.filter.set_peer(id, member.as_ref());
        }
    }

    fn configured_groups(&self, key: &PublicKey) -> Vec<String> {
        let groups = self.hosts.access.0.iter().flat_map(|gate| &gate.groups);
        groups.filter(|(of, _)| of == key).flat_map(|(_, groups)| groups.iter().cloned()).collect()
    }

    pub(super) fn set_weights(&mut self, weights: Option<Vec<(String, u32)>>) -> Result<(), CommandError> {
        if let Some(list) = &weights {
            let known: Vec<String> = self.links.iter().map(|l| l.name.clone()).collect();
            if let Some((name, _)) = list.iter().find(|(name, _)| !known.contains(name)) {
                return Err(CommandError::UnknownLink(name.clone(), known));
            }
            if list.iter().all(|(_, w)| *w == 0) && self.peers.iter().any(|peer| peer.would_be_weightless(list)) {
                return Err(CommandError::NoWeight);
            }
        }
        for peer in self.peers.iter_mut() {
            let weights = weights.as_ref();
            peer.set_weights(weights.map_or(Weights::Measured, |list| Weights::Static(peer.weights_with(list))));
        }
        Ok(())
    }

    pub(super) fn set_vpn(&mut self, now: Instant, name: &str, change: VpnChange) -> Result<(), CommandError> {
        let Some(id) = self.vpns.by_name(name) else {
            let known = self.vpns.others().into_iter().map(|(_, vpn)| vpn.name.clone()).collect();
            return Err(CommandError::UnknownVpn(name.into(), known));
        };
        let Some(vpn) = self.vpns.get(id) else { return Ok(()) };
        let weight = change.weight.unwrap_or(vpn.weight);
        let service = change.service.unwrap_or(vpn.service);
        self.check_share(id, weight, service).map_err(CommandError::Vpn)?;
        let Some(vpn) = self.vpns.get_mut(id) else { return Ok(()) };
        (vpn.weight, vpn.service) = (weight, service);
        let members = vpn.members.clone();
        let (share, nominal) = (self.vpns.get(id).map(|vpn| self.vpns.share(vpn)), self.vpns.nominal_weight());
        for member in members {
            if let (Some(peer), Some(share)) = (self.peers.get_mut(usize::from(member.0)), share) {
                peer.set_share(now, id, share, nominal);
                self.promise_rates(now, member, Some(id));
            }
        }
        Ok(())
    }

    /// Checks that the VPN `id` may have this weight and service beside the shares of the other VPNs.
    fn check_share(&self, id: VpnId, weight: u32, service: Service) -> Result<(), VpnError> {
        if weight == 0 {
            return Err(VpnError::NoWeight);
        }
        Share::new(weight.into(), service).map_err(VpnError::Share)?;
        let configs: Vec<PeerConfig> = self.peers.iter().map(|peer| peer.config.clone()).collect();
        let mut leases = Leases::new(&configs);
        for (other, vpn) in self.vpns.others().into_iter().filter(|(other, _)| *other != id) {
            leases.admit(other, vpn.service, keys_of(vpn, &configs)).map_err(VpnError::Lease)?;
        }
        match self.vpns.get(id) {
            Some(vpn) => leases.admit(id, service, keys_of(vpn, &configs)).map_err(VpnError::Lease),
            None => Ok(()),
        }
    }
}

/// Returns the public keys of the peers that are members of a VPN.
fn keys_of<'a>(vpn: &'a Vpn, peers: &'a [PeerConfig]) -> impl Iterator<Item = &'a PublicKey> {
    vpn.members.iter().filter_map(|id| peers.get(usize::from(id.0))).map(|peer| &peer.public_key)
}
