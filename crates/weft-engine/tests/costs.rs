//! Bounds the work that one datagram of an authentic peer can cause, for every frame type, size and content.
//!
//! Each kind draws datagrams that cost as much as the author could achieve. The test measures the time of each
//! datagram and of a calibration loop. It runs everything three times with the same draws, and keeps the least time
//! of each datagram, to suppress other load of the machine. Print the table with `cargo test --release -p weft-engine
//! --test costs -- --nocapture`.
#![allow(missing_docs)]
#![expect(clippy::disallowed_methods, reason = "the time that work takes is what is measured")]

mod lies;
mod net;

use lies::map::{self, FORGED, MAP};
use lies::{CONTROL, DATA, Datagram, Draw, Kind, RED, ROOM};
use net::liar::Liar;
use net::{address, config, inner};
use std::hint::black_box;
use std::time::{Duration as Time, Instant as Clock};
use weft_core::service::Service;
use weft_engine::{Entry, MemberConfig, OverlayConfig, Policy, Prefix, Received, TrustConfig, VpnConfig};
use weft_session::RootKey;
use weft_units::{Duration, LinkId, PathId, PathUse, Rng};
use weft_wire::frame::{Frame, FrameWriter};
use weft_wire::hop::PacketType;

const DATAGRAMS: usize = 700;
const RUNS: usize = 3;
/// Largest allowed 99.9th percentile of a kind, in turns of the calibration loop, which takes about 2 µs a turn.
///
/// The bound is generous. The costs that led to this test were several thousand turns.
const MOST_TURNS: f64 = 50.0;
/// Longest time for the work that is due after a datagram, in µs.
///
/// The remaining work of many datagrams may become due after one of them.
const MOST_DUE_US: f64 = 5_000.0;

/// A node with a session, VPNs and a root key, and the lying peer.
struct Bench {
    liar: Liar,
    draw: Draw,
    buffer: Vec<u8>,
    /// Offset of the source port of the next datagram.
    port: u16,
    /// Number of events of the kind measured last.
    events: usize,
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
        Bench::of(liar)
    }

    /// Returns a liar that belongs to a network of many members, at a node that knows them and their links.
    fn in_network() -> Bench {
        let until = map::UNIX_S + 100_000;
        let own = config(1, 1, &Policy::default(), 1).identity;
        let trust = TrustConfig {
            root: RootKey::from_seed([9; 32]).public_key(),
            certificate: Some(map::certificate(9, &own, until)),
            own: Vec::new(),
            policy: Policy::default(),
            revocations: Vec::new(),
        };
        let certificate = map::certificate(9, &map::liar(), until);
        let liar = Liar::in_network(1, &certificate, |now, node| {
            node.set_trust(now, map::UNIX_S, Some(trust));
            node.set_overlay(now, Some(OverlayConfig::default()));
        });
        let mut bench = Bench::of(liar);
        for number in 0..map::MEMBERS {
            let member = map::member(number);
            let claim = map::claim_frame(&member, &member, map::UNIX_S * 1_000 + 1, 0..map::LINKS);
            for frame in [map::certificate_frame(&map::certificate(9, &member, until)), claim] {
                bench.liar.world.now += Duration::from_millis(20);
                bench.take(0, (PacketType::Control, frame));
            }
        }
        let known = bench.liar.world.nodes[1].link_map().expect("an overlay").members.len();
        assert_eq!(known, 2 + usize::from(map::MEMBERS), "the node, the liar, and the members that it told of");
        bench
    }

    fn of(liar: Liar) -> Bench {
        let draw = Draw { rng: Rng::new(3), n: 0, largest: 0, room: ROOM, ends: [inner(0), inner(1)] };
        let mut bench = Bench { liar, draw, buffer: vec![0; 65_536], port: 0, events: 0 };
        for _ in 0..20 {
            bench.take(0, use_path());
        }
        bench
    }

    /// Lets the node process a datagram and the work that is due afterwards. Returns the time of each.
    fn take(&mut self, path: u8, (packet_type, plaintext): Datagram) -> [Time; 2] {
        let datagram = self.liar.seal(path, packet_type, &plaintext);
        self.liar.world.now += Duration::from_micros(200);
        let (now, len, node) = (self.liar.world.now, datagram.len(), &mut self.liar.world.nodes[1]);
        let buf = node.pool().alloc(len).unwrap();
        node.pool().bytes_mut(buf)[..len].copy_from_slice(&datagram);
        let (mut source, destination) = (Liar::source(), Some(address(1, 0)));
        source.set_port(source.port() + self.port);
        let received = Received { at: now, link: LinkId(1), source, destination, tos: 0, buf, len, stride: len };
        let started = Clock::now();
        node.handle_datagrams(now, received);
        [started.elapsed(), self.turn()]
    }

    /// Runs the node's due work and polls its output.
    ///
    /// Returns the time taken. The liar's reading of packet numbers is not measured.
    fn turn(&mut self) -> Time {
        let (now, node) = (self.liar.world.now, &mut self.liar.world.nodes[1]);
        let mut started = Clock::now();
        node.handle_timeout(now);
        node.deliver(now, |_, _| ());
        while node.poll_event().is_some() {
            self.events += 1;
        }
        let mut taken = started.elapsed();
        loop {
            started = Clock::now();
            let transmit = node.poll_transmit(now, &mut self.buffer);
            taken += started.elapsed();
            let Some(transmit) = transmit else { return taken };
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

    /// Sends a few packets toward the liar, so that it has something to report.
    fn send(&mut self) {
        for number in 0..4 {
            self.liar.world.send(1, 4_000, number, 100);
        }
    }

    /// Measures the datagrams of a kind, either full ones or ones of random length from several ports.
    ///
    /// Returns the time of each and of the work due afterwards.
    fn measure(&mut self, kind: &Kind, is_full: bool) -> Vec<[Time; 2]> {
        self.events = 0;
        let times = (0..DATAGRAMS).map(|n| {
            if n % 100 == 0 {
                self.take(0, use_path());
            }
            self.draw.n = n as u32;
            self.draw.room = if is_full { ROOM } else { 1 + self.draw.rng.below(ROOM as u64) as usize };
            self.port = if is_full { 0 } else { self.draw.rng.below(3) as u16 };
            self.send();
            let datagram = (kind.make)(&mut self.draw);
            self.take(0, datagram)
        });
        times.collect()
    }
}

/// Returns a datagram that puts the path into use. Without it the node sends nothing by the path.
fn use_path() -> Datagram {
    let mut room = [0; 16];
    let mut writer = FrameWriter::new(&mut room);
    writer.write(&Frame::Policy { bundle_toward_me: true, path_active: true, path_use: PathUse::default() }).unwrap();
    writer.write(&Frame::Ping { token: 1 }).unwrap();
    let len = writer.len();
    (PacketType::Control, room[..len].to_vec())
}

/// Runs one turn of the calibration loop, which mixes the bytes of a long datagram into a sum.
fn calibrate(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the time of one turn of the calibration loop: the least of many.
fn turn_time() -> Time {
    let bytes = vec![7; 1_500];
    let once = || {
        let started = Clock::now();
        black_box(calibrate(black_box(&bytes)));
        started.elapsed()
    };
    (0..10_000).map(|_| once()).min().unwrap()
}

/// Returns the median, the 99.9th percentile and the largest value.
fn spread(mut times: Vec<Time>) -> [f64; 3] {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    [at(0.5), at(0.999), at(1.0)]
}

/// Least times of the datagrams of one kind and of the work due after each.
struct Series {
    kind: &'static Kind,
    is_full: bool,
    least: Vec<[Time; 2]>,
    events: usize,
}

impl Series {
    fn all(kinds: impl Iterator<Item = &'static Kind>) -> Vec<Series> {
        let series = |kind, is_full| Series { kind, is_full, least: vec![[Time::MAX; 2]; DATAGRAMS], events: 0 };
        kinds.flat_map(|kind| [series(kind, true), series(kind, false)]).collect()
    }

    fn measure(&mut self, bench: &mut Bench) {
        for (least, times) in self.least.iter_mut().zip(bench.measure(self.kind, self.is_full)) {
            *least = [0, 1].map(|at| least[at].min(times[at]));
        }
        self.events = bench.events;
    }

    fn spread(&self, at: usize) -> [f64; 3] {
        spread(self.least.iter().map(|times| times[at]).collect())
    }
}

#[test]
fn a_datagram_costs_what_its_bytes_cost() {
    judge(Series::all(DATA.iter().chain(CONTROL)), Bench::new);
}

/// The first datagrams of a kind may be news, which costs a check of a signature. They are not counted.
#[test]
fn a_member_s_messages_about_links_cost_what_their_bytes_cost() {
    judge(Series::all(MAP.iter().chain(FORGED)), || {
        let mut bench = Bench::in_network();
        for kind in MAP {
            bench.measure(kind, true);
        }
        bench
    });
}

/// Measures all series, each run at a new bench, and prints and judges them.
fn judge(mut all: Vec<Series>, bench: impl Fn() -> Bench) {
    for _ in 0..RUNS {
        let mut bench = bench();
        all.iter_mut().for_each(|series| series.measure(&mut bench));
    }
    let turn_us = turn_time().as_secs_f64() * 1e6;
    println!(
        "one turn of the calibration loop: {turn_us:.2} µs; times in µs, of the datagram and of what follows from it"
    );
    println!(
        "{:36} {:>6} {:>26} {:>26} {:>8} {:>6}",
        "kind", "", "median, 99.9 %, most", "median, 99.9 %, most", "turns", "events"
    );
    let mut dear = Vec::new();
    for series in &all {
        let [taken, due] = [0, 1].map(|at| series.spread(at));
        let turns = taken[1] / turn_us;
        let size = if series.is_full { "full" } else { "any" };
        let show = |s: [f64; 3]| format!("{:8.2} {:8.2} {:8.2}", s[0], s[1], s[2]);
        println!("{:36} {size:>6} {} {} {turns:8.2} {:6}", series.kind.name, show(taken), show(due), series.events);
        if turns > MOST_TURNS || due[2] > MOST_DUE_US || series.events > DATAGRAMS / 4 {
            dear.push((series.kind.name, size));
        }
    }
    assert!(dear.is_empty(), "these cost too much: {dear:?}");
}
