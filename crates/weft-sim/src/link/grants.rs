//! Grants rates on a link to the loops of VPNs whose packets cross the link.
//!
//! It is used for links at nodes that grant explicit rates.

use super::{LinkCapacity, LinkDirectionState};
use crate::{Body, Packet};
use weft_core::control_loop::explicit_rate::{GrantConfig, LoopLink};
use weft_units::{Duration, Instant, Rate};

/// Time over which the bytes that a link could carry are averaged, if the link's capacity varies.
const CAPACITY_OVER: Duration = Duration::from_secs(1);

impl LinkDirectionState {
    /// Makes the node at the link's entry grant rates over the link to loops.
    pub fn grant_to_loops(&mut self, now: Instant) {
        self.grants = true;
        self.rest.grants = Some(LoopLink::new(GrantConfig::default(), now));
    }

    /// Adds a packet to the arrivals, and writes the granted rate into its rate request.
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
