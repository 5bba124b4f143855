//! When a packet has left the transmitter of a link whose capacity changes with time.

use super::timeline::Timeline;
use crate::trace::{OPPORTUNITY_BYTES, RunningTrace, Trace};
use weft_units::{Instant, Rate};

/// What a direction carries where nothing changes with time.
#[derive(Clone, PartialEq, Debug)]
pub enum Capacity {
    /// A constant rate, counting IP bytes.
    Rate(Rate),
    /// Delivery opportunities.
    Trace(Trace),
}

/// Transmits packets one after another.
#[derive(Clone, Debug)]
pub struct Serializer {
    base: Base,
    timeline: Timeline,
    free_at: Instant,
    /// What is left of the opportunity in use, in bytes.
    room: u64,
}

#[derive(Clone, Debug)]
enum Base {
    Rate(Rate),
    Trace(RunningTrace),
}

/// Bits times this are counted, so that a rate and a whole number of nanoseconds give a whole number.
const NANOS: u128 = 1_000_000_000;

impl Serializer {
    /// Creates a transmitter that is idle at `now`. A trace counts its opportunities from `start`.
    pub fn new(capacity: &Capacity, timeline: Timeline, start: Instant, now: Instant) -> Serializer {
        let base = match capacity {
            Capacity::Rate(rate) => Base::Rate(*rate),
            Capacity::Trace(trace) => Base::Trace(RunningTrace::new(trace.clone(), start)),
        };
        Serializer { base, timeline, free_at: now, room: 0 }
    }

    /// Transmits `bytes` from `now` on, after all before, and returns when they have left. `now` never goes back.
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

    /// What is added to the delay of a packet that left at `time`, the last that [`Serializer::transmit`] returned.
    pub fn conditions(&mut self, time: Instant) -> super::Conditions {
        self.timeline.at(time)
    }

    /// Bytes that can be transmitted in `from..to`; of silent times too only if `with_silence`. `from` is not before the last moment asked for.
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

/// The rate under these conditions, in bit/s.
fn rate_under(rate: Rate, conditions: &super::Conditions) -> u128 {
    if conditions.stalled {
        return 0;
    }
    u128::from(conditions.swing.unwrap_or(rate).scaled(conditions.factor).bps())
}

/// What an opportunity carries under these conditions.
fn opportunity_bytes(conditions: &super::Conditions) -> u64 {
    if conditions.stalled {
        return 0;
    }
    (OPPORTUNITY_BYTES as f64 * conditions.factor) as u64
}
