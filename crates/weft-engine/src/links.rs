//! The local links, and the paths over them to the peers' addresses.
//!
//! A link that appears opens paths. A link that disappears takes its paths down. A change of the configuration gives
//! up the paths that are no longer wanted.

use crate::config::{LinkConfig, Prefix};
use crate::interface::LinkEvent;
use crate::node::Engine;
use crate::peer::{Context, Peer};
use crate::relay::is_route;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_units::{Instant, LinkId, PathId, Rate};

/// MTU assumed for a link that is unknown or leads over relays, in bytes.
pub(crate) const ETHERNET_MTU: u16 = 1500;
/// Logged reason for a path that the configuration no longer asks for.
const UNWANTED: &str = "no longer configured";

/// A local link, or a route over relays, which is treated as a link.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) id: LinkId,
    pub(crate) name: String,
    pub(crate) mtu: u16,
    pub(crate) ipv4: bool,
    pub(crate) ipv6: bool,
    pub(crate) cap: Option<Rate>,
    pub(crate) send: bool,
    /// The only address of a link that is a route.
    route: Option<SocketAddr>,
    /// Known subnets of the link.
    subnets: Vec<Prefix>,
    /// Addresses to which the link has no route.
    unreachable: Vec<IpAddr>,
}

impl Link {
    /// Returns the link of a route over relays. Its capacity is measured as on any link.
    pub(crate) fn of_route(id: LinkId, name: String, address: SocketAddr) -> Link {
        let route = Some(address);
        let (subnets, unreachable) = (Vec::new(), Vec::new());
        Link {
            id,
            name,
            mtu: ETHERNET_MTU,
            ipv4: false,
            ipv6: false,
            cap: None,
            send: true,
            route,
            subnets,
            unreachable,
        }
    }

    /// Applies the link's settings from the configuration. A link without an entry gets the defaults.
    fn configure(&mut self, configs: &[LinkConfig]) {
        let config = configs.iter().find(|c| c.name == self.name);
        (self.cap, self.send) = config.map_or((None, true), |c| (c.cap, c.send));
    }

    /// True if the link has the address family of this address and a route to it.
    pub(crate) fn reaches(&self, address: &SocketAddr) -> bool {
        match self.route {
            Some(route) => route == *address,
            None if self.unreachable.contains(&address.ip()) => false,
            None if address.is_ipv4() => self.ipv4,
            None => self.ipv6 && !is_route(address),
        }
    }

    /// True if the address lies in a subnet of the link.
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
    unreachable: BTreeMap<LinkId, Vec<IpAddr>>,
}

impl Links {
    pub(crate) fn new(configs: Vec<LinkConfig>) -> Links {
        Links { list: Vec::new(), configs, subnets: BTreeMap::new(), unreachable: BTreeMap::new() }
    }

    /// Replaces the settings of all links.
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

    /// Returns the sort key of a link: its position in the configuration, then its number.
    pub(crate) fn place_of(&self, link: &Link) -> (usize, LinkId) {
        let configured = self.configs.iter().position(|config| config.name == link.name);
        (configured.unwrap_or(usize::MAX), link.id)
    }

    fn set_subnets(&mut self, link: LinkId, subnets: Vec<Prefix>) {
        self.subnets.insert(link, subnets);
    }

    fn set_unreachable(&mut self, link: LinkId, addresses: Vec<IpAddr>) {
        match addresses.is_empty() {
            true => self.unreachable.remove(&link),
            false => self.unreachable.insert(link, addresses),
        };
    }

    /// Forgets the subnets and unreachable addresses of a link.
    fn forget(&mut self, link: LinkId) {
        self.subnets.remove(&link);
        self.unreachable.remove(&link);
    }

    /// Applies a change of a link. Returns the link if it can be used.
    pub(crate) fn apply(&mut self, event: &LinkEvent) -> Option<Link> {
        let id = match event {
            LinkEvent::Up { link, .. } | LinkEvent::Down { link, .. } => *link,
        };
        self.list.retain(|l| l.id != id);
        let LinkEvent::Up { link, name, mtu, ipv4, ipv6 } = event else { return None };
        let (cap, send) = (None, true);
        let (ipv4, ipv6) = (*ipv4, *ipv6);
        let subnets = self.subnets.get(link).cloned().unwrap_or_default();
        let unreachable = self.unreachable.get(link).cloned().unwrap_or_default();
        let mut link =
            Link { id: *link, name: name.clone(), mtu: *mtu, ipv4, ipv6, cap, send, route: None, subnets, unreachable };
        link.configure(&self.configs);
        self.list.push(link.clone());
        Some(link)
    }
}

impl Peer {
    /// Opens, reopens or gives up paths of a link that appeared or whose settings changed.
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

    /// Gives up this node's paths that are no longer wanted.
    ///
    /// Their address is no longer configured, or nothing may be sent on `link`, or `link` has no route to it.
    pub(crate) fn bar_unwanted(&mut self, cx: &mut Context<'_>, link: Option<&Link>) {
        for index in 0..self.paths.len() {
            let path = &self.paths[index];
            let has_route = link.is_none_or(|link| link.id != path.link || link.reaches(&path.remote));
            let is_wanted = self.endpoints().any(|endpoint| *endpoint == path.remote)
                && link.is_none_or(|link| link.send || link.name != path.link_name);
            if path.ours && !path.barred && !(is_wanted && has_route) {
                self.bar(cx, index);
                self.log_path(cx.events, index, if has_route { UNWANTED } else { "no route" });
            }
        }
        self.say_gone();
    }

    /// Forgets this node's paths over a link that will not be used again.
    fn forget_link(&mut self, cx: &mut Context<'_>, link: LinkId) {
        for index in 0..self.paths.len() {
            let path = &self.paths[index];
            if path.link != link {
                continue;
            }
            match path.ours {
                true if path.barred => {}
                true => self.bar(cx, index),
                false => self.leave(cx, index),
            }
        }
        self.say_gone();
    }

    /// Marks a path of the peer as given up: the peer gave it up, or its local link is gone.
    fn leave(&mut self, cx: &mut Context<'_>, index: usize) {
        let path = &mut self.paths[index];
        (path.left, path.barred, path.active) = (true, true, false);
        self.close_books(cx, index);
    }

    /// Handles the peer's message that it has given up a path.
    pub(crate) fn on_gone(&mut self, cx: &mut Context<'_>, path: PathId) {
        if let Some(index) = self.path_index(path).filter(|index| !self.paths[*index].ours) {
            self.leave(cx, index);
            self.log_path(cx.events, index, "given up by the peer");
            self.choose_path(cx, self.paths[index].link);
        }
    }

    /// Sends the peer the list of this node's paths that were given up, by the fastest path.
    pub(crate) fn say_gone(&mut self) {
        if self.paths.iter().any(|path| path.ours && path.is_gone())
            && let Some(fastest) = self.fastest_path()
        {
            self.paths[fastest].pending.gone = true;
        }
    }

    /// Gives up a path of this node. It carries no more data and is no longer shown.
    fn bar(&mut self, cx: &mut Context<'_>, index: usize) {
        let path = &mut self.paths[index];
        path.barred = true;
        path.pending.policy |= path.active;
        path.active = false;
        self.close_books(cx, index);
    }

    /// Moves the units of a path that may no longer carry data to other paths.
    fn on_barred(&mut self, cx: &mut Context<'_>, index: usize) {
        if self.paths[index].barred {
            self.log_path(cx.events, index, UNWANTED);
            self.close_books(cx, index);
        }
    }
}

impl Engine {
    /// Sets the subnets of a link. Addresses in them are tried first on it.
    ///
    /// Call it before the link is reported as up. Without this call no subnets are known.
    pub fn set_link_subnets(&mut self, link: LinkId, subnets: Vec<Prefix>) {
        self.links.set_subnets(link, subnets);
    }

    /// Sets the addresses to which a link has no route. Paths to them are given up, and none are opened.
    ///
    /// Call it before the link is reported as up. All other addresses count as reachable.
    pub fn set_unreachable(&mut self, link: LinkId, addresses: Vec<IpAddr>) {
        self.links.set_unreachable(link, addresses);
    }

    /// Forgets a link that is down for good, and the paths that this node opened over it.
    pub fn forget_link(&mut self, now: Instant, link: LinkId) {
        self.links.forget(link);
        for index in 0..self.peers.len() {
            self.with_peer(now, index, |peer, cx| peer.forget_link(cx, link));
        }
    }

    /// Returns the addresses at which peers are called, without relayed routes.
    pub fn endpoints(&self) -> impl Iterator<Item = IpAddr> {
        let present = self.peers.iter().filter(|peer| self.is_present(peer));
        present.flat_map(|peer| peer.config.endpoints.iter().map(SocketAddr::ip))
    }
}
