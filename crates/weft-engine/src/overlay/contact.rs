//! Contacts: the key and the addresses of a node, in the form in which nodes of the overlay send them to each other.

use crate::api::{Contact, MAX_ENDPOINTS};
use crate::links::is_route;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_core::route::overlay;
use weft_session::PublicKey;
use weft_units::NodeId;

const KEY_LEN: usize = 32;
const IPV4: u8 = 4;
const IPV6: u8 = 6;

impl Contact {
    /// Returns the node's id in the overlay.
    pub fn id(&self) -> NodeId {
        self.public_key.node_id()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.public_key.0.to_vec();
        for endpoint in self.endpoints.iter().take(MAX_ENDPOINTS) {
            match endpoint.ip() {
                IpAddr::V4(ip) => {
                    out.push(IPV4);
                    out.extend(ip.octets());
                }
                IpAddr::V6(ip) => {
                    out.push(IPV6);
                    out.extend(ip.octets());
                }
            }
            out.extend(endpoint.port().to_be_bytes());
        }
        out
    }

    /// Parses the output of [`Contact::encode`].
    ///
    /// Returns `None` for anything else, and drops endpoints to which no datagram can be sent.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Contact> {
        let (key, mut rest) = bytes.split_first_chunk::<KEY_LEN>()?;
        let mut endpoints = Vec::new();
        while let Some((family, after)) = rest.split_first() {
            let (ip, after) = match *family {
                IPV4 => after.split_first_chunk::<4>().map(|(ip, after)| (IpAddr::from(*ip), after))?,
                IPV6 => after.split_first_chunk::<16>().map(|(ip, after)| (IpAddr::from(*ip), after))?,
                _ => return None,
            };
            let (port, after) = after.split_first_chunk()?;
            let endpoint = SocketAddr::new(ip, u16::from_be_bytes(*port));
            if can_be_called(&endpoint) && endpoints.len() < MAX_ENDPOINTS {
                endpoints.push(endpoint);
            }
            rest = after;
        }
        Some(Contact { public_key: PublicKey(*key), endpoints })
    }
}

fn can_be_called(endpoint: &SocketAddr) -> bool {
    let ip = endpoint.ip();
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    endpoint.port() != 0
        && !ip.is_unspecified()
        && !ip.is_multicast()
        && !ip.is_loopback()
        && !is_broadcast
        && !is_route(endpoint)
}

/// Returns a contact in the form that weft-core's overlay uses: node id, and encoded key and addresses.
pub fn named(contact: &Contact) -> overlay::NodeContact {
    overlay::NodeContact { id: contact.id(), details: contact.encode().into() }
}

pub fn without_repeats(endpoints: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut list = Vec::new();
    for endpoint in endpoints {
        if !list.contains(&endpoint) {
            list.push(endpoint);
        }
    }
    list.truncate(MAX_ENDPOINTS);
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use weft_wire::overlay::MAX_DETAILS;

    fn contact(endpoints: &[&str]) -> Contact {
        let endpoints = endpoints.iter().map(|text| text.parse().unwrap()).collect();
        Contact { public_key: PublicKey([7; 32]), endpoints }
    }

    #[test]
    fn a_written_contact_is_read_unchanged() {
        for endpoints in [&[][..], &["192.0.2.1:51900"], &["[2001:db8::1]:1", "192.0.2.1:65535"]] {
            let contact = contact(endpoints);
            assert_eq!(Contact::decode(&contact.encode()), Some(contact));
        }
        let many = contact(&["[2001:db8::1]:1"; 9]);
        assert_eq!(many.encode().len(), MAX_DETAILS);
        assert_eq!(Contact::decode(&many.encode()).unwrap().endpoints.len(), MAX_ENDPOINTS);
    }

    #[test]
    fn no_call_goes_to_an_address_that_cannot_be_a_nodes() {
        let nowhere =
            ["0.0.0.0:1", "192.0.2.1:0", "127.0.0.1:1", "224.0.0.1:1", "255.255.255.255:1", "[::1]:9", "[ff02::1]:9"];
        for endpoint in nowhere {
            let read = Contact::decode(&contact(&[endpoint]).encode()).unwrap();
            assert_eq!(read.endpoints, vec![], "{endpoint}");
        }
        let whole = contact(&["192.0.2.1:51900"]).encode();
        for len in (0..whole.len()).filter(|len| *len != KEY_LEN) {
            assert_eq!(Contact::decode(&whole[..len]), None, "{len} bytes");
        }
    }
}
