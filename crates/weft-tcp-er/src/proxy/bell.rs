//! What wakes a thread that waits for descriptors (eventfd).

use super::sys::{self, unless_blocked};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd, RawFd};

/// A bell; rung several times before it is heard, it is heard once.
pub struct Bell(File);

impl AsRawFd for Bell {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Bell {
    /// One that nobody has rung.
    ///
    /// # Errors
    /// When there is no descriptor.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell(File::from(sys::event_descriptor()?)))
    }

    /// Wakes who waits for it.
    pub fn ring(&self) {
        // It refuses only while it has been rung and was not heard.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }

    /// Makes it silent.
    ///
    /// # Errors
    /// When the kernel fails.
    pub fn hear(&self) -> io::Result<()> {
        unless_blocked((&self.0).read(&mut [0; 8])).map(drop)
    }
}
