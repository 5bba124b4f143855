//! A node whose links and addresses change all the time. Each change must be over within a second.
//!
//! Paths and path ids must stay few. No packet number may be used twice under a key. No memory may remain of removed
//! links.
#![allow(missing_docs)]

mod net;

use net::{inner, udp};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicI64, Ordering};
use weft_engine::*;
use weft_session::{Cipher, Identity, KEY_LIFETIME};
use weft_units::{Duration, Instant, LinkId, PathId, Rng, VpnId};
use weft_wire::hop::HopHeader;

/// The system's allocator. It counts the bytes in use.
struct Counting;

static LIVE: AtomicI64 = AtomicI64::new(0);

// SAFETY: every method passes its arguments to the system's allocator unchanged, and returns its result.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller guarantees the conditions that `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const HOME: usize = 0;
const HUB: usize = 1;
const PORT: u16 = 51_900;
/// Maximum number of links of the home node at one time.
const MOST_LINKS: usize = 3;
/// Longest time until a change must be over.
const OVER_WITHIN: Duration = Duration::from_secs(1);
/// Number of changes in a run.
const CHANGES: usize = 10_000;
/// Number of changes after which memory use must no longer grow.
const SETTLED: usize = 2_000;

#[derive(Clone)]
struct HomeLink {
    id: LinkId,
    name: String,
    address: SocketAddr,
    delay: Duration,
    /// True if the link's address has changed.
    ///
    /// The hub learns the new one with the next datagram that leaves by the link.
    is_rebound: bool,
}

/// True if the path answers. A path may still count as degraded because of losses during the change.
fn answers(path: &PathSnapshot) -> bool {
    matches!(path.state, PathState::Good | PathState::Degraded)
}

type Flight = (Instant, u64, usize, LinkId, SocketAddr, IpAddr, Vec<u8>);

/// Two nodes. The hub has one link. The links of the home node appear and disappear.
struct World {
    now: Instant,
    nodes: [Engine; 2],
    links: Vec<HomeLink>,
    hub: SocketAddr,
    flying: BinaryHeap<Reverse<Flight>>,
    /// Counter that makes every id, name and address unique.
    serial: u64,
    /// Newest packet number seen for each key and path.
    newest: BTreeMap<(usize, u32, PathId), (u32, Instant)>,
    ids: BTreeSet<PathId>,
    /// Packets delivered since the last change.
    delivered: [usize; 2],
    rng: Rng,
    buffer: Vec<u8>,
}

fn peer_config(node: usize, endpoints: Vec<SocketAddr>) -> PeerConfig {
    PeerConfig {
        preshared_key: None,
        name: "peer".into(),
        public_key: Identity::from_secret([2 - node as u8; 32]).public_key(),
        endpoints,
        routes: Vec::new(),
        prefixes: vec![Prefix { address: inner(1 - node).into(), length: 32 }],
        policy: Policy::default(),
    }
}

fn node(node: usize, endpoints: Vec<SocketAddr>) -> Engine {
    let config = EngineConfig {
        identity: Identity::from_secret([node as u8 + 1; 32]),
        cipher: Cipher::Aes256Gcm,
        peers: vec![peer_config(node, endpoints)],
        vpns: Vec::new(),
        links: Vec::new(),
        accepted_stamps: Vec::new(),
        stamp_base: 1,
        inner_mtu: None,
    };
    Engine::new(config, Instant::from_millis(1), [node as u8 + 5; 32]).unwrap()
}

impl World {
    fn new(seed: u64) -> World {
        let hub = SocketAddr::from(([10, 1, 0, 1], PORT));
        let mut world = World {
            now: Instant::from_millis(1),
            nodes: [node(HOME, vec![hub]), node(HUB, Vec::new())],
            links: Vec::new(),
            hub,
            flying: BinaryHeap::new(),
            serial: 1,
            newest: BTreeMap::new(),
            ids: BTreeSet::new(),
            delivered: [0; 2],
            rng: Rng::new(seed),
            buffer: vec![0; 65_536],
        };
        let up = LinkEvent::Up { link: LinkId(1), name: "lan".into(), mtu: 1500, ipv4: true, ipv6: false };
        world.nodes[HUB].handle_link(world.now, up);
        world.add_link("eth0".into());
        world
    }

    fn next(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn home_address(&mut self) -> SocketAddr {
        let number = self.next() as u32;
        (Ipv4Addr::from(0x0b00_0000 + number), PORT).into()
    }

    fn add_link(&mut self, name: String) {
        let (address, delay) = (self.home_address(), Duration::from_millis(1 + self.rng.below(60)));
        let id = LinkId(self.next() as u32);
        self.links.push(HomeLink { id, name, address, delay, is_rebound: false });
        self.say_up(self.links.len() - 1);
    }

    fn say_up(&mut self, at: usize) {
        let HomeLink { id: link, name, .. } = self.links[at].clone();
        let event = LinkEvent::Up { link, name, mtu: 1500, ipv4: true, ipv6: false };
        self.nodes[HOME].handle_link(self.now, event);
    }

    fn remove_link(&mut self, at: usize) -> String {
        let HomeLink { id, name, .. } = self.links.remove(at);
        self.nodes[HOME].handle_link(self.now, LinkEvent::Down { link: id, cause: "removed" });
        self.nodes[HOME].forget_link(self.now, id);
        name
    }

    /// Makes one random change.
    fn change(&mut self) -> &'static str {
        let at = self.rng.below(self.links.len() as u64) as usize;
        match self.rng.below(7) {
            0 => {
                let name = self.remove_link(at);
                self.add_link(name);
                "a link comes back under another number"
            }
            1 => {
                self.remove_link(at);
                let name = format!("ppp{}", self.next());
                self.add_link(name);
                "a link comes back under another name"
            }
            2 if self.links.len() < MOST_LINKS => {
                let name = format!("usb{}", self.next());
                self.add_link(name);
                "a link more"
            }
            3 if self.links.len() > 1 => {
                self.remove_link(at);
                "a link less"
            }
            4 => {
                (self.links[at].address, self.links[at].is_rebound) = (self.home_address(), true);
                self.say_up(at);
                "a link has another address"
            }
            5 => {
                self.hub = (Ipv4Addr::from(0x0c00_0000 + self.next() as u32), PORT).into();
                let peers = vec![peer_config(HOME, vec![self.hub])];
                self.nodes[HOME].reconfigure(self.now, peers, Vec::new(), Vec::new(), None).unwrap();
                "the hub has another address"
            }
            _ => {
                let port = 1_024 + self.rng.below(60_000) as u16;
                self.links[at].address.set_port(port);
                self.links[at].is_rebound = true;
                "a NAT forgot"
            }
        }
    }

    fn transmit(&mut self, from: usize, transmit: &Transmit) {
        let bytes = self.buffer[..transmit.len].to_vec();
        for datagram in bytes.chunks(transmit.segment_size.map_or(transmit.len, usize::from)) {
            self.check_number(from, datagram);
            let leaves = |link: &&HomeLink| link.id == transmit.link && transmit.destination == self.hub;
            let arrives = |link: &&HomeLink| link.address == transmit.destination;
            let link = match from {
                HOME => self.links.iter().find(leaves),
                _ => self.links.iter().find(arrives),
            };
            let Some(link) = link.cloned() else { continue };
            let at = self.now + link.delay;
            let (to_link, source, here) = match from {
                HOME => (LinkId(1), link.address, self.hub.ip()),
                _ => (link.id, self.hub, link.address.ip()),
            };
            let serial = self.next();
            self.flying.push(Reverse((at, serial, 1 - from, to_link, source, here, datagram.to_vec())));
        }
    }

    /// Checks that the packet numbers of each path rise under each key.
    fn check_number(&mut self, from: usize, datagram: &[u8]) {
        let Ok(header) = HopHeader::parse(datagram) else { return };
        if !header.packet_type.is_sealed() {
            return;
        }
        self.ids.insert(header.path);
        let before = self.newest.insert((from, header.receiver, header.path), (header.packet_number_low, self.now));
        assert!(before.is_none_or(|(before, _)| before < header.packet_number_low), "{header:?} after {before:?}");
    }

    /// Forgets packet numbers under keys that can no longer be in use.
    fn forget_old_keys(&mut self) {
        let now = self.now;
        self.newest.retain(|_, (_, at)| now - *at < KEY_LIFETIME * 2);
    }

    fn turn(&mut self) {
        for node in [HOME, HUB] {
            self.nodes[node].handle_timeout(self.now);
            let mut buffer = std::mem::take(&mut self.buffer);
            while let Some(transmit) = self.nodes[node].poll_transmit(self.now, &mut buffer) {
                self.buffer = buffer;
                self.transmit(node, &transmit);
                buffer = std::mem::take(&mut self.buffer);
            }
            self.buffer = buffer;
            let delivered = &mut self.delivered[node];
            self.nodes[node].deliver(self.now, |_, _| *delivered += 1);
            while self.nodes[node].poll_event().is_some() {}
        }
    }

    fn receive(&mut self, (at, _, to, link, source, here, bytes): Flight) {
        // A datagram to a former address is lost.
        let is_there = if to == HUB { self.hub.ip() == here } else { self.links.iter().any(|own| own.id == link) };
        if !is_there {
            return;
        }
        let node = &mut self.nodes[to];
        let buf = node.pool().alloc(bytes.len()).expect("room for what comes in");
        node.pool().bytes_mut(buf)[..bytes.len()].copy_from_slice(&bytes);
        let (destination, len) = (Some(here), bytes.len());
        node.handle_datagrams(at, Received { at, link, source, destination, tos: 0, buf, len, stride: len });
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.turn();
            let wakes = self.nodes.iter().filter_map(|node| node.next_timeout(self.now));
            let next = wakes.chain(self.flying.peek().map(|flight| flight.0.0)).min().unwrap_or(until);
            if next > until {
                self.now = until;
                return;
            }
            self.now = self.now.max(next);
            while self.flying.peek().is_some_and(|flight| flight.0.0 <= self.now) {
                let Some(Reverse(flight)) = self.flying.pop() else { break };
                self.receive(flight);
            }
        }
    }

    /// Returns the links without a path that answers and may carry data at both ends.
    fn without_path(&self) -> Vec<String> {
        let [home, hub] = [HOME, HUB].map(|node| self.nodes[node].snapshot(self.now).peers.swap_remove(0).paths);
        let works = |link: &&HomeLink| {
            let is_own = |path: &&PathSnapshot| path.active && answers(path) && path.link_name == link.name;
            home.iter().find(is_own).is_some_and(|own| {
                let is_other_end = |path: &&PathSnapshot| path.id == own.id && answers(path);
                let other = hub.iter().find(is_other_end);
                own.remote == self.hub && (link.is_rebound || other.is_some_and(|path| path.remote == link.address))
            })
        };
        self.links.iter().filter(|link| !works(link)).map(|link| link.name.clone()).collect()
    }

    /// Returns a description of the state, for the output of a failed test.
    fn story(&self) -> String {
        let of = |path: &PathSnapshot| {
            let PathSnapshot { id, link_name, remote, state, active, .. } = path;
            format!("  {id} {link_name} → {remote} {state}, active: {active}\n")
        };
        let paths = |node: usize| -> String {
            self.nodes[node].snapshot(self.now).peers.iter().flat_map(|peer| &peer.paths).map(of).collect()
        };
        let links = self.links.iter().map(|link| format!("  {} {}\n", link.name, link.address)).collect::<String>();
        let (hub, crossed, without) = (self.hub, self.delivered, self.without_path());
        let (home, other) = (paths(HOME), paths(HUB));
        format!(
            "no path by {without:?}, {crossed:?} packets crossed\nlinks, hub at {hub}:\n{links}home:\n{home}hub:\n{other}"
        )
    }

    fn send(&mut self, from: usize) {
        let packet = udp(inner(from), inner(1 - from), 4_000, self.serial, 100);
        let node = &mut self.nodes[from];
        let buf = node.pool().alloc_large().expect("a buffer");
        node.pool().bytes_mut(buf)[..packet.len()].copy_from_slice(&packet);
        node.handle_packet(self.now, VpnId::DEFAULT, buf, packet.len());
    }

    /// Runs until all links have a path and packets arrive in both directions.
    ///
    /// Returns the time taken, or `None` after [`OVER_WITHIN`].
    fn settle(&mut self) -> Option<Duration> {
        let begin = self.now;
        self.delivered = [0; 2];
        while self.delivered.contains(&0) || !self.without_path().is_empty() {
            if self.now - begin > OVER_WITHIN {
                return None;
            }
            self.send(HOME);
            self.send(HUB);
            self.run_for(Duration::from_millis(20));
        }
        Some(self.now - begin)
    }
}

#[test]
fn ten_thousand_changes_of_addresses_leave_nothing_behind() {
    let mut world = World::new(4);
    world.run_for(Duration::from_secs(1));
    let (mut live, mut longest) = (0, Duration::ZERO);
    for number in 0..CHANGES {
        let what = world.change();
        let over = world.settle();
        if over.is_none() {
            panic!("change {number}, {what}: {}", world.story());
        }
        longest = longest.max(over.unwrap_or_default());
        let pause = Duration::from_millis(world.rng.below(300));
        world.run_for(pause);
        if number == SETTLED {
            live = LIVE.load(Ordering::Relaxed);
        }
        if number % 500 == 0 {
            world.forget_old_keys();
        }
    }
    world.forget_old_keys();
    let grown = LIVE.load(Ordering::Relaxed) - live;
    println!("longest {longest:?}, {} path ids, {grown} bytes more", world.ids.len());
    assert!(world.ids.len() <= 64, "{} path ids", world.ids.len());
    for node in &mut world.nodes {
        assert!(node.pool().small_usage().in_use < 64, "{:?}", node.pool().small_usage());
    }
    assert!(grown < 100_000, "{grown} bytes more after {CHANGES} changes than after {SETTLED}");
}
