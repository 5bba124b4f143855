//! The two idioms of every system call: minus one is an error, and an interrupted call is made again.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Turns the kernel's −1 into [`io::Error::last_os_error`].
pub(crate) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Makes the call again as long as a signal interrupts it.
pub(crate) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// ICMP errors may come in between so many tries of one call.
const TRIES: usize = 4;

/// Makes a call on a socket with `IP_RECVERR` again that failed. The kernel lets one call fail for each ICMP error about *any* earlier datagram of
/// the socket: without this a forged error could cost a datagram to another peer, or pass for its fault.
pub(crate) fn past_old_errors<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..TRIES {
        match retry(&mut call) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
    retry(call)
}

/// Turns "would block" into `None`.
pub(crate) fn unless_blocked<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets a socket option to the given bytes.
pub(crate) fn set_option_bytes(socket: BorrowedFd, level: c_int, option: c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as it is borrowed; pointer and length describe `value`, which the kernel only reads.
    check(unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), value.len() as libc::socklen_t)
    })
    .map(drop)
}

/// Sets a socket option that is a C `int`.
pub(crate) fn set_option(socket: BorrowedFd, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    set_option_bytes(socket, level, option, &value.to_ne_bytes())
}
