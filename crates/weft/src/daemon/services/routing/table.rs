//! The kernel's routes that become prefixes of peers.
//!
//! The table has the state of each: waiting for the packet loop (`datapath`), in use, withdrawn, or held without its
//! routing daemon.
//!
//! Events of the kernel change the table. The packet loop takes changes in batches, and reports its refusals. A route
//! that is withdrawn stays in use for another half second, because a route that moves is withdrawn and added. If a
//! protocol loses all its routes, its daemon has probably stopped: the routes stay for the configured time. The
//! module has neither sockets nor clocks.

use crate::config::Routing;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use weft_engine::{LearntChange, LearntRefusal, Prefix};
use weft_io::netlink::{GatewayRoute, MAIN_TABLE, RouteEvent};
use weft_units::VpnId;

/// Maximum number of changes of routes that one batch passes to the packet loop.
///
/// *Derived*: a change costs the packet loop less than a microsecond, and a turn of the packet loop may take 1 ms
/// longer.
pub const SLICE: usize = 512;
/// Time without a further withdrawal after which withdrawals take effect.
///
/// *Tuned* by hand: longer than the pauses in which a stopping `zebra` withdraws its routes. Meanwhile the kernel
/// already routes elsewhere. Only packets from peer to peer (transit) and packets from the peer of the route still
/// follow the withdrawn route.
const SETTLE: Duration = Duration::from_millis(500);
/// Maximum time for which further withdrawals delay the effect of the first one.
const MAX_SETTLE: Duration = Duration::from_secs(5);
/// Maximum number of refused routes that are shown, for example by `weft prefixes`.
const MOST_SHOWN: usize = 64;
/// Maximum number of distinct next hops. A route with a further next hop is left out.
const MOST_HOPS: usize = u16::MAX as usize;

/// A TUN device whose routes become prefixes of peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoutedDevice {
    /// Interface index.
    pub index: u32,
    /// VPN of the device.
    pub vpn: VpnId,
    /// Routing table of the VPN, if it has its own.
    pub table: Option<u32>,
}

/// Key of a route: VPN, destination address and prefix length.
type RouteKey = (VpnId, IpAddr, u8);

/// State of a route in the packet loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RouteStanding {
    /// The route waits for the next batch of changes for the packet loop.
    Pending,
    /// A batch of changes with the route is on its way to the packet loop.
    Sent,
    Learnt,
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct KernelRoute {
    /// Position of the next hop in the table's list of next hops.
    hop: u16,
    protocol: u8,
    standing: RouteStanding,
    /// False once the kernel no longer has the route.
    is_present: bool,
    /// True if the route must be withdrawn from the packet loop.
    is_leaving: bool,
    /// Parity of the number of the last dump of the kernel's routes that contained the route.
    parity: bool,
}

/// The routes of one routing protocol in the kernel.
#[derive(Clone, Copy, Default, Debug)]
struct Presence {
    count: usize,
    /// Time until which the protocol's routes stay, if the kernel has lost all of them.
    held_until: Option<Instant>,
}

/// A refused route, for display.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedRoute {
    /// Destination of the route.
    pub prefix: Prefix,
    /// Next hop of the route.
    pub next_hop: IpAddr,
    /// Number of the routing protocol that installed the route, as in ip-route(8).
    pub protocol: u8,
    /// Reason why the packet loop refused the route.
    pub why: LearntRefusal,
}

/// Counts of routes, and some refused routes, for display.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoutingReport {
    /// Number of learnt prefixes, including those that outlive their routing daemon.
    pub learnt: usize,
    /// Number of prefixes that outlive their routing daemon.
    pub held: usize,
    /// Number of refused routes.
    pub refused: usize,
    /// Number of times that a route was left out because the table was full.
    pub left_out: u64,
    /// Some of the refused routes.
    pub shown: Vec<RefusedRoute>,
}

/// The kernel's routes out of the TUN devices, with their state in the packet loop.
pub struct RoutingTable {
    settings: Routing,
    devices: Vec<RoutedDevice>,
    entries: BTreeMap<RouteKey, KernelRoute>,
    hops: Vec<IpAddr>,
    pending: VecDeque<RouteKey>,
    withdrawn: BTreeSet<RouteKey>,
    protocols: BTreeMap<u8, Presence>,
    refused: BTreeMap<RouteKey, LearntRefusal>,
    left_out: u64,
    counts: RouteCounts,
    parity: bool,
    /// Times of the first and the last withdrawal that have not taken effect yet.
    unsettled: Option<(Instant, Instant)>,
}

#[derive(Clone, Copy, Default)]
struct RouteCounts {
    learnt: usize,
    refused: usize,
}

impl RoutingTable {
    /// Returns a table without routes.
    pub fn new(settings: Routing, devices: Vec<RoutedDevice>) -> RoutingTable {
        RoutingTable {
            settings,
            devices,
            entries: BTreeMap::new(),
            hops: Vec::new(),
            pending: VecDeque::new(),
            withdrawn: BTreeSet::new(),
            protocols: BTreeMap::new(),
            refused: BTreeMap::new(),
            left_out: 0,
            counts: RouteCounts::default(),
            parity: false,
            unsettled: None,
        }
    }

    /// Sets the devices. Routes out of other devices are then no longer passed to the packet loop.
    pub fn set_devices(&mut self, devices: Vec<RoutedDevice>) {
        self.devices = devices;
    }

    /// Returns the interface indices of the devices.
    pub fn indices(&self) -> Vec<u32> {
        self.devices.iter().map(|device| device.index).collect()
    }

    fn vpn_of(&self, route: &GatewayRoute) -> Option<VpnId> {
        let device = self.devices.iter().find(|device| device.index == route.index)?;
        let counts = route.table == device.table.unwrap_or(MAIN_TABLE) || self.settings.tables.contains(&route.table);
        (counts && self.settings.accept.contains(&route.protocol)).then_some(device.vpn)
    }

    fn hop(&mut self, hop: IpAddr) -> Option<u16> {
        let known = self.hops.iter().rposition(|known| *known == hop);
        if known.is_none() && self.hops.len() < MOST_HOPS {
            self.hops.push(hop);
            return u16::try_from(self.hops.len() - 1).ok();
        }
        known.and_then(|at| u16::try_from(at).ok())
    }

    /// Applies the kernel's report that a route was added or removed.
    pub fn on_event(&mut self, now: Instant, event: &RouteEvent) {
        let (RouteEvent::Added(route) | RouteEvent::Removed(route)) = event;
        let Some(vpn) = self.vpn_of(route) else { return };
        let key = (vpn, route.destination, route.prefix_len);
        let Some(hop) = self.hop(route.gateway) else { return self.left_out += 1 };
        match event {
            RouteEvent::Added(_) => self.on_added(key, hop, route.protocol),
            RouteEvent::Removed(_) => {
                let is_same = |entry: &&KernelRoute| (entry.hop, entry.protocol) == (hop, route.protocol);
                if self.entries.get(&key).filter(is_same).is_some() {
                    self.on_removed(now, key);
                }
            }
        }
    }

    fn on_added(&mut self, key: RouteKey, hop: u16, protocol: u8) {
        let parity = self.parity;
        let Some(entry) = self.entries.get_mut(&key) else {
            if self.entries.len() >= self.settings.most {
                return self.left_out += 1;
            }
            let standing = RouteStanding::Pending;
            self.entries
                .insert(key, KernelRoute { hop, protocol, standing, is_present: true, is_leaving: false, parity });
            self.pending.push_back(key);
            self.protocols.entry(protocol).or_default().count += 1;
            return;
        };
        if entry.is_present {
            self.protocols.entry(entry.protocol).or_default().count -= 1;
        } else {
            self.withdrawn.remove(&key);
        }
        self.protocols.entry(protocol).or_default().count += 1;
        let has_changed = (entry.hop, entry.protocol) != (hop, protocol) || entry.is_leaving;
        let waits = entry.standing == RouteStanding::Pending || entry.is_leaving;
        (entry.is_present, entry.is_leaving, entry.parity) = (true, false, parity);
        (entry.hop, entry.protocol) = (hop, protocol);
        if has_changed {
            self.counts.leave(entry.standing);
            entry.standing = RouteStanding::Pending;
            self.refused.remove(&key);
            if !waits {
                self.pending.push_back(key);
            }
        }
    }

    fn on_removed(&mut self, now: Instant, key: RouteKey) {
        let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.is_present) else { return };
        entry.is_present = false;
        self.protocols.entry(entry.protocol).or_default().count -= 1;
        self.withdrawn.insert(key);
        self.unsettled = Some((self.unsettled.map_or(now, |(first, _)| first), now));
    }

    /// Begins to compare the table with a dump of the kernel's routes.
    ///
    /// The caller passes each route of the dump to [`RoutingTable::on_event`] as added.
    pub fn begin_dump(&mut self) {
        self.parity = !self.parity;
    }

    /// Ends the comparison: withdraws the routes that the dump of the kernel's routes did not contain.
    pub fn end_dump(&mut self, now: Instant) {
        let is_gone = |entry: &KernelRoute| entry.is_present && entry.parity != self.parity;
        let gone: Vec<RouteKey> =
            self.entries.iter().filter(|(_, entry)| is_gone(entry)).map(|(key, _)| *key).collect();
        gone.into_iter().for_each(|key| self.on_removed(now, key));
    }

    /// Passes all routes to the packet loop again, because peers or their prefixes have changed.
    pub fn retry(&mut self) {
        for (key, entry) in &mut self.entries {
            if !entry.is_leaving && entry.standing != RouteStanding::Pending {
                self.counts.leave(entry.standing);
                entry.standing = RouteStanding::Pending;
                self.pending.push_back(*key);
            }
        }
        self.refused.clear();
    }

    /// Fills `changes` with the next batch of changes for the packet loop. Leaves it empty if no change waits.
    pub fn take_slice(&mut self, changes: &mut Vec<(VpnId, LearntChange)>) {
        changes.clear();
        while changes.len() < SLICE
            && let Some(key) = self.pending.pop_front()
        {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            let (vpn, address, length) = key;
            let mut next_hop = self.hops.get(usize::from(entry.hop)).copied();
            let protocol = entry.protocol;
            if entry.is_leaving {
                next_hop = None;
                self.counts.leave(entry.standing);
                self.refused.remove(&key);
                self.entries.remove(&key);
            } else {
                entry.standing = RouteStanding::Sent;
            }
            changes.push((vpn, LearntChange { prefix: Prefix { address, length }, next_hop, protocol }));
        }
        if self.pending.is_empty() {
            self.pending.shrink_to_fit();
        }
    }

    /// Records whether the packet loop refused a change. Returns true if it is a new refusal.
    pub fn on_outcome(&mut self, vpn: VpnId, change: &LearntChange, refused: Option<LearntRefusal>) -> bool {
        let key = (vpn, change.prefix.address, change.prefix.length);
        let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.standing == RouteStanding::Sent) else {
            return false;
        };
        entry.standing = if refused.is_some() { RouteStanding::Refused } else { RouteStanding::Learnt };
        self.counts.enter(entry.standing);
        match refused {
            Some(why) if self.refused.len() < MOST_SHOWN => self.refused.insert(key, why).is_none(),
            _ => false,
        }
    }

    /// Puts due withdrawals into effect. Returns the protocols that turn out to have lost all their routes.
    pub fn on_time(&mut self, now: Instant) -> Vec<u8> {
        let mut stopped = Vec::new();
        if self.next_timeout().is_none_or(|due| due > now) {
            return stopped;
        }
        let last = self.unsettled.take().map_or(now, |(_, last)| last);
        for (protocol, presence) in &mut self.protocols {
            let has_withdrawn = || {
                let of = |key: &RouteKey| self.entries.get(key).is_some_and(|entry| entry.protocol == *protocol);
                self.withdrawn.iter().any(of)
            };
            if presence.count == 0 && presence.held_until.is_none() && has_withdrawn() {
                presence.held_until = Some(last + self.settings.hold);
                stopped.push(*protocol);
            }
        }
        self.withdrawn.retain(|key| {
            let Some(entry) = self.entries.get_mut(key) else { return false };
            let held = self.protocols.get(&entry.protocol).and_then(|presence| presence.held_until);
            let stays = held.is_some_and(|until| until > now);
            if !stays {
                entry.is_leaving = true;
                if entry.standing != RouteStanding::Pending {
                    self.pending.push_back(*key);
                }
            }
            stays
        });
        let is_over = |presence: &mut Presence| presence.held_until.is_some_and(|until| until <= now);
        self.protocols.values_mut().filter_map(|of| is_over(of).then_some(of)).for_each(|of| of.held_until = None);
        self.protocols.retain(|_, presence| presence.count > 0 || presence.held_until.is_some());
        stopped
    }

    /// Returns the time at which [`RoutingTable::on_time`] has work. `None` if it has none.
    pub fn next_timeout(&self) -> Option<Instant> {
        let settled = self.unsettled.map(|(first, last)| (last + SETTLE).min(first + MAX_SETTLE));
        let held = self.protocols.values().filter_map(|presence| presence.held_until);
        settled.into_iter().chain(held).min()
    }

    /// Returns the counts of routes and some refused routes, for display.
    pub fn report(&self) -> RoutingReport {
        let shown = self.refused.iter().filter_map(|(key, why)| {
            let (entry, (_, address, length)) = (self.entries.get(key)?, *key);
            let next_hop = *self.hops.get(usize::from(entry.hop))?;
            let prefix = Prefix { address, length };
            Some(RefusedRoute { prefix, next_hop, protocol: entry.protocol, why: *why })
        });
        RoutingReport {
            learnt: self.counts.learnt,
            held: if self.unsettled.is_some() { 0 } else { self.withdrawn.len() },
            refused: self.counts.refused,
            left_out: self.left_out,
            shown: shown.collect(),
        }
    }
}

impl RouteCounts {
    fn enter(&mut self, standing: RouteStanding) {
        match standing {
            RouteStanding::Learnt => self.learnt += 1,
            RouteStanding::Refused => self.refused += 1,
            RouteStanding::Pending | RouteStanding::Sent => {}
        }
    }

    fn leave(&mut self, standing: RouteStanding) {
        match standing {
            RouteStanding::Learnt => self.learnt -= 1,
            RouteStanding::Refused => self.refused -= 1,
            RouteStanding::Pending | RouteStanding::Sent => {}
        }
    }
}

#[cfg(test)]
mod tests;
