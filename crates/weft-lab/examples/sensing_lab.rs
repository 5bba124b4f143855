//! Two nodes sense an emulated link on a real kernel while other traffic uses it.
//!
//! The program makes the second table of `docs/sensing.md`. Run it as root on an otherwise idle machine. It
//! takes half an hour.
//!
//! `cargo run --release -p weft-lab --example sensing_lab -- target/release/weft`
//!
//! Arguments after the program's path select rows by their numbers.

use std::error::Error;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weft_lab::emulator::{Backend, EmulatedDirection, EmulatedLinkSpec, Emulator, EndSpec, LinkCapacity, Timing};
use weft_lab::net::{Lab, NetNamespace, Process};
use weft_units::{Rate, Rng};

const HOME: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const HUB: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const DELAY: Duration = Duration::from_millis(10);
const WARM_UP_S: usize = 18;
const COUNTED_S: usize = 60;
/// Bounds of the relative error. For each bound the program prints the share of estimates with a smaller error.
const WITHIN: [f64; 2] = [0.15, 0.2];
/// Time over which the true value is averaged for comparison, in seconds.
const WINDOW_S: usize = 10;
/// Length of IPv4 and UDP headers, in bytes.
const HEADERS: usize = 28;

#[derive(Clone, Copy)]
enum Cross {
    Nothing,
    /// UDP of iperf3, which it paces evenly.
    Iperf,
    /// Packets at random times.
    Poisson,
}

struct Mix {
    mbps: u64,
    load: f64,
    /// Size of a packet of the other traffic in IP bytes.
    bytes: usize,
    cross: Cross,
}

const fn mix(mbps: u64, load: f64, bytes: usize, cross: Cross) -> Mix {
    Mix { mbps, load, bytes, cross }
}

const MIXES: [Mix; 20] = [
    mix(2, 0.0, 0, Cross::Nothing),
    mix(2, 0.3, 1400, Cross::Poisson),
    mix(2, 0.6, 200, Cross::Iperf),
    mix(5, 0.0, 0, Cross::Nothing),
    mix(5, 0.5, 1200, Cross::Iperf),
    mix(5, 0.5, 700, Cross::Poisson),
    mix(5, 0.8, 1400, Cross::Poisson),
    mix(10, 0.0, 0, Cross::Nothing),
    mix(10, 0.3, 200, Cross::Iperf),
    mix(10, 0.4, 1400, Cross::Poisson),
    mix(10, 0.6, 1400, Cross::Poisson),
    mix(10, 0.7, 1200, Cross::Iperf),
    mix(20, 0.2, 1200, Cross::Iperf),
    mix(20, 0.3, 700, Cross::Poisson),
    mix(20, 0.6, 1400, Cross::Poisson),
    mix(20, 0.7, 1400, Cross::Iperf),
    mix(20, 0.8, 1400, Cross::Poisson),
    mix(50, 0.0, 0, Cross::Nothing),
    mix(50, 0.4, 1400, Cross::Poisson),
    mix(50, 0.6, 1400, Cross::Iperf),
];

/// The estimates in one second, and the bytes of the other traffic that the emulator counted in this second.
struct Second {
    capacity_bps: Option<f64>,
    available_bps: Option<f64>,
    transmitted_bytes: u64,
    own_bytes: u64,
}

/// Median errors of a mix, relative to the true values.
struct Found {
    truth_bps: f64,
    told_bps: f64,
    available_off: f64,
    capacity_off: f64,
    /// Sensing traffic as a fraction of the capacity.
    own_share: f64,
    late: Duration,
}

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let binary = arguments.next().ok_or("which weft? target/release/weft")?;
    let rows: Vec<usize> = arguments.map(|row| row.parse()).collect::<Result<_, _>>()?;
    let rows: Vec<usize> = if rows.is_empty() { (1..=MIXES.len()).collect() } else { rows };
    let mut all = Vec::new();
    println!(
        "| link and what crosses it | A | told | A off | C off | own | emulator late, p99 |\n|---|---|---|---|---|---|---|"
    );
    // Run one row at a time, because an emulator that never sleeps takes a whole processor.
    for row in rows {
        let Some(mix) = row.checked_sub(1).and_then(|at| MIXES.get(at)) else { continue };
        let found = sense(row, mix, Path::new(&binary))?;
        println!("{}", line(mix, &found));
        all.push(found);
    }
    for within in WITHIN {
        let count = |off: fn(&Found) -> f64| all.iter().filter(|found| off(found) <= within).count();
        let (available, capacity) = (count(|found| found.available_off), count(|found| found.capacity_off));
        println!("within {:.0} %: A {available}, C {capacity} of {}", within * 100.0, all.len());
    }
    let most = all.iter().map(|found| found.own_share).fold(0.0, f64::max);
    println!("own traffic at most {:.2} %", most * 100.0);
    Ok(())
}

fn sense(row: usize, mix: &Mix, binary: &Path) -> Result<Found, Failure> {
    let lab = Lab::new()?;
    let (home, hub) = (lab.node("home")?, lab.node("hub")?);
    let directory = std::env::temp_dir().join(format!("weft-sensing-{}-{row}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let emulator = Emulator::start_timed(Backend::best(), Timing::Exact, vec![link(&home, &hub, mix.mbps)], 1)?;
    let _daemons = start(binary, &directory, &home, &hub)?;
    let _cross = cross(row, mix, &home, &hub)?;
    let handle = emulator.handle();
    let mut seconds = Vec::new();
    let begin = Instant::now();
    for second in 0..WARM_UP_S + COUNTED_S {
        thread::sleep((begin + Duration::from_secs(second as u64 + 1)).saturating_duration_since(Instant::now()));
        let path = told(binary, &directory)?;
        let number = |pointer: &str| path.pointer(pointer).and_then(serde_json::Value::as_f64);
        seconds.push(Second {
            capacity_bps: number("/sensed/capacity_bps"),
            available_bps: number("/sensed/available_bps"),
            transmitted_bytes: handle.snapshot()?.links.first().map_or(0, |link| link.forward.transmitted_bytes),
            own_bytes: number("/sent_bytes").unwrap_or(0.0) as u64,
        });
    }
    let late = handle.snapshot()?.lateness.p99;
    std::fs::remove_dir_all(&directory)?;
    Ok(found(mix, &seconds, late))
}

fn link(home: &NetNamespace, hub: &NetNamespace, mbps: u64) -> EmulatedLinkSpec {
    let direction = || EmulatedDirection {
        capacity: Some(LinkCapacity::Rate(Rate::from_mbps(mbps))),
        delay: DELAY,
        jitter: Duration::ZERO,
        reorder: false,
        loss: 0.0,
        queue_bytes: 1_000_000,
        managed: None,
        cut: false,
        impaired: None,
    };
    let end = |node: &NetNamespace, address| EndSpec {
        node: node.clone(),
        interface: "wan".into(),
        ipv4: Some(address),
        ipv6: None,
    };
    EmulatedLinkSpec { ends: [end(home, HOME), end(hub, HUB)], mtu: 1500, forward: direction(), backward: direction() }
}

fn start(binary: &Path, directory: &Path, home: &NetNamespace, hub: &NetNamespace) -> Result<[Process; 2], Failure> {
    let names = ["home", "hub"];
    let file = |name: &str, ending: &str| directory.join(format!("{name}.{ending}"));
    let key = |name: &str| -> Result<String, Failure> {
        let output =
            Command::new(binary).args(["keygen", "--out"]).arg(file(name, "key")).stdin(Stdio::null()).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let keys = [key("home")?, key("hub")?];
    let daemon = |own: usize, node: &NetNamespace, endpoint: &str| -> Result<Process, Failure> {
        let (name, other) = (names[own], 1 - own);
        let text = format!(
            "[node]\nkey = {:?}\nlisten = 51900\nstate = {:?}\ncontrol = {:?}\n[tun]\nname = \"weft0\"\naddress = [\"10.99.0.{}/24\"]\n\
             [links]\nuse = [\"wan\"]\n[policy]\nsense = true\n[[peer]]\nname = {:?}\npublic-key = {:?}\nprefixes = [\"10.99.0.{}/32\"]\n{endpoint}\n",
            file(name, "key"),
            file(name, "state"),
            file(name, "sock"),
            own + 1,
            names[other],
            keys[other],
            other + 1,
        );
        std::fs::create_dir_all(file(name, "state"))?;
        std::fs::write(file(name, "toml"), text)?;
        let mut command = node.command(binary);
        command.args(["up", "-c"]).arg(file(name, "toml")).stderr(std::fs::File::create(file(name, "log"))?);
        Ok(node.spawn(command)?)
    };
    let daemons = [daemon(1, hub, "")?, daemon(0, home, &format!("endpoints = [\"{HUB}:51900\"]"))?];
    let deadline = Instant::now() + Duration::from_secs(10);
    while !file("home", "sock").exists() {
        if Instant::now() > deadline {
            return Err(std::fs::read_to_string(file("home", "log"))?.into());
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(daemons)
}

/// Returns the path from home, as `weft sense` reports it.
fn told(binary: &Path, directory: &Path) -> Result<serde_json::Value, Failure> {
    let output =
        Command::new(binary).args(["sense", "--json", "--control"]).arg(directory.join("home.sock")).output()?;
    let status: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    Ok(status.pointer("/peers/0/paths/0").cloned().unwrap_or_default())
}

/// The other traffic. Dropping it ends the traffic.
#[derive(Default)]
struct Others {
    _programs: Vec<Process>,
    is_over: Arc<AtomicBool>,
}

impl Drop for Others {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn cross(row: usize, mix: &Mix, home: &NetNamespace, hub: &NetNamespace) -> Result<Others, Failure> {
    let mut others = Others::default();
    let bps = mix.mbps as f64 * 1e6 * mix.load;
    let payload = mix.bytes.saturating_sub(HEADERS);
    match mix.cross {
        Cross::Nothing => {}
        Cross::Iperf => {
            let mut server = hub.command("iperf3");
            server.args(["-s", "-1"]).stdout(Stdio::null());
            others._programs.push(hub.spawn(server)?);
            thread::sleep(Duration::from_millis(300));
            let mut client = home.command("iperf3");
            let rate = bps * payload as f64 / mix.bytes as f64;
            client.args([
                "-c",
                &HUB.to_string(),
                "-u",
                "-t",
                "100",
                "-b",
                &format!("{rate:.0}"),
                "-l",
                &payload.to_string(),
            ]);
            client.stdout(Stdio::null());
            others._programs.push(home.spawn(client)?);
        }
        Cross::Poisson => {
            let socket = home.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
            // Without a listener the kernel would answer with ICMP errors.
            let sink = hub.run(|| UdpSocket::bind((HUB, 9)))??;
            let (is_over, mean) = (others.is_over.clone(), mix.bytes as f64 * 8.0 / bps);
            let rng = Rng::new(row as u64);
            thread::spawn(move || poisson(&socket, payload, mean, rng, &is_over, sink));
        }
    }
    Ok(others)
}

/// Sends packets at random times.
///
/// `_sink` stays open and never reads. This uses the least processor time.
fn poisson(socket: &UdpSocket, payload: usize, mean_s: f64, mut rng: Rng, is_over: &AtomicBool, _sink: UdpSocket) {
    let (packet, mut due) = (vec![0; payload], Instant::now());
    while !is_over.load(Ordering::Relaxed) {
        due += Duration::from_secs_f64(-mean_s * (1.0 - rng.unit()).ln());
        thread::sleep(due.saturating_duration_since(Instant::now()));
        // If the buffer is full, the packet is lost. The emulator counts only packets that were sent.
        let _ = socket.send_to(&packet, (HUB, 9));
    }
}

fn found(mix: &Mix, seconds: &[Second], late: Duration) -> Found {
    let capacity = mix.mbps as f64 * 1e6;
    let (mut available_off, mut capacity_off, mut own) = (Vec::new(), Vec::new(), 0.0);
    let (mut truths, mut told) = (Vec::new(), Vec::new());
    // The result of a train is available about a second after the train began.
    for at in WARM_UP_S..seconds.len() {
        let (from, to) = (&seconds[at - WINDOW_S - 1], &seconds[at - 1]);
        let all = (to.transmitted_bytes - from.transmitted_bytes) as f64;
        let ours = (to.own_bytes - from.own_bytes) as f64;
        let truth = capacity - (all - ours) * 8.0 / WINDOW_S as f64;
        let off = |told: Option<f64>, truth: f64| told.map_or(f64::INFINITY, |told| (told / truth - 1.0).abs());
        available_off.push(off(seconds[at].available_bps, truth));
        capacity_off.push(off(seconds[at].capacity_bps, capacity));
        truths.push(truth);
        told.extend(seconds[at].available_bps);
        own += ours * 8.0 / WINDOW_S as f64 / capacity / COUNTED_S as f64;
    }
    Found {
        truth_bps: median(&mut truths),
        told_bps: median(&mut told),
        available_off: median(&mut available_off),
        capacity_off: median(&mut capacity_off),
        own_share: own,
        late,
    }
}

fn line(mix: &Mix, found: &Found) -> String {
    let name = match mix.cross {
        Cross::Nothing => "nothing".to_owned(),
        Cross::Iperf => format!("{:.0} % iperf3 UDP, {} B", mix.load * 100.0, mix.bytes),
        Cross::Poisson => format!("{:.0} % Poisson, {} B", mix.load * 100.0, mix.bytes),
    };
    format!(
        "| {} Mbit/s, {name} | {:.2} | {:.2} | {:.1} | {:.1} | {:.2} | {:.0} µs |",
        mix.mbps,
        found.truth_bps / 1e6,
        found.told_bps / 1e6,
        100.0 * found.available_off,
        100.0 * found.capacity_off,
        100.0 * found.own_share,
        found.late.as_secs_f64() * 1e6,
    )
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::INFINITY)
}
