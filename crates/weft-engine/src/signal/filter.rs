//! Fast test for whether signalling may concern a flow.
//!
//! It takes a few nanoseconds and uses one bit for each hash of the two ports.

use alloc::boxed::Box;
use weft_wire::ip::FlowKey;

const WORDS: usize = 1 << 10;

/// A set of flows. It may report flows that were not added, but never omits an added one.
pub(super) struct Filter(Box<[u64; WORDS]>);

impl Default for Filter {
    fn default() -> Filter {
        Filter(Box::new([0; WORDS]))
    }
}

impl Filter {
    pub(super) fn insert(&mut self, flow: &FlowKey) {
        let (word, bit) = place(flow);
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    #[inline]
    pub(super) fn may_contain(&self, flow: &FlowKey) -> bool {
        let (word, bit) = place(flow);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Replaces the content with these flows.
    pub(super) fn refill<'a>(&mut self, flows: impl Iterator<Item = &'a FlowKey>) {
        self.0.fill(0);
        flows.for_each(|flow| self.insert(flow));
    }
}

fn place(flow: &FlowKey) -> (usize, u64) {
    let mixed = flow.src_port ^ flow.dst_port.rotate_left(8);
    (usize::from(mixed >> 6), 1 << (mixed & 63))
}
