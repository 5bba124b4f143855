//! Asks the kernel whether it has a route by one device.

use super::channel::Channel;
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::route::{RouteAttribute, RouteFlags, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::io;
use std::net::IpAddr;

/// The kernel's words for "there is no route": none at all, or one of type unreachable, blackhole or prohibit.
const NO_ROUTE: [i32; 5] = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EINVAL, libc::EACCES, libc::ESRCH];

/// Looks routes up in this network namespace. No privilege is needed.
pub struct RouteLookup {
    channel: Channel,
}

impl RouteLookup {
    /// Opens a netlink socket.
    ///
    /// # Errors
    /// When there can be none.
    pub fn open() -> io::Result<RouteLookup> {
        Ok(RouteLookup { channel: Channel::open(&[])? })
    }

    /// Whether rules and tables lead a packet to `destination` out by the device of interface index `index`. `source` is the packet's
    /// source address, if it has one before the lookup.
    ///
    /// The lookup sends nothing to `destination`. An IPv6 lookup may make the kernel test a router of the route it finds (RFC 4191 §3.5).
    ///
    /// # Errors
    /// When the kernel cannot be asked. A missing route is no error.
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
    // Without a matching route IPv4 takes every address to be on the device's link; this flag has the kernel answer with routes only. With
    // a device IPv6 never does so, and its answer to this flag leaves devices out of account.
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
