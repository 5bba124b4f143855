//! The links as the node follows them: what is wanted of them, and what the engine and the log hear.

use super::*;
use crate::daemon::links::{Demand, Leave};
use std::net::IpAddr;
use weft_engine::{LinkEvent, Transmit};

impl Wanted {
    /// What a configuration asks for.
    pub fn of(config: &Config) -> Wanted {
        let configured = config.link.iter().filter(|link| link.up).map(|link| link.name.value.clone());
        Wanted { choice: config.links.clone(), configured: configured.collect() }
    }
}

impl Node {
    /// Whether and how a datagram leaves.
    pub fn leave(&mut self, transmit: &Transmit) -> Leave {
        let leave = self.links.leave(transmit.link, transmit.destination.ip(), transmit.source);
        if leave == (Leave::Never { is_new: true }) {
            let (to, link) = (transmit.destination.ip(), self.links.name(transmit.link));
            self.log.debug(format_args!("nothing is sent to {to} by {link}: no route"));
            // It may be an address that the engine has learnt since.
            self.link_news.want();
        }
        leave
    }

    /// The addresses at which peers are called, and whether others call.
    fn demand(&self) -> Demand {
        let contacts = self.config.network.iter().flat_map(|of| &of.contacts).map(|at| at.value.1.ip());
        let endpoints = self.engine.endpoints().chain(contacts).collect();
        let is_unknown = |peer: &config::Peer| peer.endpoints.is_empty() && peer.via.is_empty();
        let has_unknown = self.config.network.is_some() || self.config.peers.iter().any(is_unknown);
        Demand { endpoints, is_called: self.config.node.listen.is_some() && has_unknown }
    }

    /// Looks at all links by what is wanted now and where routes lead; what could not be used is given back.
    pub(super) fn look_at_links(&mut self) -> Vec<String> {
        let mut changes = Vec::new();
        self.links.look_again(self.demand(), &mut changes);
        self.on_link_changes(changes)
    }

    /// The same if something has changed, and not too often while much does.
    pub(super) fn look_at_links_again(&mut self) -> Vec<String> {
        let now = self.clock.now();
        if !self.link_news.take(now) {
            return Vec::new();
        }
        let failures = self.look_at_links();
        self.link_news.done(now, self.clock.now());
        self.say_unused();
        failures
    }

    /// Logs what the configuration names and is not in use, when that is news.
    fn say_unused(&mut self) {
        let unused = self.links.unused();
        for link in unused.iter().filter(|link| !self.unused_links.contains(link)) {
            self.log.error(format_args!("link {} not used: {}", link.name, link.why));
        }
        self.unused_links = unused;
    }

    pub(super) fn on_link_changes(&mut self, changes: Vec<Change>) -> Vec<String> {
        let now = self.clock.now();
        let mut failures = Vec::new();
        for change in changes {
            match change {
                Change::Up(event) => self.on_link_up(now, event),
                Change::Down { event, name, cause } => {
                    self.log.info(format_args!("link {name} out of use: {cause}"));
                    self.engine.handle_link(now, event);
                }
                Change::Forgotten(link) => self.engine.forget_link(now, link),
                Change::Failed(why) => {
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
            let far = if far.is_empty() { String::new() } else { format!(", no route to {}", far.join(", ")) };
            self.log.info(format_args!("link {name} in use, MTU {mtu}{far}"));
            self.engine.set_link_subnets(*link, self.links.subnets(*link));
            self.engine.set_unreachable(*link, unreachable);
        }
        self.engine.handle_link(now, event);
    }
}
