//! Flows for which this node requests rates on behalf of its hosts.

use super::GrantChange;
use crate::api::Grant;
use hashbrown::HashMap;
use weft_core::explicit_rate::exchange::{RateInitiator, Wish};
use weft_core::flow::hash::SeededState;
use weft_units::{Duration, Instant, PeerId};
use weft_wire::er_sig::{Message, Rates, Signal};
use weft_wire::ip::FlowKey;

/// Maximum number of flows for which this node requests rates. Further flows get no signalling.
pub(super) const MAX_FLOWS: usize = 4_096;
/// Time without packets after which a flow is forgotten.
pub(super) const IDLE: Duration = Duration::from_secs(30);

/// Assumed RTT between the peer and the destination, before it is measured.
const ROUND_TRIP_AT_FIRST: Duration = Duration::from_millis(100);
/// Longest RTT that is accepted as a measurement. If an answer takes longer, a signal was lost.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(2);

/// Signalling state of one flow for which this node requests a rate.
pub(super) struct Asked {
    pub(super) peer: PeerId,
    pub(super) rule: usize,
    pub(super) grant: Option<Grant>,
    initiator: RateInitiator,
    /// Difference of TTL and QTTL in all requests of this flow, drawn at random.
    ///
    /// Signalling nodes lower both fields. An answer must show the same difference, so an answer to any request of the
    /// flow is valid.
    difference: u8,
    round_trip: Duration,
    /// Time since which an answer is outstanding; `None` if none is.
    waits_since: Option<Instant>,
    /// True if the request was repeated.
    ///
    /// The answer then yields no RTT sample (Karn's algorithm).
    is_repeated: bool,
    used_at: Instant,
    /// Rates in the last request as it left this node. Higher rates in an answer are lowered to these.
    offered: Rates,
}

impl Asked {
    /// Returns the signal to add to a packet that leaves now with the TTL `ttl`, if one is due.
    pub(super) fn say(&mut self, now: Instant, ttl: u8) -> Option<Signal> {
        self.used_at = now;
        let qttl = ttl.wrapping_sub(self.difference);
        let signal = self.initiator.on_packet(now, ttl, qttl, self.round_trip)?;
        if matches!(signal.message, Message::Request | Message::Update) {
            self.is_repeated = self.waits_since.replace(now).is_some();
        }
        Some(signal)
    }

    /// Records the rates that the leaving request of the flow contains.
    pub(super) fn offer(&mut self, signal: &Signal) {
        if matches!(signal.message, Message::Request | Message::Update) {
            self.offered = signal.forward;
        }
    }

    /// True if this node has given up requests for the flow, except for rare attempts.
    pub(super) fn has_given_up(&self) -> bool {
        self.initiator.has_given_up()
    }

    /// Handles an answer. Returns the change of the flow's grant, if there is one.
    ///
    /// `difference` is the packet's TTL minus the signal's QTTL, a field that signalling nodes lower like the TTL.
    /// `most` is the rate that the paths can carry now.
    pub(super) fn on_answer(
        &mut self,
        now: Instant,
        flow: FlowKey,
        signal: &Signal,
        difference: u8,
        most: Rates,
    ) -> Option<GrantChange> {
        let least = |a: Rates, b: Rates| Rates {
            available: a.available.min(b.available),
            guaranteed: a.guaranteed.min(b.guaranteed),
        };
        let echoed = least(signal.echoed, least(self.offered, most));
        let granted = self.initiator.on_signal(now, &Signal { echoed, ..*signal }, difference)?;
        if let Some(since) = self.waits_since.take() {
            self.round_trip = self.next_round_trip(now - since);
        }
        let rate = weft_core::explicit_rate::exchange::explicit_rate(granted).unwrap_or_default();
        super::renew(&mut self.grant, now, flow, Grant::of(now, flow, rate, self.round_trip))
    }

    fn next_round_trip(&self, measured: Duration) -> Duration {
        let next = match (self.is_repeated, self.grant) {
            // The first request was lost, or it was repeated before its answer arrived. No RTT can be measured then,
            // so the assumed one rises in case it was too short.
            (true, _) => self.round_trip * 9 / 8,
            (false, None) => measured,
            // With too short an RTT, the request would be repeated before the answer can arrive.
            (false, Some(_)) => measured.max((self.round_trip * 7 + measured) / 8),
        };
        next.min(ROUND_TRIP_MAX)
    }
}

/// All flows for which this node requests rates, by five-tuple.
pub(super) struct Asking {
    flows: HashMap<FlowKey, Asked, SeededState>,
}

impl Asking {
    pub(super) fn new(seed: u64) -> Asking {
        Asking { flows: HashMap::with_hasher(SeededState::new(seed)) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    pub(super) fn get_mut(&mut self, flow: &FlowKey) -> Option<&mut Asked> {
        self.flows.get_mut(flow)
    }

    pub(super) fn contains(&self, flow: &FlowKey) -> bool {
        !self.flows.is_empty() && self.flows.contains_key(flow)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&FlowKey, &Asked)> {
        self.flows.iter()
    }

    /// Returns the mean RTT over the flows that have a grant, or `None` if none has.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        let (mut sum, mut count) = (Duration::ZERO, 0);
        for asked in self.flows.values().filter(|asked| asked.grant.is_some()) {
            (sum, count) = (sum + asked.round_trip, count + 1);
        }
        (count > 0).then(|| sum / count)
    }

    /// Starts to request a rate for a flow, if the table is not full. `tunnel` is the RTT to the peer.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        flow: FlowKey,
        (peer, rule): (PeerId, usize),
        (wish, drawn): (Wish, u64),
        tunnel: Duration,
    ) -> Option<&mut Asked> {
        if self.flows.len() >= MAX_FLOWS {
            return None;
        }
        let asked = Asked {
            peer,
            rule,
            grant: None,
            initiator: RateInitiator::new(wish, drawn as u32),
            difference: (drawn >> 32) as u8,
            round_trip: tunnel.max(ROUND_TRIP_AT_FIRST),
            waits_since: None,
            is_repeated: false,
            used_at: now,
            offered: Rates::default(),
        };
        Some(self.flows.entry(flow).or_insert(asked))
    }

    /// Ends a flow. Returns the signal to send and the grant that the flow had, or `None` for an unknown flow.
    ///
    /// `ttl` is the TTL of the packet that will carry the signal.
    pub(super) fn end(&mut self, flow: &FlowKey, ttl: u8) -> Option<(Option<Signal>, Option<Grant>)> {
        let mut asked = self.flows.remove(flow)?;
        Some((asked.initiator.release(ttl.wrapping_sub(asked.difference)), asked.grant))
    }

    /// Forgets flows without packets, and reports grants that end.
    pub(super) fn expire(&mut self, now: Instant, change: &mut impl FnMut(GrantChange)) {
        self.flows.retain(|flow, asked| {
            if asked.grant.take_if(|grant| grant.ends <= now).is_some() {
                change(GrantChange::Withdrawn(*flow));
            }
            now - asked.used_at < IDLE
        });
    }

    /// Forgets all flows, and reports to `change` each grant that ends by this.
    pub(super) fn clear(&mut self, change: &mut impl FnMut(GrantChange)) {
        for (flow, asked) in self.flows.drain() {
            if asked.grant.is_some() {
                change(GrantChange::Withdrawn(flow));
            }
        }
    }
}
