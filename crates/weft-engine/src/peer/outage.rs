//! While the peer is out of reach: how old packets may become that wait for it, and how it is called.
//!
//! The limits hold while no path can carry packets, and once more when one can again, so that the first packets after an outage are
//! fresh. How long a queue before paths that work becomes is CoDel's concern, not this module's, but for packets that nobody wants any more.

use super::{Context, Peer, dropping};
use crate::PathState;
use crate::path::Path;
use crate::unit::Segment;
use weft_core::queue::Expiry;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant};

/// Age limit of packets that are not TCP's. Standard: a call bears a one-way delay of at most 400 ms (ITU-T G.114).
pub(crate) const AGE_LIMIT: Duration = Duration::from_millis(400);
/// Age limit of TCP segments that wait. Standard: a sender has retransmitted after the initial retransmission timeout (RFC 6298 §2.1: 1 s), and
/// the copy waits behind the original.
pub(crate) const AGE_LIMIT_TCP: Duration = Duration::from_secs(1);
/// Age limit of TCP segments that were in flight when the outage began. One that comes late spares its sender the loss: the acknowledgement
/// shows that the timeout was spurious, and the window is restored (RFC 4015). Tuned: outages of radio links last up to 2 s.
const AGE_LIMIT_SENT_TCP: Duration = Duration::from_secs(3);
/// The newest packet of a flow is kept longer, so that a question of one packet is not asked in vain. Standard: by then those that want an
/// answer have repeated it (RFC 9002 §6.2.2: 999 ms).
const NEWEST_FOR: Duration = Duration::from_secs(1);
/// The newest segment of a TCP flow is kept until its sender has sent another for sure. During an outage the sender waits twice as long
/// after each retransmission; the acknowledgement of this one resumes the connection as soon as a path answers. Standard: the upper bound
/// of retransmission timeouts in Linux, RFC 6298 §2.5 having one of at least 60 s.
const NEWEST_FOR_TCP: Duration = Duration::from_secs(120);
/// Age limit of packets that are not TCP's before paths that work. An unresponsive flow can fill a queue faster than CoDel empties it, and
/// before a slow path a full queue lasts for tens of seconds. Standard: a sender that does not know the round trip waits 3 s before it sends
/// again (RFC 8085 §3.1.3).
const QUEUED_FOR: Duration = Duration::from_secs(3);
/// Interval at which old packets are dropped during an outage, so that their buffers are free for others. Tuned: any value well below the
/// age limits will do; on return they are dropped at once.
const DROP_EVERY: Duration = Duration::from_millis(100);
/// Interval of initiations while packets wait for a session, as of probes while packets wait for a path.
const CALL_EVERY: Duration = Duration::from_millis(100);
/// Initiations keep to [`CALL_EVERY`] for so long. Then the session's own interval holds. Tuned: most outages of links are shorter
/// (`docs/failover.md`). A peer that is gone for good costs 20 kbit/s meanwhile.
const CALL_OFTEN_FOR: Duration = Duration::from_secs(300);

/// An outage in which packets wait for the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    since: Instant,
    /// When old packets are dropped next.
    drop_at: Instant,
}

/// When a waiting segment is too old.
pub(super) fn expiry(segment: &Segment) -> Expiry {
    let newest_for = if segment.is_tcp { NEWEST_FOR_TCP } else { NEWEST_FOR };
    Expiry { superseded_at: stale_at(segment), useless_at: segment.born + newest_for }
}

/// When a segment reaches the age limit of its class.
pub(super) fn stale_at(segment: &Segment) -> Instant {
    segment.born + if segment.is_tcp { AGE_LIMIT_TCP } else { AGE_LIMIT }
}

/// Whether a segment has waited too long to be of use, though the paths work. TCP's is left to the queue: its sender slows down.
pub(super) fn is_useless(segment: &Segment, now: Instant) -> bool {
    !segment.is_tcp && now - segment.born >= QUEUED_FOR
}

/// When a segment that was in flight as the outage began reaches the age limit of its class.
pub(super) fn sent_stale_at(segment: &Segment) -> Instant {
    segment.born + if segment.is_tcp { AGE_LIMIT_SENT_TCP } else { AGE_LIMIT }
}

impl Peer {
    /// Whether some path can carry packets now.
    pub(super) fn is_reachable(&self) -> bool {
        self.is_established() && self.usable_paths().next().is_some()
    }

    /// During an outage: drops waiting packets that have become too old, and hurries the handshake they wait for. At its end: drops the
    /// old ones, so that what leaves first is fresh.
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

    /// Drops the waiting packets that have become too old.
    pub(super) fn drop_stale(&mut self, cx: &mut Context<'_>) {
        if planted::is(Fault::StaleKept) {
            return;
        }
        let (now, drops) = (cx.now, &mut self.totals.queue_drops);
        self.way_in.expire(now, &expiry, &mut dropping(cx, drops));
    }

    /// Without a session no path can be probed: the handshake takes the place of probes.
    fn hurry_call(&self, cx: &mut Context<'_>) {
        let is_recent = self.outage.is_some_and(|outage| cx.now - outage.since < CALL_OFTEN_FOR);
        if !self.is_established() && is_recent {
            cx.sessions.hurry(cx.now, self.id, CALL_EVERY);
        }
    }

    /// When [`Peer::watch_outage`] has something to do.
    pub(super) fn outage_deadline(&self, now: Instant) -> Option<Instant> {
        if self.is_reachable() || self.backlog_packets() == 0 {
            return None;
        }
        Some(self.outage.map_or(now, |outage| outage.drop_at))
    }

    /// Whether a path that carries nothing is wanted: no path answers, or packets wait that those that answer cannot carry. Paths that
    /// have never answered are no link that was there before, and are wanted in the first case only.
    pub(super) fn wants(&self, path: &Path, now: Instant) -> bool {
        let none_answers = || !self.paths.iter().any(|p| p.carries() && p.health.answers());
        match path.state() {
            PathState::Down if self.way_in.is_ready() => path.active || !self.has_path_in_use(path.link),
            PathState::Down | PathState::Opening => self.is_busy(now) && none_answers(),
            PathState::Good | PathState::Degraded | PathState::Suspect => false,
        }
    }
}
