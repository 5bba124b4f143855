//! Defines the interface between the simulator and a node.

use crate::agenda::Agendas;
use crate::link::LinkDirectionState;
use crate::{LinkId, Packet};
use weft_units::Instant;

/// A node of the network: a host, a router, or anything else that receives and sends packets.
pub trait SimNode {
    /// Forwards a packet that has arrived, if this is simple. Its destination may be this node or another one.
    ///
    /// The node forwards the packet only if this changes no deadline of the node. Otherwise it returns the packet, and
    /// the simulator passes it to [`SimNode::receive`].
    fn pass_on(&mut self, packet: Box<Packet>, _: &mut Ports<'_>) -> Option<Box<Packet>> {
        Some(packet)
    }

    /// Processes a packet that has arrived over the link `from`.
    fn receive(&mut self, now: Instant, from: LinkId, packet: Box<Packet>, ports: &mut Ports<'_>);

    /// Processes the events of the node that are due, because its deadline has been reached.
    fn wake(&mut self, now: Instant, ports: &mut Ports<'_>);

    /// Returns the time at which [`SimNode::wake`] must be called next. Returns `None` if nothing is due.
    ///
    /// The simulator calls this function after every call of another function of the node.
    fn deadline(&self) -> Option<Instant>;
}

/// The links on which a node can send, for the time in which the simulator runs the node.
pub struct Ports<'a> {
    pub(crate) now: Instant,
    pub(crate) links: &'a mut [LinkDirectionState],
    pub(crate) agendas: &'a mut Agendas,
}

impl Ports<'_> {
    /// Sends a packet on the link with this number. The link may drop it.
    ///
    /// # Panics
    /// Panics if the link does not exist.
    #[inline]
    pub fn send(&mut self, link: LinkId, packet: Box<Packet>) {
        let way = &mut self.links[link.index()];
        let next = way.next_arrival();
        way.offer(self.now, packet);
        if way.next_arrival() != next || way.is_managed() {
            self.agendas.set_link(link, way);
        }
    }

    /// Returns a link for inspection.
    ///
    /// # Panics
    /// Panics if the link does not exist.
    pub fn link(&self, link: LinkId) -> &LinkDirectionState {
        &self.links[link.index()]
    }
}
