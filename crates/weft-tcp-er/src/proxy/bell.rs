//! Wakes a thread that waits for events of descriptors (eventfd).

use super::descriptors;
use super::sys::unless_blocked;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd, RawFd};

/// A wake-up signal of a thread.
///
/// Several signals before the next [`Bell::clear`] have the effect of one.
pub struct Bell(File);

impl AsRawFd for Bell {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Bell {
    /// Creates a wake-up signal that is not set.
    ///
    /// # Errors
    /// Fails if no descriptor is available.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell(File::from(descriptors::event_descriptor()?)))
    }

    /// Wakes the thread that waits for this signal.
    pub fn ring(&self) {
        // A write fails only if the counter of the signal is at its maximum. The thread is then woken anyway.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }

    /// Clears the signal, so that the thread waits again.
    ///
    /// # Errors
    /// Fails if the kernel returns an error.
    pub fn clear(&self) -> io::Result<()> {
        unless_blocked((&self.0).read(&mut [0; 8])).map(drop)
    }
}
