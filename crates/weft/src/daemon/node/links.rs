//! The node's side of link changes: which links are wanted, and messages to the engine and the log.

use super::*;
use crate::daemon::links::{Demand, Leave};
use std::net::IpAddr;
use weft_engine::{LinkEvent, Transmit};

impl WantedLinks {
    /// Returns the links that a configuration wants.
    pub fn of(config: &Config) -> WantedLinks {
        let configured = config.link.iter().filter(|link| link.up).map(|link| link.name.value.clone());
        WantedLinks { choice: config.links.clone(), configured: configured.collect() }
    }
}

impl DaemonNode {
    /// Decides if a datagram leaves, and with which source address.
    pub fn leave(&mut self, transmit: &Transmit) -> Leave {
        let leave = self.links.leave(transmit.link, transmit.destination.ip(), transmit.source);
        if leave == (Leave::Never { is_new: true }) {
            let (to, link) = (transmit.destination.ip(), self.links.name(transmit.link));
            self.log.debug(format_args!("link {link} sends nothing to {to}: no route leads there over the link"));
            // The engine may have learnt this address after the last check of the links, so they are checked again.
            self.link_check.want();
        }
        leave
    }

    /// Returns the addresses at which the node begins handshakes.
    ///
    /// The result also states whether nodes at unknown addresses may begin handshakes with this node.
    fn demand(&self) -> Demand {
        let contacts = self.config.network.iter().flat_map(|of| &of.contacts).map(|at| at.value.1.ip());
        let endpoints = self.engine.endpoints().chain(contacts).collect();
        let is_unknown =
            |peer: &config::Peer| peer.endpoints.is_empty() && peer.names.is_empty() && peer.via.is_empty();
        let has_unknown = self.config.network.is_some() || self.config.peers.iter().any(is_unknown);
        Demand { endpoints, is_called: self.config.node.listen.is_some() && has_unknown }
    }

    /// Checks all links against the addresses of peers and the kernel's routes.
    ///
    /// Returns messages about links that could not be used.
    pub(super) fn check_links(&mut self) -> Vec<String> {
        let mut changes = Vec::new();
        self.links.look_again(self.demand(), &mut changes);
        self.on_link_changes(changes)
    }

    /// Checks the links if something has changed, but not too often while many changes follow each other.
    pub(super) fn recheck_links(&mut self) -> Vec<String> {
        let now = self.clock.now();
        if !self.link_check.take(now) {
            return Vec::new();
        }
        let failures = self.check_links();
        self.link_check.done(now, self.clock.now());
        self.log_unused_links();
        failures
    }

    /// Logs configured links that are not in use, once for each change.
    fn log_unused_links(&mut self) {
        let unused = self.links.unused();
        for link in unused.iter().filter(|link| !self.unused_links.contains(link)) {
            self.log.error(format_args!("link {} not used: {}", link.name, link.why));
        }
        self.unused_links = unused;
    }

    pub(super) fn on_link_changes(&mut self, changes: Vec<LinkChange>) -> Vec<String> {
        let now = self.clock.now();
        let mut failures = Vec::new();
        for change in changes {
            match change {
                LinkChange::Up(event) => self.on_link_up(now, event),
                LinkChange::Down { event, name, cause } => {
                    self.log.info(format_args!("link {name} out of use: {cause}"));
                    if let LinkEvent::Down { link, .. } = &event {
                        self.forget_carriers(now, *link);
                    }
                    self.engine.handle_link(now, event);
                }
                LinkChange::Forgotten(link) => self.engine.forget_link(now, link),
                LinkChange::Failed(why) => {
                    self.log.error(&why);
                    failures.push(why);
                }
            }
        }
        failures
    }

    fn on_link_up(&mut self, now: Instant, event: LinkEvent) {
        if let LinkEvent::Up { link, name, mtu, .. } = &event {
            let unreachable = self.links.get_mut(*link).map_or_else(Vec::new, |active| active.unreachable.clone());
            let far: Vec<String> = unreachable.iter().map(IpAddr::to_string).collect();
            let far = match far.is_empty() {
                true => String::new(),
                false => format!(", but no route over this link leads to the peers' addresses {}", far.join(", ")),
            };
            self.log.info(format_args!("link {name} in use, MTU {mtu}{far}"));
            self.engine.set_link_subnets(*link, self.links.subnets(*link));
            self.engine.set_unreachable(*link, unreachable);
        }
        self.engine.handle_link(now, event);
        self.fallback.look_again(now);
    }
}
