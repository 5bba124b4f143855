//! Captures of simulated packets, which Wireshark opens.
//!
//! The capture stores only the headers of simulated packets, because all other bytes would be zeros. Initial sequence
//! numbers are zero. A capture therefore shows payload byte *n* as 1 + *n*, in relative and absolute numbers.

use super::endpoints;
use super::ip_packet::{IpFields, PacketHeaders, TcpDirection, udp_headers, window_shift};
use crate::tcp::TcpSegment;
use crate::{Body, FlowNo, NodeId, Packet};
use std::collections::BTreeMap;
use std::io::{self, Write};
use weft_pcapng::{Interface, PcapngWriter, Record};
use weft_units::Instant;

/// Length of IPv4 and TCP headers without options, in bytes.
const BARE_HEADERS: u32 = 40;
/// Maximum segment size that the SYNs in a capture announce, in bytes.
///
/// Derived: 1500 bytes less IPv4 and TCP headers without options.
const MSS: u16 = 1460;

/// Writes simulated packets to a capture, in which each interface stands for one direction of a link.
#[derive(Debug)]
pub struct SimulatedCapture<W> {
    writer: PcapngWriter<W>,
    /// Window shift of each end of each connection: the least that fits the first window of this end.
    shifts: BTreeMap<(FlowNo, NodeId), u8>,
}

impl<W: Write> SimulatedCapture<W> {
    /// Starts a capture without interfaces that is written to `out`.
    ///
    /// # Errors
    /// Fails if `out` cannot be written.
    pub fn new(out: W) -> io::Result<SimulatedCapture<W>> {
        Ok(SimulatedCapture { writer: PcapngWriter::new(out, "")?, shifts: BTreeMap::new() })
    }

    /// Adds an interface with a name such as `fibre.up`.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn add_interface(&mut self, name: &str) -> io::Result<Interface> {
        self.writer.add_interface(name, "", 0)
    }

    /// Writes a packet that passed the link of `interface` at `now`.
    ///
    /// # Errors
    /// Fails if the file cannot be written, or if no IP packet of this kind can have the packet's length.
    pub fn packet(&mut self, interface: Interface, now: Instant, packet: &Packet) -> io::Result<()> {
        match &packet.body {
            Body::Raw(bytes) => self.enhanced_packet(interface, now, bytes, bytes.len()),
            Body::Tcp(segment) => {
                let headers = self.tcp_headers(packet, segment)?;
                self.enhanced_packet(interface, now, &headers, headers.total_len())
            }
            // The rate signal of the packet is left out, because there may be no space for it beside the segment's
            // options.
            Body::Signalled(signalled) => {
                let bare = Packet { bytes: packet.bytes - signalled.rate_signal.bytes(), ..packet.clone() };
                let headers = self.tcp_headers(&bare, &signalled.segment)?;
                self.enhanced_packet(interface, now, &headers, headers.total_len())
            }
            Body::Udp { number, sent_at } => self.udp_packet(interface, now, packet, *number, *sent_at),
            // Messages of edges and sensors have no wire format in the simulator, so a datagram of the same length
            // represents them.
            Body::Edge(_) | Body::Probe(_) => self.udp_packet(interface, now, packet, 0, now),
        }
    }

    fn udp_packet(
        &mut self,
        interface: Interface,
        now: Instant,
        packet: &Packet,
        number: u64,
        sent_at: Instant,
    ) -> io::Result<()> {
        let (from, to) = endpoints(packet);
        let fields = IpFields { id: 0, ecn: packet.ecn };
        let headers = udp_headers(from, to, fields, packet.bytes, number, sent_at).map_err(io::Error::other)?;
        self.enhanced_packet(interface, now, &headers, headers.total_len())
    }

    /// Ends the capture and returns the destination of the file.
    ///
    /// # Errors
    /// Fails if buffered data cannot be written.
    pub fn finish(self) -> io::Result<W> {
        self.writer.finish()
    }

    fn tcp_headers(&mut self, packet: &Packet, segment: &TcpSegment) -> io::Result<PacketHeaders> {
        let (source, destination) = endpoints(packet);
        let shift = *self.shifts.entry((packet.flow, packet.source)).or_insert_with(|| window_shift(segment.window));
        let options_len = packet.bytes.saturating_sub(segment.len).saturating_sub(BARE_HEADERS);
        let direction = TcpDirection {
            source,
            destination,
            initial: 0,
            peer_initial: 0,
            window_shift: shift,
            mss: MSS,
            options_len: u8::try_from(options_len).unwrap_or(u8::MAX),
        };
        direction.headers(segment, IpFields { id: 0, ecn: packet.ecn }).map_err(io::Error::other)
    }

    fn enhanced_packet(&mut self, interface: Interface, now: Instant, captured: &[u8], len: usize) -> io::Result<()> {
        let record = Record { unix_ns: now.as_nanos(), is_outgoing: None, stored: captured, len };
        self.writer.packet(interface, &record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PacketEcn;
    use crate::tcp::{Flags, SackBlock};
    use std::process::{Command, Stdio};

    fn packet(source: u32, bytes: u32, body: Body) -> Packet {
        let (source, destination) = (NodeId(source), NodeId(1 - source));
        Packet { flow: FlowNo(5), source, destination, bytes, label: 0, ecn: PacketEcn::Ect, body }
    }

    /// Returns the packets of a whole TCP connection, then a datagram and a raw packet.
    ///
    /// The connection opens, loses a segment, receives two reports of the loss and closes.
    fn conversation() -> Vec<Packet> {
        let ack = TcpSegment { window: 1 << 20, flags: Flags::ACK, ..TcpSegment::default() };
        let data = |seq| TcpSegment { seq, len: 1448, ..ack };
        let with = |flags: Flags| ack.flags.with(flags);
        let sack = |offset, len| SackBlock { offset, len };
        let hole = TcpSegment { ack: 1448, sack_count: 1, sacks: [sack(1448, 1448); 3], ..ack };
        let duplicate = TcpSegment {
            ack: 4344,
            sack_count: 2,
            sacks: [sack(-1448, 1448), sack(1448, 1448), sack(0, 0)],
            flags: with(Flags::DSACK),
            ..ack
        };
        let mut raw = Vec::new();
        let udp = packet(0, 60, Body::Udp { number: 1, sent_at: Instant::ZERO });
        let (from, to) = endpoints(&udp);
        udp_headers(from, to, IpFields::default(), 200, 1, Instant::ZERO).unwrap().write_whole(&mut raw);
        vec![
            packet(0, 60, Body::Tcp(TcpSegment { flags: Flags::SYN, ..ack })),
            packet(1, 60, Body::Tcp(TcpSegment { flags: with(Flags::SYN), ..ack })),
            packet(0, 52, Body::Tcp(ack)),
            packet(0, 1500, Body::Tcp(data(0))),
            packet(0, 1500, Body::Tcp(data(2896))),
            packet(1, 64, Body::Tcp(hole)),
            packet(0, 1500, Body::Tcp(TcpSegment { flags: with(Flags::RETRANSMIT), ..data(1448) })),
            packet(1, 72, Body::Tcp(duplicate)),
            packet(0, 52, Body::Tcp(TcpSegment { seq: 4344, flags: with(Flags::FIN), ..ack })),
            packet(1, 52, Body::Tcp(TcpSegment { ack: 4345, flags: with(Flags::FIN), ..ack })),
            packet(0, 52, Body::Tcp(TcpSegment { seq: 4345, ack: 1, ..ack })),
            udp,
            packet(0, 200, Body::Raw(raw.into())),
        ]
    }

    fn capture() -> Vec<u8> {
        let mut writer = SimulatedCapture::new(Vec::new()).unwrap();
        let sides = [writer.add_interface("fibre.up").unwrap(), writer.add_interface("fibre.down").unwrap()];
        for (n, packet) in (0..).zip(conversation()) {
            let now = Instant::from_nanos(5_000_000_000 + n * 1_234_567);
            writer.packet(sides[packet.source.index()], now, &packet).unwrap();
        }
        writer.finish().unwrap()
    }

    fn u32_at(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(*bytes[at..].first_chunk().unwrap())
    }

    #[test]
    fn packets_keep_their_lengths_and_the_same_packets_give_the_same_bytes() {
        let bytes = capture();
        let (mut at, mut lengths) = (0, Vec::new());
        while at < bytes.len() {
            // Standard: in pcapng, a block of type 6 contains a packet. The packet's length stands behind interface,
            // time and stored length.
            if u32_at(&bytes, at) == 6 {
                lengths.push(u32_at(&bytes, at + 24));
            }
            at += u32_at(&bytes, at + 4) as usize;
        }
        assert_eq!(lengths, conversation().iter().map(|packet| packet.bytes).collect::<Vec<_>>());
        assert_eq!(bytes, capture());
    }

    #[test]
    fn impossible_lengths_are_refused() {
        let mut writer = SimulatedCapture::new(Vec::new()).unwrap();
        let interface = writer.add_interface("a").unwrap();
        let udp = Body::Udp { number: 0, sent_at: Instant::ZERO };
        assert!(writer.packet(interface, Instant::ZERO, &packet(0, 20, udp)).is_err());
        let huge = Body::Tcp(TcpSegment { len: 70_000, ..TcpSegment::default() });
        assert!(writer.packet(interface, Instant::ZERO, &packet(0, 70_040, huge)).is_err());
    }

    /// Returns the output of `tshark` with the values of these `fields` of a capture, one line for each packet.
    ///
    /// The result is `None` if `tshark` is not installed.
    fn tshark(capture: &[u8], fields: &[&str]) -> Option<String> {
        let mut command = Command::new("tshark");
        let check_sums = ["ip.check_checksum:TRUE", "tcp.check_checksum:TRUE", "udp.check_checksum:TRUE"];
        command.args(["-n", "-r", "-", "-T", "fields", "-E", "separator=|"]);
        command.args(check_sums.iter().flat_map(|preference| ["-o", preference]));
        command.args(fields.iter().flat_map(|field| ["-e", field]));
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut child) = spawned else {
            eprintln!("skipped: tshark is not installed");
            return None;
        };
        child.stdin.take().unwrap().write_all(capture).unwrap();
        Some(String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap())
    }

    #[test]
    fn wireshark_finds_nothing_malformed() {
        let bytes = capture();
        let fields = ["frame.interface_name", "frame.time_epoch", "frame.len", "ip.checksum.status", "_ws.malformed"];
        let Some(text) = tshark(&bytes, &fields) else { return };
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), conversation().len(), "{text}");
        assert_eq!(lines[0], "fibre.up|5.000000000|60|1|");
        assert_eq!(lines[1], "fibre.down|5.001234567|60|1|");
        assert!(lines.iter().all(|line| line.ends_with("|1|")), "{text}");
    }

    #[test]
    fn wireshark_follows_the_connection() {
        let bytes = capture();
        let fields = [
            "ip.src",
            "tcp.seq",
            "tcp.ack",
            "tcp.window_size",
            "tcp.options.sack_le",
            "tcp.analysis.retransmission",
            "tcp.options.sack.dsack",
            "tcp.checksum.status",
            "udp.checksum.status",
        ];
        let Some(text) = tshark(&bytes, &fields) else { return };
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "10.0.0.1|1|1|1048576||||1|", "{text}");
        assert_eq!(lines[5], "10.0.0.2|1|1449|1048576|2897|||1|", "{text}");
        assert!(lines[7].starts_with("10.0.0.2|1|4345|1048576|2897,5793|"), "{text}");
        assert_eq!(lines[12], "10.0.0.1||||||||1", "{text}");
    }
}
