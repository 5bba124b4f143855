//! Arguments of `weft init`, `weft invite` and `weft join`.

use clap::Args;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Parses the address and port at which nodes reach a hub.
fn endpoint(text: &str) -> Result<SocketAddr, String> {
    let wrong = "expected an IP address and a port, for example 203.0.113.5:51900 or [2001:db8::5]:51900";
    text.parse().map_err(|_| wrong.to_owned())
}

/// Arguments of `weft init`.
#[derive(Args)]
pub struct InitOptions {
    /// Make this node the hub of a new network: the node that invites others. Always needed
    #[arg(long, required = true)]
    pub hub: bool,
    /// Name of this node: 1 to 63 characters without spaces
    #[arg(long, default_value = "hub")]
    pub name: String,
    /// IP address and port at which other nodes reach this one; can be given 8 times. Without it: the IPv4 and IPv6
    /// source addresses of this machine's default routes, with the port of --port
    #[arg(long = "endpoint", value_name = "ADDRESS:PORT", value_parser = endpoint)]
    pub endpoints: Vec<SocketAddr>,
    /// Prefix of the new network; this node takes its first address. The network also gets a random IPv6 prefix
    #[arg(long, value_name = "PREFIX", default_value = "10.77.0.0/24")]
    pub network: String,
    /// UDP port of this node, and TCP port of its invitations: 1 to 65535
    #[arg(long, value_name = "PORT", default_value_t = 51_900, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Let nodes reach the Internet through this one: forward their packets, with this machine's address as their
    /// source
    #[arg(long)]
    pub exit: bool,
    /// Directory for configuration and keys
    #[arg(long, value_name = "DIR", default_value = super::CONFIG_DIRECTORY)]
    pub dir: PathBuf,
}

/// Arguments of `weft invite`.
#[derive(Args)]
pub struct InviteOptions {
    /// Name for the new node, which no other node has: 1 to 63 characters without spaces
    pub name: String,
    /// Prefix of a network behind the new node, such as 192.168.7.0/24; can be given several times
    #[arg(long = "prefix", value_name = "PREFIX")]
    pub prefixes: Vec<String>,
    /// Address of the new node in the network; can be given once for IPv4 and once for IPv6. Without it: the next free
    /// one
    #[arg(long = "address", value_name = "ADDRESS")]
    pub addresses: Vec<IpAddr>,
    /// Group of the new node, as [[allow]] tables name it with group:GROUP. Can be given 8 times
    #[arg(long = "group", value_name = "GROUP")]
    pub groups: Vec<String>,
    /// Let the new node forward datagrams for others
    #[arg(long)]
    pub relay: bool,
    /// Time for which the invitation is valid: 90s, 15m, 2h
    #[arg(long = "for", value_name = "TIME", default_value = "15m", value_parser = weft_config::argument::duration)]
    pub time: Duration,
    /// Validity of the new node's certificate, in days: 1 to 36500
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=36_500))]
    pub days: u64,
    /// Directory of this node's configuration, with the root key in `ca`
    #[arg(long, value_name = "DIR", default_value = super::CONFIG_DIRECTORY)]
    pub dir: PathBuf,
}

/// Arguments of `weft join`.
#[derive(Args)]
pub struct JoinOptions {
    /// Code that `weft invite` printed. Without it or with -: standard input
    pub code: Option<String>,
    /// Send all traffic through the inviting node, including traffic to the Internet; the command fails if that node
    /// is not an exit (`weft init --exit`)
    #[arg(long)]
    pub exit: bool,
    /// Directory for configuration and keys
    #[arg(long, value_name = "DIR", default_value = super::CONFIG_DIRECTORY)]
    pub dir: PathBuf,
}
