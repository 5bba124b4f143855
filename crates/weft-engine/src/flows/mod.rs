//! Flow state: the router of flows and the admission of guarantees, for all peers together.
//!
//! A leaving packet is counted in its flow ([`Flowing::on_leaving`]), an arriving one too ([`Flowing::on_arrived`]). The
//! port to a peer learns what a flow was granted from [`Flowing::standing`].

use crate::units::Origin;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use weft_flows::admission::{AdmissionControl, RouteNo};
use weft_flows::router::{FlowRouter, GrantKey, PacketFacts, Passage, Standing};
use weft_flows::table::{FlowRecord, FlowRef};
use weft_units::{Instant, PeerId, Rate, VpnId};
use weft_wire::er_sig::Direction;
use weft_wire::ip::FlowKey;

/// Maximum number of flows that may have a guarantee. Derived: one peer has at most so many flow numbers.
const MOST_GRANTS: usize = 1 << 16;
/// Maximum number of records that wait until the program takes them.
///
/// Derived: at the 200,000 records/s of a busy export, a third of a second.
const MOST_RECORDS: usize = 1 << 16;

/// A packet in the words of this module.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub vpn: VpnId,
    pub key: FlowKey,
    pub dscp: u8,
    pub packets: u32,
    pub bytes: u32,
}

/// Flow state of the node.
pub struct Flowing {
    pub admission: AdmissionControl<GrantKey>,
    /// `None` if no flow state is configured.
    pub router: Option<Box<FlowRouter>>,
    own_name: String,
    /// Names of the peers, by number.
    names: Vec<String>,
    records: Records,
}

/// Records of flows until the program takes them.
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
        let admission = AdmissionControl::new(MOST_GRANTS, seed);
        Flowing { admission, router: None, own_name: String::new(), names: Vec::new(), records: Records::default() }
    }

    /// Sets this node's name and those of its peers, by number.
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

    /// Counts a packet that leaves for `peer`.
    pub fn on_leaving(&mut self, now: Instant, origin: Origin, peer: PeerId, seen: &Seen) -> Passage {
        let Flowing { router: Some(router), own_name, names, records, .. } = self else { return Passage::UNKNOWN };
        let packet = facts(seen, near(origin, own_name, names), name(names, peer));
        router.on_packet(now, &packet, &mut |record| records.push(record))
    }

    /// Returns what the port to `peer` needs to know of a flow. The flow then has asked for its guarantee there.
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

    /// Counts a packet that arrived from `peer` for a host here. Returns its flow.
    pub fn on_arrived(&mut self, now: Instant, peer: PeerId, seen: &Seen) -> Option<(FlowRef, Direction)> {
        let Flowing { router: Some(router), own_name, names, records, .. } = self else { return None };
        let packet = facts(seen, name(names, peer), own_name);
        let passage = router.on_packet(now, &packet, &mut |record| records.push(record));
        Some((passage.flow?, passage.direction))
    }

    /// Counts further packets of a known flow.
    pub fn count(&mut self, (flow, direction): (FlowRef, Direction), bytes: u32) {
        if let Some(router) = &mut self.router {
            router.count(flow, direction, 1, bytes);
        }
    }

    /// Counts a packet of a flow that its port dropped.
    pub fn count_drop(&mut self, flow: Option<FlowRef>) {
        if let (Some(router), Some(flow)) = (&mut self.router, flow) {
            router.count_verdict(flow, false);
        }
    }

    /// Counts a packet of a flow that its port marked.
    pub fn count_mark(&mut self, flow: Option<FlowRef>) {
        if let (Some(router), Some(flow)) = (&mut self.router, flow) {
            router.count_verdict(flow, true);
        }
    }

    /// Sets the rate to `peer` that may be guaranteed.
    pub fn set_reservable(&mut self, peer: PeerId, rate: Rate) {
        let mut events = Vec::new();
        self.admission.set_capacity(route_of(peer), rate, &mut |event| events.push(event));
        if let Some(router) = &mut self.router {
            events.iter().for_each(|event| router.on_admission(event));
        }
    }

    /// Ends flows and guarantees whose time is over.
    pub fn handle_timeout(&mut self, now: Instant) {
        let Flowing { router: Some(router), admission, records, .. } = self else { return };
        if router.next_timeout(now).is_some_and(|at| at <= now) {
            router.expire(now, admission, &mut |record| records.push(record));
        }
    }

    /// Returns the time at which [`Flowing::handle_timeout`] has work to do.
    pub fn next_timeout(&self, now: Instant) -> Option<Instant> {
        self.router.as_ref()?.next_timeout(now)
    }

    /// Ends some flows, and returns false when none is left.
    pub fn end_some(&mut self, now: Instant) -> bool {
        let Flowing { router: Some(router), records, .. } = self else { return false };
        router.end_some(now, &mut |record| records.push(record))
    }

    /// Removes and returns the oldest record that waits.
    pub fn take_record(&mut self) -> Option<FlowRecord> {
        self.records.waiting.pop_front()
    }

    /// Number of records that nobody took in time.
    pub fn lost_records(&self) -> u64 {
        self.records.lost
    }
}

/// Returns the route whose capacity guarantees to a peer take.
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
