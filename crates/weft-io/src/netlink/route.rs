//! Reads the kernel's messages about routes by their bytes.
//!
//! A routing protocol changes very many routes at once. The general parser builds every attribute of each. This one
//! reads the few fields that matter and allocates nothing. All offsets are checked, so no message can cause a panic.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of the netlink header and the route's fixed fields, in bytes (`struct nlmsghdr`, `struct rtmsg`).
const FIXED_LEN: usize = 28;
/// Maximum number of devices whose routes a filter discards.
///
/// The filter has one instruction for each device, and its jumps skip at most 255 instructions.
pub(super) const MOST_FILTERED: usize = 32;
/// Load offset at which classic BPF finds a netlink attribute (`SKF_AD_OFF + SKF_AD_NLATTR`, `linux/filter.h`).
const FIND_ATTRIBUTE: u32 = (-0x1000_i32 + 12) as u32;
/// Attributes of a route that the netlink library has no constants for (`linux/rtnetlink.h`).
const RTA_VIA: u16 = 18;
const RTA_NH_ID: u16 = 30;
/// Flag of an entry of the IPv6 cache (`linux/rtnetlink.h`).
const RTM_F_CLONED: u32 = 0x200;

/// A route with a gateway out of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GatewayRoute {
    /// Number of the routing table that has the route.
    pub table: u32,
    /// Address of the destination. Bits beyond `prefix_len` are zero.
    pub destination: IpAddr,
    /// Length of the destination's prefix, in bits.
    pub prefix_len: u8,
    /// Program that made the route (`rtm_protocol`), such as 188 for OSPF.
    pub protocol: u8,
    /// The next router.
    pub gateway: IpAddr,
    /// Interface index of the device.
    pub index: u32,
    /// True if the route's next hop is an object in the kernel that several routes can share (`RTA_NH_ID`).
    pub has_object: bool,
}

/// A change of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteEvent {
    /// The route was added, or replaced one to the same destination.
    Added(GatewayRoute),
    /// The route was removed.
    Removed(GatewayRoute),
}

/// The fixed fields of a message about a route.
struct Fixed {
    kind: u16,
    is_ipv6: bool,
    destination_len: u8,
    source_len: u8,
    table: u8,
    protocol: u8,
    route_type: u8,
    flags: u32,
}

impl Fixed {
    fn read(bytes: &[u8]) -> Option<Fixed> {
        let fixed: &[u8; FIXED_LEN] = bytes.first_chunk()?;
        let is_ipv6 = match i32::from(fixed[16]) {
            libc::AF_INET => false,
            libc::AF_INET6 => true,
            _ => return None,
        };
        Some(Fixed {
            kind: u16::from_ne_bytes([fixed[4], fixed[5]]),
            is_ipv6,
            destination_len: fixed[17],
            source_len: fixed[18],
            table: fixed[20],
            protocol: fixed[21],
            route_type: fixed[23],
            flags: u32::from_ne_bytes([fixed[24], fixed[25], fixed[26], fixed[27]]),
        })
    }
}

/// True if a message is about a default route of any type.
pub(super) fn is_default(bytes: &[u8]) -> bool {
    Fixed::read(bytes).is_some_and(|fixed| fixed.destination_len == 0)
}

/// Splits `rest` into attributes, each a type and a value. Ends at the first invalid length.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let &[a, b, c, d] = rest.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([c, d]), value))
    })
}

fn number(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => value.first_chunk().map(|bytes: &[u8; 4]| Ipv4Addr::from(*bytes).into()),
        16 => value.first_chunk().map(|bytes: &[u8; 16]| Ipv6Addr::from(*bytes).into()),
        _ => None,
    }
}

/// Returns the gateway among a route's attributes, or `None`. An IPv4 route may have an IPv6 gateway (RFC 5549).
fn gateway<'a>(attributes: impl Iterator<Item = (u16, &'a [u8])>) -> Option<IpAddr> {
    let mut found = None;
    for (kind, value) in attributes {
        match kind {
            libc::RTA_GATEWAY => found = address(value),
            RTA_VIA => found = address(value.get(2..)?),
            _ => {}
        }
    }
    found
}

/// Returns device and gateway of a multipath route's first next hop that leaves by one of `devices`, or `None`.
fn multipath(mut rest: &[u8], devices: &[u32]) -> Option<(u32, IpAddr)> {
    // Each next hop is a `struct rtnexthop` (length, flags, weight and interface index) and then its attributes.
    loop {
        let fixed: &[u8; 8] = rest.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([fixed[0], fixed[1]]));
        let index = u32::from_ne_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
        let inner = rest.get(8..length)?;
        if devices.contains(&index)
            && let Some(gateway) = gateway(attributes(inner))
        {
            return Some((index, gateway));
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

/// Returns the change that a message reports, if the route leaves by one of the devices and has a gateway.
pub fn read(bytes: &[u8], devices: &[u32]) -> Option<RouteEvent> {
    let fixed = Fixed::read(bytes)?;
    let is_plain = fixed.source_len == 0 && fixed.route_type == libc::RTN_UNICAST && fixed.flags & RTM_F_CLONED == 0;
    let most = if fixed.is_ipv6 { 128 } else { 32 };
    if !is_plain || fixed.destination_len > most {
        return None;
    }
    let unspecified = if fixed.is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let (mut destination, mut table, mut index, mut hops) = (unspecified, u32::from(fixed.table), None, None);
    let mut has_object = false;
    let rest = bytes.get(FIXED_LEN..)?;
    for (kind, value) in attributes(rest) {
        match kind {
            libc::RTA_DST => destination = address(value).filter(|to| to.is_ipv6() == fixed.is_ipv6)?,
            libc::RTA_TABLE => table = number(value)?,
            libc::RTA_OIF => index = number(value),
            RTA_NH_ID => has_object = true,
            libc::RTA_MULTIPATH => hops = multipath(value, devices),
            _ => {}
        }
    }
    let single = index.filter(|index| devices.contains(index)).zip(gateway(attributes(rest)));
    let (index, gateway) = single.or(hops)?;
    let (prefix_len, protocol) = (fixed.destination_len, fixed.protocol);
    let route = GatewayRoute { table, destination, prefix_len, protocol, gateway, index, has_object };
    match fixed.kind {
        libc::RTM_NEWROUTE => Some(RouteEvent::Added(route)),
        libc::RTM_DELROUTE => Some(RouteEvent::Removed(route)),
        _ => None,
    }
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Returns a classic BPF program that discards events about routes out of these devices.
///
/// The kernel loads fields in network byte order, so constants are swapped to it.
pub(super) fn filter(devices: &[u32]) -> Vec<libc::sock_filter> {
    use libc::{
        BPF_ABS, BPF_H, BPF_IMM, BPF_IND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_LDX, BPF_MISC, BPF_RET, BPF_TAX, BPF_W,
    };
    let (count, equal) = (devices.len() as u8, BPF_JMP | BPF_JEQ | BPF_K);
    let kind = |kind: u16| u32::from(kind.to_be());
    let mut program = vec![
        instruction(BPF_LD | BPF_H | BPF_ABS, 0, 0, 4),
        instruction(equal, 1, 0, kind(libc::RTM_NEWROUTE)),
        instruction(equal, 0, count + 6, kind(libc::RTM_DELROUTE)),
        // The kernel's extension of BPF at [`FIND_ATTRIBUTE`] takes the first attribute's offset and the wanted
        // type, and returns the offset of that attribute, or 0.
        instruction(BPF_LDX | BPF_W | BPF_IMM, 0, 0, libc::RTA_OIF.into()),
        instruction(BPF_LD | BPF_W | BPF_IMM, 0, 0, FIXED_LEN as u32),
        instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0, FIND_ATTRIBUTE),
        instruction(equal, count + 2, 0, 0),
        instruction(BPF_MISC | BPF_TAX, 0, 0, 0),
        instruction(BPF_LD | BPF_W | BPF_IND, 0, 0, 4),
    ];
    for (at, device) in (0..).zip(devices) {
        program.push(instruction(equal, count - at, 0, device.to_be()));
    }
    program.push(instruction(BPF_RET | BPF_K, 0, 0, u32::MAX));
    program.push(instruction(BPF_RET | BPF_K, 0, 0, 0));
    program
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Appends an attribute and its padding.
    fn put(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
        bytes.extend((value.len() as u16 + 4).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }

    fn octets(address: IpAddr) -> Vec<u8> {
        match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        }
    }

    /// Returns the kernel's message about a route.
    ///
    /// The route's next hop is the only one, or the second of two.
    fn message(kind: u16, route: &GatewayRoute, is_multipath: bool) -> Vec<u8> {
        let mut bytes = vec![0; FIXED_LEN];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let family = if route.destination.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
        bytes[16..24].copy_from_slice(&[family as u8, route.prefix_len, 0, 0, 0, route.protocol, 0, libc::RTN_UNICAST]);
        put(&mut bytes, libc::RTA_TABLE, &route.table.to_ne_bytes());
        if route.prefix_len > 0 {
            put(&mut bytes, libc::RTA_DST, &octets(route.destination));
        }
        let via = if route.gateway.is_ipv6() == route.destination.is_ipv6() { libc::RTA_GATEWAY } else { RTA_VIA };
        if route.has_object {
            put(&mut bytes, RTA_NH_ID, &[9, 0, 0, 0]);
        }
        let mut gateway = if via == RTA_VIA { vec![10, 0] } else { Vec::new() };
        gateway.extend(octets(route.gateway));
        if !is_multipath {
            put(&mut bytes, via, &gateway);
            put(&mut bytes, libc::RTA_OIF, &route.index.to_ne_bytes());
            return bytes;
        }
        let mut hops = Vec::new();
        for index in [route.index.wrapping_add(1), route.index] {
            let mut inner = Vec::new();
            put(&mut inner, via, &gateway);
            hops.extend((inner.len() as u16 + 8).to_ne_bytes());
            hops.extend([0, 0]);
            hops.extend(index.to_ne_bytes());
            hops.extend(inner);
        }
        put(&mut bytes, libc::RTA_MULTIPATH, &hops);
        bytes
    }

    fn any_route() -> impl Strategy<Value = GatewayRoute> {
        let numbers = (any::<u32>(), any::<u32>(), any::<u8>(), any::<u8>(), any::<bool>());
        (numbers, any::<[u128; 2]>(), 0..3).prop_map(|((table, index, protocol, length, has_object), bits, family)| {
            let destination = match family {
                0 => IpAddr::V6(bits[0].into()),
                _ => IpAddr::V4((bits[0] as u32).into()),
            };
            let gateway = if family == 1 { IpAddr::V4((bits[1] as u32).into()) } else { IpAddr::V6(bits[1].into()) };
            let prefix_len = length % if family == 0 { 129 } else { 33 };
            let destination = match (prefix_len, destination) {
                (0, IpAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.into(),
                (0, IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
                (_, destination) => destination,
            };
            GatewayRoute { table, destination, prefix_len, protocol, gateway, index, has_object }
        })
    }

    proptest! {
        #[test]
        fn every_route_is_read_as_written_and_only_for_its_device(
            route in any_route(), is_multipath in any::<bool>(), is_added in any::<bool>(),
        ) {
            let kind = if is_added { libc::RTM_NEWROUTE } else { libc::RTM_DELROUTE };
            let bytes = message(kind, &route, is_multipath);
            let event = if is_added { RouteEvent::Added(route) } else { RouteEvent::Removed(route) };
            prop_assert_eq!(read(&bytes, &[7, route.index]), Some(event));
            prop_assert_eq!(read(&bytes, &[route.index.wrapping_add(2)]), None);
            prop_assert_eq!(is_default(&bytes), route.prefix_len == 0);
        }

        #[test]
        fn cut_or_changed_messages_never_panic(
            route in any_route(), is_multipath in any::<bool>(), cut in 0..200usize, at in 0..200usize, to in any::<u8>(),
        ) {
            let mut bytes = message(libc::RTM_NEWROUTE, &route, is_multipath);
            if let Some(byte) = bytes.get_mut(at) {
                *byte = to;
            }
            bytes.truncate(cut);
            let _ = read(&bytes, &[route.index]);
        }
    }
}
