//! Assigns IP addresses and ports to nodes and flows, which have only numbers in the simulator.

use crate::{FlowNo, NodeId, Packet};
use std::net::{Ipv4Addr, SocketAddrV4};

/// First of the ports that flows get: the start of the dynamic ports (RFC 6335 §6).
///
/// A packet analyser takes these ports for those of no particular application.
pub const FIRST_PORT: u16 = 49_152;
const PORTS: u32 = 16_384;

/// Returns the IP addresses and ports that a packet has in a capture: its source, then its destination.
///
/// A flow has the same 5-tuple in both directions. The first 2²⁸ flows between two nodes all have different 5-tuples.
pub fn endpoints(packet: &Packet) -> (SocketAddrV4, SocketAddrV4) {
    endpoints_of(packet.flow, packet.source, packet.destination)
}

/// Returns the addresses and ports of the packets that the node `source` sends to `destination` in a flow.
pub(crate) fn endpoints_of(flow: FlowNo, source: NodeId, destination: NodeId) -> (SocketAddrV4, SocketAddrV4) {
    let (low_port, high_port) = (port(flow.0), port(flow.0 / PORTS));
    let (source_port, destination_port) =
        if source <= destination { (low_port, high_port) } else { (high_port, low_port) };
    (SocketAddrV4::new(address_of(source), source_port), SocketAddrV4::new(address_of(destination), destination_port))
}

fn port(number: u32) -> u16 {
    FIRST_PORT + (number % PORTS) as u16
}

/// Returns the address of a node: 10.0.0.1 for node 0, and so on.
pub fn address_of(node: NodeId) -> Ipv4Addr {
    let [_, x, y, z] = node.0.wrapping_add(1).to_be_bytes();
    Ipv4Addr::new(10, x, y, z)
}

/// Returns the node with this address, if it is an address that [`address_of`] gives. Otherwise returns `None`.
pub fn node_at(address: Ipv4Addr) -> Option<NodeId> {
    let [net, x, y, z] = address.octets();
    let number = u32::from_be_bytes([0, x, y, z]).checked_sub(1)?;
    (net == 10).then_some(NodeId(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, PacketEcn};
    use weft_units::Instant;

    #[test]
    fn both_directions_are_one_flow_and_two_flows_are_two() {
        let packet = |flow, source, destination| Packet {
            flow: FlowNo(flow),
            source: NodeId(source),
            destination: NodeId(destination),
            bytes: 100,
            label: 0,
            ecn: PacketEcn::NotEct,
            body: Body::Udp { number: 0, sent_at: Instant::ZERO },
        };
        let (from, to) = endpoints(&packet(3, 0, 299));
        assert_eq!((from.to_string(), to.to_string()), ("10.0.0.1:49155".into(), "10.0.1.44:49152".into()));
        assert_eq!(endpoints(&packet(3, 299, 0)), (to, from));
        assert_ne!(endpoints(&packet(3 + PORTS, 0, 299)), (from, to));
    }
}
