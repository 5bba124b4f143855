//! Property: Wireshark's dissector recognises every datagram of weft, and complains about none.
//!
//! The tests need the program tshark. Without it they say so and pass; with `WEFT_CHECK=1` they fail.

use crate::common::{Dir, on_two_nodes, stderr, stdout};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use weft_units::PathId;
use weft_wire::handshake::{
    COOKIE_REPLY_LEN, CookieReply, INITIATION_LEN, MAX_INITIATION_LEN, MessageWriter, RESPONSE_LEN,
};
use weft_wire::hop::{HopHeader, PacketType};
use weft_wire::relay::{Label, Way};

const DISSECTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/wireshark/weft.lua");
/// Seconds after which tshark has failed.
const LONGEST: &str = "120";

fn has_tshark() -> bool {
    let found = Command::new("tshark").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    assert!(found || std::env::var_os("WEFT_CHECK").is_none(), "tshark is not here: install it");
    if !found {
        eprintln!("skipped: needs tshark");
    }
    found
}

/// Runs tshark with the dissector on a capture, and returns its lines.
fn tshark(file: &Path, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("timeout");
    command.args([LONGEST, "tshark", "-n", "-X", &format!("lua_script:{DISSECTOR}"), "-r"]).arg(file).args(arguments);
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", stderr(&out));
    let errors = stderr(&out);
    assert!(!errors.contains("Lua"), "{errors}");
    stdout(&out).lines().map(str::to_owned).collect()
}

/// Returns these fields of each packet; several values of one field are separated by a comma.
fn fields(file: &Path, more: &[&str], fields: &[&str]) -> Vec<Vec<String>> {
    let mut arguments = [&["-T", "fields", "-E", "separator=|"], more].concat();
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    tshark(file, &arguments).iter().map(|line| line.split('|').map(str::to_owned).collect()).collect()
}

#[test]
fn every_datagram_of_two_nodes_is_recognised() {
    if !has_tshark() {
        return;
    }
    let commands = r#"
        up hub; up home; settled
        ip netns exec home env --default-signal=INT $WEFT capture --control home.sock -w flow.pcapng --json \
            >flow.json 2>flow.err & capture=$!
        for _ in $(seq 100); do grep -q capturing flow.err && break; sleep 0.1; done
        ip netns exec hub python3 -c "
import socket
listener = socket.create_server(('10.9.0.2', 5000), family=socket.AF_INET)
client, _ = listener.accept()
while client.recv(65536): pass" & server=$!
        sleep 0.3
        ip netns exec home timeout 20 python3 -c "
import socket
client = socket.create_connection(('10.9.0.2', 5000), 5)
client.sendall(bytes(8 << 20))"
        # A restart makes handshakes.
        kill $hub; wait $hub; up hub; sleep 1; settled; ip netns exec home ping -q -c 5 -i 0.2 10.9.0.2 >/dev/null
        kill -INT $capture; wait $capture; cat flow.err; kill $server $home $hub; wait
    "#;
    let Some((dir, out)) = on_two_nodes(commands) else { return };
    let told = format!("{}\n{}", stdout(&out), stderr(&out));
    let names = ["frame.interface_name", "frame.packet_flags_direction", "weft.type", "weft.path", "weft.receiver"];
    let lines =
        fields(&dir.path("flow.pcapng"), &[], &[&names[..], &["weft.counter", "_ws.malformed", "udp.length"]].concat());
    assert!(lines.len() > 4_000, "{} packets: {told}", lines.len());
    let mut kinds = BTreeMap::<String, usize>::new();
    // A session numbers the datagrams of each path and direction anew after a restart.
    let mut last = BTreeMap::<[String; 3], u32>::new();
    for line in &lines {
        let [link, direction, kind, path, receiver, counter, malformed, udp_len] = &line[..] else {
            panic!("{line:?}")
        };
        assert!(!kind.is_empty() && malformed.is_empty(), "{line:?}");
        assert!(link.starts_with("link") && !kind.contains(','), "a batch is cut into its datagrams: {line:?}");
        assert!(udp_len.parse::<u32>().unwrap() <= 1_500, "{line:?}");
        *kinds.entry(kind.clone()).or_default() += 1;
        let Ok(counter) = counter.parse::<u32>() else { continue };
        let before = last.insert([direction, path, receiver].map(Clone::clone), counter);
        assert!(before.is_none_or(|before| before < counter), "{before:?}, then {line:?}");
    }
    let count = |kind: &str| kinds.get(kind).copied().unwrap_or(0);
    assert!(count("1") >= 1 && count("2") >= 1 && count("4") > 3_000 && count("5") >= 10, "{kinds:?}: {told}");
    assert!(last.len() >= 4, "two directions of two paths: {last:?}");
    let summary: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.path("flow.json")).unwrap()).unwrap();
    assert_eq!((&summary["packets"], &summary["dropped"]), (&lines.len().into(), &0.into()), "{summary}");
}

/// A capture in the older format, which has one link type and packets from their IP header on.
struct Pcap(Vec<u8>);

impl Pcap {
    fn new() -> Pcap {
        let head = [0xa1b2_c3d4u32, 2 << 16 | 4, 0, 0, 262_144, 101];
        Pcap(head.iter().flat_map(|word| word.to_be_bytes()).collect())
    }

    /// Adds a packet, of which the capture has the first `captured` bytes behind the headers.
    fn add(&mut self, protocol: u8, transport: &[u8], payload: &[u8], captured: usize) {
        let len = 20 + transport.len() + payload.len();
        let stored = 20 + transport.len() + captured.min(payload.len());
        for word in [0, 0, stored as u32, len as u32] {
            self.0.extend(word.to_be_bytes());
        }
        self.0.extend([0x45, 0]);
        self.0.extend((len as u16).to_be_bytes());
        self.0.extend([0, 0, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        self.0.extend(transport);
        self.0.extend(&payload[..captured.min(payload.len())]);
    }

    fn udp(&mut self, payload: &[u8], captured: usize) {
        let halves = [40_000, 51_900, 8 + payload.len() as u16, 0];
        self.add(17, &halves.map(u16::to_be_bytes).concat(), payload, captured);
    }

    fn write(self, dir: &Dir, name: &str) -> std::path::PathBuf {
        let path = dir.path(name);
        std::fs::write(&path, self.0).unwrap();
        path
    }
}

/// Returns a sealed datagram with this header and room for `len` encrypted bytes.
fn hop(packet_type: PacketType, path: u8, number: u32, len: usize) -> Vec<u8> {
    let mut out = vec![0xee; 10 + len + 16];
    let header = HopHeader { packet_type, path: PathId(path), receiver: 0xabcd_ef01, packet_number_low: number };
    header.emit(&mut out).unwrap();
    out
}

fn handshakes() -> [Vec<u8>; 4] {
    let finish = |mut writer: MessageWriter<'_>| {
        writer.noise_mut().fill(7);
        writer.finish(|_| [1; 16], None::<fn(&[u8]) -> [u8; 16]>).unwrap();
    };
    let (mut first, mut certified) = (vec![0; INITIATION_LEN], vec![0; MAX_INITIATION_LEN]);
    finish(MessageWriter::initiation(&mut first, 11).unwrap());
    finish(MessageWriter::initiation(&mut certified, 12).unwrap());
    let (mut response, mut cookie) = (vec![0; RESPONSE_LEN], [0; COOKIE_REPLY_LEN]);
    finish(MessageWriter::response(&mut response, 13, 11).unwrap());
    CookieReply { receiver: 11, nonce: &[2; 12], sealed_cookie: &[3; 32] }.emit(&mut cookie).unwrap();
    [first, certified, response, cookie.to_vec()]
}

/// Returns a datagram on its route over two relays.
fn relayed(within: &[u8]) -> Vec<u8> {
    let way = Way::new(&[Label(3), Label(4)]).unwrap().passed(Label(1));
    let mut out = hop(PacketType::Relayed, way.code(), 77, within.len() + 8);
    out[10..10 + within.len()].copy_from_slice(within);
    way.emit(&mut out[10 + within.len()..]).unwrap();
    out
}

/// Returns a datagram of each kind, as the codecs write it.
fn each_kind() -> Vec<Vec<u8>> {
    let sealed = [
        (PacketType::Data, 6),
        (PacketType::Control, 1),
        (PacketType::LoopData, 28),
        (PacketType::DataPart, 7),
        (PacketType::DataWithReport, 20),
    ];
    let sealed = sealed.iter().zip(0..).map(|((kind, len), path)| hop(*kind, path, 100 + u32::from(path), len + 20));
    let relayed = relayed(&hop(PacketType::Data, 5, 500, 80));
    handshakes().into_iter().chain(sealed).chain([relayed]).collect()
}

#[test]
fn each_kind_of_datagram_has_its_fields() {
    if !has_tshark() {
        return;
    }
    let (dir, mut pcap) = (Dir::new(), Pcap::new());
    each_kind().iter().for_each(|datagram| pcap.udp(datagram, usize::MAX));
    // A batch that another program has captured as one packet.
    let batch: Vec<u8> = (0..9)
        .flat_map(|n| hop(PacketType::Data, 2, 900 + n, 1_200))
        .chain(hop(PacketType::Data, 2, 909, 30))
        .collect();
    pcap.udp(&batch, usize::MAX);
    let names = ["weft.type", "weft.sender", "weft.receiver", "weft.path", "weft.counter", "weft.noise.certificate"];
    let lines =
        fields(&pcap.write(&dir, "kinds.pcap"), &[], &[&names[..], &["weft.relay.position", "_ws.malformed"]].concat());
    let found: Vec<String> = lines.iter().map(|line| line.join(" ")).collect();
    let (index, long) = ("0xabcdef01", (900..=909).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    let ten = |word: &str| [word; 10].join(",");
    assert_eq!(
        found,
        [
            "1 0x0000000b    0  ".to_owned(),
            "1 0x0000000c    1  ".to_owned(),
            "2 0x0000000d 0x0000000b   0  ".to_owned(),
            "3  0x0000000b     ".to_owned(),
            format!("4  {index} 0 100   "),
            format!("5  {index} 1 101   "),
            format!("7  {index} 2 102   "),
            format!("8  {index} 3 103   "),
            format!("9  {index} 4 104   "),
            format!("6,4  {index},{index} 5 77,500  1 "),
            format!("{}  {} {} {long}   ", ten("4"), ten(index), ten("2")),
        ]
    );
}

#[test]
fn frames_of_a_tcp_carrier_are_read_across_segments() {
    if !has_tshark() {
        return;
    }
    let (dir, mut pcap) = (Dir::new(), Pcap::new());
    let mut stream = vec![9; 32];
    stream.push(1);
    for datagram in each_kind() {
        stream.extend((datagram.len() as u16).to_be_bytes());
        stream.extend(datagram);
    }
    let mut at = 1u32;
    for segment in stream.chunks(333) {
        let mut tcp = [50_000u16.to_be_bytes(), 8_443u16.to_be_bytes()].concat();
        tcp.extend([at.to_be_bytes(), 1u32.to_be_bytes()].concat());
        tcp.extend([0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
        pcap.add(6, &tcp, segment, usize::MAX);
        at += segment.len() as u32;
    }
    let more = ["-d", "tcp.port==8443,weftcarrier"];
    let names = ["weft.carrier.lane", "weft.carrier.length", "weft.type", "_ws.malformed"];
    let lines = fields(&pcap.write(&dir, "carrier.pcap"), &more, &names);
    let all =
        |at: usize| lines.iter().map(|line| line[at].clone()).filter(|of| !of.is_empty()).collect::<Vec<_>>().join(",");
    assert_eq!(all(0), "1");
    assert_eq!(all(2), "1,1,2,3,4,5,7,8,9,6,4");
    let lengths: Vec<String> = each_kind().iter().map(|datagram| datagram.len().to_string()).collect();
    assert_eq!((all(1), all(3)), (lengths.join(","), String::new()));
}

/// A payload of a datagram, and the number of its bytes in the capture.
fn hostile() -> impl Strategy<Value = (Vec<u8>, usize)> {
    let kinds = each_kind();
    let changed =
        (prop::sample::select(kinds), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3));
    let changed = changed.prop_map(|(mut datagram, changes)| {
        changes.iter().for_each(|(at, byte)| *at.get_mut(&mut datagram) = *byte);
        datagram
    });
    let random = (0x11..0x1au8, prop::collection::vec(any::<u8>(), 0..200))
        .prop_map(|(first, rest)| [vec![first], rest].concat());
    let long = (1_400..9_000usize, any::<u32>()).prop_map(|(len, number)| hop(PacketType::Data, 1, number, len));
    (prop_oneof![6 => changed, 3 => random, 1 => long], prop_oneof![0..60usize, Just(usize::MAX)])
}

#[test]
fn no_datagram_stops_the_dissector_however_it_is_cut_or_forged() {
    if !has_tshark() {
        return;
    }
    let (dir, mut pcap) = (Dir::new(), Pcap::new());
    let mut runner = TestRunner::new(Config::default());
    for _ in 0..2_000 {
        let (payload, captured) = hostile().new_tree(&mut runner).unwrap().current();
        pcap.udp(&payload, captured);
    }
    let file = pcap.write(&dir, "hostile.pcap");
    for more in [&[][..], &["-d", "udp.port==51900,weft"]] {
        let text = tshark(&file, &[&["-V", "-Y", "weft"], more].concat()).join("\n");
        assert!(!text.contains("Lua Error") && !text.contains("Exception occurred"), "{more:?}: a datagram stops it");
        assert!(text.matches("Type: ").count() > 500, "{more:?}: it recognises what is whole");
    }
}
