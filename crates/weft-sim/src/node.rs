//! What the simulator drives, and what it gives into its hands.

use crate::agenda::Agendas;
use crate::link::Link;
use crate::{LinkId, Packet};
use weft_units::Instant;

/// A node of the network: a host, a router, or anything else that takes and sends packets.
pub trait Node {
    /// A packet has arrived that may not be for this node: sends it on if that moves no deadline, else gives it back, to be received.
    fn pass_on(&mut self, packet: Box<Packet>, _: &mut Ports<'_>) -> Option<Box<Packet>> {
        Some(packet)
    }

    /// A packet has arrived over `from`.
    fn receive(&mut self, now: Instant, from: LinkId, packet: Box<Packet>, ports: &mut Ports<'_>);

    /// The time it asked for has come.
    fn wake(&mut self, now: Instant, ports: &mut Ports<'_>);

    /// When it wants to be woken next. Asked after every call.
    fn deadline(&self) -> Option<Instant>;
}

/// The links a node can send on.
pub struct Ports<'a> {
    pub(crate) now: Instant,
    pub(crate) links: &'a mut [Link],
    pub(crate) agendas: &'a mut Agendas,
}

impl Ports<'_> {
    /// Sends a packet on a link; the link may drop it.
    ///
    /// # Panics
    /// When there is no such link.
    #[inline]
    pub fn send(&mut self, link: LinkId, packet: Box<Packet>) {
        let way = &mut self.links[link.index()];
        let next = way.next_arrival();
        way.offer(self.now, packet);
        if way.next_arrival() != next || way.is_managed() {
            self.agendas.set_link(link, way);
        }
    }

    /// A link, to look at.
    ///
    /// # Panics
    /// When there is no such link.
    pub fn link(&self, link: LinkId) -> &Link {
        &self.links[link.index()]
    }
}
