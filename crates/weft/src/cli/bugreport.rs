//! Arguments of `weft bugreport`.

use super::Control;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Amount of detail in a report.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, ValueEnum)]
pub enum Disclosure {
    /// Labels replace names and addresses
    #[default]
    Public,
    /// Names and addresses stay; secrets are hidden
    Trusted,
}

/// Arguments of `weft bugreport`.
#[derive(Args)]
pub struct BugReportArguments {
    /// Names and addresses: public replaces them by labels, trusted shows them; neither shows a secret
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t, hide_possible_values = true)]
    pub level: Disclosure,
    /// New file for the report; without it: standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Configuration file of the node
    #[arg(short, long, value_name = "FILE", default_value = super::DEFAULT_CONFIG)]
    pub config: PathBuf,
    /// File with the node's log; without it: the journal of weft.service
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Control socket of the node.
    #[command(flatten)]
    pub control: Control,
}
