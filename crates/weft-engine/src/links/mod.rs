//! The local links, and the relayed routes, which the engine treats as links.
//!
//! A link has its address families, its subnets and the addresses that it does not reach. A relayed route has a link
//! number and an address of its own ([`route_address`]).

pub mod route_address;

pub use route_address::{is_route, outer_header_len, relays_to, room_for_relays};

use crate::api::{LinkConfig, LinkEvent, Prefix};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_units::planted::{self, Fault};
use weft_units::{LinkId, PathUse, Rate};

/// MTU assumed for a link that is unknown or leads over relays, in bytes.
pub const ETHERNET_MTU: u16 = 1500;

/// A local link, or a route over relays, which is treated as a link.
#[derive(Clone, Debug)]
pub struct Link {
    pub id: LinkId,
    pub name: String,
    pub mtu: u16,
    pub ipv4: bool,
    pub ipv6: bool,
    pub cap: Option<Rate>,
    pub send: bool,
    pub allowed: PathUse,
    /// Address that stands for the relayed route; `None` for a local link.
    route: Option<SocketAddr>,
    /// IP networks to which the link is attached.
    subnets: Vec<Prefix>,
    /// Addresses to which the link has no route.
    unreachable: Vec<IpAddr>,
    /// The only addresses to which the link leads. `None` if it leads to all addresses.
    only: Option<Vec<SocketAddr>>,
}

impl Link {
    /// Returns the link of a route over relays. Its capacity is measured as on any link.
    pub fn of_route(id: LinkId, name: String, address: SocketAddr) -> Link {
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
            allowed: PathUse::default(),
            route,
            subnets,
            unreachable,
            only: None,
        }
    }

    /// Applies the settings for this link from the configuration. A link without an entry gets the defaults.
    fn configure(&mut self, configs: &[LinkConfig]) {
        let config = configs.iter().find(|c| c.name == self.name);
        (self.cap, self.send) = config.map_or((None, true), |c| (c.cap, c.send || planted::is(Fault::BarredLinkUsed)));
        self.allowed = config.map(|c| c.allowed).unwrap_or_default();
    }

    /// True if datagrams to the address can leave by this link.
    pub fn reaches(&self, address: &SocketAddr) -> bool {
        match self.route {
            Some(route) => route == *address,
            None if self.only.is_some() => self.only.iter().flatten().any(|only| only == address),
            None if self.unreachable.contains(&address.ip()) => false,
            None if address.is_ipv4() => self.ipv4,
            None => self.ipv6 && !is_route(address),
        }
    }

    /// True if the address lies in a subnet of the link.
    pub fn is_near(&self, address: &SocketAddr) -> bool {
        self.subnets.iter().any(|subnet| subnet.contains(address.ip()))
    }
}

/// All links that can be used now, and the stored settings and address lists of all links.
#[derive(Debug, Default)]
pub struct Links {
    list: Vec<Link>,
    configs: Vec<LinkConfig>,
    subnets: BTreeMap<LinkId, Vec<Prefix>>,
    unreachable: BTreeMap<LinkId, Vec<IpAddr>>,
    only: BTreeMap<LinkId, Vec<SocketAddr>>,
}

impl Links {
    pub fn new(configs: Vec<LinkConfig>) -> Links {
        Links { configs, ..Links::default() }
    }

    /// Replaces the settings of all links.
    pub fn configure(&mut self, configs: Vec<LinkConfig>) {
        self.configs = configs;
        self.list.iter_mut().for_each(|link| link.configure(&self.configs));
    }

    pub fn get(&self, id: LinkId) -> Option<&Link> {
        self.list.iter().find(|l| l.id == id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Link> {
        self.list.iter()
    }

    /// Returns the key by which links are sorted: their position in the configuration (from 0), then their number.
    pub fn place_of(&self, link: &Link) -> (usize, LinkId) {
        let configured = self.configs.iter().position(|config| config.name == link.name);
        (configured.unwrap_or(usize::MAX), link.id)
    }

    pub fn set_subnets(&mut self, link: LinkId, subnets: Vec<Prefix>) {
        self.subnets.insert(link, subnets);
    }

    pub fn set_unreachable(&mut self, link: LinkId, addresses: Vec<IpAddr>) {
        match addresses.is_empty() {
            true => self.unreachable.remove(&link),
            false => self.unreachable.insert(link, addresses),
        };
    }

    /// Sets the only addresses to which a link leads. They apply when the link comes up.
    pub fn set_only(&mut self, link: LinkId, addresses: Vec<SocketAddr>) {
        self.only.insert(link, addresses);
    }

    /// Deletes the stored subnets of a link and the addresses that it does or does not reach.
    pub fn forget(&mut self, link: LinkId) {
        self.subnets.remove(&link);
        self.only.remove(&link);
        self.unreachable.remove(&link);
    }

    /// Applies a change of a link. Returns the link if it can be used now, otherwise `None`.
    pub fn apply(&mut self, event: &LinkEvent) -> Option<Link> {
        let id = match event {
            LinkEvent::Up { link, .. } | LinkEvent::Down { link, .. } => *link,
        };
        self.list.retain(|l| l.id != id);
        let LinkEvent::Up { link, name, mtu, ipv4, ipv6 } = event else { return None };
        let (cap, send, allowed) = (None, true, PathUse::default());
        let (ipv4, ipv6) = (*ipv4, *ipv6);
        let subnets = self.subnets.get(link).cloned().unwrap_or_default();
        let unreachable = self.unreachable.get(link).cloned().unwrap_or_default();
        let only = self.only.get(link).cloned();
        let mut link = Link {
            id: *link,
            name: name.clone(),
            mtu: *mtu,
            ipv4,
            ipv6,
            cap,
            send,
            allowed,
            route: None,
            subnets,
            unreachable,
            only,
        };
        link.configure(&self.configs);
        self.list.push(link.clone());
        Some(link)
    }
}
