//! IP networks and addresses outside the VPN. A prefix that a peer's certificate claims must not cover them.

use super::config::Prefix;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

/// Prefix length below which a prefix is treated as a default route.
///
/// Such a prefix (0.0.0.0/0, its halves, 2000::/3) may cover any network or address. *Standard*: no IPv4 network is
/// larger than a /8.
const REST_OF_THE_WORLD: u8 = 8;

/// IP networks and addresses that no prefix of a peer may cover: those of this machine and of nodes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Outside {
    /// IP networks of this machine's interfaces, except weft's own interfaces.
    pub networks: Vec<Prefix>,
    /// Outer addresses to which datagrams for nodes are sent.
    pub endpoints: Vec<IpAddr>,
}

/// The IP network or address outside the VPN that a claimed prefix covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clash {
    /// The prefix equals or covers this IP network of the machine.
    Network(Prefix),
    /// The prefix contains this outer address of a node.
    Endpoint(IpAddr),
}

impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clash::Network(network) => {
                write!(f, "it covers the local network of {}/{}", network.address, network.length)
            }
            Clash::Endpoint(address) => write!(f, "it contains {address}, the outer address of a node"),
        }
    }
}

impl Outside {
    /// Returns the IP network of this machine or the outer address that `prefix` covers, if there is one.
    ///
    /// A prefix inside a local network is allowed.
    #[must_use]
    pub fn clash(&self, prefix: Prefix) -> Option<Clash> {
        if prefix.length < REST_OF_THE_WORLD {
            return None;
        }
        let is_covered = |network: &&Prefix| prefix.length <= network.length && prefix.contains(network.address);
        let network = self.networks.iter().find(is_covered).copied().map(Clash::Network);
        network.or_else(|| {
            let endpoint = self.endpoints.iter().find(|address| prefix.contains(**address));
            endpoint.copied().map(Clash::Endpoint)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use weft_units::Rng;

    /// Returns a prefix within 10.0.0.0/8 or fa00::/8. All prefixes of the test differ only in the second byte.
    fn prefix(ipv6: bool, byte: u8, length: u8) -> Prefix {
        let mask = u8::MAX.checked_shl(16 - u32::from(length)).unwrap_or(0);
        Prefix { address: address(ipv6, byte & mask), length }
    }

    fn address(ipv6: bool, byte: u8) -> IpAddr {
        match ipv6 {
            false => Ipv4Addr::new(10, byte, 0, 0).into(),
            true => Ipv6Addr::new(0xfa00 | u16::from(byte), 0, 0, 0, 0, 0, 0, 0).into(),
        }
    }

    /// Returns the model of a prefix in this test: the set of the second bytes of all its addresses.
    fn bytes(prefix: Prefix) -> BTreeSet<u8> {
        (0..=u8::MAX).filter(|byte| prefix.contains(address(prefix.address.is_ipv6(), *byte))).collect()
    }

    #[test]
    fn prefixes_that_take_in_what_is_outside_clash_and_no_others() {
        let mut rng = Rng::new(28);
        let mut clashes = 0;
        for round in 0..20_000 {
            let mut draw = || (rng.chance(0.5), rng.below(256) as u8, 8 + rng.below(9) as u8);
            let [claim, one, other] = [draw(), draw(), draw()].map(|(ipv6, byte, length)| prefix(ipv6, byte, length));
            let (ipv6, byte, _) = draw();
            let outside = Outside { networks: [one, other].into(), endpoints: [address(ipv6, byte)].into() };
            let (claimed, is_of) = (bytes(claim), claim.address.is_ipv6());
            let covers = |network: &Prefix| network.address.is_ipv6() == is_of && bytes(*network).is_subset(&claimed);
            let expected = match outside.networks.iter().find(|network| covers(network)) {
                Some(network) => Some(Clash::Network(*network)),
                None => (ipv6 == is_of && claimed.contains(&byte)).then(|| Clash::Endpoint(address(ipv6, byte))),
            };
            assert_eq!(outside.clash(claim), expected, "{round}: {claim:?} {outside:?}");
            clashes += u32::from(expected.is_some());
        }
        assert!((2_000..18_000).contains(&clashes), "{clashes}");
    }

    #[test]
    fn the_rest_of_the_world_lies_around_everything() {
        let networks = [prefix(false, 7, 16), prefix(true, 7, 16)].into();
        let outside = Outside { networks, endpoints: [address(false, 1), address(true, 1)].into() };
        for length in 0..8 {
            for ipv6 in [false, true] {
                assert_eq!(outside.clash(Prefix { address: address(ipv6, 0), length }), None, "{length}");
            }
        }
    }
}
