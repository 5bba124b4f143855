//! Command line of `weft-controller`.

use crate::http::Endpoint;
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Keep the nodes, the policy and the desired configurations of a network in one place.
///
/// A network does not need it: nodes go on without it, with the configuration that they have.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "weft-controller",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  weft controller serve                                       at 127.0.0.1:8443, for this machine
  weft controller serve --listen 0.0.0.0:8443 --certificate hub.pem --key hub.key
  weft controller serve --etcd http://127.0.0.1:2379          keep it in etcd"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Serve the interface of the controller
    Serve(ServeArguments),
}

/// Arguments of `weft controller serve`.
#[derive(Args, Clone, Debug)]
pub struct ServeArguments {
    /// Address and port to listen at; other addresses than loopback need a certificate
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8443")]
    pub listen: SocketAddr,
    /// Directory of the database and of the administrator's token
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/weft-controller")]
    pub dir: PathBuf,
    /// Certificate for TLS with its chain, in PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
    /// Where to keep the state instead of the database.
    #[command(flatten)]
    pub etcd: EtcdArguments,
}

/// Where etcd is.
#[derive(Args, Clone, Debug)]
pub struct EtcdArguments {
    /// Keep the state in etcd instead of a file; one address for each member of the cluster
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub etcd: Vec<Endpoint>,
    /// Beginning of the keys in etcd; a second network in the same cluster takes another
    #[arg(long, value_name = "PREFIX", default_value = "weft/", requires = "etcd")]
    pub etcd_prefix: String,
    /// Authority of etcd's certificates, in PEM; without it those of this system
    #[arg(long, value_name = "FILE", requires = "etcd")]
    pub etcd_ca: Option<PathBuf>,
    /// Certificate to show to etcd, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["etcd", "etcd_key"])]
    pub etcd_certificate: Option<PathBuf>,
    /// Private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_certificate")]
    pub etcd_key: Option<PathBuf>,
}
