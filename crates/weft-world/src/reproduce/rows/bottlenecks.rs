//! Rows D4, D5, E1, E2 and E12: loops that cross several bottlenecks.

use super::super::Estimate;
use super::super::case::{LINEAR, THREE_BOTTLENECKS, whole_case};
use super::super::checks::Checks;
use super::super::fairness::{index_curve, mean_index, of_link, rate_mbps, settling};
use super::super::laboratory::{Case, Laboratory, Outcomes};
use super::super::row::{Measured, Picture, Row, RowChart, RowCurve, RowFinding, RowVerdict};
use crate::network::NetworkRun;
use weft_scenario::{NetworkScenario, NetworkVpn};
use weft_units::{Duration, Rate};

pub(super) const ROWS: [Row; 5] = [
    Row {
        id: "D4",
        figure: "Paper 003, Figure 8",
        claim: "over links of 20, 10 and B₃ Mbit/s F > 0.95 for B₃ = 10, 20, 30, settled after about 10 s",
        accept: "F ≥ 0.95 after 15 s; each VPN within 10 % of its max-min rate",
        setup: "VPN 1 over all three, 2 to 4 over one each, 30 TCP each; weights of table III; a = 0.5, b₁ = 0.01, 200 packets; B₃ = 30 Mbit/s also for 200 s",
        examine: max_min,
    },
    Row {
        id: "D5",
        figure: "Paper 003, text",
        claim: "settled after “approximately 16 times of the round-trip time”, which is 0.312 s",
        accept: "the paper contradicts itself: 10 s are 32 round trips, 16 of them 5 s; recorded",
        setup: "as D4 with B₃ = 10 Mbit/s",
        examine: sixteen_round_trips,
    },
    Row {
        id: "E1",
        figure: "Paper 004, Figure 6a",
        claim: "over M bottlenecks with four loops across each the long loop's rate lies between proportional and minimum-potential-delay fairness, nearer the first",
        accept: "between C/(1 + 4M) and C/(1 + 4√M), nearer the first (± 5 %)",
        setup: "M = 1 to 6, 100 Mbit/s and 4 ms each; α = 1 packet, β = 0.95, H = 2, L = 1.5, τ = T = 54 ms",
        examine: long_loop,
    },
    Row {
        id: "E2",
        figure: "Paper 004, Figures 6b and 6c",
        claim: "the longest queue is below 40 packets, the links are full, nothing is lost",
        accept: "< 40 packets, > 97 %, 0 lost",
        setup: "as E1",
        examine: short_queues,
    },
    Row {
        id: "E12",
        figure: "Paper 004, §4",
        claim: "loops may have a τ of their own, as long as it exceeds their round trip",
        accept: "with each loop's own τ the long loop's share is within 10 % of E1's",
        setup: "as E1 with M = 2 and 4; the crossing loops' τ is 14 ms, their α the same rate as before, 14/54 packets",
        examine: own_tau,
    },
];

const END_S: f64 = 50.0;
/// Each entry: rate of the third bottleneck B₃ in Mbit/s, weights of the VPNs, and max-min fair rates in Mbit/s.
const THIRD_LINKS: [(u64, [f64; 4], [f64; 4]); 3] = [
    (10, [1.0, 3.0, 1.0, 1.0], [5.0, 15.0, 5.0, 5.0]),
    (20, [1.0, 3.0, 1.0, 3.0], [5.0, 15.0, 5.0, 15.0]),
    (30, [1.0, 3.0, 1.0, 5.0], [5.0, 15.0, 5.0, 25.0]),
];

fn three_bottlenecks(third_mbps: u64, weights: &[f64; 4], variant: &str) -> Result<Case, String> {
    let mut network = THREE_BOTTLENECKS.read()?;
    network.links_mut("b3").for_each(|link| link.set_rate(Rate::from_mbps(third_mbps)));
    network.vpns_mut("*").zip(weights).for_each(|(vpn, weight)| vpn.weight = *weight);
    whole_case(&network, &format!("B₃ = {third_mbps} Mbit/s"), variant)
}

fn max_min(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let variants = ["without", "windows", "windows-by-increase"];
    let grid = THIRD_LINKS.iter().flat_map(|(mbps, weights, _)| variants.map(|v| three_bottlenecks(*mbps, weights, v)));
    let outcomes = lab.measure(&grid.collect::<Result<Vec<_>, _>>()?)?;
    let (mut measured, mut checks, mut charts) = (Measured::default(), Checks::default(), Vec::new());
    for ((mbps, weights, fair), of_link) in THIRD_LINKS.iter().zip(outcomes.chunks(variants.len())) {
        let mut curves = Vec::new();
        for (variant, runs) in variants.iter().zip(of_link) {
            let name = format!("B₃ = {mbps}, {variant}");
            let late = mean_index(runs, weights, 1.0, 15.0, END_S);
            measured.add(&name, "F after 15 s", late);
            let rates: Vec<Estimate> = (0..4).map(|vpn| rate_mbps(runs, 4, vpn, 15.0, END_S)).collect();
            for (vpn, rate) in rates.iter().enumerate() {
                measured.add(&name, format!("VPN {}, Mbit/s", vpn + 1), *rate);
            }
            if *variant == "windows" {
                checks.at_least(&format!("F with {name}"), late.mean, 0.95);
                for (vpn, (rate, fair)) in rates.iter().zip(fair).enumerate() {
                    let off = rate.mean / fair - 1.0;
                    checks.check(off.abs() <= 0.1, || {
                        format!("{name}: VPN {} has {:.1} of {fair} Mbit/s, {:+.0} %", vpn + 1, rate.mean, off * 100.0)
                    });
                }
            }
            curves.push(RowCurve { name: (*variant).into(), points: index_curve(runs, weights, END_S) });
        }
        let title = format!("F of each second, B₃ = {mbps} Mbit/s");
        charts.push(RowChart { title, x_label: "time, s".into(), categories: Vec::new(), curves });
    }
    after_long(lab, &mut measured)?;
    let title = "Paper 003, Figure 8: max-min fairness over three bottlenecks";
    let picture = Picture { row: "D4", file: "paper-003-figure-8.svg", title, charts };
    Ok(RowFinding { picture: Some(picture), ..checks.finding(measured) })
}

/// Length in seconds of the runs that show the VPNs' rates after a long time.
const LONG_S: u64 = 200;

/// Measures the first VPN's rate with B₃ = 30 Mbit/s over a run four times as long as the paper's.
fn after_long(lab: &mut Laboratory, measured: &mut Measured) -> Result<(), String> {
    let (mbps, weights, _) = THIRD_LINKS[2];
    for variant in ["windows", "windows-by-increase"] {
        let mut case = three_bottlenecks(mbps, &weights, variant)?;
        let length = Duration::from_secs(LONG_S);
        case.network.flows.iter_mut().for_each(|flow| flow.stop = length);
        (case.length, case.name) = (Some([length, case.network.warmup]), format!("{}, {LONG_S} s", case.name));
        let outcomes = lab.measure(&[case])?;
        for from_s in [25.0, 75.0, 125.0, 175.0] {
            let rate = rate_mbps(&outcomes[0], 4, 0, from_s, from_s + 25.0);
            measured.add(format!("B₃ = {mbps}, {variant}: VPN 1, Mbit/s"), format!("from {from_s} s"), rate);
        }
    }
    Ok(())
}

fn sixteen_round_trips(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let (mbps, weights, _) = THIRD_LINKS[0];
    let outcomes = lab.measure(&[three_bottlenecks(mbps, &weights, "windows")?])?;
    let runs = &outcomes[0];
    let settled = settling(runs, &weights, 0.95, END_S);
    let longest = |run: &NetworkRun| {
        let up = run.loops.iter().filter(|this| this.which.is_up);
        up.filter_map(|this| this.result.rtt_ms).fold(0.0, f64::max) / 1e3
    };
    let round_trip = Estimate::of(runs.iter().map(longest));
    let mut measured = Measured::default();
    measured.add("settled (F ≥ 0.95), s", "", settled);
    measured.add("longest round trip of a loop, s", "", round_trip);
    measured.add("in round trips", "", Estimate::exact(settled.mean / round_trip.mean.max(1e-9)));
    Ok(RowFinding { measured, verdict: RowVerdict::Reported, ..RowFinding::default() })
}

const MOST: usize = 6;
const CAPACITY_MBPS: f64 = 100.0;

/// Returns a case of row E1 with this number of bottlenecks.
///
/// The links of the scenario after them are fast and are crossed by no other loop.
fn linear(bottlenecks: usize, label: &str, change: impl Fn(&mut NetworkScenario)) -> Result<Case, String> {
    linear_of(bottlenecks, label, "loops", change)
}

fn linear_of(m: usize, label: &str, variant: &str, change: impl Fn(&mut NetworkScenario)) -> Result<Case, String> {
    let mut network = LINEAR.read()?;
    for number in m + 1..=MOST {
        network.remove_nodes(&format!("c{number}-*"));
        for link in network.links_mut(&format!("b{number}")) {
            link.set_rate(Rate::from_mbps(1_000));
            link.set_delay(Duration::from_micros(1));
        }
    }
    change(&mut network);
    whole_case(&network, &format!("{m} bottlenecks{label}"), variant)
}

fn all_lengths(lab: &mut Laboratory) -> Result<Vec<Outcomes>, String> {
    lab.measure(&(1..=MOST).map(|m| linear(m, "", |_| ())).collect::<Result<Vec<_>, _>>()?)
}

/// Returns the rate of the loop that crosses all bottlenecks, in Mbit/s. Each run gives one value.
fn long_rate(runs: &Outcomes) -> Estimate {
    let of = |run: &NetworkRun| {
        let long = run.loops.iter().find(|this| this.which.vpn == 0 && this.which.is_up);
        long.map_or(0.0, |this| this.result.goodput_bps / 1e6)
    };
    Estimate::of(runs.iter().map(of))
}

fn long_loop(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let outcomes = all_lengths(lab)?;
    let early = |network: &mut NetworkScenario| {
        let third = |vpn: &mut NetworkVpn| (vpn.ingress.high, vpn.ingress.low) = (2.0 / 3.0, 0.5);
        network.vpns_mut("long").for_each(third);
    };
    let sees_early = lab.measure(&[linear(4, ", the long loop's H and L a third", early)?])?;
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    let mut curves: Vec<RowCurve> = ["proportional", "here", "minimum potential delay"]
        .map(|name| RowCurve { name: name.into(), points: Vec::new() })
        .into();
    for (m, runs) in (1..).map(f64::from).zip(&outcomes) {
        let (least, most) = (CAPACITY_MBPS / (1.0 + 4.0 * m), CAPACITY_MBPS / (1.0 + 4.0 * m.sqrt()));
        let rate = long_rate(runs);
        measured.add(format!("M = {m}"), "proportional", Estimate::exact(least));
        measured.add(format!("M = {m}"), "here, Mbit/s", rate);
        measured.add(format!("M = {m}"), "minimum potential delay", Estimate::exact(most));
        for (curve, value) in curves.iter_mut().zip([Estimate::exact(least), rate, Estimate::exact(most)]) {
            curve.points.push((m, value));
        }
        checks.at_least(&format!("M = {m}: the long loop, Mbit/s"), rate.mean, 0.95 * least);
        let nearer = if m == 1.0 { 1.05 * least } else { 1.05 * (least + most) / 2.0 };
        checks.below(&format!("M = {m}: the long loop, Mbit/s"), rate.mean, nearer);
    }
    beside(lab, &mut measured)?;
    let chart = RowChart {
        title: "the long loop's rate, Mbit/s".into(),
        x_label: "bottlenecks".into(),
        categories: Vec::new(),
        curves,
    };
    measured.add("M = 4, the long loop's H and L a third, Mbit/s", "", long_rate(&sees_early[0]));
    let title = "Paper 004, Figure 6a: between proportional and minimum-potential-delay fairness";
    let picture = Picture { row: "E1", file: "paper-004-figure-6.svg", title, charts: vec![chart] };
    Ok(RowFinding { picture: Some(picture), ..checks.finding(measured) })
}

/// Measures the loop that crosses all bottlenecks with other control algorithms, over two and four bottlenecks.
///
/// Max-min fairness would give 20 Mbit/s to the loop that crosses all bottlenecks.
fn beside(lab: &mut Laboratory, measured: &mut Measured) -> Result<(), String> {
    for m in [2, 4] {
        let names = ["loops", "windows", "explicit-rate"];
        let cases = names.iter().map(|variant| linear_of(m, "", variant, |_| ())).collect::<Result<Vec<_>, _>>()?;
        for (name, runs) in ["accumulation", "windows", "explicit-rate"].iter().zip(&lab.measure(&cases)?) {
            let name = format!("M = {m}, law: {name}");
            measured.add(&name, "the long loop, Mbit/s", long_rate(runs));
            measured.add(&name, "utilisation of the first", of_link(runs, "b1", |link| link.utilisation));
            measured.add(&name, "queue at the first, p95, ms", of_link(runs, "b1", |link| link.queue_ms_p95));
            measured.add(&name, "lost at the first", of_link(runs, "b1", |link| link.lost));
        }
    }
    Ok(())
}

fn short_queues(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let outcomes = all_lengths(lab)?;
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for (m, runs) in (1usize..).zip(&outcomes) {
        // Links are in the scenario's order, with the bottlenecks first.
        let longest = |run: &NetworkRun| {
            let ms = run.queues.iter().take(m).map(|[up, _]| up.longest_ms).fold(0.0, f64::max);
            ms * CAPACITY_MBPS * 1e3 / 8_000.0
        };
        let least =
            |run: &NetworkRun| run.run.links.iter().step_by(2).take(m).map(|l| l.utilisation).fold(1.0, f64::min);
        let lost = |run: &NetworkRun| run.run.links.iter().map(|link| link.lost).sum::<f64>();
        let [longest, least, lost] =
            [&longest as &dyn Fn(&NetworkRun) -> f64, &least, &lost].map(|of| Estimate::of(runs.iter().map(of)));
        measured.add(format!("M = {m}"), "longest queue, packets", longest);
        measured.add(format!("M = {m}"), "least utilisation", least);
        measured.add(format!("M = {m}"), "lost", lost);
        checks.below(&format!("M = {m}: longest queue"), longest.mean, 40.0);
        checks.at_least(&format!("M = {m}: utilisation"), least.mean, 0.97);
        checks.below(&format!("M = {m}: packets lost"), lost.mean, 0.5);
    }
    Ok(checks.finding(measured))
}

fn own_tau(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let short = |network: &mut NetworkScenario| {
        for vpn in network.vpns_mut("cross*") {
            (vpn.ingress.tau, vpn.ingress.increase) = (Some(Duration::from_millis(14)), Some(14.0 / 54.0));
        }
    };
    let lengths = [2, 4];
    let mut cases = Vec::new();
    for m in lengths {
        cases.push(linear(m, "", |_| ())?);
        cases.push(linear(m, ", own τ", short)?);
    }
    let outcomes = lab.measure(&cases)?;
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for (m, pair) in lengths.iter().zip(outcomes.chunks(2)) {
        let rates: Vec<Estimate> = pair.iter().map(long_rate).collect();
        let [equal, own] = rates[..] else { continue };
        measured.add(format!("M = {m}"), "equal τ, Mbit/s", equal);
        measured.add(format!("M = {m}"), "own τ, Mbit/s", own);
        let off = own.mean / equal.mean.max(1e-9) - 1.0;
        checks.check(off.abs() <= 0.1, || format!("M = {m}: the long loop's share is {:+.0} % off", off * 100.0));
    }
    Ok(checks.finding(measured))
}
