//! System calls that the standard library does not wrap.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Returns the result of a system call, or the error in `errno` if the call returned −1.
pub(crate) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Moves the calling thread into new namespaces (`unshare(2)`).
pub(crate) fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: The call takes no pointers. It changes only the calling thread's namespaces.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// Moves the calling thread into the network namespace `netns` (`setns(2)`). Async-signal-safe.
pub(crate) fn enter_netns(netns: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: The call takes no pointers, and the descriptor is borrowed for the call.
    check(unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Makes the kernel kill this process when the thread that forked it ends. Async-signal-safe.
pub(crate) fn die_with_parent() -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes one integer argument.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) }).map(drop)
}
