//! Converts netlink messages into the entries of a [`NetlinkSnapshot`](super::snapshot::NetlinkSnapshot).

use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State};
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteType};

use super::snapshot::{Address, IpFamily, Link, OperState, Scope};

/// Decodes a message about a device.
///
/// Returns `None` for a partial message: [`is_about_device`] is false, or a driver's event lacks name or MTU.
pub(super) fn link(message: &LinkMessage) -> Option<Link> {
    let flags = message.header.flags;
    let mut name = None;
    let mut mtu = None;
    let mut state = OperState::Unknown;
    let mut is_tun = false;
    let mut alias = String::new();
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(text) => name = Some(text.clone()),
            LinkAttribute::Mtu(bytes) => mtu = Some(*bytes),
            LinkAttribute::IfAlias(text) => alias.clone_from(text),
            LinkAttribute::OperState(now) => state = oper_state(*now),
            LinkAttribute::LinkInfo(infos) => is_tun = infos.contains(&LinkInfo::Kind(InfoKind::Tun)),
            _ => {}
        }
    }
    is_about_device(message).then_some(Link {
        index: message.header.index,
        name: name?,
        mtu: mtu?,
        is_loopback: flags.contains(LinkFlags::Loopback),
        is_tun,
        alias,
        is_up: flags.contains(LinkFlags::Up),
        has_carrier: flags.contains(LinkFlags::LowerUp),
        state,
    })
}

/// True if the message is about the device itself, not about its role in a bridge or its IPv6 settings.
pub(super) fn is_about_device(message: &LinkMessage) -> bool {
    message.header.interface_family == AddressFamily::Unspec
}

fn oper_state(state: State) -> OperState {
    match state {
        State::Up => OperState::Up,
        State::Dormant => OperState::Dormant,
        State::Down | State::NotPresent | State::LowerLayerDown | State::Testing => OperState::Down,
        _ => OperState::Unknown,
    }
}

/// Decodes a message about an address. Returns `None` if it contains no address.
pub(super) fn address(message: &AddressMessage) -> Option<Address> {
    let mut local = None;
    let mut other = None;
    let mut flags = AddressFlags::from_bits_retain(message.header.flags.bits().into());
    for attribute in &message.attributes {
        match attribute {
            // On a point-to-point device IFA_ADDRESS is the far end's address. IPv6 often has no IFA_LOCAL.
            AddressAttribute::Local(address) => local = Some(*address),
            AddressAttribute::Address(address) => other = Some(*address),
            AddressAttribute::Flags(all) => flags = *all,
            _ => {}
        }
    }
    let unconfirmed = AddressFlags::Tentative | AddressFlags::Dadfailed;
    Some(Address {
        index: message.header.index,
        address: local.or(other)?,
        prefix_len: message.header.prefix_len,
        scope: scope(message.header.scope),
        is_deprecated: flags.contains(AddressFlags::Deprecated),
        is_tentative: flags.intersects(unconfirmed) && !flags.contains(AddressFlags::Optimistic),
    })
}

fn scope(scope: AddressScope) -> Scope {
    match scope {
        AddressScope::Link => Scope::Link,
        AddressScope::Host | AddressScope::Nowhere => Scope::Host,
        _ => Scope::Global,
    }
}

/// True if a message is about a default route to a next router or device (unicast).
pub(super) fn is_default_route(message: &RouteMessage) -> bool {
    message.header.destination_prefix_length == 0
        && message.header.source_prefix_length == 0
        && message.header.kind == RouteType::Unicast
        && family(message.header.address_family).is_some()
}

/// Returns the interface index of each device that a route uses, with the route's address family.
pub(super) fn route_devices(message: &RouteMessage) -> impl Iterator<Item = (u32, IpFamily)> {
    let family = family(message.header.address_family);
    let indexes = message.attributes.iter().flat_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => vec![*index],
        RouteAttribute::MultiPath(hops) => hops.iter().map(|hop| hop.interface_index).collect(),
        _ => Vec::new(),
    });
    indexes.filter_map(move |index| Some((index, family?)))
}

fn family(family: AddressFamily) -> Option<IpFamily> {
    match family {
        AddressFamily::Inet => Some(IpFamily::V4),
        AddressFamily::Inet6 => Some(IpFamily::V6),
        _ => None,
    }
}
