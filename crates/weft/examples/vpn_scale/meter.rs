//! What this thread has used of the processor, and the process of the heap.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Processor time of this thread so far.
pub fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock").into()
}

/// What reading the clock twice adds to what is measured between.
pub fn clock_cost() -> Duration {
    const READINGS: u32 = 10_000;
    let begin = processor_time();
    (0..READINGS).for_each(|_| {
        std::hint::black_box(processor_time());
    });
    (processor_time() - begin) / (READINGS + 1)
}

/// Bytes in use on the heap, with what the allocator adds to each piece, and with what the cipher library asked for.
pub fn heap_bytes() -> i64 {
    // SAFETY: it has no arguments and only reads the allocator's own counts.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as i64
}
