//! What a TCP stream has sent and the other machine has not acknowledged.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::sys::check;

/// Returns the number of written bytes that the other machine has not acknowledged (`SIOCOUTQ`, tcp(7)).
pub fn unacknowledged_bytes(stream: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: c_int = 0;
    // SAFETY: the descriptor is open while it is borrowed, and `bytes` outlives the call, which writes one `int`.
    check(unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::unacknowledged_bytes;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;
    use std::thread::sleep;
    use std::time::Duration;

    #[test]
    fn bytes_count_until_the_other_machine_has_room_for_them() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.write_all(&[1; 1_000]).unwrap();
        let is_acknowledged = (0..100).any(|_| {
            sleep(Duration::from_millis(10));
            unacknowledged_bytes(stream.as_fd()).unwrap() == 0
        });
        assert!(is_acknowledged);
        // Nobody reads, so the buffers of both machines fill up.
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[1; 65_536]).is_ok() {}
        assert!(unacknowledged_bytes(stream.as_fd()).unwrap() > 0);
    }
}
