//! Endpoints by name: the part of the configuration that needs a lookup.
//!
//! Parsing separates names and addresses. The daemon resolves the names and adds their addresses with
//! [`Config::add_addresses`], so that all other code gets only addresses. This module asks no resolver.

use super::read::At;
use super::{Config, parse};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use weft_session::PublicKey;

/// Maximum length of a name (RFC 1035 §2.3.4).
const MAX_NAME: usize = 253;
/// Maximum length of a label (RFC 1035 §2.3.4).
const MAX_LABEL: usize = 63;

/// Name of a host, and a UDP port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostName {
    /// Name of the host.
    pub name: String,
    /// UDP port.
    pub port: u16,
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.port)
    }
}

/// Addresses of names, as a resolver returned them.
pub type ResolvedAddresses = BTreeMap<HostName, Vec<SocketAddr>>;

/// An endpoint as the configuration states it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// An IP address and a UDP port.
    Address(SocketAddr),
    /// The name of a host and a UDP port.
    Name(HostName),
}

/// Parses an address, or the name of a host, with a port.
///
/// # Errors
/// Returns the expected form.
pub fn endpoint(text: &str) -> Result<Endpoint, &'static str> {
    if let Ok(address) = parse::endpoint(text) {
        return Ok(Endpoint::Address(address));
    }
    let (name, port) = text.rsplit_once(':').ok_or("expected an address or a name, a colon and a port")?;
    let port: u16 =
        port.parse().ok().filter(|port| *port > 0).ok_or("expected a port from 1 to 65535 after the colon")?;
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    if !is_name(&name) {
        return Err("expected an IP address or a host name, then a colon and a port, such as hub.example:51900");
    }
    Ok(Endpoint::Name(HostName { name, port }))
}

/// Returns true if `name` is a valid host name (RFC 1123 §2.1).
///
/// The last label must not consist of digits, because the name would look like an IPv4 address.
pub(super) fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= MAX_NAME && name.split('.').all(is_label) && !last.chars().all(|c| c.is_ascii_digit())
}

/// Parses the contact of a node: its key and an endpoint.
///
/// # Errors
/// Returns the expected form.
pub(super) fn contact(text: &str) -> Result<(PublicKey, Endpoint), &'static str> {
    let (key, place) = text.split_once('@').ok_or("expected a node's public key, @, and its address and port")?;
    Ok((parse::public_key(key)?, endpoint(place)?))
}

/// Returns the addresses among `endpoints`, and the names among them.
pub(super) fn split(endpoints: Vec<At<Endpoint>>) -> (Vec<SocketAddr>, Vec<HostName>) {
    let (mut addresses, mut names) = (Vec::new(), Vec::new());
    for endpoint in endpoints {
        match endpoint.value {
            Endpoint::Address(address) => addresses.push(address),
            Endpoint::Name(name) => names.push(name),
        }
    }
    (addresses, names)
}

impl Config {
    /// Returns the host names of all peers and contacts, whose addresses must be looked up.
    pub fn host_names(&self) -> BTreeSet<HostName> {
        let of_peers = self.peers.iter().flat_map(|peer| &peer.names);
        let contacts = self.network.iter().flat_map(|network| &network.named_contacts).map(|at| &at.value.1);
        of_peers.chain(contacts).cloned().collect()
    }

    /// Adds the addresses in `known` to the peers and contacts that have these names.
    pub fn add_addresses(&mut self, known: &ResolvedAddresses) {
        for peer in &mut self.peers {
            for address in peer.names.iter().filter_map(|name| known.get(name)).flatten() {
                if !peer.endpoints.contains(address) {
                    peer.endpoints.push(*address);
                }
            }
        }
        let Some(network) = &mut self.network else { return };
        for At { value: (key, name), span } in &network.named_contacts {
            for address in known.get(name).into_iter().flatten() {
                network.contacts.push(At { value: (*key, *address), span: span.clone() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> Option<(String, u16)> {
        match endpoint(text) {
            Ok(Endpoint::Name(HostName { name, port })) => Some((name, port)),
            _ => None,
        }
    }

    #[test]
    fn names_and_addresses_are_distinguished() {
        assert_eq!(name("Hub.Example.org:51900"), Some(("hub.example.org".into(), 51_900)));
        assert_eq!(name("localhost.:1"), Some(("localhost".into(), 1)));
        assert_eq!(name("my_host-1.lan:9"), Some(("my_host-1.lan".into(), 9)));
        for address in ["192.0.2.1:51900", "[2001:db8::1]:51900"] {
            assert!(matches!(endpoint(address), Ok(Endpoint::Address(_))), "{address}");
        }
        for wrong in [
            "hub",
            "hub:",
            "hub:0",
            "hub:70000",
            "192.0.2.300:1",
            "a..b:1",
            "-a:1",
            "2001:db8::1",
            "a b:1",
            ":1",
            "ä.de:1",
        ] {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_endpoint_or_an_error(text in ".{0,80}", name in "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?(\\.[a-z][a-z0-9]{0,9}){1,3}", port in 1u16..) {
            let _ = endpoint(&text);
            let read = endpoint(&format!("{name}:{port}"));
            prop_assert_eq!(read, Ok(Endpoint::Name(HostName { name, port })));
        }
    }
}
