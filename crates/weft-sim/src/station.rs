//! Combines a host and a router in one node.

use crate::edge::TunnelEdge;
use crate::host::{PacketSink, SimHost};
use crate::router::Router;
use crate::{LinkId, NodeId, Packet, Ports, SimNode};
use weft_units::Instant;

/// A host and its router in one node. It may also be an edge of VPNs.
///
/// The station passes packets for its host to the host, and its router forwards all others. If it is an edge, packets
/// between hosts of a VPN first pass through the edge.
pub struct Station {
    id: NodeId,
    router: Router,
    host: SimHost,
    edge: Option<Box<TunnelEdge>>,
}

struct Uplink<'a, 'b> {
    router: &'a mut Router,
    ports: &'a mut Ports<'b>,
}

impl PacketSink for Uplink<'_, '_> {
    fn send(&mut self, packet: Box<Packet>) {
        self.router.forward(packet, self.ports);
    }
}

impl Station {
    /// Creates the station with the node number `id`, which is no edge.
    pub fn new(id: NodeId, router: Router, host: SimHost) -> Station {
        Station { id, router, host, edge: None }
    }

    /// Makes the station an edge of VPNs.
    pub fn set_edge(&mut self, edge: TunnelEdge) {
        self.edge = Some(Box::new(edge));
    }

    /// Returns the edge. Returns `None` if the station is none.
    pub fn edge(&self) -> Option<&TunnelEdge> {
        self.edge.as_deref()
    }

    /// Returns the edge for changes. Returns `None` if the station is none.
    pub fn edge_mut(&mut self) -> Option<&mut TunnelEdge> {
        self.edge.as_deref_mut()
    }

    /// Returns the router of the station.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Returns the router of the station for changes.
    pub fn router_mut(&mut self) -> &mut Router {
        &mut self.router
    }

    /// Returns the host of the station.
    pub fn host(&self) -> &SimHost {
        &self.host
    }

    /// Returns the host of the station for changes.
    pub fn host_mut(&mut self) -> &mut SimHost {
        &mut self.host
    }
}

impl SimNode for Station {
    #[inline]
    fn pass_on(&mut self, packet: Box<Packet>, ports: &mut Ports<'_>) -> Option<Box<Packet>> {
        if packet.destination == self.id || self.edge.is_some() {
            return Some(packet);
        }
        self.router.forward(packet, ports);
        None
    }

    #[inline]
    fn receive(&mut self, now: Instant, _: LinkId, packet: Box<Packet>, ports: &mut Ports<'_>) {
        let packet = if packet.destination == self.id { self.router.receive(packet, ports) } else { Some(packet) };
        let Some(packet) = packet else { return };
        let uplink = &mut Uplink { router: &mut self.router, ports };
        let packet = match &mut self.edge {
            None => packet,
            Some(edge) => match edge.receive(now, packet, uplink) {
                None => return,
                Some(packet) => packet,
            },
        };
        if packet.destination == self.id {
            self.host.receive(now, packet, uplink);
        } else {
            uplink.send(packet);
        }
    }

    fn wake(&mut self, now: Instant, ports: &mut Ports<'_>) {
        self.router.wake(ports);
        let uplink = &mut Uplink { router: &mut self.router, ports };
        if let Some(edge) = &mut self.edge {
            edge.wake(now, uplink);
        }
        self.host.wake(now, uplink);
    }

    fn deadline(&self) -> Option<Instant> {
        let edge = self.edge.as_ref().and_then(|edge| edge.deadline());
        edge.into_iter().chain(self.host.deadline()).chain(self.router.deadline()).min()
    }
}
