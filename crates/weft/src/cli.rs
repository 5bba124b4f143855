//! The command line.

mod access;
mod ca;
mod live;

pub use access::{AccessCommand, AddOptions};
pub use ca::{CaCommand, SignOptions};
pub use live::{DrillCommand, DrillOptions, ExplainArguments, PeerCommand, PrefixArguments};

use crate::screen::Color;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// Many imperfect links, one private network that is fast and stays up.
#[derive(Parser)]
#[command(
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Examples:
  weft keygen --out weft.key            make this node's key, print the public one for the peers
  weft check /etc/weft/weft.toml        say what is wrong, with line, column and the likely fix
  weft up -c /etc/weft/weft.toml        run the node
  weft paths --watch                    what each path carries, once a second

Exit status: 0 well, 1 failed, 2 usage, 3 degraded, 4 no daemon."
)]
pub struct Cli {
    /// Colours: auto, always, never; auto follows NO_COLOR and CLICOLOR_FORCE
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t, hide_possible_values = true)]
    pub color: Color,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand)]
pub enum Command {
    /// Make a private key; print its public key on standard output
    #[command(after_help = "\
Examples:
  weft keygen --out /etc/weft/weft.key      the private key goes to a new file, mode 0600
  weft keygen                               the private key goes to standard output, the public one to standard error")]
    Keygen {
        /// File for the private key; it must not exist yet
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Make a secret for two nodes to share (`[[peer]] preshared-key`), against recorded traffic and quantum computers
    #[command(after_help = "\
Examples:
  weft genpsk --out /etc/weft/hub.psk       the secret goes to a new file, mode 0600; the peer needs the same file
  weft genpsk                               the secret goes to standard output")]
    Genpsk {
        /// File for the secret; it must not exist yet
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Print the version
    Version,
    /// Print the public key of a private key
    #[command(after_help = "\
Examples:
  weft pubkey /etc/weft/weft.key
  weft keygen 2>/dev/null | weft pubkey")]
    Pubkey {
        /// File of the private key; the default is standard input, as with -
        file: Option<PathBuf>,
    },
    /// Let nodes into a network by certificates: its root key, what it signs and what it revokes
    #[command(subcommand)]
    Ca(CaCommand),
    /// Let unmodified clients of WireGuard and OpenVPN in at this edge: telephones, laptops, whatever is no node
    #[command(subcommand)]
    Access(AccessCommand),
    /// Check a configuration: every mistake with its line, column and likely fix
    Check {
        /// The configuration
        #[arg(value_name = "FILE", default_value = DEFAULT_CONFIG)]
        file: PathBuf,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Look at this machine for what helps or hinders a node, and show how routers can isolate the tunnel's packets
    #[command(after_help = "\
Examples:
  weft doctor
  weft doctor -c weft.toml --json | jq '.checks[] | select(.verdict != \"good\")'
  weft doctor --peer hub           why the peer `hub` cannot be reached, link by link

Exit status 3 when a node cannot work here, or when the peer has no session.")]
    Doctor {
        /// The configuration; without it the usual one, if it is there
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Test the connection of the running node to this peer instead
        #[arg(long, value_name = "NAME")]
        peer: Option<String>,
        #[command(flatten)]
        control: Control,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Run the node in the foreground, until SIGTERM or `weft down`; SIGHUP reloads
    #[command(after_help = "\
Examples:
  weft up -c /etc/weft/weft.toml
  weft up -v            more log lines; -q: errors only

It needs CAP_NET_ADMIN for the TUN device and its routes. As a service: systemctl enable --now weft")]
    Up {
        /// The configuration
        #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        /// Say more
        #[arg(short, long)]
        verbose: bool,
        /// Say only what went wrong
        #[arg(short, long, conflicts_with = "verbose")]
        quiet: bool,
    },
    /// Hold the congestion control `weft_er` in the kernel, without a node, until SIGTERM or Ctrl-C
    #[command(after_help = "\
Examples:
  weft tcp-er                                          then: iperf3 -c HOST -C weft_er --fq-rate 20M
  weft tcp-er --grant 192.0.2.0/24='20 Mbit/s'         for each connection there that sets no rate itself

Any program chooses it by TCP_CONGESTION and gives the rate by SO_MAX_PACING_RATE. It needs CAP_BPF, CAP_PERFMON and
CAP_NET_ADMIN, and Linux 6.0 with BTF. A node holds it where its configuration has a [tcp-er].")]
    TcpEr {
        /// What each connection toward a prefix may send
        #[arg(long = "grant", value_name = "PREFIX=RATE")]
        grants: Vec<String>,
    },
    /// Signal explicit rates for one interface of this machine, without a node, until SIGTERM or Ctrl-C
    #[command(after_help = "\
Examples:
  weft signal -c /etc/weft/signal.toml
  weft signal -c signal.toml --check       say what is wrong with it

The file has a [signal] as a node's, with `interface` and `rate`, and its [[signal.rule]]s. It needs CAP_NET_ADMIN,
CAP_NET_RAW and nftables; where the kernel has no queue expression for nftables, iptables as well.")]
    Signal {
        /// The configuration
        #[arg(short, long, value_name = "FILE", default_value = SIGNAL_CONFIG)]
        config: PathBuf,
        /// Only check it
        #[arg(long)]
        check: bool,
        /// Say more
        #[arg(short, long)]
        verbose: bool,
        /// Say only what went wrong
        #[arg(short, long, conflicts_with = "verbose")]
        quiet: bool,
    },
    /// Stop the running node; it tells its peers
    Down(Control),
    /// Have the running node read its configuration again; exit status 1, and nothing changes, when it is refused
    Reload(Control),
    /// The node, its peers and how they are; exit status 3 when one is degraded
    Status(Reading),
    /// Each path: state, delay, loss, capacity, what it carries
    #[command(after_help = "\
Examples:
  weft paths --watch
  weft paths --json | jq '.peers[].paths[] | {link, state, rtt_us}'")]
    Paths(Reading),
    /// Mend what the node remembers of a peer
    #[command(subcommand)]
    Peer(PeerCommand),
    /// Which addresses lie behind which peer, and who says so
    #[command(after_help = "\
Examples:
  weft prefixes
  weft prefixes --peer hub --json | jq -r '.prefixes[].prefix'")]
    Prefixes(PrefixArguments),
    /// The flows sent lately
    Flows(Reading),
    /// Show the weights of the links, or set them for the weighted schedules
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "\
Examples:
  weft weights                          show them
  weft weights set eth0=50 wwan0=75     effective at the next packet; other links keep theirs
  weft weights set measured             in proportion to the measured capacity again"
    )]
    Weights {
        /// What to do with them
        #[command(subcommand)]
        set: Option<WeightsCommand>,
        /// How to read them
        #[command(flatten)]
        reading: Reading,
    },
    /// Each VPN: what it carries and refuses, its queues and loops; or set its weight and what it is promised
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "\
Examples:
  weft vpns --watch
  weft vpns --json | jq '.vpns[] | {name, sent_bytes, strays}'
  weft vpns set blue weight=3           until the next reload
  weft vpns set blue assured='4 Mbit/s' leased=none"
    )]
    Vpns {
        /// What to do with them
        #[command(subcommand)]
        set: Option<VpnsCommand>,
        /// How to read them
        #[command(flatten)]
        reading: Reading,
    },
    /// What is known of the network: each path from here, and what relays say of nodes beside them
    #[command(after_help = "\
Examples:
  weft sense --watch
  weft sense --history hub      its paths: the last ten minutes, the last day
  weft sense --json | jq '.peers[] | {name, paths, reaches}'")]
    Sense {
        /// What the paths to this peer were like
        #[arg(long, value_name = "NODE")]
        history: Option<String>,
        /// How to read it
        #[command(flatten)]
        reading: Reading,
    },
    /// Hand a revocation to the running node: it ends what it has with that key now, and tells all others
    #[command(after_help = "Example:\n  weft revoke home.revoked      what `weft ca revoke` wrote")]
    Revoke {
        /// The revocation
        file: PathBuf,
        /// Where the node listens
        #[command(flatten)]
        control: Control,
    },
    /// Why a flow goes where it goes: prefix, paths, queue, rate, and what would be next
    #[command(after_help = "\
Examples:
  weft explain 10.9.0.2                              what a packet there meets
  weft explain hub                                   the same, by the name of a node
  weft explain 10.9.0.1:40000 10.9.0.2:80 tcp --json | jq '.paths[] | {link, takes_sparse, why}'

Exit status 3 when nothing would carry it.")]
    Explain(ExplainArguments),
    /// Let a link or a node fall silent for a while, on purpose, and tell how long traffic stopped
    #[command(
        subcommand,
        after_help = "\
Examples:
  weft drill link eth0 --for 5s
  weft drill node hub-a --json | jq '.peers[] | {peer, detected_us, gap_us, lost}'

Datagrams are dropped inside the node, both ways. The node ends it by itself, also when this command is killed. It is refused
where no other path would remain to a peer, unless it is forced. Exit status 3 when nothing else carried the probes."
    )]
    Drill(DrillCommand),
    /// Measure the round-trip time to a peer through each path
    #[command(after_help = "Example:\n  weft ping hub")]
    Ping {
        /// The peer's name in the configuration
        #[arg(value_name = "NODE")]
        peer: String,
        /// How to read it
        #[command(flatten)]
        reading: Reading,
    },
    /// The TCP proxy of the node with this device; the node itself starts it
    #[command(hide = true)]
    Proxy {
        /// Name of the device
        tun: String,
    },
    /// Emulate links on this machine's kernel and compare, with real applications: runs `weft-lab`
    #[command(disable_help_flag = true)]
    Lab(Experiment),
    /// Run scenarios in virtual time, with the same engine: runs `weft-lab`
    #[command(disable_help_flag = true)]
    Sim(Experiment),
}

/// Arguments for `weft-lab`, which has a command line of its own.
#[derive(Args)]
pub struct Experiment {
    /// The arguments, as `weft-lab --help` explains them
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// `weft weights set`.
#[derive(Subcommand)]
pub enum WeightsCommand {
    /// Set the weights of the links that are named: LINK=WEIGHT …, or `measured` for all
    Set {
        /// LINK=WEIGHT …, or `measured`
        #[arg(required = true, value_name = "LINK=WEIGHT")]
        weights: Vec<String>,
        /// Where the node listens
        #[command(flatten)]
        control: Control,
    },
}

/// `weft vpns set`.
#[derive(Subcommand)]
pub enum VpnsCommand {
    /// Set a VPN's weight and what it is promised: NAME weight=N assured=RATE leased=RATE
    Set {
        /// The VPN's name in the configuration
        #[arg(value_name = "NAME")]
        vpn: String,
        /// weight=N, N above 0; assured=RATE or leased=RATE, such as '4 Mbit/s', or none
        #[arg(required = true, value_name = "SETTING")]
        settings: Vec<String>,
        /// Where the node listens
        #[command(flatten)]
        control: Control,
    },
}

/// Where the running node is.
#[derive(Args)]
pub struct Control {
    /// Control socket of the node
    #[arg(long, value_name = "SOCKET", default_value = crate::config::DEFAULT_SOCKET)]
    pub control: PathBuf,
}

/// How to show what is read.
#[derive(Args)]
pub struct Reading {
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Show it anew once a second
    #[arg(long, short)]
    pub watch: bool,
    /// Where the node listens
    #[command(flatten)]
    pub control: Control,
}

/// Where that of `weft signal` is unless said otherwise.
pub const SIGNAL_CONFIG: &str = "/etc/weft/signal.toml";
/// Where the configuration is unless said otherwise.
pub const DEFAULT_CONFIG: &str = "/etc/weft/weft.toml";
