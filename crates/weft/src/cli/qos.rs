//! Arguments of `weft qos`.

use super::{ClassesCommand, Control, Reading, RulesCommand};
use clap::{Args, Subcommand};

/// Arguments of `weft qos`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct QosArguments {
    /// View. Without one, all views on the whole screen; keys change the view.
    #[command(subcommand)]
    pub view: Option<QosView>,
    /// Control socket of the node.
    #[command(flatten)]
    pub control: Control,
}

/// Subcommands of `weft qos`.
#[derive(Subcommand)]
pub enum QosView {
    /// Show the flows with the highest rates: what each sends, the guaranteed rate that was asked for it, and the
    /// rate that the node grants
    Flows {
        /// Number of flows to show: 1 to 10000
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        top: u32,
        /// Options for showing.
        #[command(flatten)]
        reading: Reading,
    },
    /// Show the users, with the total traffic of each
    Users(Reading),
    /// Show the egress port to each peer: capacity, guarantees, and load and delay of each class
    Ports(Reading),
    /// Show the classes, with the rates and delays of their flows, or change them
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "\
Examples:
  weft qos classes                                                      show them
  weft qos classes set voice guaranteed='100 kbit/s' --confirm 60s
  weft qos classes set control guaranteed='1 Mbit/s' precedence=15      a new one
  weft qos classes reset voice                                          back to its defaults

Changes apply to the file, whose comments stay, and to the running node."
    )]
    Classes {
        /// Change; without one, show the classes.
        #[command(subcommand)]
        change: Option<ClassesCommand>,
        /// Options for showing.
        #[command(flatten)]
        reading: Reading,
    },
    /// Show the rules in the order in which they are tried, or change them
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "\
Examples:
  weft qos rules                                                        show them
  weft qos rules add web --class interactive protocol=tcp ports=443     at the end
  weft qos rules add calls --class voice protocol=udp --before web --confirm 60s
  weft qos rules move web --before calls
  weft qos rules remove web
  weft qos rules test udp 10.9.0.1:5000 10.9.0.2:5004                   which one matches

Changes apply to the file, whose comments stay, and to the running node."
    )]
    Rules {
        /// Change; without one, show the rules.
        #[command(subcommand)]
        change: Option<RulesCommand>,
        /// Options for showing.
        #[command(flatten)]
        reading: Reading,
    },
    /// Explain why flows have their class, rates and path
    Why {
        /// Words of the flow as `weft qos flows` shows it: an address, a port, tcp or udp. Only flows with all of
        /// these words are explained
        #[arg(required = true, value_name = "WORD")]
        flow: Vec<String>,
        /// Options for showing.
        #[command(flatten)]
        reading: Reading,
    },
}

impl QosView {
    /// Returns the options that the view has in common with other commands that show state, such as `--json`.
    pub fn reading(&self) -> &Reading {
        match self {
            QosView::Flows { reading, .. } | QosView::Why { reading, .. } => reading,
            QosView::Rules { reading, .. } | QosView::Classes { reading, .. } => reading,
            QosView::Users(reading) | QosView::Ports(reading) => reading,
        }
    }
}
