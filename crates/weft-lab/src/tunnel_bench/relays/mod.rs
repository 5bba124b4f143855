//! One TCP flow along a row of nodes: weft over relays, and wireguard-go from node to node.
//!
//! A relay forwards datagrams that it cannot decrypt. A node between two tunnels of wireguard-go decrypts
//! each packet, its kernel routes the packet, and the next tunnel encrypts it again. This shows the cost of a
//! chain of tunnels without relays.

mod chain;
mod report;
mod weft;

pub use report::relay_bench_table;

use super::{BenchMachine, Competitor, TunnelBenchOptions, Turn, measured, prepare, take_turns};
use crate::LabError;
use crate::variants::wireguard_go_chain;
use chain::RelayChain;
use serde::Serialize;
use weft_scenario::VariantKind;

/// Numbers of nodes between the ends, one for each row of the result.
const BETWEEN: [usize; 4] = [0, 1, 2, 3];
const PROGRAMS: [(&str, VariantKind); 2] = [("weft", VariantKind::Weft), ("wireguard-go", VariantKind::WireguardGo)];

/// One program over a number of nodes.
#[derive(Clone, Debug, Serialize)]
pub struct Over {
    /// Number of nodes between the ends: relays, or nodes that decrypt and encrypt.
    pub between: usize,
    /// The measurements of the program over these nodes.
    #[serde(flatten)]
    pub series: Competitor,
}

/// The result of the bench.
#[derive(Clone, Debug, Serialize)]
pub struct RelayBench {
    /// The machine on which it was measured.
    pub machine: BenchMachine,
    /// Length of a flow, in seconds.
    pub duration_s: f64,
    /// Length of the warm-up of a flow, in seconds.
    pub warmup_s: f64,
    /// Each program over each number of nodes.
    pub rows: Vec<Over>,
}

/// Measures both programs over each number of nodes. See [`tunnel_bench`](super::tunnel_bench).
///
/// The bench ignores conditions: trains of datagrams cross in one piece. The function calls `report_progress` with a
/// description of each next step.
///
/// # Errors
/// Returns an error if [`tunnel_bench`](super::tunnel_bench) would.
pub fn relay_bench(
    options: &TunnelBenchOptions,
    mut report_progress: impl FnMut(&str),
) -> Result<RelayBench, LabError> {
    let machine = prepare()?;
    let takes_part = |(name, _): &(&str, VariantKind)| options.only.as_deref().is_none_or(|only| only == *name);
    let competitors: Vec<(&str, VariantKind, usize)> = PROGRAMS
        .into_iter()
        .filter(takes_part)
        .flat_map(|(name, kind)| BETWEEN.map(|between| (name, kind, between)))
        .collect();
    let names: Vec<&str> = competitors.iter().map(|(name, ..)| *name).collect();
    let turn = |competitor: usize| competitors.get(competitor).map(|(_, kind, between)| turn(*kind, *between, options));
    let report_progress = |number: u32, competitor: usize| {
        let (name, _, between) = competitors[competitor];
        report_progress(&format!("turn {} of {}: {name} over {between}", number + 1, options.turns));
    };
    let series = take_turns(&names, options.turns, report_progress, turn)?;
    let rows = competitors.iter().zip(series).map(|((_, _, between), series)| Over { between: *between, series });
    let (duration_s, warmup_s) = (options.duration.as_secs_f64(), options.warmup.as_secs_f64());
    Ok(RelayBench { machine, duration_s, warmup_s, rows: rows.collect() })
}

fn turn(kind: VariantKind, between: usize, options: &TunnelBenchOptions) -> Result<Turn, LabError> {
    let chain = RelayChain::build(between)?;
    let lane = match kind {
        VariantKind::WireguardGo => wireguard_go_chain(&chain.world, &chain.nodes(), &chain.endpoints())?,
        _ => weft::open(&chain, &options.weft_binary)?,
    };
    measured(&chain.world, &lane, options, true)
}
