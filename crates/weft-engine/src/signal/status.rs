//! State of signalling, for status output and metrics.

use super::{Grant, Offer, Room};
use crate::node::Engine;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use weft_units::{Duration, Instant, PeerId, Rate};
use weft_wire::ip::FlowKey;

/// Most flows that are listed.
const FLOWS_SHOWN: usize = 64;

/// Counters since signalling started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SignalTotals {
    /// Flows for which this node asked.
    pub asked: u64,
    /// Reported grants, including renewals with another rate.
    pub granted: u64,
    /// Rejected requests, and withdrawn grants.
    pub refused: u64,
    /// Flows whose requests got no answer.
    pub given_up: u64,
    /// Signals with a wrong tag, which were left unchanged.
    pub forged: u64,
    /// Quick-Start requests granted, including lowered ones.
    pub quick_start_granted: u64,
    /// Quick-Start requests refused.
    pub quick_start_refused: u64,
    /// Quick-Start requests answered for hosts behind this node.
    pub quick_start_answered: u64,
}

/// A flow that is signalled on behalf of a host behind this node.
#[derive(Clone, PartialEq, Debug)]
pub struct SignalFlow {
    /// The flow's five-tuple.
    pub flow: FlowKey,
    /// The peer to which the flow goes.
    pub peer: PeerId,
    /// The rule by which this node asks. `None`: the remote end asked.
    pub rule: Option<String>,
    /// The granted rate, and the time until it ends unless renewed.
    pub grant: Option<(Rate, Duration)>,
}

/// Grants of a peer's bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignalPeer {
    /// The peer.
    pub peer: PeerId,
    /// Capacity from which rates are granted. Zero until the paths' rates are known.
    pub capacity: Rate,
    /// Total rate granted to flows that are signalled here.
    pub granted: Rate,
    /// Total rate guaranteed to any flow.
    pub guaranteed: Rate,
}

/// State of signalling.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SignalStatus {
    /// Counters since signalling started.
    pub totals: SignalTotals,
    /// Number of flows signalled here.
    pub flows: usize,
    /// Some of those flows.
    pub shown: Vec<SignalFlow>,
    /// State of each peer's bundle.
    pub peers: Vec<SignalPeer>,
}

impl Room {
    fn shown(&self, now: Instant) -> Vec<SignalFlow> {
        let grant = |grant: &Option<Grant>| grant.map(|grant| (grant.rate(), grant.ends - now));
        let rule = |at: usize| self.config.rules.get(at).map(|rule| rule.name.to_string());
        let asked = self.asking.iter().map(|(flow, asked)| SignalFlow {
            flow: *flow,
            peer: asked.peer,
            rule: rule(asked.rule),
            grant: grant(&asked.grant),
        });
        let answered = self.answering.iter().filter(|(_, answer)| answer.grant.is_some());
        let answered = answered.map(|(flow, answer)| SignalFlow {
            flow: *flow,
            peer: answer.peer,
            rule: None,
            grant: grant(&answer.grant),
        });
        let mut flows: Vec<_> = asked.chain(answered).collect();
        flows.sort_unstable_by_key(|flow| flow.flow);
        flows.truncate(FLOWS_SHOWN);
        flows
    }

    pub(super) fn status<'a>(
        &self,
        now: Instant,
        offers: impl Iterator<Item = (PeerId, Option<&'a Offer>)>,
    ) -> SignalStatus {
        let peer = |(peer, offer): (PeerId, Option<&Offer>)| SignalPeer {
            peer,
            capacity: offer.map_or(Rate::ZERO, Offer::capacity),
            granted: Rate::from_bps(self.granted(peer)),
            guaranteed: offer.map_or(Rate::ZERO, Offer::booked),
        };
        SignalStatus {
            totals: self.totals,
            flows: self.asking.iter().count() + self.answering.iter().count(),
            shown: self.shown(now),
            peers: offers.map(peer).collect(),
        }
    }
}

impl Engine {
    /// Returns the state of signalling, or `None` if it is not configured.
    pub fn signal_status(&self, now: Instant) -> Option<SignalStatus> {
        let offers = self.peers.iter().map(|peer| (peer.id, peer.offer()));
        self.signal.room().map(|room| room.status(now, offers))
    }
}
