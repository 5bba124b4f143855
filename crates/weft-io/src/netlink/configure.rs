//! Changes devices, addresses, routes and rules.
//!
//! Each change is one request, which the kernel has completed when the call returns.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::channel::NetlinkSocket;

/// Priority of rules by source or device.
///
/// They precede the main table's rule (32766) and follow most rules of administrators.
const RULE_PRIORITY: u32 = 32_000;
/// Priority of [`Selector::AtLeast`] rules: the last one before the main table's rule.
///
/// The kernel keeps rules of equal priority in the order of their creation. Ours therefore follow those that an
/// administrator added before.
const LAST_PRIORITY: u32 = 32_765;
/// Priority of rules by mark: before most rules of administrators.
///
/// A packet has weft's mark only if weft or an administrator has chosen that rule for it.
const MARK_PRIORITY: u32 = 90;
/// Priority of prohibitions: directly after the local table's rule (0).
///
/// No other rule can therefore lead around a prohibition.
const PROHIBIT_PRIORITY: u32 = 1;
/// Maximum number of a device's prohibitions per IP version that one call of [`Configure::allow_all`] removes.
const MOST_PROHIBITIONS: usize = 256;
/// Value of `rtm_protocol` of weft's rules by mark and by prefix length, its prohibitions and its local routes.
const OWN_PROTOCOL: RouteProtocol = RouteProtocol::Other(119);
/// Value of `rtm_protocol` of the routes that weft made out of devices. A routing daemon can distinguish them by it.
const PREFIX_PROTOCOL: RouteProtocol = RouteProtocol::Other(120);
/// Offset of `rtm_protocol` in a message about a route, in bytes (`struct nlmsghdr`, `struct rtmsg`).
const PROTOCOL_AT: usize = 21;
/// Interface index of `lo`, which is the same in every network namespace.
const LOOPBACK: u32 = 1;

/// A route by which packets to a prefix leave through a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRoute {
    /// Address of the prefix. Bits beyond `prefix_len` must be zero.
    pub destination: IpAddr,
    /// Prefix length in bits.
    pub prefix_len: u8,
    /// Interface index of the device.
    pub index: u32,
    /// Routing table of the route; `None` is the main table.
    pub table: Option<u32>,
    /// Metric among routes to the same prefix, lower first; `None` is the kernel's default.
    pub priority: Option<u32>,
    /// `RTAX_REORDERING`: the initial duplicate-ACK threshold of the kernel's TCP on this route.
    pub reordering: Option<u32>,
}

/// Packet property that a [`Rule`] matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Selector<'a> {
    /// Packets with this source address.
    From(IpAddr),
    /// Packets that arrive from this device.
    Incoming(&'a str),
    /// Packets of sockets that are bound to this device.
    Bound(&'a str),
    /// Packets with this mark.
    Mark(u32),
    /// Every packet. Only routes with a prefix of at least this length are used.
    ///
    /// Several such rules apply in the order of their creation, after all other rules but the main table's.
    AtLeast(u8),
}

/// A routing rule: matching packets use a table before the main one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule<'a> {
    /// Packets that the rule matches.
    pub selector: Selector<'a>,
    /// True for IPv6, false for IPv4.
    pub ipv6: bool,
    /// Routing table that the matching packets use.
    pub table: u32,
}

/// Rejects packets from a device to a prefix (`RTN_PROHIBIT`).
///
/// The kernel does not forward these packets and informs their sender. Packets to this machine's own addresses still
/// arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prohibition<'a> {
    /// Device from which the packets arrive.
    pub incoming: &'a str,
    /// Address of the prefix. Bits beyond `prefix_len` must be zero.
    pub destination: IpAddr,
    /// Prefix length in bits.
    pub prefix_len: u8,
}

/// Number of the main routing table.
pub const MAIN_TABLE: u32 = RouteHeader::RT_TABLE_MAIN as u32;

/// A netlink socket for changes. Every change needs `CAP_NET_ADMIN`.
pub struct Configure {
    channel: NetlinkSocket,
}

impl Configure {
    /// Opens a netlink socket for changes.
    pub fn open() -> io::Result<Self> {
        Ok(Self { channel: NetlinkSocket::open(&[])? })
    }

    /// Sets a device up or down.
    pub fn set_up(&mut self, index: u32, up: bool) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.change_mask = LinkFlags::Up;
        message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        self.channel.request(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Sets a device's MTU, in bytes.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> io::Result<()> {
        self.set_link(index, LinkAttribute::Mtu(mtu))
    }

    /// Sets the length of a device's transmit queue, in packets.
    pub fn set_txqueuelen(&mut self, index: u32, packets: u32) -> io::Result<()> {
        self.set_link(index, LinkAttribute::TxQueueLen(packets))
    }

    /// Sets a device's descriptive text (`ifalias`).
    pub fn set_alias(&mut self, index: u32, alias: &str) -> io::Result<()> {
        self.set_link(index, LinkAttribute::IfAlias(alias.to_owned()))
    }

    fn set_link(&mut self, index: u32, attribute: LinkAttribute) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.push(attribute);
        self.channel.request(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Adds an address to a device, or does nothing if the device has it.
    ///
    /// The address can be bound at once, because IPv6 skips duplicate address detection (`IFA_F_NODAD`).
    pub fn add_address(&mut self, index: u32, address: IpAddr, prefix_len: u8) -> io::Result<()> {
        let message = address_message(index, address, prefix_len);
        self.channel.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Adds an address as [`Configure::add_address`] does, but without a route to the rest of its prefix.
    pub fn add_address_without_route(&mut self, index: u32, address: IpAddr, prefix_len: u8) -> io::Result<()> {
        let mut message = address_message(index, address, prefix_len);
        let mut flags = AddressFlags::Noprefixroute;
        flags.set(AddressFlags::Nodad, address.is_ipv6());
        message.attributes.push(AddressAttribute::Flags(flags));
        self.channel.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Removes an address from a device; `AddrNotAvailable` if the device does not have it.
    pub fn remove_address(&mut self, index: u32, address: IpAddr, prefix_len: u8) -> io::Result<()> {
        let message = address_message(index, address, prefix_len);
        self.channel.request(RouteNetlinkMessage::DelAddress(message), 0)
    }

    /// Returns those addresses of a device that have global scope, with their prefix lengths.
    pub fn addresses(&mut self, index: u32) -> io::Result<Vec<(IpAddr, u8)>> {
        let found = self.channel.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
        Ok(found.iter().filter_map(|message| global_address(message, index)).collect())
    }

    /// Returns the routes out of a device that [`Configure::add_route`] added.
    pub fn device_routes(&mut self, index: u32) -> io::Result<Vec<DeviceRoute>> {
        let mut found = Vec::new();
        self.channel.dump_routes(|bytes| {
            // A routing daemon may make very many routes, so only routes with weft's `rtm_protocol` are parsed.
            if bytes.get(PROTOCOL_AT) == Some(&PREFIX_PROTOCOL.into())
                && let Ok(message) = NetlinkMessage::deserialize(bytes)
                && let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) = message.payload
            {
                found.extend(device_route(&route).filter(|route| route.index == index));
            }
        })?;
        Ok(found)
    }

    /// Adds a route; `AlreadyExists` if its table has one with the same prefix and priority.
    pub fn add_route(&mut self, route: &DeviceRoute) -> io::Result<()> {
        self.channel.request(RouteNetlinkMessage::NewRoute(route_message(route)), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a route, or replaces the one with the same prefix and priority.
    pub fn replace_route(&mut self, route: &DeviceRoute) -> io::Result<()> {
        self.channel.request(RouteNetlinkMessage::NewRoute(route_message(route)), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Removes a route; `ESRCH` if it does not exist.
    pub fn remove_route(&mut self, route: &DeviceRoute) -> io::Result<()> {
        let route = DeviceRoute { reordering: None, ..*route };
        self.channel.request(RouteNetlinkMessage::DelRoute(route_message(&route)), 0)
    }

    /// Adds a rule, or does nothing if it exists. Returns true if it was missing.
    pub fn add_rule(&mut self, rule: &Rule<'_>) -> io::Result<bool> {
        match self.channel.request(RouteNetlinkMessage::NewRule(rule_message(rule)), NLM_F_CREATE | NLM_F_EXCL) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            result => result.map(|()| true),
        }
    }

    /// Adds a prohibition, or does nothing if it exists.
    pub fn prohibit(&mut self, what: &Prohibition<'_>) -> io::Result<()> {
        let mut message = prohibition_message(what.incoming, what.destination.is_ipv6());
        message.header.dst_len = what.prefix_len;
        message.attributes.push(RuleAttribute::Destination(what.destination));
        match self.channel.request(RouteNetlinkMessage::NewRule(message), NLM_F_CREATE | NLM_F_EXCL) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        }
    }

    /// Removes every prohibition for packets from a device, including those of an earlier run.
    pub fn allow_all(&mut self, incoming: &str) -> io::Result<()> {
        for is_ipv6 in [false, true] {
            for _ in 0..MOST_PROHIBITIONS {
                // The kernel removes the first rule that has these attributes.
                let message = prohibition_message(incoming, is_ipv6);
                match self.channel.request(RouteNetlinkMessage::DelRule(message), 0) {
                    Ok(()) => {}
                    Err(why) if is_absent(&why) => break,
                    Err(why) => return Err(why),
                }
            }
        }
        Ok(())
    }

    /// Adds a rule even if an equal one exists.
    pub fn append_rule(&mut self, rule: &Rule<'_>) -> io::Result<()> {
        self.channel.request(RouteNetlinkMessage::NewRule(rule_message(rule)), NLM_F_CREATE)
    }

    /// Adds a route to `table` by which the kernel delivers every packet that uses this table to local sockets.
    pub fn add_local_route(&mut self, table: u32, ipv6: bool) -> io::Result<()> {
        let message = local_route_message(table, ipv6);
        self.channel.request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Removes the route of [`Configure::add_local_route`]; `ESRCH` if it does not exist.
    pub fn remove_local_route(&mut self, table: u32, ipv6: bool) -> io::Result<()> {
        self.channel.request(RouteNetlinkMessage::DelRoute(local_route_message(table, ipv6)), 0)
    }

    /// Removes a rule; `NotFound` if it does not exist.
    pub fn remove_rule(&mut self, rule: &Rule<'_>) -> io::Result<()> {
        self.channel.request(RouteNetlinkMessage::DelRule(rule_message(rule)), 0)
    }
}

fn prohibition_message(incoming: &str, is_ipv6: bool) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = if is_ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    message.header.action = RuleAction::Prohibit;
    message.attributes.push(RuleAttribute::Iifname(incoming.to_owned()));
    message.attributes.push(RuleAttribute::Priority(PROHIBIT_PRIORITY));
    message.attributes.push(RuleAttribute::Protocol(OWN_PROTOCOL));
    message
}

/// True if the error means that a rule does not exist, or that the kernel lacks its address family.
fn is_absent(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::NotFound || why.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

fn address_family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn address_message(index: u32, address: IpAddr, prefix_len: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = address_family(address);
    message.header.prefix_len = prefix_len;
    message.header.index = index;
    if address.is_ipv6() {
        message.header.flags = AddressHeaderFlags::Nodad;
    }
    message.attributes.push(AddressAttribute::Local(address));
    message.attributes.push(AddressAttribute::Address(address));
    message
}

/// Returns the address and prefix length in a message about a global address of the device `index`, or `None`.
///
/// On a device with a peer address, it is the local address.
fn global_address(message: &RouteNetlinkMessage, index: u32) -> Option<(IpAddr, u8)> {
    let RouteNetlinkMessage::NewAddress(message) = message else { return None };
    if message.header.index != index || message.header.scope != AddressScope::Universe {
        return None;
    }
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    // IPv6 addresses without a peer have no `IFA_LOCAL`.
    let address = local.or_else(|| {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    });
    address.map(|address| (address, message.header.prefix_len))
}

/// Reads a route of a device, the inverse of [`route_message`].
fn device_route(message: &RouteMessage) -> Option<DeviceRoute> {
    let is_ipv6 = message.header.address_family == AddressFamily::Inet6;
    let mut route = DeviceRoute {
        destination: if is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() },
        prefix_len: message.header.destination_prefix_length,
        index: 0,
        table: Some(message.header.table.into()),
        priority: None,
        reordering: None,
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => route.destination = (*address).into(),
            RouteAttribute::Destination(RouteAddress::Inet6(address)) => route.destination = (*address).into(),
            RouteAttribute::Oif(index) => route.index = *index,
            RouteAttribute::Table(table) => route.table = Some(*table),
            RouteAttribute::Priority(priority) => route.priority = Some(*priority),
            RouteAttribute::Metrics(metrics) => {
                route.reordering = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Reordering(threshold) => Some(*threshold),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    (route.index != 0).then_some(route)
}

fn route_message(route: &DeviceRoute) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = address_family(route.destination);
    message.header.destination_prefix_length = route.prefix_len;
    message.header.table = match route.table {
        None => RouteHeader::RT_TABLE_MAIN,
        Some(_) => RouteHeader::RT_TABLE_UNSPEC,
    };
    message.attributes.extend(route.table.map(RouteAttribute::Table));
    message.header.protocol = PREFIX_PROTOCOL;
    message.header.scope = if route.destination.is_ipv4() { RouteScope::Link } else { RouteScope::Universe };
    message.header.kind = RouteType::Unicast;
    message.attributes.push(RouteAttribute::Destination(route.destination.into()));
    message.attributes.push(RouteAttribute::Oif(route.index));
    message.attributes.extend(route.priority.map(RouteAttribute::Priority));
    if let Some(threshold) = route.reordering {
        message.attributes.push(RouteAttribute::Metrics(vec![RouteMetric::Reordering(threshold)]));
    }
    message
}

fn local_route_message(table: u32, ipv6: bool) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = if ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    message.header.table = RouteHeader::RT_TABLE_UNSPEC;
    message.attributes.push(RouteAttribute::Table(table));
    message.header.protocol = OWN_PROTOCOL;
    message.header.scope = if ipv6 { RouteScope::Universe } else { RouteScope::Host };
    message.header.kind = RouteType::Local;
    message.attributes.push(RouteAttribute::Oif(LOOPBACK));
    message
}

fn rule_message(rule: &Rule<'_>) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = if rule.ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    message.header.action = RuleAction::ToTable;
    message.attributes.push(match rule.selector {
        Selector::From(address) => {
            message.header.src_len = if address.is_ipv6() { 128 } else { 32 };
            RuleAttribute::Source(address)
        }
        Selector::Incoming(device) => RuleAttribute::Iifname(device.to_owned()),
        Selector::Bound(device) => RuleAttribute::Oifname(device.to_owned()),
        Selector::Mark(mark) => RuleAttribute::FwMark(mark),
        // The kernel ignores routes whose prefix length is at most this number.
        Selector::AtLeast(length) => RuleAttribute::SuppressPrefixLen(u32::from(length).saturating_sub(1)),
    });
    let (priority, protocol) = match rule.selector {
        Selector::Mark(_) => (MARK_PRIORITY, OWN_PROTOCOL),
        Selector::AtLeast(_) => (LAST_PRIORITY, OWN_PROTOCOL),
        _ => (RULE_PRIORITY, RouteProtocol::Static),
    };
    message.attributes.push(RuleAttribute::Table(rule.table));
    message.attributes.push(RuleAttribute::Priority(priority));
    message.attributes.push(RuleAttribute::Protocol(protocol));
    message
}
