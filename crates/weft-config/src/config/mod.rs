//! The configuration: one strict TOML file.
//!
//! `parse` turns the TOML into a [`Config`] through the typed readers of [`read`]. The `check` modules then find
//! contradictions between settings. Every mistake is reported with its line, column and likely fix. An unknown key is a
//! mistake. A node starts only if no error is found.

pub mod access;
pub mod allow;
mod check;
mod diagnose;
pub mod dscp;
mod engine;
mod exit;
pub mod flows;
pub mod host;
mod host_name;
mod limits;
mod metrics;
mod network;
pub mod out;
mod parse;
mod policy;
pub mod prefix;
mod proxy;
pub mod read;
mod route;
mod routing;
mod signal;
mod tcp;
mod tcp_er;
mod vpn;
mod vpn_loop;

pub use access::{Access, AddressPool, Openvpn};
pub use allow::{AllowAnswer, AllowQuestion, AllowSettings};
pub use diagnose::{Diagnostic, Report, Severity, did_you_mean, unknown_name};
pub use engine::tcp_link_name;
pub use exit::Exit;
pub use flows::{FlowSettings, protocol_number, vpn_number};
pub use host_name::{HostName, ResolvedAddresses};
pub use limits::cap_hours::CapHours;
pub use limits::quota::{Quota, QuotaPeriod, QuotaReached};
pub use metrics::MetricsAddress;
pub use network::Network;
pub use out::GoingOut;
pub use parse::{parse, parse_table, peer_name};
pub use prefix::host_bits;
pub use proxy::{AccessRule, Proxies, Proxy, proxy_prefix};
pub use route::Route;
pub use routing::{BfdAddress, Routing, protocol_name};
pub use signal::{Signal, SignalledFlows};
pub use tcp::{LinkTcp, PeerTcp, TcpDoor, TcpFallback};
pub use tcp_er::{DestinationRate, TcpEr};
pub use vpn::{LoopLaw, Member, Vpn, ingress_entry};

pub use read::At;
use read::names;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use weft_engine::{Policy, Prefix};
use weft_session::{Certificate, Cipher, Identity, PresharedKey, PublicKey};
use weft_units::{PathTier, Rate};

names!(Cipher { Aes256Gcm = "aes-256-gcm", ChaCha20Poly1305 = "chacha20-poly1305" });

/// Default path of the control socket.
pub const DEFAULT_SOCKET: &str = "/run/weft/control.sock";
/// Default number of the routing table for the tunnel's routes.
pub const DEFAULT_TABLE: u32 = 51_900;

/// MTU of the TUN device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mtu {
    /// The largest MTU that the paths in use can carry.
    Auto,
    /// A fixed MTU, in bytes of the inner IP packet.
    Fixed(u16),
}

/// `[node]`: the node's key, port and files.
#[derive(Clone, Debug)]
pub struct Node {
    /// File of the private key.
    pub key: At<PathBuf>,
    /// UDP port; absent: the kernel chooses one.
    pub listen: Option<u16>,
    /// Directory of the files in which the node keeps its state across restarts.
    pub state: PathBuf,
    /// Path of the control socket.
    pub control: PathBuf,
    /// Cipher that this node proposes in handshakes.
    pub cipher: Cipher,
    /// True if this node relays datagrams between its peers.
    pub relay: bool,
}

/// `[tun]`: the network device.
#[derive(Clone, Debug)]
pub struct Tun {
    /// Name of the device.
    pub name: String,
    /// Addresses of the device.
    pub addresses: Vec<Prefix>,
    /// MTU of the device.
    pub mtu: Mtu,
    /// True if weft installs routes for the peers' prefixes.
    pub routes: bool,
    /// Routing table for the routes that weft installs.
    pub table: u32,
}

/// `[links]`: the interfaces that may carry datagrams. `*` matches any run of characters.
#[derive(Clone, Default, Debug)]
pub struct LinkChoice {
    /// Patterns of `use`: only these interfaces; empty: every usable interface.
    pub only: Vec<At<String>>,
    /// Patterns of `ignore`: never these interfaces.
    pub ignore: Vec<At<String>>,
}

impl LinkChoice {
    /// Returns true if the link called `name` may be used.
    pub fn allows(&self, name: &str) -> bool {
        let any = |patterns: &[At<String>]| patterns.iter().any(|p| matches(&p.value, name));
        (self.only.is_empty() || any(&self.only)) && !any(&self.ignore)
    }

    /// Returns true if `use` contains exactly this name, not only a pattern that matches it.
    pub fn names(&self, name: &str) -> bool {
        self.only.iter().any(|only| only.value == name)
    }

    /// Returns the patterns of `use` that match none of `interfaces`.
    pub fn unmatched(&self, interfaces: &[&str]) -> impl Iterator<Item = &At<String>> {
        self.only.iter().filter(|only| !interfaces.iter().any(|name| matches(&only.value, name)))
    }
}

/// Returns true if `name` matches `pattern`, in which `*` stands for any run of characters.
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
    /// Maximum rate at which the node sends on this link.
    pub max_rate_up: Option<Rate>,
    /// Maximum rates by the time of day. Of those that apply at a time, the lowest is in force.
    pub max_rate_up_at: Vec<CapHours>,
    /// True if the node may send on this link.
    pub up: bool,
    /// Tier of the link; `None`: the link is never used.
    ///
    /// The link carries data only while no path over a link of a lower tier answers.
    pub tier: Option<PathTier>,
    /// Data that the link may carry in each period, if that is limited.
    pub quota: Option<Quota>,
    /// Condition under which the link carries datagrams in TCP connections.
    pub tcp: LinkTcp,
}

/// `[[peer]]`: an adjacent node.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Name of the peer, for readers of output.
    pub name: At<String>,
    /// Static public key of the peer.
    pub public_key: At<PublicKey>,
    /// File of the preshared key, a secret in addition to the static keys.
    pub preshared_key_file: Option<At<PathBuf>>,
    /// The preshared key, once its file has been read.
    pub preshared_key: Option<PresharedKey>,
    /// Addresses at which the peer can be reached; empty: only the peer begins handshakes.
    pub endpoints: Vec<SocketAddr>,
    /// Host names of the peer, whose addresses the daemon adds to `endpoints`.
    pub names: Vec<HostName>,
    /// Configured routes to the peer over relays.
    pub via: Vec<At<Route>>,
    /// Groups of the peer, which rules of access name.
    pub groups: Vec<String>,
    /// Inner prefixes behind the peer in the default VPN.
    pub prefixes: Vec<At<Prefix>>,
    /// Prefixes of other peers toward which this peer forwards as well.
    pub alternate_for: Vec<At<Prefix>>,
    /// `[policy]` with the overrides of `[peer.policy]`.
    pub policy: Policy,
    /// TCP port at which the peer accepts connections; absent: the peer is reached by UDP alone.
    pub tcp: Option<PeerTcp>,
}

/// A whole configuration that passed every check.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[node]`: the node's key, port and files.
    pub node: Node,
    /// `[tun]`: the network device.
    pub tun: Tun,
    /// `[links]`: the interfaces that may carry datagrams.
    pub links: LinkChoice,
    /// `[network]`: the root key whose certificates are accepted; absent: no certificate is accepted.
    pub network: Option<Network>,
    /// `[access]`: settings for clients that are not nodes; absent: no client is admitted.
    pub access: Option<Access>,
    /// `[metrics]`: the address of the metrics; absent: there are none.
    pub metrics: Option<At<MetricsAddress>>,
    /// `[exit]`: peers reach the Internet through this node; absent: they do not.
    pub exit: Option<Exit>,
    /// `[out]`: this machine's own traffic leaves through a peer.
    pub out: GoingOut,
    /// `[routing]`: a routing daemon on this machine, such as FRR; absent: no prefix is learnt from one.
    pub routing: Option<Routing>,
    /// `[tcp]`: the TCP port at which peers connect where UDP does not pass; absent: there is none.
    pub tcp: Option<TcpDoor>,
    /// `[tcp-er]`: rates of this machine's own TCP sockets; absent: the congestion control `weft_er` is not loaded.
    pub tcp_er: Option<TcpEr>,
    /// `[signal]`: in-band QoS signalling; absent: none.
    pub signal: Option<Signal>,
    /// `[[link]]`: settings of single interfaces.
    pub link: Vec<Link>,
    /// `[policy]`: the policy for peers without overrides.
    pub policy: Policy,
    /// `[[peer]]`: the adjacent nodes.
    pub peers: Vec<Peer>,
    /// `[[vpn]]`: the VPNs besides the default one.
    pub vpns: Vec<Vpn>,
    /// `[[class]]`, `[[rule]]`, `[users]`, `[export]` and `[router]`: the flow-state router.
    pub flows: FlowSettings,
    /// `[[allow]]` and `[[allow-test]]`: which flows may enter; without a rule, all may.
    pub allow: AllowSettings,
    /// `[[proxy]]` and `[proxies]`: the TCP proxies.
    pub proxies: Proxies,
    /// Names of the links that have a weight in a policy.
    pub weighted_links: Vec<At<String>>,
}

impl Config {
    /// Returns the prefixes of length 0, each with the name of its peer.
    pub fn default_routes(&self) -> impl Iterator<Item = (&str, weft_engine::Prefix)> {
        let of_peers = self.peers.iter().flat_map(|peer| peer.prefixes.iter().map(|at| (&*peer.name.value, at.value)));
        of_peers.filter(|(_, prefix)| prefix.length == 0)
    }
}

/// A configuration with the key that it names and its warnings.
pub struct Loaded {
    /// Configuration as read from the file.
    pub config: Config,
    /// Key pair of the node.
    pub identity: Identity,
    /// Certificate of the node, if it has one.
    pub certificate: Option<Certificate>,
    /// Findings. All are warnings.
    pub report: Report,
}

/// Reads and checks the configuration in `file`.
///
/// # Errors
/// Returns the mistakes as text for a reader.
pub fn load(file: &Path) -> Result<Loaded, String> {
    load_as(file, file)
}

/// Reads and checks the configuration in `file`, which is to replace the file `shown`.
///
/// Messages name `shown` as the file.
///
/// # Errors
/// Returns the mistakes as text for a reader.
pub fn load_as(file: &Path, shown: &Path) -> Result<Loaded, String> {
    match read(file, shown)? {
        (Some((config, identity, certificate)), report) => Ok(Loaded { config, identity, certificate, report }),
        (None, report) => Err(report.to_string()),
    }
}

/// The configuration if a node would start with it, and the findings.
pub type CheckedConfig = (Option<(Config, Identity, Option<Certificate>)>, Report);

/// Reads and checks the configuration in `file`, and returns the report even if there are errors.
///
/// # Errors
/// Returns the reason why the file cannot be read.
pub fn read_and_check(file: &Path) -> Result<CheckedConfig, String> {
    read(file, file)
}

fn read(file: &Path, shown: &Path) -> Result<CheckedConfig, String> {
    let name = shown.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|why| match why.kind() {
        io::ErrorKind::NotFound => {
            format!(
                "there is no configuration file {name}: make it with: weft init --hub, on the first node of a network, \
                 or: weft join, on each further node\n"
            )
        }
        _ => format!("{name}: {why}\n"),
    })?;
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
        check::access::check(config, certificate.as_ref(), &report);
        allow::check(config, certificate.as_ref(), &report);
    }
    if let Some(config) = &mut config {
        check::signal::check(config, &report);
        check::preshared_keys(config, &report);
    }
    match (config, identity) {
        (Some(config), Some(identity)) if report.count(Severity::Error) == 0 => {
            Ok((Some((config, identity, certificate)), report))
        }
        _ => Ok((None, report)),
    }
}

/// Checks the text of a configuration without the files of its node, and returns the findings.
///
/// The tests of a configuration with `[network]` are not run: they need the node's certificate, which only the node
/// has.
pub fn check_text(name: &str, text: &str) -> Report {
    let report = Report::new(name, text);
    let config = parse::parse(&report, Path::new("/"));
    report.end_of_reading();
    if let Some(mut config) = config {
        check::settings(&config, &report);
        if config.network.is_some() {
            config.allow.tests.clear();
        }
        allow::check(&config, None, &report);
    }
    report
}

/// Returns the wall clock in seconds since 1970.
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
