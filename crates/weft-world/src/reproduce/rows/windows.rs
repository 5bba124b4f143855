//! Rows D1 to D3 and D-delta: loops with windows between the edges of five VPNs over one bottleneck.

use super::super::Estimate;
use super::super::case::{FIVE_VPNS, whole_case};
use super::super::checks::Checks;
use super::super::fairness::{by_second, index_curve, mean_index, of_link, settling};
use super::super::laboratory::{Case, Laboratory, Outcomes};
use super::super::row::{Measured, Picture, Row, RowChart, RowCurve, RowFinding, RowVerdict};
use weft_core::fair::index;
use weft_scenario::{NetworkScenario, Steering, Traffic};

const WEIGHTS: [f64; 5] = [1.0, 2.0, 2.0, 3.0, 4.0];
/// Length of a run in paper 003, in seconds.
const END_S: f64 = 50.0;
/// Time at which the last 30 s of a run begin, in seconds.
const LATE_S: f64 = 20.0;
/// Decrease factor b of the first VPN's window: 0.1 in Figure 3 and 0.25 in Figure 4 of paper 003.
const BS_OF_FIRST: [f64; 2] = [0.1, 0.25];

pub(super) const ROWS: [Row; 4] = [
    Row {
        id: "D1",
        figure: "Paper 003, Figures 3 and 4",
        claim: "F > 0.9 for all a and b, the bottleneck full; a = 1 has the poorer transient, b no effect",
        accept: "F ≥ 0.9 (mean of each second's over the last 30 s), without loops lower; a = 1 settles no sooner than a = 0.1; ten seeds, as in the paper",
        setup: "five VPNs of weights 1, 2, 2, 3, 4 and unequal delays, 30 TCP each, over 50 Mbit/s with 30 % Poisson; Δ = 4; b by the rule, then the closed loop",
        examine: weighted,
    },
    Row {
        id: "D2",
        figure: "Paper 003, Figure 5",
        claim: "with two connections in each of four VPNs fairness inside is 0.748 without loops, best with small a and b (0.92), and 0.815 with a = 5, b = 0.75",
        accept: "F(small) ≥ F(large) ≥ F(none) + 0.03",
        setup: "the first four VPNs with weight one; a and b fixed; F of each second, the mean over the last 30 s",
        examine: two_inside,
    },
    Row {
        id: "D3",
        figure: "Paper 003, Figure 6",
        claim: "with ten connections fairness inside improves for all a and b",
        accept: "in none of the twelve cells below that without loops (95 % intervals)",
        setup: "as D2",
        examine: ten_inside,
    },
    Row {
        id: "D-delta",
        figure: "Paper 003, future work: Δ",
        claim: "left open",
        accept: "recorded: F and utilisation for Δ = 1 to 64",
        setup: "as D1 with a = 0.1, b = 0.1",
        examine: intervals,
    },
];

fn five(a: f64, b: f64, every: u8) -> Result<NetworkScenario, String> {
    let mut network = FIVE_VPNS.read()?;
    for vpn in network.vpns_mut("*") {
        (vpn.ingress.increase, vpn.ingress.decrease, vpn.ingress.marker_every) = (Some(a), b, every);
    }
    Ok(network)
}

fn windows(a: f64, b: f64, every: u8) -> Result<Case, String> {
    whole_case(&five(a, b, every)?, &format!("a = {a}, b = {b}, Δ = {every}"), "windows")
}

fn weighted(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let grid: Vec<(f64, f64)> = BS_OF_FIRST.iter().flat_map(|b| [0.01, 0.1, 1.0].map(|a| (a, *b))).collect();
    let mut cases = vec![whole_case(&FIVE_VPNS.read()?, "as in the file", "without")?];
    for (a, b) in &grid {
        cases.push(windows(*a, *b, 4)?);
    }
    let outcomes = lab.measure_twice(&cases)?;
    let names = ["without".to_owned()].into_iter().chain(grid.iter().map(|(a, b)| format!("a = {a}, b₁ = {b}")));
    let (mut measured, mut checks, mut curves) = (Measured::default(), Checks::default(), Vec::new());
    let late = |runs| mean_index(runs, &WEIGHTS, 1.0, LATE_S, END_S);
    let without = outcomes.first().map(late);
    for (number, (name, runs)) in names.zip(&outcomes).enumerate() {
        let (fairness, used) = (late(runs), of_link(runs, "bottleneck", |link| link.utilisation));
        measured.add(&name, "F, last 30 s", fairness);
        measured.add(&name, "settled (F ≥ 0.9), s", settling(runs, &WEIGHTS, 0.9, END_S));
        measured.add(&name, "utilisation", used);
        curves.push(RowCurve { name: name.clone(), points: index_curve(runs, &WEIGHTS, END_S) });
        if number > 0 {
            checks.at_least(&format!("F with {name}"), fairness.mean, 0.9);
            checks.below("F without loops", without.map_or(1.0, |f| f.mean), fairness.mean);
        }
    }
    for (small, one) in [(2, 3), (5, 6)] {
        let settled = |number: usize| outcomes.get(number).map_or(0.0, |o| settling(o, &WEIGHTS, 0.9, END_S).mean);
        checks.at_least("settling with a = 1", settled(one), settled(small));
    }
    // There is one chart for each decrease factor b₁ of the first VPN. The run without loops is in each chart.
    let panels = BS_OF_FIRST.iter().zip(curves.get(1..).unwrap_or_default().chunks(3)).map(|(b, own)| RowChart {
        title: format!("fairness index F of each second, b₁ = {b}"),
        x_label: "time, s".into(),
        categories: Vec::new(),
        curves: curves.iter().take(1).chain(own).cloned().collect(),
    });
    beside(lab, &mut measured)?;
    let picture = Picture {
        row: "D1",
        file: "paper-003-figure-3.svg",
        title: "Paper 003, Figures 3 and 4: fairness between VPNs",
        charts: panels.collect(),
    };
    Ok(RowFinding { picture: Some(picture), ..checks.finding(measured) })
}

/// Measures the same VPNs with the control laws of the other papers, at their defaults.
fn beside(lab: &mut Laboratory, measured: &mut Measured) -> Result<(), String> {
    let names = ["windows", "accumulation", "explicit-rate"];
    let cases = names.iter().map(|name| whole_case(&FIVE_VPNS.read()?, "as in the file", name));
    let outcomes = lab.measure_twice(&cases.collect::<Result<Vec<_>, _>>()?)?;
    for (name, runs) in names.iter().zip(&outcomes) {
        let name = format!("law: {name}");
        measured.add(&name, "F, last 30 s", mean_index(runs, &WEIGHTS, 1.0, LATE_S, END_S));
        measured.add(&name, "settled (F ≥ 0.9), s", settling(runs, &WEIGHTS, 0.9, END_S));
        measured.add(&name, "utilisation", of_link(runs, "bottleneck", |link| link.utilisation));
        measured.add(&name, "queue at the bottleneck, p95, ms", of_link(runs, "bottleneck", |link| link.queue_ms_p95));
        measured.add(&name, "lost at the bottleneck", of_link(runs, "bottleneck", |link| link.lost));
    }
    Ok(())
}

const AS: [f64; 4] = [0.1, 0.5, 1.0, 5.0];
const BS: [f64; 3] = [0.1, 0.5, 0.75];

/// Returns a case of four VPNs of equal weight with this number of TCP connections each.
///
/// `parameters` are the increase a and the decrease factor b of each window, which stay fixed. `None` means no windows.
fn inside(connections: usize, parameters: Option<(f64, f64)>) -> Result<Case, String> {
    let (a, b) = parameters.unwrap_or((0.1, 0.1));
    let mut network = five(a, b, 4)?;
    for gone in ["s4", "d4", "ingress4"] {
        network.remove_nodes(gone);
    }
    for vpn in network.vpns_mut("*") {
        (vpn.weight, vpn.ingress.steering) = (1.0, Steering::Off);
    }
    let mut seen = [0; 4];
    network.flows.retain(|flow| {
        let place = seen.get_mut(flow.from);
        let Some(place) = place.filter(|_| matches!(flow.traffic, Traffic::Ftp { .. })) else { return true };
        *place += 1;
        *place <= connections
    });
    let variant = if parameters.is_some() { "windows" } else { "without" };
    whole_case(&network, &format!("{connections} inside, a = {a}, b = {b}"), variant)
}

/// Returns the fairness index among the connections inside each VPN. Each run gives one value.
///
/// The index is computed for each second and each VPN. The value is the mean over the last 30 seconds and over the
/// VPNs.
fn fairness_inside(runs: &Outcomes, connections: usize) -> Estimate {
    Estimate::of(runs.iter().map(|run| {
        let seconds = by_second(run, "ftp", LATE_S as usize);
        let vpns = seconds.iter().flat_map(|all| all.chunks(connections));
        let (sum, count) =
            vpns.fold((0.0, 0.0), |(sum, count), vpn| (sum + index(vpn, &vec![1.0; vpn.len()]), count + 1.0));
        sum / f64::max(count, 1.0)
    }))
}

/// A cell of a table: increase a, decrease factor b, and the fairness index inside VPNs with these parameters.
type Cell = (f64, f64, Estimate);

/// Returns the fairness index inside VPNs without loops, and the cells for all twelve pairs of a and b.
///
/// Each VPN has `connections` TCP connections.
fn cells(lab: &mut Laboratory, connections: usize) -> Result<(Estimate, Vec<Cell>), String> {
    let grid: Vec<(f64, f64)> = BS.iter().flat_map(|b| AS.map(|a| (a, *b))).collect();
    let mut cases = vec![inside(connections, None)?];
    for cell in &grid {
        cases.push(inside(connections, Some(*cell))?);
    }
    let outcomes = lab.measure(&cases)?;
    let of = |number: usize| outcomes.get(number).map_or(Estimate::exact(0.0), |o| fairness_inside(o, connections));
    Ok((of(0), grid.iter().enumerate().map(|(n, (a, b))| (*a, *b, of(n + 1))).collect()))
}

fn table(none: Estimate, cells: &[Cell]) -> Measured {
    let mut measured = Measured::default();
    measured.add("without loops", "", none);
    for (a, b, value) in cells {
        measured.add(format!("b = {b}"), format!("a = {a}"), *value);
    }
    measured
}

fn picture(row: &'static str, file: &'static str, none: Estimate, cells: &[Cell]) -> Picture {
    let of = |b: f64| cells.iter().filter(move |cell| cell.1 == b).map(|(a, _, value)| (a.log10(), *value)).collect();
    let mut curves: Vec<RowCurve> = BS.map(|b| RowCurve { name: format!("b = {b}"), points: of(b) }).into();
    curves.push(RowCurve { name: "without".into(), points: AS.map(|a| (a.log10(), none)).into() });
    let chart = RowChart {
        title: "fairness index F inside VPNs".into(),
        x_label: "log₁₀ a".into(),
        categories: Vec::new(),
        curves,
    };
    Picture { row, file, title: "Paper 003: fairness inside VPNs", charts: vec![chart] }
}

fn inside_finding(row: &'static str, file: &'static str, none: Estimate, cells: &[Cell], checks: Checks) -> RowFinding {
    RowFinding { picture: Some(picture(row, file, none, cells)), ..checks.finding(table(none, cells)) }
}

fn two_inside(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let (none, cells) = cells(lab, 2)?;
    let of = |a: f64, b: f64| cells.iter().find(|c| (c.0, c.1) == (a, b)).map_or(0.0, |cell| cell.2.mean);
    let (small, large) = (of(0.1, 0.1), of(5.0, 0.75));
    let mut checks = Checks::default();
    checks.at_least("F with a = 0.1, b = 0.1", small, large);
    checks.at_least("F with a = 5, b = 0.75", large, none.mean + 0.03);
    Ok(inside_finding("D2", "paper-003-figure-5.svg", none, &cells, checks))
}

fn ten_inside(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let (none, cells) = cells(lab, 10)?;
    let mut checks = Checks::default();
    for (a, b, value) in &cells {
        let [_, high] = value.interval();
        let [low, _] = none.interval();
        checks.at_least(&format!("upper end of F with a = {a}, b = {b}"), high, low);
    }
    Ok(inside_finding("D3", "paper-003-figure-6.svg", none, &cells, checks))
}

fn intervals(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let every = [1, 2, 4, 8, 16, 32, 64];
    let cases = every.iter().map(|every| windows(0.1, 0.1, *every)).collect::<Result<Vec<_>, _>>()?;
    let outcomes = lab.measure(&cases)?;
    let (mut measured, mut points) = (Measured::default(), Vec::new());
    for (every, runs) in every.iter().zip(&outcomes) {
        let fairness = mean_index(runs, &WEIGHTS, 1.0, LATE_S, END_S);
        measured.add(format!("Δ = {every}"), "F, last 30 s", fairness);
        measured.add(format!("Δ = {every}"), "utilisation", of_link(runs, "bottleneck", |link| link.utilisation));
        measured.add(format!("Δ = {every}"), "lost at the bottleneck", of_link(runs, "bottleneck", |link| link.lost));
        points.push((f64::from(*every).log2(), fairness));
    }
    let curves = vec![RowCurve { name: "F".into(), points }];
    let chart = RowChart {
        title: "fairness index F, last 30 s".into(),
        x_label: "log₂ Δ".into(),
        categories: Vec::new(),
        curves,
    };
    let picture = Picture {
        row: "D-delta",
        file: "paper-003-delta.svg",
        title: "Beyond paper 003: the interval of management packets",
        charts: vec![chart],
    };
    Ok(RowFinding { measured, verdict: RowVerdict::Reported, picture: Some(picture), ..RowFinding::default() })
}
