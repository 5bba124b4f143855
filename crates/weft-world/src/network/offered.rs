//! What links could have carried, though their rates change on the way.

use super::seat::Seat;
use weft_sim::{LinkId, Simulator};
use weft_units::Instant;

/// Bytes that each link could have carried since counting began.
#[derive(Debug, Default)]
pub struct Offered {
    /// By link: until when it is counted, and the bytes until then.
    by_link: Vec<(Instant, u64)>,
}

impl Offered {
    /// Counting begins anew, for all links.
    pub(super) fn clear(&mut self, simulator: &Simulator<Seat>) {
        self.by_link = vec![(simulator.now(), 0); simulator.links().len()];
    }

    /// What a link could have carried until now. To be called before each change of the link, which says nothing of what was before.
    pub(super) fn bytes(&mut self, simulator: &Simulator<Seat>, link: LinkId) -> u64 {
        let Some(((until, bytes), link)) = self.by_link.get_mut(link.index()).zip(simulator.links().get(link.index()))
        else {
            return 0;
        };
        let now = simulator.now();
        *bytes += link.capacity_bytes(*until, now);
        *until = now;
        *bytes
    }
}
