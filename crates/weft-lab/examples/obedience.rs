//! Checks that `weft_er` does not exceed its granted rates on this machine's kernel.
//!
//! One connection runs over 100 Mbit/s with 50 ms in each direction. Its rate is granted by destination address.
//!
//!     cargo run --release -p weft-lab --example obedience
//!
//! For each case the program prints the load offered to the link and the fraction that the link drops, both after the
//! change of the granted rate or the link's rate.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weft_lab::emulator::{EmulatedDirection, EmulatedLinkSpec, Emulator, EndSpec, LinkCapacity, LinkSide};
use weft_lab::net::{Lab, NetNamespace};
use weft_tcp_er::congestion::{Congestion, NAME};
use weft_units::Rate;

const HUB: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const LINK_MBPS: u64 = 100;
const DELAY: Duration = Duration::from_millis(50);
const RTT_S: f64 = 0.1;
/// Queue of the link in bytes: one bandwidth-delay product.
const QUEUE_BYTES: u64 = 1_250_000;
/// Interval at which the program renews a grant.
const RENEWED_EVERY: Duration = Duration::from_millis(20);
/// Length of a step. The link's counters are read at the end of each step.
const STEP: Duration = Duration::from_millis(10);
/// Time from the start until the change. The program measures after the change.
const SETTLED: Duration = Duration::from_secs(4);
/// Time after the change during which the program measures.
const WATCHED: Duration = Duration::from_secs(6);

/// The grants before and after the change, and the link's rate after it.
struct Case {
    name: &'static str,
    granted_mbps: [u64; 2],
    link_mbps: u64,
    renews: bool,
}

const CASES: [Case; 3] = [
    Case { name: "link and grant halve", granted_mbps: [96, 48], link_mbps: 50, renews: true },
    Case { name: "granted twice what there is", granted_mbps: [96, 192], link_mbps: 100, renews: true },
    Case { name: "the grant is not renewed, the link halves", granted_mbps: [96, 96], link_mbps: 50, renews: false },
];

/// The packets offered to the link and dropped by it in one step.
#[derive(Clone, Copy)]
struct Step {
    at_s: f64,
    offered_bytes: u64,
    offered: u64,
    dropped: u64,
}

fn main() -> io::Result<()> {
    let lab = Lab::new()?;
    let congestion = Congestion::load().map_err(io::Error::other)?;
    for case in &CASES {
        let steps = watch(&lab, &congestion, case)?;
        println!("{}", case.name);
        println!(
            "  Mbit/s offered, by round trip: {}",
            by_round_trip(&steps, |s| s.offered_bytes as f64 * 8e-6 / RTT_S)
        );
        println!("  obeyed after {:.2} round trips", obeyed_after(&steps, case.granted_mbps[1]) / RTT_S);
        println!("  {:.1} round trips with more than 30 % dropped, at most in a row", longest_loss_s(&steps) / RTT_S);
        let all = |of: fn(&Step) -> u64| steps.iter().map(of).sum::<u64>() as f64;
        println!("  dropped in all: {:.2} %", 100.0 * all(|s| s.dropped) / all(|s| s.offered).max(1.0));
    }
    Ok(())
}

fn direction(rate_mbps: u64) -> EmulatedDirection {
    let capacity = Some(LinkCapacity::Rate(Rate::from_mbps(rate_mbps)));
    let delay = weft_units::Duration::from_micros(DELAY.as_micros() as u64);
    EmulatedDirection { capacity, delay, queue_bytes: QUEUE_BYTES, ..EmulatedDirection::default() }
}

fn watch(lab: &Lab, congestion: &Congestion, case: &Case) -> io::Result<Vec<Step>> {
    let (home, hub) = (lab.node("home")?, lab.node("hub")?);
    let end = |node: &NetNamespace, host| EndSpec {
        node: node.clone(),
        interface: "line".into(),
        ipv4: Some(Ipv4Addr::new(10, 77, 0, host)),
        ipv6: None,
    };
    let (forward, backward) = (direction(LINK_MBPS), direction(LINK_MBPS));
    let link = EmulatedLinkSpec { ends: [end(&home, 1), end(&hub, 2)], mtu: 1500, forward, backward };
    let emulator = Emulator::start(vec![link], 1)?;
    let (granted_mbps, renews, over) =
        (AtomicU64::new(case.granted_mbps[0]), AtomicBool::new(true), AtomicBool::new(false));
    thread::scope(|scope| {
        let granting = scope.spawn(|| {
            home.run(|| {
                while !over.load(Ordering::Relaxed) {
                    if renews.load(Ordering::Relaxed) {
                        grant(congestion, granted_mbps.load(Ordering::Relaxed))?;
                    }
                    thread::sleep(RENEWED_EVERY);
                }
                congestion.grants().clear(IpAddr::V4(HUB), 32).map_err(io::Error::other)
            })?
        });
        let change = || {
            emulator.handle().set(0, LinkSide::Forward, direction(case.link_mbps))?;
            granted_mbps.store(case.granted_mbps[1], Ordering::Relaxed);
            renews.store(case.renews, Ordering::Relaxed);
            Ok(())
        };
        let steps = run(&home, &hub, &emulator, change);
        over.store(true, Ordering::Relaxed);
        granting.join().map_err(|_| io::Error::other("the granting thread died"))??;
        steps
    })
}

fn grant(congestion: &Congestion, mbps: u64) -> io::Result<()> {
    let now_ns = monotonic_ns()?;
    congestion.grants().set(IpAddr::V4(HUB), 32, mbps * 125_000, now_ns).map_err(io::Error::other)
}

fn monotonic_ns() -> io::Result<u64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: The kernel writes one timespec.
    match unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) } {
        0 => Ok(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs one connection. Returns the link's counters after the change, step by step.
fn run(
    home: &NetNamespace,
    hub: &NetNamespace,
    emulator: &Emulator,
    change: impl Fn() -> io::Result<()>,
) -> io::Result<Vec<Step>> {
    let mut server = hub.command("iperf3");
    server.args(["-s", "-1"]).stdout(Stdio::null());
    let _server = hub.spawn(server)?;
    thread::sleep(Duration::from_millis(500));
    let mut client = home.command("iperf3");
    let seconds = (SETTLED + WATCHED).as_secs() + 2;
    client.args(["-c", &HUB.to_string(), "-C", NAME, "-t", &seconds.to_string()]).stdout(Stdio::null());
    let _client = home.spawn(client)?;
    thread::sleep(SETTLED);
    change()?;
    let (began, mut before, mut steps) = (Instant::now(), emulator.handle().snapshot()?, Vec::new());
    while began.elapsed() < WATCHED {
        thread::sleep(STEP);
        let now = emulator.handle().snapshot()?;
        let [was, is] =
            [&before, &now].map(|snapshot| snapshot.links.first().map(|link| link.forward).unwrap_or_default());
        steps.push(Step {
            at_s: began.elapsed().as_secs_f64(),
            offered_bytes: is.offered_bytes - was.offered_bytes,
            offered: is.offered_packets - was.offered_packets,
            dropped: is.dropped_packets - was.dropped_packets,
        });
        before = now;
    }
    Ok(steps)
}

fn round_trips(steps: &[Step]) -> impl Iterator<Item = Vec<Step>> {
    let count = (steps.last().map_or(0.0, |s| s.at_s) / RTT_S) as usize;
    (0..count).map(move |n| {
        let (from, to) = (n as f64 * RTT_S, (n + 1) as f64 * RTT_S);
        steps.iter().filter(|s| s.at_s > from && s.at_s <= to).copied().collect()
    })
}

fn by_round_trip(steps: &[Step], of: impl Fn(&Step) -> f64) -> String {
    let sums = round_trips(steps).take(16).map(|trip| format!("{:.0}", trip.iter().map(&of).sum::<f64>()));
    sums.collect::<Vec<_>>().join(" ")
}

/// Returns the time until the rate stays below 1.05 times the grant, in seconds.
///
/// The rate is a mean over 0.1 s.
fn obeyed_after(steps: &[Step], granted_mbps: u64) -> f64 {
    let over = |trip: &[Step]| {
        let from = trip.first().map_or(0.0, |s| s.at_s - STEP.as_secs_f64());
        let seconds = trip.last().map_or(0.0, |s| s.at_s) - from;
        trip.iter().map(|s| s.offered_bytes).sum::<u64>() as f64 * 8e-6 > granted_mbps as f64 * 1.05 * seconds
    };
    steps
        .windows(10)
        .filter(|trip| over(trip))
        .filter_map(|trip| trip.first())
        .map(|s| s.at_s)
        .next_back()
        .unwrap_or(0.0)
}

/// Returns the longest time in which each window of 0.1 s dropped more than 30 %, in seconds.
fn longest_loss_s(steps: &[Step]) -> f64 {
    let (mut longest, mut since) = (0.0f64, None);
    for trip in steps.windows(10) {
        let (offered, dropped) = trip.iter().fold((0, 0), |(o, d), s| (o + s.offered, d + s.dropped));
        let at_s = trip.last().map_or(0.0, |s| s.at_s);
        since = (dropped * 10 > offered * 3).then(|| since.unwrap_or(at_s - RTT_S));
        longest = longest.max(since.map_or(0.0, |since| at_s - since));
    }
    longest
}
