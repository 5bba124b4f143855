//! Decides when a TCP receiver sends an acknowledgment.

use super::super::{Flags, TcpSegment};
use std::time::Duration;
use weft_units::Instant;

/// The rule for delaying acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckRule {
    /// Acknowledges every segment at once.
    None,
    /// Acknowledges every second full-sized segment, or after `delay` (RFC 1122 §4.2.3.2, RFC 5681 §4.2).
    ///
    /// It acknowledges at once a segment that is out of order or fills a gap.
    Standard {
        /// Maximum delay of an acknowledgment, less than 500 ms.
        delay: Duration,
    },
    /// Acknowledges every second segment or after `delay`, regardless of order (paper 000 §3.1.2).
    ///
    /// It acknowledges a retransmission at once.
    Modified {
        /// Maximum delay of an acknowledgment.
        delay: Duration,
        /// True if the model's [`Flags::RETRANSMIT`] identifies retransmissions.
        ///
        /// Otherwise a segment that fills the first gap is treated as a retransmission.
        oracle: bool,
    },
    /// Acknowledges a connection's first 16 segments at once, as Linux does.
    ///
    /// Afterwards it is like [`Standard`](Self::Standard) with 40 ms.
    Quick,
}

/// Number of segments at the start of a connection that are acknowledged at once.
///
/// Standard: Linux, TCP_MAX_QUICKACKS.
const QUICK_SEGMENTS: u32 = 16;
/// Maximum delay of an acknowledgment after the first [`QUICK_SEGMENTS`].
///
/// Standard: Linux, TCP_DELACK_MIN.
const QUICK_DELAY: Duration = Duration::from_millis(40);

/// The relation of an arrived segment to the data that arrived before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SegmentEffect {
    /// The segment was the next one, and no data was waiting behind it.
    InOrder,
    /// The segment was the next one, and later data was waiting.
    FillsGap,
    /// Data before the segment is missing.
    OutOfOrder,
    /// The segment had no new data, or was outside the window.
    Useless,
}

/// Decides by an [`AckRule`] when the receiver acknowledges.
#[derive(Clone, Debug)]
pub(super) struct AckTiming {
    rule: AckRule,
    mss: u32,
    due: bool,
    quick_left: u32,
    segments: u32,
    bytes: u64,
    /// Time at which a delayed acknowledgment is due. It is [`Instant::FAR_FUTURE`] if none is delayed.
    deadline: Instant,
}

impl AckTiming {
    pub fn new(rule: AckRule, mss: u32) -> AckTiming {
        let quick_left = if rule == AckRule::Quick { QUICK_SEGMENTS } else { 0 };
        AckTiming { rule, mss, due: false, quick_left, segments: 0, bytes: 0, deadline: Instant::FAR_FUTURE }
    }

    /// Processes the arrival of `segment`, with its relation `arrival` to the data before it.
    pub fn arrived(&mut self, now: Instant, segment: &TcpSegment, arrival: SegmentEffect) {
        self.segments += 1;
        self.bytes += u64::from(segment.len);
        let at_once = segment.flags.has(Flags::FIN) || self.is_at_once(segment, arrival);
        if at_once || self.is_second() {
            self.due = true;
        } else if self.deadline == Instant::FAR_FUTURE {
            self.deadline = now + self.delay();
        }
    }

    fn is_at_once(&mut self, segment: &TcpSegment, arrival: SegmentEffect) -> bool {
        match self.rule {
            AckRule::None => true,
            AckRule::Standard { .. } => arrival != SegmentEffect::InOrder,
            AckRule::Modified { oracle: false, .. } => arrival == SegmentEffect::FillsGap,
            AckRule::Modified { oracle: true, .. } => {
                segment.flags.has(Flags::RETRANSMIT) && arrival != SegmentEffect::InOrder
            }
            AckRule::Quick => {
                let quick = self.quick_left > 0;
                self.quick_left = self.quick_left.saturating_sub(1);
                quick || arrival != SegmentEffect::InOrder
            }
        }
    }

    fn is_second(&self) -> bool {
        match self.rule {
            AckRule::Modified { .. } => self.segments >= 2,
            _ => self.bytes >= 2 * u64::from(self.mss),
        }
    }

    fn delay(&self) -> Duration {
        match self.rule {
            AckRule::None => Duration::ZERO,
            AckRule::Standard { delay } | AckRule::Modified { delay, .. } => delay,
            AckRule::Quick => QUICK_DELAY,
        }
    }

    /// Makes the delayed acknowledgment due if its time has passed.
    pub fn wake(&mut self, now: Instant) {
        self.due |= self.deadline <= now;
    }

    /// Makes an acknowledgment due although no segment has arrived.
    pub fn set_due(&mut self) {
        self.due = true;
    }

    /// Returns true if an acknowledgment is due. It then counts as sent.
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
