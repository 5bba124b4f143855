//! The address of a route: to all that is above, a route is a link with one address behind it.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use weft_units::LinkId;
use weft_wire::hop::HOP_HEADER_LEN;
use weft_wire::relay;

/// Links from here on are routes; the kernel's are below.
const FIRST_LINK: u32 = 1 << 31;
/// Addresses of routes are of the discard-only prefix (RFC 6666): a datagram that leaves for one all the same goes nowhere.
const PREFIX: u16 = 0x0100;

/// IP and UDP header bytes.
const IPV4_UDP: usize = 28;
const IPV6_UDP: usize = 48;

/// The link that is a route.
pub(super) fn link_of(serial: u32) -> LinkId {
    LinkId(FIRST_LINK | serial)
}

/// The address of a route over so many relays, the first of which is reached over IPv4 or IPv6.
pub(super) fn address_of(link: LinkId, relays: usize, ipv4: bool) -> SocketAddr {
    let LinkId(serial) = link;
    let ip = Ipv6Addr::new(PREFIX, 0, 0, 0, u16::from(ipv4), relays as u16, (serial >> 16) as u16, serial as u16);
    SocketAddr::new(ip.into(), 0)
}

/// Of a route's address the number of relays and whether the first is reached over IPv4; `None` for any other.
fn parts(address: &SocketAddr) -> Option<(usize, bool)> {
    match (address.ip(), address.port()) {
        (IpAddr::V6(ip), 0) => match ip.segments() {
            [PREFIX, 0, 0, 0, ipv4, relays, ..] => Some((relays.into(), ipv4 == 1)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether it is the address of a route.
pub(crate) fn is_route(address: &SocketAddr) -> bool {
    parts(address).is_some()
}

/// How many relays lead to an address; `None` for one that is reached directly.
pub fn relays_to(address: &SocketAddr) -> Option<usize> {
    parts(address).map(|(relays, _)| relays)
}

/// Bytes of all headers before the datagram that is for the peer itself, IP's first, and behind it.
pub(crate) fn outer_header_len(remote: &SocketAddr) -> usize {
    match parts(remote) {
        Some((relays, true)) => IPV4_UDP + relay::overhead(relays),
        Some((relays, false)) => IPV6_UDP + relay::overhead(relays),
        None if remote.is_ipv4() => IPV4_UDP,
        None => IPV6_UDP,
    }
}

/// Room that relays need in the send buffer: before the datagrams that leave for an address, and between each and the next.
pub(crate) fn room_for_relays(remote: &SocketAddr) -> (usize, usize) {
    parts(remote).map_or((0, 0), |(relays, _)| (HOP_HEADER_LEN, relay::overhead(relays)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_what_its_route_costs() {
        let (narrow, wide) = (address_of(link_of(7), 1, true), address_of(link_of(0x12345), 3, false));
        assert_eq!(outer_header_len(&narrow), 28 + 10 + 4 + 16);
        assert_eq!(outer_header_len(&wide), 48 + 10 + 12 + 16);
        assert!(is_route(&narrow) && is_route(&wide) && narrow != address_of(link_of(8), 1, true));
        for other in ["192.0.2.1:51820", "[2001:db8::1]:51820", "[100::1]:51820"] {
            let other = other.parse().unwrap();
            assert!(!is_route(&other), "{other}");
        }
    }
}
