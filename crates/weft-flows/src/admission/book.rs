//! The tables of admission: the granted and the waiting rates on each route, and their changes.

use super::waiting::NO_NODE;
use super::{AdmissionControl, AdmissionEvent, FlowRoutes, GrantRequest, LoweredBy, PRECEDENCES, RouteNo};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::hash::Hash;
use weft_units::{Duration, Instant, Rate};

/// Capacity of a route, and the rate that is granted on it.
#[derive(Clone, Debug)]
pub(super) struct RouteBook {
    pub(super) capacity_bps: u64,
    /// Total rate granted to each precedence (index 0 to 15) and all higher ones on the route, in bit/s.
    from_precedence_bps: [u64; PRECEDENCES],
    /// Grants in force, in the order in which they are lowered: precedence, age from the youngest, slot.
    victims: BTreeSet<(u8, Reverse<u64>, u32)>,
    /// Indices of the groups of waiting grants whose routes contain this one.
    groups: Vec<u32>,
    /// Number of flows that signalled in band, with a grant or waiting.
    pub(super) signalled: usize,
}

/// The grants that wait for the same routes.
#[derive(Clone, Debug)]
pub(super) struct WaitingGroup {
    routes: FlowRoutes,
    /// Bit `p` is set if grants of precedence `p` wait.
    occupied: u16,
    /// Root of the search tree of waiting grants, for each precedence.
    roots: [u32; PRECEDENCES],
    /// True while the current request, release or change of capacity searches the group for grants that fit now.
    is_searched: bool,
}

impl RouteBook {
    const EMPTY: RouteBook = RouteBook {
        capacity_bps: 0,
        from_precedence_bps: [0; PRECEDENCES],
        victims: BTreeSet::new(),
        groups: Vec::new(),
        signalled: 0,
    };

    /// Returns the rate, in bit/s, that is granted on the route to this precedence and all higher ones.
    pub(super) fn granted_bps(&self, precedence: usize) -> u64 {
        self.from_precedence_bps.get(precedence).copied().unwrap_or(0)
    }
}

/// The grant of one flow, in force or waiting.
#[derive(Clone, Debug)]
pub(super) struct GrantSlot<K> {
    /// The flow, or `None` if the slot is free.
    pub(super) flow: Option<K>,
    pub(super) asked_bps: u64,
    /// Rate that is guaranteed; zero while the flow waits.
    pub(super) granted_bps: u64,
    pub(super) precedence: u8,
    /// Sequence number of the grant. An older grant has a lower number.
    age: u64,
    /// Number of the request that the flow signalled in band, or `None` if it did not.
    pub(super) nonce: Option<u32>,
    pub(super) routes: FlowRoutes,
    pub(super) lifetime: Option<Duration>,
    expires_at: Option<Instant>,
    /// Index of the [`WaitingGroup`] in which the flow waits while its grant is not in force.
    group: u32,
    /// If the current request, release or change of capacity changed the rate: the rate before, and the reason.
    before: Option<(u64, LoweredBy)>,
}

impl<K: Copy + Eq + Hash> AdmissionControl<K> {
    pub(super) fn route(&self, route: RouteNo) -> Option<&RouteBook> {
        self.routes.get(usize::from(route.0))
    }

    pub(super) fn route_mut(&mut self, route: RouteNo) -> &mut RouteBook {
        let at = usize::from(route.0);
        if self.routes.len() <= at {
            self.routes.resize(at + 1, RouteBook::EMPTY);
        }
        &mut self.routes[at]
    }

    pub(super) fn slot_of(&self, flow: &K) -> Option<(u32, &GrantSlot<K>)> {
        let slot = *self.flows.get(flow)?;
        Some((slot, self.slots.get(slot as usize)?))
    }

    /// Returns the rate of a route that is free for a precedence, in bit/s.
    ///
    /// The grant `own`, which the new one replaces, is regarded as free.
    pub(super) fn free_bps(&self, route: RouteNo, precedence: usize, own: Option<&GrantSlot<K>>) -> u64 {
        let Some(book) = self.route(route) else { return 0 };
        let own = own.filter(|own| usize::from(own.precedence) >= precedence && own.routes.as_slice().contains(&route));
        let taken = book.granted_bps(precedence) - own.map_or(0, |own| own.granted_bps);
        book.capacity_bps.saturating_sub(taken)
    }

    /// Stores a grant in place of the flow's previous one. The rate must be admissible.
    pub(super) fn place(&mut self, now: Instant, flow: K, request: GrantRequest, routes: FlowRoutes, granted: Rate) {
        let old = self.flows.get(&flow).copied();
        let (age, expires_at, nonce) = match old {
            Some(slot) => {
                self.take_off(slot);
                let nonce = self.set_nonce_of(slot, None);
                let before = &self.slots[slot as usize];
                (before.age, before.expires_at, nonce)
            }
            None => {
                self.next_age += 1;
                (self.next_age, None, None)
            }
        };
        let group = self.group(&routes);
        let grant = GrantSlot {
            flow: Some(flow),
            asked_bps: request.rate.bps(),
            granted_bps: 0,
            precedence: request.precedence.min(PRECEDENCES as u8 - 1),
            age,
            nonce: None,
            routes,
            lifetime: request.lifetime,
            expires_at,
            group,
            before: None,
        };
        let slot = self.store(old, grant);
        self.flows.insert(flow, slot);
        self.set_nonce_of(slot, nonce);
        self.set_expiry(slot, request.lifetime.map(|lifetime| now + lifetime));
        if granted > Rate::ZERO {
            self.put_in_force(slot, granted.bps());
        } else {
            self.let_wait(slot);
        }
    }

    /// Lowers grants until the routes of a new grant are within their capacity.
    ///
    /// Waiting grants then get the rate that is free again.
    pub(super) fn settle_excess(&mut self, routes: &FlowRoutes, precedence: u8) {
        for route in routes.as_slice() {
            self.lower_excess(*route, LoweredBy::Precedence(precedence.min(PRECEDENCES as u8 - 1)));
        }
        self.give_back();
    }

    /// Lowers grants on a route, in the order of its `victims`, until the route holds no more than its capacity.
    pub(super) fn lower_excess(&mut self, route: RouteNo, why: LoweredBy) {
        loop {
            let book = self.route_mut(route);
            if book.granted_bps(0) <= book.capacity_bps {
                return;
            }
            let Some((_, _, slot)) = book.victims.first().copied() else { return };
            let from = self.slots[slot as usize].granted_bps;
            self.take_off(slot);
            self.let_wait(slot);
            self.note_change(slot, from, why);
        }
    }

    /// Gives free capacity to waiting grants: the highest precedence first, among equals the oldest that fits.
    ///
    /// A waiting grant is examined only if the current request or release freed capacity on one of its routes. A grant
    /// to one precedence changes nothing for higher ones, so one pass from the highest to the lowest suffices.
    pub(super) fn give_back(&mut self) {
        for precedence in (0..PRECEDENCES).rev() {
            self.search_groups();
            while let Some(slot) = self.oldest_fitting(precedence) {
                self.take_off(slot);
                self.raise(slot);
                self.search_groups();
            }
        }
        while let Some(group) = self.searched.pop() {
            self.groups[group as usize].is_searched = false;
        }
    }

    /// Marks the groups of waiting grants on routes with freed capacity, so that their grants are examined.
    fn search_groups(&mut self) {
        while let Some(route) = self.freed.pop() {
            for group in self.routes.get(usize::from(route.0)).map_or(&[][..], |book| &book.groups) {
                if !core::mem::replace(&mut self.groups[*group as usize].is_searched, true) {
                    self.searched.push(*group);
                }
            }
        }
    }

    /// Returns the slot of the oldest waiting grant of a precedence that fits into routes with freed capacity.
    fn oldest_fitting(&self, precedence: usize) -> Option<u32> {
        let of_group = |group: &u32| {
            let WaitingGroup { routes, occupied, roots, .. } = &self.groups[*group as usize];
            if occupied >> precedence & 1 == 0 {
                return None;
            }
            let free_bps = routes.as_slice().iter().map(|route| self.free_bps(*route, precedence, None)).min()?;
            self.waiting.first_fitting(*roots.get(precedence)?, free_bps)
        };
        self.searched.iter().filter_map(of_group).min().map(|(_, slot)| slot)
    }

    /// Returns the index of the [`WaitingGroup`] for these routes, and creates the group if there is none.
    fn group(&mut self, routes: &FlowRoutes) -> u32 {
        let key = routes.sorted();
        if let Some(group) = self.group_numbers.get(&key) {
            return *group;
        }
        let group = self.groups.len() as u32;
        let roots = [NO_NODE; PRECEDENCES];
        self.groups.push(WaitingGroup { routes: key, occupied: 0, roots, is_searched: false });
        key.as_slice().iter().for_each(|route| self.route_mut(*route).groups.push(group));
        self.group_numbers.insert(key, group);
        group
    }

    /// Puts a waiting grant in force, and lowers those of lower precedence that it displaces.
    fn raise(&mut self, slot: u32) {
        let GrantSlot { asked_bps, routes, precedence, .. } = self.slots[slot as usize];
        self.put_in_force(slot, asked_bps);
        self.note_change(slot, 0, LoweredBy::Precedence(precedence));
        for route in routes.as_slice() {
            self.lower_excess(*route, LoweredBy::Precedence(precedence));
        }
    }

    /// Removes a grant from all tables and frees its slot.
    pub(super) fn remove(&mut self, slot: u32) {
        self.take_off(slot);
        self.set_nonce_of(slot, None);
        self.set_expiry(slot, None);
        self.forget_members(slot);
        if let Some(flow) = self.slots[slot as usize].flow.take() {
            self.flows.remove(&flow);
            self.free_slots.push(slot);
        }
    }

    pub(super) fn forget_members(&mut self, slot: u32) {
        for member in self.aggregates.remove(&slot).unwrap_or_default() {
            self.members.remove(&(member, slot));
        }
    }

    /// Lowers a grant in force to `granted_bps`, because the flow needs no more.
    pub(super) fn shrink(&mut self, slot: u32, granted_bps: u64) {
        if self.slots[slot as usize].granted_bps > granted_bps {
            self.take_off(slot);
            self.slots[slot as usize].asked_bps = granted_bps;
            self.put_in_force(slot, granted_bps);
        }
    }

    /// Sets the number of the request that a flow signalled, and counts the flow on its routes. Returns the old number.
    pub(super) fn set_nonce_of(&mut self, slot: u32, nonce: Option<u32>) -> Option<u32> {
        let grant = &mut self.slots[slot as usize];
        let (old, routes) = (core::mem::replace(&mut grant.nonce, nonce), grant.routes);
        for route in routes.as_slice() {
            let signalled = &mut self.route_mut(*route).signalled;
            *signalled = *signalled + usize::from(nonce.is_some()) - usize::from(old.is_some());
        }
        old
    }

    /// Sets when a grant ends, or `None` if nothing ends it.
    pub(super) fn set_expiry(&mut self, slot: u32, at: Option<Instant>) {
        let old = core::mem::replace(&mut self.slots[slot as usize].expires_at, at);
        if let Some(old) = old {
            self.expiries.remove(&(old, slot));
        }
        if let Some(at) = at {
            self.expiries.insert((at, slot));
        }
    }

    /// Passes the changes of grants that the current request, release or change of capacity caused to `events`.
    ///
    /// A grant that has the same rate as before is left out.
    pub(super) fn tell(&mut self, events: &mut impl FnMut(AdmissionEvent<K>)) {
        for at in 0..self.changed.len() {
            let slot = &mut self.slots[self.changed[at] as usize];
            let (Some((from, why)), Some(flow)) = (slot.before.take(), slot.flow) else { continue };
            let (from, to) = (Rate::from_bps(from), Rate::from_bps(slot.granted_bps));
            match from > to {
                true => events(AdmissionEvent::Lowered { flow, from, to, why }),
                false if from < to => events(AdmissionEvent::Raised { flow, to }),
                false => {}
            }
        }
        self.changed.clear();
    }

    fn note_change(&mut self, slot: u32, from: u64, why: LoweredBy) {
        let grant = &mut self.slots[slot as usize];
        if grant.before.is_none() {
            grant.before = Some((from, why));
            self.changed.push(slot);
        }
    }

    fn store(&mut self, old: Option<u32>, grant: GrantSlot<K>) -> u32 {
        match old.or_else(|| self.free_slots.pop()) {
            Some(slot) => {
                self.slots[slot as usize] = grant;
                slot
            }
            None => {
                self.slots.push(grant);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Puts a grant in force with the rate `granted_bps`: adds it to the tables of its routes.
    fn put_in_force(&mut self, slot: u32, granted_bps: u64) {
        let grant = &mut self.slots[slot as usize];
        grant.granted_bps = granted_bps;
        let (precedence, age, routes) = (grant.precedence, grant.age, grant.routes);
        for route in routes.as_slice() {
            let book = &mut self.routes[usize::from(route.0)];
            book.from_precedence_bps[..=usize::from(precedence)].iter_mut().for_each(|sum| *sum += granted_bps);
            book.victims.insert((precedence, Reverse(age), slot));
        }
    }

    /// Adds a grant that is not in force to its [`WaitingGroup`].
    fn let_wait(&mut self, slot: u32) {
        let grant = &mut self.slots[slot as usize];
        grant.granted_bps = 0;
        let group = &mut self.groups[grant.group as usize];
        group.occupied |= 1 << grant.precedence;
        self.waiting.insert(&mut group.roots[usize::from(grant.precedence)], grant.age, slot, grant.asked_bps);
    }

    /// Removes a grant from the tables, whether it is in force or waits. Its rate becomes free.
    fn take_off(&mut self, slot: u32) {
        let grant = &mut self.slots[slot as usize];
        let (precedence, age, routes) = (grant.precedence, grant.age, grant.routes);
        let granted_bps = core::mem::take(&mut grant.granted_bps);
        if granted_bps == 0 {
            let group = &mut self.groups[grant.group as usize];
            let root = &mut group.roots[usize::from(precedence)];
            self.waiting.remove(root, age);
            if *root == NO_NODE {
                group.occupied &= !(1 << precedence);
            }
            return;
        }
        for route in routes.as_slice() {
            let book = &mut self.routes[usize::from(route.0)];
            book.from_precedence_bps[..=usize::from(precedence)].iter_mut().for_each(|sum| *sum -= granted_bps);
            book.victims.remove(&(precedence, Reverse(age), slot));
            if !self.freed.contains(route) {
                self.freed.push(*route);
            }
        }
    }
}
