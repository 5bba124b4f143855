//! `weft access`: clients that are no nodes.

use super::DEFAULT_CONFIG;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `weft access`.
#[derive(Subcommand)]
pub enum AccessCommand {
    /// Let a client in: print its configuration, and with WireGuard its QR code on standard error
    #[command(after_help = "\
Examples:
  weft access add phone --edge vpn.example.org:51820      scan the code with the telephone's WireGuard program
  weft access add laptop --out laptop.conf                then, on the laptop: wg-quick up ./laptop.conf
  weft access add robot --json | jq -r .configuration
  weft access add desk --openvpn --out desk.ovpn          then: openvpn --config desk.ovpn

On the edge, whose configuration has an [access]. The client's private key is in what is printed and nowhere else.
A running node lets the client in at once.")]
    Add(AddOptions),
    /// List the clients, and whether they are there
    #[command(after_help = "Example:\n  weft access list --json | jq '.clients[] | {name, handshake_s_ago}'")]
    List {
        /// Which edge
        #[command(flatten)]
        edge: Edge,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Put a client out: a running node answers it no more
    #[command(after_help = "Example:\n  weft access remove phone")]
    Remove {
        /// The client's name
        name: String,
        /// Which edge
        #[command(flatten)]
        edge: Edge,
    },
}

/// What is to be made for a client.
#[derive(Args)]
pub struct AddOptions {
    /// The client's name, for lists
    pub name: String,
    /// It comes with OpenVPN, not WireGuard; [access.openvpn] is needed
    #[arg(long)]
    pub openvpn: bool,
    /// Where the client reaches this edge; `endpoint` in the configuration unless said here
    #[arg(long = "edge", value_name = "HOST:PORT")]
    pub endpoint: Option<String>,
    /// New file for the configuration, mode 0600, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// One JSON object, without a QR code
    #[arg(long)]
    pub json: bool,
    /// Which edge
    #[command(flatten)]
    pub edge: Edge,
}

/// Which edge.
#[derive(Args)]
pub struct Edge {
    /// The edge's configuration
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
}
