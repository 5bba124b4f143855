//! What one authentic peer makes a node do for one datagram: for every frame type, size and content it is bounded.
//!
//! Each kind draws datagrams that cost as much as its author could make them. The test measures the time of each, and of a calibration loop
//! beside it. It runs everything three times with the same draws and keeps the least time of each datagram, so that what else the machine
//! does counts little. Print the table with `cargo test --release -p weft-engine --test costs -- --nocapture`.
#![allow(missing_docs)]
#![expect(clippy::disallowed_methods, reason = "the time that work takes is what is measured")]

mod net;

use net::liar::Liar;
use net::{address, config, inner, udp};
use std::hint::black_box;
use std::time::{Duration as Time, Instant as Clock};
use weft_core::service::Service;
use weft_engine::{Entry, MemberConfig, Policy, Prefix, Received, TrustConfig, VpnConfig};
use weft_session::RootKey;
use weft_units::{Duration, FlowId, FlowSeq, LinkId, PathId, Rng, VpnId};
use weft_wire::certificate::Revocation;
use weft_wire::frame::{Arrivals, Frame, FrameWriter, Neighbour};
use weft_wire::hop::PacketType;
use weft_wire::inner::{HeaderForm, InnerHeader, PartHeader};
use weft_wire::loop_data::{Marker, OfRun, Report};
use weft_wire::relay::Label;
use weft_wire::train::Chirp;

/// Bytes of plaintext that a datagram of 1,500 bytes has room for.
const ROOM: usize = 1_440;
const DATAGRAMS: usize = 700;
const RUNS: usize = 3;
/// Flows among which the adversary changes.
const FLOWS: u64 = 2_048;
const RED: VpnId = VpnId(7);
/// Maximum 99.9th percentile of a kind, in turns of the calibration loop. A turn takes about 2 µs. The bound is generous: the costs that led to
/// this test were several thousand turns.
const MOST_TURNS: f64 = 50.0;

/// What a kind of datagram draws from.
struct Draw {
    rng: Rng,
    /// Datagrams of the kind before this one.
    n: u32,
    /// The largest packet number that the hub has sent on the liar's path.
    largest: u64,
}

impl Draw {
    fn flow(&mut self) -> FlowId {
        FlowId(self.rng.below(FLOWS) as u16)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.rng.next_u64() as u8).collect()
    }

    fn u32(&mut self) -> u32 {
        self.rng.next_u64() as u32
    }

    fn chance(&mut self) -> bool {
        self.rng.chance(0.5)
    }
}

type Datagram = (PacketType, Vec<u8>);

/// A kind of datagram.
struct Kind {
    name: &'static str,
    make: fn(&mut Draw) -> Datagram,
}

/// As many frames as a datagram has room for.
fn full(draw: &mut Draw, frame: impl Fn(&mut Draw, u32) -> Frame<'static>) -> Datagram {
    let mut room = vec![0; ROOM];
    let mut writer = FrameWriter::new(&mut room);
    (0..).take_while(|at| writer.write(&frame(draw, *at)).is_ok()).for_each(drop);
    let len = writer.len();
    room.truncate(len);
    (PacketType::Control, room)
}

/// As many reports as fit, each of the ranges that `ranges` gives, from the largest number downwards.
fn reports(draw: &mut Draw, ranges: impl Fn(&mut Draw, u64) -> Vec<(u64, u64)>) -> Datagram {
    let mut room = vec![0; ROOM];
    let mut writer = FrameWriter::new(&mut room);
    for at in 0.. {
        let arrivals = Arrivals { path: PathId(0), packets_received: 1, ..Arrivals::default() };
        let ranges = ranges(draw, at).into_iter().map(|(first, last)| first..=last);
        if writer.write_report(&arrivals, ranges, 257).is_err() {
            break;
        }
    }
    let len = writer.len();
    room.truncate(len);
    (PacketType::Control, room)
}

fn unit(header: InnerHeader, payload: &[u8]) -> Datagram {
    let mut bytes = vec![0; 6];
    header.emit(&mut bytes).unwrap();
    bytes.extend(payload);
    (PacketType::Data, bytes)
}

/// A packet of the liar's with `len` bytes of payload.
fn packet(len: usize) -> Vec<u8> {
    udp(inner(0), inner(1), 4_000, 1, len)[10..].to_vec()
}

fn tcp_packet(len: usize) -> Vec<u8> {
    let mut packet = packet(len + 12);
    packet[9] = 6;
    packet[20..40].fill(0);
    packet[32] = 0x50;
    packet
}

const DATA: &[Kind] = &[
    Kind {
        name: "unit, each of another flow",
        make: |d| unit(InnerHeader::packet(false, FlowId((d.n * 37 % 65_536) as u16), FlowSeq::new(0)), &packet(8)),
    },
    Kind {
        name: "unit, in order",
        make: |d| unit(InnerHeader::packet(false, FlowId(0), FlowSeq::new(d.n + 1)), &packet(1_380)),
    },
    Kind {
        name: "unit, far ahead in one flow",
        make: |d| unit(InnerHeader::packet(false, FlowId(1), FlowSeq::new(d.n * 16_000)), &packet(8)),
    },
    Kind {
        name: "unit, far ahead in any flow",
        make: |d| {
            let far = [14, 200, 3_000, 16_380, 1 << 20][d.rng.below(5) as usize];
            unit(InnerHeader::packet(false, d.flow(), FlowSeq::new(d.n * 5_000 + far)), &packet(8))
        },
    },
    Kind {
        name: "unit, random",
        make: |d| {
            let (len, flow, seq) = (d.rng.below(1_400) as usize, d.flow(), FlowSeq::new(d.u32()));
            unit(InnerHeader::packet(d.chance(), flow, seq), &packet(len))
        },
    },
    Kind {
        name: "head slice, each of another flow",
        make: |d| unit(InnerHeader::head(FlowId(d.n as u16), FlowSeq::new(d.n)), &tcp_packet(1_300)),
    },
    Kind {
        name: "tail slice",
        make: |d| {
            let header = InnerHeader::tail(1 + d.rng.below(31) as u8, d.chance(), d.flow(), FlowSeq::new(d.n));
            unit(header, &d.bytes(1_300))
        },
    },
    Kind {
        name: "header reference",
        make: |d| {
            let header = InnerHeader::packet(false, d.flow(), FlowSeq::new(d.n));
            unit(InnerHeader { form: HeaderForm::Reference, ..header }, &packet(1_300))
        },
    },
    Kind {
        name: "header difference",
        make: |d| {
            let header = InnerHeader::packet(false, d.flow(), FlowSeq::new(d.u32()));
            unit(InnerHeader { form: HeaderForm::Difference, ..header }, &d.bytes(1_300))
        },
    },
    Kind {
        name: "part, each of another unit",
        make: |d| {
            let unit = InnerHeader::packet(false, d.flow(), FlowSeq::new(d.n));
            let (mut bytes, payload) = (vec![0; 7], packet(484));
            PartHeader { unit, first: 0, of: 10 }.emit(&mut bytes).unwrap();
            bytes.extend(payload);
            (PacketType::DataPart, bytes)
        },
    },
    Kind { name: "part, noise", make: |d| (PacketType::DataPart, d.bytes(1_400)) },
    Kind { name: "data, noise", make: |d| (PacketType::Data, d.bytes(1_400)) },
];

const CONTROL: &[Kind] = &[
    Kind { name: "padding", make: |d| full(d, |_, _| Frame::Padding) },
    Kind { name: "ping", make: |d| full(d, |_, at| Frame::Ping { token: at }) },
    Kind { name: "pong", make: |d| full(d, |d, _| Frame::Pong { token: d.u32(), path: PathId(0) }) },
    Kind { name: "hold, to and fro", make: |d| full(d, |_, at| Frame::Hold { hold_us: at % 2 * 5_000_000 }) },
    Kind {
        name: "skip, next of one flow",
        make: |d| {
            let from = d.n * 2_000;
            full(d, |_, at| Frame::Skip { flow: FlowId(0), first: FlowSeq::new(from + at * 8), count: 7 })
        },
    },
    Kind {
        name: "skip, most numbers of any flow",
        make: |d| full(d, |d, _| Frame::Skip { flow: d.flow(), first: FlowSeq::new(d.u32()), count: 1 << 23 }),
    },
    Kind {
        name: "skip, just within reach of any flow",
        make: |d| {
            let far = [3, 15, 31, 120, 1_000, 8_000, 16_382];
            full(d, |d, at| {
                let (flow, first) = (d.flow(), d.n * 4_000 + far[d.rng.below(7) as usize]);
                Frame::Skip { flow, first: FlowSeq::new(first + at), count: 1 + d.rng.below(16_384) as u32 }
            })
        },
    },
    Kind {
        name: "skip, random",
        make: |d| {
            full(d, |d, _| {
                let count = 1 + (d.u32() >> (9 + d.rng.below(23)));
                Frame::Skip { flow: d.flow(), first: FlowSeq::new(d.u32()), count }
            })
        },
    },
    Kind {
        name: "skip and hold in turn",
        make: |d| {
            full(d, |d, at| match at % 2 {
                0 => Frame::Hold { hold_us: d.rng.below(2) as u32 * 1_000_000 },
                _ => Frame::Skip { flow: d.flow(), first: FlowSeq::new(d.n * 9_000 + at * 64), count: 1 },
            })
        },
    },
    Kind { name: "report, of everything but the first", make: |d| reports(d, |d, _| vec![(1, d.largest)]) },
    Kind {
        name: "report, older and older",
        make: |d| reports(d, |d, at| vec![(1 + at, d.largest.saturating_sub(at).max(1 + at))]),
    },
    Kind {
        name: "report, most ranges",
        make: |d| reports(d, |d, _| (0..257).map(|at| d.largest.saturating_sub(at * 2)).map(|n| (n, n)).collect()),
    },
    Kind {
        name: "report, one number at a time",
        make: |d| {
            reports(d, |d, at| {
                let number = d.largest.saturating_sub(120).saturating_add(at).min(d.largest);
                vec![(number, number)]
            })
        },
    },
    Kind { name: "report, random", make: |d| reports(d, random_ranges) },
    Kind {
        name: "policy, to and fro",
        make: |d| {
            let (path_active, path_standby) = (d.n % 2 == 0, d.chance());
            full(d, |_, _| Frame::Policy { bundle_toward_me: true, path_active, path_standby })
        },
    },
    Kind {
        name: "vpn, unknown",
        make: |d| full(d, |d, _| Frame::Vpn { vpn: VpnId(8 + (d.u32() >> 8)), index: 1, wants_index: true }),
    },
    Kind {
        name: "vpn, known",
        make: |d| full(d, |d, _| Frame::Vpn { vpn: RED, index: d.rng.below(2) as u32, wants_index: true }),
    },
    Kind {
        name: "loop marker",
        make: |d| {
            full(d, |d, _| {
                let what = Marker { sequence: d.u32(), packets: d.u32(), bytes: d.u32(), ..Marker::default() };
                Frame::LoopMarker { vpn: RED, marker: OfRun { run: d.rng.below(2) as u8, what } }
            })
        },
    },
    Kind {
        name: "loop report",
        make: |d| {
            full(d, |d, _| {
                let marker = Marker { sequence: d.u32(), packets: d.u32(), ..Marker::default() };
                let what = Report { marker, packets: d.u32(), bytes: d.u32(), ..Report::default() };
                Frame::LoopReport { vpn: RED, report: OfRun { run: d.rng.below(2) as u8, what } }
            })
        },
    },
    Kind {
        name: "neighbour",
        make: |d| {
            full(d, |d, _| {
                let (node, is_reachable) = (Label(d.u32()), d.rng.chance(0.9));
                Frame::Neighbour(Neighbour { node, is_reachable, rtt_us: 1, loss: 0 })
            })
        },
    },
    Kind {
        name: "revocation, false",
        make: |d| full(d, |d, _| Frame::Revocation(Revocation::new([d.u32() as u8; 32], 1, |_| [3; 64]))),
    },
    Kind { name: "overlay, empty", make: |d| full(d, |_, _| Frame::Overlay(&[])) },
    Kind { name: "overlay, short", make: |d| full(d, |_, _| Frame::Overlay(&[1, 1, 1, 1, 1, 1, 1, 1])) },
    Kind {
        name: "chirp, each of another train",
        make: |d| {
            let n = d.n as u16;
            full(d, |_, at| {
                let train = n.wrapping_mul(160).wrapping_add(at as u16);
                Frame::Chirp(Chirp { train, index: 63, of: 64, sent_us: at })
            })
        },
    },
    Kind {
        name: "chirp, of one train",
        make: |d| {
            let train = d.n as u16;
            full(d, |_, at| Frame::Chirp(Chirp { train, index: (at % 63) as u8, of: 64, sent_us: at }))
        },
    },
    Kind { name: "control, noise", make: |d| (PacketType::Control, without_goodbye(d.bytes(ROOM))) },
    Kind {
        name: "control, small numbers",
        make: |d| {
            let small = |byte: u8| if byte < 180 { byte % 16 } else { byte };
            (PacketType::Control, without_goodbye(d.bytes(ROOM).into_iter().map(small).collect()))
        },
    },
];

/// A goodbye ends the session, once, and what was learnt under it. Its type is 7.
fn without_goodbye(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.iter_mut().filter(|byte| **byte == 7).for_each(|byte| *byte = 0);
    bytes
}

fn random_ranges(d: &mut Draw, _: u64) -> Vec<(u64, u64)> {
    let mut last = d.rng.below(d.largest + 1);
    let mut ranges = Vec::new();
    for _ in 0..1 + d.rng.below(40) {
        let first = last.saturating_sub(d.rng.below(2_000));
        ranges.push((first, last));
        match first.checked_sub(2 + d.rng.below(30)) {
            Some(next) => last = next,
            None => break,
        }
    }
    ranges
}

/// Holds a node with a session, VPNs and a root key, and the liar that is its peer.
struct Bench {
    liar: Liar,
    draw: Draw,
    buffer: Vec<u8>,
}

impl Bench {
    fn new() -> Bench {
        let behind = |node: usize| vec![Prefix { address: inner(node).into(), length: 32 }];
        let member = config(1, 1, &Policy::default(), 1).peers.remove(0).public_key;
        let red = VpnConfig {
            id: RED,
            name: "red".into(),
            weight: 1,
            service: Service::BestEffort,
            entry: Entry::default(),
            prefixes: behind(1),
            members: vec![MemberConfig { public_key: member, prefixes: behind(0) }],
        };
        let mut liar = Liar::in_vpns(1, vec![red]);
        let root = RootKey::from_seed([9; 32]).public_key();
        let (own, policy) = (vec![inner(1).into()], Policy::default());
        let trust = TrustConfig { root, certificate: None, own, policy, revocations: Vec::new() };
        let now = liar.world.now;
        liar.world.nodes[1].set_trust(now, 1_800_000_000, Some(trust));
        let draw = Draw { rng: Rng::new(3), n: 0, largest: 0 };
        let mut bench = Bench { liar, draw, buffer: vec![0; 65_536] };
        for _ in 0..20 {
            bench.take(0, use_path());
        }
        bench
    }

    /// Has the node take a datagram in, and gives the time that took; then what is due is done, unmeasured.
    fn take(&mut self, path: u8, (packet_type, plaintext): Datagram) -> Time {
        let datagram = self.liar.seal(path, packet_type, &plaintext);
        self.liar.world.now += Duration::from_micros(200);
        let (now, len, node) = (self.liar.world.now, datagram.len(), &mut self.liar.world.nodes[1]);
        let buf = node.pool().alloc(len).unwrap();
        node.pool().bytes_mut(buf)[..len].copy_from_slice(&datagram);
        let (source, destination) = (Liar::source(), Some(address(1, 0)));
        let received = Received { at: now, link: LinkId(1), source, destination, tos: 0, buf, len, stride: len };
        let started = Clock::now();
        node.handle_datagrams(now, received);
        let taken = started.elapsed();
        self.turn();
        taken
    }

    /// What the node has to do and to say. The liar reads the numbers of its datagrams.
    fn turn(&mut self) {
        let (now, node) = (self.liar.world.now, &mut self.liar.world.nodes[1]);
        node.handle_timeout(now);
        node.deliver(|_, _| ());
        while node.poll_event().is_some() {}
        while let Some(transmit) = node.poll_transmit(now, &mut self.buffer) {
            let size = transmit.segment_size.map_or(transmit.len, usize::from);
            for datagram in self.buffer[..transmit.len].chunks_mut(size) {
                if let Ok(opened) = self.liar.sessions.open(datagram)
                    && opened.path == PathId(0)
                {
                    self.draw.largest = self.draw.largest.max(opened.packet_number);
                }
            }
        }
    }

    /// A few packets toward the liar, so that there is something to report.
    fn send(&mut self) {
        for number in 0..4 {
            self.liar.world.send(1, 4_000, number, 100);
        }
    }

    /// How long each datagram of a kind takes.
    fn measure(&mut self, kind: &Kind) -> Vec<Time> {
        let times = (0..DATAGRAMS).map(|n| {
            if n % 100 == 0 {
                self.take(0, use_path());
            }
            self.draw.n = n as u32;
            self.send();
            let datagram = (kind.make)(&mut self.draw);
            self.take(0, datagram)
        });
        times.collect()
    }
}

/// Without this the node sends nothing by the path.
fn use_path() -> Datagram {
    let mut room = [0; 16];
    let mut writer = FrameWriter::new(&mut room);
    writer.write(&Frame::Policy { bundle_toward_me: true, path_active: true, path_standby: false }).unwrap();
    writer.write(&Frame::Ping { token: 1 }).unwrap();
    let len = writer.len();
    (PacketType::Control, room[..len].to_vec())
}

/// One turn of the calibration loop: a byte after another of a long datagram is mixed into a sum.
fn calibrate(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// How long a turn of the calibration loop takes: the least of many.
fn turn_time() -> Time {
    let bytes = vec![7; 1_500];
    let once = || {
        let started = Clock::now();
        black_box(calibrate(black_box(&bytes)));
        started.elapsed()
    };
    (0..10_000).map(|_| once()).min().unwrap()
}

/// Median, 99.9th percentile and largest.
fn spread(mut times: Vec<Time>) -> [f64; 3] {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    [at(0.5), at(0.999), at(1.0)]
}

#[test]
fn a_datagram_costs_what_its_bytes_cost() {
    let kinds = || DATA.iter().chain(CONTROL);
    let mut least: Vec<Vec<Time>> = vec![vec![Time::MAX; DATAGRAMS]; kinds().count()];
    for _ in 0..RUNS {
        let mut bench = Bench::new();
        for (kind, least) in kinds().zip(&mut least) {
            let times = bench.measure(kind);
            least.iter_mut().zip(times).for_each(|(least, time)| *least = time.min(*least));
        }
    }
    let turn_us = turn_time().as_secs_f64() * 1e6;
    println!("one turn of the calibration loop: {turn_us:.2} µs");
    println!("{:36} {:>10} {:>10} {:>10} {:>24}", "kind", "median", "99.9 %", "most, µs", "the same in turns");
    let mut dear = Vec::new();
    for (kind, times) in kinds().zip(least) {
        let [median, high, most] = spread(times);
        let turns = [median, high, most].map(|us| us / turn_us);
        let [a, b, c] = turns;
        println!("{:36} {median:10.2} {high:10.2} {most:10.2} {a:8.2} {b:8.2} {c:8.2}", kind.name);
        if turns[1] > MOST_TURNS {
            dear.push(kind.name);
        }
    }
    assert!(dear.is_empty(), "these cost too much: {dear:?}");
}
