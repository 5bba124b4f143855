//! Duplicate removal for `reorder = "off"`: delivers units in order of arrival and drops duplicates.

use super::Inserted;
use super::flows::Flows;
use super::history::DeliveryHistory;
use weft_units::planted::{self, Fault};
use weft_units::{FlowId, FlowSeq, Instant};

/// Remembers which of the last 1,024 sequence numbers of each flow were delivered.
#[derive(Debug)]
pub struct Dedup {
    flows: Flows<DeliveryHistory>,
}

impl Default for Dedup {
    fn default() -> Dedup {
        Dedup::new()
    }
}

impl Dedup {
    /// Returns a duplicate filter that has not seen any flow yet.
    pub fn new() -> Dedup {
        Dedup { flows: Flows::new() }
    }

    /// Delivers the unit `item` to `out`, unless it is a duplicate. The result states which happened.
    pub fn insert<T>(
        &mut self,
        now: Instant,
        flow: FlowId,
        seq: FlowSeq,
        item: T,
        out: &mut impl FnMut(FlowId, FlowSeq, T),
    ) -> Inserted<T> {
        let place = match self.flows.find(now, flow) {
            Some(place) => place,
            None => self.flows.insert(now, flow, DeliveryHistory::starting_at(seq), |_| true),
        };
        let history = self.flows.state(place);
        let ahead = seq.distance_from(history.next());
        if ahead < 0 {
            if !history.deliver_late(seq) && !planted::is(Fault::DedupForgets) {
                return Inserted::Duplicate(item);
            }
            out(flow, seq, item);
            return Inserted::Late;
        }
        history.pass(ahead as u32, false);
        history.pass_one(true);
        out(flow, seq, item);
        Inserted::Delivered
    }

    /// Number of flows whose delivered sequence numbers are remembered.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Deletes the state of all flows. To be called when the peer has restarted, because it then numbers units anew.
    pub fn reset(&mut self) {
        self.flows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn delivers_everything_once_in_the_order_of_arrival() {
        let mut dedup = Dedup::new();
        let mut out = Vec::new();
        let mut insert =
            |seq: u32| dedup.insert(Instant::ZERO, FlowId(1), FlowSeq::new(seq), seq, &mut |_, _, n| out.push(n));
        assert_eq!([5, 7, 6].map(&mut insert), [Inserted::Delivered, Inserted::Delivered, Inserted::Late]);
        assert_eq!([6, 5, 7].map(&mut insert), [6, 5, 7].map(Inserted::Duplicate));
        assert_eq!(insert(5_000), Inserted::Delivered);
        assert_eq!(insert(8), Inserted::Duplicate(8), "too old to tell");
        assert_eq!(insert(4_000), Inserted::Late);
        assert_eq!(out, [5, 7, 6, 5_000, 4_000]);
        dedup.reset();
        assert_eq!(dedup.flows(), 0);
    }
}
