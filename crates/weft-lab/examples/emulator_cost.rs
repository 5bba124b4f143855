//! Measures the cost of the emulator with one iperf3 TCP flow (cubic) over each of three links.
//!
//! The flows run at the same time. The links have 50, 75 and 100 Mbit/s.
//!
//!     cargo run --release -p weft-lab --example emulator_cost [SECONDS]

use std::io;
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use weft_lab::emulator::{EmulatedDirection, EmulatedLinkSpec, Emulator, EndSpec, LinkCapacity};
use weft_lab::net::{Lab, NetNamespace};
use weft_units::Rate;

const RATES_MBPS: [u64; 3] = [50, 75, 100];
const WARM_UP: Duration = Duration::from_secs(2);

fn link(home: &NetNamespace, hub: &NetNamespace, number: u8, rate_mbps: u64) -> EmulatedLinkSpec {
    let end = |node: &NetNamespace, host| EndSpec {
        node: node.clone(),
        interface: format!("wan{number}"),
        ipv4: Some(Ipv4Addr::new(10, number, 0, host)),
        ipv6: None,
    };
    let rate = Rate::from_mbps(rate_mbps);
    let spec = EmulatedDirection {
        capacity: Some(LinkCapacity::Rate(rate)),
        delay: Duration::from_millis(5),
        queue_bytes: rate.bytes_in(Duration::from_millis(50)),
        ..EmulatedDirection::default()
    };
    EmulatedLinkSpec { ends: [end(home, 1), end(hub, 2)], mtu: 1500, forward: spec.clone(), backward: spec }
}

fn main() -> io::Result<()> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10);
    let lab = Lab::new()?;
    let (home, hub) = (lab.node("home")?, lab.node("hub")?);
    let links = (0u8..).zip(RATES_MBPS).map(|(number, rate)| link(&home, &hub, number, rate)).collect();
    let emulator = Emulator::start(links, 1)?;
    let mut running = Vec::new();
    for number in 0..RATES_MBPS.len() {
        let port = (5201 + number).to_string();
        let mut server = hub.command("iperf3");
        server.args(["-s", "-1", "-p", &port]).stdout(Stdio::null());
        running.push(hub.spawn(server)?);
        thread::sleep(Duration::from_millis(300));
        let mut client = home.command("iperf3");
        let time = (seconds + 2 * WARM_UP.as_secs()).to_string();
        client.args(["-c", &format!("10.{number}.0.2"), "-p", &port, "-C", "cubic", "-t", &time]).stdout(Stdio::null());
        running.push(home.spawn(client)?);
    }
    thread::sleep(WARM_UP);
    emulator.handle().mark()?;
    thread::sleep(Duration::from_secs(seconds));
    let snapshot = emulator.handle().snapshot()?;
    for (rate, link) in RATES_MBPS.iter().zip(&snapshot.links) {
        let forward = link.forward;
        println!(
            "{rate} Mbit/s: utilisation {:.4}, queue p95 {:?}, dropped {}, device drops {:?}",
            forward.utilisation().unwrap_or(0.0),
            forward.queue_delay.p95,
            forward.dropped_packets,
            link.device_drops,
        );
    }
    println!("lateness {:?}, real time {}", snapshot.lateness, snapshot.real_time);
    println!("processor {:.1} % of a core", 100.0 * snapshot.cpu.as_secs_f64() / snapshot.elapsed.as_secs_f64());
    Ok(())
}
