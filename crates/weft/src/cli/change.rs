//! Arguments of the commands that change the configuration: `set`, `unset`, `apply`, `confirm`, `undo`, `qos rules`,
//! `qos classes`.

use super::{Control, DEFAULT_CONFIG};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Options of a change.
#[derive(Args)]
pub struct ChangeOptions {
    /// Configuration file of the node, which is changed
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
    /// Undo the change after this time, such as 60s or 5m, unless `weft confirm` is run before. Until then only the
    /// running node has the change, not the file, and a node must run. Without --confirm the change is saved at once
    #[arg(long, value_name = "TIME", value_parser = weft_config::argument::duration)]
    pub confirm: Option<Duration>,
    /// Control socket of the node.
    #[command(flatten)]
    pub control: Control,
}

/// Arguments of `weft set`.
#[derive(Args)]
pub struct SetArguments {
    /// Setting: table and key, with a name where the file has several such tables, as in peer.hub.weight.
    /// docs/use/settings.md has all keys
    #[arg(value_name = "KEY")]
    pub key: String,
    /// Value in TOML: a number, true, false, a list or a table in braces. Any other value is text, also without
    /// quotation marks
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub value: String,
    /// Options of the change.
    #[command(flatten)]
    pub options: ChangeOptions,
}

/// Arguments of `weft unset`.
#[derive(Args)]
pub struct UnsetArguments {
    /// Setting as for `weft set`, or a whole table, as in rule.calls
    #[arg(value_name = "KEY")]
    pub key: String,
    /// Options of the change.
    #[command(flatten)]
    pub options: ChangeOptions,
}

/// Arguments of `weft apply`.
#[derive(Args)]
pub struct ApplyArguments {
    /// File with the new configuration; - for standard input
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
    /// Options of the change.
    #[command(flatten)]
    pub options: ChangeOptions,
}

/// Arguments of `weft confirm`.
#[derive(Args)]
pub struct ConfirmArguments {
    /// Configuration file of the node
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
    /// Control socket of the node.
    #[command(flatten)]
    pub control: Control,
}

/// Changes of the list of rules, and a test of it.
#[derive(Subcommand)]
pub enum RulesCommand {
    /// Add a rule at the end of the list, or before another one
    #[command(after_help = "\
Keys, as in a [[rule]] table. A flow must have all given properties; without one, each flow matches:
  from, to           source and destination: an address or a prefix, such as 10.9.3.0/24
  protocol           tcp, udp, icmp, icmpv6, sctp, esp, ah, gre, ospf, or a number
  ports, from-ports  destination and source: one port or one range, 443 or 5000-5010; needs
                     `protocol`
  dscp               code point of the first packet: a name such as ef, or 0 to 63
  vpn                name of the VPN; `default` is the default VPN
  user               sender, as [users] defines users: an address, a prefix or a node's name
  near, far          name of the node at which the flow enters, or leaves, the network
  available          rate beyond its guarantee for which a flow asks, such as '50 Mbit/s'; without it,
                     as much as there is. `weft qos why` shows it. The flow may send more. If it is
                     set, a flow with a guarantee may always use more than its guarantee, also in
                     the class voice, unless the rule sets `service`
  guaranteed, maximum, … and all other keys of `weft qos classes set --help`

The first rule in the list that matches a flow applies. docs/operate/flow-state.md explains the
keys.")]
    Add(Box<NewRule>),
    /// Remove a rule
    Remove {
        /// Name of the rule
        name: String,
        /// Options of the change.
        #[command(flatten)]
        options: ChangeOptions,
    },
    /// Move a rule to the end of the list, or before another one
    Move {
        /// Name of the rule
        name: String,
        /// Name of the rule before which it goes; without it the end of the list
        #[arg(long, value_name = "RULE")]
        before: Option<String>,
        /// Options of the change.
        #[command(flatten)]
        options: ChangeOptions,
    },
    /// Show which rule matches a packet, and the class and rates that its flow would get
    Test(TestedPacket),
}

/// Changes of the classes.
#[derive(Subcommand)]
pub enum ClassesCommand {
    /// Change settings of a class, or add a class
    #[command(after_help = "\
Keys, as in a [[class]] table:
  guaranteed         rate that is reserved for each flow, such as '100 kbit/s'
  maximum            rate above which packets of a flow are dropped, or marked if they use ECN
  burst-bytes        bytes that a flow may send at once above the rate at which it is policed:
                     `maximum`, or `guaranteed` with service=guaranteed. Absent: one packet, and
                     what that rate carries in `delay-variance` (in 100 ms if that is absent)
  delay-variance     largest variation of the delay, such as '20 ms', within which the node sends
                     packets of a guarantee; it also sets the default burst. Absent: any
  precedence         0 to 15: when capacity is short, a higher one keeps its guarantee longer
  delay-priority     0 to 15: among flows without a guarantee, a higher one is served earlier
  must-be-met        true: a flow whose guarantee cannot be met in full at once gets none, not
                     even later, and is sent as a flow that asked for none
                     false, the default: it then waits for its guarantee, with a share of the rate
  service            available: a share of the rate that guarantees leave
                     maximum: such a share, up to `maximum`
                     guaranteed: the rate `guaranteed`, and no more
                     variable: the rate `guaranteed`, and such a share
                     absent: it follows from the rates. With `guaranteed` it is variable, but in the
                     class voice guaranteed; with only `maximum` it is maximum; else available

Keys that are not given keep their values. A new class begins with those of `bulk`: no rates,
precedence 0, delay-priority 1. `weft unset class.voice.guaranteed` removes a key from the file.
docs/operate/flow-state.md explains the keys.")]
    Set {
        /// Name of the class: voice, video, interactive, bulk, background, or a name of your own
        name: String,
        /// Settings, such as guaranteed='100 kbit/s', delay-variance='20 ms', precedence=12
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
        /// Options of the change.
        #[command(flatten)]
        options: ChangeOptions,
    },
    /// Remove the [[class]] table of a class from the file, and from the node if it runs. A built-in class then has its
    /// defaults. A class of your own no longer exists; this is refused while a rule names it
    Reset {
        /// Name of the class: voice, video, interactive, bulk, background, or a name of your own
        name: String,
        /// Options of the change.
        #[command(flatten)]
        options: ChangeOptions,
    },
}

/// A rule to add: the packets that it matches, and the treatment of their flows.
#[derive(Args)]
pub struct NewRule {
    /// Name for the rule, which no other rule has: 1 to 63 characters without spaces
    pub name: String,
    /// Class that the flows get: voice, video, interactive, bulk, background, or one of a [[class]] table
    #[arg(long, value_name = "CLASS")]
    pub class: String,
    /// Name of the rule before which it goes; without it the end of the list
    #[arg(long, value_name = "RULE")]
    pub before: Option<String>,
    /// Properties of the flows that the rule matches, and rates that replace those of the class; see below
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Options of the change.
    #[command(flatten)]
    pub options: ChangeOptions,
}

/// A packet to test the rules with.
#[derive(Args)]
pub struct TestedPacket {
    /// Protocol: tcp, udp, icmp, icmpv6, sctp, esp, ah, gre, ospf, or a number from 0 to 255
    pub protocol: String,
    /// Source: an address, for tcp and udp with a port, such as 10.9.0.1:5000; without the port it is 0
    pub from: String,
    /// Destination: an address, for tcp and udp with a port; without the port it is 0
    pub to: String,
    /// DSCP of the packet: a name such as ef, or 0 to 63; without it 0
    #[arg(long, value_name = "DSCP")]
    pub dscp: Option<String>,
    /// Name of the packet's VPN in the configuration; without it the default VPN
    #[arg(long, value_name = "NAME")]
    pub vpn: Option<String>,
    /// Name of the node at which the packet enters the network; without it no rule with `near` matches
    #[arg(long, value_name = "NODE")]
    pub near: Option<String>,
    /// Name of the node at which the packet leaves the network; without it no rule with `far` matches
    #[arg(long, value_name = "NODE")]
    pub far: Option<String>,
    /// Configuration file whose rules are tested; no running node is asked
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
}
