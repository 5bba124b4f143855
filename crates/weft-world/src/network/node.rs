//! A node of a network: a host and a router.
//!
//! On an overlay node an engine is between host and router. On a client of an overlay node an OpenVPN tunnel is.

use crate::site::{EngineSite, OPENVPN_BYTES, PlainSite};
use weft_sim::edge::TunnelEdge;
use weft_sim::host::SimHost;
use weft_sim::{Body, LinkId, Packet, Ports, Router, SimNode, Station};
use weft_units::Instant;

/// One node of a network.
#[expect(clippy::large_enum_variant, reason = "most nodes are stations, and every packet passes one")]
pub enum NetworkNode {
    /// A node without weft.
    Station(Station),
    /// A node with an engine, through which the host sends all its packets.
    Gate(Box<EngineGateway>),
    /// A node whose host sends all its packets through OpenVPN.
    Client(Box<TunnelledStation>),
}

/// A host that sends through an OpenVPN tunnel, and a router that forwards the packets of other nodes.
pub struct TunnelledStation {
    station: Station,
    site: PlainSite,
}

/// A host that sends through an engine, and a router that forwards the packets of other nodes.
pub struct EngineGateway {
    station: Station,
    site: EngineSite,
}

impl NetworkNode {
    /// Returns a node whose host sends and receives all packets through the engine of `site`.
    ///
    /// The own host of `station` sends nothing.
    pub fn gate(station: Station, site: EngineSite) -> NetworkNode {
        NetworkNode::Gate(Box::new(EngineGateway { station, site }))
    }

    /// Returns a node whose host sends and receives all packets through OpenVPN over `link`.
    ///
    /// The own host of `station` sends nothing.
    pub fn client(station: Station, link: LinkId) -> NetworkNode {
        NetworkNode::Client(Box::new(TunnelledStation { station, site: PlainSite::new(link, OPENVPN_BYTES) }))
    }

    /// Returns the node's host.
    pub fn host(&self) -> &SimHost {
        match self {
            NetworkNode::Station(station) => station.host(),
            NetworkNode::Gate(gate) => gate.site.host(),
            NetworkNode::Client(client) => client.site.host(),
        }
    }

    /// Returns the node's host for changes.
    pub fn host_mut(&mut self) -> &mut SimHost {
        match self {
            NetworkNode::Station(station) => station.host_mut(),
            NetworkNode::Gate(gate) => gate.site.host_mut(),
            NetworkNode::Client(client) => client.site.host_mut(),
        }
    }

    /// Returns the site with the node's engine, or `None` if the node has no engine.
    pub fn site(&self) -> Option<&EngineSite> {
        match self {
            NetworkNode::Station(_) | NetworkNode::Client(_) => None,
            NetworkNode::Gate(gate) => Some(&gate.site),
        }
    }

    /// Returns the site with the node's engine, to change it, or `None` if the node has no engine.
    pub fn site_mut(&mut self) -> Option<&mut EngineSite> {
        match self {
            NetworkNode::Station(_) | NetworkNode::Client(_) => None,
            NetworkNode::Gate(gate) => Some(&mut gate.site),
        }
    }

    /// Returns the node's router.
    pub fn router(&self) -> &Router {
        self.station().router()
    }

    /// Returns the node's router for changes.
    pub fn router_mut(&mut self) -> &mut Router {
        self.station_mut().router_mut()
    }

    /// Makes the node a tunnel edge of the network's VPNs.
    pub fn set_edge(&mut self, edge: TunnelEdge) {
        self.station_mut().set_edge(edge);
    }

    /// Returns the node's tunnel edge, or `None` if it is none.
    pub fn edge(&self) -> Option<&TunnelEdge> {
        self.station().edge()
    }

    /// Returns the node's tunnel edge, to change it, or `None` if it is none.
    pub fn edge_mut(&mut self) -> Option<&mut TunnelEdge> {
        self.station_mut().edge_mut()
    }

    fn station(&self) -> &Station {
        match self {
            NetworkNode::Station(station) => station,
            NetworkNode::Gate(gate) => &gate.station,
            NetworkNode::Client(client) => &client.station,
        }
    }

    fn station_mut(&mut self) -> &mut Station {
        match self {
            NetworkNode::Station(station) => station,
            NetworkNode::Gate(gate) => &mut gate.station,
            NetworkNode::Client(client) => &mut client.station,
        }
    }
}

impl SimNode for NetworkNode {
    #[inline]
    fn pass_on(&mut self, packet: Box<Packet>, ports: &mut Ports<'_>) -> Option<Box<Packet>> {
        match self {
            // Only the link of arrival shows whether the packet comes from a client. `receive` is told this link, and
            // this function is not, so the packet is left to `receive`.
            NetworkNode::Gate(gate) if gate.site.has_clients() && !matches!(packet.body, Body::Raw(_)) => Some(packet),
            _ => self.station_mut().pass_on(packet, ports),
        }
    }

    #[inline]
    fn receive(&mut self, now: Instant, from: LinkId, packet: Box<Packet>, ports: &mut Ports<'_>) {
        match self {
            NetworkNode::Station(station) => station.receive(now, from, packet, ports),
            NetworkNode::Gate(gate) if matches!(packet.body, Body::Raw(_)) => {
                gate.site.receive(now, from, &packet, ports)
            }
            NetworkNode::Gate(gate) if gate.site.has_client_behind(from) => {
                gate.site.receive_from_client(now, packet, ports)
            }
            NetworkNode::Gate(gate) => gate.station.receive(now, from, packet, ports),
            NetworkNode::Client(client) => client.site.receive(now, from, packet, ports),
        }
    }

    fn wake(&mut self, now: Instant, ports: &mut Ports<'_>) {
        match self {
            NetworkNode::Station(station) => station.wake(now, ports),
            NetworkNode::Gate(gate) => {
                gate.station.wake(now, ports);
                gate.site.wake(now, ports);
            }
            NetworkNode::Client(client) => {
                client.station.wake(now, ports);
                client.site.wake(now, ports);
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            NetworkNode::Station(station) => station.deadline(),
            NetworkNode::Gate(gate) => gate.station.deadline().into_iter().chain(gate.site.deadline()).min(),
            NetworkNode::Client(client) => client.station.deadline().into_iter().chain(client.site.deadline()).min(),
        }
    }
}
