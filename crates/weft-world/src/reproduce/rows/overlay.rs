//! Rows B3 to B5: TCP-ER and Reno over the overlay, at different delays, losses and windows.

use super::super::Estimate;
use super::super::case::{CHART, OVERLAY, case, whole_case};
use super::super::checks::Checks;
use super::super::laboratory::{Case, Laboratory, Outcomes};
use super::super::row::{Measured, Row, RowFinding, Surface, Surfaces};
use super::super::sweep::goodput_mbps;
use crate::network::NetworkRun;
use weft_scenario::{CongestionControl, TcpRecovery};
use weft_units::{Duration, Rate};

pub(super) const ROWS: [Row; 3] = [
    Row {
        id: "B3",
        figure: "Paper 001, Figure 6",
        claim: "with a window of 64 KB TCP-ER has far more than legacy TCP over every delay and loss",
        accept: "TCP-ER ≥ 0.85 of min(72, 524/RTT in ms) Mbit/s up to 1 % loss, ≥ 0.7 of it at 5 %; legacy within a factor of two of PFTK: 0.48 Mbit/s at 1 % and 100 ms, 0.18 at 5 %",
        setup: WHOLE_SETUP,
        examine: small_window,
    },
    Row {
        id: "B4",
        figure: "Paper 001, Figure 7",
        claim: "with a window of 1 MB, too; the ceiling is 72 Mbit/s up to 50 ms, 55.9 at 75 ms and 41.9 at 100 ms",
        accept: "TCP-ER ≥ 0.7 of the ceiling at 5 % loss",
        setup: WHOLE_SETUP,
        examine: large_window,
    },
    Row {
        id: "B5",
        figure: "Paper 001, abstract",
        claim: "ten times the goodput where links are impaired",
        accept: "TCP-ER ≥ 10 × legacy with the window of 1 MB wherever the delay is 50 ms or more and the loss 2 % or more",
        setup: SETUP,
        examine: ten_times,
    },
];

const SETUP: &str = "one connection over a path of 74.6 Mbit/s, which leaves the paper's 72 to TCP's payload; loss both ways, so that acknowledgements are lost too; legacy is Reno with SACK";
const WHOLE_SETUP: &str = "judged: `scenarios/chart.toml` over six overlay nodes that find two disjoint paths of 100 Mbit/s, three encapsulations, 16 s; TCP-ER from host to host, each packet over both paths; legacy over the static route. The surface beside it is one connection over one path of 74.6 Mbit/s, which leaves the paper's 72 to TCP's payload. Loss both ways, so that acknowledgements are lost too; legacy is Reno with SACK";
/// One-way delays of the links of the whole system (paper 001, §V), in ms.
const WHOLE_DELAYS_MS: [u64; 4] = [10, 50, 75, 100];
/// Fractions of packets that the links of the whole system (paper 001, §V) lose in each direction.
const WHOLE_LOSSES: [f64; 3] = [0.0, 0.01, 0.05];
/// Variants of the whole system (paper 001, §V), with their names in results.
const WHOLE_VARIANTS: [(&str, &str); 2] = [("legacy", "legacy"), ("tcp-er", "TCP-ER")];
const DELAYS_MS: [u64; 5] = [10, 25, 50, 75, 100];
const LOSSES: [f64; 5] = [0.0, 0.005, 0.01, 0.02, 0.05];
const CEILING_MBPS: f64 = 72.0;
const MSS_BYTES: f64 = 1_448.0;
/// The small window of 64 KB in segments of [`MSS_BYTES`].
const SMALL: u32 = 45;
/// The large window of 1 MB in segments of [`MSS_BYTES`].
const LARGE: u32 = 724;
/// Explicit rate of TCP-ER in IP bytes, slightly below the link's rate.
const EXPLICIT_RATE: Rate = Rate::from_bps(73_500_000);

/// Returns the maximum goodput in Mbit/s that a window allows over a path of this one-way delay.
///
/// `window` is in segments. The result is at most [`CEILING_MBPS`].
fn ceiling_mbps(window: u32, delay_ms: u64) -> f64 {
    (f64::from(window) * MSS_BYTES * 8.0 / (2.0 * delay_ms as f64) / 1e3).min(CEILING_MBPS)
}

fn grid() -> impl Iterator<Item = (u64, f64)> {
    LOSSES.into_iter().flat_map(|loss| DELAYS_MS.map(|delay_ms| (delay_ms, loss)))
}

fn cell(window: u32, delay_ms: u64, loss: f64, is_explicit: bool) -> Result<Case, String> {
    let mut network = OVERLAY.read()?;
    for link in network.links_mut("path") {
        for direction in link.directions_mut() {
            (direction.delay, direction.loss) = (Duration::from_millis(delay_ms), loss);
        }
    }
    for flow in &mut network.flows {
        flow.tcp.window_segments = window;
        if is_explicit {
            flow.tcp.congestion = CongestionControl::ExplicitRate;
            flow.tcp.explicit_rate = EXPLICIT_RATE;
            flow.tcp.recovery = TcpRecovery::Rack;
        }
    }
    let kind = if is_explicit { "explicit" } else { "legacy" };
    case(&network, &format!("{kind}, {window} segments, {delay_ms} ms, {loss}"), "plain")
}

/// Returns the goodputs of legacy TCP and of TCP-ER in Mbit/s, one for each pair of delay and loss.
///
/// `window` is in segments. The function also adds the goodputs to `measured`.
fn surfaces(lab: &mut Laboratory, window: u32, measured: &mut Measured) -> Result<[Vec<Estimate>; 2], String> {
    let mut surface = |is_explicit| {
        let cases =
            grid().map(|(delay, loss)| cell(window, delay, loss, is_explicit)).collect::<Result<Vec<_>, _>>()?;
        Ok::<Vec<_>, String>(lab.measure(&cases)?.iter().map(goodput_mbps).collect())
    };
    let both = [surface(false)?, surface(true)?];
    for (name, found) in ["legacy", "TCP-ER"].iter().zip(&both) {
        for ((delay_ms, loss), found) in grid().zip(found) {
            measured.add(format!("{name}, loss {} %, Mbit/s", loss * 100.0), format!("{delay_ms} ms"), *found);
        }
    }
    Ok(both)
}

fn surfaces_of(
    row: &'static str,
    file: &'static str,
    title: &'static str,
    [legacy, er]: &[Vec<Estimate>; 2],
) -> Surfaces {
    let [columns, rows] = [DELAYS_MS.map(|ms| ms.to_string()), LOSSES.map(|loss| (loss * 100.0).to_string())];
    let surface = |name: &str, found: &[Estimate]| Surface::new(name, &columns, &rows, found);
    let surfaces = vec![surface("legacy TCP", legacy), surface("TCP-ER", er)];
    Surfaces { row, file, title, axes: ["one-way delay, ms", "loss each way, %"], surfaces }
}

/// Returns a case of the whole system (paper 001, §V) with this window in segments, this delay and this loss.
fn whole_cell(window: u32, delay_ms: u64, loss: f64, variant: &str) -> Result<Case, String> {
    let mut network = CHART.read()?;
    for link in network.links_mut("wan-*") {
        for direction in link.directions_mut() {
            (direction.delay, direction.loss) = (Duration::from_millis(delay_ms), loss);
        }
    }
    network.flows_mut("bulk").for_each(|flow| flow.tcp.window_segments = window);
    whole_case(&network, &format!("{window} segments, {delay_ms} ms, {loss}"), variant)
}

/// One pair of delay and loss of the whole system (paper 001, §V), with the goodput of each of [`WHOLE_VARIANTS`].
///
/// Goodputs are in Mbit/s.
struct WholePoint {
    delay_ms: u64,
    loss: f64,
    goodput: [Estimate; WHOLE_VARIANTS.len()],
}

/// Runs the whole system (paper 001, §V) with each pair of delay and loss, and adds the goodputs to `measured`.
///
/// `window` is in segments.
fn whole(lab: &mut Laboratory, window: u32, measured: &mut Measured) -> Result<Vec<WholePoint>, String> {
    let grid: Vec<(u64, f64)> =
        WHOLE_LOSSES.into_iter().flat_map(|loss| WHOLE_DELAYS_MS.map(|delay_ms| (delay_ms, loss))).collect();
    let mut found = Vec::new();
    for (variant, name) in WHOLE_VARIANTS {
        let cases = grid.iter().map(|(delay, loss)| whole_cell(window, *delay, *loss, variant));
        let of: Vec<Estimate> = lab.measure(&cases.collect::<Result<Vec<_>, _>>()?)?.iter().map(of_bulk_mbps).collect();
        for ((delay_ms, loss), found) in grid.iter().zip(&of) {
            let row = format!("the overlay, {name}, loss {} %, Mbit/s", loss * 100.0);
            measured.add(row, format!("{delay_ms} ms"), *found);
        }
        found.push(of);
    }
    let goodput = |at: usize| std::array::from_fn(|variant| found[variant][at]);
    let point = |(at, (delay_ms, loss)): (usize, (u64, f64))| WholePoint { delay_ms, loss, goodput: goodput(at) };
    Ok(grid.into_iter().enumerate().map(point).collect())
}

/// Returns the goodput of the TCP connection in Mbit/s. Each run gives one value.
///
/// The second flow of the scenario only measures packet lengths.
fn of_bulk_mbps(runs: &Outcomes) -> Estimate {
    let of = |run: &NetworkRun| {
        run.run.flows.iter().find(|flow| flow.name == "bulk").and_then(|flow| flow.goodput_bps).unwrap_or(0.0)
    };
    Estimate::of(runs.iter().map(|run| of(run) / 1e6))
}

fn check_ceiling(checks: &mut Checks, window: u32, point: &WholePoint, least: f64) {
    let (ceiling, er) = (ceiling_mbps(window, point.delay_ms), point.goodput[1].mean);
    checks.check(er >= least * ceiling, || {
        let WholePoint { delay_ms, loss, .. } = point;
        format!("TCP-ER at {delay_ms} ms and {loss} is {er:.2}, {:.2} of {ceiling:.1}", er / ceiling)
    });
}

fn small_window(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for point in whole(lab, SMALL, &mut measured)? {
        check_ceiling(&mut checks, SMALL, &point, if point.loss > 0.01 { 0.7 } else { 0.85 });
        let (pftk, legacy) = (if point.loss == 0.01 { 0.48 } else { 0.18 }, point.goodput[0].mean);
        if point.delay_ms == 100 && point.loss > 0.0 {
            checks.check((0.5..=2.0).contains(&(legacy / pftk)), || {
                format!("legacy at 100 ms and {} is {legacy:.2}, PFTK {pftk}", point.loss)
            });
        }
    }
    let found = surfaces(lab, SMALL, &mut measured)?;
    let surfaces = surfaces_of("B3", "paper-001-figure-6.svg", "Paper 001, Figure 6: a window of 64 KB", &found);
    Ok(RowFinding { surfaces: Some(surfaces), ..checks.finding(measured) })
}

fn large_window(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for point in whole(lab, LARGE, &mut measured)?.iter().filter(|point| point.loss >= 0.05) {
        check_ceiling(&mut checks, LARGE, point, 0.7);
    }
    let found = surfaces(lab, LARGE, &mut measured)?;
    let surfaces = surfaces_of("B4", "paper-001-figure-7.svg", "Paper 001, Figure 7: a window of 1 MB", &found);
    Ok(RowFinding { surfaces: Some(surfaces), ..checks.finding(measured) })
}

fn ten_times(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    let [legacy, er] = surfaces(lab, LARGE, &mut Measured::default())?;
    for (((delay_ms, loss), er), legacy) in grid().zip(&er).zip(&legacy) {
        let times = er.mean / legacy.mean;
        measured.add(
            format!("loss {} %, TCP-ER / legacy", loss * 100.0),
            format!("{delay_ms} ms"),
            Estimate::exact(times),
        );
        if delay_ms >= 50 && loss >= 0.02 {
            checks.check(times >= 10.0, || format!("{times:.1} times at {delay_ms} ms and {loss}"));
        }
    }
    Ok(checks.finding(measured))
}
