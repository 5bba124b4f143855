//! Rates that this node grants on the paths toward the peer to those of its loops that follow granted rates.
//!
//! No other node lies between this node and the peer, and this node has estimated the paths' capacities. It therefore
//! needs no rate from another node.

use super::Peer;
use super::outbound::grants::{Grants, QUEUE};
use crate::path::{Lane, Path};
use weft_core::control_loop::explicit_rate::LoopGrant;
use weft_units::{Instant, Rate};

impl Peer {
    /// Computes the rate to grant, if it is time to do so, and grants it to the loops.
    pub(super) fn grant_loops(&mut self, now: Instant) {
        if !self.ingress.queue.goes_by_grants() {
            return;
        }
        let sent_bytes = self.totals.sent_bytes;
        let mut grants = self.loops.grants.take().unwrap_or_else(|| Grants::new(now, sent_bytes).into());
        if grants.link.is_due(now) {
            self.ingress.queue.asks().for_each(|ask| grants.link.on_ask(now, &ask));
            grants.link.on_arrival(sent_bytes.saturating_sub(grants.sent_bytes));
            grants.sent_bytes = sent_bytes;
            let capacity = self.pacing_rate(now);
            grants.link.update(now, capacity, self.waiting_on_paths());
            let granted = grants.link.grant();
            // Each VPN gets at least the rate that it would have if the VPNs took turns. That rate takes promises and
            // VPNs without a loop into account. The small surplus keeps a queue, because a path without a queue does
            // not reveal that its capacity has grown.
            let share = granted.share.max(self.share_by_turns(capacity.scaled(1.0 + QUEUE)));
            self.ingress.queue.grant_all(now, LoopGrant { share, promised: 1.0, ..granted });
        }
        self.loops.grants = Some(grants);
    }

    /// Returns the total pacing rate of the paths that carry bulk.
    ///
    /// Until the scheduler has chosen these paths, all usable paths are included.
    fn pacing_rate(&self, now: Instant) -> Rate {
        let of = |path: &Path| path.rate.pacing_rate(now);
        let carrying = self.inner_capacity(self.carrying_paths(), of);
        if carrying > Rate::ZERO { carrying } else { self.inner_capacity(self.usable_paths(), of) }
    }

    /// Returns the rate for each unit of weight if the VPNs with waiting packets take turns at `capacity`.
    ///
    /// Promised rates are subtracted from `capacity` first.
    fn share_by_turns(&self, capacity: Rate) -> Rate {
        let (mut promised, mut weights) = (0, 0.0);
        for share in self.ingress.queue.waiting() {
            (promised, weights) = (share.service().rate().bps().saturating_add(promised), weights + share.weight());
        }
        Rate::from_bps(capacity.bps().saturating_sub(promised)).scaled(1.0 / f64::max(weights, f64::MIN_POSITIVE))
    }

    fn waiting_on_paths(&self) -> u64 {
        self.usable_paths().map(|path| path.queues.bytes_before(Lane::Bulk)).sum()
    }
}
