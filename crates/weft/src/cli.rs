//! The command line.

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
    /// Emulate links on this machine's kernel and compare, with real applications
    #[command(subcommand)]
    Lab(LabCommand),
    /// Run scenarios in virtual time, with the same engine
    #[command(subcommand)]
    Sim(SimCommand),
}

/// `weft lab`.
#[derive(Subcommand)]
pub enum LabCommand {
    /// Run a scenario: every variant in one run, then a table
    #[command(after_help = "\
Examples:
  weft lab run scenarios/demo.toml --out out/demo
  weft lab run scenarios/home-office.toml --variant weft --variant best-link --repeat 1
  weft lab run scenarios/cellular.toml --traces traces --json >result.json

As root, or as an ordinary user where user namespaces are allowed.")]
    Run {
        /// The scenario
        #[arg(value_name = "SCENARIO")]
        file: PathBuf,
        /// How to run it
        #[command(flatten)]
        options: ScenarioOptions,
    },
    /// Run many random mixes of links and judge each; exit status 1 when one fails
    Sweep {
        /// The sweep
        #[arg(value_name = "SWEEP", default_value = "scenarios/sweeps/never-slower.toml")]
        file: PathBuf,
        /// How to run it
        #[command(flatten)]
        options: ScenarioOptions,
    },
    /// Cut links of a diamond of four nodes without a sign, again and again: how long probes stop, beside FRR's OSPF
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

/// How to compare what silent cuts do.
#[derive(Args)]
pub struct FailoverArguments {
    /// Cuts for each; those with a dead interval of 4 s get half as many, those with 40 s a seventh
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// How long to measure idle control traffic: 10s, 1m; a plain number is seconds
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration_or_seconds)]
    pub count: Duration,
    /// From one probe to the next: 1ms, 20ms
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    pub interval: Duration,
    /// Restart the far end's daemon before each cut; with --only weft
    #[arg(long)]
    pub restart: bool,
    /// Only this one; can be given several times
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Directory for the result (JSON) and each cut (CSV)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// `weft sim`.
#[derive(Subcommand)]
pub enum SimCommand {
    /// Run a scenario: every variant, then a table. Same seed, same result
    #[command(after_help = "\
Examples:
  weft sim run scenarios/home-office.toml
  weft sim run scenarios/paper-000-figure-2.toml --seed 7 --repeat 5 --json >result.json
  weft sim run scenarios/cellular.toml --traces traces --variant weft --out out/cellular

It needs no privilege, and takes the lab's scenarios as well as whole networks.")]
    Run {
        /// The scenario
        #[arg(value_name = "SCENARIO")]
        file: PathBuf,
        /// How to run it
        #[command(flatten)]
        options: SimOptions,
    },
    /// Run scenarios in the lab and in virtual time, and compare; exit status 1 when a figure is not within a tenth
    #[command(after_help = "\
Examples:
  weft sim parity scenarios/clean-links.toml --repeat 5
  weft sim parity scenarios/*.toml --lab out/lab.json       compare with an earlier `weft lab run --json`")]
    Parity {
        /// The scenarios
        #[arg(required = true, value_name = "SCENARIO")]
        files: Vec<PathBuf>,
        /// A result of `weft lab run --json` to compare with, instead of running that scenario in the lab; can be given several times
        #[arg(long, value_name = "FILE")]
        lab: Vec<PathBuf>,
        /// How to run them
        #[command(flatten)]
        options: SimOptions,
    },
    /// Run what the papers claim and judge it; exit status 1 when a row misses
    #[command(after_help = "\
Examples:
  weft sim reproduce A2 A3                 two rows of the checklist
  weft sim reproduce all --out docs        all of them, into docs/reproduction.md and docs/figures
  weft sim reproduce all --quick           short runs, to see that everything works")]
    Reproduce(ReproduceOptions),
    /// Run many random mixes of links and judge each, or a part of them; exit status 1 when one fails
    #[command(after_help = "\
Examples:
  weft sim sweep scenarios/sweeps/never-slower.toml
  weft sim sweep scenarios/sweeps/never-slower.toml --shard 3/10 --out part-3.parquet
  weft sim sweep scenarios/sweeps/one-link.toml --seeds 17
  weft sim sweep scenarios/sweeps/bundles.toml --seeds 1..40 --threads 2

Parts are counted from 0. A job of a cluster takes one; `weft sim merge` joins them.")]
    Sweep {
        /// The sweep
        #[arg(value_name = "SWEEP", default_value = "scenarios/sweeps/never-slower.toml")]
        file: PathBuf,
        /// How to run it
        #[command(flatten)]
        options: SimSweepOptions,
    },
    /// Join the parts of a sweep into one Parquet file, and sum it up as JSON
    Merge {
        /// The file that holds the whole
        #[arg(value_name = "OUT")]
        out: PathBuf,
        /// The parts
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

/// How to run a scenario in virtual time.
#[derive(Args, Clone)]
pub struct SimOptions {
    /// What it has in common with the lab
    #[command(flatten)]
    pub run: ScenarioOptions,
    /// Seed of the first run; each next one's is one more
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// With --out, capture a link of each run into a pcapng file; can be given several times
    #[arg(long, value_name = "LINK", requires = "out")]
    pub pcap: Vec<String>,
    /// With --out, write what a flow's TCP did in each run: window, threshold, round-trip time (MPTCP's flows have none)
    #[arg(long, value_name = "FLOW", requires = "out")]
    pub trace: Option<String>,
    /// Runs at the same time; one for each core unless said otherwise. The result does not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
}

/// Reads a time, or a plain number of seconds, which this option took before it took units.
fn duration_or_seconds(text: &str) -> Result<Duration, String> {
    text.parse().map(|s: NonZeroU64| Duration::from_secs(s.get())).or_else(|_| duration(text))
}

/// Reads a time such as `5s` or `2m`; it is not nothing.
pub fn duration(text: &str) -> Result<Duration, String> {
    let time = weft_units::parse_duration(text).map_err(|why| format!("{why}, for example 5s or 2m"))?;
    if time.is_zero() { Err("it must be greater than zero".to_owned()) } else { Ok(time) }
}

/// Reads `17` or `1..40`, both ends included.
fn seeds(text: &str) -> Result<std::ops::RangeInclusive<u64>, String> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    match (first.trim().parse(), last.trim_start_matches('=').trim().parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err("one seed, or a first and a last one, is expected (for instance 17 or 1..40)".into()),
    }
}

/// How to run a sweep in virtual time.
#[derive(Args)]
pub struct SimSweepOptions {
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Only part i of n
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// These seeds instead of the file's: one, or a first and a last one
    #[arg(long, value_name = "FIRST[..LAST]", value_parser = seeds, conflicts_with_all = ["shard", "out"])]
    pub seeds: Option<std::ops::RangeInclusive<u64>>,
    /// A Parquet file for the result
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Runs at the same time; one for each core unless said otherwise. The result does not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// Which rows to reproduce, and how thoroughly.
#[derive(Args)]
pub struct ReproduceOptions {
    /// Rows of the checklist (A1, C3 …), or `all`
    #[arg(required = true, value_name = "ID")]
    pub rows: Vec<String>,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Directory for the document and its pictures (SVG)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Seeds of each case; 5, or 2 with --quick
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: Option<u64>,
    /// Runs of 3 s instead of 30 s
    #[arg(long)]
    pub quick: bool,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// How to run a scenario or a sweep, in either world.
#[derive(Args, Clone)]
pub struct ScenarioOptions {
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Directory for time series (CSV) and pictures (SVG)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Only this variant; can be given several times
    #[arg(long, value_name = "NAME")]
    pub variant: Vec<String>,
    /// Runs of each variant
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// Directory with Mahimahi traces
    #[arg(long, value_name = "DIR")]
    pub traces: Option<PathBuf>,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
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
