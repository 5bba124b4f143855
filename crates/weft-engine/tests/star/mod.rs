//! A hub and many sites in one process and virtual time. Only the work of the hub is measured.
#![allow(dead_code, missing_docs)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::time::{Duration as Time, Instant as Clock};
use weft_engine::*;
use weft_session::{Cipher, Identity, PublicKey};
use weft_units::{Duration, Instant, LinkId, PathUse, Rate, VpnId};

const PORT: u16 = 51_900;
/// The hub's number among the nodes.
pub const HUB: usize = 0;

struct Flight {
    at: Instant,
    serial: u64,
    to: usize,
    from: usize,
    bytes: Vec<u8>,
}

impl PartialEq for Flight {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.serial) == (other.at, other.serial)
    }
}
impl Eq for Flight {}
impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Flight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

pub struct Star {
    pub now: Instant,
    /// The hub, followed by the sites.
    pub nodes: Vec<Engine>,
    keys: Vec<PublicKey>,
    flying: BinaryHeap<Reverse<Flight>>,
    timeouts: BinaryHeap<Reverse<(Instant, usize)>>,
    serial: u64,
    delay: Duration,
    /// Wall-clock time of each turn of the hub since [`Star::forget_turns`].
    pub turns: Vec<Time>,
    /// Packets delivered at each node.
    pub delivered: Vec<u64>,
    /// IP bytes that the hub has sent.
    pub hub_bytes: u64,
    buffer: Vec<u8>,
    is_relay: bool,
}

pub fn outer(node: usize) -> IpAddr {
    let [high, low] = (node as u16).to_be_bytes();
    Ipv4Addr::new(10, 0, high, low).into()
}

pub fn inner(node: usize) -> Ipv4Addr {
    let [high, low] = (node as u16).to_be_bytes();
    Ipv4Addr::new(10, 9, high, low)
}

fn wan() -> LinkEvent {
    LinkEvent::Up { link: LinkId(1), name: "wan".into(), mtu: 1500, ipv4: true, ipv6: false }
}

fn identity(node: usize) -> Identity {
    let mut secret = [7; 32];
    // X25519 overwrites some bits of the secret (RFC 7748 §5). These bytes are not affected.
    secret[8..10].copy_from_slice(&(node as u16).to_be_bytes());
    Identity::from_secret(secret)
}

impl Star {
    pub fn new(sites: usize, is_relay: bool) -> Star {
        let now = Instant::from_millis(1);
        let keys: Vec<PublicKey> = (0..=sites).map(|node| identity(node).public_key()).collect();
        let mut star = Star {
            now,
            nodes: Vec::new(),
            keys,
            flying: BinaryHeap::new(),
            timeouts: BinaryHeap::new(),
            serial: 0,
            delay: Duration::from_millis(10),
            turns: Vec::new(),
            delivered: vec![0; sites + 1],
            hub_bytes: 0,
            buffer: vec![0; 65_536],
            is_relay,
        };
        for node in 0..=sites {
            let engine = star.engine(node, 1);
            star.nodes.push(engine);
            star.plug_in(node);
        }
        star
    }

    fn engine(&self, node: usize, stamp_base: u64) -> Engine {
        let peers = if node == HUB { 1..self.keys.len() } else { HUB..HUB + 1 };
        self.engine_of(node, peers, stamp_base)
    }

    fn engine_of(&self, node: usize, peers: Range<usize>, stamp_base: u64) -> Engine {
        let peer = |of: usize| PeerConfig {
            preshared_key: None,
            name: format!("node{of}"),
            public_key: self.keys[of],
            endpoints: if of == HUB { vec![SocketAddr::new(outer(HUB), PORT)] } else { Vec::new() },
            routes: Vec::new(),
            prefixes: vec![Prefix { address: inner(of).into(), length: 32 }],
            policy: Policy::default(),
        };
        let config = EngineConfig {
            identity: identity(node),
            cipher: Cipher::Aes256Gcm,
            peers: peers.map(peer).collect(),
            vpns: Vec::new(),
            links: Vec::new(),
            accepted_stamps: Vec::new(),
            stamp_base,
            inner_mtu: None,
        };
        let mut seed = [stamp_base as u8; 32];
        seed[..8].copy_from_slice(&(node as u64).to_le_bytes());
        let mut engine = Engine::new(config, self.now, seed).unwrap();
        engine.set_relaying(self.is_relay && node == HUB);
        engine
    }

    fn plug_in(&mut self, node: usize) {
        let now = self.now;
        self.work(node, |engine| engine.handle_link(now, wan()));
    }

    pub fn unplug(&mut self, node: usize) {
        let now = self.now;
        self.work(node, |engine| engine.handle_link(now, LinkEvent::Down { link: LinkId(1), cause: "no carrier" }));
    }

    /// Delivers a stranger's datagram to the hub. Returns the wall-clock time that it takes.
    pub fn inject(&mut self, bytes: &[u8]) -> Time {
        let before = self.turns.len();
        self.receive(Flight { at: self.now, serial: 0, to: HUB, from: self.keys.len(), bytes: bytes.to_vec() });
        self.turns[before..].iter().sum()
    }

    /// Returns an initiation of a stranger that knows the hub's key.
    pub fn initiation_of_a_stranger(&self) -> Vec<u8> {
        let stranger = self.keys.len();
        let mut engine = self.engine_of(stranger, HUB..HUB + 1, 1);
        engine.handle_link(self.now, wan());
        engine.handle_timeout(self.now);
        let mut buffer = vec![0; 65_536];
        let transmit = engine.poll_transmit(self.now, &mut buffer).expect("an initiation");
        buffer[..transmit.len].to_vec()
    }

    /// Sets the rate limit of the hub's uplink.
    pub fn limit_hub(&mut self, cap: Rate) {
        let link = LinkConfig { name: "wan".into(), cap: Some(cap), send: true, allowed: PathUse::default() };
        self.nodes[HUB].set_links(self.now, vec![link]);
    }

    /// Takes the uplink of a node down and up again.
    pub fn flap(&mut self, node: usize) {
        self.unplug(node);
        self.plug_in(node);
    }

    /// Kills a node's process without a CLOSE frame and restarts it.
    pub fn restart(&mut self, node: usize, stamp_base: u64) {
        self.nodes[node] = self.engine(node, stamp_base);
        self.plug_in(node);
    }

    /// Sends a packet of `len` bytes from one node's host to another's.
    pub fn send(&mut self, from: usize, to: usize, len: usize) {
        let mut packet = vec![0; 10 + len];
        let ip = &mut packet[10..];
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        (ip[8], ip[9]) = (64, 17);
        ip[12..16].copy_from_slice(&inner(from).octets());
        ip[16..20].copy_from_slice(&inner(to).octets());
        ip[24..26].copy_from_slice(&((len - 20) as u16).to_be_bytes());
        let now = self.now;
        self.work(from, |engine| {
            let buf = engine.pool().alloc_large().expect("a buffer");
            engine.pool().bytes_mut(buf)[..packet.len()].copy_from_slice(&packet);
            engine.handle_packet(now, VpnId::DEFAULT, buf, packet.len());
        });
    }

    /// Runs one turn of a node as its daemon does: processes an input, runs timers, sends and delivers.
    fn work(&mut self, node: usize, input: impl FnOnce(&mut Engine)) {
        let (now, engine, buffer) = (self.now, &mut self.nodes[node], &mut self.buffer);
        let mut sent = Vec::new();
        let begin = Clock::now();
        input(engine);
        engine.handle_timeout(now);
        while let Some(transmit) = engine.poll_transmit(now, buffer) {
            let size = transmit.segment_size.map_or(transmit.len, usize::from);
            sent.extend(buffer[..transmit.len].chunks(size).map(|bytes| (transmit.destination, bytes.to_vec())));
        }
        let delivered = &mut self.delivered[node];
        engine.deliver(now, |_, _| *delivered += 1);
        while engine.poll_event().is_some() {}
        let timeout = engine.next_timeout(now);
        if node == HUB {
            self.turns.push(begin.elapsed());
            self.hub_bytes += sent.iter().map(|(_, bytes)| bytes.len() as u64 + 28).sum::<u64>();
        }
        for (destination, bytes) in sent {
            let IpAddr::V4(address) = destination.ip() else { continue };
            let [_, _, high, low] = address.octets();
            let to = usize::from(u16::from_be_bytes([high, low]));
            if to >= self.nodes.len() {
                continue;
            }
            self.serial += 1;
            let flight = Flight { at: now + self.delay, serial: self.serial, to, from: node, bytes };
            self.flying.push(Reverse(flight));
        }
        if let Some(at) = timeout {
            self.timeouts.push(Reverse((at.max(now + Duration::from_micros(1)), node)));
        }
    }

    fn receive(&mut self, flight: Flight) {
        let (now, len) = (self.now, flight.bytes.len());
        let (source, destination) = (SocketAddr::new(outer(flight.from), PORT), Some(outer(flight.to)));
        self.work(flight.to, |engine| {
            let buf = engine.pool().alloc(len).expect("room for what comes in");
            engine.pool().bytes_mut(buf)[..len].copy_from_slice(&flight.bytes);
            let (link, at) = (LinkId(1), now);
            engine.handle_datagrams(now, Received { at, link, source, destination, tos: 0, buf, len, stride: len });
        });
    }

    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let flight = self.flying.peek().map(|next| next.0.at);
            let timeout = self.timeouts.peek().map(|next| next.0.0);
            let Some(next) = flight.into_iter().chain(timeout).min().filter(|next| *next <= until) else { break };
            self.now = self.now.max(next);
            if flight == Some(next) {
                let Some(Reverse(flight)) = self.flying.pop() else { break };
                self.receive(flight);
            } else if let Some(Reverse((at, node))) = self.timeouts.pop() {
                let is_due = self.nodes[node].next_timeout(self.now).is_some_and(|due| due <= self.now || due <= at);
                if is_due {
                    self.work(node, |_| {});
                }
            }
        }
        self.now = until;
    }

    /// Returns the number of sites with which the hub has a session, and which have one with the hub.
    pub fn established(&self) -> usize {
        let is_up = |peer: &PeerSnapshot| peer.established_for.is_some();
        let of_hub = self.nodes[HUB].snapshot(self.now).peers.iter().filter(|peer| is_up(peer)).count();
        let of_sites = self.nodes[1..].iter().filter(|site| is_up(&site.snapshot(self.now).peers[0])).count();
        of_hub.min(of_sites)
    }

    pub fn forget_turns(&mut self) {
        self.turns.clear();
    }

    pub fn longest_turn(&self) -> Time {
        self.turns.iter().copied().max().unwrap_or_default()
    }
}
