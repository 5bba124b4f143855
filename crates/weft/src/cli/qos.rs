//! Arguments of `weft qos`.

use super::Reading;
use clap::{Args, Subcommand};

/// Arguments of `weft qos`.
#[derive(Args)]
pub struct QosArguments {
    /// What to show.
    #[command(subcommand)]
    pub view: QosView,
    /// Options for showing.
    #[command(flatten)]
    pub reading: Reading,
}

/// Subcommands of `weft qos`.
#[derive(Subcommand)]
pub enum QosView {
    /// Show the flows with the highest rates: what each asked for, and what it was granted
    Flows {
        /// Number of flows to show
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        top: u32,
    },
    /// Show the users and what they send and receive together
    Users,
    /// Show the way to each peer: capacity, guarantees, load and delay of each class
    Ports,
    /// Show the classes and what a flow of each gets
    Classes,
    /// Show the rules in the order in which they are tried
    Rules,
    /// Tell why flows have what they have
    Why {
        /// Words of the flow as `weft qos flows` shows it: an address, a port, tcp or udp
        #[arg(required = true, value_name = "WORD")]
        flow: Vec<String>,
    },
}
