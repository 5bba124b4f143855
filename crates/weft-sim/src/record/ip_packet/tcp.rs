//! Converts simulated TCP segments to real packets and back.

use super::{IPV4_HEADER_LEN, IpFields, PacketHeaders, ecn_of, has_right_checksum, parse_ipv4};
use crate::PacketEcn;
use crate::tcp::{Flags, SackBlock, TcpSegment};
use std::net::SocketAddrV4;
use weft_wire::WireError;
use weft_wire::ip::{L4Checksum, TcpFlags, TcpOption, TcpView, protocol};
use weft_wire::super_packet::partial_l4_checksum;

const NOP: u8 = 1;
const MAX_OPTIONS_LEN: usize = 40;
const MAX_WINDOW_SHIFT: u8 = 14;
/// Offset of the checksum in the TCP header, in bytes.
const CHECKSUM_AT: usize = 16;

const FLAGS: [(Flags, u8); 5] = [
    (Flags::SYN, TcpFlags::SYN),
    (Flags::FIN, TcpFlags::FIN),
    (Flags::ACK, TcpFlags::ACK),
    (Flags::ECE, TcpFlags::ECE),
    (Flags::CWR, TcpFlags::CWR),
];

/// Returns the least shift with which the window field can represent `window` bytes (RFC 7323 §2.2).
pub fn window_shift(window: u32) -> u8 {
    (0..MAX_WINDOW_SHIFT).find(|shift| window >> shift <= u32::from(u16::MAX)).unwrap_or(MAX_WINDOW_SHIFT)
}

/// One direction of a TCP connection, as its packets identify it.
///
/// Payload byte *n* of a simulated connection has the sequence number *initial + 1 + n*, because a SYN takes one
/// number. A FIN takes the number after the last byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpDirection {
    /// Address and port that send the segments.
    pub source: SocketAddrV4,
    /// Address and port that receive the segments.
    pub destination: SocketAddrV4,
    /// Initial sequence number of the end that sends.
    pub initial: u32,
    /// Initial sequence number of the end that receives.
    pub peer_initial: u32,
    /// Number of bits by which the sending end shifts the windows that it announces, at most 14.
    pub window_shift: u8,
    /// Maximum segment size that the SYN of the sending end announces.
    pub mss: u16,
    /// Minimum size of the segments' options, in bytes.
    ///
    /// No-operations fill it. They stand for options that the simulation lacks, such as time stamps.
    pub options_len: u8,
}

impl TcpDirection {
    /// Returns the headers of a packet with this segment alone.
    ///
    /// # Errors
    /// Fails with [`WireError::TooLong`] for a packet above 65535 bytes.
    pub fn headers(&self, segment: &TcpSegment, fields: IpFields) -> Result<PacketHeaders, WireError> {
        self.build(segment, fields, L4Checksum::Complete)
    }

    pub(super) fn build(
        &self,
        segment: &TcpSegment,
        fields: IpFields,
        checksum: L4Checksum,
    ) -> Result<PacketHeaders, WireError> {
        let options = self.options(segment);
        let header_len = TcpView::MIN_HEADER_LEN + options.len;
        let (from, to) = (self.source, self.destination);
        let mut headers = PacketHeaders::new(fields, protocol::TCP, from, to, header_len + segment.len as usize)?;
        headers.push(&from.port().to_be_bytes());
        headers.push(&to.port().to_be_bytes());
        headers.push(&self.wire_seq(segment).to_be_bytes());
        headers.push(&self.wire_ack(segment).to_be_bytes());
        headers.push(&[(header_len as u8 / 4) << 4, wire_flags(segment.flags)]);
        headers.push(&self.wire_window(segment).to_be_bytes());
        headers.push(&[0; 4]);
        headers.push(&options.bytes[..options.len]);
        let sum = match checksum {
            L4Checksum::Complete => headers.transport_checksum(protocol::TCP, from, to),
            L4Checksum::Partial => headers.pseudo_sum(protocol::TCP, from, to),
        };
        headers.patch(IPV4_HEADER_LEN + CHECKSUM_AT, sum);
        Ok(headers)
    }

    fn wire_seq(&self, segment: &TcpSegment) -> u32 {
        let after_syn = u32::from(!segment.flags.has(Flags::SYN));
        self.initial.wrapping_add(after_syn).wrapping_add(segment.seq as u32)
    }

    fn wire_ack(&self, segment: &TcpSegment) -> u32 {
        let ack = self.peer_initial.wrapping_add(1).wrapping_add(segment.ack as u32);
        if segment.flags.has(Flags::ACK) { ack } else { 0 }
    }

    /// Returns the value of the window field for a segment. It is not shifted in a SYN (RFC 7323 §2.2).
    fn wire_window(&self, segment: &TcpSegment) -> u16 {
        let shift = if segment.flags.has(Flags::SYN) { 0 } else { self.window_shift.min(MAX_WINDOW_SHIFT) };
        u16::try_from(segment.window >> shift).unwrap_or(u16::MAX)
    }

    fn options(&self, segment: &TcpSegment) -> Options {
        let mut options = Options { bytes: [NOP; MAX_OPTIONS_LEN], len: 0 };
        if segment.flags.has(Flags::SYN) {
            let [high, low] = self.mss.to_be_bytes();
            options.push(&[2, 4, high, low, NOP, NOP, 4, 2, NOP, 3, 3, self.window_shift.min(MAX_WINDOW_SHIFT)]);
        }
        let sacks = segment.sacks();
        if !sacks.is_empty() {
            options.push(&[NOP, NOP, 5, 2 + 8 * sacks.len() as u8]);
        }
        for block in sacks {
            let left = self.wire_ack(segment).wrapping_add(block.offset as u32);
            options.push(&left.to_be_bytes());
            options.push(&left.wrapping_add(block.len).to_be_bytes());
        }
        let least = usize::from(self.options_len).min(MAX_OPTIONS_LEN) / 4 * 4;
        options.len = options.len.max(least);
        options
    }
}

fn wire_flags(flags: Flags) -> u8 {
    FLAGS.iter().filter(|(flag, _)| flags.has(*flag)).fold(0, |bits, (_, bit)| bits | bit)
}

/// The TCP options of a segment that is being written.
///
/// Bytes that no option has been written to are no-operations.
struct Options {
    bytes: [u8; MAX_OPTIONS_LEN],
    len: usize,
}

impl Options {
    fn push(&mut self, option: &[u8]) {
        self.bytes[self.len..self.len + option.len()].copy_from_slice(option);
        self.len += option.len();
    }
}

/// Reads the packets of one direction of a TCP connection as simulated segments.
///
/// It extends each 32-bit sequence number to the 64-bit number that is nearest to the greatest one read so far.
#[derive(Clone, Copy, Debug)]
pub struct TcpReader {
    direction: TcpDirection,
    seq: u64,
    ack: u64,
}

impl TcpReader {
    /// Creates a reader for the packets of `direction`.
    pub fn new(direction: TcpDirection) -> TcpReader {
        TcpReader { direction, seq: 0, ack: 0 }
    }

    /// Reads a whole packet and checks its checksums. Returns the segment and the ECN field.
    ///
    /// # Errors
    /// Fails like [`weft_wire::ip::IpView::parse`]. It also fails with [`WireError::UnknownType`] for a packet that is
    /// not TCP over IPv4. It fails with [`WireError::Malformed`] for wrong checksums and for sequence numbers before
    /// the start of the connection.
    pub fn read(&mut self, packet: &[u8]) -> Result<(TcpSegment, PacketEcn), WireError> {
        self.parse(packet, L4Checksum::Complete)
    }

    pub(super) fn parse(&mut self, packet: &[u8], checksum: L4Checksum) -> Result<(TcpSegment, PacketEcn), WireError> {
        let ip = parse_ipv4(packet, protocol::TCP)?;
        let tcp = ip.tcp().ok_or(WireError::Malformed)?;
        let is_right = match checksum {
            L4Checksum::Complete => has_right_checksum(&ip),
            L4Checksum::Partial => {
                let field = ip.payload().get(CHECKSUM_AT..CHECKSUM_AT + 2);
                field == Some(&partial_l4_checksum(packet)?.to_be_bytes())
            }
        };
        if !is_right {
            return Err(WireError::Malformed);
        }
        Ok((self.segment(&tcp)?, ecn_of(ip.tos)))
    }

    fn segment(&mut self, tcp: &TcpView<'_>) -> Result<TcpSegment, WireError> {
        let flags = model_flags(tcp.flags);
        let is_syn = flags.has(Flags::SYN);
        let first = self.direction.initial.wrapping_add(u32::from(!is_syn));
        let seq = nearest(self.seq, tcp.seq.wrapping_sub(first)).ok_or(WireError::Malformed)?;
        let ack = if flags.has(Flags::ACK) {
            let first = self.direction.peer_initial.wrapping_add(1);
            nearest(self.ack, tcp.ack.wrapping_sub(first)).ok_or(WireError::Malformed)?
        } else {
            0
        };
        self.seq = self.seq.max(seq);
        self.ack = self.ack.max(ack);
        let shift = if is_syn { 0 } else { self.direction.window_shift.min(MAX_WINDOW_SHIFT) };
        let len = tcp.payload().len() as u32;
        let mut segment =
            TcpSegment { seq, ack, len, window: u32::from(tcp.window) << shift, flags, ..TcpSegment::default() };
        read_sacks(tcp, &mut segment);
        Ok(segment)
    }
}

fn model_flags(flags: TcpFlags) -> Flags {
    FLAGS.iter().filter(|(_, bit)| flags.any(*bit)).fold(Flags::default(), |all, (flag, _)| all.with(*flag))
}

/// Returns the number nearest to `last` whose low 32 bits are `low`. Returns `None` if that number is negative.
fn nearest(last: u64, low: u32) -> Option<u64> {
    last.checked_add_signed(i64::from(low.wrapping_sub(last as u32) as i32))
}

/// Reads the SACK blocks of a segment, as many as a simulated segment can store.
fn read_sacks(tcp: &TcpView<'_>, segment: &mut TcpSegment) {
    let blocks = tcp.options().find_map(|option| match option {
        TcpOption::Sack(blocks) => Some(blocks),
        _ => None,
    });
    for (slot, (left, right)) in segment.sacks.iter_mut().zip(blocks.into_iter().flatten()) {
        *slot = SackBlock { offset: left.wrapping_sub(tcp.ack) as i32, len: right.wrapping_sub(left) };
        segment.sack_count += 1;
    }
    if reports_duplicate(segment.sacks()) {
        segment.flags = segment.flags.with(Flags::DSACK);
    }
}

/// Returns true if the first SACK block reports a duplicate (RFC 2883 §4).
///
/// Such a block lies below the acknowledgment or within the second block.
fn reports_duplicate(sacks: &[SackBlock]) -> bool {
    let end = |block: &SackBlock| i64::from(block.offset) + i64::from(block.len);
    match sacks {
        [first, ..] if first.offset < 0 => true,
        [first, second, ..] => first.offset >= second.offset && end(first) <= end(second),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use weft_units::Rng;

    fn direction(rng: &mut Rng) -> TcpDirection {
        TcpDirection {
            source: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), rng.next_u64() as u16),
            destination: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), rng.next_u64() as u16),
            initial: rng.next_u64() as u32,
            peer_initial: rng.next_u64() as u32,
            window_shift: rng.below(15) as u8,
            mss: 1460,
            options_len: rng.below(41) as u8,
        }
    }

    /// Returns a random segment that a host could send in a connection after `progress` bytes.
    fn segment(rng: &mut Rng, direction: &TcpDirection, progress: u64) -> TcpSegment {
        let mut segment = TcpSegment {
            seq: progress + rng.below(1 << 30),
            ack: progress + rng.below(1 << 30),
            len: rng.below(3) as u32 * rng.below(1449) as u32 / 2,
            window: (rng.below(1 << 16) as u32) << direction.window_shift,
            flags: Flags::ACK,
            ..TcpSegment::default()
        };
        for flag in [Flags::FIN, Flags::ECE, Flags::CWR] {
            segment.flags = if rng.chance(0.2) { segment.flags.with(flag) } else { segment.flags };
        }
        segment.sack_count = rng.below(4) as u8;
        let count = usize::from(segment.sack_count);
        for slot in &mut segment.sacks[..count] {
            *slot = SackBlock { offset: 1 + rng.below(1 << 20) as i32, len: 1 + rng.below(1 << 20) as u32 };
        }
        if count > 0 && rng.chance(0.3) {
            let (first, len) = (progress.min(5000) as i32, 1 + rng.below(1448) as u32);
            segment.sacks[0] = SackBlock { offset: -first - len as i32, len };
        }
        if reports_duplicate(segment.sacks()) {
            segment.flags = segment.flags.with(Flags::DSACK);
        }
        segment
    }

    #[test]
    fn segments_come_back_over_many_wraps_of_the_sequence_number() {
        let mut rng = Rng::new(1);
        for _ in 0..100 {
            let direction = direction(&mut rng);
            let mut reader = TcpReader::new(direction);
            for step in 0..100_u64 {
                let sent = segment(&mut rng, &direction, step << 29);
                let ecn = [PacketEcn::NotEct, PacketEcn::Ect, PacketEcn::Ce][rng.below(3) as usize];
                let headers = direction.headers(&sent, IpFields { id: step as u16, ecn }).unwrap();
                let mut packet = Vec::new();
                headers.write_whole(&mut packet);
                assert_eq!(reader.read(&packet), Ok((sent, ecn)));
                let at = rng.below(packet.len() as u64) as usize;
                packet[at] ^= 0x10;
                assert!(reader.read(&packet).is_err(), "byte {at} was changed");
            }
        }
    }

    #[test]
    fn a_syn_has_the_options_hosts_send() {
        let direction = TcpDirection { options_len: 0, window_shift: 7, ..direction(&mut Rng::new(2)) };
        let syn = TcpSegment { window: 8 << 20, flags: Flags::SYN, ..TcpSegment::default() };
        let mut packet = Vec::new();
        direction.headers(&syn, IpFields::default()).unwrap().write_whole(&mut packet);
        let view = weft_wire::ip::IpView::parse(&packet).unwrap().tcp().unwrap();
        assert_eq!((view.seq, view.ack, view.window), (direction.initial, 0, u16::MAX));
        let options: Vec<TcpOption> = view.options().collect();
        let other = |kind, data: &'static [u8]| TcpOption::Other { kind, data };
        assert_eq!(options, [TcpOption::Mss(1460), other(4, &[]), other(3, &[7])]);
        let (read, _) = TcpReader::new(direction).read(&packet).unwrap();
        assert_eq!(read, TcpSegment { window: 65_535, ..syn });
    }

    #[test]
    fn the_shift_is_no_larger_than_the_window_needs() {
        let shifts = [0, 65_535, 65_536, 146_000, u32::MAX].map(window_shift);
        assert_eq!(shifts, [0, 0, 1, 2, 14]);
    }

    #[test]
    fn numbers_from_before_the_beginning_are_refused() {
        let direction = TcpDirection { initial: 1000, ..direction(&mut Rng::new(3)) };
        let early = TcpDirection { initial: 900, ..direction };
        let mut packet = Vec::new();
        let segment = TcpSegment { flags: Flags::ACK, ..TcpSegment::default() };
        early.headers(&segment, IpFields::default()).unwrap().write_whole(&mut packet);
        assert_eq!(TcpReader::new(direction).read(&packet), Err(WireError::Malformed));
    }
}
