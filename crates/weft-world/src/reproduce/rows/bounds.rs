//! Rows E8 to E11 and E14: the length of queues, and loops that starve.

use super::super::Estimate;
use super::super::case::{FLOOD, LINEAR, QUEUES, whole_case};
use super::super::checks::Checks;
use super::super::fairness::{of_link, of_queue, rate_mbps};
use super::super::laboratory::{Case, Laboratory, Outcomes};
use super::super::row::{Measured, Picture, Row, RowChart, RowCurve, RowFinding};
use crate::network::NetworkRun;
use weft_scenario::{Discipline, NetworkScenario, QueueSize, Traffic};
use weft_units::{Duration, Rate};

pub(super) const ROWS: [Row; 5] = [
    Row {
        id: "E8",
        figure: "Paper 004, §4",
        claim: "one bottleneck's queue is at most N α τ",
        accept: "the fluid law exactly (`weft-core/tests/control_loop/fluid.rs`); here ≤ N α τ + N packets",
        setup: "2, 5 and 10 greedy loops over 10 Mbit/s, α = 1 packet per τ = 40 ms, H = 2 packets",
        examine: one_bottleneck,
    },
    Row {
        id: "E9",
        figure: "Paper 004, §6.2",
        claim: "long loops starve where β > 1 − N α/C",
        accept: "the long loop's rate over its proportional share falls as β rises beyond the bound",
        setup: "two bottlenecks of 10 Mbit/s, four loops across each, β = 0.7 to 0.99; the bound is 0.93",
        examine: starvation,
    },
    Row {
        id: "E10",
        figure: "Paper 004, §6.1",
        claim: "the accumulation's error has a variance of at most 0.5 packets, so H = 2 takes no burst for congestion",
        accept: "less than one false epoch in 100 s at 90 % load, of all loops together",
        setup: "ten loops, Poisson datagrams of 0.9 Mbit/s each, over 10 Mbit/s",
        examine: false_alarms,
    },
    Row {
        id: "E11",
        figure: "Paper 004, §4",
        claim: "with several bottlenecks a queue is at most (N − 1) C τ",
        accept: "below it (random topologies, fluid and packets: `weft-core/tests/control_loop`; here E1's six bottlenecks)",
        setup: "as E1 with M = 6 at 20 Mbit/s",
        examine: several_bottlenecks,
    },
    Row {
        id: "E14",
        figure: "Paper 004, §6.1",
        claim: "who does not use its rate loses it, and a burst does not hurt the queues",
        accept: "the greedy loop has ≥ 95 % while the other is off, from the first moment on; the queue is < 40 packets at each on",
        setup: "a greedy loop, and one of datagrams that is on and off for ten seconds at a time, over 10 Mbit/s",
        examine: use_it_or_lose_it,
    },
];

/// Returns the longest queue of a link of rate `mbps`, in packets of 1000 bytes. Each run gives one value.
fn longest(runs: &Outcomes, network: &NetworkScenario, link: &str, mbps: f64) -> Estimate {
    let place = network.links.iter().position(|known| known.name == link).unwrap_or_default();
    let of = of_queue(runs, place, |queue| queue.longest_ms);
    let packets = mbps * 1e3 / 8_000.0;
    Estimate { mean: of.mean * packets, half_width: of.half_width * packets }
}

/// A setting of row E8: greedy loops over one bottleneck whose queue never overflows.
struct Greedy {
    loops: usize,
    /// Increase α of accumulation control, in packets per τ. τ is 40 ms.
    increase: f64,
    /// H, the upper bound of the accumulation (paper 004), in packets. The lower bound L is three quarters of H.
    high: f64,
    /// T, the interval between two markers of a loop, in ms.
    interval_ms: u64,
}

impl Greedy {
    fn name(&self) -> String {
        format!("{} loops, α = {}, H = {}, T = {} ms", self.loops, self.increase, self.high, self.interval_ms)
    }

    fn case(&self) -> Result<(NetworkScenario, Case), String> {
        let mut network = QUEUES.read()?;
        for gone in self.loops..10 {
            for kind in ["s", "in", "out", "d"] {
                network.remove_nodes(&format!("{kind}{gone}"));
            }
        }
        let (size, discipline) = (QueueSize::Packets(1_000), Discipline::DropTail);
        network.links_mut("bottleneck").for_each(|link| link.set_queue(size, discipline));
        for vpn in network.vpns_mut("*") {
            vpn.ingress.interval = Some(Duration::from_millis(self.interval_ms));
            (vpn.ingress.increase, vpn.ingress.high, vpn.ingress.low) =
                (Some(self.increase), self.high, 0.75 * self.high);
        }
        (network.duration, network.warmup) = (Duration::from_secs(40), Duration::from_secs(10));
        let case = whole_case(&network, &self.name(), "loops")?;
        Ok((network, case))
    }
}

fn one_bottleneck(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let settings = [(1.0, 2.0, 40), (1.0, 2.0, 10), (1.0, 0.5, 10), (0.25, 2.0, 10), (0.25, 0.5, 10)];
    let of = |loops| settings.map(|(increase, high, interval_ms)| Greedy { loops, increase, high, interval_ms });
    let grid: Vec<Greedy> = [2, 5, 10].into_iter().flat_map(of).collect();
    let built = grid.iter().map(Greedy::case).collect::<Result<Vec<_>, _>>()?;
    let outcomes = lab.measure(&built.iter().map(|(_, case)| case.clone()).collect::<Vec<_>>())?;
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for ((this, (network, _)), runs) in grid.iter().zip(&built).zip(&outcomes) {
        let found = longest(runs, network, "bottleneck", 10.0);
        let (loops, name) = (this.loops as f64, this.name());
        let bound = loops * (this.increase + 1.0);
        measured.add(&name, "longest queue, packets", found);
        measured.add(&name, "a loop's part of it", Estimate::exact(found.mean / loops));
        measured.add(&name, "N α τ + N", Estimate::exact(bound));
        if (this.increase, this.high, this.interval_ms) == settings[0] {
            // The queue is measured with an error of up to 6 %.
            checks.below(&format!("{loops} loops: longest queue"), found.mean, 1.06 * bound + 1.0);
        }
    }
    Ok(checks.finding(measured))
}

/// Returns the network of row E1 with this number of bottlenecks, each with this rate.
fn linear(bottlenecks: usize, mbps: u64) -> Result<NetworkScenario, String> {
    let mut network = LINEAR.read()?;
    for number in 1..=6 {
        let kept = number <= bottlenecks;
        for link in network.links_mut(&format!("b{number}")) {
            link.set_rate(Rate::from_mbps(if kept { mbps } else { 1_000 }));
            if !kept {
                link.set_delay(Duration::from_micros(1));
            }
        }
        if !kept {
            network.remove_nodes(&format!("c{number}-*"));
        }
    }
    Ok(network)
}

fn starvation(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let betas = [0.7, 0.8, 0.9, 0.95, 0.99];
    let mut cases = Vec::new();
    for (beta, sees_early) in betas.iter().flat_map(|beta| [(*beta, false), (*beta, true)]) {
        let mut network = linear(2, 10)?;
        network.vpns_mut("*").for_each(|vpn| (vpn.ingress.beta, vpn.ingress.increase) = (beta, Some(1.0)));
        (network.duration, network.warmup) = (Duration::from_secs(60), Duration::from_secs(20));
        network.flows.iter_mut().for_each(|flow| flow.stop = Duration::from_secs(60));
        if sees_early {
            network.vpns_mut("long").for_each(|vpn| (vpn.ingress.high, vpn.ingress.low) = (2.0 / 3.0, 0.5));
        }
        let label = format!("two bottlenecks of 10 Mbit/s, β = {beta}, {sees_early}");
        cases.push(whole_case(&network, &label, "loops")?);
    }
    let outcomes = lab.measure(&cases)?;
    let (mut measured, mut checks, mut points) = (Measured::default(), Checks::default(), Vec::new());
    let b1 = linear(2, 10)?.links.iter().position(|link| link.name == "b1").unwrap_or_default();
    let long = |run: &NetworkRun| {
        let long = run.loops.iter().find(|this| this.which.vpn == 0 && this.which.is_up);
        long.map_or(0.0, |this| this.result.goodput_bps / 1e6 / (10.0 / 9.0))
    };
    for (beta, pair) in betas.iter().zip(outcomes.chunks(2)) {
        let [runs, sees_early] = pair else { continue };
        let share = |runs: &Outcomes| Estimate::of(runs.iter().map(long));
        measured.add(format!("β = {beta}"), "long loop over its proportional share", share(runs));
        measured.add(format!("β = {beta}"), "with H and L a third", share(sees_early));
        measured.add(format!("β = {beta}"), "queue, packets", of_queue(runs, b1, |queue| queue.mean_packets));
        measured.add(format!("β = {beta}"), "utilisation", of_link(runs, "b1", |link| link.utilisation));
        points.push((*beta, share(runs)));
    }
    let mean = |n: usize| points.get(n).map_or(0.0, |(_, share)| share.mean);
    checks.below("the long loop at β = 0.99", mean(4), mean(2));
    let curves = vec![RowCurve { name: "here".into(), points }];
    let chart = RowChart {
        title: "the long loop over its proportional share".into(),
        x_label: "β".into(),
        categories: Vec::new(),
        curves,
    };
    let title = "Paper 004, §6.2: β and starvation";
    let picture = Picture { row: "E9", file: "paper-004-beta.svg", title, charts: vec![chart] };
    Ok(RowFinding { picture: Some(picture), ..checks.finding(measured) })
}

fn false_alarms(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let mut network = QUEUES.read()?;
    let rate = Rate::from_bps(900_000);
    let mut seen = Vec::new();
    network.flows.retain(|flow| {
        !seen.contains(&flow.from) && {
            seen.push(flow.from);
            true
        }
    });
    network.flows.iter_mut().for_each(|flow| flow.traffic = Traffic::Poisson { packet_bytes: 1_000, rate });
    network.vpns_mut("*").for_each(|vpn| vpn.ingress.startup = true);
    let outcomes = lab.measure(&[whole_case(&network, "0.9 Mbit/s of Poisson each", "loops")?])?;
    let runs = &outcomes[0];
    let total = |of: fn(&weft_scenario::VpnResult) -> f64| {
        Estimate::of(runs.iter().map(|run| run.run.vpns.iter().map(of).sum::<f64>()))
    };
    let (carried, dropped) = (total(|vpn| vpn.goodput_bps / 1e6), total(|vpn| vpn.dropped));
    let mut measured = Measured::default();
    measured.add("carried, Mbit/s of 9", "", carried);
    measured.add("dropped at the edges in 80 s", "", dropped);
    let counted_s = (network.duration - network.warmup).as_secs_f64();
    let epochs = Estimate::of(
        runs.iter().map(|run| run.loops.iter().map(|this| f64::from(this.epochs)).sum::<f64>() * 100.0 / counted_s),
    );
    measured.add("false epochs in 100 s, all loops", "", epochs);
    let mut checks = Checks::default();
    checks.below("false epochs in 100 s", epochs.mean, 1.0);
    Ok(checks.finding(measured))
}

fn several_bottlenecks(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let mut network = linear(6, 20)?;
    (network.duration, network.warmup) = (Duration::from_secs(30), Duration::from_millis(1));
    let outcomes = lab.measure(&[whole_case(&network, "six bottlenecks of 20 Mbit/s", "loops")?])?;
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    let bound = 24.0 * 20e6 * 0.054 / 8_000.0;
    let all = (1..=6).map(|m| longest(&outcomes[0], &network, &format!("b{m}"), 20.0));
    let found = all.max_by(|a, b| a.mean.total_cmp(&b.mean)).unwrap_or(Estimate::exact(0.0));
    measured.add("longest queue, packets", "", found);
    measured.add("(N − 1) C τ, packets", "", Estimate::exact(bound));
    checks.below("the longest queue", found.mean, bound);
    Ok(checks.finding(measured))
}

fn use_it_or_lose_it(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let mut network = FLOOD.read()?;
    let bursts = network.flows_mut("flood").next().cloned();
    let bursts = bursts.ok_or("`paper-004-figure-8` has no flow `flood`")?;
    network.flows.retain(|flow| flow.name != "flood");
    for n in 0..3 {
        let start = Duration::from_secs(20 + 20 * n);
        let stop = start + Duration::from_secs(10);
        let name = format!("flood{n}");
        network.flows.push(weft_scenario::NetworkFlow { name, start, stop, ..bursts.clone() });
    }
    network.duration = Duration::from_secs(80);
    network.flows_mut("tcp").for_each(|flow| flow.stop = Duration::from_secs(80));
    let outcomes = lab.measure(&[whole_case(&network, "on and off for 10 s", "loops")?])?;
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for n in 0..3 {
        let off = 30.0 + 20.0 * f64::from(n);
        let alone = rate_mbps(&outcomes[0], 2, 0, off, off + 10.0);
        let beside = rate_mbps(&outcomes[0], 2, 0, off - 8.0, off);
        measured.add(format!("cycle {}", n + 1), "beside the other, Mbit/s", beside);
        measured.add(format!("cycle {}", n + 1), "alone, all ten seconds, Mbit/s", alone);
        checks.at_least(&format!("cycle {}: alone, Mbit/s", n + 1), alone.mean, 9.5);
    }
    let queue = longest(&outcomes[0], &network, "bottleneck", 10.0);
    measured.add("longest queue, packets", "", queue);
    checks.below("the longest queue", queue.mean, 40.0);
    Ok(checks.finding(measured))
}
