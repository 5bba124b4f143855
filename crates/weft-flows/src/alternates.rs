//! Groups of routes: the death of a path or a node moves groups to their standby, not flows.
//!
//! Each route to a destination is the primary of one group. A flow names a group for its life. The group names the
//! route in use, the standby that takes over, and an epoch that rises with each change. The cost of a death depends
//! on the number of groups, and on no flow.
//!
//! The standby is the near-equal route that shares fewest components with the route in use. A component is a node or a
//! link. New flows are spread over the near-equal primaries by their hash.
//!
//! The caller reports deaths and revivals, calls [`AlternateGroups::poll`] at [`AlternateGroups::next_timeout`], and
//! reads [`AlternateGroups::current`] for each packet.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use weft_units::{Duration, Instant};

/// Maximum metric of a route that is near-equal to the best one, in percent of the best one's metric.
///
/// Tuned: a jitter buffer adapts to a quarter more delay.
const NEAR_EQUAL_PERCENT: u128 = 125;
/// Longest first hold-down, in units of the time in which a route's death is detected.
///
/// The hold-down is the time for which a revived primary must live before its flows return: the detection time divided
/// by the share of the delay that the return saves. Derived: a return that saves less than 1/32 of the delay gains
/// nothing above the noise.
const HOLD_MOST: u32 = 32;
/// Maximum number of times that the hold-down (see [`HOLD_MOST`]) doubles: once for each death soon after a return.
///
/// Tuned: 256 times the first hold-down is some minutes.
const DOUBLINGS_MOST: u8 = 8;
/// Odd factor that makes the hash of a flow's second choice from the hash of its first.
///
/// Derived: 2^64 divided by the golden ratio, as in Fibonacci hashing.
const SECOND_CHOICE: u64 = 0x9e37_79b9_7f4a_7c15;
/// Route number that stands for no route.
const NO_ROUTE: RouteId = RouteId(u16::MAX);

/// Number of a route, below 65,535.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RouteId(pub u16);

/// Number of a group: that of the route which is its primary.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId(pub u16);

/// Number of a component that routes can share: a node or a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ComponentId(pub u32);

/// Number of a destination: the egress edge, or another point to which several routes lead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DestinationId(pub u32);

/// Data about a route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteFacts {
    /// Destination of the route.
    pub destination: DestinationId,
    /// One-way delay of the route. The living route with the lowest delay is the best.
    pub metric: Duration,
    /// Share of the new flows, in any unit that all routes of the destination use.
    pub weight: u32,
    /// Time until a silent death of the route is noticed, for which its traffic is lost.
    pub detection: Duration,
    /// Nodes and links that the route crosses.
    pub components: Vec<ComponentId>,
}

/// The route that a group uses now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CurrentRoute {
    /// Route that the group uses now.
    pub route: RouteId,
    /// Number of times that the group has changed its route, modulo 2^16.
    pub epoch: u16,
}

/// All data about a group, for explanations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupView {
    /// Route that the group uses unless it is dead.
    pub primary: RouteId,
    /// Route in use. `None` if no route of the destination lives.
    pub current: Option<RouteId>,
    /// Route that takes over if the one in use dies.
    pub standby: Option<RouteId>,
    /// Number of times that the group has changed its route, modulo 2^16.
    pub epoch: u16,
    /// Time at which the group's flows return to the revived primary, if they are to return.
    pub return_at: Option<Instant>,
}

#[derive(Debug)]
struct RouteEntry {
    facts: RouteFacts,
    withdrawn: bool,
    /// Number of the route's nodes and links that are dead.
    dead_components: u32,
    standby: Option<RouteId>,
    return_at: Option<Instant>,
    /// Time until which a death of this route doubles its next hold-down. It is set when flows return to the route.
    trusted_at: Instant,
    doublings: u8,
}

#[derive(Debug, Default)]
struct Component {
    dead: bool,
    routes: Vec<RouteId>,
}

/// All routes, their groups and their components.
#[derive(Debug, Default)]
pub struct AlternateGroups {
    routes: Vec<Option<RouteEntry>>,
    /// Data that each packet reads: the current route of each group.
    current: Vec<CurrentRoute>,
    destinations: BTreeMap<DestinationId, Vec<RouteId>>,
    components: BTreeMap<ComponentId, Component>,
    /// Primaries that live again, by the time at which their flows return to them.
    returns: BTreeSet<(Instant, RouteId)>,
    /// Destinations whose standbys are out of date.
    stale: BTreeSet<DestinationId>,
}

impl AlternateGroups {
    /// Returns an empty set of routes.
    pub fn new() -> AlternateGroups {
        AlternateGroups::default()
    }

    /// Adds a route, or replaces its data. A change of metric moves no flow.
    pub fn set_route(&mut self, now: Instant, route: RouteId, mut facts: RouteFacts) {
        if route == NO_ROUTE {
            return;
        }
        if self.entry(route).is_some_and(|entry| entry.facts.destination != facts.destination) {
            self.remove_route(now, route);
        }
        facts.components.sort_unstable();
        facts.components.dedup();
        let old = self.detach(route);
        let at = usize::from(route.0);
        if self.routes.len() <= at {
            self.routes.resize_with(at + 1, || None);
            self.current.resize(at + 1, CurrentRoute { route: NO_ROUTE, epoch: 0 });
        }
        let dead_components = self.attach(route, &facts);
        let entry = match old {
            Some(old) => RouteEntry { facts, dead_components, ..old },
            None => RouteEntry {
                facts,
                withdrawn: false,
                dead_components,
                standby: None,
                return_at: None,
                trusted_at: Instant::ZERO,
                doublings: 0,
            },
        };
        let is_new = self.current[at].route == NO_ROUTE;
        self.routes[at] = Some(entry);
        if is_new && self.is_alive(route) {
            self.switch(route, Some(route));
        }
        self.reconsider(now, &[route]);
    }

    /// Removes a route. The flows of its group then have no route, so the caller must first move them to other
    /// groups.
    pub fn remove_route(&mut self, now: Instant, route: RouteId) {
        self.set_route_alive(now, route, false);
        if let Some(entry) = self.detach(route) {
            self.returns.retain(|(_, other)| *other != route);
            self.switch(route, None);
            self.stale.insert(entry.facts.destination);
        }
    }

    /// Changes the share of new flows that a route gets.
    pub fn set_weight(&mut self, route: RouteId, weight: u32) {
        if let Some(Some(entry)) = self.routes.get_mut(usize::from(route.0)) {
            entry.facts.weight = weight;
        }
    }

    /// Sets the one-way delay of a route. No flow moves.
    pub fn set_metric(&mut self, route: RouteId, metric: Duration) {
        let Some(Some(entry)) = self.routes.get_mut(usize::from(route.0)) else { return };
        if entry.facts.metric != metric {
            entry.facts.metric = metric;
            self.stale.insert(entry.facts.destination);
        }
    }

    /// Reports that a route died or lives again.
    pub fn set_route_alive(&mut self, now: Instant, route: RouteId, alive: bool) {
        if let Some(Some(entry)) = self.routes.get_mut(usize::from(route.0)) {
            let was_alive = !entry.withdrawn && entry.dead_components == 0;
            entry.withdrawn = !alive;
            if was_alive != self.is_alive(route) {
                self.reconsider(now, &[route]);
            }
        }
    }

    /// Reports that a node or a link died or lives again. All groups that use it move at once.
    pub fn set_component_alive(&mut self, now: Instant, component: ComponentId, alive: bool) {
        if alive && !self.components.contains_key(&component) {
            return;
        }
        let known = self.components.entry(component).or_default();
        if known.dead != alive {
            return;
        }
        known.dead = !alive;
        let routes = core::mem::take(&mut known.routes);
        for route in &routes {
            if let Some(Some(entry)) = self.routes.get_mut(usize::from(route.0)) {
                if alive { entry.dead_components -= 1 } else { entry.dead_components += 1 }
            }
        }
        self.reconsider(now, &routes);
        if alive && routes.is_empty() {
            self.components.remove(&component);
        } else if let Some(known) = self.components.get_mut(&component) {
            known.routes = routes;
        }
    }

    /// Chooses the group of a new flow among the near-equal routes, by weight. The same hash chooses the same group.
    ///
    /// A revived route to which its flows have not yet returned gets no new flow while there is another. Returns `None`
    /// if no route lives.
    pub fn choose(&self, destination: DestinationId, flow_hash: u64) -> Option<GroupId> {
        self.choose_unless(destination, flow_hash, |_| false)
    }

    /// Chooses as [`AlternateGroups::choose`], but a flow whose route `is_full` takes another near-equal route.
    ///
    /// The other route is chosen by weight among the near-equal routes that are not full. If all of them are full, the
    /// flow keeps its route. So a route that becomes full loses new flows. No answer of `is_full` gives a route more
    /// flows than `false` does.
    pub fn choose_unless(
        &self,
        destination: DestinationId,
        flow_hash: u64,
        is_full: impl Fn(RouteId) -> bool,
    ) -> Option<GroupId> {
        let home = self.pick(destination, flow_hash, |_| true)?;
        let other = || self.pick(destination, flow_hash.wrapping_mul(SECOND_CHOICE), |route| !is_full(route));
        let route = if is_full(home) { other().unwrap_or(home) } else { home };
        Some(GroupId(route.0))
    }

    /// Picks one of the near-equal living routes that are `allowed`, by weight and hash.
    fn pick(&self, destination: DestinationId, hash: u64, allowed: impl Fn(RouteId) -> bool) -> Option<RouteId> {
        let routes = self.destinations.get(&destination)?;
        let usable = |held: bool| {
            let entry = |route: &RouteId| self.entry(*route).map(|entry| (*route, entry));
            routes
                .iter()
                .filter_map(entry)
                .filter(move |(route, entry)| self.is_alive(*route) && (held || entry.return_at.is_none()))
        };
        let held = usable(false).next().is_none();
        let best = usable(held).map(|(_, entry)| entry.facts.metric).min()?;
        let near = || usable(held).filter(|(route, entry)| is_near_equal(entry.facts.metric, best) && allowed(*route));
        let weight = |entry: &RouteEntry| u64::from(entry.facts.weight.max(1));
        let total: u64 = near().map(|(_, entry)| weight(entry)).sum();
        let mut point = ((u128::from(hash) * u128::from(total)) >> 64) as u64;
        for (route, entry) in near() {
            match point.checked_sub(weight(entry)) {
                Some(rest) => point = rest,
                None => return Some(route),
            }
        }
        None
    }

    /// Returns the route that a group uses now. `None` if the group does not exist or no route lives.
    #[inline]
    pub fn current(&self, group: GroupId) -> Option<CurrentRoute> {
        self.current.get(usize::from(group.0)).copied().filter(|current| current.route != NO_ROUTE)
    }

    /// Returns all data about a group, or `None` if it does not exist.
    pub fn view(&self, group: GroupId) -> Option<GroupView> {
        let primary = RouteId(group.0);
        let (entry, current) = (self.entry(primary)?, self.current[usize::from(group.0)]);
        Some(GroupView {
            primary,
            current: (current.route != NO_ROUTE).then_some(current.route),
            standby: entry.standby,
            epoch: current.epoch,
            return_at: entry.return_at,
        })
    }

    /// Moves groups back to primaries whose hold-down is over, and chooses anew the standbys that are out of date.
    pub fn poll(&mut self, now: Instant) {
        while let Some((_, route)) = self.returns.first().copied().filter(|(at, _)| *at <= now) {
            self.return_to_primary(now, route);
        }
        while let Some(destination) = self.stale.pop_first() {
            let routes = self.destinations.get_mut(&destination).map(core::mem::take).unwrap_or_default();
            for route in &routes {
                let standby = self.best_standby(*route, &routes);
                if let Some(Some(entry)) = self.routes.get_mut(usize::from(route.0)) {
                    entry.standby = standby;
                }
            }
            if let Some(known) = self.destinations.get_mut(&destination) {
                *known = routes;
            }
        }
    }

    /// Returns the time at which [`AlternateGroups::poll`] has work to do, or `None` if it has none.
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.stale.is_empty() { self.returns.first().map(|(at, _)| *at) } else { Some(Instant::ZERO) }
    }

    fn entry(&self, route: RouteId) -> Option<&RouteEntry> {
        self.routes.get(usize::from(route.0))?.as_ref()
    }

    fn is_alive(&self, route: RouteId) -> bool {
        self.entry(route).is_some_and(|entry| !entry.withdrawn && entry.dead_components == 0)
    }

    /// Takes a route out of all indexes and returns its entry, or `None` if the route does not exist.
    fn detach(&mut self, route: RouteId) -> Option<RouteEntry> {
        let old = self.routes.get_mut(usize::from(route.0))?.take()?;
        if let Some(routes) = self.destinations.get_mut(&old.facts.destination) {
            routes.retain(|other| *other != route);
            if routes.is_empty() {
                self.destinations.remove(&old.facts.destination);
            }
        }
        self.stale.insert(old.facts.destination);
        for component in &old.facts.components {
            let Some(known) = self.components.get_mut(component) else { continue };
            known.routes.retain(|other| *other != route);
            if known.routes.is_empty() && !known.dead {
                self.components.remove(component);
            }
        }
        Some(old)
    }

    /// Puts a route into all indexes. Returns the number of its dead components.
    fn attach(&mut self, route: RouteId, facts: &RouteFacts) -> u32 {
        self.destinations.entry(facts.destination).or_default().push(route);
        let mut dead = 0;
        for component in &facts.components {
            let known = self.components.entry(*component).or_default();
            known.routes.push(route);
            dead += u32::from(known.dead);
        }
        dead
    }

    /// Moves the groups that use a `changed` route, or have it as their primary, to the routes that they should use.
    fn reconsider(&mut self, now: Instant, changed: &[RouteId]) {
        for route in changed {
            let Some(destination) = self.entry(*route).map(|entry| entry.facts.destination) else { continue };
            self.stale.insert(destination);
            let groups = self.destinations.get(&destination).map_or(0, Vec::len);
            for nth in 0..groups {
                let Some(primary) = self.destinations.get(&destination).and_then(|routes| routes.get(nth)).copied()
                else {
                    break;
                };
                self.reconsider_group(now, primary);
            }
        }
    }

    fn reconsider_group(&mut self, now: Instant, primary: RouteId) {
        let current = self.current[usize::from(primary.0)].route;
        let primary_lives = self.is_alive(primary);
        if !primary_lives {
            self.cancel_return(primary);
        }
        if self.is_alive(current) {
            if primary_lives && current != primary {
                self.hold_down(now, primary, current);
            }
            return;
        }
        if current == primary {
            self.note_death(now, primary);
        }
        if primary_lives {
            self.return_to_primary(now, primary);
            return;
        }
        let Some(entry) = self.entry(primary) else { return };
        // The caller may have given the standby route another destination since it was chosen. It then no longer fits.
        let fits = |other: &RouteEntry| other.facts.destination == entry.facts.destination;
        let standby = entry.standby.filter(|standby| self.is_alive(*standby) && self.entry(*standby).is_some_and(fits));
        let next = standby.or_else(|| {
            let routes = self.destinations.get(&entry.facts.destination)?;
            self.best_standby(primary, routes)
        });
        self.switch(primary, next);
    }

    /// Records the death of a primary in use. If it died soon after a return, its next hold-down doubles.
    fn note_death(&mut self, now: Instant, primary: RouteId) {
        if let Some(Some(entry)) = self.routes.get_mut(usize::from(primary.0)) {
            let soon = now < entry.trusted_at;
            entry.doublings = if soon { (entry.doublings + 1).min(DOUBLINGS_MOST) } else { 0 };
        }
    }

    /// Schedules the return of a group's flows to the revived primary, at the end of the hold-down.
    fn hold_down(&mut self, now: Instant, primary: RouteId, current: RouteId) {
        let Some(hold) = self.hold(primary, current) else { return };
        let Some(Some(entry)) = self.routes.get_mut(usize::from(primary.0)) else { return };
        if entry.return_at.is_none() {
            entry.return_at = Some(now + hold);
            self.returns.insert((now + hold, primary));
        }
    }

    /// Returns how long a revived primary must live before its flows return, or `None` if a route does not exist.
    ///
    /// Derived: a return gains the share g = (m − p) / m of the delay, with the metric p of the primary and m of the
    /// route in use. Another death costs the detection time D. The gain has paid for that after D/g. To wait as long is
    /// the ski-rental rule: the cost is at most twice that of a caller who knows when the primary dies next.
    fn hold(&self, primary: RouteId, current: RouteId) -> Option<Duration> {
        let entry = self.entry(primary)?;
        let detection = entry.facts.detection;
        let (m, p) = (self.entry(current)?.facts.metric, entry.facts.metric);
        let gain = m.saturating_sub(p);
        let times = m.as_nanos().checked_div(gain.as_nanos()).unwrap_or(HOLD_MOST.into()).min(HOLD_MOST.into());
        Some(detection * (times as u32).max(1) * (1 << entry.doublings))
    }

    fn cancel_return(&mut self, primary: RouteId) {
        let Some(Some(entry)) = self.routes.get_mut(usize::from(primary.0)) else { return };
        if let Some(at) = entry.return_at.take() {
            self.returns.remove(&(at, primary));
        }
    }

    fn return_to_primary(&mut self, now: Instant, primary: RouteId) {
        self.cancel_return(primary);
        let current = self.current[usize::from(primary.0)].route;
        let hold = self.hold(primary, current).unwrap_or_default();
        if let Some(Some(entry)) = self.routes.get_mut(usize::from(primary.0)) {
            entry.trusted_at = now + hold;
            self.stale.insert(entry.facts.destination);
        }
        self.switch(primary, Some(primary));
    }

    /// Makes a group use another route. No other function changes the route that packets read.
    fn switch(&mut self, group: RouteId, route: Option<RouteId>) {
        let current = &mut self.current[usize::from(group.0)];
        let route = route.unwrap_or(NO_ROUTE);
        if current.route != route {
            *current = CurrentRoute { route, epoch: current.epoch.wrapping_add(1) };
        }
    }

    /// Returns the best live route other than the one that a group uses.
    ///
    /// Near-equal routes come first, then those that share the fewest components with the route in use, then the
    /// fastest.
    fn best_standby(&self, group: RouteId, routes: &[RouteId]) -> Option<RouteId> {
        let current = self.current[usize::from(group.0)].route;
        let used = self.entry(current).or(self.entry(group))?;
        let live = routes.iter().filter(|other| **other != current && self.is_alive(**other));
        let rank = |other: &&RouteId| {
            self.entry(**other).map(|entry| {
                let far = !is_near_equal(entry.facts.metric, used.facts.metric);
                (far, shared(&entry.facts.components, &used.facts.components), entry.facts.metric, **other)
            })
        };
        live.min_by_key(rank).copied()
    }
}

fn is_near_equal(metric: Duration, best: Duration) -> bool {
    metric.as_nanos() * 100 <= best.as_nanos() * NEAR_EQUAL_PERCENT
}

/// Returns the number of components that two sorted lists share.
fn shared(a: &[ComponentId], b: &[ComponentId]) -> usize {
    a.iter().filter(|component| b.binary_search(component).is_ok()).count()
}
