//! Definition of a user, the unit of fair sharing (a host, a prefix or a node), and the users' weights.

use crate::rules::NameId;
use crate::user::UserKey;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_units::VpnId;

/// Prefix length of an IPv6 host: the rest is the host's own choice.
///
/// *Standard*: RFC 4291 §2.5.4.
const IPV6_HOST: u8 = 64;

/// Definition of a user, the unit of fair sharing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UserBy {
    /// A host: one IPv4 address, or the first 64 bits of an IPv6 address.
    Host,
    /// A prefix with these lengths in bits, of IPv4 and of IPv6.
    Prefix(u8, u8),
    /// A node, by its name.
    Node,
}

/// Definition of a user, the unit of fair sharing, and the users' weights.
#[derive(Clone, PartialEq, Debug)]
pub struct UserRule {
    /// Whether a user is a host, a prefix or a node.
    pub by: UserBy,
    /// Users whose weight is not one. A host or prefix is named by its first address.
    pub weights: Vec<(UserName, u16)>,
}

/// Name of a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UserName {
    /// A host or a prefix, by its first address.
    Address(IpAddr),
    /// A node, by its name.
    Node(String),
}

impl Default for UserRule {
    fn default() -> UserRule {
        UserRule { by: UserBy::Host, weights: Vec::new() }
    }
}

impl UserRule {
    /// Returns the user of a flow that `initiator` began in `vpn` behind the node `near`.
    pub fn user_of(&self, vpn: VpnId, initiator: IpAddr, near: NameId) -> UserKey {
        match self.by {
            UserBy::Host => UserKey::Host(vpn, first_address(initiator, 32, IPV6_HOST)),
            UserBy::Prefix(v4, v6) => UserKey::Host(vpn, first_address(initiator, v4, v6)),
            UserBy::Node => UserKey::Certificate(near.0),
        }
    }

    /// Returns the weight of a user, or 1 if none is set. `near` is the node behind which the user is.
    pub fn weight(&self, user: &UserKey, near: &str) -> u16 {
        let is_it = |(name, _): &&(UserName, u16)| match (name, user) {
            (UserName::Address(address), UserKey::Host(_, own)) => address == own,
            (UserName::Node(name), UserKey::Certificate(_)) => name == near,
            _ => false,
        };
        self.weights.iter().find(is_it).map_or(1, |(_, weight)| *weight)
    }
}

/// Returns an address whose bits after the first `v4` or `v6` ones are zero.
fn first_address(address: IpAddr, v4: u8, v6: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(v4.min(32))).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(v6.min(128))).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_distinguished_as_configured() {
        let [a, b]: [IpAddr; 2] = ["10.9.1.7".parse().unwrap(), "10.9.1.200".parse().unwrap()];
        let [c, d]: [IpAddr; 2] = ["fd00::1".parse().unwrap(), "fd00::2:1".parse().unwrap()];
        let user = |by, address| UserRule { by, ..UserRule::default() }.user_of(VpnId(3), address, NameId(4));
        assert_ne!(user(UserBy::Host, a), user(UserBy::Host, b));
        assert_eq!(user(UserBy::Host, c), user(UserBy::Host, d));
        assert_eq!(user(UserBy::Prefix(24, 64), a), user(UserBy::Prefix(24, 64), b));
        assert_ne!(user(UserBy::Prefix(25, 64), a), user(UserBy::Prefix(25, 64), b));
        assert_ne!(user(UserBy::Prefix(24, 128), c), user(UserBy::Prefix(24, 128), d));
        assert_eq!(user(UserBy::Prefix(0, 0), a), UserKey::Host(VpnId(3), Ipv4Addr::UNSPECIFIED.into()));
        assert_eq!(user(UserBy::Node, a), UserKey::Certificate(4));
    }

    #[test]
    fn a_weight_belongs_to_a_name() {
        let host: IpAddr = "10.9.1.7".parse().unwrap();
        let weights = [(UserName::Address(host), 4), (UserName::Node("hub".into()), 7)].to_vec();
        let rule = UserRule { by: UserBy::Host, weights };
        assert_eq!(rule.weight(&UserKey::Host(VpnId::DEFAULT, host), "hub"), 4);
        assert_eq!(rule.weight(&UserKey::Host(VpnId::DEFAULT, "10.9.1.8".parse().unwrap()), "hub"), 1);
        assert_eq!(rule.weight(&UserKey::Certificate(2), "hub"), 7);
    }
}
