//! Arguments of `weft qos`.

use super::Reading;
use clap::Subcommand;

/// Subcommands of `weft qos`.
#[derive(Subcommand)]
pub enum QosView {
    /// Show the flows with the highest rates: what each asked for, and what it was granted
    Flows {
        /// Number of flows to show
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        top: u32,
        /// Options for showing.
        #[command(flatten)]
        reading: Reading,
    },
    /// Show the users and what they send and receive together
    Users(Reading),
    /// Show the way to each peer: capacity, guarantees, load and delay of each class
    Ports(Reading),
    /// Show the classes and what a flow of each gets
    Classes(Reading),
    /// Show the rules in the order in which they are tried
    Rules(Reading),
    /// Say why flows have what they have
    Why {
        /// Words of the flow as `weft qos flows` shows it: an address, a port, tcp or udp
        #[arg(required = true, value_name = "WORD")]
        flow: Vec<String>,
        /// Options for showing.
        #[command(flatten)]
        reading: Reading,
    },
}

impl QosView {
    /// Returns the options for showing.
    pub fn reading(&self) -> &Reading {
        match self {
            QosView::Flows { reading, .. } | QosView::Why { reading, .. } => reading,
            QosView::Users(reading) | QosView::Ports(reading) | QosView::Classes(reading) | QosView::Rules(reading) => {
                reading
            }
        }
    }
}
