//! Command line of `weft`: its subcommands, arguments and help texts.
//!
//! The doc comments of the clap structures in this module and its children are the program's help texts. `commands`
//! executes what this module parses. This module reads and changes nothing on the machine.

mod access;
mod ca;
mod live;

pub use access::{AccessCommand, AddOptions};
pub use ca::{CaCommand, SignOptions};
pub use live::{DrillCommand, DrillOptions, ExplainArguments, PeerCommand, PrefixArguments};

use crate::screen::Color;
use clap::{Args, Parser, Subcommand};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;
use weft_report::Shard;

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
    /// When to colour the output: auto, always, never; auto follows NO_COLOR and CLICOLOR_FORCE
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t, hide_possible_values = true)]
    pub color: Color,
    /// Subcommand to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands of `weft`.
#[derive(Subcommand)]
pub enum Command {
    /// Create a private key and print its public key on standard output
    #[command(after_help = "\
Examples:
  weft keygen --out /etc/weft/weft.key      the private key goes to a new file, mode 0600
  weft keygen                               the private key goes to standard output, the public one to standard error")]
    Keygen {
        /// File for the private key; it must not exist yet
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Create a secret that two nodes share (`[[peer]] preshared-key`), against recorded traffic and quantum computers
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
        /// File of the private key; without it or with -: standard input
        file: Option<PathBuf>,
    },
    /// Admit nodes to a network by certificate: create the root key, sign certificates, revoke keys
    #[command(subcommand)]
    Ca(CaCommand),
    /// Admit unmodified clients of WireGuard and OpenVPN at this edge, such as telephones and laptops
    #[command(subcommand)]
    Access(AccessCommand),
    /// Check a configuration: every mistake with its line, column and likely fix
    Check {
        /// Configuration file
        #[arg(value_name = "FILE", default_value = DEFAULT_CONFIG)]
        file: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Report what on this machine helps or hinders a node, and how routers can give the tunnel a queue of its own
    #[command(after_help = "\
Examples:
  weft doctor
  weft doctor -c weft.toml --json | jq '.checks[] | select(.verdict != \"good\")'
  weft doctor --peer hub           why the peer `hub` cannot be reached, link by link

Exit status 3 when a node cannot work here, or when the peer has no session.")]
    Doctor {
        /// Configuration file; without it /etc/weft/weft.toml, if that exists
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Test the connection of the running node to this peer instead
        #[arg(long, value_name = "NAME")]
        peer: Option<String>,
        #[command(flatten)]
        control: Control,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Run the node in the foreground until SIGTERM or `weft down`; SIGHUP reloads the configuration
    #[command(after_help = "\
Examples:
  weft up -c /etc/weft/weft.toml
  weft up -v            more log lines; -q: errors only

It needs CAP_NET_ADMIN for the TUN device and its routes. As a service: systemctl enable --now weft")]
    Up {
        /// Configuration file
        #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        /// Print more log lines
        #[arg(short, long)]
        verbose: bool,
        /// Print errors only
        #[arg(short, long, conflicts_with = "verbose")]
        quiet: bool,
    },
    /// Keep the congestion control `weft_er` loaded in the kernel, without a node, until SIGTERM or Ctrl-C
    #[command(after_help = "\
Examples:
  weft tcp-er                                          then: iperf3 -c HOST -C weft_er --fq-rate 20M
  weft tcp-er --grant 192.0.2.0/24='20 Mbit/s'         for each connection there that sets no rate itself

Any program chooses it by TCP_CONGESTION and gives the rate by SO_MAX_PACING_RATE. It needs CAP_BPF, CAP_PERFMON and
CAP_NET_ADMIN, and Linux 6.0 with BTF. A node holds it where its configuration has a [tcp-er].")]
    TcpEr {
        /// Rate of each connection toward a prefix; can be given several times
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
        /// Configuration file
        #[arg(short, long, value_name = "FILE", default_value = SIGNAL_CONFIG)]
        config: PathBuf,
        /// Check the configuration and exit
        #[arg(long)]
        check: bool,
        /// Print more log lines
        #[arg(short, long)]
        verbose: bool,
        /// Print errors only
        #[arg(short, long, conflicts_with = "verbose")]
        quiet: bool,
    },
    /// Stop the running node; it notifies its peers
    Down(Control),
    /// Make the running node read its configuration again; exit status 1, and no change, when it refuses the file
    Reload(Control),
    /// Show the state of the node and its peers; exit status 3 when one is degraded
    Status(Reading),
    /// Show each path: state, delay, loss, capacity, traffic
    #[command(after_help = "\
Examples:
  weft paths --watch
  weft paths --json | jq '.peers[].paths[] | {link, state, rtt_us}'")]
    Paths(Reading),
    /// Repair what the node has stored about a peer
    #[command(subcommand)]
    Peer(PeerCommand),
    /// Show which addresses lie behind which peer, and the source of this information
    #[command(after_help = "\
Examples:
  weft prefixes
  weft prefixes --peer hub --json | jq -r '.prefixes[].prefix'")]
    Prefixes(PrefixArguments),
    /// Show the flows that the node sent recently
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
        /// Action; without one, show the weights.
        #[command(subcommand)]
        set: Option<WeightsCommand>,
        /// Options for showing.
        #[command(flatten)]
        reading: Reading,
    },
    /// Show each VPN: traffic, rejected packets, queues and loops; or set its weight and its promised rates
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
        /// Action; without one, show the VPNs.
        #[command(subcommand)]
        set: Option<VpnsCommand>,
        /// Options for showing.
        #[command(flatten)]
        reading: Reading,
    },
    /// Show measurements of the network: each path from here, and what relays report about their neighbours
    #[command(after_help = "\
Examples:
  weft sense --watch
  weft sense --history hub      its paths: the last ten minutes, the last day
  weft sense --json | jq '.peers[] | {name, paths, reaches}'")]
    Sense {
        /// Show the history of the paths to this peer
        #[arg(long, value_name = "NODE")]
        history: Option<String>,
        /// Options for showing.
        #[command(flatten)]
        reading: Reading,
    },
    /// Give a revocation to the running node; it ends its sessions with that key and tells all other nodes
    #[command(after_help = "Example:\n  weft revoke home.revoked      what `weft ca revoke` wrote")]
    Revoke {
        /// File of the revocation
        file: PathBuf,
        /// Control socket of the node.
        #[command(flatten)]
        control: Control,
    },
    /// Explain how the node forwards a flow: prefix, paths, queue, rate, and the next choice
    #[command(after_help = "\
Examples:
  weft explain 10.9.0.2                              what a packet there meets
  weft explain hub                                   the same, by the name of a node
  weft explain 10.9.0.1:40000 10.9.0.2:80 tcp --json | jq '.paths[] | {link, takes_sparse, why}'

Exit status 3 when nothing would carry it.")]
    Explain(ExplainArguments),
    /// Silence a link or a node on purpose for a while, and report how long traffic stopped
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
        /// Options for showing.
        #[command(flatten)]
        reading: Reading,
    },
    /// Run the TCP proxy for the node with this device; the node starts this command itself
    #[command(hide = true)]
    Proxy {
        /// Name of the TUN device
        tun: String,
    },
    /// Emulate links on this machine's kernel and compare variants with real applications
    #[command(subcommand)]
    Lab(LabCommand),
    /// Run scenarios in virtual time, with the same engine
    #[command(subcommand)]
    Sim(SimCommand),
}

/// Subcommands of `weft lab`.
#[derive(Subcommand)]
pub enum LabCommand {
    /// Run all variants of a scenario and print a table
    #[command(after_help = "\
Examples:
  weft lab run scenarios/demo.toml --out out/demo
  weft lab run scenarios/home-office.toml --variant weft --variant best-link --repeat 1
  weft lab run scenarios/cellular.toml --traces traces --json >result.json

As root, or as an ordinary user where user namespaces are allowed.")]
    Run {
        /// Scenario file
        #[arg(value_name = "SCENARIO")]
        file: PathBuf,
        /// Options of the run.
        #[command(flatten)]
        options: ScenarioOptions,
    },
    /// Run many random mixes of links and judge each; exit status 1 when one fails
    Sweep {
        /// Sweep file
        #[arg(value_name = "SWEEP", default_value = "scenarios/sweeps/never-slower.toml")]
        file: PathBuf,
        /// Options of the run.
        #[command(flatten)]
        options: ScenarioOptions,
    },
    /// Cut links between four nodes silently and repeatedly; measure how long probes stop, with weft and with FRR's
    /// OSPF
    #[command(after_help = "\
Examples:
  weft lab failover
  weft lab failover --only weft --only ospf-bfd --repeat 5
  weft lab failover --only weft --restart --interval 20ms
  weft lab failover --json --out out/failover | jq '.series[] | {name, worst: ([.cuts[].gap_ms] | max)}'

Names: weft, ospf-bfd, ospf-minimal-hello, ospf-hello-1, ospf-default; OSPF is left out where FRR is not installed.
As root, or as an ordinary user where user namespaces are allowed. 11 minutes.")]
    Failover(FailoverArguments),
}

/// Arguments of `weft lab failover`.
#[derive(Args)]
pub struct FailoverArguments {
    /// Cuts for each contender; half as many with a dead interval of 4 s, a seventh with 40 s
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// How long to measure idle control traffic: 10s, 1m; a plain number is seconds
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration_or_seconds)]
    pub count: Duration,
    /// Interval between probes: 1ms, 20ms
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    pub interval: Duration,
    /// Restart the far end's daemon before each cut; needs --only weft
    #[arg(long)]
    pub restart: bool,
    /// Run only this contender; can be given several times
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Directory for the result (JSON) and each cut (CSV)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print no progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// Subcommands of `weft sim`.
#[derive(Subcommand)]
pub enum SimCommand {
    /// Run all variants of a scenario and print a table; the same seed gives the same result
    #[command(after_help = "\
Examples:
  weft sim run scenarios/home-office.toml
  weft sim run scenarios/paper-000-figure-2.toml --seed 7 --repeat 5 --json >result.json
  weft sim run scenarios/cellular.toml --traces traces --variant weft --out out/cellular

It needs no privilege, and takes the lab's scenarios as well as whole networks.")]
    Run {
        /// Scenario file
        #[arg(value_name = "SCENARIO")]
        file: PathBuf,
        /// Options of the run.
        #[command(flatten)]
        options: SimOptions,
    },
    /// Run scenarios in the lab and in virtual time and compare; exit status 1 when a figure differs by more than a
    /// tenth
    #[command(after_help = "\
Examples:
  weft sim parity scenarios/clean-links.toml --repeat 5
  weft sim parity scenarios/*.toml --lab out/lab.json       compare with an earlier `weft lab run --json`")]
    Parity {
        /// Scenario files
        #[arg(required = true, value_name = "SCENARIO")]
        files: Vec<PathBuf>,
        /// Output of `weft lab run --json` to compare with, instead of a run in the lab; can be given several times
        #[arg(long, value_name = "FILE")]
        lab: Vec<PathBuf>,
        /// Options of the runs.
        #[command(flatten)]
        options: SimOptions,
    },
    /// Reproduce what the papers claim and judge it; exit status 1 when a row misses its claim
    #[command(after_help = "\
Examples:
  weft sim reproduce A2 A3                 two rows of the checklist
  weft sim reproduce all --out docs        all of them, into docs/reproduction.md and docs/figures
  weft sim reproduce all --quick           short runs, to see that everything works")]
    Reproduce(ReproduceOptions),
    /// Run many random mixes of links, or a part of them, and judge each; exit status 1 when one fails
    #[command(after_help = "\
Examples:
  weft sim sweep scenarios/sweeps/never-slower.toml
  weft sim sweep scenarios/sweeps/never-slower.toml --shard 3/10 --out part-3.parquet
  weft sim sweep scenarios/sweeps/one-link.toml --seeds 17
  weft sim sweep scenarios/sweeps/bundles.toml --seeds 1..40 --threads 2

Parts are counted from 0. A job of a cluster takes one; `weft sim merge` joins them.")]
    Sweep {
        /// Sweep file
        #[arg(value_name = "SWEEP", default_value = "scenarios/sweeps/never-slower.toml")]
        file: PathBuf,
        /// Options of the run.
        #[command(flatten)]
        options: SimSweepOptions,
    },
    /// Join the parts of a sweep into one Parquet file, and print a summary as JSON
    Merge {
        /// File for the whole sweep
        #[arg(value_name = "OUT")]
        out: PathBuf,
        /// Files of the parts
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

/// Options of a run in virtual time.
#[derive(Args, Clone)]
pub struct SimOptions {
    /// Options that the lab has as well.
    #[command(flatten)]
    pub run: ScenarioOptions,
    /// Seed of the first run; each later run adds one
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// With --out, capture the packets of this link in each run to a pcapng file; can be given several times
    #[arg(long, value_name = "LINK", requires = "out")]
    pub pcap: Vec<String>,
    /// With --out, record window, threshold and round-trip time of this flow's TCP in each run; not for MPTCP
    #[arg(long, value_name = "FLOW", requires = "out")]
    pub trace: Option<String>,
    /// Number of runs at the same time; without it one per core. It does not change the result
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
}

/// Parses a duration, or a plain number of seconds.
///
/// The option accepted a plain number before it accepted units.
fn duration_or_seconds(text: &str) -> Result<Duration, String> {
    text.parse().map(|s: NonZeroU64| Duration::from_secs(s.get())).or_else(|_| duration(text))
}

/// Parses a duration such as `5s` or `2m`; zero is an error.
pub fn duration(text: &str) -> Result<Duration, String> {
    let time = weft_units::parse_duration(text).map_err(|why| format!("{why}, for example 5s or 2m"))?;
    if time.is_zero() { Err("it must be greater than zero".to_owned()) } else { Ok(time) }
}

/// Parses `17` or `1..40`; the range includes both ends.
fn seeds(text: &str) -> Result<std::ops::RangeInclusive<u64>, String> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    match (first.trim().parse(), last.trim_start_matches('=').trim().parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err("one seed, or a first and a last one, is expected (for instance 17 or 1..40)".into()),
    }
}

/// Options of `weft sim sweep`.
#[derive(Args)]
pub struct SimSweepOptions {
    /// Print one JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Run only part I of N, counted from 0
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Use these seeds instead of those in the file: one, or the first and the last
    #[arg(long, value_name = "FIRST[..LAST]", value_parser = seeds, conflicts_with_all = ["shard", "out"])]
    pub seeds: Option<std::ops::RangeInclusive<u64>>,
    /// Parquet file for the result
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Number of runs at the same time; without it one per core. It does not change the result
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Print no progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// Arguments of `weft sim reproduce`.
#[derive(Args)]
pub struct ReproduceOptions {
    /// Rows of the checklist (A1, C3 …), or `all`
    #[arg(required = true, value_name = "ID")]
    pub rows: Vec<String>,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Directory for the document and its pictures (SVG)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Seeds per case; without it 5, or 2 with --quick
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: Option<u64>,
    /// Simulate 3 s instead of 30 s
    #[arg(long)]
    pub quick: bool,
    /// Print no progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// Options of a scenario or a sweep, in the lab and in virtual time.
#[derive(Args, Clone)]
pub struct ScenarioOptions {
    /// Print one JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Directory for time series (CSV) and pictures (SVG)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Run only this variant; can be given several times
    #[arg(long, value_name = "NAME")]
    pub variant: Vec<String>,
    /// Number of runs of each variant; without it the scenario's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// Directory of Mahimahi traces
    #[arg(long, value_name = "DIR")]
    pub traces: Option<PathBuf>,
    /// Print no progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// Subcommands of `weft weights`.
#[derive(Subcommand)]
pub enum WeightsCommand {
    /// Set the weights of the named links: LINK=WEIGHT …, or `measured` for all links
    Set {
        /// LINK=WEIGHT …, or `measured`
        #[arg(required = true, value_name = "LINK=WEIGHT")]
        weights: Vec<String>,
        /// Control socket of the node.
        #[command(flatten)]
        control: Control,
    },
}

/// Subcommands of `weft vpns`.
#[derive(Subcommand)]
pub enum VpnsCommand {
    /// Set the weight and the promised rates of a VPN: NAME weight=N assured=RATE leased=RATE
    Set {
        /// Name of the VPN in the configuration
        #[arg(value_name = "NAME")]
        vpn: String,
        /// weight=N, N above 0; assured=RATE or leased=RATE, such as '4 Mbit/s', or none
        #[arg(required = true, value_name = "SETTING")]
        settings: Vec<String>,
        /// Control socket of the node.
        #[command(flatten)]
        control: Control,
    },
}

/// Option that names the running node.
#[derive(Args)]
pub struct Control {
    /// Control socket of the node
    #[arg(long, value_name = "SOCKET", default_value = crate::config::DEFAULT_SOCKET)]
    pub control: PathBuf,
}

/// Options of commands that show the state of the node.
#[derive(Args)]
pub struct Reading {
    /// Print one JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Show it again once a second
    #[arg(long, short)]
    pub watch: bool,
    /// Control socket of the node.
    #[command(flatten)]
    pub control: Control,
}

/// Default path of the configuration of `weft signal`.
pub const SIGNAL_CONFIG: &str = "/etc/weft/signal.toml";
/// Default path of the node's configuration.
pub const DEFAULT_CONFIG: &str = "/etc/weft/weft.toml";
