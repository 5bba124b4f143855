//! Handshake stamps: numbers that rise from initiation to initiation, against replays.
//!
//! A stamp is a number, not a time. Nodes start with the time of the wall clock, because it usually rises. If a clock
//! is wrong or state is lost, the responder refuses the stamp. The refusal, sealed with the handshake's keys, states
//! the stamp that the responder accepted last. The initiator continues from that stamp. An attacker that replays a
//! recorded initiation can neither read the refusal nor change the recorded stamp.

use crate::error::InitiateError;
use core::fmt;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant, PeerId};

/// Maximum distance of a stamp above the greater of this node's clock and the peer's last accepted stamp.
///
/// Tuned: clocks set in the wrong time zone are up to 26 hours apart, and a clock with a larger error usually does not
/// run at all. A refused node is not locked out, because it continues from the stamp in the refusal.
pub const FARTHEST_AHEAD: Duration = Duration::from_secs(36 * 3_600);
/// Minimum time between two answers by which this node refuses initiations of one peer.
const ANSWER_EVERY: Duration = Duration::from_millis(500);

/// Reason why a node refused the stamp of an initiation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StampFault {
    /// The stamp does not exceed the highest stamp that was accepted from the peer.
    ///
    /// The initiator's state was lost or restored, its clock was set back, or the initiation is a replay.
    NotRising,
    /// The stamp is further ahead of the clock than [`FARTHEST_AHEAD`]: one of the two nodes' clocks is wrong.
    TooFarAhead,
}

impl StampFault {
    pub(crate) fn byte(self) -> u8 {
        match self {
            StampFault::NotRising => 1,
            StampFault::TooFarAhead => 2,
        }
    }

    /// Decodes the byte by which a refusal states its reason.
    ///
    /// It reads unknown reasons of later versions as [`StampFault::NotRising`].
    pub(crate) fn of(byte: u8) -> StampFault {
        if byte == StampFault::TooFarAhead.byte() { StampFault::TooFarAhead } else { StampFault::NotRising }
    }
}

impl fmt::Display for StampFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StampFault::NotRising => "its stamp is not above the last one accepted",
            StampFault::TooFarAhead => "its stamp is too far ahead of the clock",
        })
    }
}

/// The stamp of an initiation that was refused, and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefusedStamp {
    /// The refused stamp. It is a time in nanoseconds since 1970 if the initiator takes stamps from its clock.
    pub stamp: u64,
    /// The highest stamp that the responder had accepted from the initiator, or 0 if none.
    pub accepted: u64,
    /// Reason for which the stamp was refused.
    pub fault: StampFault,
}

/// An authentic initiation that this node refused because of its stamp, and the answer to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StampRefusal {
    /// The peer whose key the initiation has. If it is a replay, an attacker sent it.
    pub peer: PeerId,
    /// The stamp of the initiation, and the reason for the refusal.
    pub refused: RefusedStamp,
    /// True if the initiation comes from the peer's current run, or from a run that has ended.
    ///
    /// If there is a session with the peer, such an initiation is a replay.
    pub is_of_known_run: bool,
    /// Answer to send to the source of the initiation, unless the initiation is a replay.
    ///
    /// Empty if the peer got an answer recently.
    pub answer: Vec<u8>,
}

/// The wall clock with which stamps are compared: a time of the table, and the time since 1970 then.
///
/// `None`: no clock.
#[derive(Clone, Copy, Default)]
pub(crate) struct StampClock(Option<(Instant, u64)>);

impl StampClock {
    /// Sets the wall clock: at `now` it shows `unix_ns`.
    pub(crate) fn set(&mut self, now: Instant, unix_ns: u64) {
        self.0 = Some((now, unix_ns));
    }

    /// Checks `stamp` against the last accepted stamp and the wall clock. Without a clock no stamp is too far ahead.
    pub(crate) fn judge(&self, now: Instant, stamp: u64, accepted: Option<u64>) -> Result<(), RefusedStamp> {
        let refused = |fault| Err(RefusedStamp { stamp, accepted: accepted.unwrap_or(0), fault });
        if accepted.is_some_and(|highest| stamp < highest || stamp == highest && !planted::is(Fault::StampEqualTaken)) {
            return refused(StampFault::NotRising);
        }
        let Some((at, unix_ns)) = self.0 else { return Ok(()) };
        let clock = unix_ns.saturating_add(now.since(at).as_nanos() as u64).max(accepted.unwrap_or(0));
        let is_near = stamp <= clock.saturating_add(FARTHEST_AHEAD.as_nanos() as u64);
        if is_near { Ok(()) } else { refused(StampFault::TooFarAhead) }
    }
}

/// The stamps that this node has sent to one peer.
#[derive(Clone, Copy, Default)]
pub(crate) struct SentStamps {
    /// The stamp that was sent last, or the highest accepted one that the peer's last refusal stated.
    last: Option<u64>,
    /// True after a refusal. Each further stamp is then the last one plus one, regardless of this node's clock.
    counts: bool,
    /// Time at which the peer last refused a stamp.
    refused_at: Option<Instant>,
}

impl SentStamps {
    /// Returns the stamp for the next initiation. `clock` is the stamp that this node's wall clock gives.
    pub(crate) fn next(&mut self, clock: u64) -> Result<u64, InitiateError> {
        let last = self.last;
        let next = if self.counts { last.and_then(|last| last.checked_add(1)) } else { Some(clock) };
        let next = next.filter(|next| self.counts || last.is_none_or(|last| *next > last));
        self.last = Some(next.ok_or(InitiateError::StampNotRising)?);
        self.last.ok_or(InitiateError::StampNotRising)
    }

    /// Returns the stamp that was sent last, or 0 if none was.
    pub(crate) fn last(&self) -> u64 {
        self.last.unwrap_or(0)
    }

    /// Records a refusal, in which the peer stated `highest` as the highest stamp that it has accepted.
    ///
    /// Returns true if this node should initiate again at once.
    ///
    /// It returns false if the peer refused another stamp within the retry interval.
    pub(crate) fn count_from(&mut self, now: Instant, highest: u64) -> bool {
        if !planted::is(Fault::RefusalNotHeeded) {
            (self.last, self.counts) = (Some(highest), true);
        }
        let before = self.refused_at.replace(now);
        before.is_none_or(|before| now.since(before) >= crate::timers::RETRY_INTERVAL)
    }
}

/// The stamps that this node has accepted from one peer.
#[derive(Clone, Copy, Default)]
pub(crate) struct AcceptedStamps {
    /// The highest stamp accepted from the peer.
    pub(crate) highest: Option<u64>,
    /// Time at which this node last answered a refused initiation.
    answered: Option<Instant>,
}

impl AcceptedStamps {
    /// True if this node may answer a refused initiation now. It then records the time of the answer.
    pub(crate) fn may_answer(&mut self, now: Instant) -> bool {
        let may = self.answered.is_none_or(|before| now.since(before) >= ANSWER_EVERY);
        if may {
            self.answered = Some(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H: u64 = 3_600_000_000_000;

    #[test]
    fn stamps_are_judged_by_the_last_one_and_by_the_clock() {
        let start = Instant::from_millis(1_000);
        let mut clock = StampClock::default();
        assert!(clock.judge(start, u64::MAX, None).is_ok(), "without a clock");
        clock.set(start, 1_000 * H);
        let later = start + Duration::from_secs(3_600);
        for (stamp, accepted, fault) in [
            (1, None, None),
            (5, Some(5), Some(StampFault::NotRising)),
            (4, Some(5), Some(StampFault::NotRising)),
            (0, Some(0), Some(StampFault::NotRising)),
            (6, Some(5), None),
            (1_037 * H, Some(5), None),
            (1_037 * H + 1, Some(5), Some(StampFault::TooFarAhead)),
            (1_037 * H + 1, None, Some(StampFault::TooFarAhead)),
            (2_036 * H, Some(2_000 * H), None),
            (2_037 * H, Some(2_000 * H), Some(StampFault::TooFarAhead)),
            (u64::MAX, None, Some(StampFault::TooFarAhead)),
        ] {
            let judged = clock.judge(later, stamp, accepted).map_err(|refused| refused.fault);
            assert_eq!(judged.err(), fault, "{stamp} after {accepted:?}");
        }
    }

    #[test]
    fn a_node_with_a_reported_stamp_continues_above_it_for_any_clock() {
        let mut sent = SentStamps::default();
        assert_eq!(sent.next(7), Ok(7));
        assert_eq!(sent.next(7), Err(InitiateError::StampNotRising));
        assert!(sent.count_from(Instant::from_millis(1), 100));
        assert!(!sent.count_from(Instant::from_millis(2), 100), "no endless quick questions");
        assert_eq!((sent.next(8), sent.next(1_000)), (Ok(101), Ok(102)));
        sent.count_from(Instant::from_millis(3), u64::MAX);
        assert_eq!(sent.next(8), Err(InitiateError::StampNotRising));
    }
}
