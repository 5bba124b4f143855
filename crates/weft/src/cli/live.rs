//! What is asked of a running node about its flows, and drills.

use super::Control;
use clap::{Args, Subcommand};
use std::time::Duration;

/// `weft explain`.
#[derive(Args)]
pub struct ExplainArguments {
    /// SRC[:PORT] DST[:PORT] [PROTO], or DST[:PORT] [PROTO]; tcp, udp, icmp or a protocol's number. DST may be a node's name
    #[arg(required = true, num_args = 1..=3, value_name = "FLOW")]
    pub flow: Vec<String>,
    /// Only in this VPN; otherwise in the default one, then in the others
    #[arg(long, value_name = "NAME")]
    pub vpn: Option<String>,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Where the node listens
    #[command(flatten)]
    pub control: Control,
}

/// `weft prefixes`.
#[derive(Args)]
pub struct PrefixArguments {
    /// Only those of this peer
    #[arg(long, value_name = "NODE")]
    pub peer: Option<String>,
    /// Only those of this VPN; `default` is the one without a table of its own
    #[arg(long, value_name = "NAME")]
    pub vpn: Option<String>,
    /// How to read them
    #[command(flatten)]
    pub reading: super::Reading,
}

/// `weft drill`.
#[derive(Subcommand)]
pub enum DrillCommand {
    /// A link, or a route: nothing passes by it in either direction
    Link {
        /// As in `weft paths`: eth0, 'via hub'
        #[arg(value_name = "NAME")]
        name: String,
        /// How
        #[command(flatten)]
        options: DrillOptions,
    },
    /// A peer: nothing passes to it, from it or over it
    Node {
        /// The peer's name in the configuration
        #[arg(value_name = "NAME")]
        name: String,
        /// How
        #[command(flatten)]
        options: DrillOptions,
    },
}

/// How to drill.
#[derive(Args)]
pub struct DrillOptions {
    /// For how long: 500ms, 5s, 2m; 5 minutes at most
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = weft_config::argument::duration)]
    pub time: Duration,
    /// Even where no other path would remain to a peer
    #[arg(long)]
    pub force: bool,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Where the node listens
    #[command(flatten)]
    pub control: Control,
}

/// `weft peer`.
#[derive(Subcommand)]
pub enum PeerCommand {
    /// Forget which handshake stamps the peer has used, after the log said that one was refused
    #[command(after_help = "\
Examples:
  weft peer reset hub

Only root and the node's own user may ask. Recorded handshakes of the peer may then be answered once more; no session
comes of that.")]
    Reset {
        /// The peer's name, as in `weft status`
        #[arg(value_name = "NAME")]
        name: String,
        /// Where the node listens
        #[command(flatten)]
        control: Control,
    },
}
