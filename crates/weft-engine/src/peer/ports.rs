//! The port to the peer: the grant of each flow, and the rate that the paths to the peer can guarantee.

use super::{Context, Peer};
use crate::api::PortSettings;
use crate::flows::{Seen, route_of};
use crate::path::Path;
use crate::units::Origin;
use alloc::vec::Vec;
use weft_flows::FlowClass;
use weft_flows::admission::CapacityQuantile;
use weft_flows::load::{LOAD_CLASSES, LOAD_INTERVAL, PortReading, TransitLoad};
use weft_flows::port::TargetUse;
use weft_flows::table::{FlowRef, PathSeen};
use weft_units::{Duration, FlowId, Instant, PathId, PathTier, Rate};
use weft_wire::hop::{HOP_HEADER_LEN, TAG_LEN};
use weft_wire::load_report::LOAD_FRAME_MAX;

/// Rate of a link of unknown capacity, for the share that load reports take of it.
///
/// *Tuned*: a report each second. A slower link is soon full, and its capacity is then known.
const ASSUMED_RATE: Rate = Rate::from_mbps(1);
/// Time over which the capacity that may be guaranteed is measured. *Tuned*: a few fades of a mobile link.
const JUDGED_OVER: Duration = Duration::from_secs(30);
/// Quantile of the capacity measured over [`JUDGED_OVER`] that may be guaranteed.
///
/// *Tuned*: the paths carried at least this rate nine times in ten.
const QUANTILE: f64 = 0.1;

/// Least time between two records of the path that a flow takes.
///
/// *Tuned*: a flow over several paths then does not cause a write for each packet.
const NOTE_INTERVAL: Duration = Duration::from_millis(100);

/// What the port has received from admission about the flow with one flow number.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    flow: Option<FlowRef>,
    changes: u32,
    delay_variance: Option<Duration>,
    /// Time from which a change of the path that the flow takes is recorded again.
    note_at: Instant,
}

/// What the port has received from admission about each flow, and the measured capacity of the paths.
pub struct PortSide {
    told: Vec<Told>,
    shown: CapacityQuantile,
    next_look: Instant,
    /// What the configuration sets for each port.
    pub settings: PortSettings,
    target_use: TargetUse,
}

impl PortSide {
    pub fn new(settings: PortSettings) -> PortSide {
        let most = (JUDGED_OVER.as_millis() / LOAD_INTERVAL.as_millis()) as usize;
        let shown = CapacityQuantile::new(JUDGED_OVER, most, QUANTILE);
        PortSide { told: Vec::new(), shown, next_look: Instant::ZERO, settings, target_use: TargetUse::default() }
    }

    /// Returns the largest variation of the one-way delay that a flow tolerates. `None`: its class sets no limit.
    pub fn delay_variance(&self, flow: FlowId) -> Option<Duration> {
        self.told.get(usize::from(flow.0))?.delay_variance
    }
}

impl Peer {
    /// Counts a leaving packet in its flow, and sets the flow's grant at the port if it changed.
    pub(super) fn follow_flow(
        &mut self,
        cx: &mut Context<'_>,
        flow: FlowId,
        origin: Origin,
        seen: &Seen,
    ) -> Option<FlowRef> {
        let port = self.ingress.port.as_mut()?;
        let passage = cx.flows.on_leaving(cx.now, origin, self.id, seen);
        let at = usize::from(flow.0);
        if port.told.len() <= at {
            port.told.resize(at + 1, Told::default());
        }
        let told = &mut port.told[at];
        if (told.flow, told.changes) == (passage.flow, passage.changes) && told.flow.is_some() {
            return passage.flow;
        }
        let standing = passage.flow.and_then(|state| cx.flows.standing(cx.now, origin, self.id, (seen, state)));
        *told = Told { flow: passage.flow, changes: passage.changes, ..Told::default() };
        match standing {
            Some(standing) => {
                told.delay_variance = standing.treatment.delay_variance;
                self.ingress.queue.set_flow(flow, &standing);
            }
            None => self.ingress.queue.forget_flow(flow),
        }
        passage.flow
    }

    /// Records which path carries a packet of the flow, at most once in each [`NOTE_INTERVAL`].
    pub(super) fn note_path(&mut self, cx: &mut Context<'_>, flow: FlowId, path: PathId) {
        let Some(port) = &mut self.ingress.port else { return };
        let Some(told) = port.told.get_mut(usize::from(flow.0)).filter(|told| told.note_at <= cx.now) else { return };
        told.note_at = cx.now + NOTE_INTERVAL;
        let taken = self.paths.iter().find(|other| other.id == path);
        let is_alternate = taken.is_some_and(|path| path.tier() != PathTier::Primary);
        cx.flows.set_path(told.flow, PathSeen { peer: self.id, path, is_alternate });
    }

    /// Measures the port's load, and the rate that may be guaranteed on the paths, if it is time to do so.
    pub fn look_at_port(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        if self.ingress.port.as_ref().is_none_or(|port| port.next_look > now) {
            return;
        }
        let bundle = self.bundle(now);
        let capacity = self.knows_capacities().then_some(bundle.carried);
        let Some(port) = &mut self.ingress.port else { return };
        let (share, target) = (port.settings.target_use, bundle.carried.scaled(port.settings.target()));
        let pace = share.and_then(|share| port.target_use.pace(now, share, capacity, bundle.round_trip));
        self.ingress.queue.end_load_interval(now, target, pace);
        port.next_look = now + LOAD_INTERVAL;
        port.shown.push(now, bundle.carried);
        let reservable = port.shown.value(now).unwrap_or_default().scaled(port.settings.reservable);
        cx.flows.set_reservable(route_of(self.id), reservable);
        self.measure_transit(cx, bundle.carried, target);
        self.follow_promises(cx);
    }

    /// True if paths carry bulk, and a queue has shown the capacity of each of them.
    fn knows_capacities(&self) -> bool {
        let mut paths = self.carrying_paths().peekable();
        paths.peek().is_some() && paths.all(|path| path.rate.capacity().is_some())
    }

    /// Passes the port's load to transit, which tells it to the peers whose packets leave by this port.
    ///
    /// `carried` is the rate that the paths carry, and `target` the rate that the port should carry.
    fn measure_transit(&self, cx: &mut Context<'_>, carried: Rate, target: Rate) {
        let Some((transit, port)) = cx.vpns.transit.as_mut().zip(self.ingress.queue.port()) else { return };
        let (load, route, admission) = (port.load(), route_of(self.id), &cx.flows.admission);
        let is_known = self.knows_capacities();
        let left = admission.capacity(route).bps().saturating_sub(admission.granted(route).bps());
        let classes = cx.flows.router.as_deref().map(|router| router.classes());
        let asks = |class: &FlowClass| class.treatment.guaranteed > Rate::ZERO;
        let guaranteed = classes.iter().flat_map(|classes| classes.iter()).take(LOAD_CLASSES);
        let guaranteed = guaranteed.filter(|(_, class)| asks(class)).fold(0, |set, (id, _)| set | 1 << id.0);
        let reading = PortReading {
            arrived: load.arrived,
            target: is_known.then_some(target),
            guaranteed_left: Rate::from_bps(left),
            flows: load.active_flows,
            queue_delay: load.queue_delay,
            classes: classes.map_or(1, |classes| classes.iter().count()),
            guaranteed_classes: guaranteed,
        };
        transit.loads.on_measured(self.id, &reading, carried.max(load.arrived));
    }

    /// Returns the rate of the slowest link to the peer, and the longest datagram with a load report, in IP bytes.
    ///
    /// Returns `None` if no path is usable.
    pub fn slowest_link(&self) -> Option<(Rate, u64)> {
        let rate = |path: &Path| {
            let rate = path.rate.capacity().unwrap_or_else(|| path.rate.carried().max(ASSUMED_RATE));
            path.rate.cap().map_or(rate, |cap| cap.min(rate))
        };
        let slowest = self.usable_paths().map(rate).min()?;
        let outer = self.usable_paths().map(Path::outer_header_len).max().unwrap_or_default();
        Some((slowest, (HOP_HEADER_LEN + LOAD_FRAME_MAX + TAG_LEN + outer) as u64))
    }

    /// Queues a report of a port's load for the peer. A report that has not left yet is replaced.
    pub fn tell_load(&mut self, load: TransitLoad) {
        let Some(index) = self.fastest_path() else { return };
        self.control.load = Some(load);
        self.paths[index].pending.load = true;
    }

    /// Returns half the RTT of the fastest path that answers, or `None` if the peer does not answer.
    pub fn one_way_delay(&self) -> Option<Duration> {
        // Which path of a link is in use may change while the peer answers all the time.
        let answering = self.paths.iter().filter(|path| path.link_up && path.health.answers());
        answering.map(|path| path.rtt().smoothed() / 2).min().filter(|_| self.is_established())
    }

    /// Gives the queue of each VPN toward the peer the service that admission granted, if the service changed.
    pub fn follow_promises(&mut self, cx: &mut Context<'_>) {
        let is_measured = self.ingress.port.is_some() || self.offer.is_some();
        for (vpn, service) in cx.flows.promise_changes(self.id, is_measured) {
            if let Some(share) = cx.vpns.share_with(vpn, service) {
                self.set_share(cx.now, vpn, share, cx.vpns.nominal_weight());
            }
        }
    }

    /// Marks paths whose delay varies by more than `most` as unusable for the scheduler, unless no path would remain.
    ///
    /// Returns the set of these paths: bit n stands for the path with index n.
    pub(super) fn keep_steady(&mut self, most: Duration) -> u64 {
        let unsteady = |index: usize| self.paths.get(index).is_some_and(|path| path.delay().jitter() > most);
        let usable = self.dispatch.views.iter().enumerate().take(64).filter(|(_, view)| view.usable);
        let (mut taken, mut left) = (0, 0);
        for (index, _) in usable {
            match unsteady(index) {
                true => taken |= 1 << index,
                false => left += 1,
            }
        }
        if left == 0 {
            return 0;
        }
        self.set_usable(taken, false);
        taken
    }

    /// Marks paths as usable or unusable in the scheduler's views. Bit n of `paths` stands for the path with index n.
    pub(super) fn set_usable(&mut self, paths: u64, usable: bool) {
        if paths != 0 {
            let views = self.dispatch.views.iter_mut().enumerate().take(64);
            views.filter(|(index, _)| paths >> index & 1 == 1).for_each(|(_, view)| view.usable = usable);
        }
    }

    /// Returns the total rate that the paths to the peer carry now.
    pub fn carried(&self, now: Instant) -> Rate {
        self.bundle(now).carried
    }
}
