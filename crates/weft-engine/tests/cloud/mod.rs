//! Many engines on one network in virtual time. Each has one address, and all reach each other except through NATs.
#![allow(dead_code, missing_docs)]

use super::net::{engine, udp};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_engine::*;
use weft_session::{Certificate, Cipher, Claims, Identity, PublicKey, RootKey};
use weft_units::{Duration, Instant, LinkId, VpnId};

const PORT: u16 = 51_900;
const NAT_PORTS: u16 = 20_000;
const DELAY: Duration = Duration::from_millis(5);
/// Wall clock at the start of a test, in seconds since 1970.
pub const NOW_UNIX_S: u64 = 1_800_000_000;

thread_local! {
    /// Secrets of nodes that lie close together on the ring, if a test needs many. Each test has a thread of its own.
    static CROWD: OnceCell<Vec<[u8; 32]>> = const { OnceCell::new() };
}

/// Prepares secrets for `nodes` nodes within one sixteenth of the ring, in four sixteenths of that.
///
/// A few dozen such nodes do not all know each other.
pub fn crowd(nodes: usize) {
    let secrets = (0..u32::MAX).map(|n| core::array::from_fn(|byte| n.to_be_bytes()[byte % 4] ^ byte as u8));
    let is_near = |secret: &[u8; 32]| Identity::from_secret(*secret).node_id().as_bytes()[0] < 4;
    CROWD.with(|crowd| _ = crowd.get_or_init(|| secrets.filter(is_near).take(nodes).collect()));
}

fn identity(node: usize) -> Identity {
    let own = CROWD.with(|crowd| crowd.get().and_then(|crowd| crowd.get(node).copied()));
    Identity::from_secret(own.unwrap_or([node as u8 + 1; 32]))
}

pub fn key(node: usize) -> PublicKey {
    identity(node).public_key()
}

pub fn inner(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, 1 + node as u8)
}

fn ip(node: usize) -> IpAddr {
    Ipv4Addr::new(198, 51, 100, 1 + node as u8).into()
}

pub fn contact(node: usize) -> Contact {
    Contact { public_key: key(node), endpoints: vec![SocketAddr::new(ip(node), PORT)] }
}

pub fn root() -> RootKey {
    RootKey::from_seed([99; 32])
}

pub fn claims(node: usize) -> Claims {
    Claims {
        public_key: key(node),
        name: format!("n{node}"),
        not_before_unix_s: NOW_UNIX_S - 100,
        not_after_unix_s: NOW_UNIX_S + 10_000,
        may_relay: true,
        prefixes: vec![(inner(node).into(), 32)],
        groups: vec![],
    }
}

pub fn certificate(node: usize) -> Option<Certificate> {
    Some(root().sign(&claims(node)).unwrap())
}

/// One node of the cloud.
pub struct Place {
    pub engine: Engine,
    pub is_alive: bool,
    nat: Option<Nat>,
    pub delivered: Vec<u64>,
}

/// A NAT before a node. It admits datagrams only from nodes to which the inner node has sent.
struct Nat {
    /// True if each destination sees another port (address-dependent mapping of RFC 4787).
    ///
    /// False for one port for all (endpoint-independent).
    is_symmetric: bool,
    sent_to: BTreeSet<usize>,
}

impl Nat {
    /// Returns the port that `other` sees.
    fn port(&self, other: usize) -> u16 {
        NAT_PORTS + if self.is_symmetric { other as u16 } else { 0 }
    }
}

/// Receiver, source address and bytes of a datagram in flight.
type Flight = (usize, SocketAddr, Vec<u8>);

/// All nodes, and the datagrams in flight.
pub struct Cloud {
    pub now: Instant,
    pub nodes: Vec<Place>,
    pub events: Vec<(usize, Instant, Event)>,
    /// Payload bytes sent, by sender and receiver.
    pub sent: BTreeMap<(usize, usize), usize>,
    /// Nodes that are cut off from all others.
    pub apart: BTreeSet<usize>,
    /// Pairs of nodes that reach each other, the lower number first. `None`: all do.
    joined: Option<BTreeSet<(usize, usize)>>,
    flying: BTreeMap<(Instant, u64), Flight>,
    serial: u64,
    /// One-way delay of the network.
    pub delay: Duration,
}

impl Cloud {
    pub fn new() -> Cloud {
        let (events, sent, flying) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let (now, apart) = (Instant::from_millis(1), BTreeSet::new());
        Cloud { now, nodes: Vec::new(), events, sent, apart, joined: None, flying, serial: 0, delay: DELAY }
    }

    /// Lets only these pairs of nodes reach each other.
    pub fn restrict(&mut self, joined: &[(usize, usize)]) {
        self.joined = Some(joined.iter().map(|(one, other)| (*one.min(other), *one.max(other))).collect());
    }

    /// Adds a node that shows `certificate` and has `contacts` as first contacts.
    pub fn add(&mut self, certificate: Option<Certificate>, contacts: &[Contact]) -> usize {
        let node = self.nodes.len();
        self.nodes.push(Place { engine: new_engine(node, self.now), is_alive: true, nat: None, delivered: Vec::new() });
        self.join(node, certificate, contacts);
        node
    }

    /// Adds a node behind a NAT that uses another port for each destination.
    pub fn add_behind_nat(&mut self, certificate: Option<Certificate>, contacts: &[Contact]) -> usize {
        self.add_behind(true, certificate, contacts)
    }

    /// Adds a node behind a NAT that uses one port for all destinations.
    pub fn add_behind_kind_nat(&mut self, certificate: Option<Certificate>, contacts: &[Contact]) -> usize {
        self.add_behind(false, certificate, contacts)
    }

    fn add_behind(&mut self, is_symmetric: bool, certificate: Option<Certificate>, contacts: &[Contact]) -> usize {
        let node = self.add(certificate, contacts);
        self.nodes[node].nat = Some(Nat { is_symmetric, sent_to: BTreeSet::new() });
        node
    }

    /// Configures `other` as a peer of `node`.
    pub fn configure(&mut self, node: usize, other: usize) {
        let Contact { public_key, endpoints } = contact(other);
        let prefixes = vec![Prefix { address: inner(other).into(), length: 32 }];
        let (name, routes, policy) = (format!("n{other}"), Vec::new(), Policy::default());
        let peer = PeerConfig { preshared_key: None, name, public_key, endpoints, routes, prefixes, policy };
        let engine = &mut self.nodes[node].engine;
        engine.reconfigure(self.now, vec![peer], Vec::new(), Vec::new(), None).unwrap();
    }

    /// Restarts a node.
    pub fn restart(&mut self, node: usize, contacts: &[Contact]) {
        self.nodes[node].engine = new_engine(node, self.now);
        self.nodes[node].is_alive = true;
        self.join(node, certificate(node), contacts);
    }

    fn join(&mut self, node: usize, certificate: Option<Certificate>, contacts: &[Contact]) {
        let (now, engine) = (self.now, &mut self.nodes[node].engine);
        let trust = TrustConfig {
            root: root().public_key(),
            certificate,
            own: vec![inner(node).into()],
            policy: Policy::default(),
            revocations: Vec::new(),
        };
        engine.set_trust(now, NOW_UNIX_S + (now - Instant::ZERO).as_secs(), Some(trust));
        engine.set_overlay(now, Some(OverlayConfig { contacts: contacts.to_vec(), ..OverlayConfig::default() }));
        let (link, name) = (LinkId(1), "eth0".to_owned());
        engine.handle_link(now, LinkEvent::Up { link, name, mtu: 1500, ipv4: true, ipv6: false });
    }

    /// Sends a UDP packet from one node's host to another's.
    pub fn send(&mut self, from: usize, to: usize, number: u64) {
        let packet = udp(inner(from), inner(to), 4000, number, 800);
        let (now, node) = (self.now, &mut self.nodes[from].engine);
        let buf = node.pool().alloc_large().unwrap();
        node.pool().bytes_mut(buf)[..packet.len()].copy_from_slice(&packet);
        engine(|| node.handle_packet(now, VpnId::DEFAULT, buf, packet.len()));
    }

    /// Returns the source address of `from` as `to` sees it.
    fn source(&mut self, from: usize, to: usize) -> SocketAddr {
        let port = match &mut self.nodes[from].nat {
            Some(nat) => {
                nat.sent_to.insert(to);
                nat.port(to)
            }
            None => PORT,
        };
        SocketAddr::new(ip(from), port)
    }

    fn lets_in(&self, node: usize, from: usize, port: u16) -> bool {
        match &self.nodes[node].nat {
            Some(nat) => nat.sent_to.contains(&from) && port == nat.port(from),
            None => port == PORT,
        }
    }

    fn transmit(&mut self, from: usize, transmit: &Transmit, bytes: &[u8]) {
        let destination = transmit.destination;
        let Some(to) = (0..self.nodes.len()).find(|to| ip(*to) == destination.ip()) else { return };
        let source = self.source(from, to);
        let is_joined = |joined: &BTreeSet<(usize, usize)>| joined.contains(&(from.min(to), from.max(to)));
        let is_cut =
            self.apart.contains(&from) != self.apart.contains(&to) || !self.joined.as_ref().is_none_or(is_joined);
        if is_cut || !self.lets_in(to, from, destination.port()) {
            return;
        }
        *self.sent.entry((from, to)).or_default() += bytes.len();
        for datagram in bytes.chunks(transmit.segment_size.map_or(transmit.len, usize::from)) {
            assert!(datagram.len() + 28 <= 1500, "a datagram of {} bytes", datagram.len());
            self.serial += 1;
            self.flying.insert((self.now + self.delay, self.serial), (to, source, datagram.to_vec()));
        }
    }

    fn receive(&mut self, (to, source, bytes): Flight) {
        let (now, place) = (self.now, &mut self.nodes[to]);
        if !place.is_alive {
            return;
        }
        let len = bytes.len();
        let buf = place.engine.pool().alloc_large().unwrap();
        place.engine.pool().bytes_mut(buf)[..len].copy_from_slice(&bytes);
        let (link, destination) = (LinkId(1), Some(ip(to)));
        let received = Received { at: now, link, source, destination, tos: 0, buf, len, stride: len };
        engine(|| place.engine.handle_datagrams(now, received));
    }

    /// Runs a node's due work. Returns the time of its next wake-up.
    fn turn(&mut self, node: usize, buffer: &mut [u8]) -> Option<Instant> {
        let now = self.now;
        if !self.nodes[node].is_alive {
            return None;
        }
        engine(|| self.nodes[node].engine.handle_timeout(now));
        while let Some(transmit) = engine(|| self.nodes[node].engine.poll_transmit(now, buffer)) {
            self.transmit(node, &transmit, &buffer[..transmit.len]);
        }
        let Place { engine, delivered, .. } = &mut self.nodes[node];
        engine.deliver(now, |_, pieces| {
            if let Some(number) = pieces.concat().get(38..46) {
                delivered.push(u64::from_be_bytes(number.try_into().unwrap()));
            }
        });
        while let Some(event) = engine.poll_event() {
            self.events.push((node, now, event));
        }
        engine.next_timeout(now)
    }

    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        let mut buffer = vec![0; 65_536];
        let mut wakes: Vec<Option<Instant>> = vec![Some(self.now); self.nodes.len()];
        let mut stuck = 0;
        loop {
            let now = self.now;
            let due = |wake: &Option<Instant>| wake.is_some_and(|at| at <= now);
            for (node, wake) in wakes.iter_mut().enumerate().filter(|(_, wake)| due(wake)) {
                *wake = self.turn(node, &mut buffer);
            }
            let flying = self.flying.keys().next().map(|(at, _)| *at);
            let next = wakes.iter().copied().flatten().chain(flying).min().unwrap_or(until);
            if next > until {
                self.now = until;
                return;
            }
            stuck = if next <= self.now { stuck + 1 } else { 0 };
            assert!(stuck < 10_000, "no progress at {:?}", self.now);
            self.now = self.now.max(next);
            while let Some(flight) = self.flying.first_entry().filter(|flight| flight.key().0 <= self.now) {
                let flight = flight.remove();
                wakes[flight.0] = Some(self.now);
                self.receive(flight);
            }
        }
    }

    /// Returns the names of the peers with which a node has a session, sorted.
    pub fn sessions(&self, node: usize) -> Vec<String> {
        let peers = self.nodes[node].engine.snapshot(self.now).peers;
        let mut names: Vec<String> =
            peers.into_iter().filter(|peer| peer.established_for.is_some()).map(|peer| peer.name).collect();
        names.sort();
        names
    }

    pub fn has_session(&self, node: usize, with: usize) -> bool {
        self.sessions(node).contains(&format!("n{with}"))
    }

    /// Checks that a packet from each of `nodes` arrives at every other one.
    pub fn assert_all_reach_all(&mut self, nodes: &[usize]) {
        for from in nodes {
            for to in nodes.iter().filter(|to| *to != from) {
                self.nodes[*to].delivered.clear();
                self.send(*from, *to, 7);
                self.run_for(Duration::from_millis(100));
                assert_eq!(self.nodes[*to].delivered, [7], "from {from} to {to} at {:?}", self.now);
            }
        }
    }
}

fn new_engine(node: usize, now: Instant) -> Engine {
    let config = EngineConfig {
        identity: identity(node),
        cipher: Cipher::Aes256Gcm,
        peers: Vec::new(),
        vpns: Vec::new(),
        links: Vec::new(),
        accepted_stamps: Vec::new(),
        stamp_base: 1,
        inner_mtu: None,
    };
    Engine::new(config, now, [node as u8 + 40; 32]).unwrap()
}
