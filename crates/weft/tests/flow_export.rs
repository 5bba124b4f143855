//! Property: the records that a collector gets add up to the bytes sent, over a collector that starts late and a restart of the node.
//!
//! The collector is this process, in the network namespace of the node that exports.

mod common;

#[path = "../../weft-flows/tests/collector/mod.rs"]
mod collector;

use collector::Collector;
use common::inside::{self, Daemon, run, status, wait_for, within};
use common::{Dir, TWO_NODES, WEFT, stderr, stdout};
use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const COLLECTOR: &str = "127.0.0.1:4739";
const FROM: &str = "10.9.0.1:7001";
const TO: &str = "10.9.0.2:7000";
const SETTINGS: &str = r#"
[export]
collector = "127.0.0.1:4739"
interval = "1 s"

[[rule]]
name = "test"
protocol = "udp"
ports = "7000"
class = "voice"
guaranteed = "100 kbit/s"
"#;
/// Datagrams of each run.
const DATAGRAMS: usize = 300;
/// Element `octetDeltaCount`.
const OCTETS: u16 = 1;
/// Element of weft: a path that carried the flow, and one.
const PATH: u16 = 8;
/// Element `destinationTransportPort`.
const PORT: u16 = 11;
/// Element `flowEndReason`. The value 4 means that the exporter stopped.
const REASON: u16 = 136;

#[test]
fn records_add_up_to_the_bytes_sent() {
    inside::or_again("records_add_up_to_the_bytes_sent", records);
}

fn records() {
    let topology = format!("set -eu\n{TWO_NODES}\nip -n home link set lo up");
    assert!(run(Command::new("bash").args(["-c", &topology])), "no namespaces");
    let dir = Dir::new();
    common::two_nodes(&dir, None);
    let config = fs::read_to_string(dir.path("home.toml")).unwrap();
    dir.write("home.toml", &(config + SETTINGS));
    let _hub = Daemon::start(&dir, "hub");

    // In the first run no program listens at the collector's port until the records are refused.
    let home = start(&dir);
    let mut sent = send();
    wait_for("refusal", &dir, || status(&dir, "home")["flow_export"]["is_reachable"] == false);
    ask(&dir);
    let socket = within("home", || UdpSocket::bind(COLLECTOR).unwrap()).join().unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    wait_for("delivery", &dir, || {
        let export = &status(&dir, "home")["flow_export"];
        export["is_reachable"] == true && export["sent_records"].as_u64() > Some(0)
    });
    stop(&dir, home);
    let mut collector = Collector::default();
    receive(&socket, &mut collector);
    assert_eq!(bytes(&collector), sent, "{}", log(&dir));

    // The second run begins the same flow anew, and its records end with the node.
    let home = start(&dir);
    sent += send();
    stop(&dir, home);
    collector.restart();
    receive(&socket, &mut collector);
    assert_eq!(bytes(&collector), sent, "{}", log(&dir));
    assert_eq!(collector.flows().filter(|flow| flow.number(PORT) == 7_000).last().unwrap().number(REASON), 4);
    assert!(collector.flows().filter(|flow| flow.number(PORT) == 7_000).all(|flow| flow.own(PATH) > 0), "no path");
    assert!(collector.records.iter().any(|of| of.is_option && of.text(9).as_deref() == Some("voice")));
}

/// Starts the node that exports, and waits until the tunnel carries packets.
fn start(dir: &Dir) -> Daemon {
    let home = Daemon::start(dir, "home");
    wait_for("tunnel", dir, || {
        run(Command::new("ip").args(["netns", "exec", "home", "ping", "-c1", "-W1", "10.9.0.2"]))
    });
    home
}

/// Ends the node, and waits until it has sent its last records.
fn stop(dir: &Dir, home: Daemon) {
    assert!(run(Command::new(WEFT).args(["down", "--control"]).arg(dir.path("home.sock"))));
    let stat = format!("/proc/{}/stat", home.id());
    wait_for("end", dir, || fs::read_to_string(&stat).is_ok_and(|text| text.contains(") Z ")));
    drop(home);
}

fn log(dir: &Dir) -> String {
    fs::read_to_string(dir.path("home.log")).unwrap_or_default()
}

/// Sends datagrams through the tunnel, and returns their IP bytes.
fn send() -> u64 {
    let _sink = within("hub", || UdpSocket::bind(TO).unwrap()).join().unwrap();
    let send = || {
        let socket = UdpSocket::bind(FROM).unwrap();
        let mut sent = 0;
        for number in 0..DATAGRAMS {
            let contents = vec![0; number * 37 % 1_000];
            sent += 28 + socket.send_to(&contents, TO).unwrap() as u64;
            sleep(Duration::from_millis(1));
        }
        sent
    };
    within("home", send).join().unwrap()
}

/// Asks the node for the flow's treatment.
fn ask(dir: &Dir) {
    let qos = |arguments: &[&str]| {
        let out = Command::new(WEFT).arg("qos").args(arguments).arg("--control").arg(dir.path("home.sock")).output();
        let out = out.unwrap();
        assert!(out.status.success(), "{arguments:?}: {}", stderr(&out));
        stdout(&out)
    };
    let flows: serde_json::Value = serde_json::from_str(&qos(&["flows", "--json"])).unwrap();
    let flow = flows["flows"].as_array().unwrap().iter().find(|flow| flow["flow"].as_str().unwrap().contains(":7000"));
    assert_eq!(flow.unwrap()["class"], "voice", "{flows}");
    assert!(qos(&["ports"]).contains("hub"));
    assert!(qos(&["why", "7000"]).contains("rule test matches"));
}

/// Decodes all messages that have arrived.
fn receive(socket: &UdpSocket, collector: &mut Collector) {
    let mut buffer = [0; 2_048];
    while let Ok(len) = socket.recv(&mut buffer) {
        collector.receive(&buffer[..len]);
    }
}

/// Returns the bytes of the flow under test in all records.
fn bytes(collector: &Collector) -> u64 {
    collector.flows().filter(|flow| flow.number(PORT) == 7_000).map(|flow| flow.number(OCTETS)).sum()
}
