//! `weft init --hub`: makes this machine the hub of a new network.

use super::ca;
use crate::cli::InitOptions;
use crate::config::{peer_name, prefix};
use crate::entropy;
use crate::join::{MAX_ENDPOINTS, MemberDirectory, how_to_start};
use crate::outcome::{Failure, Outcome};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use weft_engine::Prefix;
use weft_session::Claims;

/// Validity of the hub's own certificate, in days.
///
/// The owner can renew it with `weft ca renew`, because the root key is on the same machine.
const HUB_DAYS: u64 = 3_650;
/// Addresses for documentation (RFC 5737, RFC 3849).
///
/// They are used to find the source address that the kernel chooses for its default routes.
const FAR: [&str; 2] = ["192.0.2.1:9", "[2001:db8::1]:9"];

/// Creates root key, node key, certificate and configuration, and prints the next steps.
pub fn init(options: &InitOptions) -> Result<Outcome, Failure> {
    let name = peer_name(&options.name).map_err(|why| ca::wrong(&options.name, why))?;
    let networks = [ca::network(&options.network)?, private_network()?];
    let hosts = networks.map(|(address, length)| (prefix::nth_host(Prefix { address, length }, 1), length));
    let [(Some(address), length), (Some(address6), length6)] = hosts else {
        return Err(ca::wrong(&options.network, "it has no space for nodes"));
    };
    let endpoints = endpoints(options)?;
    let member = MemberDirectory::prepare(&options.dir)?;
    let directory = options.dir.join("ca");
    let root = ca::create(&directory)?;
    let now = ca::unix_s();
    let claims = Claims {
        public_key: member.identity.public_key(),
        name: name.clone(),
        not_before_unix_s: now.saturating_sub(ca::EARLIER_S),
        not_after_unix_s: now.saturating_add(HUB_DAYS * ca::DAY_S),
        may_relay: true,
        prefixes: [address, address6].map(|address| (address, prefix::host_bits(address))).to_vec(),
        groups: Vec::new(),
    };
    let certificate = ca::issue(&directory, &claims)?;
    let list: Vec<String> = endpoints.iter().map(|endpoint| format!("\"{endpoint}\"")).collect();
    let text = format!(
        "listen = {}\nrelay = true\n\n[tun]\naddress = [\"{address}/{length}\", \"{address6}/{length6}\"]\n\n\
         [network]\nroot = \"{root}\"\ncertificate = \"weft.cert\"\nendpoints = [{}]\n{}",
        options.port,
        list.join(", "),
        if options.exit { "\n[exit]\nmasquerade = true\n" } else { "" }
    );
    let config = member.store(&certificate.to_string(), &text)?;
    println!("hub of a new network: {name}, {address}/{length} and {address6}/{length6}");
    println!("root key: {}", directory.join("root.key").display());
    for endpoint in &endpoints {
        println!("others reach it at {endpoint}{}", if is_private(endpoint.ip()) { BEHIND_A_ROUTER } else { "" });
    }
    let port = options.port;
    println!("open the firewall: UDP port {port}, and TCP port {port} while an invitation waits");
    if options.exit {
        println!(
            "let it forward: echo net.ipv4.ip_forward=1 >/etc/sysctl.d/60-weft.conf; sysctl -p /etc/sysctl.d/60-weft.conf"
        );
    }
    print!("{}", how_to_start(&config));
    println!("invite a node: weft invite laptop");
    Ok(Outcome::Well)
}

const BEHIND_A_ROUTER: &str =
    ", a private address: if nodes come from elsewhere, forward the port there and give --endpoint the public address";

/// Returns a random unique local network for IPv6 (RFC 4193, §3.2.2).
fn private_network() -> Result<(IpAddr, u8), Failure> {
    let seed = entropy::seed().map_err(|why| Failure::new(why.to_string()))?;
    let mut octets = [0; 16];
    octets[0] = 0xfd;
    octets[1..6].copy_from_slice(&seed[..5]);
    Ok((IpAddr::from(octets), 64))
}

/// Returns the endpoints of the command line, or else this machine's own addresses.
fn endpoints(options: &InitOptions) -> Result<Vec<SocketAddr>, Failure> {
    let mut all = options.endpoints.clone();
    if all.is_empty() {
        let own = FAR.into_iter().filter_map(own_address);
        all = own.map(|address| SocketAddr::new(address, options.port)).collect();
    }
    match all.len() {
        0 => Err(Failure::new(
            "cannot find this machine's address without a default route: give it with --endpoint ADDRESS:PORT",
        )),
        1..=MAX_ENDPOINTS => Ok(all),
        _ => Err(Failure::with(
            Outcome::Usage,
            format!("at most {MAX_ENDPOINTS} addresses can be given with --endpoint: leave some out"),
        )),
    }
}

/// Returns the source address that the kernel would give a datagram to `far`. No datagram is sent.
///
/// Returns `None` if the kernel has no route to `far`, or would use a loopback address.
fn own_address(far: &str) -> Option<IpAddr> {
    let far: SocketAddr = far.parse().ok()?;
    let any: SocketAddr =
        if far.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { (std::net::Ipv6Addr::UNSPECIFIED, 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(far).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified() && !address.is_loopback()).then_some(address)
}

/// Returns true for addresses that a router translates (RFC 1918, RFC 6598, RFC 4193).
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private() || (address.octets()[0] == 100 && address.octets()[1] & 0xc0 == 64),
        IpAddr::V6(address) => address.is_unique_local() || address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_behind_routers_are_distinguished() {
        let private = |text: &str| is_private(text.parse().unwrap());
        assert!(["10.1.2.3", "192.168.0.9", "100.64.0.1", "100.127.255.255", "fd00::1"].into_iter().all(private));
        assert!(!["203.0.113.5", "100.63.0.1", "100.128.0.1", "2001:db8::1"].into_iter().any(private));
    }
}
