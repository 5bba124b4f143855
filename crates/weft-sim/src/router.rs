//! A router: looks a packet's destination or label up and sends it on.

use crate::forward::{Forwarding, Spreader};
use crate::topology::{NextHop, RouteTable};
use crate::{LinkId, Node, Packet, Ports};
use weft_units::{Instant, Rng};

/// The ways on to one destination.
#[derive(Clone, Debug)]
struct Route {
    first: u32,
    count: u32,
    spreader: Spreader,
}

/// A router.
#[derive(Clone, Debug)]
pub struct Router {
    /// By destination.
    routes: Vec<Route>,
    /// All ways on, those to one destination together.
    ways: Vec<NextHop>,
    by_label: Vec<Option<LinkId>>,
    forwarding: Forwarding,
    rng: Rng,
}

impl Router {
    /// A router with these routes.
    pub fn new(table: RouteTable, forwarding: Forwarding, rng: Rng) -> Router {
        let mut router = Router { routes: Vec::new(), ways: Vec::new(), by_label: Vec::new(), forwarding, rng };
        router.set_routes(table);
        router
    }

    fn set_routes(&mut self, table: RouteTable) {
        self.ways.clear();
        self.routes.clear();
        for ways in table.by_destination {
            let (first, count) = (self.ways.len() as u32, ways.len() as u32);
            self.routes.push(Route { first, count, spreader: Spreader::default() });
            self.ways.extend(ways);
        }
        self.by_label = table.by_label;
    }

    /// Sends a packet on its way; where there is none it vanishes.
    #[inline]
    pub(crate) fn forward(&mut self, mut packet: Packet, ports: &mut Ports<'_>) {
        if packet.label != 0 {
            match self.by_label.get(usize::from(packet.label)).copied().flatten() {
                Some(link) => return ports.send(link, packet),
                None => packet.label = 0,
            }
        }
        let way = match self.routes.get_mut(packet.destination.index()) {
            Some(Route { first, count: 1, .. }) => self.ways[*first as usize],
            Some(Route { first, count, spreader }) if *count > 1 => {
                let ways = &self.ways[*first as usize..(*first + *count) as usize];
                ways[spreader.pick(self.forwarding, ways, &packet, &mut self.rng)]
            }
            _ => return,
        };
        packet.label = way.label;
        ports.send(way.link, packet);
    }
}

impl Node for Router {
    fn receive(&mut self, _: Instant, _: LinkId, packet: Packet, ports: &mut Ports<'_>) {
        self.forward(packet, ports);
    }

    fn wake(&mut self, _: Instant, _: &mut Ports<'_>) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }
}
