//! Profile of an OpenVPN client: one file that contains its keys and certificates.

use super::pki::{Authority, KeyAndCertificate};
use super::server::{CIPHERS, MTU};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use weft_engine::Prefix;

/// Returns the profile of the client with the certificate `issued`.
///
/// The profile is for the edge at `endpoint` (`HOST:PORT`). The client sends packets to `routes` through the tunnel.
/// `wrap` is the name of OpenVPN's option for the key that protects handshakes from strangers, and `wrap_key` is that
/// key. The server sends further settings to the client at each connection ([`super::server`]).
pub fn text(
    authority: &Authority,
    issued: &KeyAndCertificate,
    (wrap, wrap_key): (&str, &str),
    endpoint: &str,
    routes: &[Prefix],
) -> String {
    let (host, port) = endpoint.rsplit_once(':').unwrap_or((endpoint, "1194"));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut text = format!(
        "client\ndev tun\nproto udp\nremote {host} {port}\nnobind\npersist-key\npersist-tun\nresolv-retry infinite\n\
         remote-cert-tls server\ndata-ciphers {CIPHERS}\ntun-mtu {MTU}\n"
    );
    for Prefix { address, length } in routes {
        let _ = match (address, length) {
            // The client's route to the edge itself stays outside the tunnel.
            (IpAddr::V4(_), 0) => writeln!(text, "redirect-gateway def1"),
            (IpAddr::V4(address), length) => writeln!(
                text,
                "route {address} {}",
                Ipv4Addr::from_bits(!u32::MAX.checked_shr(u32::from(*length)).unwrap_or(0))
            ),
            (IpAddr::V6(_), _) => Ok(()),
        };
    }
    let parts =
        [("ca", authority.certificate.as_str()), ("cert", &issued.certificate), ("key", &issued.key), (wrap, wrap_key)];
    for (name, part) in parts {
        let _ = writeln!(text, "<{name}>\n{}\n</{name}>", part.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::openvpn::certificate::Role;
    use crate::config::prefix::parse;

    #[test]
    fn a_file_contains_all_that_a_client_needs() {
        let authority = Authority::new().unwrap();
        let issued = authority.issue("0a", Role::Client).unwrap();
        let routes = ["10.9.0.0/24", "0.0.0.0/0", "fd00::/64"].map(|text| parse(text).unwrap());
        let text = text(&authority, &issued, ("tls-crypt-v2", "own"), "[2001:db8::1]:1194", &routes);
        assert!(text.contains("\nremote 2001:db8::1 1194\n"), "{text}");
        assert!(
            text.contains("\nroute 10.9.0.0 255.255.255.0\nredirect-gateway def1\n<ca>\n-----BEGIN CERT"),
            "{text}"
        );
        assert!(text.contains("<tls-crypt-v2>\nown\n</tls-crypt-v2>"), "{text}");
        assert!(text.contains(issued.key.trim_end()) && !text.contains("fd00"), "{text}");
    }
}
