//! Arguments of `weft acl`.

use super::DEFAULT_CONFIG;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Subcommands of `weft acl`.
#[derive(Subcommand)]
pub enum AclCommand {
    /// Show whether the [[allow]] tables of a configuration accept a flow from a peer; exit status 1 if they do not
    #[command(after_help = "\
Examples:
  weft acl test laptop 10.9.0.1 tcp 22                  the node laptop, with its groups in [[peer]]
  weft acl test node:laptop,group:staff hub tcp 443     a node that joins by certificate:
                                                        name its groups
  weft acl test 10.9.0.7 10.9.0.1 icmp")]
    Test(TestedFlow),
}

/// A flow to test the rules with.
#[derive(Args)]
pub struct TestedFlow {
    /// Sender: NAME or node:NAME of a node, group:NAME, or an address. Several with commas describe one sender. A
    /// property that is left out comes from the [[peer]] tables
    #[arg(value_name = "SRC")]
    pub from: String,
    /// Destination, described in the same way
    #[arg(value_name = "DST")]
    pub to: String,
    /// Protocol: tcp, udp, icmp, icmpv6, sctp, esp, ah, gre, ospf, or a number from 0 to 255
    #[arg(value_name = "PROTO")]
    pub protocol: String,
    /// Destination port, 0 to 65535; needed for tcp and udp, and refused for other protocols
    pub port: Option<u16>,
    /// Name of the flow's VPN in the configuration; without it the default VPN
    #[arg(long, value_name = "NAME")]
    pub vpn: Option<String>,
    /// Configuration file whose rules are tested; no running node is asked
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
}
