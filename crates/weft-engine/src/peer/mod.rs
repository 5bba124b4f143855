//! All that belongs to one peer: its flows and their queue, its paths, what is in flight, what came from it.

mod acks;
mod arrive;
mod commit;
mod control;
mod explain;
mod grants;
mod ingress;
mod loops;
mod opening_paths;
mod outage;
mod overlay;
mod probes;
mod recovery;
mod report;
mod sense;
mod settle;
mod signalling;
mod standby;
mod tidings;
mod transmit;
mod upkeep;
mod view;
mod watch;
mod way_in;

pub(crate) use arrive::Datagram;
pub(crate) use loops::LoneMarker;
pub use opening_paths::AddressPairs;
pub(crate) use probes::Probes;
pub(crate) use way_in::Admitted;

use crate::config::{PeerConfig, QueueKind, Reorder, Schedule, WrrOrder};
use crate::egress::{Arrived, Output};
use crate::event::Event;
use crate::headers::{KnownHeaders, SentHeaders};
use crate::join::Joins;
use crate::links::Links;
use crate::path::Path;
use crate::relay::{Bulletin, Reach};
use crate::signal::{Offer, Signalling};
use crate::trust::Trust;
use crate::unit::{Segment, UnitId, Units};
use crate::vpn::{Openings, VpnFlow, Vpns};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use grants::Grants;
use loops::Loops;
use opening_paths::Attempts;
use outage::Outage;
use overlay::OverlayMail;
use tidings::Tidings;
use watch::Watch;
use way_in::WayIn;
use weft_core::fair::controller::Controller;
use weft_core::flow::ack_condition::AckConditioner;
use weft_core::flow::table::FlowTable;
use weft_core::ingress::VpnStatus;
use weft_core::pool::Pool;
use weft_core::queue;
use weft_core::reorder::dedup::Dedup;
use weft_core::reorder::resequencer::{Resequencer, ResequencerLimits};
use weft_core::sched::earliest_delivery::{EarliestDelivery, EarliestDeliveryConfig};
use weft_core::sched::weighted_round_robin::Order;
use weft_core::sched::{PathView, Scheduler, SchedulerKind};
use weft_core::service::Share;
use weft_session::Sessions;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, FlowId, FlowSeq, Instant, NodeId, PathId, PeerId, Rng, VpnId};

const MAX_FLOWS: usize = 16_384;
/// How long a hole is waited for until the peer says.
const HOLD_INITIAL: Duration = Duration::from_millis(50);
/// A peer that cannot be reached, has said nothing for so long and is not being called is called again.
const CALL_AFTER: Duration = weft_session::RETRY_INTERVAL;

/// What a peer borrows from the node while it works.
pub(crate) struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) pool: &'a mut Pool,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) vpns: &'a mut Vpns,
    pub(crate) events: &'a mut VecDeque<Event>,
    pub(crate) signal: &'a mut Signalling,
    pub(crate) trust: &'a mut Trust,
    pub(crate) links: &'a Links,
    pub(crate) bulletin: &'a Bulletin,
}

/// Counts what is dropped before it was scheduled, and gives its buffer back.
fn dropping<'a>(cx: &'a mut Context<'_>, drops: &'a mut u64) -> impl FnMut(Segment) + 'a {
    let (pool, vpns) = (&mut *cx.pool, &mut *cx.vpns);
    move |dropped| {
        *drops += 1;
        vpns.count_drop(dropped.vpn);
        if !planted::is(Fault::DroppedKeepsBuffer) {
            pool.release(dropped.buf);
        }
    }
}

/// How arriving units are put in order.
enum Arrivals {
    Resequence(Resequencer<Arrived>),
    AsTheyCome(Dedup),
}

/// What a flow's last unit was cut from, so that the next slice can lean on its header.
#[derive(Clone, Copy, Debug, Default)]
struct LastSlice {
    super_packet: u32,
    next_number: u16,
    next_index: u8,
}

/// Counters for `weft status`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) received_packets: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_units: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) repeated_units: u64,
    pub(crate) abandoned_units: u64,
    pub(crate) queue_drops: u64,
    pub(crate) replaced_acks: u64,
    pub(crate) duplicate_units: u64,
    /// Datagrams of the peer on more paths than it may open.
    pub(crate) refused_datagrams: u64,
    /// Datagrams of the peer that were dropped unopened. The node was behind, and the peer had used its share of the work.
    pub(crate) unserved_datagrams: u64,
}

/// A peer.
pub(crate) struct Peer {
    pub(crate) id: PeerId,
    pub(crate) config: PeerConfig,
    /// Its place in the overlay.
    pub(crate) node: NodeId,
    /// Its addresses behind relays.
    pub(crate) routes: Vec<SocketAddr>,
    /// Those that stand by.
    pub(crate) detours: Vec<SocketAddr>,
    /// Where it passes datagrams on to, as it says.
    pub(crate) reach: Reach,
    /// How far it was told what this relay says of others.
    told_to: u64,
    /// It wants to be told nothing of them, as it says.
    declines_neighbours: bool,
    /// Whether it should tell whom it reaches: there is another peer to which a way over it may be of use.
    wants_neighbours: bool,
    /// The same as the peer was last told.
    told_wants_neighbours: bool,
    pub(crate) paths: Vec<Path>,
    /// Addresses from which its last initiation came. The handshake succeeds only if the peer gets an answer there.
    handshake_from: Vec<SocketAddr>,
    /// Addresses that links tried in vain.
    attempts: Attempts,
    pub(crate) flows: FlowTable<VpnFlow>,
    way_in: WayIn,
    outage: Option<Outage>,
    loops: Loops,
    /// While there are loops that go by grants.
    grants: Option<Box<Grants>>,
    /// Draws for the queues of VPNs.
    rng: Rng,
    pub(super) openings: Openings,
    last_slices: Vec<LastSlice>,
    /// Bytes of each flow that wait on paths.
    committed: Vec<u32>,
    pub(crate) scheduler: Scheduler,
    rescue: EarliestDelivery,
    views: Vec<PathView>,
    pub(crate) units: Units,
    lost: Vec<UnitId>,
    /// VPNs of lost data that is not repeated, once for each datagram, until their loops are told.
    lost_data: Vec<VpnId>,
    skips: VecDeque<(FlowId, FlowSeq)>,
    joins: Joins,
    arrivals: Arrivals,
    pub(crate) output: Output,
    sent_headers: SentHeaders,
    known_headers: KnownHeaders,
    conditioners: Vec<AckConditioner>,
    pub(crate) established_at: Option<Instant>,
    pub(crate) heard_at: Option<Instant>,
    /// Since when there is no session, while there is none.
    pub(crate) alone_since: Instant,
    busy_at: Instant,
    watch: Watch,
    next_path: u16,
    next_token: u32,
    round: usize,
    queue_target: Duration,
    /// Our wish for the other direction has a counterpart: the peer's for ours.
    peer_wants_bundle: bool,
    hold_announced: Duration,
    pub(crate) hold_asked: Duration,
    pub(crate) totals: Totals,
    /// What the paths grant to signalled flows, where signalling is wanted.
    offer: Option<Box<Offer>>,
    tidings: Tidings,
    /// Of the drill under way, or the last one.
    pub(crate) probes: Option<Probes>,
    overlay: OverlayMail,
}

impl Peer {
    pub(crate) fn new(now: Instant, id: PeerId, config: PeerConfig, rng: &Rng, first_path: u16) -> Peer {
        let mut rng = rng.split(u64::from(id.0));
        let seed = rng.next_u64();
        Peer {
            id,
            scheduler: scheduler(&config, rng.split(1)),
            way_in: WayIn::new(queue_kind(config.policy.queue)),
            outage: None,
            loops: Loops::new(rng.split(2).next_u64()),
            grants: None,
            rng: rng.split(3),
            openings: Openings::default(),
            joins: Joins::default(),
            arrivals: arrivals(config.policy.reorder),
            node: config.public_key.node_id(),
            config,
            routes: Vec::new(),
            detours: Vec::new(),
            reach: Reach::default(),
            told_to: 0,
            declines_neighbours: false,
            wants_neighbours: true,
            told_wants_neighbours: true,
            paths: Vec::new(),
            handshake_from: Vec::new(),
            attempts: Attempts::default(),
            flows: FlowTable::new(seed, MAX_FLOWS),
            last_slices: Vec::new(),
            committed: Vec::new(),
            rescue: EarliestDelivery::new(EarliestDeliveryConfig::default()),
            views: Vec::new(),
            units: Units::default(),
            lost: Vec::new(),
            lost_data: Vec::new(),
            skips: VecDeque::new(),
            output: Output::new(rng.next_u64()),
            sent_headers: SentHeaders::default(),
            known_headers: KnownHeaders::default(),
            conditioners: Vec::new(),
            established_at: None,
            heard_at: None,
            alone_since: now,
            busy_at: now,
            watch: Watch::new(now),
            next_path: first_path,
            next_token: rng.next_u64() as u32,
            round: 0,
            queue_target: Duration::ZERO,
            peer_wants_bundle: true,
            hold_announced: Duration::ZERO,
            hold_asked: HOLD_INITIAL,
            totals: Totals::default(),
            offer: None,
            tidings: Tidings::default(),
            probes: None,
            overlay: OverlayMail::default(),
        }
    }

    pub(crate) fn is_established(&self) -> bool {
        self.established_at.is_some()
    }

    /// Where it can be reached, directly and behind relays.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &SocketAddr> {
        self.config.endpoints.iter().chain(&self.routes).chain(&self.detours)
    }

    pub(crate) fn path_index(&self, id: PathId) -> Option<usize> {
        self.paths.iter().position(|p| p.id == id)
    }

    /// The session stands. After a restart of the peer nothing sent or received before counts.
    pub(crate) fn on_established(&mut self, cx: &mut Context<'_>, fresh: bool) {
        self.heard_at = Some(cx.now);
        self.established_at.get_or_insert(cx.now);
        if !planted::is(Fault::VpnNotAskedAgain) {
            self.openings.on_new_session(cx.now);
        }
        self.tidings = Tidings::default();
        if fresh {
            self.restart(cx);
            self.restart_loops();
        }
        cx.events.push_back(Event::Established { peer: self.id, fresh });
        for path in &mut self.paths {
            path.health.on_link_up(cx.now);
            path.pending.hold = true;
        }
    }

    /// The session is over: forget what was learnt under it, keep the flows' queue.
    pub(crate) fn on_lost(&mut self, cx: &mut Context<'_>, cause: &'static str) {
        if self.established_at.take().is_some() {
            self.alone_since = cx.now;
            cx.events.push_back(Event::Lost { peer: self.id, cause });
        }
        self.restart(cx);
        self.call_again(cx);
    }

    /// Nothing reaches the peer: it may have started anew, and then only a handshake will.
    pub(crate) fn call_again(&self, cx: &mut Context<'_>) {
        if self.usable_paths().next().is_none() {
            self.call(cx);
        }
    }

    fn call(&self, cx: &mut Context<'_>) {
        if self.endpoints().next().is_some() && !planted::is(Fault::NobodyCallsAgain) {
            let _ = cx.sessions.force_initiate(cx.now, self.id);
        }
    }

    /// Not heard for a while, by any path: it may have begun anew without this session, or ended before it could answer a call.
    pub(crate) fn keep_calling(&self, cx: &mut Context<'_>) {
        let is_silent = self.heard_at.is_none_or(|at| cx.now - at >= CALL_AFTER);
        if is_silent && !self.usable_paths().any(|path| path.health.answers()) && !cx.sessions.is_calling(self.id) {
            self.call(cx);
        }
    }

    fn restart(&mut self, cx: &mut Context<'_>) {
        for index in 0..self.paths.len() {
            self.forget_in_flight(cx.pool, index);
        }
        self.reach = Reach::default();
        self.told_to = cx.bulletin.end();
        (self.declines_neighbours, self.told_wants_neighbours) = (false, true);
        self.paths.retain(|p| p.ours);
        for path in &mut self.paths {
            path.restart(cx.now);
        }
        self.lost.drain(..).for_each(|id| self.units.release(id, cx.pool));
        self.skips.clear();
        self.hold_announced = Duration::ZERO;
        if !planted::is(Fault::FreshPeerNotReset) {
            self.drop_held(cx.pool);
        }
        self.joins.clear(cx.pool);
        self.output.forget_heads();
        self.known_headers.clear();
    }

    /// Forgets what arrived and what still waits for order.
    fn drop_held(&mut self, pool: &mut Pool) {
        match &mut self.arrivals {
            Arrivals::Resequence(r) => r.reset(&mut |item: Arrived| pool.release(item.buf)),
            Arrivals::AsTheyCome(d) => d.reset(),
        }
    }

    /// Gives up everything queued on or sent over a path without repeating it.
    fn forget_in_flight(&mut self, pool: &mut Pool, index: usize) {
        while let Some(unit) = self.paths.get_mut(index).and_then(|path| path.queues.take()) {
            self.uncommit(unit);
            self.units.release(unit, pool);
        }
        let Some(path) = self.paths.get_mut(index) else { return };
        let units = &mut self.units;
        path.book.drain(|sent, _, _| {
            if let Some(unit) = sent.unit().filter(|_| !planted::is(Fault::EndedSessionKeepsUnits)) {
                units.release(unit, pool);
            }
        });
    }

    /// It is no peer any more: nothing is sent to it or taken from it.
    pub(crate) fn retire(&mut self, cx: &mut Context<'_>, cause: &'static str) {
        self.on_lost(cx, cause);
        self.config.prefixes.clear();
        self.config.endpoints.clear();
        self.routes.clear();
        self.detours.clear();
        self.paths.clear();
        self.attempts = Attempts::default();
        self.openings.clear(|segment| cx.pool.release(segment.buf));
        self.way_in.empty(cx.now, &mut |_, segment| {
            if !planted::is(Fault::LeaverKeepsQueue) {
                cx.pool.release(segment.buf);
            }
        });
        self.way_in = WayIn::new(queue_kind(self.config.policy.queue));
    }

    /// Takes the VPNs that the peer has part in; `share` is the default one's beside them.
    pub(crate) fn set_vpns(
        &mut self,
        cx: &mut Context<'_>,
        share: Share,
        vpns: &[Admitted],
        controller: Option<Controller>,
    ) {
        let kind = queue_kind(self.config.policy.queue);
        let (now, drops) = (cx.now, &mut self.totals.queue_drops);
        let begun = self.way_in.configure(now, (kind, share), vpns, &self.rng, &mut dropping(cx, drops));
        if begun {
            self.loops.next_run();
        }
        self.loops.set_controller(controller);
        self.loops.retain(|vpn| cx.vpns.has_member(vpn, self.id));
        if vpns.is_empty() {
            self.forget_loop_frames();
        }
        // CoDel's times are the paths' again at the next look.
        self.queue_target = Duration::ZERO;
    }

    /// How a VPN's queue and loop toward the peer stand.
    pub(crate) fn entry_status(&self, vpn: VpnId) -> Option<VpnStatus> {
        self.way_in.status(vpn)
    }

    /// Bytes that wait for a path.
    pub(crate) fn backlog_bytes(&self) -> u64 {
        self.way_in.backlog_bytes()
    }

    /// Gives a VPN another share, and its window the parameters that go with it.
    pub(crate) fn set_share(&mut self, now: Instant, vpn: VpnId, share: Share, nominal_weight: f64) {
        let window = self.loops.parameters(share.weight(), nominal_weight);
        self.way_in.set_share(now, vpn, share, window);
    }

    /// Applies a changed policy; flows, paths and what is in flight go on.
    pub(crate) fn set_config(&mut self, cx: &mut Context<'_>, config: PeerConfig, rng: &Rng) {
        if config.policy.reorder != self.config.policy.reorder {
            self.drop_held(cx.pool);
            self.arrivals = arrivals(config.policy.reorder);
        }
        if config.policy != self.config.policy {
            self.conditioners.clear();
            self.scheduler = scheduler(&config, rng.split(u64::from(self.id.0)).split(1));
            for path in &mut self.paths {
                path.pending.policy = true;
            }
        }
        self.config = config;
        self.bar_unwanted(cx, None);
        self.refresh_weights();
    }

    pub(crate) fn log_path(&self, events: &mut VecDeque<Event>, index: usize, cause: &'static str) {
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

    /// Paths that carry data now.
    pub(crate) fn usable_paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().filter(|p| p.is_usable())
    }
}

fn scheduler(config: &PeerConfig, rng: Rng) -> Scheduler {
    let kind = match config.policy.schedule {
        Schedule::EarliestDelivery => SchedulerKind::EarliestDelivery,
        Schedule::RoundRobin => SchedulerKind::RoundRobin,
        Schedule::Random => SchedulerKind::Random,
        Schedule::WeightedRoundRobin => SchedulerKind::WeightedRoundRobin(match config.policy.wrr_order {
            WrrOrder::Smooth => Order::Smooth,
            WrrOrder::Block => Order::Block,
        }),
        Schedule::FlowHash => SchedulerKind::FlowHash,
        Schedule::Redundant => SchedulerKind::Redundant,
    };
    Scheduler::new(kind, rng)
}

fn queue_kind(kind: QueueKind) -> queue::QueueKind {
    match kind {
        QueueKind::FqCodel => queue::QueueKind::FqCodel,
        QueueKind::DropTail => queue::QueueKind::DropTail,
    }
}

fn arrivals(reorder: Reorder) -> Arrivals {
    match reorder {
        Reorder::Resequence => Arrivals::Resequence(Resequencer::new(HOLD_INITIAL, ResequencerLimits::default())),
        Reorder::Off => Arrivals::AsTheyCome(Dedup::new()),
    }
}
