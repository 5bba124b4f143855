//! Limits of the age of packets that wait for a path.

use crate::units::Segment;
use weft_core::queue::Expiry;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant};

/// Age limit of packets other than TCP segments that an outage delays, in the flow queue or in flight.
///
/// *Standard*: a voice call tolerates a one-way delay of at most 400 ms (ITU-T G.114).
pub const AGE_LIMIT: Duration = Duration::from_millis(400);

/// Age limit of TCP segments that an outage delays, in the flow queue or in flight.
///
/// *Tuned*: outages of radio links last up to 2 s. On a path with a high RTT that is silent for 2 s at a time, a limit
/// of 3 s gave waiting segments up to five times the goodput of 1 s.
///
/// A segment that arrives late is not a loss for its sender. The acknowledgement shows that the timeout was spurious,
/// and the sender restores the window (RFC 4015).
pub const AGE_LIMIT_TCP: Duration = Duration::from_secs(3);

/// Age limit of the newest packet of a flow that is not TCP, during an outage.
///
/// It is longer than [`AGE_LIMIT`], so that a query of one packet can succeed. *Standard*: after 999 ms (RFC 9002
/// §6.2.2) a sender that wants an answer has retransmitted.
pub const NEWEST_FOR: Duration = Duration::from_secs(1);

/// Age limit of the newest segment of a TCP flow: by then its sender has certainly sent another.
///
/// During an outage the sender doubles its wait after each retransmission. The acknowledgement of this segment resumes
/// the connection as soon as a path answers. *Standard*: the upper bound of Linux's retransmission timeout; RFC 6298
/// §2.5 allows a bound of at least 60 s.
pub const NEWEST_FOR_TCP: Duration = Duration::from_secs(120);

/// Age limit of packets that are not TCP segments, while paths work.
///
/// An unresponsive flow can fill a queue faster than CoDel empties it. A full queue before a slow path lasts for tens
/// of seconds. *Standard*: a sender that does not know the RTT waits 3 s before it sends again (RFC 8085 §3.1.3).
pub const QUEUED_FOR: Duration = Duration::from_secs(3);

/// An outage (no path can carry packets) during which packets wait for the peer.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    pub since: Instant,
    /// Time at which packets that are too old are dropped next.
    pub drop_at: Instant,
}

/// Returns the times from which a segment is dropped that waited for a path or for its VPN.
///
/// One applies if a newer segment of the flow waits, the other in any case.
pub fn expiry(segment: &Segment) -> Expiry {
    let newest_for = if segment.is_tcp { NEWEST_FOR_TCP } else { NEWEST_FOR };
    Expiry { superseded_at: stale_at(segment), useless_at: segment.born + newest_for }
}

/// Returns the time at which a segment reaches [`AGE_LIMIT_TCP`] or, for other protocols, [`AGE_LIMIT`].
pub fn stale_at(segment: &Segment) -> Instant {
    segment.born + if segment.is_tcp { AGE_LIMIT_TCP } else { AGE_LIMIT }
}

/// True if a segment in the flow queue is too old to be useful although paths work.
///
/// TCP segments are left to the AQM, because their sender slows down.
pub fn is_useless(segment: &Segment, now: Instant) -> bool {
    !segment.is_tcp && now - segment.born >= QUEUED_FOR && !planted::is(Fault::StaleKept)
}
