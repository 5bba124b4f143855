//! The command line of `weft-lab`.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;
use weft_config::argument::duration;
use weft_report::Shard;

/// Scenarios of links and networks on this machine's kernel and in virtual time, with weft and with its alternatives.
/// `weft sim run` is `weft-lab sim`, and `weft lab sweep` is `weft-lab sweep --world lab`.
#[derive(Parser)]
#[command(
    name = "weft-lab",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  weft-lab run scenarios/demo.toml --out out/demo      real kernel, real applications
  weft-lab sim scenarios/home-office.toml              the same in virtual time, without privilege
  weft-lab reproduce A2 A3                             rows of the checklist for the papers

Exit status: 0 success, 1 a run failed or a result missed its limit, 2 usage error."
)]
pub struct Cli {
    /// Subcommand to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands of `weft-lab`.
#[derive(Subcommand)]
pub enum Command {
    /// Run all variants of a scenario on this machine's kernel and print a table
    #[command(after_help = "\
Examples:
  weft-lab run scenarios/demo.toml --out out/demo
  weft-lab run scenarios/home-office.toml --variant weft --variant best-link --repeat 1
  weft-lab run scenarios/cellular.toml --traces traces --json >result.json

It needs root, or user namespaces for an ordinary user. It runs the program `weft`, which it finds
beside itself or in PATH.")]
    Run {
        /// Scenario file
        #[arg(value_name = "SCENARIO")]
        file: PathBuf,
        /// Options of the run.
        #[command(flatten)]
        options: ScenarioOptions,
    },
    /// Run all variants of a scenario in virtual time and print a table; the same seed gives the same result
    #[command(after_help = "\
Examples:
  weft-lab sim scenarios/home-office.toml
  weft-lab sim scenarios/paper-000-figure-2.toml --seed 7 --repeat 5 --json >result.json
  weft-lab sim scenarios/cellular.toml --traces traces --variant weft --out out/cellular

It needs no privilege.")]
    Sim {
        /// Scenario file
        #[arg(value_name = "SCENARIO")]
        file: PathBuf,
        /// Options of the run.
        #[command(flatten)]
        options: SimOptions,
    },
    /// Run many random mixes of links, or a part of them, and judge each; exit status 1 when one fails
    #[command(after_help = "\
Examples:
  weft-lab sweep scenarios/sweeps/never-slower.toml
  weft-lab sweep scenarios/sweeps/never-slower.toml --world lab
  weft-lab sweep scenarios/sweeps/never-slower.toml --shard 3/10 --out part-3.parquet
  weft-lab sweep scenarios/sweeps/bundles.toml --seeds 1..40 --threads 2

Parts are counted from 0. Each job of a cluster runs one part; `weft-lab merge` joins the parts.
`weft lab sweep` is `weft-lab sweep --world lab`. An option for the other world is refused.")]
    Sweep {
        /// Sweep file
        #[arg(value_name = "SWEEP", default_value = "scenarios/sweeps/never-slower.toml")]
        file: PathBuf,
        /// Options of the run.
        #[command(flatten)]
        options: SweepOptions,
    },
    /// Join the parts of a sweep into one Parquet file, and print a summary as JSON
    #[command(after_help = "Example:\n  weft-lab merge whole.parquet part-0.parquet part-1.parquet")]
    Merge {
        /// File for the whole sweep; an existing file is replaced
        #[arg(value_name = "OUT")]
        out: PathBuf,
        /// Files of the parts
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Reproduce the claims of the papers behind weft and judge them; exit status 1 when a claim does not hold
    #[command(after_help = "\
Examples:
  weft-lab reproduce A2 A3                 two rows of the checklist
  weft-lab reproduce all --out docs        all of them, into docs/reproduction.md and docs/figures
  weft-lab reproduce all --quick           short runs, to see that everything works")]
    Reproduce(ReproduceOptions),
    /// Run scenarios on the kernel and in virtual time and compare the medians of each variant; exit status 1 when one
    /// differs by more than 10 %
    #[command(after_help = "\
Examples:
  weft-lab parity scenarios/clean-links.toml --repeat 5
  weft-lab parity scenarios/*.toml --lab out/lab.json       compare with an earlier result
                                                            of `weft-lab run --json`

It compares goodput, round-trip and one-way times of flows, gaps after events, and with VPNs their
shares and the queues of links. 10 % is relative to the kernel's value. A gap may always differ by
10 ms, and a queue by 5 packets.

The runs on the kernel need root, or user namespaces for an ordinary user. They run one after
another. --out, --seed, --threads, --pcap and --trace apply to the runs in virtual time.")]
    Parity {
        /// Scenario files
        #[arg(required = true, value_name = "SCENARIO")]
        files: Vec<PathBuf>,
        /// File with the output of `weft-lab run --json` for one of the scenarios, to compare with instead of a new run
        /// on the kernel; can be given several times
        #[arg(long, value_name = "FILE")]
        lab: Vec<PathBuf>,
        /// Options of the runs.
        #[command(flatten)]
        options: SimOptions,
    },
    /// Cut links between four nodes silently and repeatedly; measure how long probes stop, with weft and with FRR's
    /// OSPF
    #[command(after_help = "\
Examples:
  weft-lab failover
  weft-lab failover --only weft --only ospf-bfd --repeat 5
  weft-lab failover --only weft --restart --interval 20ms
  weft-lab failover --json --out out/failover \\
      | jq '.series[] | {name, worst: ([.cuts[].gap_ms] | max)}'

Contenders: weft, and OSPF with these timers:
  ospf-bfd             OSPF with BFD: three intervals of 50 ms
  ospf-minimal-hello   OSPF with four hellos a second, dead after 1 s
  ospf-hello-1         OSPF with a hello every second, dead after 4 s
  ospf-default         OSPF with a hello every 10 s, dead after 40 s

OSPF is skipped if FRR is not installed. Exit status 1 if weft took longer than 50 ms, or one and a
half round-trip times if that is more, after a cut. It needs root, or user namespaces for an
ordinary user. With the default values it takes 11 minutes.")]
    Failover(FailoverArguments),
}

/// World in which a scenario or a sweep runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum World {
    /// On this machine's kernel, with real applications
    Lab,
    /// In virtual time
    #[default]
    Sim,
}

/// Options of a sweep.
#[derive(Args)]
pub struct SweepOptions {
    /// World in which the sweep runs; without it sim, or lab for `weft lab sweep`
    #[arg(long, value_enum, default_value_t, hide_default_value = true)]
    pub world: World,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Use these seeds instead of those in the file: one, such as 17, or the first and the last, such as 1..40
    #[arg(long, value_name = "FIRST[..LAST]", value_parser = seeds, conflicts_with = "shard")]
    pub seeds: Option<std::ops::RangeInclusive<u64>>,
    /// In virtual time, Parquet file for the result; on the kernel, directory for the result (JSON), time series and
    /// pictures. Without it no file is written
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// In virtual time, run only part I of N: 0/N to (N-1)/N
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// In virtual time, number of runs at the same time; without it one per core. It does not change the result
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// On the kernel, run only this variant of each mix; can be given several times
    #[arg(long, value_name = "NAME")]
    pub variant: Vec<String>,
    /// On the kernel, each mix runs once first. If it passes by the margin `clear-by` of the file, that run is judged.
    /// Otherwise each variant runs N more times, and only these runs are judged. With 1 nothing runs again. Without
    /// --repeat N is `repeats` of the file, or 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// On the kernel, directory with recordings of link capacity in Mahimahi format. The name of a file is the name by
    /// which a mix refers to the recording. A recording that is not there is generated from the seed. Without --traces
    /// all are generated
    #[arg(long, value_name = "DIR")]
    pub traces: Option<PathBuf>,
    /// Print no progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

impl SweepOptions {
    /// Returns the first option that has no meaning in the world that was chosen.
    pub fn misplaced(&self) -> Option<&'static str> {
        let (sim, lab) = (self.world == World::Sim, self.world == World::Lab);
        let all = [
            ("--shard", lab && self.shard.is_some()),
            ("--threads", lab && self.threads.is_some()),
            ("--variant", sim && !self.variant.is_empty()),
            ("--repeat", sim && self.repeat.is_some()),
            ("--traces", sim && self.traces.is_some()),
        ];
        all.iter().find(|(_, is_misplaced)| *is_misplaced).map(|(name, _)| *name)
    }

    /// Returns the options that the lab's runs have in common.
    pub fn of_the_lab(&self) -> ScenarioOptions {
        ScenarioOptions {
            json: self.json,
            out: self.out.clone(),
            variant: self.variant.clone(),
            repeat: self.repeat,
            traces: self.traces.clone(),
            quiet: self.quiet,
        }
    }
}

/// Arguments of `weft-lab failover`.
#[derive(Args)]
pub struct FailoverArguments {
    /// Number of cuts for each contender, at least 1; half as many for ospf-hello-1, a seventh as many for ospf-default
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Time for which the control traffic of each contender is counted while nothing else is sent: 10s, 1m; a plain
    /// number is seconds
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration_or_seconds)]
    pub count: Duration,
    /// Interval between probes, such as 1ms or 20ms
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    pub interval: Duration,
    /// Restart the node that answers the probes before each cut; needs --only weft
    #[arg(long)]
    pub restart: bool,
    /// Run only this contender, named as below; can be given several times. Without it all run
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Directory for the result (JSON) and each cut (CSV); without it no file is written
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print no progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// Options of a run in virtual time.
#[derive(Args, Clone)]
pub struct SimOptions {
    /// Options that are the same for runs in the lab.
    #[command(flatten)]
    pub run: ScenarioOptions,
    /// Seed of the first run in virtual time, 0 or more; without it `seed` of the scenario, or 1. Each later run adds
    /// one
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// With --out, capture the packets of this link in each run in virtual time to a pcapng file; can be given several
    /// times
    #[arg(long, value_name = "LINK", requires = "out")]
    pub pcap: Vec<String>,
    /// With --out, record the congestion window, slow-start threshold and round-trip time of this flow's TCP in each
    /// run in virtual time; not for MPTCP
    #[arg(long, value_name = "FLOW", requires = "out")]
    pub trace: Option<String>,
    /// Number of runs in virtual time at the same time; without it one per core. It does not change the result
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
}

/// Parses a duration, or a plain number of seconds.
///
/// The option accepted a plain number before it accepted units.
fn duration_or_seconds(text: &str) -> Result<Duration, String> {
    text.parse().map(|s: NonZeroU64| Duration::from_secs(s.get())).or_else(|_| duration(text))
}

/// Parses `17` or `1..40`; the range includes both ends.
fn seeds(text: &str) -> Result<std::ops::RangeInclusive<u64>, String> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    match (first.trim().parse(), last.trim_start_matches('=').trim().parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err("expected one seed such as 17, or the first and the last seed of a range such as 1..40".into()),
    }
}

/// Arguments of `weft-lab reproduce`.
#[derive(Args)]
pub struct ReproduceOptions {
    /// Rows of docs/reproduction.md (A1, C3 …), each a claim of a paper, or `all`
    #[arg(required = true, value_name = "ID")]
    pub rows: Vec<String>,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Directory for reproduction.md and its pictures (SVG); rows that do not run stay in an existing file. Without it
    /// no file is written
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Number of runs of each case of a row, each with a seed of its own; without it 5, or 2 with --quick
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
    /// Directory for time series (CSV) and pictures (SVG); without it no file is written
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Run only this variant of the scenario; can be given several times
    #[arg(long, value_name = "NAME")]
    pub variant: Vec<String>,
    /// Number of runs of each variant, at least 1; without it `repeats` of the scenario, or 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// Directory with the recordings of link capacity that the scenario names, in Mahimahi format. A recording that
    /// is not there is generated from the scenario's seed. Without --traces all are generated
    #[arg(long, value_name = "DIR")]
    pub traces: Option<PathBuf>,
    /// Print no progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}
