//! Flows that this node asks for on behalf of its hosts.

use super::Change;
use super::grant::Grant;
use hashbrown::HashMap;
use weft_core::explicit_rate::exchange::{Initiator, Wish};
use weft_core::flow::hash::SeededState;
use weft_units::{Duration, Instant, PeerId};
use weft_wire::er_sig::{Message, Rates, Signal};
use weft_wire::ip::FlowKey;

/// Flows at most; those beyond are plain.
pub(super) const MAX_FLOWS: usize = 4_096;
/// A flow without packets for so long is forgotten.
pub(super) const IDLE: Duration = Duration::from_secs(30);

/// What an answer may well take that comes from beyond the tunnel, before it is known.
const ROUND_TRIP_AT_FIRST: Duration = Duration::from_millis(100);
/// A longer round trip is one in which something was lost.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(2);

/// One of them.
pub(super) struct Asked {
    pub(super) peer: PeerId,
    pub(super) rule: usize,
    pub(super) grant: Option<Grant>,
    initiator: Initiator,
    /// The TTL less the QTTL of all its requests, drawn by chance: an answer to whichever is an answer.
    difference: u8,
    round_trip: Duration,
    /// Since when an answer is waited for,
    waits_since: Option<Instant>,
    /// and whether it was asked for again, so that nobody knows what it answers (Karn).
    is_repeated: bool,
    used_at: Instant,
    /// What this node's own paths left of the last request: who answers more is not believed.
    offered: Rates,
}

impl Asked {
    /// The signal for a packet that leaves now, if one is due.
    pub(super) fn say(&mut self, now: Instant, ttl: u8) -> Option<Signal> {
        self.used_at = now;
        let qttl = ttl.wrapping_sub(self.difference);
        let signal = self.initiator.on_packet(now, ttl, qttl, self.round_trip)?;
        if matches!(signal.message, Message::Request | Message::Update) {
            self.is_repeated = self.waits_since.replace(now).is_some();
        }
        Some(signal)
    }

    /// Its own request leaves with so much.
    pub(super) fn offer(&mut self, signal: &Signal) {
        if matches!(signal.message, Message::Request | Message::Update) {
            self.offered = signal.forward;
        }
    }

    /// Whether it is plain, and asks now and then at most.
    pub(super) fn has_given_up(&self) -> bool {
        self.initiator.has_given_up()
    }

    /// An answer came in a packet with this TTL less the structure's; `most` is what the paths here can carry now.
    pub(super) fn on_answer(
        &mut self,
        now: Instant,
        flow: FlowKey,
        signal: &Signal,
        difference: u8,
        most: Rates,
    ) -> Option<Change> {
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
            // It was lost, or asked again too early.
            (true, _) => self.round_trip * 9 / 8,
            (false, None) => measured,
            // What is too short would have it ask twice before the answer can be there.
            (false, Some(_)) => measured.max((self.round_trip * 7 + measured) / 8),
        };
        next.min(ROUND_TRIP_MAX)
    }
}

/// All of them, by the five-tuple of their packets.
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

    /// The mean round trip of the flows that were answered.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        let (mut sum, mut count) = (Duration::ZERO, 0);
        for asked in self.flows.values().filter(|asked| asked.grant.is_some()) {
            (sum, count) = (sum + asked.round_trip, count + 1);
        }
        (count > 0).then(|| sum / count)
    }

    /// Begins to ask for a flow, if there is room; `tunnel` is the round trip as far as the peer.
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
            initiator: Initiator::new(wish, drawn as u32),
            difference: (drawn >> 32) as u8,
            round_trip: tunnel.max(ROUND_TRIP_AT_FIRST),
            waits_since: None,
            is_repeated: false,
            used_at: now,
            offered: Rates::default(),
        };
        Some(self.flows.entry(flow).or_insert(asked))
    }

    /// A flow ends: what is to be said, and what was granted.
    pub(super) fn end(&mut self, flow: &FlowKey, ttl: u8) -> Option<(Option<Signal>, Option<Grant>)> {
        let mut asked = self.flows.remove(flow)?;
        Some((asked.initiator.release(ttl.wrapping_sub(asked.difference)), asked.grant))
    }

    /// Forgets flows without packets, and tells of grants that end.
    pub(super) fn expire(&mut self, now: Instant, change: &mut impl FnMut(Change)) {
        self.flows.retain(|flow, asked| {
            if asked.grant.take_if(|grant| grant.ends <= now).is_some() {
                change(Change::Withdrawn(*flow));
            }
            now - asked.used_at < IDLE
        });
    }

    /// Forgets all.
    pub(super) fn clear(&mut self, change: &mut impl FnMut(Change)) {
        for (flow, asked) in self.flows.drain() {
            if asked.grant.is_some() {
                change(Change::Withdrawn(flow));
            }
        }
    }
}
