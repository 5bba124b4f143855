//! Grants rates on a link to the loops of VPNs whose packets cross the link.
//!
//! Links at nodes that grant explicit rates use it.

use super::{LinkCapacity, LinkDirectionState};
use crate::{Body, Packet};
use weft_core::control_loop::explicit_rate::{GrantConfig, LoopLink};
use weft_units::{Duration, Instant, Rate};

/// Time over which a varying capacity of a link is averaged to compute the granted rates.
const CAPACITY_OVER: Duration = Duration::from_secs(1);

impl LinkDirectionState {
    /// Makes the node at which the link begins grant rates on the link to the loops that request them.
    pub fn grant_to_loops(&mut self, now: Instant) {
        self.grants = true;
        self.rest.grants = Some(LoopLink::new(GrantConfig::default(), now));
    }

    /// Counts a packet that arrives at the link, and writes the granted rate into the rate request that it may carry.
    pub(super) fn grant(&mut self, now: Instant, packet: &mut Packet) {
        let Some(mut grants) = self.rest.grants.take() else { return };
        grants.on_arrival(packet.bytes.into());
        if let Body::Edge(body) = &mut packet.body
            && let Some(ask) = body.ask_mut()
        {
            let queued_bytes = if grants.is_due(now) { self.backlog(now).1 } else { 0 };
            grants.stamp(now, self.rate_now(now), queued_bytes, ask);
        }
        self.rest.grants = Some(grants);
    }

    fn rate_now(&self, now: Instant) -> Rate {
        match self.rest.spec.capacity {
            LinkCapacity::Rate(rate) => rate,
            LinkCapacity::Trace(_) => {
                let since = Instant::from_nanos(now.as_nanos().saturating_sub(CAPACITY_OVER.as_nanos() as u64));
                Rate::from_bytes_over(self.capacity_bytes(since, now), now - since)
            }
        }
    }
}
