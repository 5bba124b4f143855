//! Changes to devices, addresses and routes, each one request that the kernel has carried out when the call returns.

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::channel::Channel;

/// Before the main table's rule, 32766, and after what people usually add.
const RULE_PRIORITY: u32 = 32_000;
/// The last priority before the main table's rule. The kernel keeps rules of one priority in the order in which they were added, so ours
/// come after those that people added there before.
const LAST_PRIORITY: u32 = 32_765;
/// Before what people usually add: a mark is set by who knows better.
const MARK_PRIORITY: u32 = 90;
/// Next after the local table's rule, 0, and before all that others add: nothing leads around a prohibition.
const PROHIBIT_PRIORITY: u32 = 1;
/// Rules of one device that are looked for, at most.
const MOST_PROHIBITIONS: usize = 256;
/// Who made rules, and routes for marks; a number of our own (`rtm_protocol`).
const OWN_PROTOCOL: RouteProtocol = RouteProtocol::Other(119);
/// The index of `lo` in every network namespace.
const LOOPBACK: u32 = 1;

/// A route that leads a prefix to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The prefix; bits beyond `prefix_len` must be zero.
    pub destination: IpAddr,
    /// How many leading bits of `destination` count.
    pub prefix_len: u8,
    /// Interface index of the device.
    pub index: u32,
    /// The table it is in; `None` is the main one.
    pub table: Option<u32>,
    /// Preference among routes to the same prefix, lower first; `None` is the kernel's default.
    pub priority: Option<u32>,
    /// `RTAX_REORDERING`: the duplicate-ACK threshold with which the kernel's TCP starts on this route.
    pub reordering: Option<u32>,
}

/// What a [`Rule`] looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Selector<'a> {
    /// What has this source address.
    From(IpAddr),
    /// What comes from this device.
    Incoming(&'a str),
    /// What is bound to this device.
    Bound(&'a str),
    /// What has this mark.
    Mark(u32),
    /// Every packet, where the table has a route with a prefix of at least this length. Several such rules are asked in the order in which
    /// they were added, after all other rules but the main table's.
    AtLeast(u8),
}

/// A rule: what is selected is routed by a table before the main one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule<'a> {
    /// What is selected.
    pub selector: Selector<'a>,
    /// For IPv6, not IPv4.
    pub ipv6: bool,
    /// The table.
    pub table: u32,
}

/// What comes from a device and is for a prefix: it is not forwarded, and who sent it is told so (`RTN_PROHIBIT`). What is for this
/// machine's own addresses comes in all the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prohibition<'a> {
    /// Where it comes from.
    pub incoming: &'a str,
    /// The prefix; bits beyond `prefix_len` must be zero.
    pub destination: IpAddr,
    /// How many leading bits of `destination` count.
    pub prefix_len: u8,
}

/// The number of the main table.
pub const MAIN_TABLE: u32 = RouteHeader::RT_TABLE_MAIN as u32;

/// A netlink socket for changes. All need `CAP_NET_ADMIN`.
pub struct Configure {
    channel: Channel,
}

impl Configure {
    /// Opens the socket.
    pub fn open() -> io::Result<Self> {
        Ok(Self { channel: Channel::open(&[])? })
    }

    /// Takes a device up or down.
    pub fn set_up(&mut self, index: u32, up: bool) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.change_mask = LinkFlags::Up;
        message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        self.channel.request(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Sets a device's MTU in bytes.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> io::Result<()> {
        self.set_link(index, LinkAttribute::Mtu(mtu))
    }

    /// Sets how many packets a device queues.
    pub fn set_txqueuelen(&mut self, index: u32, packets: u32) -> io::Result<()> {
        self.set_link(index, LinkAttribute::TxQueueLen(packets))
    }

    /// Sets what a device says of itself (`ifalias`).
    pub fn set_alias(&mut self, index: u32, alias: &str) -> io::Result<()> {
        self.set_link(index, LinkAttribute::IfAlias(alias.to_owned()))
    }

    fn set_link(&mut self, index: u32, attribute: LinkAttribute) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.push(attribute);
        self.channel.request(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Adds an address to a device, or does nothing if it is there. It can be bound at once: IPv6 does not ask the link whether
    /// somebody else has it (`IFA_F_NODAD`).
    pub fn add_address(&mut self, index: u32, address: IpAddr, prefix_len: u8) -> io::Result<()> {
        let message = address_message(index, address, prefix_len);
        self.channel.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// The same, but the kernel makes no route for the rest of its prefix.
    pub fn add_address_without_route(&mut self, index: u32, address: IpAddr, prefix_len: u8) -> io::Result<()> {
        let mut message = address_message(index, address, prefix_len);
        let mut flags = AddressFlags::Noprefixroute;
        flags.set(AddressFlags::Nodad, address.is_ipv6());
        message.attributes.push(AddressAttribute::Flags(flags));
        self.channel.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Takes an address from a device; `AddrNotAvailable` if it is not there.
    pub fn remove_address(&mut self, index: u32, address: IpAddr, prefix_len: u8) -> io::Result<()> {
        let message = address_message(index, address, prefix_len);
        self.channel.request(RouteNetlinkMessage::DelAddress(message), 0)
    }

    /// Adds a route; `AlreadyExists` if its table has one with the same prefix and priority.
    pub fn add_route(&mut self, route: &Route) -> io::Result<()> {
        self.channel.request(RouteNetlinkMessage::NewRoute(route_message(route)), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a route, in place of one with the same prefix and priority.
    pub fn replace_route(&mut self, route: &Route) -> io::Result<()> {
        self.channel.request(RouteNetlinkMessage::NewRoute(route_message(route)), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Removes a route; `ESRCH` if it is not there.
    pub fn remove_route(&mut self, route: &Route) -> io::Result<()> {
        let route = Route { reordering: None, ..*route };
        self.channel.request(RouteNetlinkMessage::DelRoute(route_message(&route)), 0)
    }

    /// Adds a rule, or does nothing if it is there; returns whether it was missing.
    pub fn add_rule(&mut self, rule: &Rule<'_>) -> io::Result<bool> {
        match self.channel.request(RouteNetlinkMessage::NewRule(rule_message(rule)), NLM_F_CREATE | NLM_F_EXCL) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            result => result.map(|()| true),
        }
    }

    /// Adds a prohibition, or does nothing if it is there.
    pub fn prohibit(&mut self, what: &Prohibition<'_>) -> io::Result<()> {
        let mut message = prohibition_message(what.incoming, what.destination.is_ipv6());
        message.header.dst_len = what.prefix_len;
        message.attributes.push(RuleAttribute::Destination(what.destination));
        match self.channel.request(RouteNetlinkMessage::NewRule(message), NLM_F_CREATE | NLM_F_EXCL) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        }
    }

    /// Removes every prohibition for what comes from a device, those of an earlier run too.
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

    /// Adds a rule, even if there is one like it.
    pub fn append_rule(&mut self, rule: &Rule<'_>) -> io::Result<()> {
        self.channel.request(RouteNetlinkMessage::NewRule(rule_message(rule)), NLM_F_CREATE)
    }

    /// Adds a route to a table by which everything is delivered here, as if it had this machine's address.
    pub fn add_local_route(&mut self, table: u32, ipv6: bool) -> io::Result<()> {
        let message = local_route_message(table, ipv6);
        self.channel.request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Removes that route; `ESRCH` if it is not there.
    pub fn remove_local_route(&mut self, table: u32, ipv6: bool) -> io::Result<()> {
        self.channel.request(RouteNetlinkMessage::DelRoute(local_route_message(table, ipv6)), 0)
    }

    /// Removes a rule; `NotFound` if it is not there.
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

/// No such rule; or no such family in this kernel.
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

fn route_message(route: &Route) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = address_family(route.destination);
    message.header.destination_prefix_length = route.prefix_len;
    message.header.table = match route.table {
        None => RouteHeader::RT_TABLE_MAIN,
        Some(_) => RouteHeader::RT_TABLE_UNSPEC,
    };
    message.attributes.extend(route.table.map(RouteAttribute::Table));
    message.header.protocol = RouteProtocol::Static;
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
        // The longest length that does not count.
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
