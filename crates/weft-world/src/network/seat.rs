//! A node of a network: a host and a router, in an overlay with an engine between the two.

use crate::site::EngineSite;
use weft_sim::edge::Edge;
use weft_sim::host::Host;
use weft_sim::{Body, LinkId, Node, Packet, Ports, Router, Station};
use weft_units::Instant;

/// One of a network's nodes.
#[expect(clippy::large_enum_variant, reason = "most nodes are stations, and every packet passes one")]
pub enum Seat {
    /// Without weft.
    Station(Station),
    /// With an engine, by which all goes that its host sends.
    Gate(Box<Gate>),
}

/// A host behind an engine, and a router for what is for others.
pub struct Gate {
    station: Station,
    site: EngineSite,
}

impl Seat {
    /// A node with an engine and the hosts behind it; the station's own host stays silent.
    pub fn gate(station: Station, site: EngineSite) -> Seat {
        Seat::Gate(Box::new(Gate { station, site }))
    }

    /// Its host.
    pub fn host(&self) -> &Host {
        match self {
            Seat::Station(station) => station.host(),
            Seat::Gate(gate) => gate.site.host(),
        }
    }

    /// Its host, to change.
    pub fn host_mut(&mut self) -> &mut Host {
        match self {
            Seat::Station(station) => station.host_mut(),
            Seat::Gate(gate) => gate.site.host_mut(),
        }
    }

    /// Its engine, if it has one.
    pub fn site(&self) -> Option<&EngineSite> {
        match self {
            Seat::Station(_) => None,
            Seat::Gate(gate) => Some(&gate.site),
        }
    }

    /// Its router.
    pub fn router(&self) -> &Router {
        self.station().router()
    }

    /// Its router, to change.
    pub fn router_mut(&mut self) -> &mut Router {
        self.station_mut().router_mut()
    }

    /// Makes it an edge.
    pub fn set_edge(&mut self, edge: Edge) {
        self.station_mut().set_edge(edge);
    }

    /// Its edge, if it is one.
    pub fn edge(&self) -> Option<&Edge> {
        self.station().edge()
    }

    /// Its edge, to change.
    pub fn edge_mut(&mut self) -> Option<&mut Edge> {
        self.station_mut().edge_mut()
    }

    fn station(&self) -> &Station {
        match self {
            Seat::Station(station) => station,
            Seat::Gate(gate) => &gate.station,
        }
    }

    fn station_mut(&mut self) -> &mut Station {
        match self {
            Seat::Station(station) => station,
            Seat::Gate(gate) => &mut gate.station,
        }
    }
}

impl Node for Seat {
    #[inline]
    fn pass_on(&mut self, packet: Box<Packet>, ports: &mut Ports<'_>) -> Option<Box<Packet>> {
        self.station_mut().pass_on(packet, ports)
    }

    #[inline]
    fn receive(&mut self, now: Instant, from: LinkId, packet: Box<Packet>, ports: &mut Ports<'_>) {
        match self {
            Seat::Station(station) => station.receive(now, from, packet, ports),
            Seat::Gate(gate) if matches!(packet.body, Body::Raw(_)) => gate.site.receive(now, from, &packet, ports),
            Seat::Gate(gate) => gate.station.receive(now, from, packet, ports),
        }
    }

    fn wake(&mut self, now: Instant, ports: &mut Ports<'_>) {
        match self {
            Seat::Station(station) => station.wake(now, ports),
            Seat::Gate(gate) => {
                gate.station.wake(now, ports);
                gate.site.wake(now, ports);
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Seat::Station(station) => station.deadline(),
            Seat::Gate(gate) => gate.station.deadline().into_iter().chain(gate.site.deadline()).min(),
        }
    }
}
