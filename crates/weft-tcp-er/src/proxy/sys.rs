//! System calls of the proxy on sockets and pipes.
//!
//! They cover foreign source addresses, data in the SYN, and moving bytes without copying them (splice).

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{from_mut, from_ref, null_mut};

/// Socket option `TCP_FASTOPEN_NO_COOKIE` of linux/tcp.h, which `libc` lacks.
const TCP_FASTOPEN_NO_COOKIE: c_int = 34;
/// Request `SIOCOUTQNSD` of linux/sockios.h, which `libc` lacks.
const SIOCOUTQNSD: libc::Ioctl = 0x894b;
/// Request `SIOCATMARK` of asm-generic/sockios.h, which `libc` lacks.
const SIOCATMARK: libc::Ioctl = 0x8905;
/// Bit of `tcpi_options`: the peer acknowledged the data in the SYN (linux/tcp.h).
const TCPI_OPT_SYN_DATA: u8 = 32;
/// Value of `TCP_REPAIR` that ends repair mode without a window probe (linux/tcp.h).
const TCP_REPAIR_OFF_NO_WP: c_int = -1;
/// Keepalive of a socket: 120 s of silence before the first probe, 30 s between probes, 4 probes.
const KEEPALIVE: [(c_int, c_int); 3] = [(libc::TCP_KEEPIDLE, 120), (libc::TCP_KEEPINTVL, 30), (libc::TCP_KEEPCNT, 4)];
/// Maximum number of unsent bytes in a socket. It limits memory where a receiver is slow.
const UNSENT: c_int = 256 << 10;
/// Requested size of the buffers of a socket between proxies, in bytes. The kernel doubles it.
///
/// Derived: it suffices for 200 Mbit/s over 300 ms. If retransmissions are lost too, data waits longer in the buffer.
/// It then suffices for a third of that rate.
const UNDER_WAY: c_int = 8 << 20;
/// Number of bytes that a socket may send before the other proxy has announced a larger window than in its SYN.
const ASSUMED_WINDOW: u32 = (UNDER_WAY / 2) as u32;
/// Maximum number of connections that wait at a listening socket to be accepted.
const BACKLOG: c_int = 4_096;

/// Maximum length of a SYN's headers, in bytes.
///
/// It is that of IPv6 without extensions, or of IPv4 with options, and of TCP with options.
pub const SYN_BYTES: usize = 60 + 60;

/// Returns the result of a system call, or the error that it set if the result is negative.
pub fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn count(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Returns `None` for the error "would block", and a success in `Some`. Other errors are returned.
pub fn unless_blocked<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(why) => Err(why),
    }
}

/// A socket address in the kernel's layout.
struct SocketName {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

impl SocketName {
    fn empty() -> SocketName {
        // SAFETY: all zeros is a valid sockaddr_storage.
        SocketName { storage: unsafe { zeroed() }, len: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    fn of(address: SocketAddr) -> SocketName {
        let mut name = SocketName::empty();
        match address {
            SocketAddr::V4(v4) => {
                let at = from_mut(&mut name.storage).cast::<libc::sockaddr_in>();
                let sin_addr = libc::in_addr { s_addr: v4.ip().to_bits().to_be() };
                let to = libc::sockaddr_in {
                    sin_family: libc::AF_INET as _,
                    sin_port: v4.port().to_be(),
                    sin_addr,
                    sin_zero: [0; 8],
                };
                // SAFETY: sockaddr_storage is large enough and aligned for every address.
                unsafe { at.write(to) };
                name.len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            }
            SocketAddr::V6(v6) => {
                let at = from_mut(&mut name.storage).cast::<libc::sockaddr_in6>();
                let to = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as _,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: sockaddr_storage is large enough and aligned for every address.
                unsafe { at.write(to) };
                name.len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            }
        }
        name
    }

    fn address(&self) -> io::Result<SocketAddr> {
        match c_int::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family determines the address type. The storage is large enough and aligned for it.
                let v4 = unsafe { from_ref(&self.storage).cast::<libc::sockaddr_in>().read() };
                Ok((IpAddr::from(v4.sin_addr.s_addr.to_ne_bytes()), u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: the family determines the address type. The storage is large enough and aligned for it.
                let v6 = unsafe { from_ref(&self.storage).cast::<libc::sockaddr_in6>().read() };
                Ok((Ipv6Addr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port)).into())
            }
            _ => Err(io::ErrorKind::AddrNotAvailable.into()),
        }
    }

    fn pointer(&self) -> *const libc::sockaddr {
        from_ref(&self.storage).cast()
    }
}

/// A TCP socket of the proxy, which may use addresses of other hosts as its own.
#[derive(Debug)]
pub struct Socket(OwnedFd);

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Socket {
    /// Creates a socket of the address family of `like`, which may use addresses of other hosts as its own.
    ///
    /// Its packets carry the firewall mark `mark`. If it is closed before its connection has ended, it resets the
    /// connection.
    pub fn new(like: SocketAddr, mark: u32) -> io::Result<Socket> {
        let family = if like.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers; the call makes a new descriptor that nothing else owns.
        let socket = unsafe { Socket(OwnedFd::from_raw_fd(check(libc::socket(family, kind, 0))?)) };
        match like.is_ipv4() {
            true => socket.set(libc::SOL_IP, libc::IP_TRANSPARENT, 1)?,
            false => socket.set(libc::SOL_IPV6, libc::IPV6_TRANSPARENT, 1)?,
        }
        socket.set(libc::SOL_SOCKET, libc::SO_MARK, mark as c_int)?;
        socket.set(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        socket.set(libc::SOL_SOCKET, libc::SO_OOBINLINE, 1)?;
        socket.set(libc::SOL_TCP, libc::TCP_NODELAY, 1)?;
        socket.set(libc::SOL_TCP, libc::TCP_NOTSENT_LOWAT, UNSENT)?;
        socket.set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
        KEEPALIVE.iter().try_for_each(|(option, value)| socket.set(libc::SOL_TCP, *option, *value))?;
        socket.reset_on_close(true)?;
        Ok(socket)
    }

    /// Creates a socket that listens on the address `at`. Accepted sockets inherit its options.
    ///
    /// It may share its address with other sockets of the same user.
    pub fn listen(at: SocketAddr, mark: u32) -> io::Result<Socket> {
        let socket = Socket::new(at, mark)?;
        socket.set(libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
        let name = SocketName::of(at);
        // SAFETY: this object owns the descriptor. Pointer and length describe `name`.
        check(unsafe { libc::bind(socket.as_raw_fd(), name.pointer(), name.len) })?;
        // SAFETY: no pointers.
        check(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) })?;
        Ok(socket)
    }

    /// Makes a listening socket accept data in SYNs without a cookie (RFC 7413).
    ///
    /// The namespace's `net.ipv4.tcp_fastopen` must allow it.
    pub fn take_early_data(&self) -> io::Result<()> {
        self.set(libc::SOL_TCP, libc::TCP_FASTOPEN, BACKLOG)?;
        self.set(libc::SOL_TCP, TCP_FASTOPEN_NO_COOKIE, 1)
    }

    /// Makes a listening socket keep the SYN of each accepted connection until [`Socket::take_syn`].
    pub fn keep_syns(&self) -> io::Result<()> {
        self.set(libc::SOL_TCP, libc::TCP_SAVE_SYN, 1)
    }

    /// Copies the headers of the SYN that opened this accepted connection to `into`.
    ///
    /// Returns them, from the IP header on.
    pub fn take_syn<'a>(&self, into: &'a mut [u8; SYN_BYTES]) -> io::Result<&'a [u8]> {
        let mut len = into.len() as libc::socklen_t;
        let (level, option) = (libc::SOL_TCP, libc::TCP_SAVED_SYN);
        // SAFETY: this object owns the descriptor. Pointer and length describe `into`.
        check(unsafe { libc::getsockopt(self.as_raw_fd(), level, option, into.as_mut_ptr().cast(), &raw mut len) })?;
        Ok(into.get(..len as usize).unwrap_or_default())
    }

    /// Accepts the next connection of a listening socket. Returns `None` if there is none now.
    pub fn accept(&self) -> io::Result<Option<Socket>> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: this object owns the descriptor. The address is not requested.
        let accepted = unsafe { libc::accept4(self.as_raw_fd(), null_mut(), null_mut(), flags) };
        // SAFETY: the descriptor is new and nothing else owns it.
        Ok(unless_blocked(check(accepted))?.map(|fd| Socket(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// Returns the local address. For an accepted connection it is the address to which the client connected.
    pub fn local(&self) -> io::Result<SocketAddr> {
        let mut name = SocketName::empty();
        let storage = from_mut(&mut name.storage).cast();
        // SAFETY: this object owns the descriptor. Pointer and length describe `name`.
        check(unsafe { libc::getsockname(self.as_raw_fd(), storage, &raw mut name.len) })?;
        name.address()
    }

    /// Returns the remote address.
    pub fn remote(&self) -> io::Result<SocketAddr> {
        let mut name = SocketName::empty();
        let storage = from_mut(&mut name.storage).cast();
        // SAFETY: this object owns the descriptor. Pointer and length describe `name`.
        check(unsafe { libc::getpeername(self.as_raw_fd(), storage, &raw mut name.len) })?;
        name.address()
    }

    /// Sets the local address of the socket, which may be another host's.
    ///
    /// With port 0 the kernel chooses the port when the socket connects.
    pub fn bind(&self, to: SocketAddr) -> io::Result<()> {
        if to.port() == 0 {
            self.set(libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        }
        let name = SocketName::of(to);
        // SAFETY: this object owns the descriptor. Pointer and length describe `name`.
        check(unsafe { libc::bind(self.as_raw_fd(), name.pointer(), name.len) }).map(drop)
    }

    /// Starts to connect to an address, and does not wait for the result.
    pub fn connect(&self, to: SocketAddr) -> io::Result<()> {
        let name = SocketName::of(to);
        // SAFETY: this object owns the descriptor. Pointer and length describe `name`.
        match check(unsafe { libc::connect(self.as_raw_fd(), name.pointer(), name.len) }) {
            Err(why) if why.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
            result => result.map(drop),
        }
    }

    /// Starts to connect, with data in the SYN (RFC 7413, without a cookie).
    ///
    /// Returns the number of bytes of `data` that the kernel took.
    pub fn connect_with(&self, to: SocketAddr, data: &[u8]) -> io::Result<usize> {
        self.set(libc::SOL_TCP, TCP_FASTOPEN_NO_COOKIE, 1)?;
        let name = SocketName::of(to);
        let flags = libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: this object owns the descriptor. Pointers and lengths describe `data` and `name`.
        let sent = count(unsafe {
            libc::sendto(self.as_raw_fd(), data.as_ptr().cast(), data.len(), flags, name.pointer(), name.len)
        });
        match sent {
            Err(why) if why.raw_os_error() == Some(libc::EINPROGRESS) => Ok(0),
            result => result,
        }
    }

    /// Selects the socket's congestion control by its name.
    pub fn set_congestion(&self, name: &str) -> io::Result<()> {
        self.set_bytes(libc::SOL_TCP, libc::TCP_CONGESTION, name.as_bytes())
    }

    /// Limits the sending rate, in bytes per second; `None` removes the limit.
    pub fn set_rate(&self, rate: Option<u64>) -> io::Result<()> {
        // The kernel accepts 64 bits as well as 32.
        self.set_bytes(libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate.unwrap_or(u64::MAX).to_ne_bytes())
    }

    /// Enlarges the socket buffers for a long path and for data that waits behind lost retransmissions.
    ///
    /// If the kernel does not permit this, the system's limits remain.
    pub fn hold_more(&self) {
        for option in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            let _ = self.set(libc::SOL_SOCKET, option, UNDER_WAY);
        }
    }

    /// True if the SYN carried data that the far end accepted.
    ///
    /// The far end is then another proxy: no other host accepts data without a cookie.
    pub fn spoke_early(&self) -> bool {
        const OPTIONS: usize = 5;
        // The rest of `struct tcp_info` is not requested.
        let mut info = [0; 8];
        self.get_bytes(libc::SOL_TCP, libc::TCP_INFO, &mut info).is_ok() && info[OPTIONS] & TCPI_OPT_SYN_DATA != 0
    }

    /// Lets the socket send as if the far end, a proxy, had already announced its large window.
    ///
    /// A SYN announces at most 64 KiB (RFC 7323 §2.2), and further data would wait for the first acknowledgement. The
    /// far end accepts data up to its buffer size, regardless of the SYN's window.
    ///
    /// # Errors
    /// Fails if the kernel does not permit it. The socket is then unchanged.
    pub fn assume_window(&self) -> io::Result<()> {
        self.set(libc::SOL_TCP, libc::TCP_REPAIR, 1)?;
        let assumed = self.widen_window();
        let ended = self.set(libc::SOL_TCP, libc::TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
        // The end of repair mode has cleared this option.
        self.set(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        assumed.and(ended)
    }

    fn widen_window(&self) -> io::Result<()> {
        // `struct tcp_repair_window` of linux/tcp.h: snd_wl1, snd_wnd, max_window, rcv_wnd, rcv_wup.
        let mut fields = [[0; 4]; 5];
        self.get_bytes(libc::SOL_TCP, libc::TCP_REPAIR_WINDOW, fields.as_flattened_mut())?;
        let [_, window, most, ..] = &mut fields;
        for field in [window, most] {
            *field = u32::from_ne_bytes(*field).max(ASSUMED_WINDOW).to_ne_bytes();
        }
        self.set_bytes(libc::SOL_TCP, libc::TCP_REPAIR_WINDOW, fields.as_flattened())
    }

    /// Determines how the connection ends when the socket is closed: by RST if `reset` is true, otherwise by FIN.
    pub fn reset_on_close(&self, reset: bool) -> io::Result<()> {
        let linger = [c_int::from(reset), 0];
        let bytes: Vec<u8> = linger.iter().flat_map(|value| value.to_ne_bytes()).collect();
        self.set_bytes(libc::SOL_SOCKET, libc::SO_LINGER, &bytes)
    }

    /// Fails with the socket's pending error, if there is one, and clears that error.
    pub fn take_error(&self) -> io::Result<()> {
        let mut error = [0; 4];
        self.get_bytes(libc::SOL_SOCKET, libc::SO_ERROR, &mut error)?;
        match c_int::from_ne_bytes(error) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Returns the number of sent and unsent bytes in the socket that are not acknowledged yet.
    pub fn unacknowledged(&self) -> u64 {
        self.ask(libc::TIOCOUTQ)
    }

    /// Returns the number of bytes in the socket that are not sent yet.
    pub fn unsent(&self) -> u64 {
        self.ask(SIOCOUTQNSD)
    }

    /// Returns true if the next byte to read is the urgent one.
    pub fn is_at_mark(&self) -> bool {
        self.ask(SIOCATMARK) != 0
    }

    fn ask(&self, request: libc::Ioctl) -> u64 {
        let mut value: c_int = 0;
        // SAFETY: this object owns the descriptor. These requests write one int.
        let result = unsafe { libc::ioctl(self.as_raw_fd(), request, &raw mut value) };
        if result < 0 { 0 } else { u64::try_from(value).unwrap_or(0) }
    }

    /// Copies received bytes to `into` without consuming them. Returns their number; 0 at the end of the stream.
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.receive(into, libc::MSG_PEEK)
    }

    /// Consumes received bytes that [`Socket::peek`] has returned before. Returns their number.
    pub fn skip(&self, bytes: usize) -> io::Result<usize> {
        // With MSG_TRUNC, TCP copies nothing (tcp(7)).
        // SAFETY: this object owns the descriptor. The kernel writes nothing to the null pointer.
        count(unsafe { libc::recv(self.as_raw_fd(), null_mut(), bytes, libc::MSG_TRUNC | libc::MSG_DONTWAIT) })
    }

    fn receive(&self, into: &mut [u8], flags: c_int) -> io::Result<usize> {
        // SAFETY: this object owns the descriptor. Pointer and length describe `into`.
        count(unsafe { libc::recv(self.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags | libc::MSG_DONTWAIT) })
    }

    /// Sends bytes and returns the number that the kernel took.
    ///
    /// If `urgent` is true, the last byte is marked as urgent.
    pub fn send(&self, bytes: &[u8], urgent: bool) -> io::Result<usize> {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | if urgent { libc::MSG_OOB } else { 0 };
        // SAFETY: this object owns the descriptor. Pointer and length describe `bytes`.
        count(unsafe { libc::send(self.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) })
    }

    /// Sends the end of the stream (FIN).
    pub fn finish(&self) -> io::Result<()> {
        // SAFETY: no pointers.
        check(unsafe { libc::shutdown(self.as_raw_fd(), libc::SHUT_WR) }).map(drop)
    }

    fn get_bytes(&self, level: c_int, option: c_int, value: &mut [u8]) -> io::Result<()> {
        let mut len = value.len() as libc::socklen_t;
        // SAFETY: this object owns the descriptor. Pointer and length describe `value`.
        let result = unsafe {
            libc::getsockopt(self.as_raw_fd(), level, option, value.as_mut_ptr().cast::<c_void>(), &raw mut len)
        };
        check(result)?;
        if len as usize == value.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn set(&self, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
        self.set_bytes(level, option, &value.to_ne_bytes())
    }

    fn set_bytes(&self, level: c_int, option: c_int, value: &[u8]) -> io::Result<()> {
        let len = value.len() as libc::socklen_t;
        // SAFETY: this object owns the descriptor. Pointer and length describe `value`, which the kernel only reads.
        check(unsafe { libc::setsockopt(self.as_raw_fd(), level, option, value.as_ptr().cast(), len) }).map(drop)
    }
}

/// A pipe by which bytes move from one socket to another without being copied. Its calls never block.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipe {
    /// Creates a pipe with a capacity of about `bytes`, or less if the kernel limits it.
    pub fn new(bytes: c_int) -> io::Result<Pipe> {
        let mut ends = [0; 2];
        // SAFETY: `ends` has space for two descriptors, which are new.
        check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK | libc::O_CLOEXEC) })?;
        // SAFETY: nothing else owns the two descriptors.
        let [read, write] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        // A smaller pipe works as well.
        // SAFETY: no pointers.
        let _ = unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) };
        Ok(Pipe { read, write })
    }

    /// Moves up to `most` received bytes from the socket `from` into the pipe, and returns their number.
    pub fn fill(&self, from: &Socket, most: usize) -> io::Result<usize> {
        splice(from.as_raw_fd(), self.write.as_raw_fd(), most, 0)
    }

    /// Moves up to `bytes` bytes from the pipe to the socket `to`, and returns their number.
    pub fn drain(&self, to: &Socket, bytes: usize) -> io::Result<usize> {
        splice(self.read.as_raw_fd(), to.as_raw_fd(), bytes, 0)
    }
}

fn splice(from: RawFd, to: RawFd, bytes: usize, flags: u32) -> io::Result<usize> {
    let flags = flags | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MOVE;
    // SAFETY: both descriptors are open, and no offsets are given.
    count(unsafe { libc::splice(from, null_mut(), to, null_mut(), bytes, flags) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::thread::sleep;
    use std::time::{Duration, Instant};
    use weft_lab::net::Lab;

    const MARK: u32 = 7;

    fn window(socket: &Socket) -> u32 {
        let mut fields = [[0; 4]; 5];
        socket.set(libc::SOL_TCP, libc::TCP_REPAIR, 1).unwrap();
        socket.get_bytes(libc::SOL_TCP, libc::TCP_REPAIR_WINDOW, fields.as_flattened_mut()).unwrap();
        socket.set(libc::SOL_TCP, libc::TCP_REPAIR, TCP_REPAIR_OFF_NO_WP).unwrap();
        u32::from_ne_bytes(fields[1])
    }

    fn soon<T>(mut what: impl FnMut() -> Option<T>) -> T {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            match what() {
                Some(value) => return value,
                None => assert!(Instant::now() < end, "nothing happened"),
            }
            sleep(Duration::from_millis(1));
        }
    }

    /// Returns the two sockets of a connection over loopback: that of the client, and the accepted one.
    ///
    /// `early` is data in the SYN. The listening socket's buffers have the size of a proxy's.
    fn connection(early: Option<&[u8]>) -> (Socket, Socket) {
        let listener = Socket::listen("127.0.0.1:0".parse().unwrap(), MARK).unwrap();
        listener.take_early_data().unwrap();
        listener.hold_more();
        let at = listener.local().unwrap();
        let near = Socket::new(at, MARK).unwrap();
        match early {
            Some(early) => assert_eq!(near.connect_with(at, early).unwrap(), early.len()),
            None => near.connect(at).unwrap(),
        }
        (near, soon(|| listener.accept().unwrap()))
    }

    #[test]
    fn a_leg_whose_early_data_was_taken_sends_more_than_a_syn_can_allow() {
        let node = match Lab::new().and_then(|lab| lab.node("alone")) {
            Ok(node) => node,
            Err(why) => return eprintln!("skipped: no namespaces here: {why}"),
        };
        let played = node.run(|| {
            fs::write("/proc/sys/net/ipv4/tcp_fastopen", "3")?;
            let (plain, _far) = connection(None);
            assert!(!plain.spoke_early() && window(&plain) <= 65_535);

            let (near, far) = connection(Some(b"hello"));
            assert!(near.spoke_early() && far.spoke_early() && window(&near) <= 65_535);
            near.assume_window()?;
            assert_eq!(window(&near), ASSUMED_WINDOW);
            // The connection works with the window that `assume_window` set: the far end receives 3 MiB.
            let (mut sent, mut got, mut buffer) = (5, 0, vec![0; 1 << 20]);
            while sent < 3 << 20 || got < sent {
                if sent < 3 << 20 {
                    sent += unless_blocked(near.send(&buffer, false))?.unwrap_or(0);
                }
                got += unless_blocked(far.receive(&mut buffer, 0))?.unwrap_or(0);
            }
            io::Result::Ok(())
        });
        played.unwrap().unwrap();
    }
}
