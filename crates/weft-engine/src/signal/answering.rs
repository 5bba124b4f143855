//! Flows for which remote nodes request rates, toward hosts behind this node.
//!
//! The module keeps the answers to send, and the grants of the reverse direction.

use super::GrantChange;
use super::asking::{IDLE, MAX_FLOWS};
use crate::api::Grant;
use hashbrown::HashMap;
use weft_core::explicit_rate::exchange::{TAKES_ALL, explicit_rate, respond};
use weft_core::flow::hash::SeededState;
use weft_units::{Duration, Instant, PeerId};
use weft_wire::er_sig::{Message, Rates, Signal};
use weft_wire::ip::FlowKey;

/// Assumed RTT of the reverse direction until it is measured.
const ROUND_TRIP: Duration = Duration::from_millis(100);

/// Signalling state of one flow for which a remote node requests a rate.
pub(super) struct Answer {
    pub(super) peer: PeerId,
    pub(super) grant: Option<Grant>,
    /// Answer that waits for a packet to carry it.
    ///
    /// Each signalling node lowers the QTTL field of a signal like the TTL of its packet. Here the field holds the
    /// difference of TTL and QTTL with which the request arrived.
    due: Option<Signal>,
    nonce: u32,
    /// Rates for the reverse direction that this node granted in the answer.
    offered: Rates,
    answered_at: Instant,
    used_at: Instant,
    round_trip: Duration,
}

impl Answer {
    /// Returns the answer for a packet that leaves with the TTL `ttl`, if an answer is due.
    pub(super) fn say(&mut self, now: Instant, ttl: u8) -> Option<Signal> {
        let due = self.due.take()?;
        self.answered_at = now;
        Some(Signal { qttl: ttl.wrapping_sub(due.qttl), ..due })
    }

    /// Records the rates for the reverse direction that the leaving answer contains.
    pub(super) fn offer(&mut self, signal: &Signal) {
        self.offered = signal.reverse;
    }

    /// Handles the requesting node's confirmation. Returns the change of the grant, if it must be reported.
    ///
    /// The rate is granted to `flow`, the reverse direction. `most` is the highest rate that the paths can carry now.
    fn on_confirm(&mut self, now: Instant, flow: FlowKey, signal: &Signal, most: Rates) -> Option<GrantChange> {
        self.round_trip = (self.round_trip * 7 + (now - self.answered_at)) / 8;
        let granted = Rates {
            available: signal.reverse.available.min(self.offered.available).min(most.available),
            guaranteed: signal.reverse.guaranteed.min(self.offered.guaranteed).min(most.guaranteed),
        };
        let rate = explicit_rate(granted).unwrap_or_default();
        super::renew(&mut self.grant, now, flow, Grant::of(now, flow, rate, self.round_trip))
    }
}

/// All flows with remote requests, by the five-tuple of the packets that carry the answers.
pub(super) struct Answering {
    flows: HashMap<FlowKey, Answer, SeededState>,
}

impl Answering {
    pub(super) fn new(seed: u64) -> Answering {
        Answering { flows: HashMap::with_hasher(SeededState::new(seed)) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    pub(super) fn get_mut(&mut self, flow: &FlowKey) -> Option<&mut Answer> {
        self.flows.get_mut(flow)
    }

    pub(super) fn contains(&self, flow: &FlowKey) -> bool {
        !self.flows.is_empty() && self.flows.contains_key(flow)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&FlowKey, &Answer)> {
        self.flows.iter()
    }

    /// Handles a signal of a requesting node. Returns the change of the grant: `Some(None)` if there is none.
    ///
    /// Returns `None` if the table of flows is full. `difference` is the packet's TTL minus the signal's QTTL, a field
    /// that signalling nodes lower like the TTL. `back` is the five-tuple of the reverse direction. `most` is the rate
    /// that the paths toward the requesting node can carry now.
    pub(super) fn on_signal(
        &mut self,
        now: Instant,
        back: FlowKey,
        peer: PeerId,
        (signal, difference): (&Signal, u8),
        most: Rates,
    ) -> Option<Option<GrantChange>> {
        let is_request = matches!(signal.message, Message::Request | Message::Update | Message::Reject);
        if self.flows.len() >= MAX_FLOWS && !self.flows.contains_key(&back) {
            return None;
        }
        if is_request {
            let answer = self.flows.entry(back).or_insert(Answer {
                peer,
                grant: None,
                due: None,
                nonce: signal.nonce,
                offered: Rates::default(),
                answered_at: now,
                used_at: now,
                round_trip: ROUND_TRIP,
            });
            (answer.nonce, answer.used_at) = (signal.nonce, now);
            // A signal that is a reject has no answer of its own: it is returned to the requesting node.
            answer.due = respond(signal, TAKES_ALL, difference).or(Some(Signal { qttl: difference, ..*signal }));
            return Some(None);
        }
        let Some(answer) = self.flows.get_mut(&back).filter(|answer| answer.nonce == signal.nonce) else {
            return Some(None);
        };
        answer.used_at = now;
        match signal.message {
            Message::Confirm => Some(answer.on_confirm(now, back, signal, most)),
            Message::Release => {
                let was = self.flows.remove(&back).and_then(|answer| answer.grant);
                Some(was.map(|_| GrantChange::Withdrawn(back)))
            }
            _ => Some(None),
        }
    }

    /// Forgets idle flows, and reports grants that end.
    pub(super) fn expire(&mut self, now: Instant, change: &mut impl FnMut(GrantChange)) {
        self.flows.retain(|flow, answer| {
            if answer.grant.take_if(|grant| grant.ends <= now).is_some() {
                change(GrantChange::Withdrawn(*flow));
            }
            now - answer.used_at < IDLE
        });
    }

    /// Forgets all flows, and reports to `change` each grant that ends by this.
    pub(super) fn clear(&mut self, change: &mut impl FnMut(GrantChange)) {
        for (flow, answer) in self.flows.drain() {
            if answer.grant.is_some() {
                change(GrantChange::Withdrawn(flow));
            }
        }
    }
}
