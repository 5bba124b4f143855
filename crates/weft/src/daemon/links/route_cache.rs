//! Cache of the kernel's routes by link.
//!
//! A socket that is bound to a device sends to every IPv4 address, whatever the routes are. Without a route the kernel
//! assumes that the address is on the device's link, and broadcasts ARP requests for it there. So this module looks up
//! the route first.

use std::collections::HashMap;
use std::net::IpAddr;
use weft_io::netlink::RouteLookup;

/// Maximum number of cached routes, of some 60 bytes each. When it is reached, all are deleted.
const MAX_KNOWN: usize = 4_096;

/// Route of a packet by a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkRoute {
    /// No route leads to the destination.
    None,
    /// A route exists, and the packet needs no particular source address.
    Plain,
    /// A route exists only with this source address, which a routing rule demands.
    From(IpAddr),
}

/// Query: a link's index, a destination, and the source address if it is set already.
type Question = (u32, IpAddr, Option<IpAddr>);

/// Cached routes of the kernel.
#[derive(Default)]
pub struct RouteCache {
    lookup: Option<RouteLookup>,
    known: HashMap<Question, LinkRoute>,
}

impl RouteCache {
    /// Forgets all cached routes, because the kernel's routes may have changed.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// Returns the route of a packet, and true if it was not cached.
    ///
    /// `own` are the link's addresses, which are tried as sources if the packet has none.
    pub fn find(&mut self, index: u32, to: IpAddr, from: Option<IpAddr>, own: &[IpAddr]) -> (LinkRoute, bool) {
        if let Some(route) = self.known.get(&(index, to, from)) {
            return (*route, false);
        }
        let route = self.look_up(index, to, from, own);
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert((index, to, from), route);
        (route, true)
    }

    fn look_up(&mut self, index: u32, to: IpAddr, from: Option<IpAddr>, own: &[IpAddr]) -> LinkRoute {
        if self.lookup.is_none() {
            self.lookup = RouteLookup::open().ok();
        }
        // If the lookup fails, the packet is sent, and the kernel decides about it then.
        let Some(lookup) = &mut self.lookup else { return LinkRoute::Plain };
        let mut leads = |source| lookup.has_route(to, index, source).unwrap_or(true);
        if leads(from) {
            return LinkRoute::Plain;
        }
        let sources = own.iter().filter(|own| from.is_none() && own.is_ipv4() == to.is_ipv4());
        sources.copied().find(|source| leads(Some(*source))).map_or(LinkRoute::None, LinkRoute::From)
    }
}
