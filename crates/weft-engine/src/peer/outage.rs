//! Limits the age of packets that wait for an unreachable peer, and repeats initiations often in the meantime.
//!
//! The limits apply while no path can carry packets, and once more when the outage ends, so that the first packets
//! after it are not old. While paths work, CoDel controls the queue's length. This module then drops only packets that
//! are useless to any receiver.

use super::dropping;
use super::outbound::age::{Outage, expiry};
use super::{Context, Peer};
use crate::api::PathState;
use crate::path::Path;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant, VpnId};

/// Interval at which old packets are dropped during an outage, to free their buffers.
///
/// *Tuned*: any value well below the age limits works, because old packets are also dropped when a path returns.
const DROP_EVERY: Duration = Duration::from_millis(100);
/// Interval of initiations while packets wait for a peer that no path reaches.
///
/// It equals the probe interval of a down path that is needed.
const CALL_EVERY: Duration = Duration::from_millis(100);
/// Time since the beginning of an outage in which initiations keep the interval [`CALL_EVERY`].
///
/// Afterwards the interval of the session layer applies. *Tuned*: most link outages are shorter (`docs/failover.md`).
/// If the peer is gone for good, the initiations take 20 kbit/s for this time.
const CALL_OFTEN_FOR: Duration = Duration::from_secs(300);

impl Peer {
    /// True if some path to the peer can carry packets now.
    pub(super) fn is_reachable(&self) -> bool {
        self.is_established() && self.usable_paths().next().is_some()
    }

    /// True if some path that may carry data answers.
    pub(super) fn answers(&self) -> bool {
        self.paths.iter().any(|path| path.carries() && path.health.answers())
    }

    /// During an outage, drops packets that are too old and repeats initiations often.
    ///
    /// At the end of the outage, drops the remaining old packets.
    pub(super) fn watch_outage(&mut self, cx: &mut Context<'_>) {
        if self.is_reachable() {
            if self.ingress.outage.take().is_some() {
                self.drop_stale(cx);
            }
            return;
        }
        if self.backlog_packets() == 0 {
            self.ingress.outage = self.ingress.outage.filter(|_| self.is_busy(cx.now));
            return;
        }
        let outage = self.ingress.outage.get_or_insert(Outage { since: cx.now, drop_at: cx.now + DROP_EVERY });
        if outage.drop_at <= cx.now {
            outage.drop_at = cx.now + DROP_EVERY;
            self.drop_stale(cx);
        }
        self.hurry_call(cx);
    }

    /// Drops the packets in the flow queue that are too old to be useful.
    fn drop_stale(&mut self, cx: &mut Context<'_>) {
        if planted::is(Fault::StaleKept) {
            return;
        }
        let (now, drops) = (cx.now, &mut self.totals.queue_drops);
        self.ingress.queue.expire(now, &expiry, &mut dropping(cx, drops));
    }

    /// Drops the packets of one VPN that became too old while they waited for the VPN to open.
    pub(super) fn drop_stale_of(&mut self, cx: &mut Context<'_>, vpn: VpnId) {
        if planted::is(Fault::StaleKept) {
            return;
        }
        let (now, drops) = (cx.now, &mut self.totals.queue_drops);
        self.ingress.queue.expire_vpn(now, vpn, &expiry, &mut dropping(cx, drops));
    }

    /// Repeats initiations to the peer every [`CALL_EVERY`] at the beginning of an outage.
    ///
    /// Without a session, no path can be probed. A peer that restarted without the session answers no probe either.
    fn hurry_call(&self, cx: &mut Context<'_>) {
        let is_recent = self.ingress.outage.is_some_and(|outage| cx.now - outage.since < CALL_OFTEN_FOR);
        if is_recent {
            self.call_if_silent(cx, CALL_EVERY);
            cx.sessions.hurry(cx.now, self.id, CALL_EVERY);
        }
    }

    /// Returns the time at which the next call of [`Peer::watch_outage`] is due, or `None` without an outage.
    pub(super) fn outage_deadline(&self, now: Instant) -> Option<Instant> {
        if self.is_reachable() || self.backlog_packets() == 0 {
            return None;
        }
        let drop_at = self.ingress.outage.map_or(now, |outage| outage.drop_at);
        let call_at = self.session.heard_at.map(|at| at + CALL_EVERY).filter(|at| *at > now);
        Some(call_at.map_or(drop_at, |at| at.min(drop_at)))
    }

    /// True if a path that carries nothing now is needed, so that it is probed often.
    ///
    /// No path answers, or packets wait that the answering paths cannot carry. A path that has never answered is
    /// needed only if no path answers, because its address may not reach the peer.
    pub(super) fn wants(&self, path: &Path, now: Instant) -> bool {
        match path.state() {
            PathState::Down if self.ingress.queue.is_ready(now) => path.active || !self.has_path_in_use(path.link),
            PathState::Down | PathState::Opening => self.is_busy(now) && !self.answers(),
            PathState::Good | PathState::Degraded | PathState::Suspect => false,
        }
    }
}
