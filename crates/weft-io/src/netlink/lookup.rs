//! Asks the kernel whether a device has a route to a destination.

use super::channel::NetlinkSocket;
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::route::{RouteAttribute, RouteFlags, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::io;
use std::net::IpAddr;

/// Errors that mean "no route": none exists, or it has type unreachable, blackhole or prohibit.
const NO_ROUTE: [i32; 5] = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EINVAL, libc::EACCES, libc::ESRCH];

/// Looks up routes in this network namespace. No privilege is needed.
pub struct RouteLookup {
    channel: NetlinkSocket,
}

impl RouteLookup {
    /// Opens a netlink socket.
    ///
    /// # Errors
    /// Fails if the kernel refuses the socket.
    pub fn open() -> io::Result<RouteLookup> {
        Ok(RouteLookup { channel: NetlinkSocket::open(&[])? })
    }

    /// True if rules and tables route a packet to `destination` out of the device with index `index`.
    ///
    /// `source` is the packet's source address, if it is set before the lookup.
    ///
    /// The lookup sends nothing to `destination`. An IPv6 lookup may make the kernel probe a router of the route that
    /// it finds (RFC 4191 §3.5).
    ///
    /// # Errors
    /// Fails if the kernel cannot be asked. A missing route is not an error.
    pub fn has_route(&mut self, destination: IpAddr, index: u32, source: Option<IpAddr>) -> io::Result<bool> {
        let mut is_found = false;
        let asked = self.channel.get(RouteNetlinkMessage::GetRoute(question(destination, index, source)), |payload| {
            if let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) = payload {
                is_found = matches!(route.header.kind, RouteType::Unicast | RouteType::Local);
            }
        });
        match asked {
            Err(why) if why.raw_os_error().is_some_and(|number| NO_ROUTE.contains(&number)) => Ok(false),
            result => result.map(|()| is_found),
        }
    }
}

fn question(destination: IpAddr, index: u32, source: Option<IpAddr>) -> RouteMessage {
    let length = if destination.is_ipv4() { 32 } else { 128 };
    let mut message = RouteMessage::default();
    message.header.address_family = if destination.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.destination_prefix_length = length;
    // Without a matching route, IPv4 assumes that every address is on the device's link. With the flag
    // RTM_F_FIB_MATCH the kernel returns only actual routes. IPv6 with a device never makes that assumption, and
    // with the flag its answer would ignore the device.
    if destination.is_ipv4() {
        message.header.flags = RouteFlags::FibMatch;
    }
    message.attributes.push(RouteAttribute::Destination(destination.into()));
    message.attributes.push(RouteAttribute::Oif(index));
    if let Some(source) = source.filter(|source| source.is_ipv4() == destination.is_ipv4()) {
        message.header.source_prefix_length = length;
        message.attributes.push(RouteAttribute::Source(source.into()));
    }
    message
}
