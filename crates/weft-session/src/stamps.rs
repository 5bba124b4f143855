//! Handshake stamps: what rises from initiation to initiation, so that a recorded one is refused.
//!
//! A stamp is a number, not a time: nodes begin with the wall clock only because it usually rises. Where clocks are wrong or state is lost, the
//! responder refuses, and tells the initiator under the handshake's own keys which stamp it accepted last. The initiator then counts on from
//! there. A recorded initiation gains nothing by that: it can neither read the answer nor change its own stamp.

use crate::error::InitiateError;
use core::fmt;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant, PeerId};

/// A stamp may be so far ahead of this node's own clock, or of the last one accepted from the peer.
///
/// Tuned: clocks set in the wrong time zone are up to 26 hours apart, and a clock further off is seldom one that runs. A larger bound costs
/// nothing while both ends count on from what they are told.
pub const FARTHEST_AHEAD: Duration = Duration::from_secs(36 * 3_600);
/// Least time between two answers to refused initiations of one peer.
const ANSWER_EVERY: Duration = Duration::from_millis(500);

/// Why a stamp was refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StampFault {
    /// It is not above the highest one accepted: the initiator's state was lost or restored, its clock was set back, or this is a replay.
    NotRising,
    /// It is further ahead than [`FARTHEST_AHEAD`]: one of the two clocks is wrong.
    TooFarAhead,
}

impl StampFault {
    pub(crate) fn byte(self) -> u8 {
        match self {
            StampFault::NotRising => 1,
            StampFault::TooFarAhead => 2,
        }
    }

    /// A reason of a later version counts as the first one.
    pub(crate) fn of(byte: u8) -> StampFault {
        if byte == StampFault::TooFarAhead.byte() { StampFault::TooFarAhead } else { StampFault::NotRising }
    }
}

impl fmt::Display for StampFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StampFault::NotRising => "its stamp is not above the last one accepted",
            StampFault::TooFarAhead => "its stamp is too far ahead",
        })
    }
}

/// A stamp that was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefusedStamp {
    /// The stamp, in nanoseconds since 1970 where the initiator goes by its clock.
    pub stamp: u64,
    /// The highest one accepted before; 0: none.
    pub accepted: u64,
    /// What is wrong with it.
    pub fault: StampFault,
}

/// An authentic initiation that was refused, and what its sender is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Who initiated, or of whom this is a recording.
    pub peer: PeerId,
    /// Why it was refused.
    pub refused: RefusedStamp,
    /// This node has met the run that sent it, and that run is the last one or has ended: while there is a session, this is a recording.
    pub is_of_known_run: bool,
    /// Send this back to where the initiation came from, unless it is a recording. Empty: the peer was told just now.
    pub answer: Vec<u8>,
}

/// What stamps are judged by.
#[derive(Clone, Copy, Default)]
pub(crate) struct StampClock(Option<(Instant, u64)>);

impl StampClock {
    /// At `now` the wall clock shows `unix_ns`.
    pub(crate) fn set(&mut self, now: Instant, unix_ns: u64) {
        self.0 = Some((now, unix_ns));
    }

    /// What is wrong with `stamp`, where `accepted` was accepted last. Without a clock no stamp is too far ahead.
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

/// The stamps sent to one peer.
#[derive(Clone, Copy, Default)]
pub(crate) struct SentStamps {
    last: Option<u64>,
    /// The peer refused one: from then on they rise by one each, wherever this node's clock is.
    counts: bool,
    told: Option<Instant>,
}

impl SentStamps {
    /// The next one, where this node's clock is at `clock`.
    pub(crate) fn next(&mut self, clock: u64) -> Result<u64, InitiateError> {
        let last = self.last;
        let next = if self.counts { last.and_then(|last| last.checked_add(1)) } else { Some(clock) };
        let next = next.filter(|next| self.counts || last.is_none_or(|last| *next > last));
        self.last = Some(next.ok_or(InitiateError::StampNotRising)?);
        self.last.ok_or(InitiateError::StampNotRising)
    }

    /// The one sent last.
    pub(crate) fn last(&self) -> u64 {
        self.last.unwrap_or(0)
    }

    /// Notes that the peer accepted no stamp above `highest`. Returns whether to call it again at once, which is false if it refused another
    /// stamp within the retry interval.
    pub(crate) fn count_from(&mut self, now: Instant, highest: u64) -> bool {
        if !planted::is(Fault::RefusalNotHeeded) {
            (self.last, self.counts) = (Some(highest), true);
        }
        let before = self.told.replace(now);
        before.is_none_or(|before| now.since(before) >= crate::timers::RETRY_INTERVAL)
    }
}

/// The stamps accepted from one peer.
#[derive(Clone, Copy, Default)]
pub(crate) struct AcceptedStamps {
    pub(crate) highest: Option<u64>,
    answered: Option<Instant>,
}

impl AcceptedStamps {
    /// Whether the peer may be told of a refusal now; it counts as told.
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
    fn who_was_told_counts_on_wherever_its_clock_is() {
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
