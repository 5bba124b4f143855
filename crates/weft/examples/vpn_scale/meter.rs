//! Meters: the processor time of this thread, and the heap of the process.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Returns the processor time that this thread has used.
pub fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock").into()
}

/// Returns the time that two readings of the clock add to a measurement between them.
pub fn clock_cost() -> Duration {
    const READINGS: u32 = 10_000;
    let begin = processor_time();
    (0..READINGS).for_each(|_| {
        std::hint::black_box(processor_time());
    });
    (processor_time() - begin) / (READINGS + 1)
}

/// Returns the bytes in use on the heap.
///
/// They include the allocator's overhead and the allocations of the cipher library.
pub fn heap_bytes() -> i64 {
    // SAFETY: the function has no arguments and only reads the allocator's own counters.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as i64
}
