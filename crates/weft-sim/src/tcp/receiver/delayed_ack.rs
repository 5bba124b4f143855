//! When an acknowledgment leaves.

use super::super::{Flags, Segment};
use std::time::Duration;
use weft_units::Instant;

/// The rule for delaying acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelayedAck {
    /// Every segment is acknowledged at once.
    None,
    /// Every second full-sized segment, or after `delay`; out of order, and what fills a gap, at once (RFC 1122 §4.2.3.2, RFC 5681
    /// §4.2).
    Standard {
        /// Longest delay; below 500 ms.
        delay: Duration,
    },
    /// Paper 000, §3.1.2: every second segment or after `delay`, whatever the order; at once for what was sent again while duplicate
    /// acknowledgments leave.
    Modified {
        /// Longest delay.
        delay: Duration,
        /// Know what was sent again from the model's [`Flags::RETRANSMIT`], instead of taking what fills the first gap for it.
        oracle: bool,
    },
    /// Like [`Standard`](Self::Standard) with 40 ms, after acknowledging at once a connection's first 16 segments, as Linux does.
    Quick,
}

/// Linux: TCP_MAX_QUICKACKS and TCP_DELACK_MIN.
const QUICK_SEGMENTS: u32 = 16;
const QUICK_DELAY: Duration = Duration::from_millis(40);

/// What a segment did for the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    /// It was the next, and nothing waited behind it.
    InOrder,
    /// It was the next, and others waited.
    FillsGap,
    /// Something before it is missing.
    OutOfOrder,
    /// It brought nothing: here already, or outside the window.
    Useless,
}

/// Decides when to acknowledge.
#[derive(Clone, Debug)]
pub(super) struct AckTiming {
    rule: DelayedAck,
    mss: u32,
    due: bool,
    quick_left: u32,
    segments: u32,
    bytes: u64,
    /// [`Instant::FAR_FUTURE`] for none.
    deadline: Instant,
}

impl AckTiming {
    pub fn new(rule: DelayedAck, mss: u32) -> AckTiming {
        let quick_left = if rule == DelayedAck::Quick { QUICK_SEGMENTS } else { 0 };
        AckTiming { rule, mss, due: false, quick_left, segments: 0, bytes: 0, deadline: Instant::FAR_FUTURE }
    }

    /// `segment` arrived.
    pub fn arrived(&mut self, now: Instant, segment: &Segment, arrival: Arrival) {
        self.segments += 1;
        self.bytes += u64::from(segment.len);
        let at_once = segment.flags.has(Flags::FIN) || self.is_at_once(segment, arrival);
        if at_once || self.is_second() {
            self.due = true;
        } else if self.deadline == Instant::FAR_FUTURE {
            self.deadline = now + self.delay();
        }
    }

    fn is_at_once(&mut self, segment: &Segment, arrival: Arrival) -> bool {
        match self.rule {
            DelayedAck::None => true,
            DelayedAck::Standard { .. } => arrival != Arrival::InOrder,
            DelayedAck::Modified { oracle: false, .. } => arrival == Arrival::FillsGap,
            DelayedAck::Modified { oracle: true, .. } => {
                segment.flags.has(Flags::RETRANSMIT) && arrival != Arrival::InOrder
            }
            DelayedAck::Quick => {
                let quick = self.quick_left > 0;
                self.quick_left = self.quick_left.saturating_sub(1);
                quick || arrival != Arrival::InOrder
            }
        }
    }

    fn is_second(&self) -> bool {
        match self.rule {
            DelayedAck::Modified { .. } => self.segments >= 2,
            _ => self.bytes >= 2 * u64::from(self.mss),
        }
    }

    fn delay(&self) -> Duration {
        match self.rule {
            DelayedAck::None => Duration::ZERO,
            DelayedAck::Standard { delay } | DelayedAck::Modified { delay, .. } => delay,
            DelayedAck::Quick => QUICK_DELAY,
        }
    }

    /// The time is `now`.
    pub fn wake(&mut self, now: Instant) {
        self.due |= self.deadline <= now;
    }

    /// An acknowledgment leaves, whatever came.
    pub fn set_due(&mut self) {
        self.due = true;
    }

    /// Whether an acknowledgment leaves now; then the counting starts anew.
    pub fn take(&mut self) -> bool {
        if !self.due {
            return false;
        }
        self.due = false;
        self.segments = 0;
        self.bytes = 0;
        self.deadline = Instant::FAR_FUTURE;
        true
    }

    pub fn deadline(&self) -> Option<Instant> {
        (self.deadline != Instant::FAR_FUTURE).then_some(self.deadline)
    }
}
