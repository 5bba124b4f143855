//! Command line of `weft-controller`.

use crate::http::Endpoint;
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use weft_config::config::DEFAULT_SOCKET;

/// Keep the nodes, the policy and the desired configurations of a network in one place.
///
/// A network does not need it: nodes go on without it, with the configuration that they have.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "weft-controller",
    version,
    after_help = "\
Examples:
  weft controller serve                                       at 127.0.0.1:8443, for this machine
  weft controller serve --listen 0.0.0.0:8443 --certificate hub.pem --key hub.key
  weft controller serve --etcd http://127.0.0.1:2379          keep it in etcd
  weft controller join https://hub.example:8443 --ca hub.pem  on a node; it reads the code
  weft controller follow                                      let the node follow its configuration
  weft controller status                                      what the node has, without asking"
)]
pub struct Cli {
    /// Subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Run the controller: serve its HTTP interface, which /openapi.json describes
    Serve(Box<ServeArguments>),
    /// Join this machine to the network with a code from the controller. An administrator makes it by a POST to
    /// /v1/invitations; with --oidc-issuer a user gets it at /login
    Join(JoinArguments),
    /// Give each new configuration from the controller to the node on this machine. When this program ends, the node
    /// keeps the last one
    Follow(FollowArguments),
    /// Show the configuration in effect, and when the controller answered last
    Status(StatusArguments),
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
    /// Where users log in.
    #[command(flatten)]
    pub oidc: OidcArguments,
}

/// Where users log in for invitations.
#[derive(Args, Clone, Debug)]
pub struct OidcArguments {
    /// OpenID provider: an owner of a node opens /login at this controller, logs in at the provider, and gets a code
    #[arg(long, value_name = "ADDRESS", requires_all = ["oidc_client", "url"])]
    pub oidc_issuer: Option<String>,
    /// Name of this controller at the provider
    #[arg(long, value_name = "NAME", requires = "oidc_issuer")]
    pub oidc_client: Option<String>,
    /// File of the secret that the provider has given to this controller
    #[arg(long, value_name = "FILE", requires = "oidc_issuer")]
    pub oidc_secret_file: Option<PathBuf>,
    /// Authority of the provider's certificate, in PEM; without it those of this system
    #[arg(long, value_name = "FILE", requires = "oidc_issuer")]
    pub oidc_ca: Option<PathBuf>,
    /// Address of this controller for browsers, without the path
    #[arg(long, value_name = "ADDRESS", requires = "oidc_issuer")]
    pub url: Option<Endpoint>,
}

/// Default directory of the node's side.
const DEFAULT_MEMBERSHIP: &str = "/var/lib/weft-follow";

/// Arguments of `weft controller join`.
#[derive(Args, Clone, Debug)]
pub struct JoinArguments {
    /// Address of the controller
    #[arg(value_name = "ADDRESS")]
    pub controller: Endpoint,
    /// Code from the controller; without it, the first line of standard input
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
    /// Private key of this node
    #[arg(long, value_name = "FILE", default_value = "/etc/weft/weft.key")]
    pub key: PathBuf,
    /// Authority of the controller's certificate, in PEM; without it those of this system
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Directory of this machine's membership
    #[arg(long, value_name = "DIRECTORY", default_value = DEFAULT_MEMBERSHIP)]
    pub dir: PathBuf,
}

/// Arguments of `weft controller follow`.
#[derive(Args, Clone, Debug)]
pub struct FollowArguments {
    /// Directory of this machine's membership
    #[arg(long, value_name = "DIRECTORY", default_value = DEFAULT_MEMBERSHIP)]
    pub dir: PathBuf,
    /// Configuration file of the node
    #[arg(short, long, value_name = "FILE", default_value = "/etc/weft/weft.toml")]
    pub config: PathBuf,
    /// Control socket of the node
    #[arg(long, value_name = "SOCKET", default_value = DEFAULT_SOCKET)]
    pub control: PathBuf,
    /// Time between two questions to the controller
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = interval)]
    pub every: Duration,
    /// Time within which the controller must be in reach with a new configuration; otherwise it is undone
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = interval)]
    pub trial: Duration,
    /// Ask once, and end with status 1 unless the desired configuration is in effect
    #[arg(long)]
    pub once: bool,
}

/// Arguments of `weft controller status`.
#[derive(Args, Clone, Debug)]
pub struct StatusArguments {
    /// Directory of this machine's membership
    #[arg(long, value_name = "DIRECTORY", default_value = DEFAULT_MEMBERSHIP)]
    pub dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Parses a time between two questions.
fn interval(text: &str) -> Result<Duration, String> {
    match weft_config::argument::duration(text) {
        Ok(time) if time >= Duration::from_secs(1) => Ok(time),
        Ok(_) => Err("at least 1s".to_owned()),
        Err(why) => Err(why),
    }
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
