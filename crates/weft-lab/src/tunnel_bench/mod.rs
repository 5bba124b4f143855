//! One TCP flow through a tunnel over a veth pair: weft, wireguard-go, and no tunnel.
//!
//! The competitors run alternately, so that a busy machine affects all of them. Ratios compare figures of the same
//! turn. Each turn has its own namespaces. In conditions with loss, the bench turns off the kernel's UDP segmentation
//! on the pair. Otherwise one drop would remove a whole train of datagrams.

mod condition;
mod machine;
mod relays;
mod report;
mod site;

pub use condition::Condition;
pub use machine::BenchMachine;
pub use relays::{Over, RelayBench, relay_bench, relay_bench_table};
pub use report::tunnel_bench_table;

use crate::apps::probe::ProbeArrivals;
use crate::apps::{self, FlowEndpoints, FlowTimes};
use crate::lane::LabLane;
use crate::world::LabPair;
use crate::{LabError, interrupt, net, scratch};
use machine::cpu_time;
use serde::Serialize;
use site::BenchSite;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use weft_scenario::{App, Flow, FlowResult, VariantKind};

/// Time between the start of the applications and the beginning of the flow.
const LEAD: Duration = Duration::from_secs(1);
const PORT: u16 = 5_201;
/// Interval between two pings of the idle tunnel.
const PING_INTERVAL: Duration = Duration::from_millis(10);
/// Time for which the round-trip time of the idle tunnel is measured.
const PING_LENGTH: Duration = Duration::from_secs(3);
/// The competitors: the name of each, and the kind of variant that the lab runs for it.
const COMPETITORS: [(&str, VariantKind); 3] =
    [("no tunnel", VariantKind::EachLink), ("weft", VariantKind::Weft), ("wireguard-go", VariantKind::WireguardGo)];

/// The options of the tunnel bench and of the relay bench.
#[derive(Clone, Debug)]
pub struct TunnelBenchOptions {
    /// Path of the `weft` program.
    pub weft_binary: PathBuf,
    /// Number of turns: how often each competitor runs under each condition.
    pub turns: u32,
    /// Length of each flow, with its warm-up.
    pub duration: Duration,
    /// Length of the warm-up of a flow. The results exclude it.
    pub warmup: Duration,
    /// Name of the only competitor to run. `None` selects all.
    pub only: Option<String>,
    /// Number of conditions to run, from the beginning of [`Condition::ALL`].
    pub conditions: usize,
}

/// The measurements of one run of one competitor under one condition.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Turn {
    /// Goodput of the TCP flow after its warm-up, in Gbit/s.
    pub gbit_s: f64,
    /// Processor time of all tunnel programs per 10⁹ bytes of payload, in seconds.
    ///
    /// `None` without a tunnel.
    pub cpu_s_per_gb: Option<f64>,
    /// Processor time of each tunnel program per 10⁹ bytes of payload, in seconds.
    ///
    /// The programs are in the order from the first node to the last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpu_s_per_gb_each: Vec<f64>,
    /// Median round-trip time of the idle tunnel, in ms. `None` if it was not measured.
    pub idle_rtt_ms_p50: Option<f64>,
    /// 95th percentile of the idle tunnel's round-trip time, in ms. `None` if it was not measured.
    pub idle_rtt_ms_p95: Option<f64>,
    /// Number of packets of 64 bytes that arrived per second. `None` if it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small_packets_per_s: Option<f64>,
    /// Processor time of each tunnel program for a packet of 64 bytes that arrived, in microseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpu_us_per_small_packet_each: Vec<f64>,
    /// Fraction of outer UDP datagrams that were dropped on arrival.
    ///
    /// `None` if the condition has no loss.
    pub loss_seen: Option<f64>,
    /// Number of outer UDP packets that arrived at the drop rule as unsegmented trains.
    ///
    /// If it is above zero, single drops removed several datagrams.
    pub uncut: u64,
}

/// The measurements of one competitor, such as weft, under one condition.
#[derive(Clone, Debug, Serialize)]
pub struct Competitor {
    /// The competitor's name, such as `weft`.
    pub name: String,
    /// The measurements of the competitor's runs (turns), in order. `None` for a run that failed.
    pub turns: Vec<Option<Turn>>,
    /// The reason for which the competitor's last failed turn failed. `None` if none failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The measurements of all competitors under one condition.
#[derive(Clone, Debug, Serialize)]
pub struct BenchRow {
    /// The condition of the veth pair.
    #[serde(flatten)]
    pub condition: Condition,
    /// The measurements of each competitor under this condition.
    pub series: Vec<Competitor>,
    /// Goodput of weft divided by that of wireguard-go, for each turn that both completed.
    pub weft_over_wireguard_go: Vec<f64>,
}

/// The result of the tunnel bench.
#[derive(Clone, Debug, Serialize)]
pub struct TunnelBench {
    /// The machine on which it was measured.
    pub machine: BenchMachine,
    /// Length of a flow, in seconds.
    pub duration_s: f64,
    /// Length of the warm-up of a flow, in seconds.
    pub warmup_s: f64,
    /// One row for each condition that was measured.
    pub rows: Vec<BenchRow>,
}

/// Measures all competitors under all conditions, in a bounded time.
///
/// No process, namespace or file remains afterwards.
///
/// The function calls `report_progress` with a description of each next step. If this process is not root, call it
/// before the process starts a thread (see [`crate::net::acquire_privilege`]).
///
/// # Errors
/// Returns an error if the lab cannot be built, if a program that all competitors need is missing, or if the
/// user interrupts. A competitor that fails does not fail the bench: its [`Competitor::failure`] contains the reason.
pub fn tunnel_bench(
    options: &TunnelBenchOptions,
    mut report_progress: impl FnMut(&str),
) -> Result<TunnelBench, LabError> {
    let machine = prepare()?;
    let conditions = Condition::ALL.iter().take(options.conditions);
    let rows = conditions.map(|condition| row(*condition, options, &mut report_progress));
    let rows = rows.collect::<Result<_, _>>()?;
    let seconds = |d: Duration| d.as_secs_f64();
    Ok(TunnelBench { machine, duration_s: seconds(options.duration), warmup_s: seconds(options.warmup), rows })
}

/// Prepares the process for a bench: checks its privilege and programs. Returns the description of the machine.
fn prepare() -> Result<BenchMachine, LabError> {
    net::acquire_privilege()?;
    interrupt::watch();
    scratch::remove_stale();
    for (program, package) in
        [("iperf3", "iperf3"), ("ping", "iputils-ping"), ("ethtool", "ethtool"), ("nft", "nftables")]
    {
        apps::need(program, package)?;
    }
    Ok(BenchMachine::read())
}

fn row(
    condition: Condition,
    options: &TunnelBenchOptions,
    report_progress: &mut impl FnMut(&str),
) -> Result<BenchRow, LabError> {
    let takes_part = |name: &str, kind: VariantKind| {
        options.only.as_deref().is_none_or(|only| only == name)
            && (kind != VariantKind::EachLink || condition.segmentation)
    };
    let competitors: Vec<(&str, VariantKind)> =
        COMPETITORS.into_iter().filter(|&(name, kind)| takes_part(name, kind)).collect();
    let names: Vec<&str> = competitors.iter().map(|(name, _)| *name).collect();
    let report_progress = |number: u32, competitor: usize| {
        report_progress(&format!(
            "measuring variant `{}` (repetition {} of {}); condition of the link: {condition}",
            names[competitor],
            number + 1,
            options.turns
        ));
    };
    let turn = |competitor: usize| competitors.get(competitor).map(|(_, kind)| turn(*kind, condition, options));
    let series = take_turns(&names, options.turns, report_progress, turn)?;
    Ok(BenchRow { condition, weft_over_wireguard_go: ratios(&series), series })
}

/// Runs the competitors alternately, `turns` times each, and returns the measurements of each competitor.
///
/// `turn` runs the competitor at a position in `names` once. Before each call of `turn`, the function calls
/// `report_progress` with the number of the turn and this position, both from 0.
fn take_turns(
    names: &[&str],
    turns: u32,
    mut report_progress: impl FnMut(u32, usize),
    turn: impl Fn(usize) -> Option<Result<Turn, LabError>>,
) -> Result<Vec<Competitor>, LabError> {
    let new = |name: &&str| Competitor { name: (*name).to_owned(), turns: Vec::new(), failure: None };
    let mut series: Vec<Competitor> = names.iter().map(new).collect();
    for number in 0..turns {
        let mut order: Vec<(usize, &mut Competitor)> = series.iter_mut().enumerate().collect();
        // The order alternates, so a slow change of the machine's speed favours no competitor.
        if number % 2 == 1 {
            order.reverse();
        }
        for (place, series) in order {
            report_progress(number, place);
            match turn(place) {
                Some(Ok(turn)) => series.turns.push(Some(turn)),
                Some(Err(LabError::Interrupted)) => return Err(LabError::Interrupted),
                Some(Err(error)) => {
                    series.turns.push(None);
                    series.failure = Some(error.to_string());
                }
                None => {}
            }
        }
    }
    Ok(series)
}

/// Returns the goodput of weft divided by that of wireguard-go, for each turn that both completed.
fn ratios(series: &[Competitor]) -> Vec<f64> {
    let turns = |name: &str| series.iter().find(|s| s.name == name).map_or(&[][..], |s| &s.turns);
    let pairs = turns("weft").iter().zip(turns("wireguard-go"));
    pairs.filter_map(|(weft, other)| Some(weft.as_ref()?.gbit_s / other.as_ref()?.gbit_s)).collect()
}

fn turn(kind: VariantKind, condition: Condition, options: &TunnelBenchOptions) -> Result<Turn, LabError> {
    let site = BenchSite::build(&options.weft_binary)?;
    site.apply(condition)?;
    let lane = site.open(kind)?;
    let mut turn = measured(site.world(), &lane, options, condition.segmentation)?;
    if condition.loss_permille.is_some() {
        let counted = site.datagrams()?;
        turn.loss_seen = (counted.seen > 0).then(|| counted.dropped as f64 / counted.seen as f64);
        turn.uncut = counted.uncut;
    }
    Ok(turn)
}

/// Measures the idle tunnel's round-trip time if `pings` is true, then a flow.
fn measured(world: &LabPair, lane: &LabLane, options: &TunnelBenchOptions, pings: bool) -> Result<Turn, LabError> {
    let mut turn = Turn::default();
    if pings {
        let ping = flow(App::Ping, PING_LENGTH);
        let schedule = FlowTimes { epoch: Instant::now() + LEAD, warmup: Duration::ZERO };
        let place = FlowEndpoints { world, lane, flow: &ping, port: PORT, schedule };
        let result = apps::run(&place, &ProbeArrivals::default())?.result;
        (turn.idle_rtt_ms_p50, turn.idle_rtt_ms_p95) = (result.rtt_ms_p50, result.rtt_ms_p95);
    }
    let (result, cpu) = run_flow(world, lane, options, &flow(App::Iperf3, options.duration))?;
    let goodput_bps = result.goodput_bps.unwrap_or(0.0);
    let gigabytes = goodput_bps / 8.0 * (options.duration - options.warmup).as_secs_f64() / 1e9;
    turn.gbit_s = goodput_bps / 1e9;
    turn.cpu_s_per_gb_each = cpu.iter().map(|cpu| cpu.as_secs_f64() / gigabytes).collect();
    turn.cpu_s_per_gb = (!cpu.is_empty()).then(|| turn.cpu_s_per_gb_each.iter().sum());
    Ok(turn)
}

/// Runs one flow of the bench's length.
///
/// Returns its result, and each tunnel program's processor time after the warm-up.
fn run_flow(
    world: &LabPair,
    lane: &LabLane,
    options: &TunnelBenchOptions,
    flow: &Flow,
) -> Result<(FlowResult, Vec<Duration>), LabError> {
    let schedule = FlowTimes { epoch: Instant::now() + LEAD, warmup: options.warmup };
    let place = FlowEndpoints { world, lane, flow, port: PORT, schedule };
    let cpu_at = |offset: Duration| -> Result<Vec<Duration>, LabError> {
        interrupt::sleep_until(schedule.epoch + offset)?;
        Ok(lane.daemons.iter().map(|daemon| cpu_time(daemon.id())).collect::<Result<_, _>>()?)
    };
    thread::scope(|scope| {
        let client = scope.spawn(|| apps::run(&place, &ProbeArrivals::default()));
        let cpu = cpu_at(options.warmup).and_then(|before| {
            let after = cpu_at(options.duration)?;
            Ok(after.iter().zip(before).map(|(after, before)| after.saturating_sub(before)).collect())
        });
        let report = client.join().unwrap_or(Err(LabError::Interrupted))?;
        Ok((report.result, cpu?))
    })
}

fn flow(app: App, length: Duration) -> Flow {
    Flow { interval: PING_INTERVAL, ..Flow::plain(app.word(), app, length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_failed_makes_no_pair() {
        let turn = |gbit_s| Some(Turn { gbit_s, ..Turn::default() });
        let series =
            |name: &str, turns: &[Option<Turn>]| Competitor { name: name.into(), turns: turns.to_vec(), failure: None };
        let all =
            [series("weft", &[turn(4.0), None, turn(3.0)]), series("wireguard-go", &[turn(2.0), turn(2.0), turn(1.0)])];
        assert_eq!(ratios(&all), [2.0, 3.0]);
        assert!(ratios(&all[..1]).is_empty());
    }
}
