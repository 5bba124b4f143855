//! Parsing of `[routing]`: a routing daemon on this machine, such as FRR.

use super::read::{At, Section};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use weft_units::{Duration, parse_duration};

/// Names of routing protocols with the numbers that the kernel uses for them (`/etc/iproute2/rt_protos`).
const PROTOCOLS: [(&str, u8); 7] =
    [("ospf", 188), ("bgp", 186), ("isis", 187), ("rip", 189), ("eigrp", 192), ("babel", 42), ("bird", 12)];
/// Protocol numbers that no routing daemon has: those of the kernel's own routes, and those of weft's routes.
const NOT_OF_DAEMONS: [u8; 5] = [0, 1, 2, 119, 120];
/// Numbers of the protocols whose routes are accepted by default: OSPF and BGP.
const ACCEPTED: [u8; 2] = [188, 186];
/// Default maximum number of prefixes learnt from the routing daemon.
///
/// *Derived*: twice the 100,000 BGP routes of the measurement in docs/operate/routing.md. A route takes 133 bytes.
const MOST: usize = 200_000;
/// Default time for which learnt prefixes stay after the routing daemon has ended.
///
/// *Tuned* by hand: with an OSPF hello interval of 1 s, FRR 8.4 has its routes again 2 to 9 s after its start. With the
/// default hello interval of 10 s this takes up to two hello intervals longer.
const HOLD: Duration = Duration::from_secs(30);
/// Maximum time for which learnt prefixes may stay after the routing daemon has ended.
const MAX_HOLD: Duration = Duration::from_secs(600);

/// Address at which the daemon `bfdd` of FRR waits for the program that runs its BFD sessions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BfdAddress {
    /// Address and port on the loopback interface.
    Loopback(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

/// `[routing]`: settings for a routing daemon on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routing {
    /// Numbers of the protocols whose routes become prefixes of peers.
    pub accept: BTreeSet<u8>,
    /// Routing tables from which routes are accepted, besides the main one and those of VPNs.
    pub tables: BTreeSet<u32>,
    /// Maximum number of learnt prefixes.
    pub most: usize,
    /// Time for which learnt prefixes stay after the routing daemon has ended.
    pub hold: Duration,
    /// True if packets to link-local multicast groups are sent to all peers of the VPN.
    pub multicast: bool,
    /// Address at which `bfdd` waits for weft, which runs its BFD sessions; absent: weft runs none.
    pub bfd: Option<At<BfdAddress>>,
}

/// Returns the name of a routing protocol, or its number as text.
pub fn protocol_name(number: u8) -> String {
    let known = PROTOCOLS.iter().find(|(_, known)| *known == number);
    known.map_or_else(|| format!("protocol {number}"), |(name, _)| (*name).to_owned())
}

/// Parses `[routing]`. A relative path of a socket is relative to `directory`.
pub fn read(mut section: Section<'_, '_>, directory: &Path) -> Routing {
    let accept = section.list("accept", "[\"ospf\", \"bgp\"], or a number such as [\"196\"]", protocol);
    let accept = accept.map_or(ACCEPTED.into(), |list| list.into_iter().map(|at| at.value).collect());
    let tables = section.list("tables", "[\"100\"]", table).unwrap_or_default();
    let most = section.integer("most", 1..10_000_001).map_or(MOST, |at| at.value as usize);
    let hold = section.parsed("hold", "\"30 s\"", hold).map_or(HOLD, |at| at.value);
    let multicast = section.flag("multicast").unwrap_or(false);
    let bfd = section
        .parsed("bfd", "\"unix:/run/frr/bfdd_dplane.sock\" or \"127.0.0.1:50700\"", |text| address(text, directory));
    section.finish();
    Routing { accept, tables: tables.into_iter().map(|at| at.value).collect(), most, hold, multicast, bfd }
}

fn protocol(text: &str) -> Result<u8, &'static str> {
    if let Some((_, number)) = PROTOCOLS.iter().find(|(name, _)| *name == text) {
        return Ok(*number);
    }
    let number =
        text.parse().map_err(|_| "expected ospf, bgp, isis, rip, eigrp, babel, bird, or a number from 3 to 255")?;
    match NOT_OF_DAEMONS.contains(&number) {
        true => {
            Err("the kernel or weft itself marks its routes with this number: give the number of the routing daemon's \
                 routes, which `ip route` shows after `proto`")
        }
        false => Ok(number),
    }
}

fn table(text: &str) -> Result<u32, &'static str> {
    match text.parse() {
        Ok(0 | 255) | Err(_) => {
            Err("a routing table must have a number above 0, and not 255, which holds the local addresses")
        }
        Ok(number) => Ok(number),
    }
}

fn hold(text: &str) -> Result<Duration, &'static str> {
    let time = parse_duration(text).map_err(|_| "expected a time")?;
    match time > MAX_HOLD {
        true => {
            Err("`hold` must be at most 10 min: a prefix kept longer without the routing daemon may be out of date")
        }
        false => Ok(time),
    }
}

fn address(text: &str, directory: &Path) -> Result<BfdAddress, &'static str> {
    match text.strip_prefix("unix:") {
        Some("") => return Err("the socket path is missing after `unix:`: add the path of bfdd's socket"),
        Some(path) => return Ok(BfdAddress::Unix(directory.join(path))),
        None => {}
    }
    let address: SocketAddr = text.parse().map_err(|_| "expected an IP address and a port, or unix: and a path")?;
    if !address.ip().is_loopback() {
        return Err("the protocol with bfdd has no encryption and no password: only a loopback address is accepted");
    }
    match address.port() {
        0 => Err("the address of `bfdd` cannot have port 0: write a port from 1 to 65535"),
        _ => Ok(BfdAddress::Loopback(address)),
    }
}
