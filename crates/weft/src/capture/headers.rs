//! Length of a packet's headers, also of a packet that is cut.
//!
//! A capture of inner packets stores headers alone, so this module must never take payload for a header.

/// Protocol numbers (IANA) of the headers whose length this module determines.
mod number {
    pub const HOP_BY_HOP: u8 = 0;
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ROUTING: u8 = 43;
    pub const FRAGMENT: u8 = 44;
    pub const ICMPV6: u8 = 58;
    pub const DESTINATION: u8 = 60;
}

/// Maximum number of IPv6 extension headers that are followed. The headers are taken to end there.
const MAX_EXTENSIONS: usize = 8;

/// Returns the length of the IP header and the TCP, UDP or ICMP header at the start of `packet`, in bytes.
///
/// The result is at most the packet's length. For other protocols only the IP header is included. For bytes
/// that are no IP packet the result is 0.
pub fn headers_len(packet: &[u8]) -> usize {
    let end = match packet.first().map(|first| first >> 4) {
        Some(4) => v4(packet),
        Some(6) => v6(packet),
        _ => None,
    };
    end.unwrap_or(0).min(packet.len())
}

fn v4(packet: &[u8]) -> Option<usize> {
    let header_len = usize::from(packet.first()? & 0x0f) * 4;
    if header_len < 20 {
        return None;
    }
    let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]);
    match fragment & 0x1fff {
        0 => Some(header_len + transport(*packet.get(9)?, packet.get(header_len..).unwrap_or_default())),
        _ => Some(header_len),
    }
}

fn v6(packet: &[u8]) -> Option<usize> {
    let (mut next, mut at) = (*packet.get(6)?, 40);
    for _ in 0..MAX_EXTENSIONS {
        let Some([following, len, third, fourth]) = packet.get(at..).and_then(<[u8]>::first_chunk) else {
            return Some(at);
        };
        at += match next {
            number::HOP_BY_HOP | number::ROUTING | number::DESTINATION => 8 + 8 * usize::from(*len),
            number::FRAGMENT if u16::from_be_bytes([*third, *fourth]) & 0xfff8 != 0 => return Some(at + 8),
            number::FRAGMENT => 8,
            _ => return Some(at + transport(next, packet.get(at..).unwrap_or_default())),
        };
        next = *following;
    }
    Some(at)
}

/// Returns the length of a transport header, in bytes.
///
/// For a TCP header that is cut, it is the length of the fixed part.
fn transport(protocol: u8, segment: &[u8]) -> usize {
    match protocol {
        number::TCP => segment.get(12).map_or(20, |offset| (usize::from(offset >> 4) * 4).max(20)),
        number::UDP | number::ICMP | number::ICMPV6 => 8,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weft_wire::ip::{IpView, protocol};

    /// Returns an IPv4 packet with options, a protocol and the bytes behind the header.
    fn v4_packet(options: usize, protocol: u8, rest: &[u8]) -> Vec<u8> {
        let header_len = 20 + 4 * options;
        let mut packet = vec![0; header_len];
        packet[0] = 0x40 | (header_len / 4) as u8;
        packet[2..4].copy_from_slice(&((header_len + rest.len()) as u16).to_be_bytes());
        packet[9] = protocol;
        packet.extend(rest);
        packet
    }

    /// Returns an IPv6 packet with destination options of these lengths.
    fn v6_packet(extensions: &[u8], protocol: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x60;
        packet[6] = if extensions.is_empty() { protocol } else { number::DESTINATION };
        for (at, len) in extensions.iter().enumerate() {
            let next = if at + 1 == extensions.len() { protocol } else { number::DESTINATION };
            packet.extend([next, *len]);
            packet.resize(packet.len() + 6 + 8 * usize::from(*len), 0);
        }
        packet.extend(rest);
        let payload_len = (packet.len() - 40) as u16;
        packet[4..6].copy_from_slice(&payload_len.to_be_bytes());
        packet
    }

    fn packet() -> impl Strategy<Value = Vec<u8>> {
        let kind = prop_oneof![Just(6u8), Just(17), Just(1), Just(58), Just(47)];
        let rest = vec(any::<u8>(), 20..120);
        prop_oneof![
            (0..10usize, kind.clone(), rest.clone()).prop_map(|(options, kind, rest)| v4_packet(options, kind, &rest)),
            (vec(0..3u8, 0..4), kind, rest).prop_map(|(extensions, kind, rest)| v6_packet(&extensions, kind, &rest)),
        ]
    }

    proptest! {
        #[test]
        fn the_headers_end_where_the_payload_begins(packet in packet()) {
            let view = IpView::parse(&packet).unwrap();
            let transport = match view.protocol {
                // The header is random, so its data offset may be too small or too large.
                protocol::TCP => (usize::from(view.payload()[12] >> 4) * 4).max(20).min(view.payload().len()),
                protocol::UDP | protocol::ICMP | protocol::ICMPV6 => 8,
                _ => 0,
            };
            prop_assert_eq!(headers_len(&packet), view.header_len + transport);
        }

        #[test]
        fn a_cut_packet_has_no_longer_headers(packet in packet(), cut in any::<prop::sample::Index>()) {
            let cut = cut.index(packet.len());
            prop_assert!(headers_len(&packet[..cut]) <= headers_len(&packet).min(cut));
        }

        #[test]
        fn any_bytes_have_a_length(bytes in vec(any::<u8>(), 0..200)) {
            prop_assert!(headers_len(&bytes) <= bytes.len());
        }
    }

    #[test]
    fn payload_of_later_fragments_is_no_header() {
        let mut packet = v4_packet(0, number::UDP, &[7; 40]);
        packet[7] = 1;
        assert_eq!(headers_len(&packet), 20);
        let mut packet = v6_packet(&[], number::FRAGMENT, &[number::UDP, 0, 0, 8, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9]);
        assert_eq!(headers_len(&packet), 48);
        packet[43] = 0;
        assert_eq!(headers_len(&packet), 56);
    }
}
