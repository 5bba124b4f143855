//! Datagrams as the simulator's links carry them: real IPv4 and UDP headers before real bytes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_sim::{Body, FlowNo, NodeId, Packet, PacketEcn};
use weft_wire::checksum::checksum;
use weft_wire::ip::{IpView, protocol};

/// Length of IPv4 and UDP headers, in bytes.
pub(super) const HEADERS_LEN: usize = 28;
const IPV4_HEADER_LEN: usize = 20;
const HOP_LIMIT: u8 = 64;
const DONT_FRAGMENT: u8 = 0x40;
const CE: u8 = 0b11;

/// The addresses and TOS byte of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DatagramRoute {
    pub source: (Ipv4Addr, u16),
    pub destination: (Ipv4Addr, u16),
    pub tos: u8,
}

/// Returns the packet of one datagram.
///
/// Its UDP checksum is zero, "not computed" (RFC 768), because weft authenticates the payload.
pub(super) fn packet(route: &DatagramRoute, nodes: [NodeId; 2], datagram: &[u8]) -> Box<Packet> {
    let total_len = HEADERS_LEN + datagram.len();
    let mut bytes = Vec::with_capacity(total_len);
    let mut header = [0; IPV4_HEADER_LEN];
    header[0] = 0x45;
    header[1] = route.tos;
    header[2..4].copy_from_slice(&(total_len as u16).to_be_bytes());
    header[6] = DONT_FRAGMENT;
    header[8] = HOP_LIMIT;
    header[9] = protocol::UDP;
    header[12..16].copy_from_slice(&route.source.0.octets());
    header[16..20].copy_from_slice(&route.destination.0.octets());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(&route.source.1.to_be_bytes());
    bytes.extend_from_slice(&route.destination.1.to_be_bytes());
    bytes.extend_from_slice(&((total_len - IPV4_HEADER_LEN) as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(datagram);
    Box::new(Packet {
        flow: FlowNo(0),
        source: nodes[0],
        destination: nodes[1],
        bytes: total_len as u32,
        label: 0,
        ecn: ecn(route.tos),
        body: Body::Raw(bytes.into_boxed_slice()),
    })
}

fn ecn(tos: u8) -> PacketEcn {
    match tos & CE {
        0 => PacketEcn::NotEct,
        CE => PacketEcn::Ce,
        _ => PacketEcn::Ect,
    }
}

/// A datagram that has arrived.
pub(super) struct ReceivedDatagram<'a> {
    pub source: SocketAddr,
    pub destination: IpAddr,
    /// The TOS byte, with the congestion mark that a queue on the path may have set.
    pub tos: u8,
    pub datagram: &'a [u8],
}

/// Returns the destination port of a packet that [`packet`] made. `None` for any other packet.
pub(super) fn destination_port(packet: &Packet) -> Option<u16> {
    let Body::Raw(bytes) = &packet.body else { return None };
    IpView::parse(bytes).ok().map(|ip| ip.ports().1)
}

/// Reads a packet that [`packet`] made. Returns `None` for any other packet.
pub(super) fn read(packet: &Packet) -> Option<ReceivedDatagram<'_>> {
    let Body::Raw(bytes) = &packet.body else { return None };
    let ip = IpView::parse(bytes).ok().filter(|ip| ip.protocol == protocol::UDP)?;
    let marked = if packet.ecn == PacketEcn::Ce { CE } else { 0 };
    Some(ReceivedDatagram {
        source: SocketAddr::new(ip.src, ip.ports().0),
        destination: ip.dst,
        tos: ip.tos | marked,
        datagram: bytes.get(HEADERS_LEN..)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_come_back_with_marks_of_the_way() {
        let route = DatagramRoute {
            source: (Ipv4Addr::new(10, 77, 0, 1), 51_900),
            destination: (Ipv4Addr::new(10, 77, 0, 2), 51_901),
            tos: 0b10,
        };
        let mut sent = packet(&route, [NodeId(0), NodeId(1)], &[1, 2, 3]);
        assert_eq!((sent.bytes, sent.ecn), (31, PacketEcn::Ect));
        sent.ecn = PacketEcn::Ce;
        let arrived = read(&sent).unwrap();
        assert_eq!(arrived.source.to_string(), "10.77.0.1:51900");
        assert_eq!(arrived.destination.to_string(), "10.77.0.2");
        assert_eq!((arrived.tos, arrived.datagram), (0b11, &[1u8, 2, 3][..]));
    }

    #[test]
    fn packets_other_than_datagrams_are_not_read() {
        let route = DatagramRoute { source: (Ipv4Addr::LOCALHOST, 1), destination: (Ipv4Addr::LOCALHOST, 2), tos: 0 };
        let mut sent = packet(&route, [NodeId(0), NodeId(1)], &[1]);
        sent.body = Body::Raw(Box::new([0x45, 0, 0]));
        assert!(read(&sent).is_none());
    }
}
