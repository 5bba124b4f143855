//! Two nodes with the same VPNs, joined in memory.
//!
//! The harness passes packets to the engines and takes them out by calls. It counts the processor time of each engine
//! by itself, and leaves out its own.

use crate::meter;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use weft_core::control_loop::LoopConfig;
use weft_core::pool::{LARGE_BYTES, SMALL_BYTES};
use weft_core::service::Service;
use weft_engine::{
    Engine, EngineConfig, Entry, LinkEvent, MemberConfig, PeerConfig, Policy, Prefix, Received, Transmit, VpnConfig,
};
use weft_session::{Cipher, Identity};
use weft_units::{Instant, LinkId, Rate, VpnId};

const LINK_MTU: u16 = 1_500;
/// Length of every packet, in IP bytes: with the tunnel's headers it fills an Ethernet frame.
const PACKET_BYTES: usize = LINK_MTU as usize - 60;
const LINK_RATE: Rate = Rate::from_mbps(10_000);
const DELAY: Duration = Duration::from_millis(10);
/// Minimum interval between two calls of an engine, as after a wait of that length.
const TICK: Duration = Duration::from_micros(500);
const VNET_HEADER: usize = 10;
/// Length of the IPv4 and UDP headers, in bytes; all packets of a write share one.
const HEADERS: usize = 28;
const PORT: u16 = 51_900;

/// A batch of datagrams in transit.
struct Batch {
    at: Instant,
    source: SocketAddr,
    tos: u8,
    stride: usize,
    bytes: Vec<u8>,
}

/// A node and the link from it.
struct Side {
    engine: Engine,
    arrivals: VecDeque<Batch>,
    /// Time at which the link from this node is free again.
    free_at: Instant,
    wakes_at: Instant,
    used: Duration,
    sent: u64,
    delivered: u64,
    next_packet: Instant,
    turn: u32,
}

/// Two nodes, joined by links in memory.
pub struct Pair {
    now: Instant,
    sides: [Side; 2],
    clock_cost: Duration,
    inputs: Vec<Input>,
    sends: Vec<(Transmit, usize)>,
    out: Vec<u8>,
    spare: Vec<Vec<u8>>,
}

enum Input {
    Datagrams(Received),
    Packet(VpnId, weft_core::pool::BufId),
}

/// Traffic from VPNs in turn, one flow in each.
#[derive(Clone, Copy)]
pub struct Load {
    /// Number of VPNs with traffic, spread evenly over all.
    pub active: u32,
    /// Sum of the rates of all flows, measured on the link, for each node that sends.
    pub rate: Rate,
    /// True if the second node sends too.
    pub both_ways: bool,
}

/// Work of the nodes during a run, and its cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Packets that the harness passed to the first and to the second node.
    pub sent: [u64; 2],
    /// Processor time of the first and of the second node.
    pub used: [Duration; 2],
    /// Packets that left the tunnel at the first and at the second node.
    pub delivered: [u64; 2],
}

impl Pair {
    /// Creates two nodes with a session and `vpns` VPNs besides the default one, each with the loop.
    pub fn new(vpns: u32, control: Option<&LoopConfig>) -> Pair {
        let now = Instant::from_millis(1);
        let side = |node: usize| {
            let configs = (1..=vpns).map(|id| vpn(id, node, control.cloned())).collect();
            Side {
                engine: engine(node, now, configs),
                arrivals: VecDeque::new(),
                free_at: now,
                wakes_at: now,
                used: Duration::ZERO,
                sent: 0,
                delivered: 0,
                next_packet: now,
                turn: 0,
            }
        };
        let mut pair = Pair {
            now,
            sides: [side(0), side(1)],
            clock_cost: meter::clock_cost(),
            inputs: Vec::new(),
            sends: Vec::new(),
            out: vec![0; 64 << 20],
            spare: Vec::new(),
        };
        for side in &mut pair.sides {
            let (name, mtu) = ("memory".to_owned(), LINK_MTU);
            side.engine.handle_link(now, LinkEvent::Up { link: LinkId(1), name, mtu, ipv4: true, ipv6: false });
        }
        pair.run(Duration::from_millis(500), None);
        pair
    }

    /// Runs for a time, and returns the work and its cost.
    pub fn run(&mut self, time: Duration, load: Option<(u32, Load)>) -> Cost {
        let until = self.now + time;
        let before = self.cost();
        for side in &mut self.sides {
            (side.next_packet, side.turn) = (self.now, 0);
        }
        while self.now < until {
            self.now += TICK;
            (0..2).for_each(|node| self.step(node, load));
        }
        let after = self.cost();
        let differences = |of: fn(&Cost) -> [u64; 2]| [0, 1].map(|node| of(&after)[node] - of(&before)[node]);
        Cost {
            sent: differences(|cost| cost.sent),
            used: [0, 1].map(|node| after.used[node] - before.used[node]),
            delivered: differences(|cost| cost.delivered),
        }
    }

    fn cost(&self) -> Cost {
        let [a, b] = &self.sides;
        Cost { sent: [a.sent, b.sent], used: [a.used, b.used], delivered: [a.delivered, b.delivered] }
    }

    /// Returns the bytes of the packet buffers at both nodes.
    pub fn buffer_bytes(&mut self) -> i64 {
        let bytes = |side: &mut Side| {
            let (small, large) = (side.engine.pool().small_usage(), side.engine.pool().large_usage());
            small.high_water as usize * SMALL_BYTES + large.high_water as usize * LARGE_BYTES
        };
        self.sides.iter_mut().map(bytes).sum::<usize>() as i64
    }

    /// Frees the memory that the harness itself has allocated.
    pub fn tidy(&mut self) {
        self.spare = Vec::new();
    }

    fn step(&mut self, node: usize, load: Option<(u32, Load)>) {
        self.gather(node, load);
        let (now, clock_cost) = (self.now, self.clock_cost);
        let side = &mut self.sides[node];
        if self.inputs.is_empty() && side.wakes_at > now {
            return;
        }
        let mut len = 0;
        let begin = meter::processor_time();
        for input in self.inputs.drain(..) {
            match input {
                Input::Datagrams(received) => side.engine.handle_datagrams(now, received),
                Input::Packet(vpn, buf) => side.engine.handle_packet(now, vpn, buf, VNET_HEADER + PACKET_BYTES),
            }
        }
        side.engine.handle_timeout(now);
        while let Some(transmit) = side.engine.poll_transmit(now, &mut self.out[len..]) {
            len += transmit.len;
            self.sends.push((transmit, len));
        }
        let delivered = &mut side.delivered;
        side.engine.deliver(now, |_, pieces| {
            let bytes = pieces.iter().map(|piece| piece.len()).sum::<usize>();
            *delivered += (bytes.saturating_sub(VNET_HEADER + HEADERS) / (PACKET_BYTES - HEADERS)) as u64;
        });
        while side.engine.poll_event().is_some() {}
        side.wakes_at = side.engine.next_timeout(now).unwrap_or(Instant::FAR_FUTURE);
        side.used += (meter::processor_time() - begin).saturating_sub(clock_cost);
        self.forward(node);
    }

    /// Copies arrived datagrams and the hosts' new packets into buffers of the node.
    fn gather(&mut self, node: usize, load: Option<(u32, Load)>) {
        let now = self.now;
        let side = &mut self.sides[node];
        while let Some(batch) = side.arrivals.pop_front_if(|batch| batch.at <= now) {
            let buf = side.engine.pool().alloc_large().expect("the node keeps up");
            let Batch { at, source, tos, stride, bytes } = batch;
            side.engine.pool().bytes_mut(buf)[..bytes.len()].copy_from_slice(&bytes);
            let (link, destination, len) = (LinkId(1), Some(address(node)), bytes.len());
            self.inputs.push(Input::Datagrams(Received { at, link, source, destination, tos, buf, len, stride }));
            self.spare.push(bytes);
        }
        let Some((vpns, load)) = load.filter(|(_, load)| node == 0 || load.both_ways) else { return };
        while side.next_packet <= now {
            let vpn = VpnId(1 + side.turn * (vpns / load.active));
            side.turn = (side.turn + 1) % load.active;
            side.next_packet += load.rate.time_for(LINK_MTU.into());
            let buf = side.engine.pool().alloc_large().expect("the node keeps up");
            side.sent += 1;
            write_packet(side.engine.pool().bytes_mut(buf), node);
            self.inputs.push(Input::Packet(vpn, buf));
        }
    }

    /// Transfers the node's datagrams to the other node.
    fn forward(&mut self, from: usize) {
        let mut start = 0;
        for (transmit, end) in self.sends.drain(..) {
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(&self.out[start..end]);
            start = end;
            let sender = &mut self.sides[from];
            sender.free_at = sender.free_at.max(self.now) + LINK_RATE.time_for(bytes.len() as u64);
            let at = sender.free_at + DELAY;
            let stride = transmit.segment_size.map_or(bytes.len(), usize::from);
            let source = SocketAddr::new(address(from), PORT);
            self.sides[1 - from].arrivals.push_back(Batch { at, source, tos: transmit.tos, stride, bytes });
        }
    }
}

fn engine(node: usize, now: Instant, vpns: Vec<VpnConfig>) -> Engine {
    let peer = PeerConfig {
        preshared_key: None,
        name: "other".to_owned(),
        public_key: identity(1 - node).public_key(),
        endpoints: if node == 0 { vec![SocketAddr::new(address(1), PORT)] } else { Vec::new() },
        routes: Vec::new(),
        prefixes: Vec::new(),
        policy: Policy::default(),
    };
    let config = EngineConfig {
        identity: identity(node),
        cipher: Cipher::Aes256Gcm,
        peers: vec![peer],
        vpns,
        links: Vec::new(),
        accepted_stamps: Vec::new(),
        stamp_base: 1,
        inner_mtu: None,
    };
    Engine::new(config, now, [node as u8 + 7; 32]).expect("a sound configuration")
}

/// Returns a VPN as configured at one of the nodes; all VPNs have the same addresses.
fn vpn(id: u32, node: usize, control: Option<LoopConfig>) -> VpnConfig {
    let behind = |node: usize| vec![Prefix { address: inner(node).into(), length: 24 }];
    VpnConfig {
        id: VpnId(id),
        name: format!("tenant-{id}"),
        weight: 1,
        service: Service::BestEffort,
        entry: Entry { control, ..Entry::default() },
        prefixes: behind(node),
        members: vec![MemberConfig { public_key: identity(1 - node).public_key(), prefixes: behind(1 - node) }],
    }
}

/// Returns the key pair of a node.
pub fn identity(node: usize) -> Identity {
    Identity::from_secret([node as u8 + 1; 32])
}

fn address(node: usize) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, 1 + node as u8).into()
}

fn inner(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, node as u8, 0)
}

/// Writes a UDP packet between hosts behind the two nodes, as a TUN device passes it.
fn write_packet(into: &mut [u8], node: usize) {
    into[..VNET_HEADER + PACKET_BYTES].fill(0);
    let packet = &mut into[VNET_HEADER..VNET_HEADER + PACKET_BYTES];
    packet[..12].copy_from_slice(&[
        0x45,
        0,
        (PACKET_BYTES >> 8) as u8,
        PACKET_BYTES as u8,
        0,
        0,
        0x40,
        0,
        64,
        17,
        0,
        0,
    ]);
    packet[12..16].copy_from_slice(&inner(node).octets());
    packet[16..20].copy_from_slice(&inner(1 - node).octets());
    packet[20..24].copy_from_slice(&[0x9c, 0x40, 0, 9]);
    packet[24..26].copy_from_slice(&((PACKET_BYTES - 20) as u16).to_be_bytes());
}
