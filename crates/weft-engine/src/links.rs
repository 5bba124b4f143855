//! The local links, and the paths they make with the peers' addresses.

use crate::config::{LinkConfig, Prefix};
use crate::interface::LinkEvent;
use crate::node::Engine;
use crate::peer::{Context, Peer};
use crate::relay::is_route;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use weft_units::{LinkId, Rate};

/// The MTU of a link that is not known (yet), or leads over relays.
pub(crate) const ETHERNET_MTU: u16 = 1500;

/// A local link.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) id: LinkId,
    pub(crate) name: String,
    pub(crate) mtu: u16,
    pub(crate) ipv4: bool,
    pub(crate) ipv6: bool,
    pub(crate) cap: Option<Rate>,
    pub(crate) send: bool,
    /// It is a route, which leads to this address only.
    route: Option<SocketAddr>,
    /// The networks it is in, as far as they are known.
    subnets: Vec<Prefix>,
}

impl Link {
    /// A route over relays. How much its paths carry is found out as on any link.
    pub(crate) fn of_route(id: LinkId, name: String, address: SocketAddr) -> Link {
        let route = Some(address);
        let subnets = Vec::new();
        Link { id, name, mtu: ETHERNET_MTU, ipv4: false, ipv6: false, cap: None, send: true, route, subnets }
    }

    /// Takes its settings from the configuration; a link not named there has none.
    fn configure(&mut self, configs: &[LinkConfig]) {
        let config = configs.iter().find(|c| c.name == self.name);
        (self.cap, self.send) = config.map_or((None, true), |c| (c.cap, c.send));
    }

    /// Whether datagrams to this address can leave by the link at all: it has the address's family.
    pub(crate) fn reaches(&self, address: &SocketAddr) -> bool {
        match self.route {
            Some(route) => route == *address,
            None if address.is_ipv4() => self.ipv4,
            None => self.ipv6 && !is_route(address),
        }
    }

    /// Whether the address is in a network that the link is in.
    pub(crate) fn is_near(&self, address: &SocketAddr) -> bool {
        self.subnets.iter().any(|subnet| subnet.contains(address.ip()))
    }
}

/// All links that can be used now.
#[derive(Debug, Default)]
pub(crate) struct Links {
    list: Vec<Link>,
    configs: Vec<LinkConfig>,
    subnets: BTreeMap<LinkId, Vec<Prefix>>,
}

impl Links {
    pub(crate) fn new(configs: Vec<LinkConfig>) -> Links {
        Links { list: Vec::new(), configs, subnets: BTreeMap::new() }
    }

    /// Other settings hold from now on.
    pub(crate) fn configure(&mut self, configs: Vec<LinkConfig>) {
        self.configs = configs;
        self.list.iter_mut().for_each(|link| link.configure(&self.configs));
    }

    pub(crate) fn get(&self, id: LinkId) -> Option<&Link> {
        self.list.iter().find(|l| l.id == id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.list.iter()
    }

    /// A link's place among the others: in the order of the configuration, then by number.
    pub(crate) fn place_of(&self, link: &Link) -> (usize, LinkId) {
        let configured = self.configs.iter().position(|config| config.name == link.name);
        (configured.unwrap_or(usize::MAX), link.id)
    }

    fn set_subnets(&mut self, link: LinkId, subnets: Vec<Prefix>) {
        self.subnets.insert(link, subnets);
    }

    /// Takes in a change; the link it is about, if it can be used.
    pub(crate) fn apply(&mut self, event: &LinkEvent) -> Option<Link> {
        let id = match event {
            LinkEvent::Up { link, .. } | LinkEvent::Down { link, .. } => *link,
        };
        self.list.retain(|l| l.id != id);
        let LinkEvent::Up { link, name, mtu, ipv4, ipv6 } = event else { return None };
        let (cap, send) = (None, true);
        let (ipv4, ipv6) = (*ipv4, *ipv6);
        let subnets = self.subnets.get(link).cloned().unwrap_or_default();
        let mut link = Link { id: *link, name: name.clone(), mtu: *mtu, ipv4, ipv6, cap, send, route: None, subnets };
        link.configure(&self.configs);
        self.list.push(link.clone());
        Some(link)
    }
}

impl Peer {
    /// A link can be used, or its settings changed: paths over it open, or open again, or are given up.
    pub(crate) fn on_link_up(&mut self, cx: &mut Context<'_>, link: &Link) {
        for index in 0..self.paths.len() {
            let path = &mut self.paths[index];
            if path.link_name == link.name {
                path.rate.set_cap(link.cap);
                if link.send == path.barred && !path.ours {
                    path.barred = !link.send;
                    self.on_barred(cx, index);
                }
            }
        }
        self.bar_unwanted(cx, Some(link));
        self.open_pairs(cx, link);
        for path in self.paths.iter_mut().filter(|p| !p.ours && p.link == link.id) {
            path.link_up = true;
            path.health.on_link_up(cx.now);
        }
        self.choose_path(cx, link.id);
        if self.is_established() {
            self.call_again(cx);
        }
    }

    /// Gives up the paths from here that the configuration no longer asks for: to endpoints it does not name, and over `link`, if
    /// nothing is to be sent on it.
    pub(crate) fn bar_unwanted(&mut self, cx: &mut Context<'_>, link: Option<&Link>) {
        for index in 0..self.paths.len() {
            let path = &self.paths[index];
            let is_wanted = self.endpoints().any(|endpoint| *endpoint == path.remote)
                && link.is_none_or(|link| link.send || link.name != path.link_name);
            let path = &mut self.paths[index];
            if path.ours && !path.barred && !is_wanted {
                path.barred = true;
                path.pending.policy |= path.active;
                path.active = false;
                self.on_barred(cx, index);
            }
        }
    }

    /// What a path that may no longer carry anything still has goes elsewhere.
    fn on_barred(&mut self, cx: &mut Context<'_>, index: usize) {
        if self.paths[index].barred {
            self.log_path(cx.events, index, "no longer configured");
            self.close_books(cx, index);
        }
    }
}

impl Engine {
    /// Tells which networks a link is in, before it is said to be up: addresses there are tried first on it. None are known otherwise.
    pub fn set_link_subnets(&mut self, link: LinkId, subnets: Vec<Prefix>) {
        self.links.set_subnets(link, subnets);
    }
}
