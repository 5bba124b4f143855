//! Computes when packets leave the transmitter of a link whose capacity changes with time.

use super::timeline::ImpairmentTimeline;
use crate::trace::{OPPORTUNITY_BYTES, RunningTrace, Trace};
use weft_units::{Instant, Rate};

/// The capacity of one direction of a link before any impairment changes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkCapacity {
    /// A constant rate, counted in IP bytes.
    Rate(Rate),
    /// A trace: times at which the link can carry a full packet.
    Trace(Trace),
}

/// The transmitter of one direction of a link, which sends packets one after another.
#[derive(Clone, Debug)]
pub struct Serializer {
    base: Base,
    timeline: ImpairmentTimeline,
    free_at: Instant,
    /// Bytes that the current delivery opportunity of the trace can still carry.
    room: u64,
}

#[derive(Clone, Debug)]
enum Base {
    Rate(Rate),
    Trace(RunningTrace),
}

/// Number of parts into which the transmitter divides one bit, so that it computes without rounding.
///
/// Derived: the nanoseconds of a second. A rate times whole nanoseconds is then a whole number of these parts.
const NANOS: u128 = 1_000_000_000;

impl Serializer {
    /// Creates a transmitter that is idle at `now`.
    ///
    /// A trace counts its opportunities from `start`.
    pub fn new(capacity: &LinkCapacity, timeline: ImpairmentTimeline, start: Instant, now: Instant) -> Serializer {
        let base = match capacity {
            LinkCapacity::Rate(rate) => Base::Rate(*rate),
            LinkCapacity::Trace(trace) => Base::Trace(RunningTrace::new(trace.clone(), start)),
        };
        Serializer { base, timeline, free_at: now, room: 0 }
    }

    /// Transmits `bytes` after all earlier packets and returns the time at which they have left.
    ///
    /// The transmission starts at `now` or later. `now` must not be earlier than in the previous call.
    pub fn transmit(&mut self, now: Instant, bytes: u64) -> Instant {
        match &mut self.base {
            Base::Rate(rate) => {
                let mut left = u128::from(bytes) * 8 * NANOS;
                let mut at = now.max(self.free_at);
                loop {
                    let conditions = self.timeline.at(at);
                    let bps = rate_under(*rate, &conditions);
                    let lasts = u128::from(conditions.until.as_nanos() - at.as_nanos());
                    let possible = bps * lasts;
                    if bps > 0 && left <= possible {
                        let nanos = (left + bps / 2) / bps;
                        self.free_at = Instant::from_nanos(at.as_nanos() + nanos as u64);
                        return self.free_at;
                    }
                    if conditions.until == Instant::FAR_FUTURE {
                        return Instant::FAR_FUTURE;
                    }
                    left -= possible;
                    at = conditions.until;
                }
            }
            Base::Trace(trace) => {
                if now > self.free_at {
                    trace.skip_to(now);
                    self.room = 0;
                    self.free_at = now;
                }
                let mut left = bytes;
                while left > self.room {
                    left -= self.room;
                    let at = trace.time_after(0);
                    trace.use_next();
                    let conditions = self.timeline.at(at);
                    self.room = opportunity_bytes(&conditions);
                    self.free_at = at;
                }
                self.room -= left;
                self.free_at
            }
        }
    }

    /// Returns the conditions of the link at `time`, such as the additional delay that a handover causes.
    ///
    /// `time` is the departure that [`Serializer::transmit`] returned last.
    pub fn conditions(&mut self, time: Instant) -> super::Conditions {
        self.timeline.at(time)
    }

    /// Returns the number of bytes that can be transmitted in `from..to`.
    ///
    /// The capacity during outages that drop packets is included only if `with_silence` is true. `from` must not be
    /// earlier than the latest time of a previous call.
    pub fn bytes_between(&mut self, from: Instant, to: Instant, with_silence: bool) -> u64 {
        let (mut at, mut bits, mut bytes) = (from, 0, 0);
        while at < to {
            let conditions = self.timeline.at(at);
            let end = conditions.until.min(to);
            if with_silence || !conditions.silent {
                match &self.base {
                    Base::Rate(rate) => bits += rate_under(*rate, &conditions) * (end - at).as_nanos(),
                    Base::Trace(trace) => {
                        bytes += trace.bytes_between(at, end) / OPPORTUNITY_BYTES * opportunity_bytes(&conditions);
                    }
                }
            }
            at = end;
        }
        bytes + (bits / 8 / NANOS) as u64
    }
}

/// Returns the rate of the transmitter under these conditions, in bit/s, if the link has the constant rate `rate`.
fn rate_under(rate: Rate, conditions: &super::Conditions) -> u128 {
    if conditions.stalled {
        return 0;
    }
    u128::from(conditions.swing.unwrap_or(rate).scaled(conditions.factor).bps())
}

/// Returns the number of bytes that one delivery opportunity of a trace carries under these conditions.
fn opportunity_bytes(conditions: &super::Conditions) -> u64 {
    if conditions.stalled {
        return 0;
    }
    (OPPORTUNITY_BYTES as f64 * conditions.factor) as u64
}
