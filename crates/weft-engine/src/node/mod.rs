//! The node: passes inputs to the peers and collects the peers' outputs.
//!
//! It owns the sessions, peers, buffers, links and VPNs. A TUN packet is routed by VPN and prefix to a peer's queue. A
//! datagram is opened and handed to the peer that sealed it. Outputs are polled from the peers in turn. The node itself
//! never decides which path a unit takes. The peer does.

mod certified;
mod configure;
mod detours;
mod drill;
mod explain;
mod facts;
mod flows;
mod forward;
mod handshakes;
mod intake;
mod links;
mod mapping;
mod meet;
mod neighbours;
mod overlay;
mod owners;
mod peers;
mod prefixes;
mod relaying;
mod revocations;
mod routing;
mod sending;
mod signalling;
mod snapshot;
mod stamps;
mod strangers;
mod transit;
mod tun;
mod wrap;

use crate::access::HostAccess;
use crate::api::{
    Command, CommandError, ConfigError, EngineConfig, Event, LinkConfig, LinkEvent, PeerConfig, PortSettings, Received,
    SignalConfig, Transmit, VpnChange, VpnConfig, VpnError, Weights,
};
use crate::flows::Flowing;
use crate::hold_down::HoldDown;
use crate::links::{Link, Links, outer_header_len};
use crate::overlay::Overlaying;
use crate::peer::{Context, Datagram, Peer};
use crate::relay::{Relaying, check_routes};
use crate::signal::Signalling;
use crate::trust::Trust;
use crate::units::INNER_MTU_MIN;
use crate::vpn::{Leases, Vpn, Vpns, check_vpns};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use drill::RunningDrill;
use facts::Facts;
pub use flows::FlowListing;
use handshakes::{HANDSHAKE_MAX, Handshakes};
use intake::Intake;
use peers::Peers;
use stamps::Stamps;
use weft_core::pool::{Limits, Pool};
use weft_core::service::{Service, Share};
use weft_session::{PeerError, PublicKey, SessionPeerConfig as SessionPeer, Sessions, TimeoutAction};
use weft_units::planted::{self, Fault};
use weft_units::{Instant, PeerId, Rng, VpnId};
use weft_wire::hop::PacketType;

const POOL_LIMITS: Limits = Limits { small: 65_536, large: 4_096 };
/// Inner MTU in bytes until the paths' MTUs are known.
///
/// *Derived*: 1500 bytes minus the overhead over IPv4.
const INNER_MTU_DEFAULT: u16 = 1440;

/// Events that the program has not taken yet, and the number of those that it has taken.
#[derive(Default)]
struct Events {
    queue: VecDeque<Event>,
    /// Number of events that the program has taken.
    taken: u64,
}

/// State of the exchange with hosts: MTU, flow state, rules of access and counters of lost packets.
struct HostSide {
    inner_mtu_limit: u16,
    inner_mtu: HoldDown<Reverse<u16>>,
    reordering: HoldDown<Option<u32>>,
    /// Number of the last packet that was passed to the queue of a peer.
    serial: u32,
    /// Index of the peer after the one whose packets were last written to a TUN device.
    written: usize,
    unroutable_packets: u64,
    no_buffer_packets: u64,
    flows: Flowing,
    /// The rules of access to the hosts behind this node.
    access: HostAccess,
    /// Settings of the port toward each peer. `None` if no flow state is kept.
    port: Option<PortSettings>,
}

/// State of the exchange with other nodes: the datagrams that this node receives and sends.
#[derive(Default)]
struct WireSide {
    intake: Intake,
    /// Index of the peer that sends next.
    turn: usize,
    rejected_datagrams: u64,
}

/// State for diagnosis: why a peer is not reached, and how traffic reacts to a cut.
#[derive(Default)]
struct DiagnosisState {
    drill: Option<RunningDrill>,
    facts: Facts,
}

/// A node. The documentation of the crate describes how to drive it.
pub struct Engine {
    sessions: Sessions,
    peers: Peers,
    pool: Pool,
    links: Links,
    vpns: Vpns,
    signal: Signalling,
    relaying: Relaying,
    trust: Trust,
    overlay: Overlaying,
    handshakes: Handshakes,
    rng: Rng,
    events: Events,
    hosts: HostSide,
    wire: WireSide,
    diagnosis: DiagnosisState,
}

impl Engine {
    /// Returns a node that starts at `now`. `seed` must be fresh entropy, because keys depend on it.
    ///
    /// # Errors
    /// Fails if two peers share a key, a peer's key is the node's own, a route is invalid, or a VPN is invalid.
    pub fn new(config: EngineConfig, now: Instant, seed: [u8; 32]) -> Result<Engine, ConfigError> {
        check_vpns(&config.peers, &config.vpns)?;
        check_routes(&config.identity.public_key(), &config.peers)?;
        let session_peers: Vec<SessionPeer> = config.peers.iter().map(session_peer).collect();
        let mut sessions = Sessions::new(config.identity, &session_peers, config.cipher, seed, now)?;
        for (key, stamp) in &config.accepted_stamps {
            if let Some(peer) = sessions.peer_by_key(key)
                && !planted::is(Fault::StampNotRestored)
            {
                sessions.restore_accepted_stamp(peer, *stamp);
            }
        }
        let rng = Rng::new(
            u64::from_le_bytes([seed[0], seed[1], seed[2], seed[3], seed[4], seed[5], seed[6], seed[7]])
                .rotate_left(13),
        );
        let mut engine = Engine {
            sessions,
            peers: Peers::default(),
            pool: Pool::new(POOL_LIMITS),
            links: Links::new(config.links),
            vpns: Vpns::new(rng.split(u64::from(u32::MAX)).next_u64()),
            signal: Signalling::default(),
            relaying: Relaying::default(),
            trust: Trust::new(&config.accepted_stamps),
            overlay: Overlaying::default(),
            handshakes: Handshakes::new(now, Stamps::new(config.stamp_base)),
            events: Events::default(),
            hosts: HostSide {
                inner_mtu_limit: config.inner_mtu.unwrap_or(u16::MAX),
                inner_mtu: HoldDown::new(Reverse(INNER_MTU_DEFAULT.min(config.inner_mtu.unwrap_or(u16::MAX)))),
                reordering: HoldDown::new(None),
                serial: 0,
                written: 0,
                unroutable_packets: 0,
                no_buffer_packets: 0,
                access: HostAccess::default(),
                flows: Flowing::new(rng.split(u64::from(u32::MAX) + 1).next_u64()),
                port: None,
            },
            rng,
            wire: WireSide::default(),
            diagnosis: DiagnosisState::default(),
        };
        let count = config.peers.len();
        for (index, peer) in config.peers.into_iter().enumerate() {
            let first_path = u16::from(engine.sessions.public_key() > peer.public_key);
            engine.peers.push(Peer::new(now, PeerId(index as u16), peer, &engine.rng, first_path, count));
        }
        engine.set_routes(now);
        engine.set_vpns(now, config.vpns);
        Ok(engine)
    }

    /// Returns the pool of packet buffers. The caller writes its inputs into buffers from this pool.
    pub fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// Returns the highest handshake stamp accepted from each peer.
    ///
    /// The program stores them on disk.
    pub fn accepted_stamps(&self) -> impl Iterator<Item = (PublicKey, u64)> {
        self.sessions.accepted_stamps()
    }

    /// Returns the number of datagrams dropped before they were authenticated.
    pub fn rejected_datagrams(&self) -> u64 {
        self.wire.rejected_datagrams
    }

    /// Returns the inner MTU: the length of the largest packet that the TUN device should pass on, in bytes.
    pub fn inner_mtu(&self) -> u16 {
        self.hosts.inner_mtu.value().0
    }

    /// Starts, changes or stops (`None`) in-band signalling of rates.
    ///
    /// An unchanged configuration has no effect. A change withdraws every grant made before.
    pub fn set_signalling(&mut self, now: Instant, config: Option<SignalConfig>) {
        let [high, low, ..] = *self.sessions.public_key().node_id().as_bytes();
        let rng = self.rng.split(now.as_nanos().rotate_left(32));
        if self.signal.set(now, config, (u16::from_be_bytes([high, low]), rng), &mut self.events.queue) {
            for index in 0..self.peers.len() {
                self.with_peer(now, index, |p, cx| p.forget_offer(cx));
            }
        }
    }

    fn open_paths(&mut self, now: Instant, link: &Link) {
        for index in 0..self.peers.len() {
            self.with_peer(now, index, |p, cx| p.on_link_up(cx, link));
        }
    }

    fn with_peer<T>(
        &mut self,
        now: Instant,
        index: usize,
        work: impl FnOnce(&mut Peer, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let mut cx = Context {
            now,
            pool: &mut self.pool,
            sessions: &mut self.sessions,
            vpns: &mut self.vpns,
            events: &mut self.events.queue,
            signal: &mut self.signal,
            flows: &mut self.hosts.flows,
            trust: &mut self.trust,
            access: &mut self.hosts.access,
            links: &self.links,
            bulletin: &self.relaying.bulletin,
        };
        self.peers.get_mut(index).map(|peer| work(peer, &mut cx))
    }

    /// Applies a change of the local links.
    pub fn handle_link(&mut self, now: Instant, event: LinkEvent) {
        if let Some(link) = self.links.apply(&event) {
            self.open_paths(now, &link);
            self.start_handshakes(now);
        }
        if let LinkEvent::Down { link, cause } = event {
            for index in 0..self.peers.len() {
                self.with_peer(now, index, |p, cx| p.on_link_down(cx, link, cause));
            }
            self.refresh_next_hops(now);
        }
    }

    fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter()
    }

    /// Accepts one batch of received datagrams and takes ownership of its buffer.
    pub fn handle_datagrams(&mut self, now: Instant, received: Received) {
        let stride = if received.stride == 0 { received.len } else { received.stride };
        let rejected = self.wire.rejected_datagrams;
        self.forget_last_batch();
        self.wire.intake.on_batch(now, received.link, received.at);
        self.make_room(now, received.buf);
        let mut start = 0;
        while start < received.len {
            let end = (start + stride).min(received.len);
            self.handle_datagram(now, &received, start, end);
            start = end;
        }
        if planted::is(Fault::RejectedKeepsBuffer) && self.wire.rejected_datagrams > rejected {
            return;
        }
        self.pool.release(received.buf);
    }

    fn handle_datagram(&mut self, now: Instant, received: &Received, start: usize, end: usize) {
        if self.is_cut(received.link, &received.source) {
            return;
        }
        let Some(bytes) = self.pool.bytes_mut(received.buf).get_mut(start..end) else { return };
        if self.wire.intake.is_behind()
            && let Some(peer) = self.sessions.claimed_by(bytes)
            && self.wire.intake.has_had_its_share(peer)
        {
            return self.peers.count_unserved(peer);
        }
        match PacketType::of(bytes) {
            Ok(packet_type) if packet_type.is_sealed() => match self.sessions.open(bytes) {
                Ok(opened) => self.on_opened(now, received, start, end, opened),
                Err(_) => self.wire.rejected_datagrams += 1,
            },
            Ok(PacketType::Relayed) => self.on_relayed(now, received, start, end),
            Ok(_) => {
                let mut copy = [0u8; HANDSHAKE_MAX];
                let len = bytes.len();
                match copy.get_mut(..len) {
                    Some(copy) => copy.copy_from_slice(bytes),
                    None => return self.wire.rejected_datagrams += 1,
                }
                self.on_handshake(now, received, &copy[..len]);
            }
            Err(_) => self.wire.rejected_datagrams += 1,
        }
    }

    fn on_opened(
        &mut self,
        now: Instant,
        received: &Received,
        start: usize,
        end: usize,
        opened: weft_session::OpenedPacket,
    ) {
        if !self.on_authentic(now, opened.peer, opened.first_with_this_key, opened.fresh) {
            return;
        }
        let index = usize::from(opened.peer.0);
        self.wire.intake.charge(opened.peer, opened.packet_type, opened.plaintext.len());
        let outer = outer_header_len(&received.source);
        let plaintext = start + opened.plaintext.start..start + opened.plaintext.end;
        let datagram = Datagram { opened, plaintext, wire_bytes: (end - start + outer) as u32 };
        let link = self.links.get(received.link).or_else(|| self.relaying.routes.link(received.link));
        let mut cx = Context {
            now,
            pool: &mut self.pool,
            sessions: &mut self.sessions,
            vpns: &mut self.vpns,
            events: &mut self.events.queue,
            signal: &mut self.signal,
            flows: &mut self.hosts.flows,
            trust: &mut self.trust,
            access: &mut self.hosts.access,
            links: &self.links,
            bulletin: &self.relaying.bulletin,
        };
        if let Some(peer) = self.peers.get_mut(index) {
            peer.on_datagram(&mut cx, received, &datagram, link);
            let is_established = peer.is_established();
            self.relaying.has_news |= peer.control.reach.take_change();
            if peer.has_overlay_messages() {
                self.take_overlay_messages(now, index);
            }
            if !is_established {
                self.on_session_closed(now, index);
                self.refresh_next_hops(now);
            }
        }
        if self.trust.revocations.are_new() {
            self.act_on_revocations(now);
        }
    }

    /// Records an authentic datagram from a peer, and begins the session if this datagram confirms a handshake.
    ///
    /// `is_first` is true for the first datagram under its key, and `fresh` if the peer's program has restarted or is
    /// new to this node. Returns false if there is no session, because the peer closed it after it sent the datagram.
    fn on_authentic(&mut self, now: Instant, peer: PeerId, is_first: bool, fresh: bool) -> bool {
        let index = usize::from(peer.0);
        let Some(of) = self.peers.get_mut(index) else { return false };
        let was_established = of.is_established();
        if fresh || (is_first && !was_established) {
            self.begin_session(now, peer, fresh);
            self.watch_shared_keys(now, peer);
            return true;
        }
        if was_established {
            of.session.heard_at = Some(now);
        }
        was_established
    }

    /// Runs all timers that are due. Call it whenever [`Engine::next_timeout`] has passed. Extra calls are harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        for action in self.sessions.handle_timeout(now) {
            match action {
                TimeoutAction::Initiate { peer } => self.initiate(now, peer),
                TimeoutAction::Expired { peer } => {
                    self.with_peer(now, usize::from(peer.0), |p, cx| p.on_lost(cx, "no answer for too long"));
                }
            }
        }
        self.attend_peers(now);
        self.drive_drill(now);
        self.look_after_certified(now);
        self.refresh_overlay(now);
        self.refresh_relaying(now);
        // The calls above may change peers. Some timed work of a peer depends on the state of its paths and has no
        // stored deadline, so the changed peers are examined again.
        self.attend_peers(now);
        self.refresh_next_hops(now);
        self.tell_loads(now);
        self.signal.handle_timeout(now, &mut self.events.queue);
        self.hosts.flows.handle_timeout(now);
        self.refresh_inner_mtu(now);
        self.refresh_reordering(now);
    }

    /// Runs the timers of the peers that changed or whose deadline has passed, and stores their next deadlines.
    fn attend_peers(&mut self, now: Instant) {
        let mut start = 0;
        while let Some(index) = self.peers.next_due(now, start) {
            self.with_peer(now, index, |p, cx| p.on_timeout(cx));
            self.peers.note_standing(index);
            start = index + 1;
        }
        self.peers.note_deadlines(now);
    }

    fn refresh_inner_mtu(&mut self, now: Instant) {
        if let Some(mtu) = self.widest_inner_mtu()
            && self.hosts.inner_mtu.follow(now, Reverse(self.allowed_inner_mtu(mtu)))
        {
            self.events.queue.push_back(Event::InnerMtu(self.inner_mtu()));
        }
    }

    /// Returns the largest packet that every path in use carries whole, in bytes. `None` if no path MTU is known.
    fn widest_inner_mtu(&self) -> Option<u16> {
        let limit = Some(self.peers.standing().inner_limit).filter(|limit| *limit != usize::MAX)?;
        Some(u16::try_from(limit).unwrap_or(u16::MAX))
    }

    fn allowed_inner_mtu(&self, mtu: u16) -> u16 {
        mtu.clamp(INNER_MTU_MIN, self.hosts.inner_mtu_limit.max(INNER_MTU_MIN))
    }

    /// Sets the upper limit of the inner MTU, in bytes. The inner MTU is smaller if the paths carry less.
    fn limit_inner_mtu(&mut self, limit: Option<u16>) {
        self.hosts.inner_mtu_limit = limit.unwrap_or(u16::MAX);
        let mtu = self.allowed_inner_mtu(self.widest_inner_mtu().unwrap_or(INNER_MTU_DEFAULT));
        if mtu != self.inner_mtu() {
            self.hosts.inner_mtu = HoldDown::new(Reverse(mtu));
            self.events.queue.push_back(Event::InnerMtu(mtu));
        }
    }

    /// Updates the TCP reordering metric of the routes to the peers' prefixes (paper 000, eq. 1).
    ///
    /// Hosts should tolerate more duplicate ACKs where units are spread over paths and not resequenced.
    fn refresh_reordering(&mut self, now: Instant) {
        if self.hosts.reordering.follow(now, self.peers.standing().reordering) {
            self.events.queue.push_back(Event::ReorderingMetric(self.hosts.reordering.value()));
        }
    }

    /// Executes a command of the user.
    ///
    /// # Errors
    /// Fails if a name is unknown, no weight would remain, a share is invalid, a drill cannot start, or the peer has
    /// no session.
    pub fn handle_command(&mut self, now: Instant, command: Command) -> Result<(), CommandError> {
        match command {
            Command::SetWeights(weights) => self.set_weights(weights),
            Command::SetVpn { vpn, change } => self.set_vpn(now, &vpn, change),
            Command::Ping { peer, id } => self.ping(now, &peer, id),
            Command::Drill { of, time, force } => self.start_drill(now, of, time, force),
            Command::Close => {
                self.leave_overlay(now);
                for peer in self.peers.iter_mut() {
                    peer.close();
                }
                Ok(())
            }
        }
    }

    fn ping(&mut self, now: Instant, name: &str, id: u32) -> Result<(), CommandError> {
        let index = usize::from(self.present_peer(name)?.0);
        let peer = &mut self.peers[index];
        if !peer.is_established() {
            return Err(CommandError::NotEstablished);
        }
        peer.ping(now, id);
        Ok(())
    }

    /// Removes and returns the oldest event.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.queue.pop_front();
        self.events.taken += u64::from(event.is_some());
        event
    }

    /// Returns the number of events so far, including those not yet polled.
    fn event_count(&self) -> u64 {
        self.events.taken + self.events.queue.len() as u64
    }

    /// Returns the time at which the next call of [`Engine::handle_timeout`] is due, or `None` if none is.
    pub fn next_timeout(&self, now: Instant) -> Option<Instant> {
        if !self.handshakes.waiting.is_empty() {
            return Some(now);
        }
        let others = [
            self.relaying.departures.ready_at().map(|at| at.max(now)),
            self.sessions.next_timeout(),
            self.signal.next_timeout(),
            self.relaying_timeout(now),
            self.trust.next_timeout(),
            self.drill_deadline(),
            self.overlay.next_timeout(),
            self.hosts.flows.next_timeout(now),
            self.vpns.transit.as_ref().and_then(|transit| transit.loads.next_timeout()),
            self.vpns.next_hops.as_ref().and_then(|hops| hops.next_timeout()),
        ];
        self.peers.next_timeout(now).into_iter().chain(others.into_iter().flatten()).min()
    }

    /// Makes [`Engine::handle_timeout`] examine every peer next time, whatever their deadlines. Tests use it.
    pub fn forget_deadlines(&mut self) {
        self.peers.mark_all();
    }

    /// Handles a send that the kernel refused. If the datagrams were too big, the path MTU is lowered.
    pub fn handle_send_error(&mut self, now: Instant, transmit: &Transmit, too_big: bool) {
        if !too_big {
            return;
        }
        let size = transmit.segment_size.map_or(transmit.len, usize::from);
        let (link, remote) = (transmit.link, transmit.destination);
        let leads_there = |peer: &Peer| peer.paths.iter().any(|path| path.link == link && path.remote == remote);
        for index in 0..self.peers.len() {
            if self.peers.get(index).is_some_and(leads_there) {
                self.peers[index].on_too_big(now, link, remote, size);
            }
        }
    }
}

/// Returns the session layer's configuration of a peer.
fn session_peer(config: &PeerConfig) -> SessionPeer {
    SessionPeer { public_key: config.public_key, preshared_key: config.preshared_key.clone() }
}
