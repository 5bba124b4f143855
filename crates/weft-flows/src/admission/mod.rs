//! Admission: guarantees of rate to flows, never more than the routes carry (paper 001 §III, Figure 2).
//!
//! The caller sets the capacity of each route that may be granted: a low quantile of the route's measured capacity
//! ([`CapacityQuantile`]), times a fraction below one, so that control traffic and flows without a guarantee always
//! have a part. A grant reserves its rate on each route that the flow may take.
//!
//! A request of a higher precedence takes capacity from grants of lower ones: the lowest precedence first, among
//! equals the youngest. The flow of such a grant loses its guarantee, and an event reports it. The flow waits, and
//! receives its rate again when there is capacity: the highest precedence first, among equals the oldest. A waiting
//! grant that does not fit lets smaller ones behind it pass. Lost capacity is handled like a request of the highest
//! precedence.
//!
//! Leased lines and assured VPNs (paper 004) are grants like others, with a key of their own and with members. They
//! end when a member leaves. No operation examines all grants: a decision takes time proportional to the logarithm of
//! their number, and to the number of different combinations of routes that contain a route of the grant.

mod book;
mod capacity_quantile;
mod event;
mod signals;
mod waiting;

pub use capacity_quantile::CapacityQuantile;
pub use event::{
    AdmissionEvent, AdmissionOutcome, FlowRoutes, GrantRequest, LoweredBy, PassingSignal, RouteNo, Shortfall,
    SignalVerdict,
};

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use book::{GrantSlot, RouteBook, WaitingGroup};
use core::hash::Hash;
use hashbrown::HashMap;
use waiting::WaitingIndex;
use weft_core::flow::hash::SeededState;
use weft_core::service::MemberId;
use weft_units::{Instant, Rate};

/// Number of precedences. Standard: TIA-1039 signals four bits.
const PRECEDENCES: usize = 16;
/// Largest capacity of a route, in bit/s.
///
/// Derived: while an operation displaces grants, a route holds at most twice its capacity, which must not overflow.
const MAX_CAPACITY_BPS: u64 = u64::MAX / 4;

/// Guarantees to flows over the routes of a node. `K` identifies a flow or an aggregate.
#[derive(Debug)]
pub struct AdmissionControl<K> {
    /// Maximum number of flows that have a grant or wait for one.
    most: usize,
    /// Maximum number of flows that signal in band, on each route.
    most_signalled: usize,
    routes: Vec<RouteBook>,
    slots: Vec<GrantSlot<K>>,
    free_slots: Vec<u32>,
    flows: HashMap<K, u32, SeededState>,
    waiting: WaitingIndex,
    groups: Vec<WaitingGroup>,
    group_numbers: BTreeMap<FlowRoutes, u32>,
    /// Grants with a lifetime, by the time when they end.
    expiries: BTreeSet<(Instant, u32)>,
    members: BTreeSet<(MemberId, u32)>,
    aggregates: BTreeMap<u32, Vec<MemberId>>,
    next_age: u64,
    /// Grants that the current request, release or change of capacity lowered or raised.
    changed: Vec<u32>,
    /// Routes on which the current request, release or change of capacity freed capacity.
    freed: Vec<RouteNo>,
    /// Groups of waiting grants on these routes, which are searched for grants that fit now.
    searched: Vec<u32>,
}

impl<K: Copy + Eq + Hash> AdmissionControl<K> {
    /// Returns an admission control for at most `most` flows. All routes have a capacity of zero.
    ///
    /// `seed` keys the hash table, so that an attacker cannot choose where flows are stored.
    pub fn new(most: usize, seed: u64) -> AdmissionControl<K> {
        AdmissionControl {
            most,
            most_signalled: most,
            routes: Vec::new(),
            slots: Vec::new(),
            free_slots: Vec::new(),
            flows: HashMap::with_hasher(SeededState::new(seed)),
            waiting: WaitingIndex::new(seed),
            groups: Vec::new(),
            group_numbers: BTreeMap::new(),
            expiries: BTreeSet::new(),
            members: BTreeSet::new(),
            aggregates: BTreeMap::new(),
            next_age: 0,
            changed: Vec::new(),
            freed: Vec::new(),
            searched: Vec::new(),
        }
    }

    /// Sets the maximum number of flows that signal in band on each route.
    ///
    /// The limit prevents that the flows of one route use up all entries.
    pub fn set_most_signalled(&mut self, most: usize) {
        self.most_signalled = most;
    }

    /// Sets the total rate that may be granted on a route.
    ///
    /// If it is below the granted total, grants are lowered before the call returns. If it is more, waiting grants
    /// receive their rates.
    pub fn set_capacity(&mut self, route: RouteNo, capacity: Rate, events: &mut impl FnMut(AdmissionEvent<K>)) {
        self.route_mut(route).capacity_bps = capacity.bps().min(MAX_CAPACITY_BPS);
        self.lower_excess(route, LoweredBy::CapacityLoss(route));
        self.freed.push(route);
        self.give_back();
        self.tell(events);
    }

    /// Returns the total rate that may be granted on a route.
    pub fn capacity(&self, route: RouteNo) -> Rate {
        Rate::from_bps(self.route(route).map_or(0, |route| route.capacity_bps))
    }

    /// Returns the total rate that is guaranteed on a route.
    pub fn granted(&self, route: RouteNo) -> Rate {
        Rate::from_bps(self.route(route).map_or(0, |route| route.granted_bps(0)))
    }

    /// Returns the rate that is guaranteed to a flow; zero if it has no grant or waits for one.
    pub fn of(&self, flow: &K) -> Rate {
        Rate::from_bps(self.slot_of(flow).map_or(0, |(_, slot)| slot.granted_bps))
    }

    /// Returns the rate for which a flow waits, if it waits.
    pub fn waits_for(&self, flow: &K) -> Option<Rate> {
        let (_, slot) = self.slot_of(flow)?;
        (slot.granted_bps == 0).then_some(Rate::from_bps(slot.asked_bps))
    }

    /// Number of flows with a grant, or that wait for one.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// True if no flow has a grant or waits for one.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Returns the largest rate that a request of this precedence would be guaranteed on all of `routes`.
    ///
    /// It is the least, over the routes, of the capacity that is not guaranteed to other flows of this or a higher
    /// precedence.
    pub fn admissible(&self, flow: &K, precedence: u8, routes: &FlowRoutes) -> Rate {
        let own = self.slot_of(flow).map(|(_, slot)| slot);
        if own.is_none() && self.flows.len() >= self.most {
            return Rate::ZERO;
        }
        let level = usize::from(precedence).min(PRECEDENCES - 1);
        let free = routes.as_slice().iter().map(|route| self.free_bps(*route, level, own));
        Rate::from_bps(free.min().unwrap_or(0))
    }

    /// Decides about a request. It replaces an earlier grant of the flow, which keeps its age.
    ///
    /// The rate must be available on all of `routes`. Events report the consequences of the decision, mostly for other
    /// flows. A flow that gives up capacity may itself be lowered, if a waiting grant of higher precedence now fits.
    pub fn request(
        &mut self,
        now: Instant,
        flow: K,
        request: GrantRequest,
        routes: FlowRoutes,
        events: &mut impl FnMut(AdmissionEvent<K>),
    ) -> AdmissionOutcome {
        let admissible = self.admissible(&flow, request.precedence, &routes);
        let is_known = self.flows.contains_key(&flow);
        let (asked, granted) = match request.shortfall {
            _ if request.rate <= admissible => (request.rate, request.rate),
            Shortfall::Refuse => return AdmissionOutcome::Refused,
            Shortfall::Reduce => (admissible, admissible),
            Shortfall::Wait if !is_known && self.flows.len() >= self.most => return AdmissionOutcome::Refused,
            Shortfall::Wait => (request.rate, Rate::ZERO),
        };
        if asked == Rate::ZERO {
            self.release(&flow, events);
            return AdmissionOutcome::Refused;
        }
        self.place(now, flow, GrantRequest { rate: asked, ..request }, routes, granted);
        self.settle_excess(&routes, request.precedence);
        self.tell(events);
        if granted == Rate::ZERO { AdmissionOutcome::Waits } else { AdmissionOutcome::Granted(granted) }
    }

    /// Decides about a request for an aggregate: a leased line or an assured VPN.
    ///
    /// The aggregate's grant ends when one of `members` leaves.
    pub fn request_aggregate(
        &mut self,
        now: Instant,
        key: K,
        request: GrantRequest,
        routes: FlowRoutes,
        members: &[MemberId],
        events: &mut impl FnMut(AdmissionEvent<K>),
    ) -> AdmissionOutcome {
        let outcome = self.request(now, key, request, routes, events);
        if outcome != AdmissionOutcome::Refused
            && let Some(slot) = self.flows.get(&key).copied()
        {
            self.forget_members(slot);
            self.members.extend(members.iter().map(|member| (*member, slot)));
            self.aggregates.insert(slot, members.to_vec());
        }
        outcome
    }

    /// Ends a flow's grant, or its waiting. Others may receive its rate.
    pub fn release(&mut self, flow: &K, events: &mut impl FnMut(AdmissionEvent<K>)) {
        if let Some(slot) = self.flows.get(flow).copied() {
            self.remove(slot);
            self.give_back();
            self.tell(events);
        }
    }

    /// Ends the grants of all leased lines and assured VPNs that have this member.
    pub fn release_member(&mut self, member: MemberId, events: &mut impl FnMut(AdmissionEvent<K>)) {
        while let Some((_, slot)) = self.members.range((member, 0)..=(member, u32::MAX)).next().copied() {
            self.remove(slot);
        }
        self.give_back();
        self.tell(events);
    }

    /// Postpones the end of a flow's grant to `now` plus its lifetime.
    pub fn renew(&mut self, now: Instant, flow: &K) {
        if let Some((slot, grant)) = self.slot_of(flow) {
            self.set_expiry(slot, grant.lifetime.map(|lifetime| now + lifetime));
        }
    }

    /// Ends the grants that were not renewed. It examines no other grants.
    pub fn expire(&mut self, now: Instant, events: &mut impl FnMut(AdmissionEvent<K>)) {
        while let Some((_, slot)) = self.expiries.first().copied().filter(|(at, _)| *at <= now) {
            let grant = &self.slots[slot as usize];
            if let Some(flow) = grant.flow {
                events(AdmissionEvent::Expired { flow, from: Rate::from_bps(grant.granted_bps) });
            }
            self.remove(slot);
        }
        self.give_back();
        self.tell(events);
    }

    /// Returns the time when [`AdmissionControl::expire`] is due, or `None` if no grant has a lifetime.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.expiries.first().map(|(at, _)| *at)
    }
}
