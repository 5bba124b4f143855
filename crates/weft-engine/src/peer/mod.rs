//! One peer: its flows, queue and paths, its units in flight, and the units received from it.
//!
//! Outgoing packets pass `ingress`, `commit` and `transmit`. Arriving datagrams pass `receive`, which hands frames to
//! `report` and other modules. The state lies in components that do not depend on [`Peer`] ([`outbound`], [`inbound`],
//! [`control`], [`addresses`]). The node lends its shared state with each function call ([`Context`]). A peer never
//! accesses another peer.

mod acks;
pub mod addresses;
mod commit;
pub mod control;
mod control_datagrams;
mod delivery;
mod explain;
mod fates;
mod grants;
pub mod inbound;
mod ingress;
mod links;
mod loops;
mod opening_paths;
mod outage;
pub mod outbound;
mod overlay;
mod ports;
mod probes;
mod receive;
mod recovery;
mod report;
mod sense;
mod signalling;
mod snapshot;
mod spares;
mod transmit;
mod upkeep;
mod view;

pub use control::probes::Probes;
pub use ports::PortSide;
pub use receive::Datagram;
pub use snapshot::FLOWS_SHOWN;

use crate::access::HostAccess;
use crate::api::{Event, PeerConfig, PeerQueue, PortSettings, Schedule, WrrOrder};
use crate::flows::Flowing;
use crate::links::Links;
use crate::path::Path;
use crate::relay::{Bulletin, ReachableNodes};
use crate::signal::{Offer, Signalling};
use crate::trust::Trust;
use crate::units::Segment;
use crate::vpn::{Admitted, Vpns};
use addresses::Addresses;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use control::revocation_sync::RevocationSync;
use control::{Exchange, SessionTimes};
use core::net::SocketAddr;
use inbound::Inbound;
use inbound::egress::Output;
use outbound::ingress_queue::IngressQueue;
use outbound::loops::Loops;
use outbound::{Dispatch, IngressEnd, Retransmission};
use weft_core::fair::controller::WindowController;
use weft_core::ingress::VpnStatus;
use weft_core::pool::Pool;
use weft_core::queue;
use weft_core::sched::weighted_round_robin::RoundOrder;
use weft_core::sched::{Scheduler, SchedulerKind};
use weft_core::service::Share;
use weft_session::Sessions;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant, NodeId, PathId, PeerId, Rng, VpnId};

/// Time without a datagram of the peer after which this node starts another handshake with an unreachable peer.
///
/// It starts none while a handshake is in progress.
const CALL_AFTER: Duration = weft_session::RETRY_INTERVAL;
/// Time without a datagram of a peer in session after which this node starts a handshake, if no packet depends on it.
///
/// *Tuned*: an overloaded node with 4,096 peers answers within 3 s. Initiations from all peers would keep it
/// overloaded.
const IDLE_CALL_AFTER: Duration = Duration::from_secs(4);

/// State of the whole node that a peer borrows during one function call.
pub struct Context<'a> {
    pub now: Instant,
    pub pool: &'a mut Pool,
    pub sessions: &'a mut Sessions,
    pub vpns: &'a mut Vpns,
    pub events: &'a mut VecDeque<Event>,
    pub signal: &'a mut Signalling,
    pub flows: &'a mut Flowing,
    pub trust: &'a mut Trust,
    pub access: &'a mut HostAccess,
    pub links: &'a Links,
    pub bulletin: &'a Bulletin,
}

/// Returns a callback that counts a segment that was dropped from the flow queue, and releases its buffer.
fn dropping<'a>(cx: &'a mut Context<'_>, drops: &'a mut u64) -> impl FnMut(Segment) + 'a {
    let (pool, vpns, flows) = (&mut *cx.pool, &mut *cx.vpns, &mut *cx.flows);
    move |dropped| {
        *drops += 1;
        flows.count_drop(dropped.state);
        vpns.count_drop(dropped.vpn);
        if !planted::is(Fault::DroppedKeepsBuffer) {
            pool.release(dropped.buf);
        }
    }
}

/// Counters of the packets, units and datagrams to and from one peer, for `weft status`.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeerCounters {
    pub received_packets: u64,
    pub received_bytes: u64,
    pub sent_units: u64,
    pub sent_bytes: u64,
    pub repeated_units: u64,
    pub abandoned_units: u64,
    pub queue_drops: u64,
    pub replaced_acks: u64,
    pub duplicate_units: u64,
    /// Number of datagrams that the peer sent on more paths than it may open. They were dropped.
    pub refused_datagrams: u64,
    /// Number of datagrams from the peer that were dropped without decryption.
    ///
    /// They are dropped if the node is overloaded and the peer has used its share of the processing time.
    pub unserved_datagrams: u64,
}

/// A peer of this node: configuration, paths, queues, and units in flight and received.
pub struct Peer {
    pub id: PeerId,
    pub config: PeerConfig,
    /// The peer's node id, which also identifies it in the overlay.
    pub node: NodeId,
    pub paths: Vec<Path>,
    pub addresses: Addresses,
    pub session: SessionTimes,
    pub ingress: IngressEnd,
    dispatch: Dispatch,
    recovery: Retransmission,
    loops: Loops,
    pub inbound: Inbound,
    pub output: Output,
    pub control: Exchange,
    /// Rates granted on the paths to flows with in-band signals. `None` if signalling is not configured.
    offer: Option<Box<Offer>>,
    pub totals: PeerCounters,
}

impl Peer {
    /// Returns the state of a peer without a session.
    ///
    /// `peers` is the number of this node's peers. With many peers, each is probed less often until its first packet.
    pub fn new(now: Instant, id: PeerId, config: PeerConfig, rng: &Rng, first_path: u16, peers: usize) -> Peer {
        let mut rng = rng.split(u64::from(id.0));
        let seed = rng.next_u64();
        let dispatch = Dispatch::new(scheduler(&config, rng.split(1)));
        let loops = Loops::new(rng.split(2).next_u64());
        let ingress = IngressEnd::new(queue_kind(config.policy.queue), seed, rng.split(3));
        Peer {
            id,
            node: config.public_key.node_id(),
            inbound: Inbound::new(config.policy.reorder),
            config,
            paths: Vec::new(),
            addresses: Addresses::new(first_path),
            session: SessionTimes::new(now, peers),
            ingress,
            dispatch,
            recovery: Retransmission::default(),
            loops,
            output: Output::new(rng.next_u64()),
            control: Exchange::new(rng.next_u64() as u32),
            offer: None,
            totals: PeerCounters::default(),
        }
    }

    pub fn is_established(&self) -> bool {
        self.session.established_at.is_some()
    }

    /// Returns the addresses to which paths to the peer may lead, including those that stand for relayed routes.
    pub fn endpoints(&self) -> impl Iterator<Item = &SocketAddr> {
        self.config.endpoints.iter().chain(&self.addresses.routes).chain(&self.addresses.detours)
    }

    pub fn path_index(&self, id: PathId) -> Option<usize> {
        self.paths.iter().position(|p| p.id == id)
    }

    /// Handles a session that was established.
    ///
    /// If the peer restarted (`fresh`), discards the state of earlier datagrams.
    pub fn on_established(&mut self, cx: &mut Context<'_>, fresh: bool) {
        self.session.heard_at = Some(cx.now);
        self.session.established_at.get_or_insert(cx.now);
        if !planted::is(Fault::VpnNotAskedAgain) {
            self.ingress.openings.on_new_session(cx.now);
        }
        self.control.revocation_sync = RevocationSync::default();
        self.session.takes_reports_with_data = cx.sessions.takes_reports_with_data(self.id);
        if let Some(transit) = &mut cx.vpns.transit {
            transit.loads.restart(self.id);
        }
        if fresh {
            cx.vpns.heard.remove_peer(self.id);
            self.take_back(cx, true);
            self.restart(cx);
            self.restart_loops();
        }
        cx.events.push_back(Event::Established { peer: self.id, fresh });
        for path in &mut self.paths {
            path.health.on_link_up(cx.now);
            path.pending.hold = true;
        }
    }

    /// Handles the end of the session: discards the state that belongs to it. The flow queue stays.
    pub fn on_lost(&mut self, cx: &mut Context<'_>, cause: &'static str) {
        if self.session.established_at.take().is_some() {
            self.session.alone_since = cx.now;
            cx.events.push_back(Event::Lost { peer: self.id, cause });
        }
        cx.vpns.heard.remove_peer(self.id);
        self.take_back(cx, false);
        self.restart(cx);
        self.call_again(cx);
    }

    /// Starts a handshake if no path to the peer is usable.
    ///
    /// If the peer has restarted, it answers only a handshake.
    pub fn call_again(&self, cx: &mut Context<'_>) {
        if self.usable_paths().next().is_none() {
            self.call(cx);
        }
    }

    fn call(&self, cx: &mut Context<'_>) {
        if self.endpoints().next().is_some() && !planted::is(Fault::NobodyCallsAgain) {
            let _ = cx.sessions.force_initiate(cx.now, self.id);
        }
    }

    /// True if a new handshake with the peer can wait.
    ///
    /// The session works, no packet depends on it, and a datagram of the peer arrived within [`IDLE_CALL_AFTER`].
    fn can_wait(&self, now: Instant) -> bool {
        let was_heard = self.session.heard_at.is_some_and(|at| now - at < IDLE_CALL_AFTER);
        was_heard && self.is_established() && !self.is_needed(now)
    }

    /// Starts another handshake with a peer that has been silent on all paths.
    ///
    /// The peer may have restarted without this session, or may have ended it before it could answer a handshake.
    pub fn keep_calling(&self, cx: &mut Context<'_>) {
        if !self.can_wait(cx.now) {
            self.call_if_silent(cx, CALL_AFTER);
        }
    }

    /// Starts a handshake unless one is in progress, a path answers, or a datagram of the peer arrived within `time`.
    fn call_if_silent(&self, cx: &mut Context<'_>, time: Duration) {
        let is_silent = self.session.heard_at.is_none_or(|at| cx.now - at >= time);
        if is_silent && !self.usable_paths().any(|path| path.health.answers()) && !cx.sessions.is_calling(self.id) {
            self.call(cx);
        }
    }

    fn restart(&mut self, cx: &mut Context<'_>) {
        self.control.reach = ReachableNodes::default();
        self.control.bulletin_position = 0;
        self.paths.retain(|p| p.ours);
        for path in &mut self.paths {
            path.restart(cx.now);
        }
        self.recovery.skips.clear();
        self.recovery.hold_announced = Duration::ZERO;
        if !planted::is(Fault::FreshPeerNotReset) {
            self.inbound.drop_held(cx.pool);
        }
        self.inbound.joins.clear(cx.pool);
        self.output.forget_heads();
        self.inbound.known_headers.clear();
    }

    /// Clears the state of a peer that was removed. Nothing is sent to it or accepted from it afterwards.
    pub fn retire(&mut self, cx: &mut Context<'_>, cause: &'static str) {
        self.on_lost(cx, cause);
        self.config.prefixes.clear();
        self.config.endpoints.clear();
        self.addresses.clear();
        self.paths.clear();
        self.ingress.held_acks.clear().for_each(|(_, packet, _)| cx.pool.release(packet.buf));
        self.ingress.openings.clear(|segment| cx.pool.release(segment.buf));
        self.ingress.queue.empty(cx.now, &mut |_, segment| {
            if !planted::is(Fault::LeaverKeepsQueue) {
                cx.pool.release(segment.buf);
            }
        });
        self.ingress.queue = IngressQueue::new(queue_kind(self.config.policy.queue));
    }

    /// Sets the VPNs of which the peer is a member. `share` is the default VPN's share among them.
    pub fn set_vpns(
        &mut self,
        cx: &mut Context<'_>,
        share: Share,
        vpns: &[Admitted],
        controller: Option<WindowController>,
    ) {
        let kind = queue_kind(self.config.policy.queue);
        let (now, drops) = (cx.now, &mut self.totals.queue_drops);
        let begun = self.ingress.queue.configure(now, (kind, share), vpns, &self.ingress.rng, &mut dropping(cx, drops));
        if begun {
            self.loops.next_run();
        }
        self.ingress.queue.share_events(cx.vpns.shares_events());
        self.loops.set_controller(controller);
        self.loops.retain(|vpn| cx.vpns.has_member(vpn, self.id));
        if vpns.is_empty() {
            self.forget_loop_frames();
        }
        // With zero here, the next update sets CoDel's target and interval from the paths' delays again.
        self.ingress.queue_target = Duration::ZERO;
    }

    /// Installs a port with flow state in front of the paths, or removes it if `settings` is `None`.
    pub fn set_port(&mut self, cx: &mut Context<'_>, settings: Option<PortSettings>) {
        let (now, drops) = (cx.now, &mut self.totals.queue_drops);
        match (settings, &mut self.ingress.port) {
            (Some(settings), Some(port)) => return port.settings = settings,
            (Some(settings), None) => self.ingress.port = Some(PortSide::new(settings)),
            (None, None) => return,
            (None, Some(_)) => self.ingress.port = None,
        }
        let kind = queue_kind(self.config.policy.queue);
        let is_kept = self.ingress.port.is_some();
        self.ingress.queue.keep_flows(now, kind, is_kept, &mut dropping(cx, drops));
        self.ingress.queue_target = Duration::ZERO;
        self.follow_promises(cx);
    }

    /// Returns the state of a VPN's queue and loop toward the peer.
    pub fn entry_status(&self, vpn: VpnId) -> Option<VpnStatus> {
        self.ingress.queue.status(vpn)
    }

    /// Returns the bytes in the flow queue, which wait for a path.
    pub fn backlog_bytes(&self) -> u64 {
        self.ingress.queue.backlog_bytes()
    }

    /// Gives a VPN another share, and its window-based loop the parameters that match the share.
    ///
    /// `nominal_weight` is the weight of the VPN to which the configured `a` and `b` apply.
    pub fn set_share(&mut self, now: Instant, vpn: VpnId, share: Share, nominal_weight: f64) {
        let window = self.loops.parameters(share.weight(), nominal_weight);
        self.ingress.queue.set_share(now, vpn, share, window);
    }

    /// Applies a changed configuration of the peer. Flows, paths and units in flight continue.
    pub fn set_config(&mut self, cx: &mut Context<'_>, config: PeerConfig, rng: &Rng) {
        if config.policy.reorder != self.config.policy.reorder {
            self.inbound.set_reorder(config.policy.reorder, cx.pool);
        }
        if config.policy != self.config.policy {
            self.release_all_acks(cx);
            self.dispatch.scheduler = scheduler(&config, rng.split(u64::from(self.id.0)).split(1));
            for path in &mut self.paths {
                path.pending.policy = true;
            }
        }
        self.config = config;
        self.bar_unwanted(cx, None);
        self.refresh_weights();
    }

    pub fn log_path(&self, events: &mut VecDeque<Event>, index: usize, cause: &'static str) {
        if let Some(path) = self.paths.get(index) {
            events.push_back(Event::Path {
                peer: self.id,
                path: path.id,
                link: path.link,
                remote: path.remote,
                state: path.state(),
                cause,
            });
        }
    }

    /// Returns the paths that carry data now.
    pub fn usable_paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().filter(|p| p.is_usable())
    }
}

fn scheduler(config: &PeerConfig, rng: Rng) -> Scheduler {
    let kind = match config.policy.schedule {
        Schedule::EarliestDelivery => SchedulerKind::EarliestDelivery,
        Schedule::RoundRobin => SchedulerKind::RoundRobin,
        Schedule::Random => SchedulerKind::Random,
        Schedule::WeightedRoundRobin => SchedulerKind::WeightedRoundRobin(match config.policy.wrr_order {
            WrrOrder::Smooth => RoundOrder::Smooth,
            WrrOrder::Block => RoundOrder::Block,
        }),
        Schedule::FlowHash => SchedulerKind::FlowHash,
        Schedule::Redundant => SchedulerKind::Redundant,
    };
    Scheduler::new(kind, rng)
}

fn queue_kind(kind: PeerQueue) -> queue::QueueKind {
    match kind {
        PeerQueue::FqCodel => queue::QueueKind::FqCodel,
        PeerQueue::DropTail => queue::QueueKind::DropTail,
    }
}
