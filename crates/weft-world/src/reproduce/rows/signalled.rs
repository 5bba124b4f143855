//! Rows B1, B2, B6 and B11: rates that routers grant by signals in the packets, and the cost of encapsulation.

use super::super::Estimate;
use super::super::case::{
    CompiledScenario, EXCHANGE, OVER_LEGACY, OVERLAY, QUICK_START, THREE_ROUTERS, case, whole_case,
};
use super::super::checks::Checks;
use super::super::laboratory::{Case, Laboratory, Outcomes};
use super::super::row::{Measured, Row, RowFinding};
use super::super::sweep::goodput_mbps;
use crate::network::NetworkRun;
use weft_core::fair::solve::max_min;
use weft_scenario::{Capacity, CongestionControl, NetworkScenario, TcpRecovery, Traffic};
use weft_units::{Duration, Rate};

pub(super) const ROWS: [Row; 4] = [
    Row {
        id: "B1",
        figure: "Paper 001, Figure 2",
        claim: "request, response and confirmation: AR is the least of the routers', 32 Mbit/s, and what was booked beyond is released",
        accept: "exact, also when signals are lost, repeated, reordered and forged; state goes when nobody speaks of it; four flows over three links within 10 % of max-min",
        setup: "routers of 64, 32 and 40 Mbit/s; guaranteed: 24 Mbit/s are asked for, of which 32, 16 and 20 may be; meddled: at one router a tenth of all signals is lost, a tenth repeated, a tenth overtaken, and as many come with rates and messages changed under a tag that is guessed; lost: 2 % of all packets, both ways, on each link; stopped: the flow ends without a word after 5 s, and a ping goes on",
        examine: exchange,
    },
    Row {
        id: "B2",
        figure: "Paper 001, §IV-A",
        claim: "a sender jumps to GR + AR within a round trip",
        accept: "at least 95 % of ER in the second round trip; 1 MB over 200 ms at least 3 times faster than by CUBIC",
        setup: "Figure 2's path with a round trip of 200 ms, and links of 32 and of 100 Mbit/s; the second round trip is the first of data, looked at from 1.5 to 2.5 round trips after the SYN, at the receiver",
        examine: jump,
    },
    Row {
        id: "B6",
        figure: "Paper 001, §V",
        claim: "without loss or delay 94 Mbit/s of 100 were expected, and 72 with three encapsulations",
        accept: "at least 72 % of the raw link with three",
        setup: "Ethernet of 100 Mbit/s with 38 B around each packet of 1500; each layer takes the 60 B that a full datagram of weft has over its packet; TCP-ER at the link's rate, 2 ms round trip",
        examine: layers,
    },
    Row {
        id: "B11",
        figure: "Paper 001, §IV-B",
        claim: "an overlay grants explicit rates with GR = 0 over what it senses; Quick-Start over it",
        accept: "AR within 15 % of max-min, also over a legacy path; Quick-Start accepted end to end",
        setup: "three overlay nodes; behind the first a legacy path of 50 Mbit/s, of which datagrams take 20; the second link has 40. all: the legacy path's routers are of the overlay, too; sensed: they are not, and the overlay goes by pairs of probes (Spruce; 2.5 % of the path) and their delay; granted by PI and by ERICA+. Quick-Start: two connections ask for 20 Mbit/s one 0.1 s after the other, and send 1 MB each by CUBIC; round trip 122 ms; plain: the legacy path is crossed without the overlay's encapsulation",
        examine: overlay,
    },
];

const MBPS: f64 = 1e6;
/// The rate that Quick-Start grants for 20 Mbit/s: 40 kbit/s · 2⁹, in bit/s.
const QUICK_BPS: u64 = 20_480_000;
/// Fraction of the granted rate that is TCP payload. The granted rate includes the IP and TCP headers.
const PAYLOAD: f64 = 1_448.0 / 1_500.0;

fn variant(
    file: CompiledScenario,
    name: &str,
    label: &str,
    change: impl FnOnce(&mut NetworkScenario),
) -> Result<Case, String> {
    let mut network = file.read()?;
    change(&mut network);
    whole_case(&network, label, name)
}

/// Returns the estimate of a value over all runs. `of` computes the value of one run.
fn each(outcomes: &Outcomes, of: impl Fn(&NetworkRun) -> f64) -> Estimate {
    Estimate::of(outcomes.iter().map(of))
}

fn granted_mbps(outcomes: &Outcomes, flow: usize) -> Estimate {
    each(outcomes, |run| run.granted_bps.get(flow).copied().flatten().unwrap_or(0) as f64 / MBPS)
}

fn booked_mbps(outcomes: &Outcomes, link: usize) -> Estimate {
    each(outcomes, |run| run.booked_bps.get(link).map_or(0, |[up, _]| *up) as f64 / MBPS)
}

fn is_exactly(found: Estimate, value: f64) -> bool {
    let [low, high] = found.interval();
    low == value && high == value
}

fn exchange(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let lossy = |network: &mut NetworkScenario| {
        network.links_mut("*").flat_map(|link| link.directions_mut()).for_each(|way| way.loss = 0.02);
    };
    let stopped = |network: &mut NetworkScenario| {
        network.duration = Duration::from_secs(45);
        network.flows_mut("ping").for_each(|flow| flow.stop = Duration::from_secs(45));
        network.flows_mut("bulk").for_each(|flow| flow.stop = Duration::from_secs(5));
    };
    let cases = [
        ("available", variant(EXCHANGE, "available", "as in the file", |_| {})?, 0.0),
        ("guaranteed", variant(EXCHANGE, "guaranteed", "as in the file", |_| {})?, 16.0),
        ("lost", variant(EXCHANGE, "guaranteed", "2 % lost", lossy)?, 16.0),
        ("meddled", variant(EXCHANGE, "meddled", "as in the file", |_| {})?, 16.0),
        ("stopped", variant(EXCHANGE, "guaranteed", "stopped", stopped)?, 0.0),
    ];
    let outcomes = lab.measure(&cases.each_ref().map(|(_, case, _)| case.clone()))?;
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for ((name, _, booked), outcomes) in cases.iter().zip(&outcomes) {
        let granted = granted_mbps(outcomes, 0);
        measured.add(*name, "granted, Mbit/s", granted);
        checks.check(is_exactly(granted, 32.0), || format!("{name} is granted {:.3} Mbit/s", granted.mean));
        for (link, router) in [(1, "R0"), (2, "R1"), (3, "R2")] {
            let found = booked_mbps(outcomes, link);
            measured.add(*name, format!("booked at {router}, Mbit/s"), found);
            checks.check(is_exactly(found, *booked), || format!("{name} has {:.2} booked at {router}", found.mean));
        }
    }
    let fair = max_min(&[40.0, 30.0, 60.0], &[&[0, 1, 2], &[0], &[1], &[2]], &[1.0; 4]);
    let names = ["left-alone", "meddled"];
    let several = names.map(|name| variant(THREE_ROUTERS, name, "as in the file", |_| {}));
    let several = several.into_iter().collect::<Result<Vec<_>, _>>()?;
    for (name, outcomes) in names.iter().zip(lab.measure(&several)?) {
        near(&fair, &outcomes, 0.1, name, &mut measured, &mut checks);
    }
    Ok(checks.finding(measured))
}

/// Adds the granted rate of each flow to `measured`, and checks that it is near the flow's fair rate.
///
/// `fair` has the fair rates in Mbit/s, and `within` is the maximum relative difference.
fn near(fair: &[f64], outcomes: &Outcomes, within: f64, name: &str, measured: &mut Measured, checks: &mut Checks) {
    for (flow, fair) in fair.iter().enumerate() {
        let granted = granted_mbps(outcomes, flow);
        measured.add(format!("{name}, granted, Mbit/s"), format!("flow {} (max-min {fair:.1})", flow + 1), granted);
        checks.check((granted.mean / fair - 1.0).abs() <= within, || {
            format!("{name}: flow {} is granted {:.2}, max-min {fair:.2}", flow + 1, granted.mean)
        });
    }
}

const ROUND_TRIP: Duration = Duration::from_millis(200);
const MEGABYTE: u64 = 1_000_000;

/// Returns a case of paper 001, Figure 2, a chain of links, with a round trip of 200 ms.
///
/// If `rate` is given, it is the rate of all links but the first. `size_bytes` is the size of the transfer (`None`:
/// endless), and `name` that of the variant.
fn long_path(rate: Option<Rate>, size_bytes: Option<u64>, name: &str) -> Result<Case, String> {
    let mut network = EXCHANGE.read()?;
    for link in network.links_mut("*").filter(|link| link.name != "access") {
        for way in link.directions_mut() {
            way.delay = Duration::from_millis(33);
            if let Some(rate) = rate {
                way.capacity = Capacity::Rate(rate);
            }
        }
    }
    network.flows_mut("bulk").for_each(|flow| flow.traffic = Traffic::Ftp { size_bytes });
    let label = format!("{} Mbit/s, {size_bytes:?}", rate.map_or(32, |rate| rate.bps() / 1_000_000));
    case(&network, &label, name)
}

fn jump(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    let second = Some([ROUND_TRIP * 5 / 2, ROUND_TRIP * 3 / 2]);
    let minute = Some([Duration::from_secs(60), Duration::ZERO]);
    for (mbps, rate, least) in [(32.0, None, 3.0), (100.0, Some(Rate::from_mbps(100)), 3.0)] {
        let begun = Case { length: second, ..long_path(rate, None, "available")? };
        let transfer = |name| Ok::<_, String>(Case { length: minute, ..long_path(rate, Some(MEGABYTE), name)? });
        let outcomes = lab.measure(&[begun, transfer("available")?, transfer("cubic")?])?;
        let [begun, explicit, cubic] = &outcomes[..] else { return Err("a case of the row has no result".into()) };
        let share = goodput_mbps(begun).mean / (mbps * PAYLOAD);
        let took = |outcomes: &Outcomes| {
            each(outcomes, |run| run.transfers.first().map_or(0.0, |sum| sum.total_s / (sum.completed as f64)))
        };
        let [explicit, cubic] = [took(explicit), took(cubic)];
        let times = cubic.mean / explicit.mean;
        let row = format!("{mbps} Mbit/s");
        measured.add(&row, "of ER in the second round trip", Estimate::exact(share));
        measured.add(&row, "1 MB, s", explicit);
        measured.add(&row, "1 MB by CUBIC, s", cubic);
        measured.add(&row, "times faster", Estimate::exact(times));
        // The shortest possible transfer takes one round trip for the handshake, one until the last acknowledgment, and
        // the transmission time.
        let least_s = 2.0 * ROUND_TRIP.as_secs_f64() + MEGABYTE as f64 * 8.0 / 1e6 / (mbps * PAYLOAD);
        measured.add(&row, "at most, times", Estimate::exact(cubic.mean / least_s));
        checks.at_least(&format!("the share of {mbps} Mbit/s"), share, 0.95);
        checks.at_least(&format!("1 MB over {mbps} Mbit/s, times faster,"), times, least);
    }
    Ok(checks.finding(measured))
}

/// Ethernet bytes around a packet: preamble, header, checksum and gap.
const FRAME_BYTES: f64 = 38.0;
/// Bytes of one encapsulation layer: hop header, inner header, tag, and UDP over IPv4.
const LAYER_BYTES: u32 = 60;
/// Rate of the link in Mbit/s, with all bytes of the Ethernet frames.
const RAW_MBPS: f64 = 100.0;
const MTU_BYTES: u32 = 1_500;

fn layers(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    let cases = (0..=3u32).map(with_layers).collect::<Result<Vec<_>, _>>()?;
    let mut before = None;
    for (layers, outcomes) in lab.measure(&cases)?.iter().enumerate() {
        let found = goodput_mbps(outcomes);
        measured.add(format!("{layers} encapsulations"), "Mbit/s", found);
        if let Some(before) = before {
            let cost = Estimate::exact(before - found.mean);
            measured.add(format!("{layers} encapsulations"), "cost of the last, Mbit/s", cost);
        }
        before = Some(found.mean);
        if layers == 3 {
            checks.at_least("goodput with three encapsulations", found.mean, 0.72 * RAW_MBPS);
        }
    }
    Ok(checks.finding(measured))
}

fn with_layers(layers: u32) -> Result<Case, String> {
    let mut network = OVERLAY.read()?;
    let inside = f64::from(MTU_BYTES - layers * LAYER_BYTES);
    let rate = Rate::from_bps((RAW_MBPS * MBPS * inside / (f64::from(MTU_BYTES) + FRAME_BYTES)) as u64);
    for way in network.links_mut("path").flat_map(|link| link.directions_mut()) {
        (way.delay, way.loss) = (Duration::from_millis(1), 0.0);
        way.capacity = Capacity::Rate(rate);
    }
    for flow in &mut network.flows {
        flow.tcp.mss_bytes -= layers * LAYER_BYTES;
        (flow.tcp.congestion, flow.tcp.recovery) = (CongestionControl::ExplicitRate, TcpRecovery::Rack);
        flow.tcp.explicit_rate = rate;
    }
    case(&network, &format!("{layers} layers"), "plain")
}

fn overlay(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    let fair = max_min(&[30.0, 40.0], &[&[0, 1], &[0], &[1]], &[1.0; 3]);
    let names = ["all", "sensed", "erica-all", "erica-sensed"];
    let cases = names.map(|name| variant(OVER_LEGACY, name, "as in the file", |_| {}));
    let outcomes = lab.measure(&cases.into_iter().collect::<Result<Vec<_>, _>>()?)?;
    for (name, outcomes) in names.iter().zip(&outcomes) {
        near(&fair, outcomes, 0.15, name, &mut measured, &mut checks);
    }
    quick_start(lab, &mut measured, &mut checks)?;
    Ok(checks.finding(measured))
}

/// Measures Quick-Start: the rates that it grants when flows start, and the time of a transfer of 1 MB.
fn quick_start(lab: &mut Laboratory, measured: &mut Measured, checks: &mut Checks) -> Result<(), String> {
    let names = ["all", "sensed", "deaf", "slow-start"];
    let cases = names.map(|name| variant(QUICK_START, name, "as in the file", |_| {}));
    let outcomes = lab.measure(&cases.into_iter().collect::<Result<Vec<_>, _>>()?)?;
    let [all, sensed, deaf, slowly] = &outcomes[..] else { return Err("a case of the row has no result".into()) };
    let took = |outcomes: &Outcomes| {
        each(outcomes, |run| run.transfers.first().map_or(0.0, |sum| sum.total_s / (sum.completed as f64)))
    };
    for (name, outcomes, expected) in
        [("all", all, Some(QUICK_BPS)), ("sensed", sensed, Some(QUICK_BPS)), ("plain", deaf, None)]
    {
        let granted = |run: &NetworkRun, flow: usize| run.quick_start_bps.get(flow).copied().flatten();
        let [first, second] = [0, 1].map(|flow| each(outcomes, |run| granted(run, flow).unwrap_or(0) as f64 / MBPS));
        let row = format!("Quick-Start, {name}");
        measured.add(&row, "first granted, Mbit/s", first);
        measured.add(&row, "second granted, Mbit/s", second);
        measured.add(&row, "first 1 MB, s", took(outcomes));
        checks.check(outcomes.iter().all(|run| granted(run, 0) == expected), || {
            format!("{name}: Quick-Start is granted {:.2} Mbit/s, {expected:?} bit/s each time is expected", first.mean)
        });
        checks
            .check(expected.is_none() || second.mean < first.mean, || format!("{name}: the second is granted as much"));
    }
    measured.add("slow start", "first 1 MB, s", took(slowly));
    Ok(())
}
