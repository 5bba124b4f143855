//! Two engines joined by emulated links in virtual time, enough to check that packets sent are delivered.
#![allow(dead_code, missing_docs)]

pub mod liar;

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_engine::*;
use weft_session::{Cipher, Identity};
use weft_units::{Duration, Instant, LinkId, Rate, Rng, VpnId};

pub const PORT: u16 = 51900;

#[derive(Clone, Copy)]
pub struct Direction {
    pub rate: Rate,
    pub delay: Duration,
    pub loss: f64,
    pub queue: Duration,
    pub cut: bool,
    /// Longest IP packet that passes, in bytes. Longer ones are lost.
    pub mtu: u64,
}

/// Interferes with a datagram of a node.
///
/// Returns the additional delay of each copy that arrives. An empty list drops it.
pub type Meddler = Box<dyn FnMut(usize, &[u8]) -> Vec<Duration>>;

thread_local! {
    static IN_ENGINE: Cell<bool> = const { Cell::new(false) };
}

/// Returns how many of `all` draws, or seconds, a test takes: a quarter, or all of them with `WEFT_CHECK=1`.
pub fn draws(all: u64) -> u64 {
    if std::env::var_os("WEFT_CHECK").is_some() { all } else { all.div_ceil(4) }
}

/// True if this thread executes engine code, and not the emulated network.
pub fn is_in_engine() -> bool {
    IN_ENGINE.get()
}

/// Runs an engine call. All calls of the engine pass through this function.
pub fn engine<T>(work: impl FnOnce() -> T) -> T {
    let before = IN_ENGINE.replace(true);
    let result = work();
    IN_ENGINE.set(before);
    result
}

/// Runs a callback of the engine, which does not count as engine code.
fn outside<T>(work: impl FnOnce() -> T) -> T {
    let before = IN_ENGINE.replace(false);
    let result = work();
    IN_ENGINE.set(before);
    result
}

pub fn direction(mbps: u64, delay_ms: u64, loss: f64) -> Direction {
    let delay = Duration::from_millis(delay_ms);
    Direction {
        rate: Rate::from_mbps(mbps),
        delay,
        loss,
        queue: delay * 3 + Duration::from_millis(20),
        cut: false,
        mtu: 1500,
    }
}

struct Pipe {
    spec: Direction,
    /// Source port of its datagrams: the sender's own, or that of a NAT.
    port: u16,
    free_at: Instant,
    pub sent: u64,
    pub sent_bytes: u64,
}

struct InFlight {
    at: Instant,
    serial: u64,
    to: usize,
    link: usize,
    source: SocketAddr,
    tos: u8,
    bytes: Vec<u8>,
}

/// A datagram as an eavesdropper sees it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub to: usize,
    pub link: usize,
    pub source: SocketAddr,
    pub tos: u8,
    pub bytes: Vec<u8>,
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
    /// Start time of each process, from which its clock counts.
    began: [Instant; 2],
    pipes: Vec<[Pipe; 2]>,
    flying: BinaryHeap<Reverse<InFlight>>,
    serial: u64,
    rng: Rng,
    pub delivered: [VecDeque<(Instant, Vec<u8>)>; 2],
    /// Packets delivered in VPNs other than the default one.
    pub delivered_in: [Vec<(VpnId, Vec<u8>)>; 2],
    pub events: Vec<(usize, Instant, Event)>,
    /// Every datagram that arrived, if recording is on.
    pub seen: Option<Vec<Seen>>,
    /// True if every link reaches every address of the other node.
    ///
    /// Otherwise a link reaches only the address with its own number.
    pub crosses: bool,
    /// Node and link at which nothing arrives.
    pub deaf: Option<(usize, usize)>,
    /// Losses, copies and delays in addition to those of the links.
    pub meddler: Option<Meddler>,
    /// Datagrams of each node to addresses where the other node never was.
    pub astray: [Vec<Vec<u8>>; 2],
    buffer: Vec<u8>,
}

pub fn address(node: usize, link: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, link as u8, 1 + node as u8))
}

pub fn inner(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, 1 + node as u8)
}

pub fn config(node: usize, links: usize, policy: &Policy, stamp_base: u64) -> EngineConfig {
    let identity = |n: usize| Identity::from_secret([n as u8 + 1; 32]);
    let endpoints =
        if node == 0 { (0..links).map(|l| SocketAddr::new(address(1, l), PORT)).collect() } else { Vec::new() };
    EngineConfig {
        identity: identity(node),
        cipher: Cipher::Aes256Gcm,
        peers: vec![PeerConfig {
            preshared_key: None,
            name: ["home", "hub"][1 - node].into(),
            public_key: identity(1 - node).public_key(),
            endpoints,
            routes: Vec::new(),
            prefixes: vec![Prefix { address: inner(1 - node).into(), length: 32 }],
            policy: policy.clone(),
        }],
        vpns: Vec::new(),
        links: Vec::new(),
        accepted_stamps: Vec::new(),
        stamp_base,
        inner_mtu: None,
    }
}

impl World {
    pub fn new(links: &[Direction], policy: &Policy) -> World {
        World::with(links, [0, 1].map(|n| config(n, links.len(), policy, 1)))
    }

    pub fn with(links: &[Direction], configs: [EngineConfig; 2]) -> World {
        let now = Instant::from_millis(1);
        let mut seed = 6;
        let nodes = configs.map(|config| {
            seed += 1;
            Engine::new(config, now, [seed; 32]).unwrap()
        });
        let mut world = World {
            now,
            nodes,
            began: [Instant::ZERO; 2],
            pipes: links
                .iter()
                .map(|spec| [0, 1].map(|_| Pipe { spec: *spec, port: PORT, free_at: now, sent: 0, sent_bytes: 0 }))
                .collect(),
            flying: BinaryHeap::new(),
            serial: 0,
            rng: Rng::new(42),
            delivered: Default::default(),
            delivered_in: Default::default(),
            events: Vec::new(),
            seen: None,
            crosses: false,
            deaf: None,
            meddler: None,
            astray: Default::default(),
            buffer: vec![0; 65_536],
        };
        for n in 0..2 {
            world.plug_in(n);
        }
        world
    }

    pub fn plug_in(&mut self, node: usize) {
        for link in 0..self.pipes.len() {
            self.link_up(node, link);
        }
    }

    /// Returns the time on a node's clock.
    pub fn time_of(&self, node: usize) -> Instant {
        Instant::ZERO + self.now.since(self.began[node])
    }

    pub fn link_down(&mut self, node: usize, link: usize) {
        self.nodes[node]
            .handle_link(self.time_of(node), LinkEvent::Down { link: LinkId(link as u32 + 1), cause: "no carrier" });
    }

    pub fn link_up(&mut self, node: usize, link: usize) {
        let event = LinkEvent::Up {
            link: LinkId(link as u32 + 1),
            name: format!("link{link}"),
            mtu: 1500,
            ipv4: true,
            ipv6: false,
        };
        self.nodes[node].handle_link(self.time_of(node), event);
    }

    /// Kills a node's process without a CLOSE frame and restarts it. Its clock restarts as well.
    pub fn restart(&mut self, node: usize, policy: &Policy, stamp_base: u64) {
        let config = config(node, self.pipes.len(), policy, stamp_base);
        self.began[node] = self.now;
        self.nodes[node] = Engine::new(config, self.time_of(node), [stamp_base as u8 ^ 0x5a; 32]).unwrap();
        self.plug_in(node);
    }

    /// Makes a NAT before `node` forget its mapping: the node now sends from another port and is reached only there.
    pub fn rebind(&mut self, node: usize, link: usize, port: u16) {
        self.pipes[link][node].port = port;
    }

    /// Injects a datagram with a forged source. The node's answers go to `source`.
    pub fn inject(&mut self, to: usize, link: usize, source: SocketAddr, bytes: &[u8]) {
        self.serial += 1;
        let flight = InFlight { at: self.now, serial: self.serial, to, link, source, tos: 0, bytes: bytes.to_vec() };
        self.flying.push(Reverse(flight));
    }

    pub fn set(&mut self, link: usize, from: usize, change: impl FnOnce(&mut Direction)) {
        change(&mut self.pipes[link][from].spec);
    }

    /// Occupies the link with a foreign packet of this size.
    pub fn occupy(&mut self, link: usize, from: usize, bytes: u64) {
        let pipe = &mut self.pipes[link][from];
        pipe.free_at = pipe.free_at.max(self.now) + pipe.spec.rate.time_for(bytes);
    }

    /// Returns the number of datagrams that a node has sent on a link.
    pub fn sent(&self, link: usize, from: usize) -> u64 {
        self.pipes[link][from].sent
    }

    pub fn sent_bytes(&self, link: usize, from: usize) -> u64 {
        self.pipes[link][from].sent_bytes
    }

    /// Sends a UDP packet from one node's host to the other's.
    pub fn send(&mut self, from: usize, port: u16, number: u64, payload_len: usize) {
        let packet = udp(inner(from), inner(1 - from), port, number, payload_len);
        self.send_raw(from, &packet);
    }

    /// Passes a TUN read to a node: virtio-net header and packet.
    pub fn send_raw(&mut self, from: usize, packet: &[u8]) {
        self.send_raw_in(from, VpnId::DEFAULT, packet);
    }

    /// Passes a TUN read of a VPN to a node.
    pub fn send_raw_in(&mut self, from: usize, vpn: VpnId, packet: &[u8]) {
        let now = self.time_of(from);
        let node = &mut self.nodes[from];
        engine(|| {
            let buf = node.pool().alloc_large().expect("a buffer");
            node.pool().bytes_mut(buf)[..packet.len()].copy_from_slice(packet);
            node.handle_packet(now, vpn, buf, packet.len());
        });
    }

    fn transmit(&mut self, from: usize, t: &Transmit) {
        let link = t.link.0 as usize - 1;
        let reached =
            |l: &usize| t.destination == SocketAddr::new(address(1 - from, *l), self.pipes[*l][1 - from].port);
        let Some(to_link) = (0..self.pipes.len()).find(|l| (self.crosses || *l == link) && reached(l)) else {
            let of_the_other = |l| t.destination == SocketAddr::new(address(1 - from, l), PORT);
            if !(0..self.pipes.len()).any(of_the_other) {
                self.astray[from].push(self.buffer[..t.len].to_vec());
            }
            return;
        };
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
            if pipe.spec.cut || wire > pipe.spec.mtu || self.rng.chance(pipe.spec.loss) {
                continue;
            }
            let at = pipe.free_at + pipe.spec.delay;
            let source = SocketAddr::new(address(from, link), pipe.port);
            let copies = self.meddler.as_mut().map_or_else(|| vec![Duration::ZERO], |meddle| meddle(from, datagram));
            for later in copies {
                self.serial += 1;
                let (at, serial, to, tos, bytes) = (at + later, self.serial, 1 - from, t.tos, datagram.to_vec());
                self.flying.push(Reverse(InFlight { at, serial, to, link: to_link, source, tos, bytes }));
            }
        }
    }

    fn receive(&mut self, f: InFlight) {
        if self.deaf == Some((f.to, f.link)) {
            return;
        }
        if let Some(seen) = &mut self.seen {
            seen.push(Seen { to: f.to, link: f.link, source: f.source, tos: f.tos, bytes: f.bytes.clone() });
        }
        let at = self.time_of(f.to);
        let node = &mut self.nodes[f.to];
        let destination = Some(address(f.to, f.link));
        let (link, len) = (LinkId(f.link as u32 + 1), f.bytes.len());
        engine(|| {
            let buf = node.pool().alloc(len).expect("room for what comes in");
            node.pool().bytes_mut(buf)[..len].copy_from_slice(&f.bytes);
            node.handle_datagrams(
                at,
                Received { at, link, source: f.source, destination, tos: f.tos, buf, len, stride: len },
            );
        });
    }

    fn turn(&mut self) {
        for n in 0..2 {
            let local = self.time_of(n);
            engine(|| self.nodes[n].handle_timeout(local));
            let mut buffer = std::mem::take(&mut self.buffer);
            while let Some(t) = engine(|| self.nodes[n].poll_transmit(local, &mut buffer)) {
                self.buffer = buffer;
                self.transmit(n, &t);
                buffer = std::mem::take(&mut self.buffer);
            }
            self.buffer = buffer;
            let (now, out, out_in) = (self.now, &mut self.delivered[n], &mut self.delivered_in[n]);
            engine(|| {
                self.nodes[n].deliver(local, |vpn, pieces| {
                    outside(|| match vpn {
                        VpnId::DEFAULT => out.push_back((now, pieces.concat())),
                        _ => out_in.push((vpn, pieces.concat())),
                    });
                });
            });
            while let Some(event) = self.nodes[n].poll_event() {
                self.events.push((n, self.now, event));
            }
        }
    }

    /// Lets both nodes do now what they would do after a wake-up.
    ///
    /// Returns the first node that sent although it had asked to be woken at least `slack` later, and how much later.
    pub fn early(&mut self, slack: Duration) -> Option<(usize, Duration)> {
        let mut buffer = vec![0; 65_536];
        let mut early = None;
        for n in 0..2 {
            let local = self.time_of(n);
            let asked = engine(|| self.nodes[n].next_timeout(local)).unwrap_or(Instant::FAR_FUTURE);
            engine(|| {
                self.nodes[n].forget_deadlines();
                self.nodes[n].handle_timeout(local);
            });
            while let Some(transmit) = engine(|| self.nodes[n].poll_transmit(local, &mut buffer)) {
                std::mem::swap(&mut self.buffer, &mut buffer);
                self.transmit(n, &transmit);
                std::mem::swap(&mut self.buffer, &mut buffer);
                early = early.or((asked - local >= slack).then_some((n, asked - local)));
            }
        }
        early
    }

    fn next_timeout(&self, node: usize) -> Option<Instant> {
        let at = engine(|| self.nodes[node].next_timeout(self.time_of(node)))?;
        Some(self.began[node] + at.since(Instant::ZERO))
    }

    /// Runs until `until`. The caller adds traffic between calls.
    pub fn run_until(&mut self, until: Instant) {
        let mut stuck = 0;
        loop {
            self.turn();
            let next = [self.flying.peek().map(|f| f.0.at), self.next_timeout(0), self.next_timeout(1)];
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

    /// Returns the time and number of the UDP packets delivered at `node` since the last call.
    pub fn take_numbers(&mut self, node: usize) -> Vec<(Instant, u64)> {
        self.delivered[node]
            .drain(..)
            .filter(|(_, p)| p.len() >= 46)
            .map(|(at, p)| (at, u64::from_be_bytes(p[38..46].try_into().unwrap())))
            .collect()
    }

    pub fn state(&self, node: usize, link: usize) -> PathState {
        let s = self.nodes[node].snapshot(self.time_of(node));
        let path = s.peers[0].paths.iter().find(|p| p.active && p.link_name == format!("link{link}"));
        path.map_or(PathState::Opening, |p| p.state)
    }
}

/// Returns a TUN read of a UDP packet whose payload begins with `number`.
pub fn udp(source: Ipv4Addr, destination: Ipv4Addr, port: u16, number: u64, payload_len: usize) -> Vec<u8> {
    let mut packet = vec![0u8; 10];
    let total = 28 + payload_len;
    packet.extend([0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.extend(port.to_be_bytes());
    packet.extend(9u16.to_be_bytes());
    packet.extend(((8 + payload_len) as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(number.to_be_bytes());
    packet.resize(10 + total, 0);
    let sum = packet[10..30].chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum::<u32>();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[20..22].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Returns a TUN read of a TCP segment from node 0 to node 1 that carries only its number.
pub fn segment(port: u16, number: u64) -> Vec<u8> {
    let mut packet = udp(inner(0), inner(1), port, 0, 32);
    let (ip, transport) = packet[10..].split_at_mut(20);
    ip[9] = 6;
    ip[10..12].fill(0);
    let sum = ip.chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum::<u32>();
    ip[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    transport[4..].fill(0);
    (transport[12], transport[13]) = (5 << 4, 0x10);
    transport[20..28].copy_from_slice(&number.to_be_bytes());
    packet
}

/// Returns the number of a delivered segment of [`segment`].
pub fn segment_number(packet: &[u8]) -> u64 {
    u64::from_be_bytes(packet[50..58].try_into().unwrap())
}

/// Returns the events so far as text, for the output of a failed test.
pub fn story(world: &World) -> String {
    world.events.iter().map(|(n, at, e)| format!("{:9.3} ms node {n}: {e:?}\n", at.as_nanos() as f64 / 1e6)).collect()
}
