//! Computes when a packet leaves the transmitter of a link.

use weft_scenario::channel::LinkCapacity;
use weft_scenario::trace::{OPPORTUNITY_BYTES, RunningTrace};
use weft_units::{Instant, Rate};

/// The transmitter of one direction of a link, which sends packets one after another.
pub(super) enum Transmitter {
    Constant {
        rate: Rate,
        /// Transmission time of a byte in nanoseconds, times 2³².
        byte_time_q32: u64,
        free_at: Instant,
    },
    Trace {
        trace: RunningTrace,
        /// Unused bytes of the current transmission opportunity of the trace.
        room: u64,
        free_at: Instant,
    },
}

impl Transmitter {
    pub(super) fn new(capacity: &LinkCapacity, now: Instant) -> Transmitter {
        match capacity {
            LinkCapacity::Rate(rate) => {
                let q32 = (8_000_000_000u128 << 32) / u128::from(rate.bps().max(1));
                let byte_time_q32 = u64::try_from(q32).unwrap_or(u64::MAX);
                Transmitter::Constant { rate: *rate, byte_time_q32, free_at: now }
            }
            LinkCapacity::Trace(trace) => {
                Transmitter::Trace { trace: RunningTrace::new(trace.clone(), now), room: 0, free_at: now }
            }
        }
    }

    /// Transmits a packet of `bytes` after all earlier ones, not before `now`.
    ///
    /// It returns the time at which the last byte has left.
    #[inline]
    pub(super) fn transmit(&mut self, now: Instant, bytes: u32) -> Instant {
        match self {
            Transmitter::Constant { byte_time_q32, free_at, .. } => {
                let nanos = (u128::from(bytes) * u128::from(*byte_time_q32) + (1 << 31)) >> 32;
                *free_at = Instant::from_nanos(now.max(*free_at).as_nanos().saturating_add(nanos as u64));
                *free_at
            }
            Transmitter::Trace { trace, room, free_at } => {
                if now > *free_at {
                    trace.skip_to(now);
                    *room = 0;
                }
                let mut left = u64::from(bytes);
                while left > *room {
                    left -= *room;
                    *free_at = trace.time_after(0);
                    trace.use_next();
                    *room = OPPORTUNITY_BYTES;
                }
                *room -= left;
                *free_at
            }
        }
    }

    /// Returns the number of bytes of the first packet in the queue that have not been sent at `now`.
    ///
    /// The packet leaves at `departs`. With a trace the result is one whole opportunity.
    pub(super) fn bytes_left(&self, departs: Instant, now: Instant) -> u64 {
        match self {
            Transmitter::Constant { rate, .. } => rate.bytes_in(departs - now).max(1),
            Transmitter::Trace { .. } => OPPORTUNITY_BYTES,
        }
    }

    /// Returns the number of bytes that the transmitter could have sent between `from` and `to`.
    pub(super) fn bytes_between(&self, from: Instant, to: Instant) -> u64 {
        match self {
            Transmitter::Constant { rate, .. } => rate.bytes_in(to - from),
            Transmitter::Trace { trace, .. } => trace.bytes_between(from, to),
        }
    }
}
