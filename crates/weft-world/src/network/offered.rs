//! Counts the bytes that links could have carried, although their rates change during a run.

use super::node::NetworkNode;
use weft_sim::{LinkId, Simulator};
use weft_units::Instant;

/// Number of bytes that each link could have carried since the last call of `Offered::clear`.
#[derive(Debug, Default)]
pub struct Offered {
    /// For each link, the time of the last computation, and the bytes that the link could have carried until then.
    by_link: Vec<(Instant, u64)>,
}

impl Offered {
    /// Sets the number of each link to zero at the current time.
    pub(super) fn clear(&mut self, simulator: &Simulator<NetworkNode>) {
        self.by_link = vec![(simulator.now(), 0); simulator.links().len()];
    }

    /// Returns the number of bytes that a link could have carried since [`Offered::clear`].
    ///
    /// The caller must call it before each change of the link, because the link does not store its earlier rate.
    pub(super) fn bytes(&mut self, simulator: &Simulator<NetworkNode>, link: LinkId) -> u64 {
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
