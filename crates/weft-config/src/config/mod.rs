//! The configuration: one strict TOML file, every mistake told with its line, column and likely fix.

pub mod access;
mod check;
mod check_access;
mod check_proxies;
mod check_signal;
mod check_vpns;
mod diagnose;
pub mod dscp;
mod engine;
pub mod host;
mod metrics;
mod network;
mod parse;
mod policy;
pub mod prefix;
mod proxy;
pub mod read;
mod route;
mod signal;
mod tcp_er;
mod vpn;

pub use access::{Access, Openvpn, Pool};
pub use diagnose::{Report, Severity, Told, did_you_mean};
pub use metrics::MetricsAddress;
pub use network::Network;
pub use parse::{parse, peer_name};
pub use prefix::host_bits;
pub use proxy::{AccessRule, Proxies, Proxy, proxy_prefix};
pub use route::Route;
pub use signal::{Signal, SignalledFlows};
pub use tcp_er::{Grant, TcpEr};
pub use vpn::{Member, Vpn};

pub use read::At;
use read::names;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use weft_engine::{Policy, Prefix};
use weft_session::{Certificate, Cipher, Identity, PresharedKey, PublicKey};
use weft_units::Rate;

names!(Cipher { Aes256Gcm = "aes-256-gcm", ChaCha20Poly1305 = "chacha20-poly1305" });

/// Where the control socket is unless the configuration says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/weft/control.sock";
/// The routing table of the tunnel's routes, unless the configuration names another.
pub const DEFAULT_TABLE: u32 = 51_900;

/// The inner MTU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mtu {
    /// What the paths in use can carry.
    Auto,
    /// This many bytes of inner IP packet.
    Fixed(u16),
}

/// `[node]`: who this node is and where it keeps things.
#[derive(Clone, Debug)]
pub struct Node {
    /// File of the private key.
    pub key: At<PathBuf>,
    /// UDP port; absent: any.
    pub listen: Option<u16>,
    /// Directory of what outlives the process.
    pub state: PathBuf,
    /// Path of the control socket.
    pub control: PathBuf,
    /// Cipher this node proposes.
    pub cipher: Cipher,
    /// Whether it passes datagrams on between its peers.
    pub relay: bool,
}

/// `[tun]`: the network device.
#[derive(Clone, Debug)]
pub struct Tun {
    /// Name of the device.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<Prefix>,
    /// Its MTU.
    pub mtu: Mtu,
    /// Whether routes for the peers' prefixes are installed.
    pub routes: bool,
    /// The routing table they are in.
    pub table: u32,
}

/// `[links]`: which interfaces may carry datagrams. `*` matches any run of characters.
#[derive(Clone, Default, Debug)]
pub struct LinkChoice {
    /// Only these; empty: every usable one.
    pub only: Vec<At<String>>,
    /// Never these.
    pub ignore: Vec<At<String>>,
}

impl LinkChoice {
    /// Whether the link called `name` may be used.
    pub fn allows(&self, name: &str) -> bool {
        let any = |patterns: &[At<String>]| patterns.iter().any(|p| matches(&p.value, name));
        (self.only.is_empty() || any(&self.only)) && !any(&self.ignore)
    }

    /// Whether `use` has the very name, not only a pattern that matches it.
    pub fn names(&self, name: &str) -> bool {
        self.only.iter().any(|only| only.value == name)
    }

    /// The entries of `use` that match none of these interfaces.
    pub fn unmatched(&self, interfaces: &[&str]) -> impl Iterator<Item = &At<String>> {
        self.only.iter().filter(|only| !interfaces.iter().any(|name| matches(&only.value, name)))
    }
}

/// Whether `name` matches `pattern`, in which `*` stands for any run of characters.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name
            .strip_prefix(head)
            .is_some_and(|rest| (0..=rest.len()).filter_map(|i| rest.get(i..)).any(|rest| matches(tail, rest))),
    }
}

/// `[[link]]`: settings of one interface.
#[derive(Clone, Debug)]
pub struct Link {
    /// Name of the interface.
    pub name: At<String>,
    /// Never send faster than this.
    pub max_rate_up: Option<Rate>,
    /// Whether it may be used for sending.
    pub up: bool,
}

/// `[[peer]]`: an adjacent node.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Name for people.
    pub name: At<String>,
    /// Its static public key.
    pub public_key: At<PublicKey>,
    /// File of the secret shared with it beside the static keys.
    pub preshared_key_file: Option<At<PathBuf>>,
    /// That secret, once the file was read.
    pub preshared_key: Option<PresharedKey>,
    /// Where it can be reached; empty: it reaches us.
    pub endpoints: Vec<SocketAddr>,
    /// Ways to it over relays.
    pub via: Vec<At<Route>>,
    /// Inner addresses behind it, outside all `[[vpn]]`.
    pub prefixes: Vec<At<Prefix>>,
    /// How to send to it: `[policy]` with the peer's overrides.
    pub policy: Policy,
}

/// A whole configuration that passed every check.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[node]`
    pub node: Node,
    /// `[tun]`
    pub tun: Tun,
    /// `[links]`
    pub links: LinkChoice,
    /// `[network]`: the root key whose certificates count; absent: none.
    pub network: Option<Network>,
    /// `[access]`: where clients that are no nodes come in; absent: nowhere.
    pub access: Option<Access>,
    /// `[metrics]`: where Prometheus may ask; absent: nowhere.
    pub metrics: Option<At<MetricsAddress>>,
    /// `[tcp-er]`: explicit rates for this machine's own sockets; absent: `weft_er` is not loaded.
    pub tcp_er: Option<TcpEr>,
    /// `[signal]`: in-band QoS signalling; absent: none.
    pub signal: Option<Signal>,
    /// `[[link]]`
    pub link: Vec<Link>,
    /// `[policy]`: how to send to peers that say nothing else.
    pub policy: Policy,
    /// `[[peer]]`
    pub peers: Vec<Peer>,
    /// `[[vpn]]`
    pub vpns: Vec<Vpn>,
    /// `[[proxy]]` and `[proxies]`
    pub proxies: Proxies,
    /// The links that weights are given to.
    pub weighted_links: Vec<At<String>>,
}

impl Config {
    /// The prefixes of length 0, each with the name of its peer.
    pub fn default_routes(&self) -> impl Iterator<Item = (&str, weft_engine::Prefix)> {
        let of_peers = self.peers.iter().flat_map(|peer| peer.prefixes.iter().map(|at| (&*peer.name.value, at.value)));
        of_peers.filter(|(_, prefix)| prefix.length == 0)
    }
}

/// A configuration with the key it names and what there is to warn of.
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// The node's key pair.
    pub identity: Identity,
    /// The node's certificate, if it has one.
    pub certificate: Option<Certificate>,
    /// Findings, warnings only.
    pub report: Report,
}

/// Reads and checks the configuration in `file`.
///
/// # Errors
/// What is wrong with it, as text for people.
pub fn load(file: &Path) -> Result<Loaded, String> {
    match read_and_check(file)? {
        (Some((config, identity, certificate)), report) => Ok(Loaded { config, identity, certificate, report }),
        (None, report) => Err(report.to_string()),
    }
}

/// What a file holds that a node would run with, and what there is to say of it.
pub type Checked = (Option<(Config, Identity, Option<Certificate>)>, Report);

/// As [`load`], for those who want the report in either case.
///
/// # Errors
/// Why the file cannot be read.
pub fn read_and_check(file: &Path) -> Result<Checked, String> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|why| format!("{name}: {why}\n"))?;
    let report = Report::new(name, text);
    let directory = file.parent().unwrap_or(Path::new("."));
    let mut config = parse::parse(&report, directory);
    report.end_of_reading();
    let identity = config.as_ref().and_then(|config| check::check(config, &report));
    let certificate = config
        .as_ref()
        .zip(identity.as_ref())
        .and_then(|(config, identity)| network::check(config, &identity.public_key(), unix_s(), &report));
    if let Some(config) = &config {
        check_access::check(config, certificate.as_ref(), &report);
    }
    if let Some(config) = &mut config {
        check_signal::check(config, &report);
        check::preshared_keys(config, &report);
    }
    match (config, identity) {
        (Some(config), Some(identity)) if report.count(Severity::Error) == 0 => {
            Ok((Some((config, identity, certificate)), report))
        }
        _ => Ok((None, report)),
    }
}

/// The wall clock in seconds since 1970.
fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(matches("docker*", "docker0") && matches("*", "") && matches("a*c*e", "abcde"));
        assert!(!matches("docker*", "xdocker0") && !matches("eth0", "eth01") && !matches("a*c*e", "abcd"));
    }
}
