//! The whole CHART system (paper 001 §V): rows B3, B4 and B6 as the paper words them, over weft's overlay.

use crate::check::{Bound, Check};
use crate::claim::{claim, run as prove};
use crate::play::{for_each, variant};
use crate::topic::{Context, Part};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use weft_scenario::{NetworkScenario, RunResult, Traces};
use weft_world::Observers;
use weft_world::network::run_all;

/// The part `chart`.
pub const CHART: Part = Part { name: "chart", run };

/// The scenario.
const SCENARIO: &str = include_str!("../../../../../scenarios/chart.toml");
/// Payload of a full segment, in bytes. It converts a window in segments to bytes.
const MSS_BYTES: f64 = 1_448.0;
/// Goodput with three encapsulations that the paper states, in Mbit/s.
const CEILING_MBPS: f64 = 72.0;
/// Rate of every link, in Mbit/s.
const RAW_MBPS: f64 = 100.0;
/// The window of paper 001, Figure 6, in segments. The scenario's larger window is that of Figure 7.
const SMALL_WINDOW: u32 = 45;
/// Length of the packets of the flow `known` before any encapsulation, in bytes.
const KNOWN_BYTES: u32 = 1_000;

/// A point of the grid of parameters, with the results of all variants for these parameters.
struct Point {
    window_segments: u32,
    delay_ms: f64,
    loss: f64,
    result: RunResult,
}

/// Runs and judges the part.
fn run(context: &Context) -> Vec<Check> {
    let mut checks = prove(
        context,
        &[
            claim(
                "networks with clients, grids and found routes are read",
                "weft-scenario",
                &["--test", "overlay"],
                "",
            ),
            claim("each encapsulation is counted on its link", "weft-world", &["--test", "networks"], "chart::"),
        ],
    );
    checks.extend(simulated(context));
    if context.full {
        match &context.weft {
            None => checks.push(Check::skipped("chart, kernel", Bound::AtLeast(10.0), "× legacy", "no --weft PATH")),
            Some(weft) => match on_kernel(weft) {
                Ok(points) => checks.extend(judged("kernel", &points)),
                Err(why) => checks.push(Check::skipped("chart, kernel", Bound::AtLeast(10.0), "× legacy", why)),
            },
        }
    }
    checks
}

/// Returns the cells of the scenario with their parameters. A short run takes the corners of the grid.
fn cells(is_full: bool) -> Vec<(u32, f64, f64, NetworkScenario)> {
    let Ok(network) = NetworkScenario::parse(SCENARIO, "chart.toml") else { return Vec::new() };
    let of = |cell: NetworkScenario| {
        let (flow, wan) = (cell.flows.first()?, cell.link("wan-a")?);
        Some((flow.tcp.window_segments, wan.up.delay.as_secs_f64() * 1e3, wan.up.loss, cell))
    };
    let is_wanted = |(_, delay_ms, loss, _): &(u32, f64, f64, NetworkScenario)| {
        let is_clean = *delay_ms == 0.0 && *loss == 0.0;
        is_full || is_clean || ([10.0, 50.0].contains(delay_ms) && [0.01, 0.05].contains(loss))
    };
    network.cells().into_iter().filter_map(of).filter(is_wanted).collect()
}

fn simulated(context: &Context) -> Vec<Check> {
    let cells = cells(context.full);
    let results = for_each(context, "chart", &cells, |(window_segments, delay_ms, loss, cell)| {
        let looks: Option<(&Observers, &Path)> = None;
        let (result, _) = run_all(cell, &Traces::new(), &[], &[cell.seed], 1, looks, &|_, _| ())?;
        Ok::<_, String>(Point { window_segments: *window_segments, delay_ms: *delay_ms, loss: *loss, result })
    });
    match results.into_iter().collect::<Result<Vec<_>, _>>() {
        Ok(points) => judged("simulator", &points),
        Err(why) => vec![Check::skipped("chart", Bound::AtLeast(10.0), "× legacy", why)],
    }
}

/// Runs the whole grid on this machine's kernel with the program's own lab.
fn on_kernel(weft: &Path) -> Result<Vec<Point>, String> {
    let file = std::env::temp_dir().join(format!("weft-verify-chart-{}.toml", std::process::id()));
    std::fs::write(&file, SCENARIO).map_err(|why| format!("{}: {why}", file.display()))?;
    let mut lab = Command::new(weft);
    lab.args(["lab", "run"]).arg(&file).args(["--json", "--quiet"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = lab.output().map_err(|why| format!("{}: {why}", weft.display()));
    let _ = std::fs::remove_file(&file);
    let results: Vec<RunResult> =
        serde_json::from_slice(&output?.stdout).map_err(|why| format!("weft lab run: {why}"))?;
    let point = |((window_segments, delay_ms, loss, _), result)| Point { window_segments, delay_ms, loss, result };
    Ok(cells(true).into_iter().zip(results).map(point).collect())
}

impl Point {
    fn mbps(&self, name: &str) -> Option<f64> {
        variant(&self.result, name).map(|variant| variant.goodput_bps / 1e6)
    }

    fn is_small(&self) -> bool {
        self.window_segments == SMALL_WINDOW
    }

    /// Returns the goodput that the window and the encapsulations allow, in Mbit/s.
    fn ceiling_mbps(&self) -> f64 {
        let window_bits = f64::from(self.window_segments) * MSS_BYTES * 8.0;
        (window_bits / (2.0 * self.delay_ms).max(f64::MIN_POSITIVE) / 1e3).min(CEILING_MBPS)
    }

    /// Returns the goodput of a variant as a part of the ceiling.
    fn of_ceiling(&self, name: &str) -> Option<f64> {
        Some(self.mbps(name)? / self.ceiling_mbps())
    }

    /// Returns the bytes that the encapsulations on a link add to a packet of the flow `known`.
    ///
    /// The packet's length on the link is the most frequent captured length near [`KNOWN_BYTES`].
    fn added_bytes(&self, name: &str, link: &str) -> Option<u32> {
        let links = &variant(&self.result, name)?.links;
        let link = links.iter().find(|of| of.name == link && of.direction == "up")?;
        let near = link.packet_sizes.iter().map(|size| size.bytes).find(|bytes| bytes.abs_diff(KNOWN_BYTES) < 200)?;
        Some(near - KNOWN_BYTES)
    }
}

fn least(points: &[Point], is_in: impl Fn(&Point) -> bool, of: impl Fn(&Point) -> Option<f64>) -> Option<f64> {
    points.iter().filter(|point| is_in(point)).map(|point| of(point).unwrap_or(0.0)).reduce(f64::min)
}

fn judged(world: &str, points: &[Point]) -> Vec<Check> {
    let mut checks = Vec::new();
    for name in ["tcp-er", "proxied"] {
        let mut part = |what: &str, bound, is_in: &dyn Fn(&Point) -> bool| {
            let title = format!("{world}, {name}, {what}");
            let figure = least(points, is_in, |point| point.of_ceiling(name));
            checks.push(Check::new(title, figure, Bound::AtLeast(bound), "of the ceiling"));
        };
        part("B3: 64 KB, loss up to 1 %", 0.85, &|point| point.is_small() && point.loss <= 0.01);
        part("B3: 64 KB, loss 5 %", 0.7, &|point| point.is_small() && point.loss >= 0.05);
        part("B4: 1 MB, loss 5 %", 0.7, &|point| !point.is_small() && point.loss >= 0.05);
        let is_impaired = |point: &Point| point.delay_ms >= 50.0 && point.loss >= 0.01;
        let times = |point: &Point| Some(point.mbps(name)? / point.mbps("legacy")?.max(1e-3));
        // Without proxies, a window of 64 KB gives less than ten times plain TCP's goodput at this window.
        let windows: &[bool] = if name == "proxied" { &[true, false] } else { &[false] };
        for is_small in windows {
            let title = if *is_small { "64 KB" } else { "1 MB" };
            let figure = least(points, |point| is_impaired(point) && point.is_small() == *is_small, times);
            let title = format!("{world}, {name}, {title}, from 50 ms and 1 % on");
            checks.push(Check::new(title, figure, Bound::AtLeast(10.0), "× legacy"));
        }
    }
    checks.extend(points.iter().find(|point| !point.is_small() && point.loss == 0.0).map(|point| layers(world, point)));
    checks
}

/// Checks the goodput with three encapsulations, and reports the bytes that each of them adds.
fn layers(world: &str, point: &Point) -> Check {
    let name = "proxied";
    let added = ["lan-src", "wan-a", "lan-dst"].map(|link| point.added_bytes(name, link).unwrap_or(0));
    let [first, weft, last] = added;
    let title = format!("{world}, B6: three encapsulations of {first}, {weft} and {last} B a packet, counted");
    let share = point.mbps(name).map(|mbps| mbps / RAW_MBPS).filter(|_| added.iter().all(|bytes| *bytes > 0));
    Check::new(title, share, Bound::AtLeast(0.72), "of the raw link").with(json!({ "bytes": added }))
}
