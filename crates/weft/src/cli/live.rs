//! Arguments of commands that query or change a running node: `explain`, `prefixes`, `drill` and `peer`.

use super::Control;
use clap::{Args, Subcommand};
use std::time::Duration;

/// Arguments of `weft explain`.
#[derive(Args)]
pub struct ExplainArguments {
    /// SRC[:PORT] DST[:PORT] [PROTO], or DST[:PORT] [PROTO]. What is left out can have any value. SRC, DST: an
    /// address, or a node's name without a port. PROTO: tcp, udp, icmp, icmp6 or a number
    #[arg(required = true, num_args = 1..=3, value_name = "FLOW")]
    pub flow: Vec<String>,
    /// Search only this VPN; without it the default VPN, then the others
    #[arg(long, value_name = "NAME")]
    pub vpn: Option<String>,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Control socket of the node.
    #[command(flatten)]
    pub control: Control,
}

/// Arguments of `weft prefixes`.
#[derive(Args)]
pub struct PrefixArguments {
    /// Show only the prefixes of this peer
    #[arg(long, value_name = "NODE")]
    pub peer: Option<String>,
    /// Show only the prefixes of this VPN; `default` is the default VPN
    #[arg(long, value_name = "NAME")]
    pub vpn: Option<String>,
    /// Options for showing.
    #[command(flatten)]
    pub reading: super::Reading,
}

/// Subcommands of `weft drill`.
#[derive(Subcommand)]
pub enum DrillCommand {
    /// Silence a link, or a relayed route: drop all its datagrams in both directions
    Link {
        /// Name of the link as in `weft paths`: eth0, 'via hub'
        #[arg(value_name = "NAME")]
        name: String,
        /// Options of the drill.
        #[command(flatten)]
        options: DrillOptions,
    },
    /// Silence a peer: drop all datagrams to it, from it and through it
    Node {
        /// Name of the peer in the configuration
        #[arg(value_name = "NAME")]
        name: String,
        /// Options of the drill.
        #[command(flatten)]
        options: DrillOptions,
    },
}

/// Options of a drill.
#[derive(Args)]
pub struct DrillOptions {
    /// Duration: 500ms, 5s, 2m; 5 minutes at most
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = weft_config::argument::duration)]
    pub time: Duration,
    /// Run the drill even if it leaves a probed peer without a path; `weft drill --help` states which peers are probed
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Control socket of the node.
    #[command(flatten)]
    pub control: Control,
}

/// Subcommands of `weft peer`.
#[derive(Subcommand)]
pub enum PeerCommand {
    /// Forget the handshake stamps of a peer, after the log reports that one was refused
    #[command(after_help = "\
Examples:
  weft peer reset hub

A stamp is refused if the clock of a node is wrong, if the peer has lost its state, or if someone
sends a recorded handshake again. Set the clocks of both nodes first.

Only root and the node's own user may run it. The node may then answer a recorded handshake of the
peer once more. Such an answer opens no session.")]
    Reset {
        /// Name of the peer, as in `weft status`
        #[arg(value_name = "NAME")]
        name: String,
        /// Control socket of the node.
        #[command(flatten)]
        control: Control,
    },
}

/// Arguments of `weft top`.
#[derive(Args)]
pub struct TopArguments {
    /// Print the first page once, and end
    #[arg(long)]
    pub once: bool,
    /// Control socket of the node.
    #[command(flatten)]
    pub control: Control,
}
