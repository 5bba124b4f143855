//! Arguments of the commands that change the configuration: `set`, `unset`, `apply`, `confirm`, `undo`, `qos rules`,
//! `qos classes`.

use super::{Control, DEFAULT_CONFIG};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Options of a change.
#[derive(Args)]
pub struct ChangeOptions {
    /// Configuration file of the node
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
    /// Undo the change after this time, such as 60s, unless `weft confirm` is run before. Until then only the running
    /// node has the change, not the file
    #[arg(long, value_name = "TIME", value_parser = weft_config::argument::duration)]
    pub confirm: Option<Duration>,
    /// Control socket of the node.
    #[command(flatten)]
    pub control: Control,
}

/// Arguments of `weft set`.
#[derive(Args)]
pub struct SetArguments {
    /// Setting: table and key, with a name where the file has several such tables, as in peer.hub.weight
    #[arg(value_name = "KEY")]
    pub key: String,
    /// Value: a number, true, false, a list, or text
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub value: String,
    /// Options of the change.
    #[command(flatten)]
    pub options: ChangeOptions,
}

/// Arguments of `weft unset`.
#[derive(Args)]
pub struct UnsetArguments {
    /// Setting, or a whole table, as in rule.calls
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
        /// Name of the rule that is to follow it
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
  guaranteed         rate that is reserved for each flow
  maximum            rate above which each flow is policed
  burst-bytes        bytes that a flow may send above its rate
  delay-variance     largest variation of the delay
  precedence         0 to 15: when capacity is short, a higher one keeps its guarantee longer
  delay-priority     0 to 15: among flows without a guarantee, a higher one is served earlier
  must-be-met        true: a flow is refused where its guarantee cannot be met in full
  service            available, guaranteed, variable or maximum; default: it follows from the rates

Keys that are not given keep their values. `weft unset class.voice.guaranteed` removes one from the
file. docs/operate/flow-state.md explains the keys.")]
    Set {
        /// Name of the class
        name: String,
        /// Settings, such as guaranteed='100 kbit/s', delay-variance='20 ms', precedence=12
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
        /// Options of the change.
        #[command(flatten)]
        options: ChangeOptions,
    },
    /// Remove the settings of a class from the file. A built-in class then has its defaults
    Reset {
        /// Name of the class
        name: String,
        /// Options of the change.
        #[command(flatten)]
        options: ChangeOptions,
    },
}

/// A rule to add: the packets that it matches, and the treatment of their flows.
#[derive(Args)]
pub struct NewRule {
    /// Name of the rule
    pub name: String,
    /// Class of its flows
    #[arg(long, value_name = "CLASS")]
    pub class: String,
    /// Name of the rule that is to follow it
    #[arg(long, value_name = "RULE")]
    pub before: Option<String>,
    /// Any other setting of the rule, as in the file: to=10.9.3.0/24, protocol=udp, ports=5000-5010
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Options of the change.
    #[command(flatten)]
    pub options: ChangeOptions,
}

/// A packet to test the rules with.
#[derive(Args)]
pub struct TestedPacket {
    /// tcp, udp, icmp, or a number
    pub protocol: String,
    /// Source: an address, with a port for tcp and udp
    pub from: String,
    /// Destination: an address, with a port for tcp and udp
    pub to: String,
    /// Code point, such as ef or 46; without it 0
    #[arg(long, value_name = "DSCP")]
    pub dscp: Option<String>,
    /// VPN of the packet; without it the default VPN
    #[arg(long, value_name = "NAME")]
    pub vpn: Option<String>,
    /// Node at which it enters the network; without it no rule with `near` matches
    #[arg(long, value_name = "NODE")]
    pub near: Option<String>,
    /// Node at which it leaves the network; without it no rule with `far` matches
    #[arg(long, value_name = "NODE")]
    pub far: Option<String>,
    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
}
