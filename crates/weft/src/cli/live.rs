//! Arguments of commands that query or change a running node: `explain`, `prefixes`, `drill`, `peer`, `weights` and
//! `vpns`.

use super::Control;
use clap::{Args, Subcommand};
use std::time::Duration;

/// Arguments of `weft explain`.
#[derive(Args)]
pub struct ExplainArguments {
    /// SRC[:PORT] DST[:PORT] [PROTO], or DST[:PORT] [PROTO]. A part that is left out can have any value. SRC, DST: an
    /// address, or a node's name without a port. PROTO: tcp, udp, icmp, icmpv6 or a number from 0 to 255
    #[arg(required = true, num_args = 1..=3, value_name = "FLOW")]
    pub flow: Vec<String>,
    /// Search only this VPN, named as in `weft vpns`; without it the default VPN, then the others
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
    /// Show only the prefixes of this peer, named as in the column BEHIND
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
        /// Name of the link as in `weft paths`: eth0, or 'via hub' for the route over the relay hub
        #[arg(value_name = "NAME")]
        name: String,
        /// Options of the drill.
        #[command(flatten)]
        options: DrillOptions,
    },
    /// Silence a peer: drop all datagrams to it, from it and through it
    Node {
        /// Name of the peer, as in `weft status`
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
    /// Time for which the link or node is silent: 500ms, 5s, 2m; from 1ms to 5m
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

/// Subcommands of `weft weights`.
#[derive(Subcommand)]
pub enum WeightsCommand {
    /// Set the weights of the named links until the next reload: LINK=WEIGHT …, or `measured` for all links
    Set {
        /// LINK=WEIGHT, several times; or `measured`: from now on all weights follow the measured capacities. WEIGHT: a
        /// whole number, 0 or more. Under a schedule that uses weights, a link of weight 0 carries nothing
        #[arg(required = true, value_name = "LINK=WEIGHT")]
        weights: Vec<String>,
        /// Control socket of the node.
        #[command(flatten)]
        control: Control,
    },
}

/// Subcommands of `weft vpns`.
#[derive(Subcommand)]
pub enum VpnsCommand {
    /// Set the weight of a VPN, its promised rate, or both, until the next reload: NAME [weight=N] [assured=RATE |
    /// leased=RATE]
    #[command(after_help = "\
Settings. One that is not given does not change:
  weight=N        share of the rate that no promise covers; N: a whole number above 0
  assured=RATE    promised rate, such as '4 Mbit/s'; reduced in proportion if the paths carry less
  leased=RATE     promised rate that comes before assured ones; refused if all leased rates together
                  exceed `leasable` of [policy] or [peer.policy], and without `leasable`
  assured=none    no promised rate any more, assured or leased; leased=none is the same

A promised rate holds toward each member of the VPN, before the VPNs share the rest by weight. Other
VPNs use the part of it that the VPN does not send. A VPN has at most one promised rate: a new one
replaces it. So give either `assured` or `leased`, not both.")]
    Set {
        /// Name of the VPN in the configuration
        #[arg(value_name = "NAME")]
        vpn: String,
        /// weight=N, assured=RATE or leased=RATE, as below; RATE: such as '4 Mbit/s', or none
        #[arg(required = true, value_name = "SETTING")]
        settings: Vec<String>,
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
