//! Many engines joined by emulated links in virtual time. Each link connects two nodes.
#![allow(dead_code, missing_docs)]

use super::net::engine;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_engine::*;
use weft_session::{Cipher, Identity, PublicKey};
use weft_units::{Duration, Instant, LinkId, Rate, Rng, VpnId};

const PORT: u16 = 51_900;
const QUEUE: Duration = Duration::from_millis(60);

pub fn key(node: usize) -> PublicKey {
    Identity::from_secret([node as u8 + 1; 32]).public_key()
}

pub fn inner(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, 1 + node as u8)
}

/// A link between two nodes. The addresses of its ends are 10.link.0.node.
#[derive(Clone)]
pub struct Wire {
    pub ends: (usize, usize),
    pub delay: Duration,
    pub rate: Rate,
    pub loss: f64,
    pub cut: bool,
    free_at: [Instant; 2],
    pub sent: [u64; 2],
}

pub fn wire(a: usize, b: usize) -> Wire {
    Wire {
        ends: (a, b),
        delay: Duration::from_millis(5),
        rate: Rate::from_mbps(20),
        loss: 0.0,
        cut: false,
        free_at: [Instant::ZERO; 2],
        sent: [0; 2],
    }
}

/// The peers of a node, and the relayed routes to them.
#[derive(Clone, Default)]
pub struct Knows {
    pub direct: Vec<usize>,
    pub routed: Vec<(usize, Vec<Vec<usize>>)>,
    pub is_relay: bool,
}

struct Flight {
    at: Instant,
    serial: u64,
    to: usize,
    link: usize,
    source: SocketAddr,
    tos: u8,
    bytes: Vec<u8>,
}

impl PartialEq for Flight {
    fn eq(&self, o: &Self) -> bool {
        (self.at, self.serial) == (o.at, o.serial)
    }
}
impl Eq for Flight {}
impl PartialOrd for Flight {
    fn partial_cmp(&self, o: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(o))
    }
}
impl Ord for Flight {
    fn cmp(&self, o: &Self) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(o.at, o.serial))
    }
}

/// Changes a datagram that a node sends: returns the bytes that leave, or `None` to drop it.
pub type Meddler = Box<dyn FnMut(usize, &[u8]) -> Option<Vec<u8>>>;

/// Returns the additional delay of a datagram that a node sends.
pub type Laggard = Box<dyn FnMut(usize, &[u8]) -> Duration>;

/// Address from which hijacked datagrams arrive.
pub const HIJACKER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)), 9);

/// An attacker that forwards some datagrams of a node from its own address, and answers nothing.
pub struct Hijack {
    pub node: usize,
    /// Share of the datagrams, 0…1.
    pub share: f64,
    /// IP bytes that the attacker forwarded.
    pub forwarded: u64,
    /// IP bytes that were sent to the attacker.
    pub received: u64,
}

pub struct Mesh {
    pub now: Instant,
    pub nodes: Vec<Engine>,
    pub wires: Vec<Wire>,
    pub delivered: Vec<Vec<(Instant, u64)>>,
    pub events: Vec<(usize, Instant, Event)>,
    pub meddler: Option<Meddler>,
    pub laggard: Option<Laggard>,
    pub hijack: Option<Hijack>,
    /// Sender and bytes of every datagram that left, if recording is on.
    pub seen: Option<Vec<(usize, Vec<u8>)>>,
    /// Node and bytes of every write to a TUN device, if recording is on.
    pub written: Option<Vec<(usize, Vec<u8>)>>,
    flying: BinaryHeap<Reverse<Flight>>,
    serial: u64,
    rng: Rng,
}

fn address(wire: usize, node: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, wire as u8, 0, 1 + node as u8))
}

/// Returns the configuration of one node.
pub fn config(node: usize, knows: &Knows, wires: &[Wire], policy: &Policy) -> EngineConfig {
    let peer = |other: usize, routes: &[Vec<usize>], is_direct: bool| {
        let joins = |wire: &Wire| wire.ends == (node, other) || wire.ends == (other, node);
        let direct = (0..wires.len()).filter(|w| is_direct && joins(&wires[*w]));
        PeerConfig {
            preshared_key: None,
            name: format!("n{other}"),
            public_key: key(other),
            endpoints: direct.map(|w| SocketAddr::new(address(w, other), PORT)).collect(),
            routes: routes.iter().map(|relays| relays.iter().map(|relay| key(*relay)).collect()).collect(),
            prefixes: vec![Prefix { address: inner(other).into(), length: 32 }],
            policy: policy.clone(),
        }
    };
    let direct = knows.direct.iter().map(|other| peer(*other, &[], true));
    let routed = knows.routed.iter().map(|(other, routes)| peer(*other, routes, false));
    EngineConfig {
        identity: Identity::from_secret([node as u8 + 1; 32]),
        cipher: Cipher::Aes256Gcm,
        peers: direct.chain(routed).collect(),
        vpns: Vec::new(),
        links: Vec::new(),
        accepted_stamps: Vec::new(),
        stamp_base: 1,
        inner_mtu: None,
    }
}

impl Mesh {
    pub fn new(wires: &[Wire], knows: &[Knows]) -> Mesh {
        Mesh::with(wires, knows, |config| config)
    }

    /// Returns a mesh in which `change` modifies each node's configuration.
    pub fn with(wires: &[Wire], knows: &[Knows], change: impl Fn(EngineConfig) -> EngineConfig) -> Mesh {
        let now = Instant::from_millis(1);
        let engines = knows.iter().enumerate().map(|(node, knows)| {
            let config = change(config(node, knows, wires, &Policy::default()));
            let mut engine = Engine::new(config, now, [node as u8 + 40; 32]).unwrap();
            engine.set_relaying(knows.is_relay);
            engine
        });
        let mut mesh = Mesh {
            now,
            nodes: engines.collect(),
            wires: wires.to_vec(),
            delivered: vec![Vec::new(); knows.len()],
            events: Vec::new(),
            meddler: None,
            laggard: None,
            hijack: None,
            seen: None,
            written: None,
            flying: BinaryHeap::new(),
            serial: 0,
            rng: Rng::new(11),
        };
        for (number, wire) in wires.iter().enumerate() {
            for node in [wire.ends.0, wire.ends.1] {
                let link = LinkId(number as u32 + 1);
                let name = format!("wire{number}");
                mesh.nodes[node].handle_link(now, LinkEvent::Up { link, name, mtu: 1500, ipv4: true, ipv6: false });
            }
        }
        mesh
    }

    /// Returns a chain of relays between the first and the last node. The first node initiates.
    pub fn chain(relays: usize) -> Mesh {
        Mesh::chain_with(relays, |config| config)
    }

    /// Returns a chain of relays in which `change` modifies each node's configuration.
    pub fn chain_with(relays: usize, change: impl Fn(EngineConfig) -> EngineConfig) -> Mesh {
        let last = relays + 1;
        let wires: Vec<_> = (0..last).map(|n| wire(n, n + 1)).collect();
        let knows = (0..=last).map(|n| match n {
            0 => Knows { direct: vec![1], routed: vec![(last, vec![(1..last).collect()])], is_relay: false },
            n if n == last => Knows { direct: vec![n - 1], routed: vec![(0, Vec::new())], is_relay: false },
            n => Knows { direct: vec![n - 1, n + 1], is_relay: true, ..Knows::default() },
        });
        Mesh::with(&wires, &knows.collect::<Vec<_>>(), change)
    }

    /// Sends a UDP packet from one node's host to another's.
    pub fn send(&mut self, from: usize, to: usize, number: u64, payload_len: usize) {
        self.send_raw(from, &super::net::udp(inner(from), inner(to), 4000, number, payload_len));
    }

    /// Hands a packet behind a virtio-net header to a node, as its TUN device would.
    pub fn send_raw(&mut self, from: usize, packet: &[u8]) {
        let node = &mut self.nodes[from];
        let buf = node.pool().alloc_large().unwrap();
        node.pool().bytes_mut(buf)[..packet.len()].copy_from_slice(packet);
        engine(|| node.handle_packet(self.now, VpnId::DEFAULT, buf, packet.len()));
    }

    fn transmit(&mut self, from: usize, transmit: &Transmit, bytes: &[u8]) {
        let number = transmit.link.0 as usize - 1;
        let wire = &mut self.wires[number];
        let (to, way) = if wire.ends.0 == from { (wire.ends.1, 0) } else { (wire.ends.0, 1) };
        if let Some(hijack) = self.hijack.as_mut().filter(|_| transmit.destination == HIJACKER) {
            let datagrams = bytes.chunks(transmit.segment_size.map_or(transmit.len, usize::from));
            hijack.received += datagrams.map(|datagram| datagram.len() as u64 + 28).sum::<u64>();
        }
        // Each link tries each address. A datagram to an address that the link does not reach is lost.
        if transmit.destination != SocketAddr::new(address(number, to), PORT) {
            return;
        }
        for datagram in bytes.chunks(transmit.segment_size.map_or(transmit.len, usize::from)) {
            let size = datagram.len() as u64 + 28;
            assert!(size <= 1500, "a datagram of {size} bytes");
            if let Some(seen) = &mut self.seen {
                seen.push((from, datagram.to_vec()));
            }
            let leaves = match &mut self.meddler {
                Some(meddler) => meddler(from, datagram),
                None => Some(datagram.to_vec()),
            };
            let free_at = &mut wire.free_at[way];
            *free_at = (*free_at).max(self.now);
            let Some(bytes) = leaves.filter(|_| *free_at - self.now <= QUEUE) else { continue };
            *free_at += wire.rate.time_for(size);
            wire.sent[way] += size;
            if wire.cut || self.rng.chance(wire.loss) {
                continue;
            }
            self.serial += 1;
            let mut source = SocketAddr::new(address(number, from), PORT);
            if let Some(hijack) = self.hijack.as_mut().filter(|hijack| hijack.node == from)
                && self.rng.chance(hijack.share)
            {
                source = HIJACKER;
                hijack.forwarded += size;
            }
            let held = self.laggard.as_mut().map_or(Duration::ZERO, |laggard| laggard(from, datagram));
            let (at, serial, tos) = (*free_at + wire.delay + held, self.serial, transmit.tos);
            self.flying.push(Reverse(Flight { at, serial, to, link: number, source, tos, bytes }));
        }
    }

    /// Replays a datagram of `from` to every node with which it shares a link, with its source address.
    pub fn replay(&mut self, from: usize, bytes: &[u8]) {
        let ends = self.wires.iter().enumerate().filter_map(|(number, wire)| match wire.ends {
            (a, b) if a == from => Some((number, b)),
            (a, b) if b == from => Some((number, a)),
            _ => None,
        });
        for (link, to) in ends.collect::<Vec<_>>() {
            self.serial += 1;
            let source = SocketAddr::new(address(link, from), PORT);
            let (at, serial, bytes) = (self.now, self.serial, bytes.to_vec());
            self.flying.push(Reverse(Flight { at, serial, to, link, source, tos: 0, bytes }));
        }
    }

    fn receive(&mut self, flight: &Flight) {
        let node = &mut self.nodes[flight.to];
        let (link, len) = (LinkId(flight.link as u32 + 1), flight.bytes.len());
        let destination = Some(address(flight.link, flight.to));
        let buf = node.pool().alloc(len).expect("room for what comes in");
        node.pool().bytes_mut(buf)[..len].copy_from_slice(&flight.bytes);
        let (source, tos) = (flight.source, flight.tos);
        let received = Received { at: self.now, link, source, destination, tos, buf, len, stride: len };
        engine(|| node.handle_datagrams(self.now, received));
    }

    fn turn(&mut self) {
        let mut buffer = vec![0; 65_536];
        for n in 0..self.nodes.len() {
            engine(|| self.nodes[n].handle_timeout(self.now));
            loop {
                while let Some(transmit) = engine(|| self.nodes[n].poll_transmit(self.now, &mut buffer)) {
                    self.transmit(n, &transmit, &buffer[..transmit.len]);
                }
                if !self.deliver(n) {
                    break;
                }
            }
            while let Some(event) = self.nodes[n].poll_event() {
                self.events.push((n, self.now, event));
            }
        }
    }

    /// Takes the packets that a node writes to its TUN device. Returns true if packets went on to other nodes.
    fn deliver(&mut self, n: usize) -> bool {
        let (now, out, written) = (self.now, &mut self.delivered[n], &mut self.written);
        self.nodes[n].deliver(now, |_, pieces| {
            let packet = pieces.concat();
            if let Some(number) = packet.get(38..46) {
                out.push((now, u64::from_be_bytes(number.try_into().unwrap())));
            }
            if let Some(written) = written {
                written.push((n, packet));
            }
        })
    }

    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        let mut stuck = 0;
        loop {
            self.turn();
            let wakes = self.nodes.iter().filter_map(|node| node.next_timeout(self.now));
            let next = wakes.chain(self.flying.peek().map(|f| f.0.at)).min().unwrap_or(until);
            if next > until {
                self.now = until;
                return;
            }
            stuck = if next <= self.now { stuck + 1 } else { 0 };
            assert!(stuck < 10_000, "no progress at {:?}", self.now);
            self.now = self.now.max(next);
            while self.flying.peek().is_some_and(|f| f.0.at <= self.now) {
                let Some(Reverse(flight)) = self.flying.pop() else { break };
                self.receive(&flight);
            }
        }
    }

    /// Returns a node that has a datagram to send `slack` or more before the time at which it asked to be woken.
    ///
    /// The world must stand between two steps, so that no node has unprocessed input.
    pub fn early(&mut self, slack: Duration) -> Option<(usize, Duration)> {
        let mut buffer = vec![0; 65_536];
        let mut early = None;
        for n in 0..self.nodes.len() {
            let asked = self.nodes[n].next_timeout(self.now).unwrap_or(Instant::FAR_FUTURE);
            engine(|| {
                self.nodes[n].forget_deadlines();
                self.nodes[n].handle_timeout(self.now);
            });
            while let Some(transmit) = engine(|| self.nodes[n].poll_transmit(self.now, &mut buffer)) {
                self.transmit(n, &transmit, &buffer[..transmit.len]);
                early = early.or((asked - self.now >= slack).then_some((n, asked - self.now)));
            }
        }
        early
    }

    /// Returns the numbers of the packets delivered at `node` since the last call.
    pub fn take_numbers(&mut self, node: usize) -> Vec<u64> {
        self.delivered[node].drain(..).map(|(_, number)| number).collect()
    }
}
