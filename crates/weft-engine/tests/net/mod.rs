//! Two engines joined by emulated links in virtual time: enough to see whether what goes in comes out.
#![allow(dead_code, missing_docs)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_engine::*;
use weft_session::{Cipher, Identity};
use weft_units::{Duration, Instant, LinkId, Rate, Rng};

pub const PORT: u16 = 51900;

#[derive(Clone, Copy)]
pub struct Direction {
    pub rate: Rate,
    pub delay: Duration,
    pub loss: f64,
    pub queue: Duration,
    pub cut: bool,
}

pub fn direction(mbps: u64, delay_ms: u64, loss: f64) -> Direction {
    let delay = Duration::from_millis(delay_ms);
    Direction { rate: Rate::from_mbps(mbps), delay, loss, queue: delay * 3 + Duration::from_millis(20), cut: false }
}

struct Pipe {
    spec: Direction,
    free_at: Instant,
    pub sent: u64,
    pub sent_bytes: u64,
}

struct InFlight {
    at: Instant,
    serial: u64,
    to: usize,
    link: usize,
    tos: u8,
    bytes: Vec<u8>,
}

impl PartialEq for InFlight {
    fn eq(&self, o: &Self) -> bool {
        (self.at, self.serial) == (o.at, o.serial)
    }
}
impl Eq for InFlight {}
impl PartialOrd for InFlight {
    fn partial_cmp(&self, o: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(o))
    }
}
impl Ord for InFlight {
    fn cmp(&self, o: &Self) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(o.at, o.serial))
    }
}

pub struct World {
    pub now: Instant,
    pub nodes: [Engine; 2],
    pipes: Vec<[Pipe; 2]>,
    flying: BinaryHeap<Reverse<InFlight>>,
    serial: u64,
    rng: Rng,
    pub delivered: [VecDeque<(Instant, Vec<u8>)>; 2],
    pub events: Vec<(usize, Instant, Event)>,
    buffer: Vec<u8>,
}

fn address(node: usize, link: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, link as u8, 1 + node as u8))
}

pub fn inner(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, 1 + node as u8)
}

pub fn config(node: usize, links: usize, policy: &Policy, stamp_base: u64) -> EngineConfig {
    let identity = |n: usize| Identity::from_secret([n as u8 + 1; 32]);
    let endpoints = if node == 0 { (0..links).map(|l| SocketAddr::new(address(1, l), PORT)).collect() } else { Vec::new() };
    EngineConfig {
        identity: identity(node),
        cipher: Cipher::Aes256Gcm,
        peers: vec![PeerConfig {
            name: ["home", "hub"][1 - node].into(),
            public_key: identity(1 - node).public_key(),
            endpoints,
            prefixes: vec![Prefix { address: inner(1 - node).into(), length: 32 }],
            policy: policy.clone(),
        }],
        links: Vec::new(),
        accepted_stamps: Vec::new(),
        stamp_base,
        inner_mtu: None,
    }
}

impl World {
    pub fn new(links: &[Direction], policy: &Policy) -> World {
        let now = Instant::from_millis(1);
        let node = |n: usize| Engine::new(config(n, links.len(), policy, 1), now, [n as u8 + 7; 32]).unwrap();
        let mut world = World {
            now,
            nodes: [node(0), node(1)],
            pipes: links.iter().map(|spec| [0, 1].map(|_| Pipe { spec: *spec, free_at: now, sent: 0, sent_bytes: 0 })).collect(),
            flying: BinaryHeap::new(),
            serial: 0,
            rng: Rng::new(42),
            delivered: Default::default(),
            events: Vec::new(),
            buffer: vec![0; 65_536],
        };
        for n in 0..2 {
            world.plug_in(n);
        }
        world
    }

    pub fn plug_in(&mut self, node: usize) {
        for link in 0..self.pipes.len() {
            let event = LinkEvent::Up { link: LinkId(link as u32 + 1), name: format!("link{link}"), mtu: 1500, ipv4: true, ipv6: false };
            self.nodes[node].handle_link(self.now, event);
        }
    }

    pub fn set(&mut self, link: usize, from: usize, change: impl FnOnce(&mut Direction)) {
        change(&mut self.pipes[link][from].spec);
    }

    pub fn sent_bytes(&self, link: usize, from: usize) -> u64 {
        self.pipes[link][from].sent_bytes
    }

    /// A UDP packet from one node's host to the other's.
    pub fn send(&mut self, from: usize, port: u16, number: u64, payload_len: usize) {
        let mut packet = vec![0u8; 10];
        let total = 28 + payload_len;
        packet.extend([0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, 17, 0, 0]);
        packet.extend(inner(from).octets());
        packet.extend(inner(1 - from).octets());
        packet.extend(port.to_be_bytes());
        packet.extend(9u16.to_be_bytes());
        packet.extend(((8 + payload_len) as u16).to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(number.to_be_bytes());
        packet.resize(10 + total, 0);
        let sum = packet[10..30].chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum::<u32>();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        packet[20..22].copy_from_slice(&sum.to_be_bytes());
        self.send_raw(from, &packet);
    }

    /// A TUN read: virtio-net header and packet.
    pub fn send_raw(&mut self, from: usize, packet: &[u8]) {
        let engine = &mut self.nodes[from];
        let buf = engine.pool().alloc_large().expect("a buffer");
        engine.pool().bytes_mut(buf)[..packet.len()].copy_from_slice(packet);
        engine.handle_packet(self.now, buf, packet.len());
    }

    fn transmit(&mut self, from: usize, t: &Transmit) {
        let link = t.link.0 as usize - 1;
        if t.destination.ip() != address(1 - from, link) {
            return;
        }
        let size = t.segment_size.map_or(t.len, usize::from);
        let bytes = self.buffer[..t.len].to_vec();
        for datagram in bytes.chunks(size) {
            let pipe = &mut self.pipes[link][from];
            let wire = datagram.len() as u64 + 28;
            assert!(wire <= 1500, "a datagram of {wire} bytes");
            pipe.free_at = pipe.free_at.max(self.now);
            if pipe.free_at - self.now > pipe.spec.queue {
                continue;
            }
            pipe.free_at += pipe.spec.rate.time_for(wire);
            pipe.sent += 1;
            pipe.sent_bytes += wire;
            if pipe.spec.cut || self.rng.chance(pipe.spec.loss) {
                continue;
            }
            self.serial += 1;
            let at = pipe.free_at + pipe.spec.delay;
            self.flying.push(Reverse(InFlight { at, serial: self.serial, to: 1 - from, link, tos: t.tos, bytes: datagram.to_vec() }));
        }
    }

    fn receive(&mut self, f: InFlight) {
        let engine = &mut self.nodes[f.to];
        let buf = engine.pool().alloc_large().expect("a buffer");
        engine.pool().bytes_mut(buf)[..f.bytes.len()].copy_from_slice(&f.bytes);
        engine.handle_datagrams(self.now, Received {
            link: LinkId(f.link as u32 + 1),
            source: SocketAddr::new(address(1 - f.to, f.link), PORT),
            destination: Some(address(f.to, f.link)),
            tos: f.tos,
            buf,
            len: f.bytes.len(),
            stride: f.bytes.len(),
        });
    }

    fn turn(&mut self) {
        for n in 0..2 {
            self.nodes[n].handle_timeout(self.now);
            let mut buffer = std::mem::take(&mut self.buffer);
            while let Some(t) = self.nodes[n].poll_transmit(self.now, &mut buffer) {
                self.buffer = buffer;
                self.transmit(n, &t);
                buffer = std::mem::take(&mut self.buffer);
            }
            self.buffer = buffer;
            let (now, out) = (self.now, &mut self.delivered[n]);
            self.nodes[n].deliver(|pieces| out.push_back((now, pieces.concat())));
            while let Some(event) = self.nodes[n].poll_event() {
                self.events.push((n, self.now, event));
            }
        }
    }

    /// Runs until `until`; the caller adds traffic between calls.
    pub fn run_until(&mut self, until: Instant) {
        let mut stuck = 0;
        loop {
            self.turn();
            let next = [
                self.flying.peek().map(|f| f.0.at),
                self.nodes[0].next_timeout(self.now),
                self.nodes[1].next_timeout(self.now),
            ];
            let next = next.into_iter().flatten().min().unwrap_or(until);
            if next > until {
                self.now = until;
                return;
            }
            stuck = if next <= self.now { stuck + 1 } else { 0 };
            assert!(stuck < 100_000, "no progress at {:?}", self.now);
            self.now = self.now.max(next);
            while self.flying.peek().is_some_and(|f| f.0.at <= self.now) {
                let Some(Reverse(f)) = self.flying.pop() else { break };
                self.receive(f);
            }
        }
    }

    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    /// Numbers of the UDP packets that came out at `node` since the last call, with the time.
    pub fn take_numbers(&mut self, node: usize) -> Vec<(Instant, u64)> {
        self.delivered[node].drain(..).filter(|(_, p)| p.len() >= 46).map(|(at, p)| (at, u64::from_be_bytes(p[38..46].try_into().unwrap()))).collect()
    }

    pub fn state(&self, node: usize, link: usize) -> PathState {
        let s = self.nodes[node].snapshot(self.now);
        let path = s.peers[0].paths.iter().find(|p| p.active && p.link_name == format!("link{link}"));
        path.map_or(PathState::Opening, |p| p.state)
    }
}

/// The events so far, for a failed test's output.
pub fn story(world: &World) -> String {
    world.events.iter().map(|(n, at, e)| format!("{:9.3} ms node {n}: {e:?}\n", at.as_nanos() as f64 / 1e6)).collect()
}
