//! A memory allocator that wipes freed memory.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, which overwrites every block with zeros before it frees the block.
///
/// A program that keeps secrets makes it the global allocator. Keys are then wiped when their owner is dropped. It also
/// wipes copies that libraries and growing vectors leave behind. It costs nothing in steady state, where nothing is
/// freed.
#[derive(Clone, Copy, Debug, Default)]
pub struct WipingAllocator;

// SAFETY: every call is forwarded to `System` with the same arguments. Before a block is freed, it is written within
// its layout, while it still belongs to the caller. The default `realloc` uses these methods to allocate, copy and
// free.
unsafe impl GlobalAlloc for WipingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block belongs to the caller, is `layout.size()` bytes long, and nothing else uses it any more.
        // Unlike a plain write, the compiler does not remove this one.
        unsafe { libc::explicit_bzero(block.cast(), layout.size()) };
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(block, layout) }
    }
}
