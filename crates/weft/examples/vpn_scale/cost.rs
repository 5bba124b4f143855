//! Measures the processor time per packet at each node, and the memory per VPN.

use crate::meter;
use crate::pair::{Load, Pair};
use crate::table::Table;
use std::sync::Arc;
use std::time::Duration;
use weft_core::control_loop::LoopConfig;
use weft_core::control_loop::accumulation::AccumulationConfig;
use weft_core::control_loop::aimd_window::AimdConfig;
use weft_units::Rate;

/// Time until paths and loops have found their rates; within it each of 100,000 VPNs has had a turn.
const WARM_UP: Duration = Duration::from_secs(3);
/// Number of measuring intervals of which a figure is the median.
const SLICES: usize = 15;
/// Length of a measuring interval.
///
/// Intervals of the compared cases alternate, because the machine's speed varies over time.
const SLICE: Duration = Duration::from_millis(200);
/// Number of VPNs with traffic where not all have any, as in the paper's prototype (paper 003, §VI).
const ACTIVE: u32 = 100;

/// A case to measure.
struct Case {
    name: String,
    vpns: u32,
    active: u32,
    mbps: u64,
    control: Option<LoopConfig>,
}

/// Processor time per packet at each node in nanoseconds, and per second of traffic in seconds.
struct Figures {
    ingress_ns: f64,
    egress_ns: f64,
    share: f64,
    /// Fraction of the sent packets that arrived; a window may limit it.
    arrived: f64,
}

impl Figures {
    fn total_ns(&self) -> f64 {
        self.ingress_ns + self.egress_ns
    }
}

fn laws() -> [(&'static str, Option<LoopConfig>); 3] {
    [
        ("no loop", None),
        ("aimd-window", Some(LoopConfig::AimdWindow(AimdConfig::default()))),
        ("accumulation", Some(LoopConfig::Accumulation(Arc::new(AccumulationConfig::default())))),
    ]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures all cases side by side.
fn measure(cases: &[Case]) -> Vec<Figures> {
    let load = |case: &Case| {
        let rate = Rate::from_mbps(case.mbps);
        Some((case.vpns, Load { active: case.active, rate, both_ways: false }))
    };
    let mut pairs: Vec<Pair> = cases.iter().map(|case| Pair::new(case.vpns, case.control.as_ref())).collect();
    for (pair, case) in pairs.iter_mut().zip(cases) {
        pair.run(WARM_UP, load(case));
    }
    let mut slices = vec![(Vec::new(), Vec::new(), Vec::new()); cases.len()];
    let mut totals = vec![(0, 0); cases.len()];
    for _ in 0..SLICES {
        let running = pairs.iter_mut().zip(cases).zip(&mut totals).zip(&mut slices);
        for (((pair, case), (sent, arrived)), (ingress, egress, share)) in running {
            let cost = pair.run(SLICE, load(case));
            let packets = cost.delivered[1].max(1);
            *sent += cost.sent[0];
            *arrived += cost.delivered[1];
            let ns = |node: usize| cost.used[node].as_nanos() as f64 / packets as f64;
            ingress.push(ns(0));
            egress.push(ns(1));
            share.push((cost.used[0] + cost.used[1]).as_secs_f64() / SLICE.as_secs_f64());
        }
    }
    let figures = |((ingress, egress, share), (sent, arrived)): (_, (u64, u64))| Figures {
        ingress_ns: median(ingress),
        egress_ns: median(egress),
        share: median(share),
        arrived: arrived as f64 / sent as f64,
    };
    slices.into_iter().zip(totals).map(figures).collect()
}

/// Measures one VPN up to very many, with 100 of them active, and with all.
pub fn by_number(table: &mut Table) {
    for (law, control) in laws() {
        let numbers =
            [(1, 1), (100, ACTIVE), (10_000, ACTIVE), (100_000, ACTIVE), (10_000, 10_000), (100_000, 100_000)];
        let cases = numbers.map(|(vpns, active)| Case {
            name: format!("{law}, {vpns} VPNs, {active} active"),
            vpns,
            active,
            mbps: 1_000,
            control: control.clone(),
        });
        let figures = measure(&cases);
        for (Case { name, active, .. }, of) in cases.iter().zip(&figures) {
            let ratio = of.total_ns() / figures[0].total_ns();
            table.add(&format!("{name}: ingress"), of.ingress_ns, "ns/packet", None);
            table.add(&format!("{name}: egress"), of.egress_ns, "ns/packet", None);
            table.add(&format!("{name}: came out"), of.arrived * 100.0, "%", None);
            table.add(&format!("{name}: beside one VPN"), ratio, "×", (*active <= ACTIVE).then_some(1.5));
        }
    }
}

/// Measures the additional cost of loops at 100 VPNs and 100 Mbit/s (row D7).
pub fn of_loops(table: &mut Table) {
    let cases = laws().map(|(law, control)| Case {
        name: format!("{law}, 100 VPNs, 100 Mbit/s"),
        vpns: ACTIVE,
        active: ACTIVE,
        mbps: 100,
        control,
    });
    let figures = measure(&cases);
    for (Case { name, control, .. }, of) in cases.iter().zip(&figures) {
        table.add(&format!("{name}: both nodes"), of.share * 100.0, "% of a core", None);
        table.add(&format!("{name}: both nodes"), of.total_ns(), "ns/packet", None);
        if control.is_some() {
            let (share, ns) = (of.share - figures[0].share, of.total_ns() - figures[0].total_ns());
            table.add(&format!("{name}: the loops' part"), share * 100.0, "% of a core", Some(0.173));
            table.add(&format!("{name}: the loops' part"), ns, "ns/packet", None);
        }
    }
}

/// Measures the processor time over the rate.
///
/// It checks for a straight line (row D7), and computes the rate that one core carries (row D10).
pub fn by_rate(table: &mut Table) {
    let [_, (law, control), _] = laws();
    let cases = [10, 20, 50, 100, 200, 500, 1_000].map(|mbps| Case {
        name: format!("{law}, 100 VPNs, {mbps} Mbit/s"),
        vpns: ACTIVE,
        active: ACTIVE,
        mbps,
        control: control.clone(),
    });
    let mut points = Vec::new();
    for (case, of) in cases.iter().zip(measure(&cases)) {
        table.add(&format!("{}: both nodes", case.name), of.share * 100.0, "% of a core", None);
        points.push((case.mbps as f64 / 100.0 * of.arrived, of.share * 100.0));
    }
    let (slope, r_squared) = line(&points);
    table.add("the line through them: slope", slope, "% of a core per 100 Mbit/s", None);
    table.add("the line through them: R²", r_squared, "", None);
    table.add("what a core carries for both nodes by that slope", 10.0 / slope, "Gbit/s", None);
}

/// Returns the slope and R² of the least-squares line.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let xy = sum(&|p| (p.0 - x) * (p.1 - y));
    let (xx, yy) = (sum(&|p| (p.0 - x).powi(2)), sum(&|p| (p.1 - y).powi(2)));
    (xy / xx, xy * xy / (xx * yy))
}

/// Measures the heap per VPN at one node, in bytes (row D9).
pub fn memory(table: &mut Table) {
    for (law, control) in laws() {
        for (vpns, active) in [(100_000, 0), (100, 100), (10_000, 10_000)] {
            let heap = |vpns| {
                let before = meter::heap_bytes();
                let pair = Pair::new(vpns, control.as_ref());
                (meter::heap_bytes() - before, pair)
            };
            let (without, plain) = heap(0);
            drop(plain);
            let (with, mut pair) = heap(vpns);
            let per_vpn = |bytes: i64, of: u32| bytes as f64 / f64::from(2 * of);
            if active == 0 {
                table.add(
                    &format!("{law}: an idle VPN, of {vpns}"),
                    per_vpn(with - without, vpns),
                    "bytes",
                    Some(2_048.0),
                );
                continue;
            }
            pair.tidy();
            let before = meter::heap_bytes() - pair.buffer_bytes();
            pair.run(WARM_UP, Some((vpns, Load { active, rate: Rate::from_mbps(200), both_ways: true })));
            // Packets still in transit are not counted as memory of the VPNs.
            pair.run(Duration::from_millis(100), None);
            pair.tidy();
            let busy = meter::heap_bytes() - pair.buffer_bytes() - before + with - without;
            table.add(&format!("{law}: a busy VPN, of {active}"), per_vpn(busy, active), "bytes", Some(16_384.0));
        }
    }
}
