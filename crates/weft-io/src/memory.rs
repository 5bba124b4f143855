//! Wipes memory when it is freed.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator. It overwrites every block with zeros before it gives the block back.
///
/// A program that keeps secrets makes it the global allocator. Keys are then wiped when their owner is dropped. Copies that libraries and
/// growing vectors leave behind are wiped as well. It costs nothing in steady state, where nothing is freed.
#[derive(Clone, Copy, Debug, Default)]
pub struct WipingAllocator;

// SAFETY: every call is passed on to `System` with the same arguments. Before a block is freed it is written within its layout, while it
// still belongs to the caller. The default `realloc` allocates, copies and frees by these methods.
unsafe impl GlobalAlloc for WipingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps `GlobalAlloc::alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps `GlobalAlloc::alloc_zeroed`'s contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block is the caller's, `layout.size()` bytes long, and not used by anybody else any more. Unlike a plain write this one
        // is not left out by the compiler.
        unsafe { libc::explicit_bzero(block.cast(), layout.size()) };
        // SAFETY: the caller keeps `GlobalAlloc::dealloc`'s contract.
        unsafe { System.dealloc(block, layout) }
    }
}
