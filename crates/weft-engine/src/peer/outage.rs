//! Limits the age of packets that wait for an unreachable peer, and hurries the handshake.
//!
//! The limits apply while no path can carry packets, and once more when a path can again, so that the first packets
//! after an outage are fresh. While paths work, CoDel controls the queue's length. This module then drops only
//! packets that are useless to any receiver.

use super::dropping;
use crate::api::PathState;
use crate::path::Path;
use crate::peer::{Context, Peer};
use crate::units::Segment;
use weft_core::queue::Expiry;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant};

/// Age limit of packets that are not TCP's.
///
/// Standard: a call tolerates a one-way delay of at most 400 ms (ITU-T G.114).
pub const AGE_LIMIT: Duration = Duration::from_millis(400);
/// Age limit of waiting TCP segments.
///
/// Standard: after the initial retransmission timeout of 1 s (RFC 6298 §2.1), a copy waits behind the original.
pub const AGE_LIMIT_TCP: Duration = Duration::from_secs(1);
/// Age limit of TCP segments that were in flight when the outage began. Tuned: outages of radio links last up to 2 s.
///
/// A late segment spares its sender the loss. The acknowledgement shows that the timeout was spurious, and the sender
/// restores the window (RFC 4015).
const AGE_LIMIT_SENT_TCP: Duration = Duration::from_secs(3);
/// Age limit of the newest packet of a flow, longer so that a single-packet query can succeed.
///
/// Standard: after 999 ms (RFC 9002 §6.2.2) a sender that wants an answer has retransmitted.
const NEWEST_FOR: Duration = Duration::from_secs(1);
/// Age limit of the newest segment of a TCP flow: by then its sender has certainly sent another.
///
/// During an outage the sender doubles its wait after each retransmission. The acknowledgement of this segment
/// resumes the connection as soon as a path answers. Standard: the upper bound of Linux's retransmission timeout; RFC
/// 6298 §2.5 allows a bound of at least 60 s.
const NEWEST_FOR_TCP: Duration = Duration::from_secs(120);
/// Age limit of non-TCP packets while paths work. An unresponsive flow can fill a queue faster than CoDel empties it.
///
/// A full queue before a slow path lasts for tens of seconds. Standard: a sender that does not know the RTT waits 3 s
/// before it sends again (RFC 8085 §3.1.3).
const QUEUED_FOR: Duration = Duration::from_secs(3);
/// Interval at which old packets are dropped during an outage, to free their buffers.
///
/// Tuned: any value well below the age limits works.
///
/// When a path returns, old packets are dropped at once.
const DROP_EVERY: Duration = Duration::from_millis(100);
/// Interval of initiations while packets wait for a session.
///
/// It equals the probe interval while packets wait for a path.
const CALL_EVERY: Duration = Duration::from_millis(100);
/// Time for which initiations keep the interval [`CALL_EVERY`]. Afterwards the session layer's own interval applies.
///
/// Tuned: most link outages are shorter (`docs/failover.md`). Calls to a peer that is gone for good cost 20 kbit/s
/// meanwhile.
const CALL_OFTEN_FOR: Duration = Duration::from_secs(300);

/// An outage during which packets wait for the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    since: Instant,
    /// Time at which old packets are next dropped.
    drop_at: Instant,
}

/// Returns the times at which a waiting segment becomes too old.
pub(super) fn expiry(segment: &Segment) -> Expiry {
    let newest_for = if segment.is_tcp { NEWEST_FOR_TCP } else { NEWEST_FOR };
    Expiry { superseded_at: stale_at(segment), useless_at: segment.born + newest_for }
}

/// Returns the time at which a segment reaches the age limit of its class.
pub(super) fn stale_at(segment: &Segment) -> Instant {
    segment.born + if segment.is_tcp { AGE_LIMIT_TCP } else { AGE_LIMIT }
}

/// True if a segment is too old to be useful although paths work.
///
/// TCP segments are left to the AQM, because their sender slows down.
pub(super) fn is_useless(segment: &Segment, now: Instant) -> bool {
    !segment.is_tcp && now - segment.born >= QUEUED_FOR
}

/// Returns the age limit of a segment that was in flight when the outage began.
pub(super) fn sent_stale_at(segment: &Segment) -> Instant {
    segment.born + if segment.is_tcp { AGE_LIMIT_SENT_TCP } else { AGE_LIMIT }
}

impl Peer {
    /// True if some path can carry packets now.
    pub(super) fn is_reachable(&self) -> bool {
        self.is_established() && self.usable_paths().next().is_some()
    }

    /// During an outage, drops packets that are too old and hurries the handshake.
    ///
    /// At its end, drops the remaining old packets.
    pub(super) fn watch_outage(&mut self, cx: &mut Context<'_>) {
        if self.is_reachable() {
            if self.outage.take().is_some() {
                self.drop_stale(cx);
            }
            return;
        }
        if self.backlog_packets() == 0 {
            self.outage = self.outage.filter(|_| self.is_busy(cx.now));
            return;
        }
        let outage = self.outage.get_or_insert(Outage { since: cx.now, drop_at: cx.now + DROP_EVERY });
        if outage.drop_at <= cx.now {
            outage.drop_at = cx.now + DROP_EVERY;
            self.drop_stale(cx);
        }
        self.hurry_call(cx);
    }

    /// Drops the waiting packets that are too old.
    pub(super) fn drop_stale(&mut self, cx: &mut Context<'_>) {
        if planted::is(Fault::StaleKept) {
            return;
        }
        let (now, drops) = (cx.now, &mut self.totals.queue_drops);
        self.way_in.expire(now, &expiry, &mut dropping(cx, drops));
    }

    /// Repeats initiations at the probe interval. Without a session, no path can be probed.
    fn hurry_call(&self, cx: &mut Context<'_>) {
        let is_recent = self.outage.is_some_and(|outage| cx.now - outage.since < CALL_OFTEN_FOR);
        if !self.is_established() && is_recent {
            cx.sessions.hurry(cx.now, self.id, CALL_EVERY);
        }
    }

    /// Returns the time at which [`Peer::watch_outage`] next has work.
    pub(super) fn outage_deadline(&self, now: Instant) -> Option<Instant> {
        if self.is_reachable() || self.backlog_packets() == 0 {
            return None;
        }
        Some(self.outage.map_or(now, |outage| outage.drop_at))
    }

    /// True if a path that carries nothing is needed.
    ///
    /// No path answers, or packets wait that the answering paths cannot carry. A path that has never answered is
    /// needed only in the first case, because it may lead nowhere.
    pub(super) fn wants(&self, path: &Path, now: Instant) -> bool {
        let none_answers = || !self.paths.iter().any(|p| p.carries() && p.health.answers());
        match path.state() {
            PathState::Down if self.way_in.is_ready() => path.active || !self.has_path_in_use(path.link),
            PathState::Down | PathState::Opening => self.is_busy(now) && none_answers(),
            PathState::Good | PathState::Degraded | PathState::Suspect => false,
        }
    }
}
