//! Drops when a limit is reached: from the user with the largest backlog, and in it from the flow with the largest.
//!
//! Only packets that no guarantee covers are counted and dropped. If all packets that wait are covered, the limit is
//! smaller than the guarantees need, and the arriving flow loses its oldest packet.

use super::Port;
use super::list::NIL;

/// At the total limit, this fraction of the number of flows and users is the number of packets dropped at once: 1/16.
///
/// Derived: the search for the largest backlog takes time proportional to the number of flows and users. A batch of
/// drops grows with that number, so the cost per dropped packet stays constant.
const SEARCHED_PER_DROP: u32 = 16;
/// Maximum number of packets dropped at once when the total limit is reached. Standard: RFC 8290 §4.1.
const MAX_DROP_BATCH: u32 = 64;

impl<T> Port<T> {
    /// Drops packets while the limit of the arriving flow or of the port is exceeded.
    pub(super) fn keep_limits(&mut self, id: u32, dropped: &mut impl FnMut(T)) {
        while self.flows[id as usize].fifo.exposed_bytes > u64::from(self.config.flow_limit_bytes)
            && self.flows[id as usize].fifo.exposed > 1
        {
            self.drop_exposed(id, dropped);
        }
        while self.backlog_bytes() > self.config.limit_bytes || self.len() > self.config.limit_units {
            let searched = self.backlogged + self.rounds.user_places() as u32;
            if self.drop_batch((searched / SEARCHED_PER_DROP).clamp(1, MAX_DROP_BATCH), dropped) == 0 {
                self.drop_oldest(id, dropped);
            }
        }
    }

    /// Drops a batch of packets of the user with the largest backlog, to free memory for another queue.
    pub fn shed(&mut self, dropped: &mut impl FnMut(T)) {
        self.drop_batch(MAX_DROP_BATCH, dropped);
    }

    /// Drops up to `most` packets from the user with the largest backlog. Returns the number of packets dropped.
    ///
    /// The user's flow with the largest backlog loses up to half of it (RFC 8290 §4.1). Further packets are dropped
    /// from the user's other flows that have as large a backlog.
    fn drop_batch(&mut self, most: u32, dropped: &mut impl FnMut(T)) -> u32 {
        let Some(user) = self.rounds.fattest_user() else { return 0 };
        let mut bytes = 0;
        self.each_flow(user, |port, id| {
            bytes = bytes.max(port.flows[id as usize].fifo.exposed_bytes);
            true
        });
        let mut left = most;
        self.each_flow(user, |port, id| {
            let is_as_fat = port.flows[id as usize].fifo.exposed_bytes >= bytes;
            while is_as_fat && left > 0 && port.flows[id as usize].fifo.exposed_bytes > bytes / 2 {
                port.drop_exposed(id, dropped);
                left -= 1;
            }
            left > 0
        });
        most - left
    }

    /// Calls `visit` for each flow of a user, until it returns false. `visit` must not move flows between lists.
    fn each_flow(&mut self, user: u32, mut visit: impl FnMut(&mut Port<T>, u32) -> bool) {
        let mut lane = self.rounds.first_lane(user);
        while lane != NIL {
            let lists = &self.rounds.lanes[lane as usize];
            for first in [lists.new.first(), lists.old.first()] {
                let mut id = first;
                while let Some(flow) = self.flows.get(id as usize) {
                    let next = flow.links.next();
                    if !visit(self, id) {
                        return;
                    }
                    id = next;
                }
            }
            lane = self.rounds.next_lane(lane);
        }
    }

    /// Drops a flow's oldest packet among those that no guarantee covers. Returns false if there is none.
    fn drop_exposed(&mut self, id: u32, dropped: &mut impl FnMut(T)) -> bool {
        let flow = &mut self.flows[id as usize];
        let head = flow.fifo.head;
        let Some(packet) = self.packets.remove_exposed(&mut flow.fifo) else { return false };
        let is_head = self.flows[id as usize].fifo.head != head;
        self.on_removed(id, &packet);
        if is_head {
            self.deselect(id);
            self.on_new_head(id);
        }
        self.counters.dropped_full += 1;
        packet.item.into_iter().for_each(dropped);
        true
    }

    /// Drops the oldest packet of a flow, although a guarantee covers it.
    fn drop_oldest(&mut self, id: u32, dropped: &mut impl FnMut(T)) {
        self.deselect(id);
        self.counters.dropped_full += 1;
        self.remove_head(id).and_then(|packet| packet.item).into_iter().for_each(dropped);
    }

    /// Cancels the selection of the next packet if that packet is the head of this flow.
    pub(super) fn deselect(&mut self, id: u32) {
        if self.selected.is_some_and(|(selected, _)| selected == id) {
            self.selected = None;
        }
    }
}
