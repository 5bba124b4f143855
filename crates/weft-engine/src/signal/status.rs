//! How signalling stands, for people and machines.

use super::{Grant, Offer, Room};
use crate::node::Engine;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use weft_units::{Duration, Instant, PeerId, Rate};
use weft_wire::ip::FlowKey;

/// Flows listed at most.
const FLOWS_SHOWN: usize = 64;

/// Counters since signalling began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SignalTotals {
    /// Flows this node asked for.
    pub asked: u64,
    /// Grants told, renewals with another rate too.
    pub granted: u64,
    /// Requests that were rejected, and grants that were taken back.
    pub refused: u64,
    /// Flows for which no answer came.
    pub given_up: u64,
    /// Signals whose tag was wrong: they were left alone.
    pub forged: u64,
    /// Quick-Start requests granted, lowered ones too.
    pub quick_start_granted: u64,
    /// Quick-Start requests refused.
    pub quick_start_refused: u64,
    /// Quick-Start requests answered for hosts here.
    pub quick_start_answered: u64,
}

/// A flow that is signalled on behalf of a host here.
#[derive(Clone, PartialEq, Debug)]
pub struct SignalFlow {
    /// Its packets' five-tuple.
    pub flow: FlowKey,
    /// The peer it goes to.
    pub peer: PeerId,
    /// The rule this node asks for it by; `None`: the other end asked.
    pub rule: Option<String>,
    /// What is granted, and for how long unless it is renewed.
    pub grant: Option<(Rate, Duration)>,
}

/// What a peer's bundle has granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignalPeer {
    /// The peer.
    pub peer: PeerId,
    /// What is granted from: nothing before the paths' controllers know.
    pub capacity: Rate,
    /// Granted to flows that are signalled here, in all.
    pub granted: Rate,
    /// Guaranteed, to whomever.
    pub guaranteed: Rate,
}

/// How signalling stands.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SignalStatus {
    /// Counters.
    pub totals: SignalTotals,
    /// Flows signalled here,
    pub flows: usize,
    /// and some of them.
    pub shown: Vec<SignalFlow>,
    /// The peers.
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
    /// How signalling stands; `None` where it is not wanted.
    pub fn signal_status(&self, now: Instant) -> Option<SignalStatus> {
        let offers = self.peers.iter().map(|peer| (peer.id, peer.offer()));
        self.signal.room().map(|room| room.status(now, offers))
    }
}
