//! The state of the machine's devices, addresses and default routes, and the events between two states.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A change of a device, address or route.
///
/// A device is reported before its addresses and routes, and removed after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetlinkEvent {
    /// A device was added, or its name, MTU, flags, carrier or state changed.
    Link(Link),
    /// A device was removed.
    LinkRemoved {
        /// Interface index of the device.
        index: u32,
    },
    /// An address was added, or its flags changed.
    Address(Address),
    /// An address was removed.
    AddressRemoved {
        /// Interface index of the device that had the address.
        index: u32,
        /// The removed address.
        address: IpAddr,
        /// Prefix length of the address.
        prefix_len: u8,
    },
    /// A device got its first default route of this family or lost its last one, in any routing table.
    DefaultRoute {
        /// Interface index of the device that got or lost the route.
        index: u32,
        /// Address family of the route.
        family: IpFamily,
        /// True if the device has a default route now.
        has_default: bool,
    },
    /// Routes or rules changed in any table.
    ///
    /// Routes that the kernel removes with a device or an address are not reported.
    Routes,
}

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Interface index, which stays the same when the device is renamed.
    pub index: u32,
    /// Name of the device.
    pub name: String,
    /// MTU of the device, in bytes.
    pub mtu: u32,
    /// True for the loopback device.
    pub is_loopback: bool,
    /// True for a TUN or TAP device: weft's own, or another VPN's.
    pub is_tun: bool,
    /// Descriptive text of the device (`ifalias`), or empty if there is none.
    pub alias: String,
    /// True if the administrator has set the device up (`IFF_UP`).
    pub is_up: bool,
    /// True if the layer below reports a connection (`IFF_LOWER_UP`).
    pub has_carrier: bool,
    /// Operational state of the device (RFC 2863).
    pub state: OperState,
}

/// Operational state: ifOperStatus of RFC 2863.
///
/// Some drivers always report `Unknown`. Then [`Link::has_carrier`] decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperState {
    /// The driver reports no state.
    Unknown,
    /// The device can pass packets.
    Up,
    /// The device waits for an external event, such as an authentication.
    Dormant,
    /// The device is down, in a test, or lacks the device below.
    Down,
}

/// An address of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Interface index of the device that has the address.
    pub index: u32,
    /// The IP address.
    pub address: IpAddr,
    /// Prefix length of the address.
    pub prefix_len: u8,
    /// Scope of the address.
    pub scope: Scope,
    /// True if the address must not be used for new communication (RFC 4862 §5.5.4).
    pub is_deprecated: bool,
    /// True if the address is not known to be unique (RFC 4862 §5.4). It cannot be bound.
    pub is_tentative: bool,
}

/// Scope of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Valid beyond the link.
    Global,
    /// Valid on its link only.
    Link,
    /// Valid on this machine only.
    Host,
}

/// Address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IpFamily {
    /// IPv4 addresses or routes.
    V4,
    /// IPv6 addresses or routes.
    V6,
}

/// Key of a stored address: interface index, address and prefix length.
type AddressKey = (u32, IpAddr, u8);

/// All devices, addresses, and devices with a default route.
#[derive(Clone, Debug, Default)]
pub(super) struct NetlinkSnapshot {
    /// Devices by interface index.
    links: BTreeMap<u32, Link>,
    addresses: BTreeMap<AddressKey, Address>,
    /// Interface index and family of every device with a default route.
    default_routes: BTreeSet<(u32, IpFamily)>,
}

impl NetlinkSnapshot {
    pub(super) fn set_link(&mut self, link: Link, events: &mut Vec<NetlinkEvent>) {
        if self.links.get(&link.index) != Some(&link) {
            events.push(NetlinkEvent::Link(link.clone()));
            self.links.insert(link.index, link);
        }
    }

    pub(super) fn remove_link(&mut self, index: u32, events: &mut Vec<NetlinkEvent>) {
        let first = (index, IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
        while let Some((&key, _)) = self.addresses.range(first..).next().filter(|(key, _)| key.0 == index) {
            self.remove_address(key, events);
        }
        for family in [IpFamily::V4, IpFamily::V6] {
            self.set_default_route(index, family, false, events);
        }
        if self.links.remove(&index).is_some() {
            events.push(NetlinkEvent::LinkRemoved { index });
        }
    }

    pub(super) fn set_address(&mut self, address: Address, events: &mut Vec<NetlinkEvent>) {
        let key = (address.index, address.address, address.prefix_len);
        if self.addresses.get(&key) != Some(&address) {
            self.addresses.insert(key, address);
            events.push(NetlinkEvent::Address(address));
        }
    }

    pub(super) fn remove_address(&mut self, key: AddressKey, events: &mut Vec<NetlinkEvent>) {
        if self.addresses.remove(&key).is_some() {
            let (index, address, prefix_len) = key;
            events.push(NetlinkEvent::AddressRemoved { index, address, prefix_len });
        }
    }

    fn set_default_route(&mut self, index: u32, family: IpFamily, has_default: bool, events: &mut Vec<NetlinkEvent>) {
        let changed = if has_default {
            self.default_routes.insert((index, family))
        } else {
            self.default_routes.remove(&(index, family))
        };
        if changed {
            events.push(NetlinkEvent::DefaultRoute { index, family, has_default });
        }
    }

    /// Replaces the stored default routes by `now` and appends the differences to `events`.
    pub(super) fn set_default_routes(&mut self, now: &BTreeSet<(u32, IpFamily)>, events: &mut Vec<NetlinkEvent>) {
        let before = self.default_routes.clone();
        for &(index, family) in before.difference(now) {
            self.set_default_route(index, family, false, events);
        }
        for &(index, family) in now.difference(&before) {
            self.set_default_route(index, family, true, events);
        }
    }

    /// Replaces the whole state by `now` and appends the differences to `events`.
    pub(super) fn replace(&mut self, now: &Self, events: &mut Vec<NetlinkEvent>) {
        let gone = |index: &u32| !now.links.contains_key(index);
        for index in self.links.keys().copied().filter(gone).collect::<Vec<_>>() {
            self.remove_link(index, events);
        }
        let gone = |key: &AddressKey| !now.addresses.contains_key(key);
        for key in self.addresses.keys().copied().filter(gone).collect::<Vec<_>>() {
            self.remove_address(key, events);
        }
        for link in now.links.values() {
            self.set_link(link.clone(), events);
        }
        for &address in now.addresses.values() {
            self.set_address(address, events);
        }
        self.set_default_routes(&now.default_routes, events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, mtu: u32) -> Link {
        Link {
            index,
            name: format!("eth{index}"),
            mtu,
            is_loopback: false,
            is_tun: false,
            alias: String::new(),
            is_up: true,
            has_carrier: true,
            state: OperState::Up,
        }
    }

    fn address(index: u32, last: u8) -> Address {
        Address {
            index,
            address: [192, 0, 2, last].into(),
            prefix_len: 24,
            scope: Scope::Global,
            is_deprecated: false,
            is_tentative: false,
        }
    }

    fn gone(address: Address) -> NetlinkEvent {
        NetlinkEvent::AddressRemoved { index: address.index, address: address.address, prefix_len: address.prefix_len }
    }

    fn snapshot(links: &[Link], addresses: &[Address], routes: &[(u32, IpFamily)]) -> NetlinkSnapshot {
        let mut snapshot = NetlinkSnapshot::default();
        links.iter().for_each(|link| snapshot.set_link(link.clone(), &mut Vec::new()));
        addresses.iter().for_each(|&address| snapshot.set_address(address, &mut Vec::new()));
        snapshot.set_default_routes(&routes.iter().copied().collect(), &mut Vec::new());
        snapshot
    }

    #[test]
    fn only_changes_are_events() {
        let mut events = Vec::new();
        let mut known = snapshot(&[link(2, 1500)], &[address(2, 1)], &[]);
        known.set_link(link(2, 1500), &mut events);
        known.set_address(address(2, 1), &mut events);
        assert_eq!(events, []);
        known.set_link(link(2, 1400), &mut events);
        assert_eq!(events, [NetlinkEvent::Link(link(2, 1400))]);
    }

    #[test]
    fn a_link_takes_what_it_has_with_it() {
        let mut events = Vec::new();
        let mut known = snapshot(
            &[link(2, 1500), link(3, 1500)],
            &[address(2, 1), address(2, 2), address(3, 3)],
            &[(2, IpFamily::V4)],
        );
        known.remove_link(2, &mut events);
        let route = NetlinkEvent::DefaultRoute { index: 2, family: IpFamily::V4, has_default: false };
        assert_eq!(events, [gone(address(2, 1)), gone(address(2, 2)), route, NetlinkEvent::LinkRemoved { index: 2 }]);
        events.clear();
        known.remove_link(2, &mut events);
        assert_eq!(events, []);
    }

    #[test]
    fn a_new_snapshot_is_reported_as_differences() {
        let mut events = Vec::new();
        let mut known = snapshot(&[link(2, 1500), link(3, 1500)], &[address(2, 1)], &[(2, IpFamily::V6)]);
        let now = snapshot(&[link(2, 1500), link(4, 1500)], &[address(2, 9)], &[(4, IpFamily::V6)]);
        known.replace(&now, &mut events);
        let expected = [
            NetlinkEvent::LinkRemoved { index: 3 },
            gone(address(2, 1)),
            NetlinkEvent::Link(link(4, 1500)),
            NetlinkEvent::Address(address(2, 9)),
            NetlinkEvent::DefaultRoute { index: 2, family: IpFamily::V6, has_default: false },
            NetlinkEvent::DefaultRoute { index: 4, family: IpFamily::V6, has_default: true },
        ];
        assert_eq!(events, expected);
    }
}
