//! Memory of engines, measured by a counting allocator.
//!
//! It does not count memory that the cipher library takes from the system. All of that belongs to keys.
#![allow(missing_docs)]

mod outages;
mod vpns;

#[path = "../net/mod.rs"]
mod net;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator. It counts the bytes in use by each thread, and each test has a thread of its own.
struct Weighing;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every method passes its arguments to the system's allocator unchanged, and returns its result.
unsafe impl GlobalAlloc for Weighing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get().wrapping_add(layout.size()));
        // SAFETY: the caller guarantees the conditions that `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get().wrapping_sub(layout.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Weighing = Weighing;

/// Returns the number of bytes that this thread has in use.
fn bytes_in_use() -> usize {
    BYTES.get()
}
