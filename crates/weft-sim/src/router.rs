//! Models a router: it finds the next hop of a packet by destination or label, and sends the packet to it.

use crate::forward::{HopSelection, Spreader};
use crate::signalling::{Meddler, RouterControllers};
use crate::topology::{HopEntry, RouteTable};
use crate::{Body, LinkId, Packet, Ports, SimNode};
use weft_units::{Instant, Rng};

/// The next hops to one destination.
#[derive(Clone, Debug)]
enum RouterEntry {
    None,
    One(HopEntry),
    Several(Box<(Vec<HopEntry>, Spreader)>),
}

impl RouterEntry {
    fn new(ways: Vec<HopEntry>) -> RouterEntry {
        match ways[..] {
            [] => RouterEntry::None,
            [way] => RouterEntry::One(way),
            _ => RouterEntry::Several(Box::new((ways, Spreader::default()))),
        }
    }
}

/// A router.
#[derive(Debug)]
pub struct Router {
    /// The next hops to each destination, by the number of the destination node.
    routes: Vec<RouterEntry>,
    by_label: Vec<Option<LinkId>>,
    forwarding: HopSelection,
    rng: Rng,
    /// Controllers that grant explicit rates, one for each link. `None` if the router grants no rates.
    controllers: Option<Box<RouterControllers>>,
    /// Attacker that manipulates the rate signals of passing packets. `None`: there is no attacker.
    meddler: Option<Box<Meddler>>,
}

impl Router {
    /// Creates a router with these routes, which selects one of several next hops by the method `forwarding`.
    pub fn new(table: RouteTable, forwarding: HopSelection, rng: Rng) -> Router {
        let routes = table.by_destination.into_iter().map(RouterEntry::new).collect();
        Router { routes, by_label: table.by_label, forwarding, rng, controllers: None, meddler: None }
    }

    /// Makes the router grant explicit rates, with these controllers.
    pub fn set_controllers(&mut self, controllers: RouterControllers) {
        self.controllers = Some(Box::new(controllers));
    }

    /// Places an attacker in the router, which manipulates the rate signals of passing packets.
    pub fn set_meddler(&mut self, meddler: Meddler) {
        self.meddler = Some(Box::new(meddler));
    }

    /// Returns the time at which [`Router::wake`] must be called next. Returns `None` if nothing is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.controllers.as_ref().and_then(|controllers| controllers.deadline())
    }

    /// Sends the probes that are due, because the router's deadline has been reached.
    pub(crate) fn wake(&mut self, ports: &mut Ports<'_>) {
        if let Some(controllers) = &mut self.controllers {
            controllers.wake(ports);
        }
    }

    /// Processes a packet that is addressed to this node, if it is a message of a sensor. Returns any other packet.
    ///
    /// If the message needs an answer, the router sends it.
    pub(crate) fn receive(&mut self, packet: Box<Packet>, ports: &mut Ports<'_>) -> Option<Box<Packet>> {
        let Body::Probe(probe) = packet.body else { return Some(packet) };
        let controllers = self.controllers.as_mut()?;
        if let Some(answer) = controllers.receive(ports.now, packet.source, probe) {
            self.forward(answer, ports);
        }
        None
    }

    /// Returns the controllers that grant explicit rates. Returns `None` if the router grants no rates.
    pub fn controllers(&self) -> Option<&RouterControllers> {
        self.controllers.as_deref()
    }

    /// Sends a packet to its next hop. Drops it if there is no route.
    #[inline]
    pub(crate) fn forward(&mut self, mut packet: Box<Packet>, ports: &mut Ports<'_>) {
        if packet.label != 0 {
            match self.by_label.get(usize::from(packet.label)).copied().flatten() {
                Some(link) => return self.depart(link, packet, ports),
                None => packet.label = 0,
            }
        }
        let way = match self.routes.get_mut(packet.destination.index()) {
            Some(RouterEntry::One(way)) => *way,
            Some(RouterEntry::Several(several)) => {
                let (ways, spreader) = &mut **several;
                ways[spreader.pick(self.forwarding, ways, &packet, &mut self.rng)]
            }
            Some(RouterEntry::None) | None => return,
        };
        packet.label = way.label;
        self.depart(way.link, packet, ports);
    }

    #[inline]
    fn depart(&mut self, link: LinkId, mut packet: Box<Packet>, ports: &mut Ports<'_>) {
        if let Some(controllers) = &mut self.controllers {
            controllers.pass(link, &mut packet, ports);
        }
        match &mut self.meddler {
            Some(meddler) if matches!(packet.body, Body::Signalled(_)) => {
                meddler.meddle(packet, |packet| ports.send(link, packet));
            }
            _ => ports.send(link, packet),
        }
    }
}

impl SimNode for Router {
    fn receive(&mut self, _: Instant, _: LinkId, packet: Box<Packet>, ports: &mut Ports<'_>) {
        self.forward(packet, ports);
    }

    fn wake(&mut self, _: Instant, _: &mut Ports<'_>) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }
}
