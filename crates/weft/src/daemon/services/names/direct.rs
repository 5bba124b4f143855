//! Lookups of endpoints without the machine's resolver, for a machine whose resolver asks through the tunnel.
//!
//! Without the tunnel the machine's resolver could not find the hub, and without the hub there is no tunnel. So the
//! daemon asks the DNS servers of the links itself, over each link that has a route to them. Its queries carry the
//! tunnel's mark, which the kill switch accepts. The queries contain the names of endpoints and nothing else.

mod message;

use crate::daemon::machine::kill_switch::TUNNEL_MARK;
use crate::daemon::machine::resolver::resolv_conf::{self, BEFORE};
use crate::entropy;
use message::RecordType;
use nix::net::if_::if_nameindex;
use nix::sys::socket::{setsockopt, sockopt};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};
use weft_io::netlink::RouteLookup;

/// Port of DNS (*standard*: RFC 1035 §4.2.1).
const PORT: u16 = 53;
/// Maximum time for the two answers of a server: IPv4 and IPv6 addresses.
const PATIENCE: Duration = Duration::from_secs(1);
/// Maximum length of an answer over UDP without extensions, in bytes (*standard*: RFC 1035 §2.3.4).
const MAX_ANSWER: usize = 512;

/// Asks the servers of the links for the addresses of a name. No query is sent over the interfaces `own`.
///
/// # Errors
/// Returns the reason if no server knows an address.
pub fn look_up(name: &str, own: &[String]) -> io::Result<Vec<IpAddr>> {
    let mut routes = RouteLookup::open()?;
    let interfaces = if_nameindex()?;
    let mut last = io::Error::other("no link leads to a DNS server");
    for server in servers() {
        for interface in &interfaces {
            let device = interface.name().to_string_lossy();
            if own.iter().any(|own| *own == device) || !routes.has_route(server, interface.index(), None)? {
                continue;
            }
            match ask(name, server, &device) {
                Ok(addresses) if !addresses.is_empty() => return Ok(addresses),
                Ok(_) => {
                    let what = format!(
                        "the DNS server {server}, asked over interface {device} for {name}, returned no address"
                    );
                    last = io::Error::other(what);
                }
                Err(why) => {
                    let what = format!("cannot ask the DNS server {server} over interface {device} for {name}: {why}");
                    last = io::Error::new(why.kind(), what);
                }
            }
        }
    }
    Err(last)
}

/// Returns the servers that this machine would ask without the node.
fn servers() -> Vec<IpAddr> {
    let etc = Path::new("/etc");
    let own = fs::read_to_string(etc.join(BEFORE)).or_else(|_| fs::read_to_string(etc.join("resolv.conf")));
    let resolved = fs::read_to_string("/run/systemd/resolve/resolv.conf");
    let texts = [own, resolved].map(Result::unwrap_or_default);
    let mut servers: Vec<IpAddr> = Vec::new();
    for server in texts.iter().flat_map(|text| resolv_conf::servers(text)).filter_map(|text| text.parse().ok()) {
        if !servers.contains(&server) && !server.is_loopback() {
            servers.push(server);
        }
    }
    servers
}

fn ask(name: &str, server: IpAddr, device: &str) -> io::Result<Vec<IpAddr>> {
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    setsockopt(&socket, sockopt::BindToDevice, &OsString::from(device))?;
    setsockopt(&socket, sockopt::Mark, &TUNNEL_MARK)?;
    socket.connect(SocketAddr::new(server, PORT))?;
    let [a, b, c, d, ..] = entropy::seed()?;
    let mut open = vec![(RecordType::A, u16::from_be_bytes([a, b])), (RecordType::Aaaa, u16::from_be_bytes([c, d]))];
    for (of, id) in &open {
        let query = message::query(*id, name, *of).ok_or(io::ErrorKind::InvalidInput)?;
        socket.send(&query)?;
    }
    let (until, mut answer, mut addresses) = (Instant::now() + PATIENCE, [0; MAX_ANSWER], Vec::new());
    while !open.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        socket.set_read_timeout(Some(left))?;
        let length = match socket.recv(&mut answer) {
            Ok(length) => length,
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => break,
            Err(why) => return Err(why),
        };
        let bytes = answer.get(..length).unwrap_or_default();
        open.retain(|(of, id)| match message::answer(bytes, *id, name, *of) {
            Some(found) => {
                addresses.extend(found);
                false
            }
            None => true,
        });
    }
    match addresses.is_empty() && !open.is_empty() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(addresses),
    }
}
