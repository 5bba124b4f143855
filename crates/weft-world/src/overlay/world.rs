//! Many overlay nodes and the network between them, in virtual time.
//!
//! The world owns the clock, the nodes and an agenda of events. It delivers messages and packets with the delays and
//! losses of the terrain. All its random values come from its own random stream.

use super::sites::{LookupResult, Now, OverlaySite, Registry};
use super::terrain::Terrain;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weft_core::route::overlay::{Header, NextHop, NodeContact, OverlayState, OverlayTiming, OverlayTransmit};
use weft_core::route::ownership::{DirectoryContext, DirectoryEvent, OwnershipDirectory};
use weft_units::{Duration, Instant, NodeId, Rng};
use weft_wire::overlay::MAX_MESSAGE;

/// Details of each contact: a public key and an IPv4 address, all zero.
///
/// The first byte counts the changes of the node's address.
const DETAILS: [u8; 39] = [0; 39];
/// Number of bytes that opening a session takes: both handshake messages with their headers.
const MEETING: u64 = 28 + 148 + 28 + 92;
/// Number of bytes around a message: headers of IPv4 and UDP, hop header and tag.
const OVERHEAD: u64 = 28 + 10 + 16;
/// Maximum number of times that a packet is forwarded.
const MOST_HOPS: u8 = 32;

/// The messages that a node has sent to maintain the overlay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OverlayTraffic {
    /// Number of messages that the node sent.
    pub messages: u64,
    /// Number of bytes of these messages, headers included.
    pub bytes: u64,
}

/// A packet that reached a node which considers itself the root of the packet's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RootArrival {
    /// The packet's number at its source.
    pub seq: u32,
    /// The node that sent the packet.
    pub source: u32,
    /// The node at which the packet ended.
    pub root: u32,
    /// The time at which the source sent the packet.
    pub sent_at: Instant,
    /// The time at which the packet arrived.
    pub at: Instant,
    /// Number of times that a node forwarded the packet.
    pub hops: u32,
}

pub(super) struct OverlayWorldNode {
    pub(super) contact: NodeContact,
    pub(super) overlay: Option<OverlayState>,
    pub(super) site: OverlaySite,
    run: u32,
    next_seq: u32,
    wake: Instant,
    traffic: OverlayTraffic,
    of_directory: OverlayTraffic,
}

#[derive(Clone, Copy)]
struct OverlayPacket {
    header: Header,
    source: u32,
    sent_at: Instant,
}

enum OverlayEvent {
    Wake,
    Message { from: u32, via: Option<NodeId>, run: u32, bytes: Box<[u8]> },
    Packet(Box<OverlayPacket>),
}

struct OverlayAgendaEntry {
    at: Instant,
    order: u64,
    node: u32,
    event: OverlayEvent,
}

impl PartialEq for OverlayAgendaEntry {
    fn eq(&self, other: &OverlayAgendaEntry) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OverlayAgendaEntry {}

impl PartialOrd for OverlayAgendaEntry {
    fn partial_cmp(&self, other: &OverlayAgendaEntry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OverlayAgendaEntry {
    fn cmp(&self, other: &OverlayAgendaEntry) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Overlay nodes, numbered from zero, and the messages and packets in flight between them.
pub struct OverlayWorld {
    /// The network between the nodes.
    pub terrain: Terrain,
    now: Instant,
    timing: OverlayTiming,
    rng: Rng,
    pub(super) registry: Option<Registry>,
    pub(super) nodes: Vec<OverlayWorldNode>,
    pub(super) findings: Vec<LookupResult>,
    pub(super) reports: Vec<(u32, DirectoryEvent)>,
    agenda: BinaryHeap<Reverse<OverlayAgendaEntry>>,
    order: u64,
    arrivals: Vec<RootArrival>,
    events: u64,
    buffer: Box<[u8; MAX_MESSAGE]>,
}

impl OverlayWorld {
    /// Returns a world without nodes, at time zero.
    pub fn new(terrain: Terrain, timing: OverlayTiming, rng: Rng) -> OverlayWorld {
        OverlayWorld {
            terrain,
            now: Instant::ZERO,
            timing,
            rng,
            registry: None,
            nodes: Vec::new(),
            findings: Vec::new(),
            reports: Vec::new(),
            agenda: BinaryHeap::new(),
            order: 0,
            arrivals: Vec::new(),
            events: 0,
            buffer: Box::new([0; MAX_MESSAGE]),
        }
    }

    /// Returns the current virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the number of messages, packets and timers so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the numbers of all nodes that are alive.
    pub fn alive(&self) -> Vec<u32> {
        (0..self.nodes.len() as u32).filter(|node| self.overlay(*node).is_some()).collect()
    }

    /// Returns a node's identifier.
    pub fn id(&self, node: u32) -> NodeId {
        self.nodes[node as usize].contact.id
    }

    /// Returns the node with an identifier. The identifier's last four bytes are the node's number.
    pub fn node(&self, id: NodeId) -> u32 {
        let [.., a, b, c, d] = *id.as_bytes();
        u32::from_be_bytes([a, b, c, d])
    }

    /// Returns the overlay state of a node, or `None` if the node is not alive.
    pub fn overlay(&self, node: u32) -> Option<&OverlayState> {
        self.nodes.get(node as usize)?.overlay.as_ref()
    }

    /// Returns the messages that a node has sent so far.
    pub fn traffic(&self, node: u32) -> OverlayTraffic {
        self.nodes[node as usize].traffic
    }

    /// Returns the part of these messages that a node has sent for the directory of prefix owners.
    pub fn directory_traffic(&self, node: u32) -> OverlayTraffic {
        self.nodes[node as usize].of_directory
    }

    /// Adds a node whose contacts at its start are the nodes `via`. Returns its number.
    pub fn add(&mut self, via: &[u32]) -> u32 {
        let node = self.nodes.len() as u32;
        let mut bytes = *NodeId::random(&mut self.rng).as_bytes();
        bytes[NodeId::LEN - 4..].copy_from_slice(&node.to_be_bytes());
        let contact = NodeContact { id: NodeId::new(bytes), details: DETAILS.into() };
        let (wake, traffic, of_directory) = (Instant::FAR_FUTURE, OverlayTraffic::default(), OverlayTraffic::default());
        let site = OverlaySite::default();
        self.nodes.push(OverlayWorldNode {
            contact,
            overlay: None,
            site,
            run: 0,
            next_seq: 0,
            wake,
            traffic,
            of_directory,
        });
        self.terrain.add();
        self.start(node, via);
        node
    }

    /// Starts a node, possibly again. It keeps its identifier and no other state.
    ///
    /// Its contacts at its start are the nodes `via`.
    pub fn start(&mut self, node: u32, via: &[u32]) {
        let bootstrap = via.iter().map(|via| self.nodes[*via as usize].contact.clone()).collect();
        let rng = Rng::new(self.rng.next_u64());
        let this = &mut self.nodes[node as usize];
        this.run += 1;
        let overlay = OverlayState::new(self.now, this.contact.clone(), bootstrap, self.timing, rng.clone());
        if let Some(registry) = &self.registry {
            this.site.start(this.run, self.now, &overlay, registry, rng.split(1));
        }
        this.overlay = Some(overlay);
        this.wake = Instant::FAR_FUTURE;
        self.settle(node);
    }

    /// Stops a node without any message.
    pub fn kill(&mut self, node: u32) {
        let this = &mut self.nodes[node as usize];
        (this.overlay, this.site.directory) = (None, None);
    }

    /// Sends a packet from the node `source` toward the root of `key`. Returns the packet's number.
    pub fn send(&mut self, source: u32, key: NodeId) -> u32 {
        let node = &mut self.nodes[source as usize];
        node.next_seq += 1;
        let (seq, run, id) = (node.next_seq, node.run, node.contact.id);
        let header = Header { key, source: id, run, seq, hops_left: MOST_HOPS, was_duplicated: false };
        self.route(source, OverlayPacket { header, source, sent_at: self.now });
        seq
    }

    /// Returns the packets that reached a root since the last call.
    pub fn take_arrivals(&mut self) -> Vec<RootArrival> {
        std::mem::take(&mut self.arrivals)
    }

    /// Runs the world until `end`.
    pub fn run_until(&mut self, end: Instant) {
        while self.agenda.peek().is_some_and(|Reverse(entry)| entry.at <= end) {
            let Some(Reverse(entry)) = self.agenda.pop() else { break };
            self.now = entry.at;
            self.events += 1;
            self.handle(entry.node, entry.event);
        }
        self.now = end;
    }

    fn handle(&mut self, node: u32, event: OverlayEvent) {
        let now = self.now;
        match event {
            OverlayEvent::Wake => {
                let this = &mut self.nodes[node as usize];
                if this.wake != now {
                    return;
                }
                this.wake = Instant::FAR_FUTURE;
                if let Some(overlay) = &mut this.overlay {
                    overlay.handle_timeout(now);
                }
            }
            OverlayEvent::Message { from, via, run, bytes } => {
                let (id, is_old) = (self.id(from), self.nodes[from as usize].run != run);
                // A session ends with its process. A message from an earlier run of the sender is therefore refused.
                let Some(overlay) = self.nodes[node as usize].overlay.as_mut().filter(|_| !is_old) else { return };
                if OwnershipDirectory::is_for(&bytes) {
                    let handled = self.with_directory(node, |own, context| own.handle_message(context, id, &bytes));
                    return handled.into_iter().for_each(|handled| handled.expect("nodes write what nodes can read"));
                }
                overlay.handle_message(now, id, via, &bytes).expect("nodes write what nodes can read");
            }
            OverlayEvent::Packet(packet) => return self.route(node, *packet),
        }
        self.settle(node);
    }

    fn route(&mut self, at: u32, mut packet: OverlayPacket) {
        let Some(overlay) = &mut self.nodes[at as usize].overlay else { return };
        match overlay.next_hop(self.now, &mut packet.header) {
            NextHop::Deliver => {
                let hops = u32::from(MOST_HOPS - packet.header.hops_left);
                let OverlayPacket { source, sent_at, header } = packet;
                self.arrivals.push(RootArrival { seq: header.seq, source, root: at, sent_at, at: self.now, hops });
            }
            NextHop::Forward(to) => self.forward(at, to, packet),
            NextHop::Duplicate(first, second) => {
                self.forward(at, first, packet);
                self.forward(at, second, packet);
            }
            NextHop::Drop => {}
        }
        self.settle(at);
    }

    fn forward(&mut self, from: u32, to: NodeId, packet: OverlayPacket) {
        let via = self.overlay(from).and_then(|overlay| overlay.via(to));
        let to = self.node(to);
        if let Some(delay) = self.cross(from, via, to) {
            self.schedule(self.now + delay, to, OverlayEvent::Packet(Box::new(packet)));
        }
    }

    /// Returns the time that a message takes, directly or over the relay `via`.
    ///
    /// Returns `None` if the message is lost, or if the relay does not forward it.
    fn cross(&mut self, from: u32, via: Option<NodeId>, to: u32) -> Option<Duration> {
        let Some(via) = via else { return self.terrain.cross(from, to) };
        let relay = self.node(via);
        let first = self.terrain.cross(from, relay)?;
        self.overlay(relay).filter(|overlay| overlay.relays_to(self.id(to)))?;
        Some(first + self.terrain.cross(relay, to)?)
    }

    /// Sends the messages of a node that are due, and schedules its next timer.
    pub(super) fn settle(&mut self, node: u32) {
        let this = &mut self.nodes[node as usize];
        let Some(mut overlay) = this.overlay.take() else { return };
        while let Some(transmit) = overlay.poll_transmit(&mut *self.buffer) {
            self.transmit(node, transmit);
        }
        let directory = self.settle_directory(node, &overlay);
        let wake = overlay.next_timeout().min(directory).max(self.now);
        let this = &mut self.nodes[node as usize];
        this.overlay = Some(overlay);
        if wake < this.wake {
            this.wake = wake;
            self.schedule(wake, node, OverlayEvent::Wake);
        }
    }

    /// Handles the timers of a node's directory of prefix owners and sends its messages.
    ///
    /// Returns the time of its next timer.
    fn settle_directory(&mut self, node: u32, overlay: &OverlayState) -> Instant {
        let now = self.now;
        let site = &mut self.nodes[node as usize].site;
        let (Some(mut directory), Some(registry)) = (site.directory.take(), &self.registry) else {
            return Instant::FAR_FUTURE;
        };
        directory.handle_timeout(&DirectoryContext { now, overlay, authority: &Now { registry, now } });
        while let Some(transmit) = directory.poll_transmit(overlay, &mut *self.buffer) {
            let before = self.nodes[node as usize].traffic;
            if overlay.details(transmit.to).is_some() || self.meet_for(node, transmit.to, &directory) {
                self.transmit(node, transmit);
            }
            let this = &mut self.nodes[node as usize];
            this.of_directory.messages += this.traffic.messages - before.messages;
            this.of_directory.bytes += this.traffic.bytes - before.bytes;
        }
        while let Some(event) = directory.poll_event() {
            match event {
                DirectoryEvent::Found(address, found) => {
                    self.findings.push(LookupResult { node, address, found, at: now })
                }
                other => self.reports.push((node, other)),
            }
        }
        let wake = directory.next_timeout();
        self.nodes[node as usize].site.directory = Some(directory);
        wake
    }

    /// Opens a session with a node that is no neighbour, unless one was opened before.
    ///
    /// Returns false if the node is not at the address that the directory has for it.
    fn meet_for(&mut self, node: u32, id: NodeId, directory: &OwnershipDirectory) -> bool {
        let to = self.node(id);
        let Some(other) = self.nodes.get(to as usize) else { return false };
        if directory.details(id) != Some(&other.contact.details) {
            return false;
        }
        if self.nodes[node as usize].site.met.insert(to) {
            self.nodes[node as usize].traffic.bytes += MEETING;
        }
        true
    }

    /// Sends the message of `node` that is in the buffer. A lying node changes it first.
    fn transmit(&mut self, node: u32, OverlayTransmit { to, via, len }: OverlayTransmit) {
        let this = &mut self.nodes[node as usize];
        let run = this.run;
        let mut bytes: Box<[u8]> = self.buffer[..len].into();
        if let Some(lie) = this.site.lie.as_ref().filter(|_| OwnershipDirectory::is_for(&bytes)) {
            let Some(told) = lie.forge(&this.contact, &bytes) else { return };
            bytes = told.into();
        }
        for sender in std::iter::once(node).chain(via.map(|via| self.node(via))) {
            let traffic = &mut self.nodes[sender as usize].traffic;
            traffic.messages += 1;
            traffic.bytes += bytes.len() as u64 + OVERHEAD;
        }
        let to = self.node(to);
        if let Some(delay) = self.cross(node, via, to) {
            self.schedule(self.now + delay, to, OverlayEvent::Message { from: node, via, run, bytes });
        }
    }

    fn schedule(&mut self, at: Instant, node: u32, event: OverlayEvent) {
        self.order += 1;
        self.agenda.push(Reverse(OverlayAgendaEntry { at, order: self.order, node, event }));
    }
}
