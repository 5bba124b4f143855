//! Addresses that stand for relayed routes.
//!
//! The layers above treat such a route as a link with one address behind it.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use weft_units::LinkId;
use weft_wire::hop::HOP_HEADER_LEN;
use weft_wire::relay;

/// First link number that stands for a relayed route.
///
/// The kernel's interface numbers, which are the numbers of the local links, are below it.
const FIRST_LINK: u32 = 1 << 31;
/// Prefix of the addresses of routes: the discard-only prefix (RFC 6666).
///
/// A datagram sent to such an address by mistake is discarded.
const PREFIX: u16 = 0x0100;

/// Length of the IPv4 and UDP headers together, in bytes.
const IPV4_UDP: usize = 28;
/// Length of the IPv6 and UDP headers together, in bytes.
const IPV6_UDP: usize = 48;

/// Returns the link number of the relayed route with the number `serial`.
pub fn link_of(serial: u32) -> LinkId {
    LinkId(FIRST_LINK | serial)
}

/// Returns the address that stands for the relayed route with the link number `link`.
///
/// `relays` is its number of relays. `ipv4` is true if the first relay is reached over IPv4.
pub fn address_of(link: LinkId, relays: usize, ipv4: bool) -> SocketAddr {
    let LinkId(serial) = link;
    let ip = Ipv6Addr::new(PREFIX, 0, 0, 0, u16::from(ipv4), relays as u16, (serial >> 16) as u16, serial as u16);
    SocketAddr::new(ip.into(), 0)
}

/// Returns the number of relays of a route, and true if its first relay is reached over IPv4.
///
/// `None` for an address that does not stand for a route.
fn parts(address: &SocketAddr) -> Option<(usize, bool)> {
    match (address.ip(), address.port()) {
        (IpAddr::V6(ip), 0) => match ip.segments() {
            [PREFIX, 0, 0, 0, ipv4, relays, ..] => Some((relays.into(), ipv4 == 1)),
            _ => None,
        },
        _ => None,
    }
}

/// True if the address stands for a relayed route.
pub fn is_route(address: &SocketAddr) -> bool {
    parts(address).is_some()
}

/// Returns the number of relays on the way to an address, or `None` if the address does not stand for a route.
pub fn relays_to(address: &SocketAddr) -> Option<usize> {
    parts(address).map(|(relays, _)| relays)
}

/// Returns the length of the IP, UDP and relay headers around a datagram to this address, in bytes.
pub fn outer_header_len(remote: &SocketAddr) -> usize {
    match parts(remote) {
        Some((relays, true)) => IPV4_UDP + relay::overhead(relays),
        Some((relays, false)) => IPV6_UDP + relay::overhead(relays),
        None if remote.is_ipv4() => IPV4_UDP,
        None => IPV6_UDP,
    }
}

/// Returns the space that relay headers need in the send buffer, in bytes.
///
/// The first value is before the first datagram, the second after each datagram.
pub fn room_for_relays(remote: &SocketAddr) -> (usize, usize) {
    parts(remote).map_or((0, 0), |(relays, _)| (HOP_HEADER_LEN, relay::overhead(relays)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_encodes_the_cost_of_its_route() {
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
