//! Service of packets without a guarantee: users in rounds, flows within a user as in FQ-CoDel.

use super::flows::FlowPlace;
use super::{MIN_QUANTUM, Port, SelectedBy};
use weft_core::queue::QueueConfig;
use weft_core::queue::codel::CodelParams;
use weft_units::{Duration, Instant};

/// Returns CoDel's parameters for a flow of a user with `flows` flows.
///
/// The configured target lets one loss-based sender keep its user's share full. Senders that lose packets at different
/// times keep it full together with a queue that is shorter by the square root of their number (Appenzeller, Keslassy,
/// McKeown, "Sizing router buffers", SIGCOMM 2004). The interval is shorter by the same factor. It is at least the
/// configured target, which is half a round trip or longer, and the time for which the flow's first packet has
/// `waited`, because a drop shows no effect sooner.
fn shared_params(config: &QueueConfig, flows: u32, waited: Duration) -> CodelParams {
    // The root has four fraction bits.
    let root = (flows.clamp(1, 1 << 16) << 8).isqrt();
    let shared = |time: Duration| time * 16 / root;
    CodelParams {
        target: shared(config.target),
        interval: shared(config.interval).max(config.target).max(waited).min(config.interval),
        mtu_bytes: config.quantum_bytes,
    }
}

impl<T> Port<T> {
    /// Returns the flow whose packet leaves next by its user's share, and the rule that selected it.
    ///
    /// A packet within a guarantee goes first if it has become ready meanwhile.
    pub(super) fn next_in_shares(&mut self, now: Instant, dropped: &mut impl FnMut(T)) -> Option<(u32, SelectedBy)> {
        loop {
            let lane = self.rounds.next()?;
            let Some((id, place)) = self.next_flow(lane) else {
                self.rounds.withdraw(lane);
                continue;
            };
            self.drop_condemned(now, id, dropped);
            // CoDel may have dropped all packets before one that a guarantee covers. That packet may leave now.
            if let Some((_, ready)) = self.ready.first() {
                return Some((ready, SelectedBy::Deadline));
            }
            if self.flows[id as usize].fifo.exposed > 0 {
                let by = if place == FlowPlace::New { SelectedBy::NewFlow } else { SelectedBy::OldFlow };
                return Some((id, by));
            }
            self.leave_empty(id, place);
        }
    }

    /// Returns the first flow of a lane with a positive deficit, and its list, or `None` if the lane has no packets.
    ///
    /// New flows go before old ones. A lane has the flows of one user and delay priority. The method is deficit round
    /// robin.
    fn next_flow(&mut self, lane: u32) -> Option<(u32, FlowPlace)> {
        loop {
            let lane = &self.rounds.lanes[lane as usize];
            let (id, place) = match lane.new.is_empty() {
                true => (lane.old.first(), FlowPlace::Old),
                false => (lane.new.first(), FlowPlace::New),
            };
            let flow = self.flows.get_mut(id as usize)?;
            if flow.fifo.exposed == 0 {
                self.leave_empty(id, place);
                continue;
            }
            if flow.deficit > 0 {
                return Some((id, place));
            }
            flow.deficit += i64::from(self.config.quantum_bytes.max(MIN_QUANTUM));
            flow.is_within_quantum = false;
            self.move_to(id, FlowPlace::Old);
        }
    }

    /// Drops or marks the packets that CoDel rejects at the head of a flow. A packet within a guarantee always stays.
    fn drop_condemned(&mut self, now: Instant, id: u32, dropped: &mut impl FnMut(T)) {
        let sharing = self.rounds.user_mut(self.flows[id as usize].user).exposed_flows;
        loop {
            let flow = &mut self.flows[id as usize];
            let Some(head) = self.packets.get_mut(flow.fifo.head) else { return flow.codel.idle() };
            let waited = now.since(head.since);
            let params = shared_params(&self.config, sharing, waited);
            if head.marked || !head.is_exposed || !flow.codel.condemns(now, waited, flow.fifo.bytes, &params) {
                return;
            }
            if head.ecn_capable {
                head.marked = true;
                self.counters.marked += 1;
                return;
            }
            self.counters.dropped_aqm += 1;
            if let Some(item) = self.remove_head(id).and_then(|packet| packet.item) {
                dropped(item);
            }
        }
    }

    /// Puts a flow that received a packet for its user's share into the list of its lane.
    ///
    /// A lane has the flows of one user and delay priority. A flow in no list becomes new. So does an old one that has
    /// not used up the quantum that it received when it last became new. Without the second rule, a flow that sends
    /// little but more than once a round would sometimes wait behind all old flows.
    pub(super) fn activate(&mut self, now: Instant, id: u32) {
        let flow = &self.flows[id as usize];
        match flow.place {
            FlowPlace::None => self.renew(now, id),
            FlowPlace::Old if flow.fifo.exposed == 1 && flow.is_within_quantum && flow.deficit > 0 => {
                self.move_to(id, FlowPlace::New);
            }
            _ => {}
        }
    }

    /// Makes a flow new, with a full quantum.
    pub(super) fn renew(&mut self, now: Instant, id: u32) {
        let flow = &mut self.flows[id as usize];
        (flow.deficit, flow.is_within_quantum) = (i64::from(self.config.quantum_bytes.max(MIN_QUANTUM)), true);
        flow.new_since = now;
        self.move_to(id, FlowPlace::New);
    }

    /// Moves a new flow that ran empty to the old flows for one round (RFC 8290 §4.2).
    ///
    /// Otherwise it would be new again at once.
    fn leave_empty(&mut self, id: u32, place: FlowPlace) {
        let has_others = !self.rounds.lanes[self.flows[id as usize].lane as usize].old.is_empty();
        self.flows[id as usize].codel.idle();
        self.move_to(id, if place == FlowPlace::New && has_others { FlowPlace::Old } else { FlowPlace::None });
    }

    /// Moves a flow to the end of the list `place` of its lane, which has the flows of one user and delay priority.
    pub(super) fn move_to(&mut self, id: u32, place: FlowPlace) {
        let number = self.flows[id as usize].lane;
        let lane = &mut self.rounds.lanes[number as usize];
        match self.flows[id as usize].place {
            FlowPlace::New => lane.new.remove(&mut self.flows, id),
            FlowPlace::Old => lane.old.remove(&mut self.flows, id),
            FlowPlace::None => {}
        }
        match place {
            FlowPlace::New => lane.new.push(&mut self.flows, id),
            FlowPlace::Old => lane.old.push(&mut self.flows, id),
            FlowPlace::None => {}
        }
        self.flows[id as usize].place = place;
        if place != FlowPlace::None {
            self.rounds.admit(number, place == FlowPlace::New);
        }
    }
}
