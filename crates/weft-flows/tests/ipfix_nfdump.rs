//! The sums of Debian's nfdump equal the bytes of the flows, also after restarts of either side.
//!
//! The test needs the package nfdump. Without it, the test prints this and passes; with `WEFT_CHECK=1` it fails.
//! Datagrams stay on the loopback interface.
#![allow(missing_docs)]
// The test is the daemon here: it has a clock and a socket.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant as Clock, SystemTime, UNIX_EPOCH};
use weft_flows::ClassId;
use weft_flows::class::Classes;
use weft_flows::ipfix::{
    Dialect, EndReason, ExportRecord, ExportVerdict, Exporter, ExporterConfig, MESSAGE_BYTES, RecordDirection,
};
use weft_units::{Instant, Rate, Rng, VpnId};
use weft_wire::ip::FlowKey;

/// Longest wait for a program.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns true if the programs are here; panics without them if `WEFT_CHECK` is set.
fn has_nfdump() -> bool {
    let has = |program| Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    let found = has("nfcapd") && has("nfdump");
    assert!(found || std::env::var_os("WEFT_CHECK").is_none(), "nfcapd and nfdump are not here: install nfdump");
    if !found {
        eprintln!("skipped: needs nfcapd and nfdump; install the package nfdump");
    }
    found
}

/// A directory that is removed at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A collector that runs.
struct Nfcapd(Child);

impl Nfcapd {
    fn start(directory: &Path, port: u16) -> Nfcapd {
        std::fs::create_dir_all(directory).unwrap();
        let arguments = ["-b", "127.0.0.1", "-t", "3600", "-p", &port.to_string(), "-w", directory.to_str().unwrap()];
        let child = Command::new("nfcapd").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let listening = format!("0100007F:{port:04X}");
        let begin = Clock::now();
        while !std::fs::read_to_string("/proc/net/udp").unwrap().contains(&listening) {
            assert!(begin.elapsed() < PATIENCE, "nfcapd does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Nfcapd(child)
    }

    /// Ends the collector, which then writes its file.
    fn stop(mut self) {
        std::thread::sleep(Duration::from_millis(300));
        assert!(Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap().success());
        let begin = Clock::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < PATIENCE, "nfcapd does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Nfcapd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Counts of records: bytes, packets, records.
type Sums = (u64, u64, u64);

/// Returns nfdump's sums over all files in `directory`.
fn sums(directory: &Path) -> Sums {
    let arguments = ["-R", directory.to_str().unwrap(), "-q", "-N", "-o", "fmt:%byt %pkt"];
    let out = Command::new("nfdump").args(arguments).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    text.lines().filter(|line| !line.trim().is_empty()).fold((0, 0, 0), |(bytes, packets, records), line| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().unwrap_or_else(|_| panic!("{line}")));
        (bytes + numbers.next().unwrap(), packets + numbers.next().unwrap(), records + 1)
    })
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

fn record(rng: &mut Rng) -> ExportRecord {
    let (src, dst) = if rng.chance(0.3) {
        (Ipv6Addr::from_bits(rng.next_u64().into()).into(), Ipv6Addr::LOCALHOST.into())
    } else {
        (Ipv4Addr::from_bits(rng.next_u64() as u32).into(), Ipv4Addr::new(10, 0, 0, 1).into())
    };
    let (byte_bits, packet_bits) = (rng.below(40), rng.below(30));
    let (bytes, packets) = (1 + rng.below(1 << byte_bits), 1 + rng.below(1 << packet_bits));
    let end_ms = unix_ms();
    ExportRecord {
        key: FlowKey { src, dst, protocol: 17, src_port: rng.next_u64() as u16, dst_port: 5_000, flow_label: 0 },
        dscp: 46,
        vpn: VpnId(1),
        ingress_interface: 1,
        egress_interface: 2,
        direction: RecordDirection::Ingress,
        end_reason: EndReason::Active,
        start_ms: end_ms - rng.below(10_000),
        end_ms,
        total_bytes: 7 * bytes,
        total_packets: 7 * packets,
        bytes,
        packets,
        asked: Rate::from_mbps(1),
        granted: Rate::from_mbps(1),
        achieved: Rate::from_mbps(1),
        class: ClassId(1),
        precedence: 10,
        is_on_alternate: false,
        verdict: ExportVerdict::Granted,
        path: 3,
    }
}

/// An exporter with a socket, as a daemon has it.
struct Sender {
    exporter: Exporter,
    socket: UdpSocket,
    begin: Clock,
}

impl Sender {
    fn start(port: u16, dialect: Dialect) -> Sender {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", port)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut exporter = Exporter::new(Instant::ZERO, ExporterConfig { dialect, ..ExporterConfig::default() });
        exporter.set_class_names(Classes::built_in().names());
        Sender { exporter, socket, begin: Clock::now() }
    }

    fn push(&mut self, rng: &mut Rng, count: usize, sums: &mut Sums) {
        for _ in 0..count {
            let record = record(rng);
            *sums = (sums.0 + record.bytes, sums.1 + record.packets, sums.2 + 1);
            assert!(self.exporter.push(record));
        }
    }

    /// Sends the ready messages. On the loopback interface a refusal arrives before the call that sent returns.
    fn send(&mut self) {
        let mut buffer = [0; MESSAGE_BYTES];
        loop {
            let now = Instant::ZERO + self.begin.elapsed();
            let Some(message) = self.exporter.poll_message(now, (unix_ms() / 1_000) as u32, &mut buffer) else { break };
            self.socket.send(&buffer[..message.len]).unwrap();
            if self.socket.recv(&mut [0]).is_err_and(|why| why.kind() == std::io::ErrorKind::ConnectionRefused) {
                self.exporter.on_refused(now, None);
            }
            // The collector's socket buffer is finite.
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Sends until no record is left that may be refused.
    fn finish(&mut self) {
        let begin = Clock::now();
        loop {
            self.send();
            let counters = self.exporter.counters();
            if counters.pending_records + counters.retained_records == 0 {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{counters:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn nfdump_adds_up(dialect: Dialect, seed: u64) {
    if !has_nfdump() {
        return;
    }
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let scratch = Scratch(std::env::temp_dir().join(format!("weft-nfdump-{}-{seed}", std::process::id())));
    let (first, second) = (scratch.0.join("1"), scratch.0.join("2"));
    let (mut rng, mut pushed) = (Rng::new(seed), (0, 0, 0));

    // The collector is not there when the exporter starts.
    let mut sender = Sender::start(port, dialect);
    sender.push(&mut rng, 50, &mut pushed);
    sender.send();
    assert!(!sender.exporter.is_reachable());
    let collector = Nfcapd::start(&first, port);
    sender.finish();
    sender.push(&mut rng, 5_000, &mut pushed);
    sender.finish();

    // The exporter starts again.
    let mut sender = Sender::start(port, dialect);
    sender.push(&mut rng, 500, &mut pushed);
    sender.finish();

    // The collector ends, and restarts later.
    collector.stop();
    for _ in 0..10 {
        sender.push(&mut rng, 100, &mut pushed);
        sender.send();
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(sender.exporter.counters().refused_messages > 0);
    let collector = Nfcapd::start(&second, port);
    sender.push(&mut rng, 500, &mut pushed);
    sender.finish();
    collector.stop();

    assert_eq!(sender.exporter.counters().not_sent.records, 0);
    let (before, after) = (sums(&first), sums(&second));
    assert!(before.2 >= 5_550 && after.2 >= 1_500, "{before:?} {after:?}");
    assert_eq!((before.0 + after.0, before.1 + after.1, before.2 + after.2), pushed);
}

#[test]
fn nfdump_adds_up_ipfix() {
    nfdump_adds_up(Dialect::Ipfix, 1);
}

#[test]
fn nfdump_adds_up_netflow_v9() {
    nfdump_adds_up(Dialect::NetflowV9, 2);
}
