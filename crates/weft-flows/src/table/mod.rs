//! The state of each flow: found by one hash for both directions, counted, policed, and evicted at the limit of flows.
//!
//! A lookup goes from the hash to a bucket of tags, then to the hot record: two cache lines. [`FlowStates::find_batch`]
//! takes each step for a whole batch before the next, so that the processor waits for many lines at once. Everything
//! else of a flow is in its cold record.
//!
//! All memory is reserved once. The records are appended as flows begin, so the system commits their pages one by one.
//! The table therefore never rehashes and never moves a record. A packet of a known flow allocates nothing.
//!
//! A reference to a flow has a generation. After the flow's end the reference finds nothing.

mod config;
mod expiry;
mod flow_record;
mod holders;
mod index;
mod insertion;
mod key;
mod lists;
mod meter;
mod record;
mod treatments;
mod wheel;

pub use config::TableConfig;
pub use flow_record::{FlowCursor, FlowEnd, FlowRecord};
pub use insertion::{FlowStart, InsertRefused};
pub use meter::PoliceVerdict;
pub use record::{PathSeen, Tally};

use crate::alternates::{AlternateGroups, GroupId, RouteId};
use crate::treatment::{Service, Treatment};
use crate::user::UserId;
use alloc::vec::Vec;
use core::hint::black_box;
use holders::Holders;
use index::TagIndex;
use key::FlowIdentity;
use record::{ColdRecord, HotRecord, NO_GROUP, side};
use treatments::Treatments;
use weft_core::flow::hash::SeededState;
use weft_units::{Instant, Rate, VpnId};
use weft_wire::er_sig::Direction;
use weft_wire::ip::FlowKey;
use wheel::TimerWheel;

/// Number of lookups whose memory reads are started together.
///
/// Tuned: more gain nothing, because a core has 16 to 48 line fill buffers.
const BATCH: usize = 32;

/// Refers to a flow of the table. It finds nothing after the flow's end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FlowRef {
    record: u32,
    generation: u32,
}

/// A flow that a packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowMatch {
    /// The flow.
    pub flow: FlowRef,
    /// Direction of the packet: forward if the initiator sent it, the sender of the first packet that the table saw.
    pub direction: Direction,
}

/// The route that a packet takes now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Followed {
    /// The route in use.
    pub route: RouteId,
    /// True if the flow's group changed its route since this flow's last packet.
    pub moved: bool,
}

/// Counters of a table since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableCounters {
    /// Number of flows that began.
    pub began: u64,
    /// Number of flows that ended after the idle time-out.
    pub idle: u64,
    /// Number of flows that were evicted.
    pub evicted: u64,
    /// Number of new flows refused because their user begins flows too fast.
    pub refused_rate: u64,
    /// Number of new flows refused because their user held its quota of flows, all with a guarantee.
    pub refused_quota: u64,
    /// Number of new flows refused because no flow can be evicted.
    pub refused_full: u64,
}

/// The table of flows.
#[derive(Debug)]
pub struct FlowStates {
    config: TableConfig,
    state: SeededState,
    index: TagIndex,
    hot: Vec<HotRecord>,
    cold: Vec<ColdRecord>,
    wheel: TimerWheel,
    holders: Holders,
    treatments: Treatments,
    flows: u32,
    counters: TableCounters,
}

impl FlowStates {
    /// Returns an empty table. It reserves all its memory. `seed` keys the hashes.
    ///
    /// A value of `config` outside its range is replaced by the nearest one inside.
    pub fn new(config: TableConfig, seed: u64) -> FlowStates {
        let config = config.clamped();
        let records = config.records();
        FlowStates {
            config,
            state: SeededState::new(seed),
            index: TagIndex::new(records as usize),
            hot: Vec::with_capacity(records as usize),
            cold: Vec::with_capacity(records as usize),
            wheel: TimerWheel::new(records),
            holders: Holders::new(config.users, records),
            treatments: Treatments::new(config.treatments, seed.rotate_left(32)),
            flows: 0,
            counters: TableCounters::default(),
        }
    }

    /// Finds the flow of a packet and marks it as used `now`. Returns `None` if there is no such flow.
    pub fn find(&mut self, now: Instant, vpn: VpnId, key: &FlowKey) -> Option<FlowMatch> {
        let (identity, from_lower) = FlowIdentity::of(vpn, key);
        let record = self.search(&identity, identity.hash(&self.state))?;
        Some(self.touch(now, record, from_lower, key.flow_label))
    }

    /// Finds the flows of many packets, as [`FlowStates::find`] does for one.
    ///
    /// The results of the first packets go to `found`, as many as it holds.
    pub fn find_batch(&mut self, now: Instant, packets: &[(VpnId, FlowKey)], found: &mut [Option<FlowMatch>]) {
        for (packets, found) in packets.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
            self.find_chunk(now, packets, found);
        }
    }

    /// Counts packets and their IP bytes. Does nothing if the flow has ended.
    #[inline]
    pub fn count(&mut self, flow: FlowRef, direction: Direction, packets: u32, bytes: u32) {
        let Some(hot) = self.hot_mut(flow) else { return };
        let (packets_wrapped, bytes_wrapped) = hot.count(side(direction), packets, bytes);
        if packets_wrapped || bytes_wrapped {
            self.cold[flow.record as usize].carry(side(direction), packets_wrapped, bytes_wrapped);
        }
    }

    /// Judges a packet of a flow by the rate and the burst tolerance that the flow was granted.
    ///
    /// One bucket meters the flow. The caller judges one direction: the one that enters at this node. The packets
    /// of a flow that has ended pass.
    #[inline]
    pub fn police(&mut self, flow: FlowRef, now: Instant, bytes: u32) -> PoliceVerdict {
        match self.hot_mut(flow) {
            Some(hot) => hot.limit().judge(&mut hot.busy_until, now, bytes),
            None => PoliceVerdict::Pass,
        }
    }

    /// Returns the route that a packet of a flow takes now, or `None` if the flow has no group with a live route.
    #[inline]
    pub fn follow(&mut self, flow: FlowRef, direction: Direction, groups: &AlternateGroups) -> Option<Followed> {
        let side = side(direction);
        let hot = self.hot_mut(flow)?;
        let current = groups.current(GroupId(hot.groups[side]))?;
        let moved = hot.epochs[side] != current.epoch as u8;
        hot.epochs[side] = current.epoch as u8;
        Some(Followed { route: current.route, moved })
    }

    /// Puts a direction of a flow into a group of routes. Returns false if the flow has ended.
    pub fn set_group(
        &mut self,
        flow: FlowRef,
        direction: Direction,
        group: Option<GroupId>,
        groups: &AlternateGroups,
    ) -> bool {
        let Some(hot) = self.hot_mut(flow) else { return false };
        hot.groups[side(direction)] = group.map_or(NO_GROUP, |group| group.0);
        hot.epochs[side(direction)] = group.and_then(|group| groups.current(group)).map_or(0, |now| now.epoch as u8);
        true
    }

    /// Returns the seeded hash of a packet's flow, the same for both directions.
    ///
    /// [`AlternateGroups::choose`] spreads flows over routes by it.
    pub fn hash(&self, vpn: VpnId, key: &FlowKey) -> u64 {
        FlowIdentity::of(vpn, key).0.hash(&self.state)
    }

    /// Returns the treatment of a flow, or `None` if it has ended.
    pub fn treatment(&self, flow: FlowRef) -> Option<Treatment> {
        self.hot_at(flow).map(|hot| self.treatments.get(hot.treatment))
    }

    /// Changes the treatment of a flow. Returns false if the flow has ended or the set of treatments is full.
    ///
    /// A flow that loses its guarantee can be evicted from now on.
    pub fn set_treatment(&mut self, flow: FlowRef, treatment: &Treatment) -> bool {
        let Some(hot) = self.hot_at(flow) else { return false };
        let (before, was_guaranteed) = (hot.treatment, hot.is_guaranteed());
        let Some(number) = self.treatments.take(treatment) else { return false };
        self.treatments.give_back(before);
        let guaranteed = has_guarantee(treatment);
        let hot = &mut self.hot[flow.record as usize];
        hot.treatment = number;
        hot.set_limit(self.treatments.limit(number), guaranteed);
        if guaranteed != was_guaranteed {
            let user = self.cold[flow.record as usize].user;
            self.holders.release(user, flow.record, was_guaranteed);
            self.holders.hold(user, flow.record, guaranteed);
        }
        true
    }

    /// Records the guaranteed rate that a flow asked for.
    pub fn set_asked(&mut self, flow: FlowRef, asked: Rate) {
        self.change(flow, |cold| cold.asked = asked);
    }

    /// Records the path on which a flow was last seen.
    pub fn set_path(&mut self, flow: FlowRef, path: PathSeen) {
        self.change(flow, |cold| cold.path = Some(path));
    }

    /// Counts a packet of a flow that was marked CE.
    pub fn count_mark(&mut self, flow: FlowRef) {
        self.change(flow, |cold| cold.marks = cold.marks.saturating_add(1));
    }

    /// Counts a packet of a flow that was dropped.
    pub fn count_drop(&mut self, flow: FlowRef) {
        self.change(flow, |cold| cold.drops = cold.drops.saturating_add(1));
    }

    /// Number of flows in the table.
    pub fn len(&self) -> usize {
        self.flows as usize
    }

    /// True if there is no flow.
    pub fn is_empty(&self) -> bool {
        self.flows == 0
    }

    /// Returns the number of flows of a user.
    pub fn flows_of(&self, user: UserId) -> u32 {
        self.holders.flows(user)
    }

    /// Returns the counters since the start.
    pub fn counters(&self) -> TableCounters {
        self.counters
    }

    fn change(&mut self, flow: FlowRef, change: impl FnOnce(&mut ColdRecord)) {
        if self.hot_at(flow).is_some() {
            change(&mut self.cold[flow.record as usize]);
        }
    }

    #[inline]
    fn hot_at(&self, flow: FlowRef) -> Option<&HotRecord> {
        self.hot.get(flow.record as usize).filter(|hot| hot.generation == flow.generation)
    }

    #[inline]
    fn hot_mut(&mut self, flow: FlowRef) -> Option<&mut HotRecord> {
        self.hot.get_mut(flow.record as usize).filter(|hot| hot.generation == flow.generation)
    }

    fn search(&self, identity: &FlowIdentity, hash: u64) -> Option<u32> {
        self.index.find(hash, |record| {
            let hot = &self.hot[record as usize];
            hot.may_hold(identity, hash) && (!hot.needs_cold() || self.cold[record as usize].agrees(identity))
        })
    }

    #[inline]
    fn touch(&mut self, now: Instant, record: u32, from_lower: bool, label: u32) -> FlowMatch {
        let hot = &mut self.hot[record as usize];
        hot.last_used_ms = record::millis(now);
        let direction = hot.direction(from_lower);
        if hot.is_v6() {
            self.cold[record as usize].set_label(side(direction), label);
        }
        FlowMatch { flow: FlowRef { record, generation: hot.generation }, direction }
    }

    fn find_chunk(&mut self, now: Instant, packets: &[(VpnId, FlowKey)], found: &mut [Option<FlowMatch>]) {
        let mut keys = [(FlowIdentity::NONE, false, 0u64); BATCH];
        let mut records = [0u32; BATCH];
        let keys = &mut keys[..packets.len()];
        for (key, (vpn, packet)) in keys.iter_mut().zip(packets) {
            let (identity, from_lower) = FlowIdentity::of(*vpn, packet);
            *key = (identity, from_lower, identity.hash(&self.state));
        }
        for (record, (_, _, hash)) in records.iter_mut().zip(&*keys) {
            *record = self.index.candidate(*hash);
        }
        // The memory reads of this loop do not depend on each other. The processor thus fetches the cache lines of all
        // records at the same time.
        let mut lines = 0;
        for (record, (identity, ..)) in records.iter().zip(&*keys) {
            lines ^= self.hot.get(*record as usize).map_or(0, |hot| hot.generation);
            if identity.is_v6() {
                lines ^= self.cold.get(*record as usize).map_or(0, ColdRecord::read_ahead);
            }
        }
        black_box(lines);
        for (((identity, from_lower, hash), record), ((_, packet), found)) in
            keys.iter().zip(records).zip(packets.iter().zip(found))
        {
            let is_it = self.hot.get(record as usize).is_some_and(|hot| {
                hot.may_hold(identity, *hash) && (!hot.needs_cold() || self.cold[record as usize].agrees(identity))
            });
            let record = if is_it { Some(record) } else { self.search(identity, *hash) };
            *found = record.map(|record| self.touch(now, record, *from_lower, packet.flow_label));
        }
    }
}

/// True if a treatment has a guarantee, which protects its flow from eviction.
fn has_guarantee(treatment: &Treatment) -> bool {
    matches!(treatment.service, Service::Guaranteed | Service::Variable) && treatment.guaranteed > Rate::ZERO
}
