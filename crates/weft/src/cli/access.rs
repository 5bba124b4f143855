//! Arguments of `weft access`, which admits clients that are not nodes.

use super::DEFAULT_CONFIG;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Subcommands of `weft access`.
#[derive(Subcommand)]
pub enum AccessCommand {
    /// Admit a client: print its configuration, and for WireGuard a QR code on standard error
    #[command(after_help = "\
Examples:
  weft access add phone --edge vpn.example.org:51820      scan the code with WireGuard
                                                          on the telephone
  weft access add laptop --out laptop.conf                then, on the laptop:
                                                          wg-quick up ./laptop.conf
  weft access add robot --json | jq -r .configuration
  weft access add desk --openvpn --out desk.ovpn          then: openvpn --config desk.ovpn

Run it on the edge, whose configuration has [access]. The client's private key is printed and not
stored. A running node admits the client at once.")]
    Add(AddOptions),
    /// List the clients, and which of them are connected
    #[command(after_help = "Example:\n  weft access list --json | jq '.clients[] | {name, handshake_s_ago}'")]
    List {
        /// Configuration of the edge.
        #[command(flatten)]
        edge: Edge,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Remove a client from the edge; a running node no longer answers it
    #[command(after_help = "Example:\n  weft access remove phone")]
    Remove {
        /// Name of the client, as `weft access list` shows it
        name: String,
        /// Configuration of the edge.
        #[command(flatten)]
        edge: Edge,
    },
}

/// Arguments of `weft access add`.
#[derive(Args)]
pub struct AddOptions {
    /// Name for the client, which no other client has: 1 to 63 characters without spaces
    pub name: String,
    /// Create a client of OpenVPN instead of WireGuard; needs [access.openvpn]
    #[arg(long)]
    pub openvpn: bool,
    /// Host name or address, and port, at which the client reaches this edge; without it `endpoint` of [access], or
    /// with --openvpn that of [access.openvpn]
    #[arg(long = "edge", value_name = "HOST:PORT")]
    pub endpoint: Option<String>,
    /// New file for the client's configuration, mode 0600, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print one JSON object, without a QR code
    #[arg(long)]
    pub json: bool,
    /// Configuration of the edge.
    #[command(flatten)]
    pub edge: Edge,
}

/// Option that names the edge.
#[derive(Args)]
pub struct Edge {
    /// Configuration file of the edge
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
}
