//! `weft ca`: the owner of a network's root key.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `weft ca`.
#[derive(Subcommand)]
pub enum CaCommand {
    /// Make a network's root key; print its public half, for [network] root of every node
    #[command(after_help = "\
Example:
  weft ca init --out weft-ca            the secret goes to root.key there, mode 0600

Whoever has root.key can let anybody into the network. Keep it off the nodes; a copy in a safe place is worth having.")]
    Init {
        /// Directory for the root key; made if it is not there
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Sign a certificate: this name and these prefixes belong to the node with this key
    #[command(after_help = "\
Examples:
  weft ca sign --ca weft-ca --name home --public-key \"$(weft pubkey home.key)\" \\
      --prefix 10.9.0.5/32 --prefix 192.168.5.0/24 --out home.cert
  weft ca sign --ca weft-ca --name home --public-key KEY --prefix 10.9.0.5/32 --days 90

A certificate is no secret: only who has the node's own private key can use it.")]
    Sign(SignOptions),
    /// Sign a revocation: no certificate of this key holds any more, nor does a [[peer]] table
    #[command(after_help = "\
Example:
  weft ca revoke --ca weft-ca --public-key KEY --out home.revoked
  weft revoke home.revoked              on any running node: all others learn of it from there")]
    Revoke {
        /// Directory of the root key
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// The node's public key
        #[arg(long, value_name = "KEY")]
        public_key: String,
        /// File for the revocation; it must not exist yet. Without it: standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Sign a node's certificate anew: the same key, name and prefixes, for more time
    #[command(after_help = "\
Examples:
  weft ca renew --ca weft-ca --name home --out home-new.cert
  weft ca renew --ca weft-ca --name home --days 30

`weft ca list --ca weft-ca` says whose time comes first.")]
    Renew {
        /// Directory of the root key
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// The node's name in its certificate
        #[arg(long)]
        name: String,
        /// How long it holds, from now on
        #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=36_500))]
        days: u64,
        /// File for the certificate; it must not exist yet. Without it: standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// List what was signed, by the time it ends: the certificate in force of each node
    #[command(after_help = "\
Examples:
  weft ca list --ca weft-ca
  weft ca list --ca weft-ca --json | jq '.certificates[] | select(.state != \"valid\")'")]
    List {
        /// Directory of the root key
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show what a certificate or a revocation says, or the public key of a root key
    #[command(after_help = "\
Examples:
  weft ca show home.cert
  weft ca show weft-ca                          the root's public key, for [network] root
  weft ca show home.cert --root KEY --json      exit status 1 unless this root key signed it")]
    Show {
        /// The certificate or revocation, or the directory of the root key
        file: PathBuf,
        /// The root key that should have signed it
        #[arg(long, value_name = "KEY")]
        root: Option<String>,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
}

/// What a certificate shall say.
#[derive(Args)]
pub struct SignOptions {
    /// Directory of the root key
    #[arg(long, value_name = "DIR")]
    pub ca: PathBuf,
    /// What people call the node; no other may have this name
    #[arg(long)]
    pub name: String,
    /// The node's public key, as `weft pubkey` prints it
    #[arg(long, value_name = "KEY")]
    pub public_key: String,
    /// Addresses behind the node, outside all VPNs, which no other may claim; can be given 16 times
    #[arg(long = "prefix", value_name = "PREFIX")]
    pub prefixes: Vec<String>,
    /// The node may pass datagrams on between others
    #[arg(long)]
    pub relay: bool,
    /// How long it holds, from now on
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=36_500))]
    pub days: u64,
    /// File for the certificate; it must not exist yet. Without it: standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
