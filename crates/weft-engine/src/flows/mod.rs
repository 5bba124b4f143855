//! Flow state: the flow table with the rules for flows, and the admission of guarantees, for all peers together.
//!
//! A leaving packet is counted in its flow ([`Flowing::on_leaving`]), an arriving packet as well
//! ([`Flowing::on_arrived`]). [`Flowing::standing`] returns a flow's grant to the port toward a peer. The rates of
//! VPNs pass the same admission ([`Flowing::promise`]).

mod promises;

use crate::units::Origin;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use promises::{VpnPromises, request_of};
use weft_core::service::{MemberId, Service};
use weft_flows::ClassId;
use weft_flows::admission::{AdmissionControl, AdmissionEvent, FlowRoutes, PassingSignal, RouteNo, SignalVerdict};
use weft_flows::class::DEFAULT_CLASS;
use weft_flows::router::{FlowRouter, GrantHolder, GrantKey, PacketFacts, Passage, Standing};
use weft_flows::table::{FlowRecord, FlowRef, PathSeen};
use weft_units::{Instant, PeerId, Rate, VpnId};
use weft_wire::er_sig::{Direction, Message};
use weft_wire::ip::FlowKey;

/// Maximum number of flows that may have a guarantee. *Derived*: the number of flow numbers (16 bits) of one peer.
const MOST_GRANTS: usize = 1 << 16;
/// Maximum number of flows toward one peer that are guaranteed by in-band signals.
///
/// The rest of [`MOST_GRANTS`] is left for flows toward other peers and for other guarantees.
const MOST_SIGNALLED: usize = 4_096;
/// Maximum number of flow records that wait until the program takes them.
///
/// *Derived*: a third of a second of a busy export of 200,000 records/s.
const MOST_RECORDS: usize = 1 << 16;

/// The properties of a packet that decide its flow and its class.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub vpn: VpnId,
    pub key: FlowKey,
    pub dscp: u8,
    pub packets: u32,
    pub bytes: u32,
}

/// Flow state of the node: its flow table, guarantees, and promises to VPNs.
pub struct Flowing {
    pub admission: AdmissionControl<GrantHolder>,
    /// Flow table and rules, or `None` if no flow state is configured.
    pub router: Option<Box<FlowRouter>>,
    own_name: String,
    /// Names of the peers. The index is the peer's number ([`PeerId`]).
    names: Vec<String>,
    records: Records,
    promises: VpnPromises,
}

/// Flow records that wait until the program takes them, and the number of those that it did not take in time.
#[derive(Default)]
struct Records {
    waiting: VecDeque<FlowRecord>,
    lost: u64,
}

impl Records {
    fn push(&mut self, record: &FlowRecord) {
        if self.waiting.len() >= MOST_RECORDS {
            self.waiting.pop_front();
            self.lost += 1;
        }
        self.waiting.push_back(*record);
    }
}

impl Flowing {
    pub fn new(seed: u64) -> Flowing {
        let mut admission = AdmissionControl::new(MOST_GRANTS, seed);
        admission.set_most_signalled(MOST_SIGNALLED);
        Flowing {
            admission,
            router: None,
            own_name: String::new(),
            names: Vec::new(),
            records: Records::default(),
            promises: VpnPromises::default(),
        }
    }

    /// Sets this node's name and those of its peers, in the order of the peers' numbers.
    pub fn set_names(&mut self, own: &str, peers: impl Iterator<Item = String>) {
        self.own_name = own.into();
        self.names = peers.collect();
    }

    /// Sets the name of one peer.
    pub fn set_name(&mut self, peer: PeerId, name: &str) {
        let at = usize::from(peer.0);
        if self.names.len() <= at {
            self.names.resize(at + 1, String::new());
        }
        self.names[at] = name.into();
    }

    /// Counts a packet that leaves for `peer`. Returns its flow and its direction in the flow.
    pub fn on_leaving(&mut self, now: Instant, origin: Origin, peer: PeerId, seen: &Seen) -> Passage {
        let Flowing { router: Some(router), own_name, names, records, .. } = self else { return Passage::UNKNOWN };
        let packet = facts(seen, near(origin, own_name, names), name(names, peer));
        router.on_packet(now, &packet, &mut |record| records.push(record))
    }

    /// Returns what the port to `peer` needs to treat a flow, and requests the flow's guarantee toward `peer`.
    ///
    /// Returns `None` without flow state.
    pub fn standing(
        &mut self,
        now: Instant,
        origin: Origin,
        peer: PeerId,
        (seen, flow): (&Seen, FlowRef),
    ) -> Option<Standing> {
        let Flowing { router: Some(router), admission, own_name, names, .. } = self else { return None };
        let packet = facts(seen, near(origin, own_name, names), name(names, peer));
        router.standing(now, flow, (&packet, route_of(peer)), admission)
    }

    /// Returns the class of a host's new flow toward `peer`, and the guarantee that the flow asks for.
    ///
    /// Without flow state, the flow has the default class.
    pub fn asks(&self, peer: PeerId, seen: &Seen) -> (ClassId, Rate) {
        let Flowing { router: Some(router), own_name, names, .. } = self else { return (DEFAULT_CLASS, Rate::ZERO) };
        let asked = router.would_ask(&facts(seen, own_name, name(names, peer)));
        (asked.class, asked.guaranteed)
    }

    /// Counts a packet that arrived from `peer` for a host here. Returns its flow and direction.
    pub fn on_arrived(&mut self, now: Instant, peer: PeerId, seen: &Seen) -> Option<(FlowRef, Direction)> {
        let Flowing { router: Some(router), own_name, names, records, .. } = self else { return None };
        let packet = facts(seen, name(names, peer), own_name);
        let passage = router.on_packet(now, &packet, &mut |record| records.push(record));
        Some((passage.flow?, passage.direction))
    }

    /// Counts a further packet of `bytes` bytes in a known flow.
    pub fn count(&mut self, (flow, direction): (FlowRef, Direction), bytes: u32) {
        if let Some(router) = &mut self.router {
            router.count(flow, direction, 1, bytes);
        }
    }

    /// Records the path that carried the last packet of a flow.
    pub fn set_path(&mut self, flow: Option<FlowRef>, path: PathSeen) {
        if let (Some(router), Some(flow)) = (&mut self.router, flow) {
            router.set_path(flow, path);
        }
    }

    /// Counts a packet of a flow that the port to its peer dropped.
    pub fn count_drop(&mut self, flow: Option<FlowRef>) {
        if let (Some(router), Some(flow)) = (&mut self.router, flow) {
            router.count_verdict(flow, false);
        }
    }

    /// Counts a packet of a flow that the port to its peer marked with ECN CE.
    pub fn count_mark(&mut self, flow: Option<FlowRef>) {
        if let (Some(router), Some(flow)) = (&mut self.router, flow) {
            router.count_verdict(flow, true);
        }
    }

    /// Sets the total rate that may be guaranteed on a route.
    pub fn set_reservable(&mut self, route: RouteNo, rate: Rate) {
        self.decide(|admission, mut events| admission.set_capacity(route, rate, &mut events));
    }

    /// Requests the rates that services promise to VPNs toward a peer, in place of earlier requests.
    ///
    /// Before this call, the caller must set the queue of the VPN `given` to the service in its configuration, or the
    /// queues of all VPNs if `given` is `None`. After it, the caller must call [`Flowing::promise_changes`].
    /// `services` must be sorted by VPN.
    pub fn promise(&mut self, now: Instant, peer: PeerId, services: &[(VpnId, Service)], given: Option<VpnId>) {
        let (route, members) = (route_of(peer), [MemberId(peer.0.into())]);
        let is_named = |vpn: VpnId| {
            let at = services.binary_search_by_key(&vpn, |(other, _)| *other);
            at.is_ok_and(|at| services.get(at).is_some_and(|(_, service)| request_of(*service).is_some()))
        };
        let ended: Vec<VpnId> = self.promises.toward(peer).filter(|vpn| !is_named(*vpn)).collect();
        for vpn in ended {
            self.promises.remove(peer, vpn);
            let holder = GrantHolder::Vpn(vpn, route);
            self.decide(|admission, mut events| admission.release(&holder, &mut events));
        }
        for (vpn, service) in services {
            let Some(request) = request_of(*service) else { continue };
            if self.promises.insert(peer, (*vpn, *service), given.is_none_or(|given| given == *vpn)) {
                let (holder, routes) = (GrantHolder::Vpn(*vpn, route), FlowRoutes::one(route));
                self.decide(|admission, mut events| {
                    admission.request_aggregate(now, holder, request, routes, &members, &mut events)
                });
            }
        }
    }

    /// Ends the promises to VPNs toward a peer that was removed.
    pub fn forget_member(&mut self, peer: PeerId) {
        let ended: Vec<VpnId> = self.promises.toward(peer).collect();
        ended.into_iter().for_each(|vpn| self.promises.remove(peer, vpn));
        self.decide(|admission, mut events| admission.release_member(MemberId(peer.0.into()), &mut events));
    }

    /// Returns the VPNs whose queues toward a peer must change their service, each with its new service.
    ///
    /// While the capacity of the paths is not measured (`is_measured` is false), each VPN has the service in its
    /// configuration.
    pub fn promise_changes(&mut self, peer: PeerId, is_measured: bool) -> Vec<(VpnId, Service)> {
        let Flowing { promises, admission, .. } = self;
        let route = route_of(peer);
        promises.changes(peer, |vpn| !is_measured || admission.of(&GrantHolder::Vpn(vpn, route)) > Rate::ZERO)
    }

    /// Lets admission process a signal that requests, confirms or ends a rate of `flow` on a route.
    ///
    /// `flow` is the flow as its first sender sees it. Returns admission's decision.
    pub fn on_signal(
        &mut self,
        now: Instant,
        (flow, route): (FlowKey, RouteNo),
        passing: PassingSignal<'_>,
    ) -> SignalVerdict {
        let PassingSignal { signal, direction, available, node } = passing;
        let ends = matches!(signal.message, Message::Release | Message::Reject);
        let both = [Direction::Forward, Direction::Reverse];
        let mut verdict = SignalVerdict::Forward;
        for direction in both.into_iter().filter(|each| ends || *each == direction) {
            let key = signalled_key(&flow, direction);
            let (holder, routes) = (GrantHolder::Flow(key), FlowRoutes::one(route));
            let passing = PassingSignal { signal: &mut *signal, direction, available, node };
            verdict =
                self.decide(|admission, mut events| admission.on_signal(now, holder, &routes, passing, &mut events));
            if let Some(router) = &mut self.router {
                router.on_signalled(&key, (signal, direction), &self.admission);
            }
        }
        verdict
    }

    /// Returns the rate that admission would guarantee to `flow` on a route if it processed this signal.
    pub fn would_guarantee(&self, flow: &FlowKey, route: RouteNo, passing: &PassingSignal<'_>) -> Rate {
        let PassingSignal { signal, direction, .. } = passing;
        let asked = if *direction == Direction::Forward { signal.forward } else { signal.reverse };
        let holder = GrantHolder::Flow(signalled_key(flow, *direction));
        self.admission.would_guarantee(&holder, signal.preemption, &FlowRoutes::one(route), asked.guaranteed)
    }

    /// Returns the rate that is guaranteed on a route to all flows except one.
    pub fn granted_to_others(&self, flow: &FlowKey, route: RouteNo, direction: Direction) -> Rate {
        let own = self.admission.of(&GrantHolder::Flow(signalled_key(flow, direction)));
        Rate::from_bps(self.admission.granted(route).bps().saturating_sub(own.bps()))
    }

    /// Ends the flows and guarantees whose lifetime has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.admission.next_timeout().is_some_and(|at| at <= now) {
            self.decide(|admission, mut events| admission.expire(now, &mut events));
        }
        let Flowing { router: Some(router), admission, records, .. } = self else { return };
        if router.next_timeout(now).is_some_and(|at| at <= now) {
            router.expire(now, admission, &mut |record| records.push(record));
        }
    }

    /// Returns the time at which the next call of [`Flowing::handle_timeout`] is due.
    pub fn next_timeout(&self, now: Instant) -> Option<Instant> {
        let flows = self.router.as_ref().and_then(|router| router.next_timeout(now));
        [flows, self.admission.next_timeout()].into_iter().flatten().min()
    }

    /// Runs a step of admission, and passes its decisions about other flows to the router. Returns the step's result.
    fn decide<R>(
        &mut self,
        decision: impl FnOnce(&mut AdmissionControl<GrantHolder>, &mut dyn FnMut(AdmissionEvent<GrantHolder>)) -> R,
    ) -> R {
        let Flowing { admission, router, .. } = self;
        decision(admission, &mut |event| {
            if let Some(router) = router {
                router.on_admission(&event);
            }
        })
    }

    /// Ends some of the flows and makes their last records. Returns false when no flow is left.
    pub fn end_some(&mut self, now: Instant) -> bool {
        let Flowing { router: Some(router), records, .. } = self else { return false };
        router.end_some(now, &mut |record| records.push(record))
    }

    /// Removes and returns the oldest flow record that waits for the program.
    pub fn take_record(&mut self) -> Option<FlowRecord> {
        self.records.waiting.pop_front()
    }

    /// Number of flow records that the exporter did not take in time.
    pub fn lost_records(&self) -> u64 {
        self.records.lost
    }
}

/// Returns the key of the guarantee that a signal of a flow requests in `direction`.
///
/// `flow` is the flow as its first sender sees it.
fn signalled_key(flow: &FlowKey, direction: Direction) -> GrantKey {
    match direction {
        Direction::Forward => GrantKey::of(VpnId::DEFAULT, flow),
        Direction::Reverse => GrantKey::of(VpnId::DEFAULT, &flow.reversed()),
    }
}

/// Returns the route whose capacity the guarantees toward a peer use.
pub fn route_of(peer: PeerId) -> RouteNo {
    RouteNo(peer.0)
}

fn facts<'a>(seen: &Seen, near: &'a str, far: &'a str) -> PacketFacts<'a> {
    let Seen { vpn, key, dscp, packets, bytes } = *seen;
    PacketFacts { vpn, key, dscp, packets, bytes, near, far }
}

fn near<'a>(origin: Origin, own: &'a str, names: &'a [String]) -> &'a str {
    match origin {
        Origin::Host => own,
        Origin::Peer(peer) => name(names, peer),
    }
}

fn name(names: &[String], peer: PeerId) -> &str {
    names.get(usize::from(peer.0)).map_or("", String::as_str)
}
