//! The members of an overlay, the links between them, and the datagrams in flight.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_engine::{
    Contact, Engine, EngineConfig, LinkEvent, OverlayConfig, Policy, Received, RouteStatus, Transmit, TrustConfig,
};
use weft_session::{Cipher, Claims, Identity, PublicKey, RootKey};
use weft_units::{Duration, Instant, LinkId, Rate, Rng, VpnId};
use weft_wire::checksum::checksum;
use weft_wire::virtio::VNET_HEADER_LEN;

const PORT: u16 = 51_900;
const LINK: LinkId = LinkId(1);
/// Time of day at the start of a run, in seconds since 1970.
const NOW_UNIX_S: u64 = 1_800_000_000;
/// Maximum time for which a datagram waits in front of a link. Datagrams that would wait longer are lost.
const QUEUE: Duration = Duration::from_millis(60);
/// Length of IPv4 and UDP headers around a datagram, in bytes.
const OUTER_BYTES: u64 = 28;
/// Offset of a packet's number: behind the headers of virtio-net, IPv4 and UDP.
const NUMBER_AT: usize = VNET_HEADER_LEN + 28;

/// A link between two nodes, the same in both directions.
#[derive(Clone, Copy, Debug)]
pub struct MemberLink {
    /// One-way delay of the link.
    pub delay: Duration,
    /// Rate in each direction.
    pub rate: Rate,
    /// Fraction of the datagrams that the link loses, 0…1.
    pub loss: f64,
    /// True if the link is cut, so that no datagram crosses it.
    pub is_cut: bool,
    free_at: [Instant; 2],
}

impl MemberLink {
    /// Returns a link without loss that is not cut.
    pub fn new(delay: Duration, rate: Rate) -> MemberLink {
        MemberLink { delay, rate, loss: 0.0, is_cut: false, free_at: [Instant::ZERO; 2] }
    }
}

/// One member of the overlay.
pub(super) struct WorldNode {
    pub engine: Engine,
    pub is_alive: bool,
    /// Numbers of the packets that arrived at this node's hosts, each with its arrival time.
    pub delivered: Vec<(Instant, u64)>,
    wake: Option<Instant>,
}

/// Receiver, sender and bytes of a datagram in flight.
type Flight = (usize, usize, Vec<u8>);

/// The members of one overlay. Each of them reaches some of the others directly.
///
/// Time is virtual, and everything random comes from a seed.
pub struct MemberWorld {
    pub(super) now: Instant,
    pub(super) nodes: Vec<WorldNode>,
    pub(super) links: BTreeMap<(usize, usize), MemberLink>,
    pub(super) rng: Rng,
    flying: BTreeMap<(Instant, u64), Flight>,
    serial: u64,
    seed: u64,
}

fn identity(node: usize) -> Identity {
    let [high, low] = (node as u16).to_be_bytes();
    Identity::from_secret(core::array::from_fn(|at| if at % 2 == 0 { high.wrapping_add(1) } else { low ^ 0x55 }))
}

pub(super) fn key(node: usize) -> PublicKey {
    identity(node).public_key()
}

fn outer(node: usize) -> IpAddr {
    let [high, low] = (node as u16).to_be_bytes();
    Ipv4Addr::new(198, 18, high, low).into()
}

fn inner(node: usize) -> Ipv4Addr {
    let [high, low] = (node as u16 + 1).to_be_bytes();
    Ipv4Addr::new(10, 9, high, low)
}

fn node_of(address: IpAddr) -> Option<usize> {
    match address {
        IpAddr::V4(ip) => match ip.octets() {
            [198, 18, high, low] => Some(u16::from_be_bytes([high, low]).into()),
            _ => None,
        },
        IpAddr::V6(_) => None,
    }
}

/// Returns a UDP packet of `len` IP bytes from one node's host to another's, behind a virtio-net header.
///
/// `number` is in its payload.
fn packet(from: usize, to: usize, number: u64, len: usize) -> Vec<u8> {
    let mut ip = vec![0; len.max(36)];
    let total = (ip.len() as u16).to_be_bytes();
    ip[..10].copy_from_slice(&[0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 17]);
    ip[12..16].copy_from_slice(&inner(from).octets());
    ip[16..20].copy_from_slice(&inner(to).octets());
    let sum = checksum(&ip[..20]).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    let udp = ((ip.len() - 20) as u16).to_be_bytes();
    ip[20..26].copy_from_slice(&[0x0f, 0xa0, 0x0f, 0xa0, udp[0], udp[1]]);
    ip[28..36].copy_from_slice(&number.to_be_bytes());
    let mut packet = vec![0; VNET_HEADER_LEN];
    packet.extend(ip);
    packet
}

impl MemberWorld {
    /// Returns an overlay of `nodes` nodes at its start. Each node is a relay for all others.
    ///
    /// `links` names the pairs of nodes that reach each other.
    pub fn new(seed: u64, nodes: usize, links: impl IntoIterator<Item = ((usize, usize), MemberLink)>) -> MemberWorld {
        let links = links.into_iter().map(|((one, other), link)| ((one.min(other), one.max(other)), link));
        let mut world = MemberWorld {
            now: Instant::from_millis(1),
            nodes: Vec::new(),
            links: links.collect(),
            rng: Rng::new(seed),
            flying: BTreeMap::new(),
            serial: 0,
            seed,
        };
        for node in 0..nodes {
            let engine = world.started(node);
            let wake = Some(world.now);
            world.nodes.push(WorldNode { engine, is_alive: true, delivered: Vec::new(), wake });
        }
        world
    }

    /// Returns the engine of a node at its start.
    ///
    /// Its first contacts are two of the nodes that it reaches, with the lowest numbers.
    fn started(&mut self, node: usize) -> Engine {
        self.serial += 1;
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_be_bytes());
        seed[8..16].copy_from_slice(&(self.serial << 16 | node as u64).to_be_bytes());
        let config = EngineConfig {
            identity: identity(node),
            cipher: Cipher::Aes256Gcm,
            peers: Vec::new(),
            vpns: Vec::new(),
            links: Vec::new(),
            accepted_stamps: Vec::new(),
            stamp_base: 1 + self.now.as_nanos(),
            inner_mtu: None,
        };
        let mut engine = Engine::new(config, self.now, seed).expect("a valid configuration");
        let root = RootKey::from_seed([99; 32]);
        let claims = Claims {
            public_key: key(node),
            name: format!("n{node}"),
            not_before_unix_s: NOW_UNIX_S - 100,
            not_after_unix_s: NOW_UNIX_S + 1_000_000,
            may_relay: true,
            prefixes: vec![(inner(node).into(), 32)],
            groups: Vec::new(),
        };
        let trust = TrustConfig {
            root: root.public_key(),
            certificate: Some(root.sign(&claims).expect("valid claims")),
            own: vec![inner(node).into()],
            policy: Policy::default(),
            revocations: Vec::new(),
        };
        engine.set_relaying(true);
        engine.set_trust(self.now, NOW_UNIX_S + (self.now - Instant::ZERO).as_secs(), Some(trust));
        let reached = self.reached(node);
        let contact =
            |other: usize| Contact { public_key: key(other), endpoints: vec![SocketAddr::new(outer(other), PORT)] };
        let contacts = reached.into_iter().take(2).map(contact).collect();
        engine.set_overlay(self.now, Some(OverlayConfig { contacts, ..OverlayConfig::default() }));
        let name = "eth0".to_owned();
        engine.handle_link(self.now, LinkEvent::Up { link: LINK, name, mtu: 1500, ipv4: true, ipv6: false });
        engine
    }

    /// Returns the nodes to which a node has a link.
    pub(super) fn reached(&self, node: usize) -> Vec<usize> {
        let other = |(one, other): &(usize, usize)| match node {
            _ if node == *one => Some(*other),
            _ if node == *other => Some(*one),
            _ => None,
        };
        self.links.keys().filter_map(other).collect()
    }

    /// Stops a node without any message to other nodes.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].is_alive = false;
    }

    /// Starts a stopped node again, without the state of its earlier run.
    pub fn restart(&mut self, node: usize) {
        let engine = self.started(node);
        let member = &mut self.nodes[node];
        (member.engine, member.is_alive, member.wake) = (engine, true, Some(self.now));
    }

    /// Returns the routes that the node `node` has found to the node `to`.
    pub fn routes(&self, node: usize, to: usize) -> Vec<RouteStatus> {
        let name = format!("n{to}");
        self.nodes[node].engine.found_route_status().into_iter().filter(|route| route.to == name).collect()
    }

    /// Sends a packet of `len` IP bytes with this number from the host of one node to that of another.
    pub fn send(&mut self, from: usize, to: usize, number: u64, len: usize) {
        let packet = packet(from, to, number, len);
        let member = &mut self.nodes[from];
        if let Some(buf) = member.engine.pool().alloc_large() {
            member.engine.pool().bytes_mut(buf)[..packet.len()].copy_from_slice(&packet);
            member.engine.handle_packet(self.now, VpnId::DEFAULT, buf, packet.len());
            member.wake = Some(self.now);
        }
    }

    fn transmit(&mut self, from: usize, transmit: &Transmit, bytes: &[u8]) {
        let Some(to) = node_of(transmit.destination.ip()) else { return };
        let Some(link) = self.links.get_mut(&(from.min(to), from.max(to))).filter(|link| !link.is_cut) else { return };
        let free_at = &mut link.free_at[usize::from(from > to)];
        for datagram in bytes.chunks(transmit.segment_size.map_or(transmit.len, usize::from)) {
            *free_at = (*free_at).max(self.now);
            if *free_at - self.now > QUEUE {
                continue;
            }
            *free_at += link.rate.time_for(datagram.len() as u64 + OUTER_BYTES);
            if !self.rng.chance(link.loss) {
                self.serial += 1;
                self.flying.insert((*free_at + link.delay, self.serial), (to, from, datagram.to_vec()));
            }
        }
    }

    fn receive(&mut self, (to, from, bytes): Flight) {
        let (now, member) = (self.now, &mut self.nodes[to]);
        if !member.is_alive {
            return;
        }
        let len = bytes.len();
        let Some(buf) = member.engine.pool().alloc(len) else { return };
        member.engine.pool().bytes_mut(buf)[..len].copy_from_slice(&bytes);
        let (source, destination) = (SocketAddr::new(outer(from), PORT), Some(outer(to)));
        let received = Received { at: now, link: LINK, source, destination, tos: 0, buf, len, stride: len };
        member.engine.handle_datagrams(now, received);
        member.wake = Some(now);
    }

    /// Lets a node handle its timers, send its datagrams and deliver its packets.
    fn turn(&mut self, node: usize, buffer: &mut [u8]) {
        let now = self.now;
        if !self.nodes[node].is_alive {
            self.nodes[node].wake = None;
            return;
        }
        self.nodes[node].engine.handle_timeout(now);
        while let Some(transmit) = self.nodes[node].engine.poll_transmit(now, buffer) {
            self.transmit(node, &transmit, &buffer[..transmit.len]);
        }
        let WorldNode { engine, delivered, wake, .. } = &mut self.nodes[node];
        engine.deliver(now, |_, pieces| {
            if let Some(number) = pieces.concat().get(NUMBER_AT..NUMBER_AT + 8) {
                delivered.push((now, number.try_into().map_or(0, u64::from_be_bytes)));
            }
        });
        while engine.poll_event().is_some() {}
        *wake = engine.next_timeout(now);
    }

    /// Runs the network for the virtual time `time`.
    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        let mut buffer = vec![0; 65_536];
        loop {
            for node in 0..self.nodes.len() {
                if self.nodes[node].wake.is_some_and(|at| at <= self.now) {
                    self.turn(node, &mut buffer);
                }
            }
            let flying = self.flying.keys().next().map(|(at, _)| *at);
            let next = self.nodes.iter().filter_map(|member| member.wake).chain(flying).min().unwrap_or(until);
            if next > until {
                self.now = until;
                return;
            }
            self.now = self.now.max(next);
            while let Some(flight) = self.flying.first_entry().filter(|flight| flight.key().0 <= self.now) {
                let flight = flight.remove();
                self.receive(flight);
            }
        }
    }
}
