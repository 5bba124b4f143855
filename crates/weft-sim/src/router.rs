//! A router: looks a packet's destination or label up and sends it on.

use crate::forward::{Forwarding, Spreader};
use crate::signalling::{Controllers, Meddler};
use crate::topology::{NextHop, RouteTable};
use crate::{Body, LinkId, Node, Packet, Ports};
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
#[derive(Debug)]
pub struct Router {
    /// By destination.
    routes: Vec<Route>,
    by_label: Vec<Option<LinkId>>,
    forwarding: Forwarding,
    rng: Rng,
    /// Where explicit rates are signalled.
    controllers: Option<Box<Controllers>>,
    /// Who makes of signals what they like.
    meddler: Option<Box<Meddler>>,
}

impl Router {
    /// A router with these routes.
    pub fn new(table: RouteTable, forwarding: Forwarding, rng: Rng) -> Router {
        let routes = table.by_destination.into_iter().map(Route::new).collect();
        Router { routes, by_label: table.by_label, forwarding, rng, controllers: None, meddler: None }
    }

    /// Explicit rates are signalled through it.
    pub fn set_controllers(&mut self, controllers: Controllers) {
        self.controllers = Some(Box::new(controllers));
    }

    /// Somebody sits in it who meddles with signals.
    pub fn set_meddler(&mut self, meddler: Meddler) {
        self.meddler = Some(Box::new(meddler));
    }

    /// When it wants to be woken.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.controllers.as_ref().and_then(|controllers| controllers.deadline())
    }

    /// Its time has come.
    pub(crate) fn wake(&mut self, ports: &mut Ports<'_>) {
        if let Some(controllers) = &mut self.controllers {
            controllers.wake(ports);
        }
    }

    /// A packet is for this node: gives it back, unless it was a sensor's.
    pub(crate) fn hear(&mut self, packet: Box<Packet>, ports: &mut Ports<'_>) -> Option<Box<Packet>> {
        let Body::Probe(probe) = packet.body else { return Some(packet) };
        let controllers = self.controllers.as_mut()?;
        if let Some(answer) = controllers.hear(ports.now, packet.source, probe) {
            self.forward(answer, ports);
        }
        None
    }

    /// Its part in signalling explicit rates, if it has one.
    pub fn controllers(&self) -> Option<&Controllers> {
        self.controllers.as_deref()
    }

    /// Sends a packet on its way; where there is none it vanishes.
    #[inline]
    pub(crate) fn forward(&mut self, mut packet: Box<Packet>, ports: &mut Ports<'_>) {
        if packet.label != 0 {
            match self.by_label.get(usize::from(packet.label)).copied().flatten() {
                Some(link) => return self.depart(link, packet, ports),
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

impl Node for Router {
    fn receive(&mut self, _: Instant, _: LinkId, packet: Box<Packet>, ports: &mut Ports<'_>) {
        self.forward(packet, ports);
    }

    fn wake(&mut self, _: Instant, _: &mut Ports<'_>) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }
}
