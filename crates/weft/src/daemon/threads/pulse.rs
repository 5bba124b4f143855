//! The heartbeat of a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// State of a thread: it works, or it waits for something outside.
///
/// The number is odd while the thread works, and rises with each beat. A thread that waits is well, however long the
/// wait takes.
#[derive(Clone)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// Creates the heartbeat of a thread that works.
    pub(super) fn new() -> Pulse {
        Pulse(Arc::new(AtomicU64::new(1)))
    }

    /// Records progress of a working thread.
    pub fn beat(&self) {
        self.set(1);
    }

    /// Marks the thread as waiting during `wait`.
    ///
    /// The wait may be for the kernel, another process or another thread, and may take any time.
    pub fn resting<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.set(0);
        let result = wait();
        self.set(1);
        result
    }

    /// Returns the number of the last beat; `None` while the thread waits.
    pub(super) fn working(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|number| number % 2 == 1)
    }

    /// Returns true if this heartbeat and `other` belong to one thread.
    pub(super) fn is_same(&self, other: &Pulse) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Stores the next beat with this parity: 1 while the thread works, 0 while it waits.
    ///
    /// Only the watched thread stores beats, so the load before the store loses none.
    fn set(&self, parity: u64) {
        let number = self.0.load(Ordering::Relaxed);
        self.0.store((number + 2) & !1 | parity, Ordering::Relaxed);
    }
}
