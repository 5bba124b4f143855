//! Arguments of `weft ca`, for the owner of a network's root key.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Subcommands of `weft ca`.
#[derive(Subcommand)]
pub enum CaCommand {
    /// Create a network's root key; print its public half, for [network] root of every node
    #[command(after_help = "\
Example:
  weft ca init --out weft-ca            the secret goes to weft-ca/root.key, mode 0600

The owner of root.key can admit any node to the network. Do not store it on nodes; keep a copy in a
safe place.")]
    Init {
        /// Directory for the root key; created if it does not exist
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Sign a certificate: this name and these prefixes belong to the node with this key
    #[command(after_help = "\
Examples:
  weft ca sign --ca weft-ca --name home --public-key \"$(weft pubkey home.key)\" \\
      --prefix 10.9.0.5/32 --prefix 192.168.5.0/24 --out home.cert
  weft ca sign --ca weft-ca --name home --public-key KEY --prefix 10.9.0.5/32 --days 90

A certificate is not secret: only the owner of the node's private key can use it.")]
    Sign(SignOptions),
    /// Sign a revocation of a key, for `weft revoke`: nodes that have it refuse the key, even if their own [[peer]]
    /// tables name it
    #[command(after_help = "\
Example:
  weft ca revoke --ca weft-ca --name home --out home.revoked
  weft revoke home.revoked              on any running node, which informs all others

`weft ca list --ca weft-ca` shows the names and keys of all nodes.")]
    Revoke {
        /// Directory of the root key, as `weft ca init --out` made it
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        #[command(flatten)]
        node: RevokedNode,
        /// File for the revocation; it must not exist yet. Without it: standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Sign a node's certificate again with a new expiry; key, name, prefixes, groups and permission to relay stay
    /// the same
    #[command(after_help = "\
Examples:
  weft ca renew --ca weft-ca --name home --out home-new.cert
  weft ca renew --ca weft-ca --name home --days 30

Replace the certificate on the node by the new one, and run `weft reload` there. The old one stays
valid until it expires. `weft ca list --ca weft-ca` shows which certificate expires first.")]
    Renew {
        /// Directory of the root key, as `weft ca init --out` made it
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// Name of the node in its certificate, as `weft ca list` shows it
        #[arg(long)]
        name: String,
        /// Validity from now on, in days: 1 to 36500
        #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=36_500))]
        days: u64,
        /// File for the certificate; it must not exist yet. Without it: standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// List the latest certificate of each node, by expiry
    #[command(after_help = "\
Examples:
  weft ca list --ca weft-ca
  weft ca list --ca weft-ca --json | jq '.certificates[] | select(.state != \"valid\")'")]
    List {
        /// Directory of the root key, as `weft ca init --out` made it
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show the contents of a certificate or a revocation, or the public key of a root key
    #[command(after_help = "\
Examples:
  weft ca show home.cert
  weft ca show weft-ca                          the root's public key, for [network] root
  weft ca show home.cert --root KEY --json      exit status 1 unless this root key signed it")]
    Show {
        /// File of the certificate or revocation, or directory of the root key
        file: PathBuf,
        /// Public key of the root, as `weft ca init` prints it; exit status 1 if this root did not sign the
        /// certificate or revocation
        #[arg(long, value_name = "KEY")]
        root: Option<String>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `weft ca sign`.
#[derive(Args)]
pub struct SignOptions {
    /// Directory of the root key, as `weft ca init --out` made it
    #[arg(long, value_name = "DIR")]
    pub ca: PathBuf,
    /// Name for the node, which no other node has: 1 to 63 characters without spaces
    #[arg(long)]
    pub name: String,
    /// Public key of the node, as `weft pubkey` prints it
    #[arg(long, value_name = "KEY")]
    pub public_key: String,
    /// Prefix behind the node in the default VPN, such as 10.9.0.5/32; no other node may claim it. Can be given 16
    /// times
    #[arg(long = "prefix", value_name = "PREFIX")]
    pub prefixes: Vec<String>,
    /// Group of the node, as [[allow]] tables name it with group:GROUP. Can be given 8 times
    #[arg(long = "group", value_name = "GROUP")]
    pub groups: Vec<String>,
    /// Allow the node to relay datagrams between other nodes
    #[arg(long)]
    pub relay: bool,
    /// Validity from now on, in days: 1 to 36500
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=36_500))]
    pub days: u64,
    /// File for the certificate; it must not exist yet. Without it: standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// The node of `weft ca revoke`.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct RevokedNode {
    /// Name of the node in its certificate
    #[arg(long)]
    pub name: Option<String>,
    /// Public key of the node, instead of its name, as `weft ca list` shows it
    #[arg(long, value_name = "KEY")]
    pub public_key: Option<String>,
}
