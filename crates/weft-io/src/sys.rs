//! Helpers for system calls: they convert error returns and repeat interrupted calls.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Returns the result of a system call, or [`io::Error::last_os_error`] if the result is −1.
pub(crate) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Repeats `call` while signals interrupt it, and returns its result.
pub(crate) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Maximum number of tries of one system call that fails because of pending ICMP errors.
const TRIES: usize = 4;

/// Repeats a failed call on a socket with `IP_RECVERR`.
///
/// The kernel fails one call for each ICMP error about *any* earlier datagram of the socket. Without the repetition, a
/// forged error could drop a datagram to another peer, or seem to be about that datagram.
pub(crate) fn past_old_errors<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..TRIES {
        match retry(&mut call) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
    retry(call)
}

/// Returns `None` for the error "would block", and the value of a success in `Some`.
pub(crate) fn unless_blocked<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a socket that never blocks. Programs that this process starts do not inherit it.
pub(crate) fn open_socket(family: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the call makes a new descriptor.
    let socket = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, protocol) })?;
    // SAFETY: the descriptor is new and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Binds a socket to an address in the kernel's byte layout.
pub(crate) fn bind(socket: BorrowedFd, address: &[u8]) -> io::Result<()> {
    let len = address.len() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed. The kernel only reads `address`, which has `len` bytes.
    check(unsafe { libc::bind(socket.as_raw_fd(), address.as_ptr().cast(), len) }).map(drop)
}

/// Receives a datagram and its sender's address in the kernel's byte layout. Returns the number of received bytes.
pub(crate) fn receive_from(socket: BorrowedFd, buffer: &mut [u8], sender: &mut [u8]) -> io::Result<usize> {
    let (bytes, address) = (buffer.as_mut_ptr().cast(), sender.as_mut_ptr().cast());
    let mut len = sender.len() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed. The kernel writes at most the given lengths to the buffers.
    let received = unsafe { libc::recvfrom(socket.as_raw_fd(), bytes, buffer.len(), 0, address, &raw mut len) };
    check(received as c_int).map(|received| received as usize)
}

/// Sets a socket option to the given bytes.
pub(crate) fn set_option_bytes(socket: BorrowedFd, level: c_int, option: c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed. Pointer and length describe `value`, which the kernel only
    // reads.
    check(unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), value.len() as libc::socklen_t)
    })
    .map(drop)
}

/// Sets a socket option of type C `int`.
pub(crate) fn set_option(socket: BorrowedFd, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    set_option_bytes(socket, level, option, &value.to_ne_bytes())
}

/// Attaches a classic BPF program to a socket. The program runs on each datagram before the socket receives it.
pub(crate) fn attach_filter(socket: RawFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    let described = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let size = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the kernel only reads the description and the program, which both outlive the call.
    check(unsafe {
        libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, (&raw const described).cast(), size)
    })
    .map(drop)
}
