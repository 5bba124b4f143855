//! Rows E3, E4 and E15: loops move queues from the core to the edges.

use super::super::Estimate;
use super::super::case::{QUEUES, whole_case};
use super::super::checks::Checks;
use super::super::fairness::{goodputs, of_link, of_queue, variation};
use super::super::laboratory::{Case, Laboratory, Outcomes};
use super::super::row::{Measured, Picture, Row, RowChart, RowCurve, RowFinding};
use weft_scenario::{ControlLaw, Discipline, NetworkFlow, NetworkScenario, QueueSize, RandomEarly, Traffic};

pub(super) const ROWS: [Row; 3] = [
    Row {
        id: "E3",
        figure: "Paper 004, Figures 7a and 7b",
        claim: "with loops the queue stands at the edges, not at the bottleneck",
        accept: "the bottleneck's mean queue < 10 % of that without loops, goodput the same (within 3 %)",
        setup: "four TCP connections in two loops over 10 Mbit/s, 40 ms; all queues 50 packets",
        examine: moved,
    },
    Row {
        id: "E4",
        figure: "Paper 004, Figures 7c and 7d",
        claim: "with 500 connections goodputs' coefficient of variation is 4 with FIFO, 2.5 with two loops or FRED inside, 1.2 with ten loops, 0.7 with FRED at the edges too; goodput is near 100 %",
        accept: "strict order: FIFO > 2 loops > 10 loops > 10 loops with FRED; ten loops ≤ 0.4 × none; utilisation > 95 %",
        setup: "50 and 500 TCP connections over 10 Mbit/s, 40 ms; 0, 2, 5, 10 loops; all queues 50 packets; FRED from 5 to 25, with its two-packet buffers for many flows; 80 s counted",
        examine: spread,
    },
    Row {
        id: "E15",
        figure: "Paper 004, §7.2",
        claim: "AQM and ECN at the edge cut loss and TCP time-outs",
        accept: "against FIFO at the edge with 100 connections: loss and time-outs both lower, utilisation within 2 %",
        setup: "ten loops, 50 packets at the edge: FIFO; RED (20 to 45 packets) and FRED (10 to 45) with ECN; CoDel and FQ-CoDel with ECN recorded",
        examine: marking,
    },
];

const MOST_LOOPS: usize = 10;

/// Returns the network with this number of TCP connections, spread evenly over this number of ingress edges.
fn network(edges: usize, connections: usize) -> Result<NetworkScenario, String> {
    let mut network = QUEUES.read()?;
    for gone in edges..MOST_LOOPS {
        for kind in ["s", "in", "out", "d"] {
            network.remove_nodes(&format!("{kind}{gone}"));
        }
    }
    let mut per_edge: Vec<NetworkFlow> = Vec::new();
    for flow in &network.flows {
        if matches!(flow.traffic, Traffic::Ftp { .. }) && !per_edge.iter().any(|known| known.from == flow.from) {
            per_edge.push(flow.clone());
        }
    }
    let flows = per_edge.iter().cycle().zip(0..connections);
    network.flows = flows.map(|(flow, n)| NetworkFlow { name: format!("ftp-{n}"), ..flow.clone() }).collect();
    Ok(network)
}

fn fred() -> Discipline {
    let [min, max] = [5, 25].map(QueueSize::Packets);
    Discipline::Fred(RandomEarly { min, max, max_p: 0.1, weight: 0.002, gentle: false, ecn: false })
}

fn moved(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let network = network(2, 4)?;
    let bottleneck = network.links.iter().position(|link| link.name == "bottleneck").unwrap_or_default();
    let cases =
        [whole_case(&network, "four connections", "without")?, whole_case(&network, "four connections", "loops")?];
    let outcomes = lab.measure(&cases)?;
    let queue = |runs: &Outcomes| of_queue(runs, bottleneck, |queue| queue.mean_packets);
    let goodput = |runs: &Outcomes| Estimate::of(runs.iter().map(|run| run.run.goodput_bps / 1e6));
    let mut measured = Measured::default();
    for (name, runs) in ["without", "loops"].iter().zip(&outcomes) {
        measured.add(*name, "queue at the bottleneck, packets", queue(runs));
        measured.add(*name, "goodput, Mbit/s", goodput(runs));
        let edge = Estimate::of(runs.iter().map(|run| {
            run.run
                .vpns
                .iter()
                .filter(|vpn| vpn.from.starts_with("in"))
                .filter_map(|vpn| vpn.queue_ms_p50)
                .fold(0.0, f64::max)
        }));
        measured.add(*name, "median wait at the edge, ms", edge);
    }
    let mut checks = Checks::default();
    if let [without, with] = &outcomes[..] {
        checks.below("the queue at the bottleneck", queue(with).mean, 0.1 * queue(without).mean);
        checks.at_least("goodput, Mbit/s", goodput(with).mean, 0.97 * goodput(without).mean);
    }
    Ok(checks.finding(measured))
}

/// The setups to compare: name, number of ingress edges, loops or not, FRED at the bottleneck, FRED at the edge.
const SETUPS: [(&str, usize, bool, bool, bool); 7] = [
    ("FIFO", 10, false, false, false),
    ("FRED inside", 10, false, true, false),
    ("2 loops", 2, true, false, false),
    ("5 loops", 5, true, false, false),
    ("10 loops", 10, true, false, false),
    ("2 loops, FRED at the edge", 2, true, false, true),
    ("10 loops, FRED at the edge", 10, true, false, true),
];

fn setup(connections: usize, setup: usize) -> Result<Case, String> {
    let (name, edges, loops, inside, outside) = SETUPS[setup];
    let mut network = network(edges, connections)?;
    if inside {
        network.links_mut("bottleneck").for_each(|link| link.set_queue(QueueSize::Packets(50), fred()));
    }
    for vpn in network.vpns_mut("*") {
        vpn.ingress.law = if loops { ControlLaw::Accumulation } else { ControlLaw::None };
        if outside {
            vpn.ingress.discipline = fred();
        }
    }
    whole_case(&network, &format!("{connections} connections, {name}"), "loops")
}

fn spread(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let numbers = [50, 500];
    let grid = numbers.iter().flat_map(|n| (0..SETUPS.len()).map(|which| setup(*n, which)));
    let outcomes = lab.measure(&grid.collect::<Result<Vec<_>, _>>()?)?;
    let of = |runs: &Outcomes| Estimate::of(runs.iter().map(|run| variation(&goodputs(run, "ftp"))));
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    let mut curves: Vec<RowCurve> = SETUPS.map(|setup| RowCurve { name: setup.0.into(), points: Vec::new() }).into();
    for (connections, of_number) in numbers.iter().zip(outcomes.chunks(SETUPS.len())) {
        let all: Vec<Estimate> = of_number.iter().map(of).collect();
        for ((setup, runs), (value, curve)) in SETUPS.iter().zip(of_number).zip(all.iter().zip(&mut curves)) {
            let name = format!("{connections} connections, {}", setup.0);
            let used = of_link(runs, "bottleneck", |link| link.utilisation);
            measured.add(&name, "CoV", *value);
            measured.add(&name, "utilisation", used);
            curve.points.push((*connections as f64, *value));
            checks.at_least(&format!("{name}: utilisation"), used.mean, 0.95);
        }
        if let (500, [fifo, _, two, _, ten, _, fred]) = (*connections, &all[..]) {
            checks.below("500 connections: two loops", two.mean, fifo.mean);
            checks.below("500 connections: ten loops", ten.mean, two.mean);
            checks.below("500 connections: FRED and ten loops", fred.mean, ten.mean);
            checks.below("500 connections: ten loops over none", ten.mean / fifo.mean, 0.4);
        }
    }
    let (fred, fifo) = curves.into_iter().partition(|curve| curve.name.contains("FRED"));
    let panel = |queues: &str, curves| RowChart {
        title: format!("coefficient of variation of goodput, {queues}"),
        x_label: "TCP connections".into(),
        categories: Vec::new(),
        curves,
    };
    let charts = vec![panel("FIFO", fifo), panel("FRED", fred)];
    let title = "Paper 004, Figures 7c and 7d: queues at the edges, FIFO and FRED";
    let picture = Picture { row: "E4", file: "paper-004-figure-7.svg", title, charts };
    Ok(RowFinding { picture: Some(picture), ..checks.finding(measured) })
}

fn marking(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let target = std::time::Duration::from_millis(20);
    let interval = std::time::Duration::from_millis(100);
    let early = |min, max_p| {
        let [min, max] = [min, 45].map(QueueSize::Packets);
        RandomEarly { min, max, max_p, weight: 0.02, gentle: true, ecn: true }
    };
    let disciplines = [
        ("FIFO", Discipline::DropTail),
        ("RED, ECN", Discipline::Red(early(20, 0.1))),
        ("FRED, ECN", Discipline::Fred(early(10, 0.5))),
        ("CoDel, ECN", Discipline::CoDel { target, interval, ecn: true }),
        ("FQ-CoDel, ECN", Discipline::FqCoDel { target, interval, quantum_bytes: 1_000, ecn: true }),
    ];
    let mut cases = Vec::new();
    for (name, discipline) in disciplines {
        let mut network = network(MOST_LOOPS, 100)?;
        network.vpns_mut("*").for_each(|vpn| vpn.ingress.discipline = discipline);
        network.flows.iter_mut().for_each(|flow| flow.tcp.ecn = discipline != Discipline::DropTail);
        cases.push(whole_case(&network, &format!("100 connections, {name} at the edge"), "loops")?);
    }
    let outcomes = lab.measure(&cases)?;
    let loss = |runs: &Outcomes| {
        Estimate::of(runs.iter().map(|run| {
            let dropped: f64 = run.run.vpns.iter().map(|vpn| vpn.dropped + vpn.lost).sum();
            100.0 * dropped / run.counted(|sender| sender.segments) as f64
        }))
    };
    let timeouts = |runs: &Outcomes| Estimate::of(runs.iter().map(|run| run.counted(|sender| sender.timeouts) as f64));
    let used = |runs: &Outcomes| of_link(runs, "bottleneck", |link| link.utilisation);
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for ((name, _), runs) in disciplines.iter().zip(&outcomes) {
        measured.add(*name, "lost, % of segments", loss(runs));
        measured.add(*name, "time-outs", timeouts(runs));
        measured.add(*name, "utilisation", used(runs));
    }
    if let [fifo, rest @ ..] = &outcomes[..] {
        for ((name, _), runs) in disciplines[1..3].iter().zip(rest) {
            checks.below(&format!("{name}: lost, %"), loss(runs).mean, loss(fifo).mean);
            checks.below(&format!("{name}: time-outs"), timeouts(runs).mean, timeouts(fifo).mean);
            checks.at_least(&format!("{name}: utilisation"), used(runs).mean, used(fifo).mean - 0.02);
        }
    }
    Ok(checks.finding(measured))
}
