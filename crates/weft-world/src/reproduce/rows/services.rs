//! Rows E5 to E7 and E13: the services and weights of loops, such as a leased line.

use super::super::Estimate;
use super::super::case::{FLOOD, LEASED_LINE, QUEUES, whole_case};
use super::super::checks::Checks;
use super::super::fairness::{goodputs, of_link, of_queue, rate_mbps};
use super::super::laboratory::{Laboratory, Outcomes};
use super::super::row::{Measured, Picture, Row, RowChart, RowCurve, RowFinding};
use weft_scenario::{Traffic, VpnService};
use weft_units::Rate;

pub(super) const ROWS: [Row; 4] = [
    Row {
        id: "E5",
        figure: "Paper 004, Figure 8",
        claim: "a flood of datagrams is kept at its edge and TCP gets its fair share",
        accept: "TCP ≥ 45 % of the bottleneck; without loops < 10 %",
        setup: "one TCP connection and 15 Mbit/s of datagrams over 10 Mbit/s, each in a loop of its own",
        examine: flood,
    },
    Row {
        id: "E6",
        figure: "Paper 004, Figure 9",
        claim: "with 4 of 10 Mbit/s assured TCP gets them and half of the rest: 7 Mbit/s",
        accept: "7 ± 0.35 Mbit/s",
        setup: "as E5, TCP's loop assured 4 Mbit/s (γ = 0.98)",
        examine: assured,
    },
    Row {
        id: "E7",
        figure: "Paper 004, Figure 10",
        claim: "when a quasi-leased line of half the bottleneck appears, best effort backs off fast; the queue peaks near b/(1 − b)",
        accept: "peak ≤ 2 Cτ b/(1 − b), convex beyond b = 0.5; best effort within 5 % of its share in ≤ 6 τ; no loss with a buffer of the peak",
        setup: "100 Mbit/s, τ = 40 ms, a line of b = 0.1 to 0.8 of it at 6 s, when a loop has got everything (paper: at 2 s; α gives 5 Mbit/s in a second)",
        examine: leased_line,
    },
    Row {
        id: "E13",
        figure: "Paper 004, §5",
        claim: "α gives weights",
        accept: "shares within 10 % of the weights for 1 : 2 : 4",
        setup: "three loops of five TCP connections each over 10 Mbit/s, α = 0.5 packets × weight / mean weight",
        examine: weights,
    },
];

fn tcp_share(runs: &Outcomes) -> Estimate {
    Estimate::of(runs.iter().map(|run| goodputs(run, "tcp").iter().sum::<f64>() * 1_000.0 / 960.0 / 10e6))
}

fn flood(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let network = FLOOD.read()?;
    let variants = ["without", "loops", "windows"];
    let cases = variants.iter().map(|name| whole_case(&network, "as in the file", name));
    let outcomes = lab.measure(&cases.collect::<Result<Vec<_>, _>>()?)?;
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for (variant, runs) in variants.iter().zip(&outcomes) {
        let share = tcp_share(runs);
        measured.add(*variant, "TCP, share of the bottleneck", share);
        measured.add(*variant, "utilisation", of_link(runs, "bottleneck", |link| link.utilisation));
        match *variant {
            "without" => checks.below("TCP without loops", share.mean, 0.1),
            "loops" => checks.at_least("TCP with loops", share.mean, 0.45),
            _ => {}
        }
    }
    Ok(checks.finding(measured))
}

fn assured(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let increases = [1.0, 0.5, 0.25];
    let mut cases = Vec::new();
    for increase in increases {
        let mut network = FLOOD.read()?;
        network.vpns_mut("*").for_each(|vpn| vpn.ingress.increase = Some(increase));
        network.vpns_mut("tcp").for_each(|vpn| vpn.service = VpnService::Assured(Rate::from_mbps(4)));
        cases.push(whole_case(&network, &format!("4 Mbit/s assured, α = {increase}"), "loops")?);
    }
    let outcomes = lab.measure(&cases)?;
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for (increase, runs) in increases.iter().zip(&outcomes) {
        let rates = [0, 1].map(|vpn| rate_mbps(runs, 2, vpn, 20.0, 60.0));
        measured.add(format!("α = {increase}"), "assured, Mbit/s", rates[0]);
        measured.add(format!("α = {increase}"), "the other, Mbit/s", rates[1]);
        if *increase == 1.0 {
            checks.check((rates[0].mean - 7.0).abs() <= 0.35, || format!("{:.2} Mbit/s, not 7 ± 0.35", rates[0].mean));
        }
    }
    Ok(checks.finding(measured))
}

const TAU_S: f64 = 0.040;
/// Time from the start of the run until the leased line starts, in seconds.
const LINE_S: f64 = 6.0;
/// Time after the leased line's start at which best effort must have released the line's rate, in seconds.
///
/// It is the first step of the statistics after 6 τ, where τ is 40 ms.
const AFTER_S: f64 = 0.3;
/// Rates of the leased line b, as fractions of the bottleneck's rate.
const FRACTIONS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.8];

fn leased_line(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let mut cases = Vec::new();
    for b in FRACTIONS {
        let (mut network, rate) = (LEASED_LINE.read()?, Rate::from_bps((b * 100e6) as u64));
        network.vpns_mut("line").for_each(|vpn| vpn.service = VpnService::Leased(rate));
        for flow in network.flows_mut("line") {
            flow.traffic = Traffic::Cbr { packet_bytes: 1_000, rate };
        }
        cases.push(whole_case(&network, &format!("b = {b}"), "loops")?);
    }
    let outcomes = lab.measure(&cases)?;
    let bottleneck = LEASED_LINE.read()?.links.iter().position(|link| link.name == "bottleneck").unwrap_or_default();
    let (mut measured, mut checks, mut peaks) = (Measured::default(), Checks::default(), Vec::new());
    for (b, runs) in FRACTIONS.iter().zip(&outcomes) {
        let peak = of_queue(runs, bottleneck, |queue| queue.longest_ms / 1e3 / TAU_S);
        let lost = of_link(runs, "bottleneck", |link| link.lost);
        let before = rate_mbps(runs, 2, 0, LINE_S - 1.0, LINE_S);
        checks.at_least(&format!("b = {b}: best effort before, Mbit/s"), before.mean, 90.0);
        // Best effort must have released the rate after 6 τ = 240 ms. The run counts bytes in steps of 100 ms, so this
        // rate is that of the first step which begins after that time.
        let after = rate_mbps(runs, 2, 0, LINE_S + AFTER_S, LINE_S + AFTER_S + 0.1);
        let line = rate_mbps(runs, 2, 1, LINE_S + 1.0, LINE_S + 8.0);
        measured.add(format!("b = {b}"), "best effort before, Mbit/s", before);
        measured.add(format!("b = {b}"), "peak, Cτ", peak);
        measured.add(format!("b = {b}"), "over b/(1 − b)", Estimate::exact(peak.mean * (1.0 - b) / b));
        measured.add(format!("b = {b}"), "best effort 7.5 to 10 τ after, Mbit/s", after);
        measured.add(format!("b = {b}"), "the line afterwards, Mbit/s", line);
        peaks.push((*b, peak));
        checks.check(peak.mean <= 2.0 * b / (1.0 - b), || format!("b = {b}: the peak is {:.2} Cτ", peak.mean));
        checks.below(&format!("b = {b}: best effort, Mbit/s"), after.mean, 1.05 * 100.0 * (1.0 - b));
        checks.check(lost.mean == 0.0, || format!("b = {b}: {:.0} packets lost", lost.mean));
    }
    let means: Vec<f64> = peaks.iter().map(|(_, peak)| peak.mean).collect();
    if let [.., half, more, most] = means[..] {
        checks.check((most - more) / 0.1 > (more - half) / 0.2, || "the peak is not convex beyond b = 0.5".into());
    }
    let law = FRACTIONS.map(|b| (b, Estimate::exact(b / (1.0 - b)))).into();
    let curves =
        vec![RowCurve { name: "here".into(), points: peaks }, RowCurve { name: "b/(1 − b)".into(), points: law }];
    let chart = RowChart {
        title: "peak of the queue, Cτ".into(),
        x_label: "leased fraction b".into(),
        categories: Vec::new(),
        curves,
    };
    let title = "Paper 004, Figure 10: a quasi-leased line appears";
    let picture = Picture { row: "E7", file: "paper-004-figure-10.svg", title, charts: vec![chart] };
    Ok(RowFinding { picture: Some(picture), ..checks.finding(measured) })
}

fn weights(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let weights = [1.0, 2.0, 4.0];
    let mut network = QUEUES.read()?;
    for gone in weights.len()..10 {
        for kind in ["s", "in", "out", "d"] {
            network.remove_nodes(&format!("{kind}{gone}"));
        }
    }
    for (vpn, weight) in network.vpns_mut("*").zip(weights) {
        (vpn.weight, vpn.ingress.increase) = (weight, Some(0.5));
    }
    let outcomes = lab.measure(&[whole_case(&network, "weights 1, 2 and 4", "loops")?])?;
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for (vpn, weight) in weights.iter().enumerate() {
        let share = Estimate::of(outcomes[0].iter().map(|run| {
            let rates = super::super::fairness::rates(run, weights.len(), 20.0, 100.0);
            7.0 * rates[vpn] / rates.iter().sum::<f64>().max(1.0)
        }));
        measured.add(format!("weight {weight}"), "sevenths of the rate", share);
        let off = share.mean / weight - 1.0;
        checks.check(off.abs() <= 0.1, || format!("weight {weight} has {:.2}, {:+.0} %", share.mean, off * 100.0));
    }
    measured.add("utilisation", "", of_link(&outcomes[0], "bottleneck", |link| link.utilisation));
    Ok(checks.finding(measured))
}
