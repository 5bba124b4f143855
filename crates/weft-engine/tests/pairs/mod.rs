//! Two engines with random reachability in virtual time: each link of one node reaches some addresses of the other,
//! of both address families.
#![allow(dead_code, missing_docs)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use weft_engine::*;
use weft_session::{Cipher, Identity};
use weft_units::{Duration, Instant, LinkId, Rng, VpnId};

const PORT: u16 = 51_900;
const HOME: usize = 0;
const HUB: usize = 1;
/// First byte of a data datagram: version 1, type 4.
const DATA: u8 = 0x14;

/// A link of the home node.
#[derive(Clone, Debug)]
pub struct HomeLink {
    pub ipv4: bool,
    pub ipv6: bool,
    pub delay: Duration,
    /// For each address of the hub, true if datagrams between them pass.
    pub reaches: Vec<bool>,
}

/// One random case.
#[derive(Clone, Debug)]
pub struct Draw {
    pub links: Vec<HomeLink>,
    /// Family of each address of the hub: true for IPv6.
    pub is_ipv6: Vec<bool>,
    /// True if each address of the hub is on a link of its own.
    pub hub_has_links: bool,
    /// True if the hub calls the home node as well.
    pub both_call: bool,
    pub secrets: [u8; 2],
}

impl Draw {
    /// Draws a case with random numbers, families and reachability.
    pub fn of_class(rng: &mut Rng) -> Draw {
        let links = 1 + rng.below(12) as usize;
        let addresses = if rng.chance(0.3) { links } else { 1 + rng.below(8) as usize };
        let ipv6_share = [0.0, 0.0, 0.5, 1.0][rng.below(4) as usize];
        let is_ipv6: Vec<bool> = (0..addresses).map(|_| rng.chance(ipv6_share)).collect();
        // Share of the pairs of one family that are reachable. Zero leaves only one address.
        let density = [0.0, 0.15, 0.5, 1.0][rng.below(4) as usize];
        let swap = rng.chance(0.5);
        Draw {
            links: (0..links).map(|_| home_link(rng, &is_ipv6, density)).collect(),
            is_ipv6,
            hub_has_links: rng.chance(0.5),
            both_call: rng.chance(0.25),
            secrets: if swap { [2, 1] } else { [1, 2] },
        }
    }

    /// Draws other reachable pairs.
    pub fn redraw_reachability(&mut self, rng: &mut Rng) {
        let density = [0.0, 0.15, 0.5][rng.below(3) as usize];
        for link in &mut self.links {
            link.draw_reachability(rng, &self.is_ipv6, density);
        }
    }

    /// Returns a case in which the i-th link reaches the i-th address, or all addresses.
    pub fn one_address_per_link(links: usize, all_reach_all: bool) -> Draw {
        let link = |own: usize| HomeLink {
            ipv4: true,
            ipv6: false,
            delay: Duration::from_millis(5 + 7 * own as u64),
            reaches: (0..links).map(|address| all_reach_all || address == own).collect(),
        };
        Draw {
            links: (0..links).map(link).collect(),
            is_ipv6: vec![false; links],
            hub_has_links: true,
            both_call: false,
            secrets: [1, 2],
        }
    }

    pub fn reaches_any(&self, link: usize) -> bool {
        self.links[link].reaches.contains(&true)
    }

    pub fn address(&self, address: usize) -> IpAddr {
        let number = address as u8 + 1;
        if self.is_ipv6[address] {
            Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, number.into()).into()
        } else {
            Ipv4Addr::new(10, 1, 0, number).into()
        }
    }

    fn home_address(link: usize, is_ipv6: bool) -> IpAddr {
        if is_ipv6 {
            Ipv6Addr::new(0xfd00, 0, link as u16, 0, 0, 0, 0, 1).into()
        } else {
            Ipv4Addr::new(10, 0, link as u8, 1).into()
        }
    }

    /// Returns the link of an address of the home node.
    fn home_link_of(&self, address: IpAddr) -> Option<usize> {
        (0..self.links.len()).find(|link| Draw::home_address(*link, address.is_ipv6()) == address)
    }

    fn hub_link_of(&self, address: usize) -> LinkId {
        LinkId(if self.hub_has_links { address as u32 + 1 } else { 1 })
    }

    fn config(&self, node: usize) -> EngineConfig {
        let identity = |node: usize| Identity::from_secret([self.secrets[node]; 32]);
        let there: Vec<IpAddr> = match node {
            HOME => (0..self.is_ipv6.len()).map(|address| self.address(address)).collect(),
            _ if self.both_call => (0..self.links.len()).flat_map(|link| self.home_addresses(link)).collect(),
            _ => Vec::new(),
        };
        EngineConfig {
            identity: identity(node),
            cipher: Cipher::Aes256Gcm,
            peers: vec![PeerConfig {
                preshared_key: None,
                name: "peer".into(),
                public_key: identity(1 - node).public_key(),
                endpoints: there.into_iter().map(|address| SocketAddr::new(address, PORT)).collect(),
                routes: Vec::new(),
                prefixes: vec![Prefix { address: inner(1 - node).into(), length: 32 }],
                policy: Policy { schedule: Schedule::Redundant, ..Policy::default() },
            }],
            vpns: Vec::new(),
            links: Vec::new(),
            accepted_stamps: Vec::new(),
            stamp_base: 1,
            inner_mtu: None,
        }
    }

    fn home_addresses(&self, link: usize) -> Vec<IpAddr> {
        let of = &self.links[link];
        let families = [(of.ipv4, false), (of.ipv6, true)];
        families.iter().filter(|(has, _)| *has).map(|(_, is_ipv6)| Draw::home_address(link, *is_ipv6)).collect()
    }
}

fn home_link(rng: &mut Rng, is_ipv6: &[bool], density: f64) -> HomeLink {
    let (ipv4, ipv6) = [(true, false), (false, true), (true, true), (true, true)][rng.below(4) as usize];
    let delay = Duration::from_millis(1 + rng.below(150));
    let mut link = HomeLink { ipv4, ipv6, delay, reaches: Vec::new() };
    link.draw_reachability(rng, is_ipv6, density);
    link
}

impl HomeLink {
    /// Draws the reachable addresses: a share of those of the link's families, and at least one.
    fn draw_reachability(&mut self, rng: &mut Rng, is_ipv6: &[bool], density: f64) {
        let may = |address: &usize| if is_ipv6[*address] { self.ipv6 } else { self.ipv4 };
        let possible: Vec<usize> = (0..is_ipv6.len()).filter(may).collect();
        self.reaches = vec![false; is_ipv6.len()];
        for address in &possible {
            self.reaches[*address] = rng.chance(density);
        }
        if !possible.is_empty() {
            self.reaches[possible[rng.below(possible.len() as u64) as usize]] = true;
        }
    }
}

pub fn inner(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, 1 + node as u8)
}

struct Flight {
    at: Instant,
    serial: u64,
    to: usize,
    link: LinkId,
    source: SocketAddr,
    destination: IpAddr,
    bytes: Vec<u8>,
}

impl PartialEq for Flight {
    fn eq(&self, other: &Flight) -> bool {
        (self.at, self.serial) == (other.at, other.serial)
    }
}
impl Eq for Flight {}
impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Flight) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Flight {
    fn cmp(&self, other: &Flight) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

pub struct PairWorld {
    pub draw: Draw,
    pub now: Instant,
    pub nodes: [Engine; 2],
    /// Data datagrams that arrived, by sender and by link of the home node.
    pub carried: [Vec<u64>; 2],
    /// Datagrams of the home node to addresses that do not answer.
    pub astray: u64,
    pub events: Vec<(usize, Event)>,
    /// Links of the home node that are cut.
    pub cut: Vec<bool>,
    flying: BinaryHeap<Reverse<Flight>>,
    serial: u64,
    buffer: Vec<u8>,
}

impl PairWorld {
    pub fn new(draw: Draw) -> PairWorld {
        let now = Instant::from_millis(1);
        let nodes = [HOME, HUB].map(|node| Engine::new(draw.config(node), now, [7 + node as u8; 32]).unwrap());
        let links = draw.links.len();
        let mut world = PairWorld {
            draw,
            now,
            nodes,
            carried: [vec![0; links], vec![0; links]],
            astray: 0,
            events: Vec::new(),
            cut: vec![false; links],
            flying: BinaryHeap::new(),
            serial: 0,
            buffer: vec![0; 65_536],
        };
        (0..links).for_each(|link| world.link_up(link));
        let hub_links = if world.draw.hub_has_links { world.draw.is_ipv6.len() } else { 1 };
        for link in 0..hub_links {
            let of = |is_ipv6| match world.draw.hub_has_links {
                true => world.draw.is_ipv6[link] == is_ipv6,
                false => world.draw.is_ipv6.contains(&is_ipv6),
            };
            let (ipv4, ipv6) = (of(false), of(true));
            let name = format!("wan{link}");
            let up = LinkEvent::Up { link: LinkId(link as u32 + 1), name, mtu: 1500, ipv4, ipv6 };
            world.nodes[HUB].handle_link(now, up);
        }
        world
    }

    pub fn link_up(&mut self, link: usize) {
        let HomeLink { ipv4, ipv6, .. } = self.draw.links[link];
        let (id, name) = (LinkId(link as u32 + 1), format!("link{link}"));
        self.nodes[HOME].handle_link(self.now, LinkEvent::Up { link: id, name, mtu: 1500, ipv4, ipv6 });
    }

    /// Returns the home link that a datagram crosses, and its arrival: link, source and destination.
    ///
    /// `None` if it is lost.
    fn way(&self, from: usize, t: &Transmit) -> Option<(usize, LinkId, SocketAddr, IpAddr)> {
        let is_ipv6 = t.destination.is_ipv6();
        let addresses = 0..self.draw.is_ipv6.len();
        if from == HOME {
            let link = t.link.0 as usize - 1;
            let address = addresses.clone().find(|address| self.draw.address(*address) == t.destination.ip())?;
            let passes = self.draw.links[link].reaches[address];
            let source = SocketAddr::new(Draw::home_address(link, is_ipv6), PORT);
            return passes.then(|| (link, self.draw.hub_link_of(address), source, t.destination.ip()));
        }
        let link = self.draw.home_link_of(t.destination.ip())?;
        let leaves = |address: &usize| {
            self.draw.hub_link_of(*address) == t.link
                && self.draw.is_ipv6[*address] == is_ipv6
                && t.source.is_none_or(|source| source == self.draw.address(*address))
        };
        // If a datagram names no source address, choose one from which the link reaches the destination, as a routing
        // table would.
        let passes = |address: &usize| self.draw.links[link].reaches[*address];
        let address = addresses.clone().filter(leaves).find(passes)?;
        let source = SocketAddr::new(self.draw.address(address), PORT);
        Some((link, LinkId(link as u32 + 1), source, t.destination.ip()))
    }

    fn transmit(&mut self, from: usize, t: &Transmit) {
        let Some((over, link, source, destination)) = self.way(from, t).filter(|(over, ..)| !self.cut[*over]) else {
            self.astray += u64::from(from == HOME);
            return;
        };
        let at = self.now + self.draw.links[over].delay;
        for bytes in self.buffer[..t.len].chunks(t.segment_size.map_or(t.len, usize::from)) {
            self.carried[from][over] += u64::from(bytes[0] == DATA);
            self.serial += 1;
            let (serial, to, bytes) = (self.serial, 1 - from, bytes.to_vec());
            self.flying.push(Reverse(Flight { at, serial, to, link, source, destination, bytes }));
        }
    }

    fn receive(&mut self, flight: Flight) {
        let (node, len) = (&mut self.nodes[flight.to], flight.bytes.len());
        let buf = node.pool().alloc(len).expect("room for what comes in");
        node.pool().bytes_mut(buf)[..len].copy_from_slice(&flight.bytes);
        let (at, destination) = (self.now, Some(flight.destination));
        let Flight { link, source, .. } = flight;
        node.handle_datagrams(at, Received { at, link, source, destination, tos: 0, buf, len, stride: len });
    }

    fn turn(&mut self) {
        for node in [HOME, HUB] {
            self.nodes[node].handle_timeout(self.now);
            let mut buffer = std::mem::take(&mut self.buffer);
            while let Some(t) = self.nodes[node].poll_transmit(self.now, &mut buffer) {
                self.buffer = buffer;
                self.transmit(node, &t);
                buffer = std::mem::take(&mut self.buffer);
            }
            self.buffer = buffer;
            self.nodes[node].deliver(self.now, |_, _| {});
            while let Some(event) = self.nodes[node].poll_event() {
                self.events.push((node, event));
            }
        }
    }

    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.turn();
            let timeouts = [HOME, HUB].map(|node| self.nodes[node].next_timeout(self.now));
            let next = timeouts.into_iter().flatten().chain(self.flying.peek().map(|f| f.0.at)).min();
            match next.filter(|next| *next <= until) {
                Some(next) => self.now = self.now.max(next),
                None => break self.now = until,
            }
            while self.flying.peek().is_some_and(|f| f.0.at <= self.now) {
                let Some(Reverse(flight)) = self.flying.pop() else { break };
                self.receive(flight);
            }
        }
    }

    /// Sends a packet every 5 ms in each direction, and restarts the counters of carried data.
    pub fn send_both_ways(&mut self, time: Duration) {
        self.carried.iter_mut().flatten().for_each(|count| *count = 0);
        for number in 0..time.as_millis() as u64 / 5 {
            for from in [HOME, HUB] {
                let packet = udp(inner(from), inner(1 - from), number);
                let node = &mut self.nodes[from];
                let buf = node.pool().alloc_large().expect("a buffer");
                node.pool().bytes_mut(buf)[..packet.len()].copy_from_slice(&packet);
                node.handle_packet(self.now, VpnId::DEFAULT, buf, packet.len());
            }
            self.run_for(Duration::from_millis(5));
        }
    }

    pub fn peer(&self, node: usize) -> PeerSnapshot {
        self.nodes[node].snapshot(self.now).peers[0].clone()
    }
}

/// Returns a TUN read of a UDP packet: virtio-net header, IPv4 and UDP.
fn udp(source: Ipv4Addr, destination: Ipv4Addr, number: u64) -> Vec<u8> {
    let mut packet = vec![0u8; 10];
    packet.extend([0x45, 0, 0, 128, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.extend([0x13, 0x88, 0, 9, 0, 108, 0, 0]);
    packet.extend(number.to_be_bytes());
    packet.resize(138, 0);
    let sum = packet[10..30].chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum::<u32>();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[20..22].copy_from_slice(&sum.to_be_bytes());
    packet
}
