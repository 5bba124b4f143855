//! Which key a prefix belongs to, so that who knows an address alone finds it: the hash of its region.
//!
//! A region is a prefix of one of four lengths; a prefix belongs to the longest region that holds all of it. An address is in four
//! regions, so that four questions find whatever prefix covers it. At the finest level a region has 256 addresses: many hosts with
//! addresses side by side do not meet at one node.

use super::Authority;
use alloc::collections::BTreeMap;
use core::net::IpAddr;
use weft_units::NodeId;
use weft_wire::certificate::Prefix;

/// Regions that hold one address.
pub const LEVELS: usize = 4;

const IPV4: [u8; LEVELS] = [24, 16, 8, 0];
const IPV6: [u8; LEVELS] = [120, 64, 48, 0];

/// A prefix of a region's length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Region(Prefix);

impl Region {
    /// The region that a prefix belongs to.
    pub fn of((address, length): Prefix) -> Region {
        let fits = lengths(address).into_iter().find(|of_region| *of_region <= length);
        Region(network(address, fits.unwrap_or(0)))
    }

    /// The regions that hold an address, the longest first.
    pub fn around(address: IpAddr) -> [Region; LEVELS] {
        lengths(address).map(|length| Region(network(address, length)))
    }

    /// Its prefix.
    pub fn prefix(&self) -> Prefix {
        self.0
    }

    /// Its place on the ring: the hash of "weft region", 4 or 6, its length and its address.
    pub fn key(&self, authority: &dyn Authority) -> NodeId {
        let (address, length) = self.0;
        let mut name = [0; 11 + 2 + 16];
        name[..11].copy_from_slice(b"weft region");
        name[12] = length;
        let len = match address {
            IpAddr::V4(address) => {
                name[11] = 4;
                name[13..17].copy_from_slice(&address.octets());
                17
            }
            IpAddr::V6(address) => {
                name[11] = 6;
                name[13..].copy_from_slice(&address.octets());
                29
            }
        };
        authority.place_of(name.get(..len).unwrap_or_default())
    }
}

fn lengths(address: IpAddr) -> [u8; LEVELS] {
    if address.is_ipv4() { IPV4 } else { IPV6 }
}

/// Bits of an address.
pub fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The prefix of so many bits that holds an address.
pub fn network(address: IpAddr, length: u8) -> Prefix {
    let network = match address {
        IpAddr::V4(a) => IpAddr::from((a.to_bits() & !u32::MAX.checked_shr(length.into()).unwrap_or(0)).to_be_bytes()),
        IpAddr::V6(a) => IpAddr::from((a.to_bits() & !u128::MAX.checked_shr(length.into()).unwrap_or(0)).to_be_bytes()),
    };
    (network, length)
}

/// The last address of a prefix.
fn last((address, length): Prefix) -> IpAddr {
    match address {
        IpAddr::V4(a) => IpAddr::from((a.to_bits() | u32::MAX.checked_shr(length.into()).unwrap_or(0)).to_be_bytes()),
        IpAddr::V6(a) => IpAddr::from((a.to_bits() | u128::MAX.checked_shr(length.into()).unwrap_or(0)).to_be_bytes()),
    }
}

/// Whether an address is in a prefix.
pub fn contains(prefix: Prefix, address: IpAddr) -> bool {
    prefix.0.is_ipv4() == address.is_ipv4() && network(address, prefix.1) == prefix
}

/// What is known of the prefixes that hold an address, the longest first.
pub fn matches<T>(map: &BTreeMap<Prefix, T>, address: IpAddr) -> impl Iterator<Item = (Prefix, &T)> {
    let prefixes = (0..=width(address)).rev().map(move |length| network(address, length));
    prefixes.filter_map(|prefix| map.get(&prefix).map(|value| (prefix, value)))
}

/// What is known of the prefixes within a prefix, itself among them.
pub fn within<T>(map: &BTreeMap<Prefix, T>, prefix: Prefix) -> impl Iterator<Item = (Prefix, &T)> {
    let known = map.range(prefix..=(last(prefix), u8::MAX));
    known.filter(move |(known, _)| known.1 >= prefix.1).map(|(known, value)| (*known, value))
}
