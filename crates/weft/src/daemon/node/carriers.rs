//! The node's side of TCP connections: the state of the paths, and decisions for the engine and the TCP thread.

use super::*;
use crate::config::{TcpFallback, tcp_link_name};
use crate::daemon::carriers::fallback::{FallbackDecision, PairState};
use crate::daemon::carriers::{self, Carriers, over_tcp};
use crate::daemon::machine::kill_switch::TUNNEL_MARK;
use std::net::SocketAddr;
use weft_carrier::carrier::{BundleView, CarrierEvent, CarrierOrder};
use weft_carrier::member::CallTarget;
use weft_engine::{LinkEvent, PathSnapshot, PathState};
use weft_units::LinkId;

/// Cause that the log states for a link that has lost its TCP connections.
const NO_CONNECTION: &str = "no TCP connection";

impl DaemonNode {
    /// Reports the link that stands for accepted TCP connections to the engine, if this node accepts any.
    pub(super) fn open_door(&mut self) {
        if self.carriers.accepts() {
            let link = Carriers::accepted_link();
            let (name, mtu) = ("tcp".to_owned(), carriers::MTU);
            // The node opens no connection over this link, so the link has no addresses.
            self.engine.handle_link(self.clock.now(), LinkEvent::Up { link, name, mtu, ipv4: false, ipv6: false });
        }
    }

    /// Returns the name of a link, also of one over TCP.
    pub(super) fn link_name(&self, link: LinkId) -> String {
        if link == Carriers::accepted_link() {
            return "tcp".to_owned();
        }
        let over_tcp = self.links.active().iter().find(|active| over_tcp(active.id) == link);
        match (over_tcp, self.engine.route_name(link)) {
            (Some(active), _) => tcp_link_name(&active.name),
            (None, Some(route)) => route.to_owned(),
            (None, None) => self.links.name(link).to_owned(),
        }
    }

    /// Returns the TCP connections in use.
    pub(super) fn tcp_bundles(&self) -> Vec<status::TcpBundle> {
        let shown = |of: BundleView| status::TcpBundle {
            link: self.link_name(LinkId(of.link)),
            remote: of.remote.to_string(),
            why: self.fallback.why(under(of.link), of.remote).map(str::to_owned),
            connections: of.connections,
            sent_datagrams: of.sent,
            dropped_datagrams: of.dropped,
        };
        self.carriers.shown().into_iter().map(shown).collect()
    }

    /// Decides which links use TCP, if a decision is due.
    pub(super) fn look_at_carriers(&mut self, now: Instant) {
        if self.fallback.next_timeout().is_some_and(|due| due <= now) {
            let seen = self.seen_paths(now);
            let steps = self.fallback.decide(now, &seen);
            self.take_steps(now, steps);
        }
    }

    /// Ends the TCP connections of a link whose addresses or routes have changed. The link begins with UDP again.
    pub(super) fn forget_carriers(&mut self, now: Instant, link: LinkId) {
        let steps = self.fallback.on_link_changed(now, link);
        self.take_steps(now, steps);
    }

    /// Processes a report that TCP connections were made or lost.
    pub(super) fn on_carried(&mut self, report: CarrierEvent) {
        let now = self.clock.now();
        match report {
            CarrierEvent::Up(link, to) => self.fallback.on_up(now, under(link), to),
            CarrierEvent::Down(link, to, why) => {
                let name = self.links.name(under(link)).to_owned();
                if let Some(pause) = self.fallback.on_down(now, under(link), to) {
                    let pause = pause.as_secs_f64();
                    self.log.info(format_args!(
                        "link {name}: no TCP connection to {}: {why}: the next attempt is in {pause} s",
                        to.ip()
                    ));
                }
            }
        }
        self.look_at_carriers(now);
    }

    /// Returns the state of each pair of a link and a peer that accepts TCP.
    fn seen_paths(&self, now: Instant) -> Vec<PairState> {
        if self.config.peers.iter().all(|peer| peer.tcp.is_none()) {
            return Vec::new();
        }
        let paths: Vec<_> = self.engine.path_snapshots(now).map(|(name, path)| (name.to_owned(), path)).collect();
        let answers = |peer: &str, link: LinkId| {
            let is_good = |path: &PathSnapshot| matches!(path.state, PathState::Good | PathState::Degraded);
            paths.iter().any(|(name, path)| name == peer && path.link == link && is_good(path))
        };
        let mut seen = Vec::new();
        for active in self.links.active() {
            let config = self.config.link.iter().find(|link| link.name.value == active.name);
            let mode = config.map(|link| link.tcp.fallback).unwrap_or_default();
            if mode == TcpFallback::Off || config.is_some_and(|link| !link.up) {
                continue;
            }
            let leads_to = |to: &&SocketAddr| {
                let has_family = active.addresses.iter().any(|address| address.is_ipv4() == to.is_ipv4());
                has_family && !active.unreachable.contains(&to.ip())
            };
            for peer in self.config.peers.iter().filter(|peer| peer.tcp.is_some()) {
                let endpoints: Vec<_> = peer.endpoints.iter().filter(leads_to).copied().collect();
                if !endpoints.is_empty() {
                    let name = peer.name.value.clone();
                    let (udp_answers, tcp_answers) = (answers(&name, active.id), answers(&name, over_tcp(active.id)));
                    seen.push(PairState { link: active.id, peer: name, endpoints, mode, udp_answers, tcp_answers });
                }
            }
        }
        seen
    }

    fn take_steps(&mut self, now: Instant, steps: Vec<FallbackDecision>) {
        for step in steps {
            match step {
                FallbackDecision::Call(link, peer, to, why) => {
                    let name = self.links.name(link).to_owned();
                    self.log.info(format_args!("link {name}: connecting to peer {peer} at {} by TCP: {why}", to.ip()));
                    let called = self.way(link, &peer, to).ok_or(std::io::ErrorKind::NotFound.into());
                    let called = called.and_then(|way| self.carriers.order(over_tcp(link), CarrierOrder::Open(way)));
                    if let Err(why) = called {
                        self.log.error(format_args!("link {name}: cannot connect to peer {peer} by TCP: {why}"));
                        let _ = self.fallback.on_down(now, link, to);
                    }
                }
                FallbackDecision::End(link, peer, to, why) => {
                    let name = self.links.name(link).to_owned();
                    self.log.info(format_args!("link {name}: TCP connections to peer {peer} ended: {why}"));
                    let _ = self.carriers.order(over_tcp(link), CarrierOrder::Close(over_tcp(link).0, to));
                }
                FallbackDecision::Lead(link, remotes) => self.lead(now, link, remotes),
            }
        }
    }

    /// Reports to the engine to which addresses the TCP connections of a link lead.
    fn lead(&mut self, now: Instant, link: LinkId, remotes: Vec<SocketAddr>) {
        if remotes.is_empty() {
            self.engine.handle_link(now, LinkEvent::Down { link, cause: NO_CONNECTION });
            return self.engine.forget_link(now, link);
        }
        let (ipv4, ipv6) = (remotes.iter().any(SocketAddr::is_ipv4), remotes.iter().any(SocketAddr::is_ipv6));
        self.engine.set_link_remotes(link, remotes);
        let (name, mtu) = (self.link_name(link), carriers::MTU);
        self.engine.handle_link(now, LinkEvent::Up { link, name, mtu, ipv4, ipv6 });
    }

    /// Returns the address and the options with which this node connects to a peer by TCP.
    ///
    /// Returns `None` if the peer or its TCP setting has been removed, or if the link is not in use.
    fn way(&self, link: LinkId, peer: &str, to: SocketAddr) -> Option<CallTarget> {
        let peer = self.config.peers.iter().find(|of| of.name.value == peer)?;
        let active = self.links.active().iter().find(|active| active.id == link)?;
        let config = self.config.link.iter().find(|of| of.name.value == active.name);
        let tcp = peer.tcp.as_ref()?;
        Some(CallTarget {
            link: over_tcp(link).0,
            remote: to,
            to: SocketAddr::new(to.ip(), tcp.port),
            device: Some(active.name.clone()),
            mark: TUNNEL_MARK,
            key: peer.public_key.value.0,
            name: tcp.name.clone().or_else(|| peer.names.first().map(|name| name.name.clone())),
            proxy: config.and_then(|link| link.tcp.proxy),
        })
    }
}

/// Returns the link below a link over TCP: the inverse of [`over_tcp`].
fn under(link: u32) -> LinkId {
    LinkId(link & !over_tcp(LinkId(0)).0)
}
