//! Rules for packets that cannot leave because the scheduler holds them, and for packets that are too old.
//!
//! While bulk is held, no round ends. Time is then used in place of rounds, as in
//! [`weft_core::queue::fq_codel::FqCodel::on_hold`].

use super::flows::FlowPlace;
use super::{Port, SelectedBy};
use weft_core::queue::{Arrival, Expiry};
use weft_units::{Duration, Instant};

/// Time without a departure of an old flow after which the rounds are regarded as stalled.
///
/// Tuned, as in FQ-CoDel: in steady state a scheduler holds bulk back for 5 ms, or for a packet's time at 1 Mbit/s. A
/// sparse flow can bear a delay of 20 ms.
const STALLED_AFTER: Duration = Duration::from_millis(20);
/// Time after which a flow, or a user, may be new again while no round ends.
///
/// Derived: one quantum (RFC 8290) each 100 ms is 121 kbit/s. A G.711 call needs 87 kbit/s with headers.
const NEW_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Interval between searches for flows to renew while no round ends.
const RENEW_EVERY: Duration = Duration::from_millis(5);
/// Time for which a flow within its guarantee lets other flows go first, because its packet cannot leave now.
///
/// Tuned: a tenth of the least delay variance of a built-in class (10 ms for voice).
const HELD_FOR: Duration = Duration::from_millis(1);
/// Least age of a flow's first waiting packet before a newer packet of the flow may replace its last one.
///
/// Tuned: below 1 ms, one batch from the TUN device would look like a queue.
const WAITS_AFTER: Duration = Duration::from_millis(1);

impl<T> Port<T> {
    /// Records that the selected packet cannot leave now. Returns true if another packet can be selected.
    ///
    /// The caller calls this when it could send a packet of a sparse flow. A flow within its guarantee lets others go
    /// first for 1 ms. A new flow becomes old. If old flows have been held for a while, thin flows become new again: a
    /// flow with at most one quantum of backlog that last became new at least 100 ms ago.
    pub fn on_hold(&mut self, now: Instant) -> bool {
        match self.selected {
            Some((id, SelectedBy::Deadline)) => self.hold_guaranteed(now, id),
            Some((id, SelectedBy::NewFlow)) => {
                self.selected = None;
                self.flows[id as usize].is_within_quantum = false;
                self.move_to(id, FlowPlace::Old);
                true
            }
            Some((_, SelectedBy::OldFlow)) => self.renew_thin(now),
            None => false,
        }
    }

    /// Moves the flow of the selected packet behind all other flows.
    ///
    /// The flow keeps its remaining deficit. Returns false if no packet is selected or no other flow has a backlog.
    pub fn pass_over(&mut self) -> bool {
        let Some((id, by)) = self.selected.filter(|_| self.backlogged > 1) else { return false };
        if by == SelectedBy::Deadline {
            return self.hold_guaranteed(self.selected_at, id);
        }
        self.selected = None;
        self.move_to(id, FlowPlace::Old);
        self.rounds.postpone(self.flows[id as usize].lane);
        true
    }

    /// Lets other flows go before a flow within its guarantee. Returns false if no other flow can be selected.
    fn hold_guaranteed(&mut self, now: Instant, id: u32) -> bool {
        if self.ready.first().is_none() {
            return false;
        }
        self.selected = None;
        self.ready.clear(id);
        self.later.set(id, now + HELD_FOR);
        self.backlogged > 1
    }

    fn renew_thin(&mut self, now: Instant) -> bool {
        if now - self.old_left_at < STALLED_AFTER || now < self.renew_at {
            return false;
        }
        self.renew_at = now + RENEW_EVERY;
        let mut is_any = false;
        for lane in 0..self.rounds.lanes.len() as u32 {
            is_any |= self.renew_lane(now, lane);
        }
        if is_any {
            self.selected = None;
        }
        is_any
    }

    /// Makes a lane's thin old flows new again, and lets the lane be served in this round.
    ///
    /// A lane has the flows of one user and delay priority. A flow is thin if at most one quantum waits. Returns true
    /// if the lane will be served in this round.
    fn renew_lane(&mut self, now: Instant, lane: u32) -> bool {
        let (quantum, mut id) = (u64::from(self.config.quantum_bytes), self.rounds.lanes[lane as usize].old.first());
        while let Some(flow) = self.flows.get(id as usize) {
            let (next, is_thin) = (flow.links.next(), flow.fifo.exposed_bytes <= quantum);
            if flow.fifo.exposed > 0 && is_thin && now - flow.new_since >= NEW_AGAIN_AFTER {
                self.renew(now, id);
            }
            id = next;
        }
        let lists = &self.rounds.lanes[lane as usize];
        let (user, has_new) = (lists.user, !lists.new.is_empty());
        if !has_new || now - self.rounds.user_mut(user).renewed_at < NEW_AGAIN_AFTER {
            return false;
        }
        self.rounds.renew(now, lane);
        true
    }

    /// Drops each packet whose [`Expiry`] has passed, and passes it to `dropped`.
    ///
    /// It looks at every flow. Call it during outages, not for each packet.
    pub fn expire(&mut self, now: Instant, expiry: &impl Fn(&T) -> Expiry, dropped: &mut impl FnMut(T)) {
        for id in 0..self.flows.len() as u32 {
            self.expire_flow(now, id, expiry, dropped);
        }
    }

    /// Drops a flow's expired packets from its head. The packets wait in order of age, so the head expires first.
    fn expire_flow(&mut self, now: Instant, id: u32, expiry: &impl Fn(&T) -> Expiry, dropped: &mut impl FnMut(T)) {
        loop {
            let fifo = self.flows[id as usize].fifo;
            let Some(item) = self.packets.get(fifo.head).and_then(|head| head.item.as_ref()) else { return };
            let Expiry { superseded_at, useless_at } = expiry(item);
            if now < if fifo.head == fifo.tail { useless_at } else { superseded_at } {
                return;
            }
            self.deselect(id);
            self.counters.dropped_stale += 1;
            self.remove_head(id).and_then(|packet| packet.item).into_iter().for_each(&mut *dropped);
        }
    }

    /// Replaces the last packet of the arrival's flow with `item`.
    ///
    /// The flow's first packet must have waited for at least 1 ms, and `is_superfluous` must return true for the
    /// replaced packet. The new packet inherits the age of the old one. The first packet of a flow is never replaced.
    ///
    /// # Errors
    ///
    /// Returns `item` itself if it replaced nothing.
    pub fn replace_last(
        &mut self,
        now: Instant,
        arrival: Arrival,
        item: T,
        is_superfluous: impl FnOnce(&T) -> bool,
    ) -> Result<T, T> {
        let Arrival { flow, bytes, ecn_capable } = arrival;
        let Some(flow) = self.flows.get_mut(usize::from(flow.0)) else { return Err(item) };
        let waits = self.packets.get(flow.fifo.head).is_some_and(|head| now.since(head.since) >= WAITS_AFTER);
        if !waits || flow.fifo.head == flow.fifo.tail {
            return Err(item);
        }
        let (before, exposed_before) = (flow.fifo.bytes, flow.fifo.exposed_bytes);
        let replaced = self.packets.replace_tail(&mut flow.fifo, item, (bytes, ecn_capable), is_superfluous)?;
        self.load.on_backlog(flow.class, flow.fifo.bytes as i64 - before as i64, 0);
        let user = self.rounds.user_mut(flow.user);
        user.exposed_bytes = user.exposed_bytes - exposed_before + flow.fifo.exposed_bytes;
        self.counters.replaced += 1;
        Ok(replaced)
    }
}
