//! The world of a run: engines, wire, traffic and faults in virtual time.
//!
//! The world owns the clock and an agenda of events. It passes packets and datagrams to the engines, carries the
//! engines' datagrams over the links, and passes all of them to the judge and the observer. It must depend on nothing
//! but the plan.

use super::judge::{DeliveryJudge, ReceivingNode};
use super::liar::{Liar, is_from};
use super::packet::{self, Offload, SwarmSegment, VNET};
use super::plan::Plan;
use super::role::NodeRole;
use super::site::{SocketDatagram, SwarmSite, public_key};
use super::violation::Violation;
use super::watch::{AcceptedDatagram, Observer, is_data, is_relayed, is_sealed, may_be_handshake_within, type_of};
use super::wire::{DatagramFate, HIJACKER, Wire};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_engine::{Engine, Event, Received, Reorder, Transmit};
use weft_session::PublicKey;
use weft_units::{Duration, Instant, LinkId, Rng, VpnId};
use weft_wire::handshake::HandshakeResponse;

/// Number of runs of event loops at one instant of simulated time after which the run is reported as stuck.
const MAX_TURNS: u32 = 20_000;
/// Number of datagrams that fit into the sockets of a stopped process.
const INBOX: usize = 400;
/// Maximum time that a unit waits for a missing unit.
///
/// When this time has passed since a clock jump, all waits that the jump disturbed have ended.
const LONGEST_HOLD: Duration = Duration::from_secs(5);
/// Address from which strangers send.
pub(super) const STRANGER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)), 666);
/// Time within which a kernel with GRO joins datagrams of one size into one receive.
const GRO_TIME: Duration = Duration::from_micros(100);
/// Interval between two checks that no node has something to send before the time at which it asked to be woken.
const PEEK_EVERY: Duration = Duration::from_millis(31);

/// Tolerance of the check of [`PEEK_EVERY`].
///
/// A node may send up to this time before the time at which it asked to be woken. Some work, such as sending a unit
/// that the scheduler holds, becomes possible as time passes and has no exact time.
const SOON: Duration = Duration::from_millis(10);

/// An event on the world's agenda.
pub(super) enum Todo {
    Arrive(usize, SocketDatagram),
    /// Node number of a member whose next arbitrary datagram is due, and the time after which it sends no more.
    Lie(usize, Instant),
    Talk(usize),
    Begin(usize),
    End(usize),
    Attack(usize),
    Peek,
}

struct SwarmAgendaEntry {
    at: Instant,
    serial: u64,
    todo: Todo,
}

impl PartialEq for SwarmAgendaEntry {
    fn eq(&self, other: &SwarmAgendaEntry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for SwarmAgendaEntry {}
impl PartialOrd for SwarmAgendaEntry {
    fn partial_cmp(&self, other: &SwarmAgendaEntry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for SwarmAgendaEntry {
    fn cmp(&self, other: &SwarmAgendaEntry) -> Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

/// Number of datagrams that arrived at any node, and of runs of the nodes' event loops, in a run of the swarm.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SwarmCounts {
    pub(super) datagrams: u64,
    pub(super) turns: u64,
}

/// A network of engines.
pub(super) struct SwarmWorld<'a> {
    pub(super) plan: &'a Plan,
    pub(super) now: Instant,
    pub(super) sites: Vec<SwarmSite>,
    pub(super) judge: DeliveryJudge<'a>,
    pub(super) counts: SwarmCounts,
    /// Number of datagrams that were refused although they were genuine.
    pub(super) refused: u64,
    /// The peers of each node, in the order of the node's configuration.
    pub(super) peers: Vec<Vec<usize>>,
    /// A log of events for a reader, if one was requested.
    pub(super) story: Option<String>,
    /// Sessions that were lost: time, node, peer and cause.
    pub(super) sessions_lost: Vec<(Instant, usize, usize, &'static str)>,
    pub(super) wire: Wire,
    pub(super) watch: Observer,
    pub(super) liar: Option<Liar>,
    pub(super) rng: Rng,
    keys: Vec<PublicKey>,
    agenda: BinaryHeap<Reverse<SwarmAgendaEntry>>,
    serial: u64,
    out: Vec<u8>,
}

impl<'a> SwarmWorld<'a> {
    pub(super) fn new(plan: &'a Plan) -> SwarmWorld<'a> {
        let now = Instant::from_millis(1);
        let nodes = 0..plan.nodes.len();
        let peers = nodes.clone().map(|n| {
            let me = plan.owner(n);
            let of = |&(a, b): &(usize, usize)| if a == me { Some(b) } else { (b == me).then_some(a) };
            plan.pairs.iter().filter_map(of).collect()
        });
        let mut world = SwarmWorld {
            plan,
            now,
            peers: peers.collect(),
            sites: nodes.clone().map(|n| SwarmSite::new(plan, n, now)).collect(),
            judge: DeliveryJudge::new(plan),
            counts: SwarmCounts::default(),
            refused: 0,
            story: None,
            sessions_lost: Vec::new(),
            keys: nodes.clone().map(|n| public_key(plan.owner(n))).collect(),
            liar: None,
            wire: Wire::new(plan),
            watch: Observer::default(),
            agenda: BinaryHeap::new(),
            serial: 0,
            rng: Rng::new(plan.seed).split(8),
            out: vec![0; 65_536],
        };
        for (n, talk) in plan.talks.iter().enumerate() {
            world.plan_for(talk.from, Todo::Talk(n));
        }
        for (n, fault) in plan.faults.iter().enumerate() {
            world.plan_for(fault.at, Todo::Begin(n));
            world.plan_for(fault.until, Todo::End(n));
        }
        world.plan_for(now + PEEK_EVERY, Todo::Peek);
        world
    }

    pub(super) fn plan_for(&mut self, at: Instant, todo: Todo) {
        self.serial += 1;
        self.agenda.push(Reverse(SwarmAgendaEntry { at, serial: self.serial, todo }));
    }

    /// Runs the world until `end`. Fails at the first violated invariant.
    pub(super) fn run_until(&mut self, end: Instant) -> Result<(), Violation> {
        let mut stuck = 0;
        loop {
            let woken = self.sites.iter().map(|s| s.wake).min();
            let next = self.agenda.peek().map(|e| e.0.at).into_iter().chain(woken).min().unwrap_or(end);
            if next > end {
                self.now = end;
                return Ok(());
            }
            stuck = if next <= self.now { stuck + 1 } else { 0 };
            if stuck > MAX_TURNS {
                return Err(Violation::new("stuck", self.now, "much is done, and time does not pass"));
            }
            self.now = self.now.max(next);
            while self.agenda.peek().is_some_and(|e| e.0.at <= self.now) {
                let Some(Reverse(entry)) = self.agenda.pop() else { break };
                self.step(entry.todo)?;
            }
            for node in 0..self.sites.len() {
                if self.sites[node].wake <= self.now {
                    self.turn(node)?;
                }
            }
        }
    }

    fn step(&mut self, todo: Todo) -> Result<(), Violation> {
        match todo {
            Todo::Arrive(node, datagram) => self.arrive(node, datagram),
            Todo::Talk(talk) => {
                self.talk(talk);
                Ok(())
            }
            Todo::Begin(fault) => self.begin(fault),
            Todo::End(fault) => self.end(fault),
            Todo::Lie(node, until) => {
                self.lie(node, until);
                Ok(())
            }
            Todo::Attack(node) => self.attack(node),
            Todo::Peek => self.peek(),
        }
    }

    // --- traffic ---

    fn talk(&mut self, number: usize) {
        let talk = &self.plan.talks[number];
        if self.now >= talk.until {
            return;
        }
        self.plan_for(self.now + talk.every, Todo::Talk(number));
        let flow = &self.plan.flows[talk.flow];
        let site = &mut self.sites[flow.from];
        if site.engine.is_none() || site.paused {
            return;
        }
        let most = site.inner_mtu - flow.header_len() as u16;
        let rng = &mut site.rng;
        let mut size = talk.payload.unwrap_or_else(|| match rng.below(3) {
            0 => most,
            _ => packet::LEAST_PAYLOAD + rng.below(u64::from(most - packet::LEAST_PAYLOAD) + 1) as u16,
        });
        size = size.clamp(packet::LEAST_PAYLOAD, most);
        let alike = talk.offload == Offload::Segmentation;
        let offload = if alike && !flow.tcp { Offload::Checksum } else { talk.offload };
        let burst = talk.burst.min(62_000 / (size + 60)).max(1);
        let segments: Vec<SwarmSegment> = (0..burst)
            .map(|n| {
                let is_last = n + 1 == burst;
                let shorter = is_last && rng.chance(0.6);
                let len = if shorter { packet::LEAST_PAYLOAD.max(rng.below(u64::from(size) + 1) as u16) } else { size };
                self.judge.send(self.now, talk.flow, len.min(size), alike && is_last)
            })
            .collect();
        for read in flow.reads(&segments, offload) {
            self.hand_over(flow.from, flow.vpn, &read);
        }
        if self.sites[flow.from].rng.chance(0.02) {
            let good = flow.reads(&segments[..1], offload).swap_remove(0);
            // Garbage could be a valid packet by chance, and a node would deliver it without error. A wrong IP
            // version prevents this.
            let mut bytes = packet::garbage(&mut self.sites[flow.from].rng, &good);
            if let Some(version) = bytes.get_mut(VNET) {
                *version &= 0x0f;
            }
            self.hand_over(flow.from, flow.vpn, &bytes);
        }
        self.sites[flow.from].on_input(self.now);
    }

    /// Passes a packet that was read from a node's TUN device of `vpn` to the node's engine.
    fn hand_over(&mut self, node: usize, vpn: VpnId, read: &[u8]) {
        let site = &mut self.sites[node];
        let local = site.local(self.now);
        let Some(engine) = &mut site.engine else { return };
        let Some(buf) = engine.pool().alloc_large() else { return };
        engine.pool().bytes_mut(buf)[..read.len()].copy_from_slice(read);
        engine.handle_packet(local, vpn, buf, read.len());
    }

    // --- datagrams ---

    fn arrive(&mut self, node: usize, mut datagram: SocketDatagram) -> Result<(), Violation> {
        if let (NodeRole::Liar { .. }, Some(liar)) = (self.plan.roles[node], &mut self.liar) {
            liar.receive(self.now, &mut datagram.bytes);
            return Ok(());
        }
        let site = &mut self.sites[node];
        if site.engine.is_none() || !site.is_plugged(datagram.link) {
            return Ok(());
        }
        if site.paused {
            if site.inbox.len() < INBOX {
                site.inbox.push(datagram);
            }
            return Ok(());
        }
        if !self.plan.nodes[node].gro || datagram.tampered {
            return self.take_in(node, datagram);
        }
        let mut together = vec![datagram];
        while let Some(Reverse(next)) = self.agenda.peek() {
            let Todo::Arrive(to, more) = &next.todo else { break };
            let (first, last) = (&together[0], &together[together.len() - 1]);
            let joins = *to == node
                && next.at - self.now < GRO_TIME
                && !more.tampered
                && (more.link, more.source, more.tos) == (first.link, first.source, first.tos)
                && last.bytes.len() == first.bytes.len()
                && more.bytes.len() <= first.bytes.len()
                && together.len() < 40;
            if !joins {
                break;
            }
            if let Some(Reverse(SwarmAgendaEntry { todo: Todo::Arrive(_, more), .. })) = self.agenda.pop() {
                together.push(more);
            }
        }
        self.receive(node, &together)
    }

    pub(super) fn take_in(&mut self, node: usize, datagram: SocketDatagram) -> Result<(), Violation> {
        self.receive(node, &[datagram])
    }

    /// Passes datagrams of one size and source to a node, as one receive call of its kernel.
    fn receive(&mut self, node: usize, datagrams: &[SocketDatagram]) -> Result<(), Violation> {
        let Some(first) = datagrams.first() else { return Ok(()) };
        let site = &mut self.sites[node];
        let local = site.local(self.now);
        let Some(engine) = &mut site.engine else { return Ok(()) };
        let Some(buf) = engine.pool().alloc_large() else {
            return Err(Violation::new("memory", self.now, format!("node {node} has no buffer left to receive into")));
        };
        let (mut len, stride) = (0, first.bytes.len());
        for datagram in datagrams {
            engine.pool().bytes_mut(buf)[len..len + datagram.bytes.len()].copy_from_slice(&datagram.bytes);
            len += datagram.bytes.len();
        }
        let destination = Some(super::site::address(node, first.link).ip());
        let link = LinkId(first.link as u32 + 1);
        let before = engine.rejected_datagrams();
        let received =
            Received { at: local, link, source: first.source, destination, tos: first.tos, buf, len, stride };
        engine.handle_datagrams(local, received);
        let rejected = engine.rejected_datagrams() - before;
        site.note_holds();
        site.on_input(self.now + self.plan.nodes[node].lag);
        self.counts.datagrams += datagrams.len() as u64;
        self.take_events(node)?;
        if first.tampered && rejected == 0 && is_sealed(&first.bytes) {
            let what =
                format!("node {node} took a datagram of type {} that was replayed or changed", first.bytes[0] & 15);
            return Err(Violation::new("outsider", self.now, what));
        }
        if first.tampered {
            return Ok(());
        }
        if rejected > 0 {
            self.log(node, || format!("refuses {rejected} datagrams of {:02x?}", first.bytes.get(..10)));
        }
        // Answers to one handshake arrive over all paths, and all but the first are refused: these are not counted.
        let is_honest = first.sender.is_none_or(|sender| !self.plan.is_doubtful(sender, sender));
        let is_genuine = is_honest && is_sealed(&first.bytes) && !may_be_handshake_within(&first.bytes);
        self.refused += if is_genuine { rejected } else { 0 };
        for datagram in datagrams {
            if datagram.source == HIJACKER {
                self.watch.on_hijacked(node, datagram.bytes.len());
            }
            let taken = AcceptedDatagram { at: self.now, bytes: datagram.bytes.clone() };
            self.watch.on_taken(&mut self.rng, node, &taken);
            if let Some(sender) = datagram.sender
                && rejected == 0
                && is_sealed(&datagram.bytes)
                && !is_relayed(&datagram.bytes)
            {
                self.watch.on_accepted(node, sender, datagram.source, &datagram.bytes);
            }
        }
        Ok(())
    }

    // --- a node's turn ---

    fn turn(&mut self, node: usize) -> Result<(), Violation> {
        let site = &mut self.sites[node];
        if site.paused || site.engine.is_none() {
            site.wake = Instant::FAR_FUTURE;
            return Ok(());
        }
        let inbox = std::mem::take(&mut site.inbox);
        let had_input = !inbox.is_empty();
        for datagram in inbox {
            self.take_in(node, datagram)?;
        }
        let local = self.sites[node].local(self.now);
        if let Some(engine) = &mut self.sites[node].engine {
            engine.handle_timeout(local);
        }
        self.counts.turns += 1;
        let sent = self.transmit_all(node)?;
        self.deliver(node)?;
        self.take_events(node)?;
        let site = &mut self.sites[node];
        site.idle_turns.on_turn(self.now, node, had_input || sent > 0)?;
        let asked = site.engine.as_ref().and_then(|e| e.next_timeout(local));
        let asked = asked.map_or(Instant::FAR_FUTURE, |local| site.clock.global(local));
        (site.asked, site.wake) = (Some(asked), asked.max(self.now));
        Ok(())
    }

    /// Sends all datagrams that a node has to send. Returns their number.
    fn transmit_all(&mut self, node: usize) -> Result<u32, Violation> {
        let mut out = std::mem::take(&mut self.out);
        let mut count = 0;
        loop {
            let local = self.sites[node].local(self.now);
            let Some(engine) = &mut self.sites[node].engine else { break };
            let Some(transmit) = engine.poll_transmit(local, &mut out) else { break };
            count += 1;
            if count > MAX_TURNS {
                return Err(Violation::new("stuck", self.now, format!("node {node} sends without end")));
            }
            self.transmit(node, &transmit, &out)?;
        }
        self.out = out;
        Ok(count)
    }

    fn transmit(&mut self, node: usize, transmit: &Transmit, out: &[u8]) -> Result<(), Violation> {
        let link = transmit.link.0 as usize - 1;
        let local = self.sites[node].local(self.now);
        let size = transmit.segment_size.map_or(transmit.len, usize::from).max(1);
        let interface = usize::from(self.plan.nodes[node].links[link].interface_mtu);
        for datagram in out[..transmit.len].chunks(size) {
            if datagram.len() + 28 > interface {
                let what = format!("node {node} sends {} bytes on a link of {interface}", datagram.len() + 28);
                return Err(Violation::new("too long", self.now, what));
            }
            self.watch.on_sent(self.now, local, node, datagram)?;
            self.check_destination(node, transmit.destination, datagram)?;
            if transmit.destination == HIJACKER {
                self.watch.on_sent_to_hijacker(self.now, node, datagram.len())?;
            }
            if !self.sites[node].is_plugged(link) {
                continue;
            }
            if !self.plan.nodes[node].links[link].send && is_data(datagram) {
                let what = format!("node {node} sends data on link {link}, which is not to be sent on");
                return Err(Violation::new("barred", self.now, what));
            }
            match self.wire.send(self.now, (node, link), transmit.destination, transmit.tos, datagram) {
                DatagramFate::Gone => {}
                DatagramFate::TooBig => {
                    if let Some(engine) = &mut self.sites[node].engine {
                        engine.handle_send_error(local, transmit, true);
                    }
                    break;
                }
                DatagramFate::Arrives(copies) => {
                    for (at, to, datagram) in copies {
                        self.plan_for(at, Todo::Arrive(to, datagram));
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks the destination of a datagram.
    ///
    /// A stranger may get only answers that store no state: a cookie, or the response with sender index 0, which
    /// refuses a replayed initiation. A datagram on a path that the peer opened must be sent to the source of that
    /// path's newest datagram.
    fn check_destination(&self, node: usize, to: SocketAddr, datagram: &[u8]) -> Result<(), Violation> {
        if to == STRANGER {
            let kind = datagram[0] & 15;
            return match kind {
                3 => Ok(()),
                2 if HandshakeResponse::parse(datagram).is_ok_and(|response| response.sender == 0) => Ok(()),
                _ => Err(Violation::new("stranger", self.now, format!("node {node} sends type {kind} to a stranger"))),
            };
        }
        let Some((peer, _)) = self.wire.behind(to.ip()).filter(|_| is_sealed(datagram)) else { return Ok(()) };
        let peer = self.plan.owner(peer);
        if !self.peers[node].contains(&peer) {
            return Err(Violation::new("wrong peer", self.now, format!("node {node} sends to node {peer}")));
        }
        if is_relayed(datagram) || self.plan.has_twin() || self.plan.roles[peer] != NodeRole::Member {
            return Ok(());
        }
        let is_even = datagram[1].is_multiple_of(2);
        // The node with the lower key opens paths with even numbers.
        if is_even != (self.keys[peer] < self.keys[node]) {
            return Ok(());
        }
        match self.watch.place_of(node, peer, datagram) {
            Some(place) if place != to => {
                let what = format!("node {node}, path {}: to {to}, not {place}", datagram[1]);
                Err(Violation::new("wrong address", self.now, what))
            }
            _ => Ok(()),
        }
    }

    fn deliver(&mut self, node: usize) -> Result<(), Violation> {
        let (now, plan) = (self.now, self.plan);
        let site = &mut self.sites[node];
        let local = site.local(now);
        let to = ReceivingNode {
            node,
            resequences: plan.nodes[node].policy.reorder == Reorder::Resequence,
            // If two nodes have the same key, each receives some of the packets for that key, and may deliver them
            // out of order.
            stepped: plan.has_twin() || site.stepped_at.is_some_and(|at| now - at < LONGEST_HOLD),
        };
        let is_twin = matches!(plan.roles[node], NodeRole::Twin { .. });
        let liar = plan.roles.iter().position(|role| *role == NodeRole::Liar { hub: node });
        let Some(engine) = &mut site.engine else { return Ok(()) };
        let mut written = Vec::new();
        engine.deliver(local, |vpn, pieces| written.push((vpn, pieces.concat())));
        let (holds, peers) = (site.take_holds(), &self.peers[node]);
        let hold = |from: usize| {
            let peer = peers.iter().position(|p| *p == from);
            peer.and_then(|peer| holds.get(peer).copied()).unwrap_or_default()
        };
        let mut out_of_order = Vec::new();
        written.retain(|(vpn, written)| {
            let is_own = |liar| *vpn == VpnId::DEFAULT && is_from(liar, written);
            !is_twin && !liar.is_some_and(is_own)
        });
        for (vpn, written) in written {
            out_of_order.extend(self.judge.deliver(now, &to, vpn, &written, hold)?);
        }
        for late in out_of_order {
            // One millisecond is the tolerance for clocks that differ by a thousandth and an event loop that collects
            // input for 300 µs.
            let early = late.waited + Duration::from_millis(1) < late.hold;
            let from = plan.flows[late.flow].from;
            if early && self.abandoned(from, node) == 0 {
                let what = format!(
                    "flow {}: packet {} was waited for {:?} at most instead of {:?}",
                    late.flow, late.number, late.waited, late.hold
                );
                return Err(Violation::new("order", now, what));
            }
        }
        Ok(())
    }

    /// Returns the number of units toward node `to` that node `from` gave up, or 1 if this is not known.
    fn abandoned(&self, from: usize, to: usize) -> u64 {
        let peer = self.peers[from].iter().position(|p| *p == to);
        let snapshot = self.sites[from].engine.as_ref().map(|e| e.snapshot(self.sites[from].local(self.now)));
        peer.zip(snapshot).and_then(|(peer, s)| s.peers.get(peer).map(|p| p.abandoned_units)).unwrap_or(1)
    }

    /// Adds a line about `node` to the log, if a log was requested.
    pub(super) fn log(&mut self, node: usize, what: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(story) = &mut self.story {
            let _ = writeln!(story, "{:12.3} ms  node {node}: {}", now.as_micros() as f64 / 1e3, what());
        }
    }

    /// Processes the events that a node's engine reports.
    pub(super) fn take_events(&mut self, node: usize) -> Result<(), Violation> {
        while let Some(event) = self.sites[node].engine.as_mut().and_then(Engine::poll_event) {
            self.log(node, || format!("{event:?}"));
            match event {
                Event::InnerMtu(mtu) => self.sites[node].inner_mtu = mtu,
                Event::Established { peer, fresh } => {
                    let peer = self.peers[node][usize::from(peer.0)];
                    self.watch.forget_paths(node, peer);
                    if fresh {
                        self.judge.forget_order(self.now, peer, node);
                    }
                    if matches!(self.plan.roles[node], NodeRole::Twin { is_thief: true, .. }) {
                        let what = format!("node {node} has a session with node {peer} by a stolen key alone");
                        return Err(Violation::new("secret", self.now, what));
                    }
                }
                Event::Lost { peer, cause } => {
                    let peer = self.peers[node][usize::from(peer.0)];
                    self.watch.forget_paths(node, peer);
                    self.judge.forget_order(self.now, peer, node);
                    self.sessions_lost.push((self.now, node, peer, cause));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks that no node has units on a path that is down, or sends earlier than it asked to be woken.
    fn peek(&mut self) -> Result<(), Violation> {
        self.plan_for(self.now + PEEK_EVERY, Todo::Peek);
        for node in 0..self.sites.len() {
            let site = &self.sites[node];
            if site.engine.as_ref().is_some_and(Engine::has_stranded_units) {
                let what = format!("node {node} keeps units on a path that is down");
                return Err(Violation::new("stranded", self.now, what));
            }
            let Some(asked) = site.asked.filter(|at| !site.paused && *at > self.now) else { continue };
            let local = self.sites[node].local(self.now);
            if let Some(engine) = &mut self.sites[node].engine {
                engine.forget_deadlines();
                engine.handle_timeout(local);
            }
            let count = self.transmit_all(node)?;
            if count > 0 && asked - self.now > SOON {
                let kind = type_of(&self.out);
                let what = format!(
                    "node {node} sends {count} times (type {kind}), but asked to be woken {:?} later",
                    asked - self.now
                );
                return Err(Violation::new("lost wake-up", self.now, what));
            }
        }
        Ok(())
    }
}
