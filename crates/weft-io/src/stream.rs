//! TCP streams: unacknowledged and unsent bytes, options, and connections bound to a device.

use std::ffi::c_int;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::sys::{check, open_socket, set_option, set_option_bytes};
use crate::udp::RawAddress;

/// Silence after which the kernel probes an idle stream, in seconds. Tuned: below the idle times of common NATs.
const KEEPALIVE_S: c_int = 20;
/// Interval of the kernel's probes of an idle stream, in seconds.
const KEEPALIVE_INTERVAL_S: c_int = 2;

/// Returns the number of written bytes that the other machine has not acknowledged (`SIOCOUTQ`, tcp(7)).
pub fn unacknowledged_bytes(stream: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: c_int = 0;
    // SAFETY: the descriptor is open while it is borrowed, and `bytes` outlives the call, which writes one `int`.
    check(unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Returns the number of written bytes that the kernel has not sent yet (`SIOCOUTQNSD`, linux/sockios.h).
pub fn unsent_bytes(stream: BorrowedFd<'_>) -> io::Result<u64> {
    const SIOCOUTQNSD: libc::Ioctl = 0x894b;
    let mut bytes: c_int = 0;
    // SAFETY: the descriptor is open while it is borrowed, and `bytes` outlives the call, which writes one `int`.
    check(unsafe { libc::ioctl(stream.as_raw_fd(), SIOCOUTQNSD, &raw mut bytes) })?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// The kernel's figures about a stream.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StreamInfo {
    /// Number of segments that were sent again.
    pub retransmitted: u32,
    /// Number of bytes that the other machine has acknowledged. The kernel counts a SYN as one byte.
    pub acknowledged: u64,
    /// Least round-trip time. Zero if it is unknown.
    pub least_rtt: Duration,
}

/// Returns the kernel's figures about a stream (`TCP_INFO`, linux/tcp.h).
pub fn info(stream: BorrowedFd<'_>) -> io::Result<StreamInfo> {
    /// Byte offsets in `struct tcp_info`, which only grows at its end.
    const RETRANSMITTED: usize = 100;
    const ACKNOWLEDGED: usize = 120;
    const LEAST_RTT: usize = 148;
    let mut bytes = [0u8; 256];
    let mut len = bytes.len() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed. The kernel writes at most `len` bytes to `bytes`, and both
    // outlive the call.
    check(unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, bytes.as_mut_ptr().cast(), &raw mut len)
    })?;
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let mut acknowledged = [0; 8];
    acknowledged.copy_from_slice(&bytes[ACKNOWLEDGED..ACKNOWLEDGED + 8]);
    Ok(StreamInfo {
        retransmitted: word(RETRANSMITTED),
        acknowledged: u64::from_ne_bytes(acknowledged),
        least_rtt: Duration::from_micros(word(LEAST_RTT).into()),
    })
}

/// Begins a connection to `remote` without waiting for it.
///
/// The stream is bound to `device` if one is given. The mark is for rules of nftables and of routing. It stays unset
/// where the process may not set it.
///
/// # Errors
/// Returns the kernel's error.
pub fn connect(remote: SocketAddr, device: Option<&str>, mark: u32) -> io::Result<TcpStream> {
    let family = if remote.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
    let socket = open_socket(family, libc::SOCK_STREAM, 0)?;
    if let Some(device) = device {
        set_option_bytes(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BINDTODEVICE, device.as_bytes())?;
    }
    let _ = set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MARK, mark.cast_signed());
    let (address, len) = RawAddress::encode(remote, remote.is_ipv6());
    // SAFETY: the descriptor is open. `len` bytes of `address` are a socket address, which the kernel only reads.
    match check(unsafe { libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), len) }) {
        Err(why) if why.raw_os_error() != Some(libc::EINPROGRESS) => Err(why),
        _ => Ok(TcpStream::from(socket)),
    }
}

/// Sets the options of a stream that carries datagrams.
///
/// Small writes leave at once. The stream is writable only while fewer than `unsent` bytes wait, and it fails when
/// data stays unacknowledged for `longest`. It uses BBR where the kernel has it, because CUBIC takes each random loss
/// for congestion.
///
/// # Errors
/// Returns the kernel's error.
pub fn tune(stream: BorrowedFd<'_>, unsent: u32, longest: Duration) -> io::Result<()> {
    let longest_ms = c_int::try_from(longest.as_millis()).unwrap_or(c_int::MAX);
    set_option(stream, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    set_option(stream, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, unsent.cast_signed())?;
    set_option(stream, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, longest_ms)?;
    set_option(stream, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    set_option(stream, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, KEEPALIVE_S)?;
    set_option(stream, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)?;
    // Without BBR the stream works, but slower on links with loss.
    let _ = set_option_bytes(stream, libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"bbr");
    Ok(())
}

/// Returns two connected ends between which whole packets pass (`SOCK_SEQPACKET`). Both are non-blocking.
///
/// # Errors
/// Returns the kernel's error.
pub fn packet_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the kernel writes two descriptors to `ends`, which outlives the call.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
    // SAFETY: the descriptors are new and nothing else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

#[cfg(test)]
mod tests {
    use super::{StreamInfo, connect, info, packet_pair, tune, unacknowledged_bytes, unsent_bytes};
    use std::fs::File;
    use std::io::{Read as _, Write as _};
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

    #[test]
    fn a_stream_to_a_reader_that_does_not_read_has_unsent_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = connect(listener.local_addr().unwrap(), None, 0).unwrap();
        let _reader = listener.accept().unwrap();
        tune(stream.as_fd(), 16_384, Duration::from_secs(5)).unwrap();
        assert!(stream.nodelay().unwrap());
        stream.write_all(&[1; 1_000]).unwrap();
        let is_known = |of: &StreamInfo| of.acknowledged == 1_001 && of.least_rtt > Duration::ZERO;
        let known = (0..100).map(|_| {
            sleep(Duration::from_millis(10));
            info(stream.as_fd()).unwrap()
        });
        assert_eq!(known.into_iter().find(is_known).map(|of| of.retransmitted), Some(0));
        assert_eq!(unsent_bytes(stream.as_fd()).unwrap(), 0);
        while stream.write(&[1; 65_536]).is_ok() {}
        assert!(unsent_bytes(stream.as_fd()).unwrap() > 0);
    }

    #[test]
    fn packets_of_a_pair_keep_their_borders() {
        let (one, other) = packet_pair().unwrap();
        let (mut one, mut other) = (File::from(one), File::from(other));
        assert_eq!(one.write(&[1; 3_000]).unwrap() + one.write(&[2; 10]).unwrap(), 3_010);
        let mut buffer = [0; 4_000];
        assert_eq!([other.read(&mut buffer).unwrap(), other.read(&mut buffer).unwrap()], [3_000, 10]);
        assert!(other.read(&mut buffer).is_err_and(|why| why.kind() == std::io::ErrorKind::WouldBlock));
    }
}
