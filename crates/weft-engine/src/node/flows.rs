//! Flow state, as the program configures it and reads it.

use super::Engine;
use crate::api::{FlowTotals, FlowView, FlowsConfig, PortView, UserView};
use crate::flows::route_of;
use crate::peer::Peer;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;
use weft_flows::UserId;
use weft_flows::port::PortLoad;
use weft_flows::router::{FlowRouter, user_text};
use weft_flows::rules::RuleFault;
use weft_flows::table::{FlowCursor, FlowRecord, FlowRef};
use weft_units::{Instant, PeerId, Rate, VpnId};
use weft_wire::ip::FlowKey;

/// Number of flow table entries that one step of a listing examines. *Tuned*: a step takes less than a millisecond.
const SLICE: u32 = 4_096;

/// A listing of the flow table that is made in steps, so that a large table delays no packet.
#[derive(Debug)]
pub struct FlowListing {
    cursor: FlowCursor,
    most: usize,
    top: Vec<(Reverse<u64>, FlowRef)>,
    users: BTreeMap<UserId, UserView>,
}

impl FlowListing {
    /// Returns the beginning of a listing of the `most` flows with the highest rates, and of all users.
    pub fn new(most: usize) -> FlowListing {
        FlowListing { cursor: FlowCursor::default(), most: most.max(1), top: Vec::new(), users: BTreeMap::new() }
    }
}

impl Engine {
    /// Starts, changes or stops (`None`) the flow-state router.
    pub fn set_flows(&mut self, now: Instant, config: Option<FlowsConfig>) -> Result<(), Vec<RuleFault>> {
        let flows = &mut self.hosts.flows;
        let Some(FlowsConfig { own_name, router, port }) = config else {
            flows.router = None;
            self.hosts.port = None;
            for index in 0..self.peers.len() {
                self.with_peer(now, index, |p, cx| p.set_port(cx, None));
            }
            return Ok(());
        };
        match &mut flows.router {
            Some(before) => before.reconfigure(router)?,
            None => flows.router = Some(Box::new(FlowRouter::new(router, self.rng.next_u64())?)),
        }
        flows.set_names(&own_name, self.peers.iter().map(|peer| peer.config.name.clone()));
        for index in 0..self.peers.len() {
            self.with_peer(now, index, |p, cx| p.set_port(cx, Some(port)));
        }
        self.hosts.port = Some(port);
        Ok(())
    }

    /// Removes and returns the oldest flow record that waits for export.
    pub fn take_flow_record(&mut self) -> Option<FlowRecord> {
        self.hosts.flows.take_record()
    }

    /// Ends some thousand flows and makes their last records. Returns false when no flow is left.
    ///
    /// The caller takes these records before the next call.
    pub fn end_flows(&mut self, now: Instant) -> bool {
        self.hosts.flows.end_some(now)
    }

    /// Returns the peers behind which the initiator and the responder of a flow lie, or `None` for hosts here.
    pub fn flow_peers(&self, record: &FlowRecord) -> [Option<PeerId>; 2] {
        let vpn = self.vpns.get(record.vpn);
        [record.key.src, record.key.dst].map(|end| vpn?.route(end))
    }

    /// Returns the counters of the flow table; `None` without flow state.
    pub fn flow_totals(&self) -> Option<FlowTotals> {
        let (table, flows) = self.hosts.flows.router.as_ref()?.counters();
        Some(FlowTotals { flows, table, lost_records: self.hosts.flows.lost_records() })
    }

    /// Returns the flow-state router, if it is configured.
    pub fn flow_router(&self) -> Option<&FlowRouter> {
        self.hosts.flows.router.as_deref()
    }

    /// Continues a listing by some thousand entries of the flow table. Returns false at its end.
    pub fn continue_listing(&self, now: Instant, listing: &mut FlowListing) -> bool {
        let Some(router) = self.hosts.flows.router.as_deref() else { return false };
        let FlowListing { cursor, most, top, users } = listing;
        router.list(now, cursor, SLICE, &mut |flow, record| {
            let bps = record.achieved.iter().map(|rate| rate.bps()).sum::<u64>();
            let user = users.entry(record.user).or_default();
            user.flows += 1;
            user.bytes += record.total.iter().map(|tally| tally.bytes).sum::<u64>();
            user.rate = Rate::from_bps(user.rate.bps() + bps);
            top.push((Reverse(bps), flow));
            if top.len() >= 2 * *most {
                top.select_nth_unstable_by_key(*most - 1, |(bps, _)| *bps);
                top.truncate(*most);
            }
        })
    }

    /// Returns the flows of a complete listing and the users that have flows, both by falling rate.
    pub fn finish_listing(&self, now: Instant, mut listing: FlowListing) -> (Vec<FlowView>, Vec<UserView>) {
        let Some(router) = self.hosts.flows.router.as_deref() else { return (Vec::new(), Vec::new()) };
        listing.top.sort_by_key(|(bps, _)| *bps);
        let top = listing.top.into_iter().take(listing.most).filter_map(|(_, flow)| router.get(now, flow));
        let named = |(user, view): (UserId, UserView)| UserView {
            name: self.user_name(user),
            weight: router.user(user).1,
            ..view
        };
        let mut users: Vec<UserView> = listing.users.into_iter().map(named).collect();
        users.sort_by_key(|user| Reverse(user.rate));
        (top.map(|record| self.flow_view(record)).collect(), users)
    }

    /// Returns the flow to which packets of this VPN and key belong, if the flow table has it.
    pub fn find_flow(&mut self, now: Instant, vpn: VpnId, key: &FlowKey) -> Option<FlowView> {
        let router = self.hosts.flows.router.as_mut()?;
        let flow = router.find(now, vpn, key)?;
        let record = router.get(now, flow)?;
        Some(self.flow_view(record))
    }

    /// Returns the state of the ports to all peers.
    pub fn port_views(&self, now: Instant) -> Vec<PortView> {
        let Some(router) = self.hosts.flows.router.as_deref() else { return Vec::new() };
        let admission = &self.hosts.flows.admission;
        let class_name = |id| router.classes().get(id).map_or(String::new(), |class| class.name.clone());
        let view = |peer: &Peer| {
            // Where VPNs have queues of their own, guarantees are admitted as usual, but no port measures a load.
            peer.ingress.port.as_ref()?;
            let (port, route) = (peer.ingress.queue.port(), route_of(peer.id));
            Some(PortView {
                peer: peer.config.name.clone(),
                reservable: admission.capacity(route),
                guaranteed: admission.granted(route),
                capacity: peer.carried(now),
                load: port.map_or(PortLoad::NONE, |port| port.load()),
                classes: port.map_or_else(Vec::new, |port| {
                    port.class_loads().map(|(id, load)| (class_name(id), load)).collect()
                }),
                policed: port.map_or(0, |port| port.policing().marked + port.policing().dropped),
            })
        };
        self.peers.iter().filter_map(view).collect()
    }

    fn flow_view(&self, record: FlowRecord) -> FlowView {
        let router = self.hosts.flows.router.as_deref();
        let class = router.and_then(|router| router.classes().get(record.granted.class));
        FlowView {
            rule: router.and_then(|router| router.rule_name(&record)).map(ToString::to_string),
            class: class.map_or(String::new(), |class| class.name.clone()),
            user: self.user_name(record.user),
            verdict: router.map(|router| router.verdict(&record)).unwrap_or_default(),
            peer: self.peer_of(&record).map(ToString::to_string),
            record,
        }
    }

    /// Returns the name of the peer behind which the flow's responder lies, else of the peer behind the initiator.
    fn peer_of(&self, record: &FlowRecord) -> Option<&str> {
        let vpn = self.vpns.get(record.vpn)?;
        let peer = vpn.route(record.key.dst).or_else(|| vpn.route(record.key.src))?;
        self.peer_name(peer)
    }

    fn user_name(&self, user: UserId) -> String {
        let Some(router) = self.hosts.flows.router.as_deref() else { return String::new() };
        user_text(router.user(user).0, |name| router.rules().names().name(name).map(ToString::to_string))
    }
}
