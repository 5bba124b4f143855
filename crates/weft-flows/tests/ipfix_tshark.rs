//! Wireshark's dissector reads every message without a complaint, and its sums are those of the records.
//!
//! The test needs the program tshark. Without it, the test prints this and passes; with `WEFT_CHECK=1` it fails.
#![allow(missing_docs)]
// The test writes a file for another program.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use weft_flows::ClassId;
use weft_flows::class::Classes;
use weft_flows::ipfix::{
    Dialect, EndReason, ExportRecord, ExportVerdict, Exporter, ExporterConfig, MESSAGE_BYTES, RecordDirection,
};
use weft_units::{Instant, Rate, Rng, VpnId};
use weft_wire::ip::FlowKey;

/// Port of IPFIX (RFC 7011 §10.3.4).
const PORT: u16 = 4_739;
/// Link type of packets that begin with an IP header.
const LINKTYPE_RAW: u32 = 101;

fn has_tshark() -> bool {
    let found = Command::new("tshark").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    assert!(found || std::env::var_os("WEFT_CHECK").is_none(), "tshark is not here: install it");
    if !found {
        eprintln!("skipped: needs tshark");
    }
    found
}

/// A file that is removed at the end.
struct Capture(PathBuf);

impl Capture {
    fn create(name: &str, messages: &[Vec<u8>]) -> Capture {
        let mut bytes = Vec::new();
        for word in [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, LINKTYPE_RAW] {
            bytes.extend_from_slice(&u32::to_be_bytes(word));
        }
        // The version is two numbers of 16 bits.
        bytes[4..8].copy_from_slice(&[0, 2, 0, 4]);
        for (second, message) in messages.iter().enumerate() {
            let (udp_len, ip_len) = (8 + message.len() as u16, 28 + message.len() as u16);
            for word in [second as u32, 0, ip_len.into(), ip_len.into()] {
                bytes.extend_from_slice(&word.to_be_bytes());
            }
            bytes.extend_from_slice(&[0x45, 0]);
            bytes.extend_from_slice(&ip_len.to_be_bytes());
            bytes.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
            for half in [40_000, PORT, udp_len, 0] {
                bytes.extend_from_slice(&half.to_be_bytes());
            }
            bytes.extend_from_slice(message);
        }
        let capture = Capture(std::env::temp_dir().join(format!("weft-{}-{name}.pcap", std::process::id())));
        std::fs::write(&capture.0, bytes).unwrap();
        capture
    }

    /// Returns tshark's output with these arguments.
    fn tshark(&self, arguments: &[&str]) -> String {
        let port = format!("udp.port=={PORT},cflow");
        let file = self.0.to_str().unwrap();
        let out = Command::new("tshark").args(["-n", "-r", file, "-d", &port]).args(arguments).output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn record(rng: &mut Rng) -> ExportRecord {
    let (src, dst) = if rng.chance(0.5) {
        (Ipv6Addr::from_bits(rng.next_u64().into()).into(), Ipv6Addr::LOCALHOST.into())
    } else {
        (Ipv4Addr::from_bits(rng.next_u64() as u32).into(), Ipv4Addr::new(10, 0, 0, 1).into())
    };
    ExportRecord {
        key: FlowKey { src, dst, protocol: 6, src_port: rng.next_u64() as u16, dst_port: 443, flow_label: 0 },
        dscp: 10,
        vpn: VpnId(3),
        ingress_interface: 1,
        egress_interface: 2,
        direction: RecordDirection::Egress,
        end_reason: EndReason::Ended,
        start_ms: 1_700_000_000_000,
        end_ms: 1_700_000_001_000 + rng.below(1_000),
        total_bytes: 1 << 50,
        total_packets: 1 << 40,
        bytes: 1 + rng.below(1 << 40),
        packets: 1 + rng.below(1 << 30),
        asked: Rate::from_mbps(2),
        granted: Rate::from_mbps(1),
        achieved: Rate::from_mbps(1),
        class: ClassId(2),
        precedence: 8,
        is_on_alternate: true,
        verdict: ExportVerdict::Reduced,
        path: 5,
    }
}

fn tshark_reads(dialect: Dialect, name: &str) {
    if !has_tshark() {
        return;
    }
    let mut rng = Rng::new(1);
    let mut exporter =
        Exporter::new(Instant::ZERO, ExporterConfig { dialect, queue_records: 300, ..ExporterConfig::default() });
    exporter.set_class_names(Classes::built_in().names());
    let (mut sum, mut lost) = (0, 0);
    for _ in 0..310 {
        let record = record(&mut rng);
        *if exporter.push(record) { &mut sum } else { &mut lost } += record.bytes;
    }
    let (mut messages, mut buffer) = (Vec::new(), [0; MESSAGE_BYTES]);
    while let Some(message) = exporter.poll_message(Instant::ZERO, 1_700_000_002, &mut buffer) {
        messages.push(buffer[..message.len].to_vec());
    }
    let capture = Capture::create(name, &messages);
    let complaints = capture.tshark(&["-Y", "_ws.malformed || _ws.expert.severity >= warn", "-V"]);
    assert!(complaints.is_empty(), "{complaints}");
    let text = capture.tshark(&["-V"]);
    let total = |label: &str| {
        let values = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix(label)?.trim().split(' ').next()?.parse::<u64>().ok());
        values.fold((0, 0), |(sum, count), value| (sum + value, count + 1))
    };
    assert_eq!(total("Octets:"), (sum, 300));
    assert_eq!(total("Not Sent Flows:"), (10, 1));
    assert_eq!(total("Not Sent Octets:"), (lost, 1));
}

#[test]
fn tshark_reads_ipfix() {
    tshark_reads(Dialect::Ipfix, "ipfix");
}

#[test]
fn tshark_reads_netflow_v9() {
    tshark_reads(Dialect::NetflowV9, "netflow");
}
