//! A router: looks a packet's destination or label up and sends it on.

use crate::forward::{Forwarding, Spreader};
use crate::topology::RouteTable;
use crate::{LinkId, Node, Packet, Ports};
use weft_units::{Instant, Rng};

/// A router.
#[derive(Clone, Debug)]
pub struct Router {
    table: RouteTable,
    forwarding: Forwarding,
    spreaders: Vec<Spreader>,
    rng: Rng,
    unroutable_packets: u64,
}

impl Router {
    /// A router with these routes.
    pub fn new(table: RouteTable, forwarding: Forwarding, rng: Rng) -> Router {
        let spreaders = vec![Spreader::default(); table.by_destination.len()];
        Router { table, forwarding, spreaders, rng, unroutable_packets: 0 }
    }

    /// Gives it new routes.
    pub fn set_routes(&mut self, table: RouteTable) {
        self.spreaders = vec![Spreader::default(); table.by_destination.len()];
        self.table = table;
    }

    /// Packets for which there was no way.
    pub fn unroutable_packets(&self) -> u64 {
        self.unroutable_packets
    }

    /// Sends a packet on its way.
    pub(crate) fn forward(&mut self, mut packet: Packet, ports: &mut Ports<'_>) {
        if packet.label != 0 {
            match self.table.labelled(packet.label) {
                Some(link) => return ports.send(link, packet),
                None => packet.label = 0,
            }
        }
        let ways = self.table.towards(packet.destination);
        if ways.is_empty() {
            self.unroutable_packets += 1;
            return;
        }
        let spreader = &mut self.spreaders[packet.destination.index()];
        let way = ways[spreader.pick(self.forwarding, ways, &packet, &mut self.rng)];
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
