//! Defines the interface between the simulator and a node.

use crate::agenda::Agendas;
use crate::link::LinkDirectionState;
use crate::{LinkId, Packet};
use weft_units::Instant;

/// A node of the network: a host, a router, or anything else that receives and sends packets.
pub trait SimNode {
    /// Processes a packet that has arrived. Its destination may be this node or another one.
    ///
    /// If forwarding the packet changes no deadline of this node, the node forwards it. Otherwise it returns the
    /// packet, and the simulator passes the packet to [`SimNode::receive`].
    fn pass_on(&mut self, packet: Box<Packet>, _: &mut Ports<'_>) -> Option<Box<Packet>> {
        Some(packet)
    }

    /// Processes a packet that has arrived over `from`.
    fn receive(&mut self, now: Instant, from: LinkId, packet: Box<Packet>, ports: &mut Ports<'_>);

    /// Processes the expiry of the node's deadline.
    fn wake(&mut self, now: Instant, ports: &mut Ports<'_>);

    /// Returns the time at which the node must be woken.
    ///
    /// The simulator calls this function after every call of another function of the node.
    fn deadline(&self) -> Option<Instant>;
}

/// Access to the links on which a node can send.
pub struct Ports<'a> {
    pub(crate) now: Instant,
    pub(crate) links: &'a mut [LinkDirectionState],
    pub(crate) agendas: &'a mut Agendas,
}

impl Ports<'_> {
    /// Sends a packet on a link, which may drop it.
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
