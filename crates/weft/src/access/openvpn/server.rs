//! The server's files: its configuration, certificate and keys.

use super::clients::DIRECTORY;
use super::pki::{Authority, CERTIFICATE, Role};
use super::wrap::{self, COMMON_KEY};
use super::write;
use crate::config::Openvpn;
use crate::config::access::Offer;
use crate::entropy;
use crate::files::Directory;
use std::io;
use std::path::Path;

/// A copy of its configuration for people, in its directory.
const CONFIG: &str = "server.conf";
/// What it says.
pub const LOG: &str = "server.log";
/// Where the node gives it orders.
pub const SOCKET: &str = "server.sock";
const SERVER_CERTIFICATE: &str = "server.crt";
const SERVER_KEY: &str = "server.key";
/// Blocks of 32 bytes in that key.
const COMMON_BLOCKS: usize = 8;
/// Where the kernel has IPv6; a socket of it then serves both.
const IPV6: &str = "/proc/net/if_inet6";
/// Addresses of nobody, from the block for local use (RFC 4193), with bits drawn at random once. No packet with them leaves a client.
const BLOCKED_CLIENT: &str = "fd83:7a1c:5e0d::2";
const BLOCKED_EDGE: &str = "fd83:7a1c:5e0d::1";
/// As much less than the usual link's as OpenVPN's datagrams over IPv6 need.
pub const MTU: u16 = 1_420;
/// So many lines of one kind in a row are logged: strangers must not fill the log.
const MUTE: u32 = 10;
/// What both ends take.
pub const CIPHERS: &str = "AES-256-GCM:CHACHA20-POLY1305";

/// The server's files.
pub struct Prepared {
    /// Where they are.
    pub directory: Directory,
    /// Who signs its certificates.
    pub authority: Authority,
    /// Its configuration.
    pub config: String,
}

/// Writes the server's files in the state directory `state`, keys when they are first asked for.
///
/// # Errors
/// Why that is not possible, for people.
pub fn prepare(state: &Directory, settings: &Openvpn, offer: &Offer) -> Result<Prepared, String> {
    let directory = state.make_in(super::DIRECTORY).map_err(|why| state.failed(super::DIRECTORY, &why))?;
    directory.make_in(DIRECTORY).map_err(|why| directory.failed(DIRECTORY, &why))?;
    let authority = match Authority::load(&directory)? {
        Some(authority) => authority,
        None => make_keys(&directory)?,
    };
    wrap::prepare(&directory)?;
    let config = config(settings, &wrap::of_server(&directory)?, offer);
    write(&directory, CONFIG, &config)?;
    Ok(Prepared { directory, authority, config })
}

fn make_keys(directory: &Directory) -> Result<Authority, String> {
    let failed = |why: rcgen::Error| format!("no key can be made: {why}");
    let authority = Authority::new().map_err(failed)?;
    let server = authority.issue("weft edge", Role::Server).map_err(failed)?;
    let common = new_common_key().map_err(|why| format!("the kernel gave no random numbers: {why}"))?;
    for (name, text) in [(SERVER_CERTIFICATE, &server.certificate), (SERVER_KEY, &server.key), (COMMON_KEY, &common)] {
        write(directory, name, text)?;
    }
    authority.keep(directory)?;
    Ok(authority)
}

/// As `openvpn --genkey secret` writes one: 16 lines of 16 bytes.
fn new_common_key() -> io::Result<String> {
    let mut text = "-----BEGIN OpenVPN Static key V1-----\n".to_owned();
    for _ in 0..COMMON_BLOCKS {
        for half in entropy::seed()?.chunks(16) {
            text.extend(half.iter().map(|byte| format!("{byte:02x}")));
            text.push('\n');
        }
    }
    Ok(text + "-----END OpenVPN Static key V1-----\n")
}

/// The configuration, for a server that runs in its directory. It ends when the node, which it calls at the socket, does.
fn config(settings: &Openvpn, wrap: &str, offer: &Offer) -> String {
    let Openvpn { listen, pool, device, .. } = settings;
    let proto = if Path::new(IPV6).exists() { "udp6" } else { "udp4" };
    let (listen, edge, mask) = (listen.value, pool.value.edge(), pool.value.mask());
    let pushed = pushed(offer);
    format!(
        "# Written by weft at each start.\n\
         mode server\ntls-server\nproto {proto}\nport {listen}\nmultihome\n\
         dev {device}\ndev-type tun\ntopology subnet\nifconfig {edge} {mask}\ntun-mtu {MTU}\ntxqueuelen 2000\ndisable-dco\n\
         push \"topology subnet\"\npush \"route-gateway {edge}\"\n\
         ca {CERTIFICATE}\ncert {SERVER_CERTIFICATE}\nkey {SERVER_KEY}\n{wrap}dh none\n\
         remote-cert-tls client\nclient-config-dir {DIRECTORY}\nccd-exclusive\n\
         data-ciphers {CIPHERS}\nkeepalive 10 60\npersist-key\npersist-tun\n\
         management {SOCKET} unix\nmanagement-client\nverb 1\nmute {MUTE}\n{pushed}"
    )
}

/// What clients are told at each connection. Who sends all over the tunnel gets an IPv6 address and routes for IPv6, only so that it is
/// answered with an error on the client instead of leaving beside the tunnel (`block-ipv6` in openvpn(8), whose example this is).
fn pushed(offer: &Offer) -> String {
    let mut lines: String = offer.dns.iter().map(|server| format!("push \"dhcp-option DNS {server}\"\n")).collect();
    if offer.takes_all() {
        lines += &format!("push \"ifconfig-ipv6 {BLOCKED_CLIENT}/64 {BLOCKED_EDGE}\"\n");
        lines += "push \"redirect-gateway def1 ipv6\"\npush \"block-ipv6\"\nblock-ipv6\n";
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::prefix::parse;
    use std::net::Ipv4Addr;

    #[test]
    fn name_servers_are_pushed_and_ipv6_is_blocked_only_where_all_goes_by_the_tunnel() {
        let offer = |route: &str, dns: Vec<Ipv4Addr>| Offer { routes: vec![parse(route).unwrap()], dns };
        assert_eq!(pushed(&offer("10.9.0.0/24", Vec::new())), "");
        let named = pushed(&offer("10.9.0.0/24", vec![[10, 9, 0, 1].into(), [10, 9, 0, 2].into()]));
        assert_eq!(named, "push \"dhcp-option DNS 10.9.0.1\"\npush \"dhcp-option DNS 10.9.0.2\"\n");
        let all = pushed(&offer("0.0.0.0/0", vec![[10, 9, 0, 1].into()]));
        for line in [
            "push \"dhcp-option DNS 10.9.0.1\"",
            "push \"redirect-gateway def1 ipv6\"",
            "push \"block-ipv6\"",
            "block-ipv6",
        ] {
            assert!(all.lines().any(|l| l == line), "{line}\n{all}");
        }
    }
}
