//! Files of the OpenVPN server: its configuration, certificate and keys.

use super::certificate::Role;
use super::clients::DIRECTORY;
use super::pki::{Authority, CERTIFICATE};
use super::wrap::{self, COMMON_KEY};
use super::write;
use crate::config::Openvpn;
use crate::config::access::ClientOffer;
use crate::entropy;
use crate::files::Directory;
use std::io;
use std::path::Path;

/// Name of a copy of the configuration, for readers, in the server's directory.
const CONFIG: &str = "server.conf";
/// Name of the server's log file.
pub const LOG: &str = "server.log";
/// Name of the Unix socket through which the node commands the server.
pub const SOCKET: &str = "server.sock";
/// Name of the file with the server's certificate.
const SERVER_CERTIFICATE: &str = "server.crt";
/// Name of the file with the server's private key.
const SERVER_KEY: &str = "server.key";
/// Number of blocks of 32 bytes in the key that clients share.
const COMMON_BLOCKS: usize = 8;
/// File that exists if the kernel has IPv6. An IPv6 socket then serves both families.
const IPV6: &str = "/proc/net/if_inet6";
/// Address that a client gets so that it blocks IPv6.
///
/// It is from the block for local use (RFC 4193) with bits that were drawn at random once. No packet with it leaves a
/// client.
const BLOCKED_CLIENT: &str = "fd83:7a1c:5e0d::2";
/// Address of the edge on the client's blocked IPv6 interface.
const BLOCKED_EDGE: &str = "fd83:7a1c:5e0d::1";
/// MTU inside OpenVPN, in bytes.
///
/// *Derived*: a link's usual 1500 less the overhead of OpenVPN's datagrams over IPv6.
pub const MTU: u16 = 1_420;
/// Number of consecutive log lines of one kind, after which the server drops the rest.
///
/// Strangers thus cannot fill the log.
const MUTE: u32 = 10;
/// Ciphers that server and clients accept for packets, in OpenVPN's notation.
pub const CIPHERS: &str = "AES-256-GCM:CHACHA20-POLY1305";

/// The server's files, as [`prepare`] has written them.
pub struct Prepared {
    /// Directory of the files.
    pub directory: Directory,
    /// Authority that signs the server's certificate.
    pub authority: Authority,
    /// Configuration of the server, as text.
    pub config: String,
}

/// Writes the server's files in the state directory `state`. Creates keys on first use.
///
/// # Errors
/// Returns the reason why that fails, as text for a reader.
pub fn prepare(state: &Directory, settings: &Openvpn, offer: &ClientOffer) -> Result<Prepared, String> {
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
    let failed = |why: aws_lc_rs::error::Unspecified| format!("cannot create a key for OpenVPN: {why}: try again");
    let authority = Authority::new().map_err(failed)?;
    let server = authority.issue("weft edge", Role::Server).map_err(failed)?;
    let common = new_common_key().map_err(|why| why.to_string())?;
    for (name, text) in [(SERVER_CERTIFICATE, &server.certificate), (SERVER_KEY, &server.key), (COMMON_KEY, &common)] {
        write(directory, name, text)?;
    }
    authority.keep(directory)?;
    Ok(authority)
}

/// Creates a static key in the format of `openvpn --genkey secret`: 16 lines of 16 bytes.
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

/// Returns the configuration of an OpenVPN server whose working directory is that of its files.
///
/// `wrap` has the lines that name the keys for handshakes. `offer` has the settings that the server sends to clients.
/// The server connects to the node's socket and ends when the node closes the connection.
fn config(settings: &Openvpn, wrap: &str, offer: &ClientOffer) -> String {
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

/// Returns the lines of the server's configuration that make it send the settings in `offer` to clients.
///
/// A client that sends all traffic through the tunnel gets an IPv6 address and IPv6 routes. The client then answers
/// IPv6 packets with an error instead of sending them outside the tunnel. These are the options of the example for
/// `block-ipv6` in openvpn(8).
fn pushed(offer: &ClientOffer) -> String {
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
        let offer = |route: &str, dns: Vec<Ipv4Addr>| ClientOffer { routes: vec![parse(route).unwrap()], dns };
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
