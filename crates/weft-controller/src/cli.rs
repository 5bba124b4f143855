//! Command line of `weft-controller`.

use crate::http::Endpoint;
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use weft_config::config::DEFAULT_SOCKET;

/// Keep the nodes, the access policy and the desired configurations of a network in one place.
///
/// A network does not need it: nodes go on without it, with the configuration that they have.
/// docs/operate/controller.md explains the administrator's work.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "weft-controller",
    version,
    after_help = "\
Examples:
  weft controller serve                                       at 127.0.0.1:8443, for this machine
  weft controller serve --listen 0.0.0.0:8443 --certificate hub.pem --key hub.key
  weft controller serve --etcd http://127.0.0.1:2379          keep the state in etcd
  weft controller join https://hub.example:8443 --ca hub.pem  on a node; it reads the code
  weft controller follow                                      let the node follow its configuration
  weft controller status                                      print the node's state from its files"
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
    #[command(after_help = "\
The first start writes the administrator's token to admin.token in --dir. The holder of this token
may read and change everything, and invite nodes, with any HTTP client. The command prints its URL
and runs until SIGTERM or Ctrl-C. docs/operate/controller.md has examples of requests.")]
    Serve(Box<ServeArguments>),
    /// Join this machine to the network with a code from the controller. An administrator makes it by a POST to
    /// /v1/invitations; with --oidc-issuer a user gets it at /login. A code of `weft invite` does not work here
    Join(JoinArguments),
    /// Give each new configuration from the controller to the node on this machine, and write it to the node's file.
    /// When this program ends, the node keeps the last one
    Follow(FollowArguments),
    /// Show the configuration in effect, and when the controller answered last, from the files of `follow`
    Status(StatusArguments),
}

/// Arguments of `weft controller serve`.
#[derive(Args, Clone, Debug)]
pub struct ServeArguments {
    /// IP address and port to listen at. An address that is not loopback needs --certificate and --key
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8443")]
    pub listen: SocketAddr,
    /// Directory of the database and of the administrator's token; created if it does not exist
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/weft-controller")]
    pub dir: PathBuf,
    /// Certificate for TLS with its chain, in PEM; without it HTTP without TLS, at a loopback address
    #[arg(long, value_name = "FILE", requires = "key")]
    pub certificate: Option<PathBuf>,
    /// File with the private key of --certificate, in PEM
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
    /// URL of an OpenID provider, with --oidc-client and --url. The owner of a node opens /login at this controller,
    /// logs in at the provider, and gets a code for `weft controller join`. Without it only the administrator invites
    #[arg(long, value_name = "URL", requires_all = ["oidc_client", "url"])]
    pub oidc_issuer: Option<String>,
    /// Client ID of this controller at the provider
    #[arg(long, value_name = "NAME", requires = "oidc_issuer")]
    pub oidc_client: Option<String>,
    /// File with the client secret of this controller at the provider; without it none is sent
    #[arg(long, value_name = "FILE", requires = "oidc_issuer")]
    pub oidc_secret_file: Option<PathBuf>,
    /// File with the authority of the provider's certificate, in PEM; without it those that this system trusts
    #[arg(long, value_name = "FILE", requires = "oidc_issuer")]
    pub oidc_ca: Option<PathBuf>,
    /// URL at which browsers reach this controller, such as https://hub.example:8443; needed with --oidc-issuer.
    /// Register it at the provider with /login/callback behind it
    #[arg(long, value_name = "URL", requires = "oidc_issuer")]
    pub url: Option<Endpoint>,
}

/// Default directory of the node's side.
const DEFAULT_MEMBERSHIP: &str = "/var/lib/weft-follow";

/// Arguments of `weft controller join`.
#[derive(Args, Clone, Debug)]
pub struct JoinArguments {
    /// URL of the controller, such as https://hub.example:8443; http only for this machine
    #[arg(value_name = "URL")]
    pub controller: Endpoint,
    /// Code from the controller; without it, the first line of standard input
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
    /// File with the private key of this node, as `weft keygen` made it; it must exist
    #[arg(long, value_name = "FILE", default_value = "/etc/weft/weft.key")]
    pub key: PathBuf,
    /// File with the authority of the controller's certificate, in PEM; without it those that this system trusts
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Directory for this machine's name, secret and state at the controller; created if it does not exist
    #[arg(long, value_name = "DIRECTORY", default_value = DEFAULT_MEMBERSHIP)]
    pub dir: PathBuf,
}

/// Arguments of `weft controller follow`.
#[derive(Args, Clone, Debug)]
pub struct FollowArguments {
    /// Directory that `weft controller join` wrote
    #[arg(long, value_name = "DIRECTORY", default_value = DEFAULT_MEMBERSHIP)]
    pub dir: PathBuf,
    /// Configuration file of the node, which each new configuration replaces
    #[arg(short, long, value_name = "FILE", default_value = "/etc/weft/weft.toml")]
    pub config: PathBuf,
    /// Control socket of the node
    #[arg(long, value_name = "SOCKET", default_value = DEFAULT_SOCKET)]
    pub control: PathBuf,
    /// Time between two requests to the controller: 1s or more, such as 30s or 5m
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = interval)]
    pub every: Duration,
    /// Time of a new configuration's trial: 1s or more. If the controller does not answer within three quarters of it,
    /// the node returns to the configuration before
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = interval)]
    pub trial: Duration,
    /// Ask once, apply a new configuration, and end; exit status 1 unless the desired configuration is then in effect
    #[arg(long)]
    pub once: bool,
}

/// Arguments of `weft controller status`.
#[derive(Args, Clone, Debug)]
pub struct StatusArguments {
    /// Directory that `weft controller join` wrote
    #[arg(long, value_name = "DIRECTORY", default_value = DEFAULT_MEMBERSHIP)]
    pub dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Parses a time between two questions.
fn interval(text: &str) -> Result<Duration, String> {
    match weft_config::argument::duration(text) {
        Ok(time) if time >= Duration::from_secs(1) => Ok(time),
        Ok(_) => Err("a time of --every and --trial must be at least 1s".to_owned()),
        Err(why) => Err(why),
    }
}

/// Where etcd is.
#[derive(Args, Clone, Debug)]
pub struct EtcdArguments {
    /// Keep the state in etcd instead of a file: the URL of each member of the cluster, with commas or by several
    /// --etcd. https, except for this machine
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub etcd: Vec<Endpoint>,
    /// Beginning of the keys in etcd; the controller of a second network in the same cluster needs another
    #[arg(long, value_name = "PREFIX", default_value = "weft/", requires = "etcd")]
    pub etcd_prefix: String,
    /// File with the authority of etcd's certificates, in PEM; without it those that this system trusts
    #[arg(long, value_name = "FILE", requires = "etcd")]
    pub etcd_ca: Option<PathBuf>,
    /// File with a certificate to show to etcd, in PEM; needs --etcd-key. Without it none is shown
    #[arg(long, value_name = "FILE", requires_all = ["etcd", "etcd_key"])]
    pub etcd_certificate: Option<PathBuf>,
    /// File with the private key of --etcd-certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_certificate")]
    pub etcd_key: Option<PathBuf>,
}
