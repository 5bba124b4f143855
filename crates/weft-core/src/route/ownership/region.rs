//! Regions: determine the key on the ring to which a prefix belongs, so that an address alone leads to it.
//!
//! A region is a prefix of one of four lengths. A prefix belongs to the longest region that contains all of it. An
//! address lies in four regions, so four queries find any prefix that covers it. A region of the finest level has 256
//! addresses, so that the owners of many adjacent host addresses do not overload one node.

use super::DirectoryAuthority;
use alloc::collections::BTreeMap;
use core::net::IpAddr;
use weft_units::NodeId;
use weft_wire::certificate::WirePrefix;

/// Number of regions that contain one address.
pub const LEVELS: usize = 4;

const IPV4: [u8; LEVELS] = [24, 16, 8, 0];
const IPV6: [u8; LEVELS] = [120, 64, 48, 0];

/// A region: a prefix of one of four fixed lengths.
///
/// Claims of the prefixes that belong to a region are stored at the region's key on the ring.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Region(WirePrefix);

impl Region {
    /// Returns the region to which a prefix belongs: the longest one that contains all of it.
    pub fn of((address, length): WirePrefix) -> Region {
        let fits = lengths(address).into_iter().find(|of_region| *of_region <= length);
        Region(network(address, fits.unwrap_or(0)))
    }

    /// Returns the regions that contain an address, the longest first.
    pub fn around(address: IpAddr) -> [Region; LEVELS] {
        lengths(address).map(|length| Region(network(address, length)))
    }

    /// Returns the region's prefix.
    pub fn prefix(&self) -> WirePrefix {
        self.0
    }

    /// Returns the region's key, which is a position on the ring.
    ///
    /// It is the hash of "weft region", 4 or 6 (the IP version), the region's length and its address.
    pub fn key(&self, authority: &dyn DirectoryAuthority) -> NodeId {
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

/// Length of an address in bits.
pub fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Returns the prefix of `length` bits that contains an address.
pub fn network(address: IpAddr, length: u8) -> WirePrefix {
    let network = match address {
        IpAddr::V4(a) => IpAddr::from((a.to_bits() & !u32::MAX.checked_shr(length.into()).unwrap_or(0)).to_be_bytes()),
        IpAddr::V6(a) => IpAddr::from((a.to_bits() & !u128::MAX.checked_shr(length.into()).unwrap_or(0)).to_be_bytes()),
    };
    (network, length)
}

/// Returns the last address of a prefix.
fn last((address, length): WirePrefix) -> IpAddr {
    match address {
        IpAddr::V4(a) => IpAddr::from((a.to_bits() | u32::MAX.checked_shr(length.into()).unwrap_or(0)).to_be_bytes()),
        IpAddr::V6(a) => IpAddr::from((a.to_bits() | u128::MAX.checked_shr(length.into()).unwrap_or(0)).to_be_bytes()),
    }
}

/// True if the prefix contains the address.
pub fn contains(prefix: WirePrefix, address: IpAddr) -> bool {
    prefix.0.is_ipv4() == address.is_ipv4() && network(address, prefix.1) == prefix
}

/// Iterates over the stored prefixes that contain an address, the longest first.
pub fn matches<T>(map: &BTreeMap<WirePrefix, T>, address: IpAddr) -> impl Iterator<Item = (WirePrefix, &T)> {
    let prefixes = (0..=width(address)).rev().map(move |length| network(address, length));
    prefixes.filter_map(|prefix| map.get(&prefix).map(|value| (prefix, value)))
}

/// Iterates over the stored prefixes within a prefix, including itself.
pub fn within<T>(map: &BTreeMap<WirePrefix, T>, prefix: WirePrefix) -> impl Iterator<Item = (WirePrefix, &T)> {
    let known = map.range(prefix..=(last(prefix), u8::MAX));
    known.filter(move |(known, _)| known.1 >= prefix.1).map(|(known, value)| (*known, value))
}
