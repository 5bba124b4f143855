//! Rows of VPNs whose loops all join the same two edges.
//!
//! They are D6 (staggered starts), D-weights (eight weights), and D-voip (a voice call inside a loaded VPN).

use super::super::Estimate;
use super::super::case::{FAIR_VPNS, PROTOTYPE, whole_case};
use super::super::checks::Checks;
use super::super::fairness::{goodputs, index_between, index_curve, of_link, of_queue, rate_mbps, rates};
use super::super::laboratory::{Case, Laboratory, Outcomes};
use super::super::row::{Measured, Picture, Row, RowChart, RowCurve, RowFinding, RowVerdict};
use weft_core::fair::index;
use weft_scenario::{Discipline, NetworkFlow, QueueSize, Traffic};
use weft_units::Duration;

pub(super) const ROWS: [Row; 3] = [
    Row {
        id: "D6",
        figure: "Paper 003, Figure 11",
        claim: "four VPNs of 1, 2, 1, 2 connections that start 5 s apart are equal at about 25 s; F = 0.99 inside VPNs 2 and 4",
        accept: "largest over least ≤ 1.15 at 25 to 30 s; F inside ≥ 0.97",
        setup: "50 Mbit/s, 2 ms, 50 packets; a = b = 0.1; windows of the edge pair hear of each other's losses, and without that beside it",
        examine: staggered,
    },
    Row {
        id: "D-weights",
        figure: "Beyond paper 003: eight weights",
        claim: "shares by weight whatever runs inside, and the queue at the edge",
        accept: "F ≥ 0.98 within 10 s and again within 2 s of 50 → 20 Mbit/s, by both laws; core queue p95 below 10 % of that without loops at ≥ 97 % utilisation: by rates in a drop-tail core, by windows in one that marks",
        setup: "weights 1 to 8 with 50, 1, 20, 5, 35, 10, 2 and 28 TCP connections (`fair-vpns`); queue and utilisation without the step, 250 packets in the core, drop-tail or CoDel (2 ms, 20 ms) with ECN",
        examine: eight_weights,
    },
    Row {
        id: "D-voip",
        figure: "Paper 003, future work: VoIP",
        claim: "left open",
        accept: "recorded: one-way delay and loss of a call inside a VPN full of TCP, by the VPN's queue",
        setup: "`fair-vpns` before the step, a call of 82 kbit/s in VPN 5 beside its 35 connections",
        examine: call,
    },
];

fn staggered(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let network = PROTOTYPE.read()?;
    let variants = ["without", "windows", "windows-alone", "accumulation"];
    let cases =
        variants.iter().map(|name| whole_case(&network, "as in the file", name)).collect::<Result<Vec<_>, _>>()?;
    let outcomes = lab.measure(&cases)?;
    let (mut measured, mut checks, mut charts) = (Measured::default(), Checks::default(), Vec::new());
    for (variant, runs) in variants.iter().zip(&outcomes) {
        let spread = spread(runs, 4, 25.0, 30.0);
        let inside = Estimate::of(runs.iter().map(|run| {
            let of = |flows: &str| index(&goodputs(run, flows), &[1.0; 2]);
            of("tcp2").min(of("tcp4"))
        }));
        measured.add(*variant, "most / least at 25–30 s", spread);
        measured.add(*variant, "F at 25–30 s", index_between(runs, &[1.0; 4], 25.0, 30.0));
        measured.add(*variant, "least F inside", inside);
        measured.add(*variant, "utilisation", of_link(runs, "emulator", |link| link.utilisation));
        if *variant == "windows" {
            checks.check(spread.mean <= 1.15, || format!("most over least is {:.2}, above 1.15", spread.mean));
            checks.at_least("F inside VPNs 2 and 4", inside.mean, 0.97);
        }
        let curve = |vpn: usize| RowCurve {
            name: format!("VPN {}", vpn + 1),
            points: (0..30)
                .map(|n| (f64::from(2 * n), rate_mbps(runs, 4, vpn, f64::from(2 * n), f64::from(2 * n + 2))))
                .collect(),
        };
        charts.push(RowChart {
            title: format!("{variant}: Mbit/s, every 2 s"),
            x_label: "time, s".into(),
            categories: Vec::new(),
            curves: (0..4).map(curve).collect(),
        });
    }
    let title = "Paper 003, Figure 11: four VPNs start one after another";
    let picture = Picture { row: "D6", file: "paper-003-figure-11.svg", title, charts };
    Ok(RowFinding { picture: Some(picture), ..checks.finding(measured) })
}

/// Returns the highest rate of a VPN divided by the lowest one, between two times in seconds.
///
/// Each run gives one value.
fn spread(runs: &Outcomes, vpns: usize, from_s: f64, to_s: f64) -> Estimate {
    Estimate::of(runs.iter().map(|run| {
        let rates = rates(run, vpns, from_s, to_s);
        let most = rates.iter().copied().fold(0.0, f64::max);
        most / rates.iter().copied().fold(f64::INFINITY, f64::min).max(1.0)
    }))
}

const WEIGHTS: [f64; 8] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
/// Time from the start of the run until the bottleneck's rate falls, in seconds.
const STEP_S: f64 = 25.0;

/// The bottleneck of row D-weights: that of the scenario file `fair-vpns`, or a changed one.
#[derive(Clone, Copy, PartialEq)]
enum Core {
    /// The bottleneck as in the scenario file.
    Stepped,
    /// The bottleneck without the change of its rate, and with a larger buffer of 250 packets (60 ms at its rate).
    Deep,
    /// The bottleneck as in `Deep`, but with CoDel, which marks packets instead of dropping them. TCP uses ECN.
    Marking,
}

fn eight(variant: &str, core: Core) -> Result<Case, String> {
    let mut network = FAIR_VPNS.read()?;
    let (target, interval) = (Duration::from_millis(2), Duration::from_millis(20));
    let (discipline, label) = match core {
        Core::Stepped => return whole_case(&network, "as in the file", variant),
        Core::Deep => (Discipline::DropTail, "50 Mbit/s, 250 packets"),
        Core::Marking => (Discipline::CoDel { target, interval, ecn: true }, "50 Mbit/s, CoDel with ECN"),
    };
    network.events.clear();
    network.links_mut("core").for_each(|link| link.set_queue(QueueSize::Packets(250), discipline));
    network.flows.iter_mut().for_each(|flow| flow.tcp.ecn = core == Core::Marking);
    whole_case(&network, label, variant)
}

fn eight_weights(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let link = FAIR_VPNS.read()?.links.iter().position(|link| link.name == "core").unwrap_or_default();
    let variants = ["without", "aimd-window", "accumulation"];
    let cores = [Core::Stepped, Core::Deep, Core::Marking];
    let cases = variants.iter().flat_map(|name| cores.map(|core| eight(name, core)));
    let outcomes = lab.measure(&cases.collect::<Result<Vec<_>, _>>()?)?;
    let (mut measured, mut checks, mut curves) = (Measured::default(), Checks::default(), Vec::new());
    for (variant, runs) in variants.iter().zip(outcomes.chunks(cores.len())) {
        let Some(stepped) = runs.first() else { continue };
        let before = index_between(stepped, &WEIGHTS, 10.0, 12.0);
        let after = index_between(stepped, &WEIGHTS, STEP_S + 2.0, STEP_S + 4.0);
        measured.add(*variant, "F at 10–12 s", before);
        measured.add(*variant, "F at 2–4 s after the step", after);
        curves.push(RowCurve { name: (*variant).into(), points: index_curve(stepped, &WEIGHTS, 40.0) });
        if *variant != "without" {
            checks.at_least(&format!("{variant}: F at 10 s"), before.mean, 0.98);
            checks.at_least(&format!("{variant}: F after the step"), after.mean, 0.98);
        }
    }
    let queue = |runs: &Outcomes| of_link(runs, "core", |link| link.queue_ms_p95);
    let without = outcomes.get(1).map_or(0.0, |runs| queue(runs).mean);
    for (variant, runs) in variants.iter().zip(outcomes.chunks(cores.len())) {
        for (name, runs) in ["drop-tail", "CoDel with ECN"].into_iter().zip(runs.iter().skip(1)) {
            let (what, used) = (format!("{variant}, core {name}"), of_link(runs, "core", |link| link.utilisation));
            measured.add(&what, "core queue p95, ms", queue(runs));
            measured.add(&what, "packets on average", of_queue(runs, link, |queue| queue.mean_packets));
            measured.add(&what, "lost in the core", of_link(runs, "core", |link| link.lost));
            measured.add(&what, "utilisation", used);
            measured.add(&what, "F at 10–40 s", index_between(runs, &WEIGHTS, 10.0, 40.0));
            if (*variant, name) == ("accumulation", "drop-tail")
                || (*variant, name) == ("aimd-window", "CoDel with ECN")
            {
                checks.at_least(&format!("{what}: utilisation"), used.mean, 0.97);
                checks.below(&format!("{what}: queue p95, ms"), queue(runs).mean, 0.1 * without);
            }
        }
    }
    let chart = RowChart {
        title: "weighted fairness index F of each second".into(),
        x_label: "time, s".into(),
        categories: Vec::new(),
        curves,
    };
    let title = "Eight VPNs of weights 1 to 8; 50 → 20 Mbit/s at 25 s";
    let picture = Picture { row: "D-weights", file: "fair-vpns.svg", title, charts: vec![chart] };
    Ok(RowFinding { picture: Some(picture), ..checks.finding(measured) })
}

/// Returns a case of `fair-vpns` that ends when the bottleneck's rate falls, with a voice call in VPN 5.
///
/// `queue` is the discipline of the VPNs' queues at the edges, and `what` its name.
fn with_call(variant: &str, queue: Discipline, what: &str) -> Result<Case, String> {
    let mut network = FAIR_VPNS.read()?;
    let (packet_bytes, interval) = (200, Duration::from_millis(20));
    let Some(bulk) = network.flows.iter().find(|flow| flow.name.starts_with("tcp5")).cloned() else {
        return Err("`fair-vpns` has no flow `tcp5`".into());
    };
    let traffic = Traffic::Voip { packet_bytes, interval };
    network.flows.push(NetworkFlow { name: "call".into(), traffic, ..bulk });
    for vpn in network.vpns_mut("*") {
        (vpn.ingress.queue, vpn.ingress.discipline) = (QueueSize::Packets(400), queue);
    }
    (network.duration, network.warmup) = (Duration::from_secs(25), Duration::from_secs(10));
    whole_case(&network, &format!("a call, {what}"), variant)
}

fn call(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let (target, interval, ecn) = (Duration::from_millis(5), Duration::from_millis(100), false);
    let fair = Discipline::FqCoDel { target, interval, quantum_bytes: 1_514, ecn };
    let grid = [
        ("without", Discipline::DropTail, "drop-tail"),
        ("aimd-window", Discipline::DropTail, "drop-tail"),
        ("aimd-window", Discipline::CoDel { target, interval, ecn }, "codel"),
        ("aimd-window", fair, "fq-codel"),
        ("accumulation", Discipline::DropTail, "drop-tail"),
        ("accumulation", fair, "fq-codel"),
    ];
    let cases = grid.iter().map(|(v, queue, what)| with_call(v, *queue, what)).collect::<Result<Vec<_>, _>>()?;
    let outcomes = lab.measure(&cases)?;
    let mut measured = Measured::default();
    for ((variant, _, what), runs) in grid.iter().zip(&outcomes) {
        let of = |value: fn(&weft_scenario::FlowResult) -> Option<f64>| {
            let found = |run: &crate::network::NetworkRun| {
                run.run.flows.iter().find(|flow| flow.name == "call").and_then(value).unwrap_or(0.0)
            };
            Estimate::of(runs.iter().map(found))
        };
        let name = format!("{variant}, {what}");
        let lost = of(|flow| flow.goodput_bps.map(|bps| 100.0 * (1.0 - bps / 80_000.0)));
        measured.add(&name, "one way p50, ms", of(|flow| flow.one_way_ms_p50));
        measured.add(&name, "p99, ms", of(|flow| flow.one_way_ms_p99));
        measured.add(&name, "lost, %", lost);
    }
    Ok(RowFinding { measured, verdict: RowVerdict::Reported, ..RowFinding::default() })
}
