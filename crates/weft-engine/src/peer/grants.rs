//! What the paths toward the peer grant to loops that begin here and go by grants. Between two nodes there is nothing but these paths,
//! each of which knows what it carries, so nobody else has to be asked.

use super::Peer;
use crate::path::{Lane, Path};
use weft_core::control_loop::explicit_rate::{Grant, LinkConfig, LoopLink};
use weft_core::explicit_rate::pi::PiConfig;
use weft_units::{Instant, Rate};

/// q* over Cτ: what stands before paths keeps them busy, without which they learn nothing, and is less than a schedule leaves there.
const QUEUE: f64 = 0.05;
/// A VPN alone is granted more than paths have been seen to carry, so that they find out.
const MOST: f64 = 1.25;

/// The law over all paths, and what had been given to them when it last looked.
pub(super) struct Grants {
    link: LoopLink,
    sent_bytes: u64,
}

impl Grants {
    fn new(now: Instant, sent_bytes: u64) -> Grants {
        let default = LinkConfig::default();
        let pi = PiConfig { utilization: 1.0, queue: QUEUE, ..default.pi };
        Grants { link: LoopLink::new(LinkConfig { pi, most: MOST }, now), sent_bytes }
    }
}

impl Peer {
    /// Takes a look at the paths if it is time, and grants what they have.
    pub(super) fn grant_loops(&mut self, now: Instant) {
        if !self.way_in.goes_by_grants() {
            return;
        }
        let sent_bytes = self.totals.sent_bytes;
        let mut grants = self.grants.take().unwrap_or_else(|| Grants::new(now, sent_bytes).into());
        if grants.link.is_due(now) {
            self.way_in.asks().for_each(|ask| grants.link.hear(now, &ask));
            grants.link.on_arrival(sent_bytes.saturating_sub(grants.sent_bytes));
            grants.sent_bytes = sent_bytes;
            let capacity = self.pacing_rate(now);
            grants.link.look(now, capacity, self.waiting_on_paths());
            let granted = grants.link.grant();
            // Turns give everybody its share of the paths, whatever others without a loop do, and what it is promised.
            // A little more, or nothing would wait: a path that is offered just what it lets go never shows that it carries more.
            let share = granted.share.max(self.share_by_turns(capacity.scaled(1.0 + QUEUE)));
            self.way_in.grant_all(now, Grant { share, promised: 1.0, ..granted });
        }
        self.grants = Some(grants);
    }

    /// What the paths that carry bulk let go; of all of them, as long as it has not been said which those are.
    fn pacing_rate(&self, now: Instant) -> Rate {
        let of = |path: &Path| path.rate.pacing_rate(now);
        let carrying = self.inner_capacity(self.carrying_paths(), of);
        if carrying > Rate::ZERO { carrying } else { self.inner_capacity(self.usable_paths(), of) }
    }

    /// What turns give each unit of weight among the VPNs that have packets.
    fn share_by_turns(&self, capacity: Rate) -> Rate {
        let (mut promised, mut weights) = (0, 0.0);
        for share in self.way_in.waiting() {
            (promised, weights) = (share.service().rate().bps().saturating_add(promised), weights + share.weight());
        }
        Rate::from_bps(capacity.bps().saturating_sub(promised)).scaled(1.0 / f64::max(weights, f64::MIN_POSITIVE))
    }

    fn waiting_on_paths(&self) -> u64 {
        self.usable_paths().map(|path| path.queues.bytes_before(Lane::Bulk)).sum()
    }
}
