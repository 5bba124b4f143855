//! Converts a host's packets to the form in which a kernel hands them to a TUN device, and back.
//!
//! Packets have real headers, and segmentation offload works in both directions.

use std::net::IpAddr;
use weft_sim::record::ip_packet::{
    IpFields, SuperSegment, TcpDirection, TcpReader, read_udp, udp_headers, window_shift,
};
use weft_sim::record::{endpoints, node_at};
use weft_sim::{Body, FlowNo, NodeId, Packet, PacketEcn};
use weft_units::{Instant, Rng};
use weft_wire::ip::{IpView, protocol};
use weft_wire::virtio::VNET_HEADER_LEN;

/// Largest window that a host announces, in bytes.
const WINDOW_MAX_BYTES: u32 = 1 << 24;
/// Length of the TCP timestamps option (RFC 7323), in bytes. All modelled hosts use this option.
const OPTIONS_LEN: u8 = 12;
const MSS: u16 = 1460;

/// The state with which the segments of one flow are converted to packets and back.
struct FlowCodec {
    out: TcpDirection,
    reader: TcpReader,
    next_id: u16,
}

/// Segments of one flow that leave as one super-packet.
struct PendingSuperPacket {
    flow: FlowNo,
    /// The host that sends, and the one that receives.
    ends: [NodeId; 2],
    ecn: PacketEcn,
    segments: SuperSegment,
}

/// Converts between the packets of the hosts behind a node and a TUN device's packets.
#[derive(Default)]
pub(super) struct InnerCodec {
    flows: Vec<Option<FlowCodec>>,
    pending: Option<PendingSuperPacket>,
    written: Vec<u8>,
}

impl InnerCodec {
    /// Processes a packet that a host sends.
    ///
    /// Calls `device` with each complete packet: its flow, and a virtio_net_hdr with the packet behind it.
    pub(super) fn send(&mut self, packet: &Packet, device: &mut impl FnMut(FlowNo, &[u8])) {
        match &packet.body {
            Body::Tcp(segment) => {
                if let Some(pending) = &mut self.pending
                    && (pending.flow, pending.ecn) == (packet.flow, packet.ecn)
                    && pending.segments.join(segment)
                {
                    return;
                }
                self.flush(device);
                let segments = SuperSegment::new(*segment);
                let (flow, ecn, ends) = (packet.flow, packet.ecn, [packet.source, packet.destination]);
                self.pending = Some(PendingSuperPacket { flow, ends, ecn, segments });
            }
            Body::Udp { number, sent_at } => {
                self.flush(device);
                self.send_udp(packet, *number, *sent_at, device);
            }
            // Hosts send packets of these kinds only in networks without engines.
            Body::Signalled(_) | Body::Probe(_) | Body::Raw(_) | Body::Edge(_) => {}
        }
    }

    fn send_udp(&mut self, packet: &Packet, number: u64, sent_at: Instant, device: &mut impl FnMut(FlowNo, &[u8])) {
        let (from, to) = endpoints(packet);
        let fields = IpFields { id: 0, ecn: packet.ecn };
        let Ok(headers) = udp_headers(from, to, fields, packet.bytes, number, sent_at) else { return };
        self.written.clear();
        self.written.resize(VNET_HEADER_LEN, 0);
        headers.write_whole(&mut self.written);
        device(packet.flow, &self.written);
    }

    /// Passes the segments that waited to be joined in a super-packet to `device`, at the end of an instant.
    pub(super) fn flush(&mut self, device: &mut impl FnMut(FlowNo, &[u8])) {
        let Some(PendingSuperPacket { flow, ends, ecn, segments }) = self.pending.take() else { return };
        let mut written = std::mem::take(&mut self.written);
        written.clear();
        let codec = self.codec(flow, ends);
        let fields = IpFields { id: codec.next_id, ecn };
        codec.next_id = codec.next_id.wrapping_add(segments.count() as u16);
        if segments.write(&codec.out, fields, &mut written).is_ok() {
            device(flow, &written);
        }
        self.written = written;
    }

    /// Reads a packet or super-packet that the engine writes to the device.
    ///
    /// `written` is the packet with a virtio_net_hdr before it. Returns `None` if no modelled host can have sent the
    /// packet.
    pub(super) fn receive(&mut self, written: &[u8]) -> Option<Box<Packet>> {
        self.read(written).map(|(packet, _)| Box::new(packet))
    }

    /// Reads a packet or super-packet that the engine writes to the device.
    ///
    /// Calls `each` with each packet in the form in which a link carries it: a super-packet is split into its
    /// segments.
    pub(super) fn receive_apart(&mut self, written: &[u8], mut each: impl FnMut(Box<Packet>)) {
        match self.read(written) {
            Some((packet, Some(segments))) => {
                let Packet { flow, source, destination, label, ecn, .. } = packet;
                let headers = packet.bytes.saturating_sub(segments.whole().len);
                for segment in segments.segments() {
                    let (bytes, body) = (headers + segment.len, Body::Tcp(segment));
                    each(Box::new(Packet { flow, source, destination, bytes, label, ecn, body }));
                }
            }
            Some((packet, None)) => each(Box::new(packet)),
            None => {}
        }
    }

    /// Reads a packet or super-packet that the engine writes. Returns its segments too if it is TCP.
    ///
    /// Returns `None` if no modelled host can have sent the packet.
    fn read(&mut self, written: &[u8]) -> Option<(Packet, Option<SuperSegment>)> {
        let packet = written.get(VNET_HEADER_LEN..)?;
        let ip = IpView::parse(packet).ok()?;
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (ip.src, ip.dst) else { return None };
        let (here, there) = (node_at(destination)?, node_at(source)?);
        let flow = flow_of(&ip, here, there)?;
        let whole = Packet { bytes: packet.len() as u32, ..blank(flow, there, here) };
        if ip.protocol == protocol::TCP {
            let (segments, ecn) = SuperSegment::read(&mut self.codec(flow, [here, there]).reader, written).ok()?;
            Some((Packet { ecn, body: Body::Tcp(*segments.whole()), ..whole }, Some(segments)))
        } else {
            let (body, ecn) = read_udp(packet).ok()?;
            Some((Packet { ecn, body, ..whole }, None))
        }
    }

    /// Returns the codec of a flow from the host `here` to the host `there`. Creates it if there is none.
    fn codec(&mut self, flow: FlowNo, [here, there]: [NodeId; 2]) -> &mut FlowCodec {
        if self.flows.len() <= flow.index() {
            self.flows.resize_with(flow.index() + 1, || None);
        }
        let blank = blank(flow, here, there);
        self.flows[flow.index()].get_or_insert_with(|| {
            let (source, destination) = endpoints(&blank);
            let out = TcpDirection {
                source,
                destination,
                initial: initial_sequence(flow, here),
                peer_initial: initial_sequence(flow, there),
                window_shift: window_shift(WINDOW_MAX_BYTES),
                mss: MSS,
                options_len: OPTIONS_LEN,
            };
            let back = TcpDirection {
                source: out.destination,
                destination: out.source,
                initial: out.peer_initial,
                peer_initial: out.initial,
                ..out
            };
            FlowCodec { out, reader: TcpReader::new(back), next_id: 0 }
        })
    }
}

/// Returns the flow of a packet from the host `there` to the host `here`, by the packet's ports.
fn flow_of(ip: &IpView<'_>, here: NodeId, there: NodeId) -> Option<FlowNo> {
    let (first, _) = endpoints(&blank(FlowNo(0), here.min(there), here.max(there)));
    let (source_port, destination_port) = ip.ports();
    let port = if there < here { source_port } else { destination_port };
    port.checked_sub(first.port()).map(|number| FlowNo(number.into()))
}

fn blank(flow: FlowNo, source: NodeId, destination: NodeId) -> Packet {
    let body = Body::Udp { number: 0, sent_at: Instant::ZERO };
    Packet { flow, source, destination, bytes: 0, label: 0, ecn: PacketEcn::NotEct, body }
}

/// Returns a flow's initial sequence number.
///
/// Both ends compute it, so neither end has to read the other's SYN first.
fn initial_sequence(flow: FlowNo, node: NodeId) -> u32 {
    Rng::new(u64::from(flow.0)).split(u64::from(node.0)).next_u64() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_sim::tcp::{Flags, TcpSegment};

    fn packet(flow: u32, body: Body, bytes: u32) -> Packet {
        Packet {
            flow: FlowNo(flow),
            source: NodeId(0),
            destination: NodeId(1),
            bytes,
            label: 0,
            ecn: PacketEcn::NotEct,
            body,
        }
    }

    fn segment(flow: u32, seq: u64, len: u32) -> Packet {
        let segment = TcpSegment { seq, len, flags: Flags::ACK, window: 1 << 20, ..TcpSegment::default() };
        packet(flow, Body::Tcp(segment), 52 + len)
    }

    fn through(packets: &[Packet]) -> Vec<Packet> {
        let mut device = Vec::new();
        let mut sender = InnerCodec::default();
        let mut write = |_: FlowNo, bytes: &[u8]| device.push(bytes.to_vec());
        packets.iter().for_each(|packet| sender.send(packet, &mut write));
        sender.flush(&mut write);
        let mut receiver = InnerCodec::default();
        device.iter().map(|written| *receiver.receive(written).unwrap()).collect()
    }

    #[test]
    fn consecutive_segments_arrive_as_one_and_flows_apart() {
        let received = through(&[segment(3, 0, 1000), segment(3, 1000, 1000), segment(4, 0, 500), segment(3, 2000, 1)]);
        let seen: Vec<(u32, u64, u32)> = received
            .iter()
            .map(|packet| match &packet.body {
                Body::Tcp(segment) => (packet.flow.0, segment.seq, segment.len),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(seen, [(3, 0, 2000), (4, 0, 500), (3, 2000, 1)]);
    }

    #[test]
    fn hosts_behind_one_node_keep_their_addresses() {
        let of = |flow, source| Packet { source: NodeId(source), ..segment(flow, 0, 500) };
        let received = through(&[of(0, 2), of(1, 3), of(2, 0)]);
        let seen: Vec<(u32, u32, u32)> =
            received.iter().map(|packet| (packet.flow.0, packet.source.0, packet.destination.0)).collect();
        assert_eq!(seen, [(0, 2, 1), (1, 3, 1), (2, 0, 1)]);
    }

    #[test]
    fn datagrams_keep_their_marks() {
        let sent_at = Instant::from_nanos(12_345);
        let received = through(&[packet(7, Body::Udp { number: 9, sent_at }, 128)]);
        assert_eq!((received[0].flow, received[0].bytes), (FlowNo(7), 128));
        assert!(matches!(received[0].body, Body::Udp { number: 9, sent_at: at } if at == sent_at));
    }
}
