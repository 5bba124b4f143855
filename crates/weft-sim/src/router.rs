//! A router: looks a packet's destination or label up and sends it on.

use crate::forward::{Forwarding, Spreader};
use crate::topology::{NextHop, RouteTable};
use crate::{LinkId, Node, Packet, Ports};
use weft_units::{Instant, Rng};

/// The ways on to one destination.
#[derive(Clone, Debug)]
enum Route {
    None,
    One(NextHop),
    Several(Box<(Vec<NextHop>, Spreader)>),
}

impl Route {
    fn new(ways: Vec<NextHop>) -> Route {
        match ways[..] {
            [] => Route::None,
            [way] => Route::One(way),
            _ => Route::Several(Box::new((ways, Spreader::default()))),
        }
    }
}

/// A router.
#[derive(Clone, Debug)]
pub struct Router {
    /// By destination.
    routes: Vec<Route>,
    by_label: Vec<Option<LinkId>>,
    forwarding: Forwarding,
    rng: Rng,
}

impl Router {
    /// A router with these routes.
    pub fn new(table: RouteTable, forwarding: Forwarding, rng: Rng) -> Router {
        let routes = table.by_destination.into_iter().map(Route::new).collect();
        Router { routes, by_label: table.by_label, forwarding, rng }
    }

    /// Sends a packet on its way; where there is none it vanishes.
    #[inline]
    pub(crate) fn forward(&mut self, mut packet: Box<Packet>, ports: &mut Ports<'_>) {
        if packet.label != 0 {
            match self.by_label.get(usize::from(packet.label)).copied().flatten() {
                Some(link) => return ports.send(link, packet),
                None => packet.label = 0,
            }
        }
        let way = match self.routes.get_mut(packet.destination.index()) {
            Some(Route::One(way)) => *way,
            Some(Route::Several(several)) => {
                let (ways, spreader) = &mut **several;
                ways[spreader.pick(self.forwarding, ways, &packet, &mut self.rng)]
            }
            Some(Route::None) | None => return,
        };
        packet.label = way.label;
        ports.send(way.link, packet);
    }
}

impl Node for Router {
    fn receive(&mut self, _: Instant, _: LinkId, packet: Box<Packet>, ports: &mut Ports<'_>) {
        self.forward(packet, ports);
    }

    fn wake(&mut self, _: Instant, _: &mut Ports<'_>) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }
}
