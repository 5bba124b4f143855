//! One TCP flow, and small packets, along a row of nodes.
//!
//! A relay forwards datagrams that it cannot decrypt. A node in transit decrypts each packet, routes it in the
//! program and encrypts it again. In a third mode the node's kernel routes the packet from the TUN device and back
//! into it. A node between two tunnels of wireguard-go works in this third mode.

mod chain;
mod report;
mod weft;

pub use report::relay_bench_table;

use super::{BenchMachine, Competitor, TunnelBenchOptions, Turn, flow, measured, prepare, run_flow, take_turns};
use crate::LabError;
use crate::lane::LabLane;
use crate::variants::wireguard_go_chain;
use crate::world::LabPair;
use chain::RelayChain;
use serde::Serialize;
use std::time::Duration;
use weft_scenario::{App, Flow};

/// Numbers of nodes between the ends, one for each row of the result.
const BETWEEN: [usize; 4] = [0, 1, 2, 3];
const PROGRAMS: [(&str, Middle); 4] = [
    ("weft relays", Middle::Relays),
    ("weft transit", Middle::Transit),
    ("weft, kernel", Middle::Kernel),
    ("wireguard-go", Middle::WireguardGo),
];

/// Size of a small packet, in IP bytes.
const SMALL_BYTES: u32 = 64;
/// Bytes of the headers of IPv4 and UDP.
const UDP_HEADERS: u32 = 28;
/// Time between two small packets: 250,000 a second.
///
/// Two processors cannot forward this number, so the nodes are always busy.
const SMALL_INTERVAL: Duration = Duration::from_micros(4);

/// Work of the nodes between the first and the last node: how they forward a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Middle {
    /// They relay datagrams of weft that they cannot decrypt.
    Relays,
    /// They are nodes in transit: weft decrypts each packet, routes it itself and encrypts it again.
    Transit,
    /// They decrypt each packet, and their kernel routes it from weft's TUN device back into it.
    Kernel,
    /// They run wireguard-go in place of weft, and their kernel routes each packet.
    WireguardGo,
}

/// The results of one program in a chain with a certain number of nodes between the first and the last node.
#[derive(Clone, Debug, Serialize)]
pub struct Over {
    /// Number of nodes between the ends: relays, or nodes that decrypt and encrypt.
    pub between: usize,
    /// The measurements of the program with this number of nodes between the ends.
    #[serde(flatten)]
    pub series: Competitor,
}

/// The result of the relay bench: each program's goodput, packet rate and processor time, with 0 to 3 nodes between
/// the ends of a flow.
#[derive(Clone, Debug, Serialize)]
pub struct RelayBench {
    /// The machine on which it was measured.
    pub machine: BenchMachine,
    /// Length of a flow, in seconds.
    pub duration_s: f64,
    /// Length of the warm-up of a flow, in seconds.
    pub warmup_s: f64,
    /// The results of each program with each number of nodes between the ends.
    pub rows: Vec<Over>,
}

/// Measures all programs with each number of nodes. See [`tunnel_bench`](super::tunnel_bench).
///
/// The bench has no conditions: trains of datagrams cross as one packet. The function calls `report_progress` with a
/// description of each next step.
///
/// # Errors
/// Returns an error if [`tunnel_bench`](super::tunnel_bench) would.
pub fn relay_bench(
    options: &TunnelBenchOptions,
    mut report_progress: impl FnMut(&str),
) -> Result<RelayBench, LabError> {
    let machine = prepare()?;
    let takes_part = |(name, _): &(&str, Middle)| options.only.as_deref().is_none_or(|only| only == *name);
    let has_middle = |middle: Middle| matches!(middle, Middle::Transit | Middle::Kernel);
    let competitors: Vec<(&str, Middle, usize)> = PROGRAMS
        .into_iter()
        .filter(takes_part)
        .flat_map(|(name, middle)| BETWEEN.map(|between| (name, middle, between)))
        .filter(|(_, middle, between)| *between > 0 || !has_middle(*middle))
        .collect();
    let names: Vec<&str> = competitors.iter().map(|(name, ..)| *name).collect();
    let turn =
        |competitor: usize| competitors.get(competitor).map(|(_, middle, between)| turn(*middle, *between, options));
    let report_progress = |number: u32, competitor: usize| {
        let (name, _, between) = competitors[competitor];
        report_progress(&format!(
            "measuring variant `{name}` (repetition {} of {}) with {between} nodes between the two ends of the flow",
            number + 1,
            options.turns
        ));
    };
    let series = take_turns(&names, options.turns, report_progress, turn)?;
    let rows = competitors.iter().zip(series).map(|((_, _, between), series)| Over { between: *between, series });
    let (duration_s, warmup_s) = (options.duration.as_secs_f64(), options.warmup.as_secs_f64());
    Ok(RelayBench { machine, duration_s, warmup_s, rows: rows.collect() })
}

fn turn(middle: Middle, between: usize, options: &TunnelBenchOptions) -> Result<Turn, LabError> {
    let chain = RelayChain::build(between)?;
    let lane = match middle {
        Middle::WireguardGo => wireguard_go_chain(&chain.world, &chain.nodes(), &chain.endpoints())?,
        _ => weft::open(&chain, &options.weft_binary, middle)?,
    };
    let mut turn = measured(&chain.world, &lane, options, true)?;
    let (packets_per_s, cpu) = small_packets(&chain.world, &lane, options)?;
    turn.small_packets_per_s = Some(packets_per_s);
    turn.cpu_us_per_small_packet_each = cpu;
    Ok(turn)
}

/// Sends 64-byte packets at a constant rate that exceeds the capacity of the nodes.
///
/// Returns the number that arrived in a second, and each program's processor time per arrived packet, in
/// microseconds.
fn small_packets(world: &LabPair, lane: &LabLane, options: &TunnelBenchOptions) -> Result<(f64, Vec<f64>), LabError> {
    let flow = Flow { interval: SMALL_INTERVAL, packet_bytes: SMALL_BYTES, ..flow(App::Cbr, options.duration) };
    let (result, cpu) = run_flow(world, lane, options, &flow)?;
    let payload_bits = f64::from(SMALL_BYTES - UDP_HEADERS) * 8.0;
    let arrived = result.goodput_bps.unwrap_or(0.0) / payload_bits;
    let all = arrived * (options.duration - options.warmup).as_secs_f64();
    Ok((arrived, cpu.iter().map(|cpu| cpu.as_secs_f64() * 1e6 / all).collect()))
}
