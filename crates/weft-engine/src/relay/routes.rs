//! Routes to other nodes that lead over relays.
//!
//! A route is configured, chosen as a detour, or learnt from a datagram that arrived over it. Each route has a link
//! id and an address of its own. The number of learnt routes is bounded.

use crate::links::Link;
use crate::links::route_address::{address_of, link_of};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use core::net::SocketAddr;
use weft_units::{Instant, LinkId, PeerId};
use weft_wire::relay::Way;

/// Maximum number of learnt routes. Beyond it, the relay with the most routes loses its least recently used one.
const MAX_FOUND: usize = 1_024;
/// Number of link ids for routes. The other half of the 32-bit link ids belongs to the kernel.
const SERIALS: u32 = 1 << 31;

/// A route to a node over one or more relays.
#[derive(Debug)]
pub struct Route {
    pub via: PeerId,
    pub way: Way,
    pub address: SocketAddr,
    /// The link that stands for this route: the paths over the route have this link.
    pub link: Link,
    pub is_up: bool,
    /// True if the route is configured or chosen as a detour. False if it was learnt from a datagram.
    pub is_configured: bool,
    pub used_at: Instant,
}

/// All relayed routes known to this node.
#[derive(Debug, Default)]
pub struct Routes {
    by_link: BTreeMap<LinkId, Route>,
    by_way: BTreeMap<(PeerId, Way), LinkId>,
    serial: u32,
}

impl Routes {
    pub fn is_empty(&self) -> bool {
        self.by_link.is_empty()
    }

    pub fn link(&self, id: LinkId) -> Option<&Link> {
        self.by_link.get(&id).map(|route| &route.link)
    }

    pub fn get(&self, id: LinkId) -> Option<&Route> {
        self.by_link.get(&id)
    }

    /// Returns the first relay of a route and the nodes after it, or `None` if no route has this link id.
    pub fn way_of(&self, id: LinkId) -> Option<(PeerId, &Way)> {
        self.by_link.get(&id).map(|route| (route.via, &route.way))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Route> {
        self.by_link.values_mut()
    }

    /// Returns the links of the routes that are up.
    pub fn up(&self) -> impl Iterator<Item = &Link> {
        self.by_link.values().filter(|route| route.is_up).map(|route| &route.link)
    }

    /// Returns the route by which a datagram arrived, and creates it if necessary.
    ///
    /// `ipv4` is true if the datagram arrived from `via` over IPv4.
    pub fn found(&mut self, now: Instant, via: PeerId, way: Way, ipv4: bool) -> &Route {
        let route = self.at(now, via, way, ipv4);
        route.used_at = now;
        route
    }

    /// Returns the address that stands for a configured route or a detour, and stores the route if it is new.
    ///
    /// For size limits, its first relay is taken as reached over IPv4, unless the route is already stored with IPv6.
    pub fn configure(&mut self, now: Instant, via: PeerId, way: Way, name: &str) -> SocketAddr {
        let route = self.at(now, via, way, true);
        route.is_configured = true;
        route.link.name = format!("via {name}");
        route.address
    }

    /// Returns the address that stands for a route, or `None` if the route is not known.
    pub fn address_of(&self, via: PeerId, way: Way) -> Option<SocketAddr> {
        self.by_link.get(self.by_way.get(&(via, way))?).map(|route| route.address)
    }

    /// True if one of these addresses belongs to a route over this relay.
    pub fn leads_over(&self, via: PeerId, addresses: &[SocketAddr]) -> bool {
        self.by_link.values().any(|route| route.via == via && addresses.contains(&route.address))
    }

    /// Marks all routes as not configured.
    pub fn forget_configured(&mut self) {
        self.by_link.values_mut().for_each(|route| route.is_configured = false);
    }

    fn at(&mut self, now: Instant, via: PeerId, way: Way, ipv4: bool) -> &mut Route {
        let link = match self.by_way.get(&(via, way)) {
            Some(link) => *link,
            None => self.next_link(via, way),
        };
        self.by_link.entry(link).or_insert_with(|| {
            let address = address_of(link, way.labels().len(), ipv4);
            let link = Link::of_route(link, String::from("relay"), address);
            Route { via, way, address, link, is_up: false, is_configured: false, used_at: now }
        })
    }

    /// Returns the link id of a new route.
    ///
    /// An id is reused only after all others, and never while its route is known. No route can therefore be taken for
    /// another.
    fn next_link(&mut self, via: PeerId, way: Way) -> LinkId {
        self.make_room();
        while self.by_link.contains_key(&link_of(self.serial)) {
            self.serial = (self.serial + 1) % SERIALS;
        }
        let link = link_of(self.serial);
        self.serial = (self.serial + 1) % SERIALS;
        self.by_way.insert((via, way), link);
        link
    }

    /// Bounds the number of learnt routes. A relay with many routes never displaces routes over other relays.
    fn make_room(&mut self) {
        let (mut all, mut most, mut of) = (0, (0, None), (0, None));
        for via in self.found_routes().map(|route| route.via) {
            of = if of.1 == Some(via) { (of.0 + 1, of.1) } else { (1, Some(via)) };
            most = if of.0 > most.0 { of } else { most };
            all += 1;
        }
        if all < MAX_FOUND {
            return;
        }
        let of_via = self.found_routes().filter(|route| Some(route.via) == most.1);
        let oldest = of_via.min_by_key(|route| route.used_at).map(|route| (route.link.id, route.via, route.way));
        if let Some((link, via, way)) = oldest {
            self.by_link.remove(&link);
            self.by_way.remove(&(via, way));
        }
    }

    /// Returns the learnt routes, sorted by relay.
    fn found_routes(&self) -> impl Iterator<Item = &Route> {
        self.by_way.values().filter_map(|link| self.by_link.get(link)).filter(|route| !route.is_configured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use weft_wire::relay::Label;

    const VIA: PeerId = PeerId(3);

    fn way(number: u32) -> Way {
        Way::new(&[Label(number)]).unwrap_or_else(|why| panic!("{why:?}"))
    }

    #[test]
    fn a_route_is_the_same_each_time_and_none_of_another_relay() {
        let mut routes = Routes::default();
        let first = routes.found(Instant::ZERO, VIA, way(1), true).address;
        assert_eq!(routes.found(Instant::ZERO, VIA, way(1), false).address, first);
        assert_eq!(routes.configure(Instant::ZERO, VIA, way(1), "hub"), first);
        assert_ne!(routes.found(Instant::ZERO, PeerId(4), way(1), true).address, first);
        assert_ne!(routes.found(Instant::ZERO, VIA, way(2), true).address, first);
    }

    #[test]
    fn strangers_ways_push_each_other_out_but_none_that_is_asked_for() {
        let mut routes = Routes::default();
        let at = |number: u32| Instant::from_millis(number.into());
        routes.configure(Instant::ZERO, VIA, way(u32::MAX), "hub");
        for number in 0..MAX_FOUND as u32 * 2 {
            routes.found(at(number), VIA, way(number), true);
        }
        assert_eq!((routes.by_link.len(), routes.by_way.len()), (MAX_FOUND + 1, MAX_FOUND + 1));
        assert!(routes.by_way.contains_key(&(VIA, way(u32::MAX))) && !routes.by_way.contains_key(&(VIA, way(0))));
    }

    #[test]
    fn a_relay_that_speaks_of_many_ways_pushes_out_none_over_another() {
        let mut rng = weft_units::Rng::new(1);
        let mut routes = Routes::default();
        let honest: Vec<(PeerId, Way)> =
            (0..200).map(|number| (PeerId(10 + rng.below(20) as u16), way(number))).collect();
        let before: Vec<_> =
            honest.iter().map(|(via, way)| routes.found(Instant::ZERO, *via, *way, true).address).collect();
        for number in 0..MAX_FOUND as u32 * 3 {
            let liar = PeerId(rng.below(3) as u16);
            routes.found(Instant::from_millis(1 + u64::from(number)), liar, way(1_000 + number), true);
        }
        assert_eq!(routes.by_link.len(), MAX_FOUND);
        let after: Vec<_> =
            honest.iter().map(|(via, way)| routes.found(Instant::ZERO, *via, *way, true).address).collect();
        assert_eq!(after, before);
    }

    #[test]
    fn numbers_are_given_again_only_when_their_route_is_gone() {
        let mut routes = Routes { serial: SERIALS - 3, ..Routes::default() };
        let first = routes.configure(Instant::ZERO, VIA, way(0), "hub");
        routes.serial = SERIALS - 4;
        let mut addresses: Vec<_> =
            (1..9).map(|number| routes.found(Instant::ZERO, VIA, way(number), true).address).collect();
        addresses.push(first);
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), 9, "no two routes have one address");
        assert!(routes.by_link.keys().all(|link| link.0 >= SERIALS));
    }
}
