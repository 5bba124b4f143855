//! Converts the simulated datagrams of sources without congestion control to real packets and back.

use super::{IPV4_HEADER_LEN, IpFields, PacketHeaders, ecn_of, has_right_checksum, parse_ipv4};
use crate::{Body, PacketEcn};
use std::net::SocketAddrV4;
use weft_units::Instant;
use weft_wire::WireError;
use weft_wire::checksum::never_zero;
use weft_wire::ip::{UDP_HEADER_LEN, protocol};

/// Length of the mark at the beginning of the payload, in bytes.
///
/// The mark is the number of the datagram and its transmission time in nanoseconds, big-endian.
const MARK_LEN: usize = 16;

/// Returns the headers of a datagram of `ip_bytes` bytes in total, with its mark behind them.
///
/// They include as much of the mark as fits.
///
/// # Errors
/// Fails with [`WireError::NoRoom`] if `ip_bytes` is too small for the headers, and with [`WireError::TooLong`] above
/// 65535.
pub fn udp_headers(
    from: SocketAddrV4,
    to: SocketAddrV4,
    fields: IpFields,
    ip_bytes: u32,
    number: u64,
    sent_at: Instant,
) -> Result<PacketHeaders, WireError> {
    let udp_len = (ip_bytes as usize).checked_sub(IPV4_HEADER_LEN).ok_or(WireError::NoRoom)?;
    let payload_len = udp_len.checked_sub(UDP_HEADER_LEN).ok_or(WireError::NoRoom)?;
    let mut headers = PacketHeaders::new(fields, protocol::UDP, from, to, udp_len)?;
    headers.push(&from.port().to_be_bytes());
    headers.push(&to.port().to_be_bytes());
    headers.push(&(udp_len as u16).to_be_bytes());
    headers.push(&[0, 0]);
    let mut mark = [0; MARK_LEN];
    mark[..8].copy_from_slice(&number.to_be_bytes());
    mark[8..].copy_from_slice(&sent_at.as_nanos().to_be_bytes());
    headers.push(&mark[..payload_len.min(MARK_LEN)]);
    let sum = headers.transport_checksum(protocol::UDP, from, to);
    headers.patch(IPV4_HEADER_LEN + 6, never_zero(sum));
    Ok(headers)
}

/// Reads a whole packet that [`udp_headers`] describes. Returns the simulated datagram and the ECN field.
///
/// # Errors
/// Fails like [`weft_wire::ip::IpView::parse`]. It also fails with [`WireError::UnknownType`] for a packet that is not
/// such a datagram. It fails with [`WireError::Malformed`] for a wrong checksum, and with [`WireError::Truncated`] if the
/// mark is missing.
pub fn read_udp(packet: &[u8]) -> Result<(Body, PacketEcn), WireError> {
    let ip = parse_ipv4(packet, protocol::UDP)?;
    if !has_right_checksum(&ip) {
        return Err(WireError::Malformed);
    }
    let mark = ip.payload().get(UDP_HEADER_LEN..).ok_or(WireError::Truncated)?;
    let (number, rest) = mark.split_first_chunk::<8>().ok_or(WireError::Truncated)?;
    let sent_at = rest.first_chunk::<8>().ok_or(WireError::Truncated)?;
    let sent_at = Instant::from_nanos(u64::from_be_bytes(*sent_at));
    Ok((Body::Udp { number: u64::from_be_bytes(*number), sent_at }, ecn_of(ip.tos)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use weft_units::Rng;

    fn ends() -> (SocketAddrV4, SocketAddrV4) {
        (SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 49_152), SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 49_153))
    }

    #[test]
    fn datagrams_come_back() {
        let (from, to) = ends();
        let mut rng = Rng::new(1);
        for _ in 0..2_000 {
            let (number, sent_at) = (rng.next_u64(), Instant::from_nanos(rng.next_u64()));
            let ecn = [PacketEcn::NotEct, PacketEcn::Ect, PacketEcn::Ce][rng.below(3) as usize];
            let fields = IpFields { id: rng.next_u64() as u16, ecn };
            let bytes = 44 + rng.below(65_535 - 44 + 1) as u32;
            let mut packet = Vec::new();
            udp_headers(from, to, fields, bytes, number, sent_at).unwrap().write_whole(&mut packet);
            assert_eq!(packet.len(), bytes as usize);
            let (Body::Udp { number: n, sent_at: s }, e) = read_udp(&packet).unwrap() else { panic!("it is UDP") };
            assert_eq!((n, s, e), (number, sent_at, ecn));
            let last = packet.len() - 1;
            packet[last] ^= 1;
            assert_eq!(read_udp(&packet).unwrap_err(), WireError::Malformed);
        }
    }

    #[test]
    fn small_ones_have_no_mark_and_smaller_ones_are_refused() {
        let (from, to) = ends();
        let headers = |bytes| udp_headers(from, to, IpFields::default(), bytes, 7, Instant::ZERO);
        let mut packet = Vec::new();
        headers(40).unwrap().write_whole(&mut packet);
        assert_eq!(read_udp(&packet).unwrap_err(), WireError::Truncated);
        assert_eq!(headers(27).unwrap_err(), WireError::NoRoom);
        assert_eq!(headers(65_536).unwrap_err(), WireError::TooLong);
    }
}
