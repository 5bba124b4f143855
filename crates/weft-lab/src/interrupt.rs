//! Handles Ctrl-C. Every long wait checks a flag, so that the lab shuts down in order.

use crate::LabError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
const STEP: Duration = Duration::from_millis(20);

extern "C" fn note(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Makes SIGINT and SIGTERM end a run early. The process itself continues.
pub(crate) fn watch() {
    let handler = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: The handler only stores to an atomic.
    unsafe {
        libc::signal(libc::SIGINT, handler);
        libc::signal(libc::SIGTERM, handler);
    }
}

/// Returns an error after a signal (Ctrl-C or SIGTERM) has asked the run to end.
pub(crate) fn check() -> Result<(), LabError> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(LabError::Interrupted) } else { Ok(()) }
}

/// Sleeps until `deadline`, or until the user interrupts the run.
pub(crate) fn sleep_until(deadline: Instant) -> Result<(), LabError> {
    loop {
        check()?;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(STEP));
    }
}
