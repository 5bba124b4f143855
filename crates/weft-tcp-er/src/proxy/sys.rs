//! The system calls of the proxy: sockets with other hosts' addresses, splicing, epoll.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{from_mut, from_ref, null_mut};
use std::time::Duration;

/// Not in `libc`: linux/tcp.h.
const TCP_FASTOPEN_NO_COOKIE: c_int = 34;
/// Not in `libc`: linux/sockios.h.
const SIOCOUTQNSD: libc::Ioctl = 0x894b;
/// Not in `libc`: asm-generic/sockios.h.
const SIOCATMARK: libc::Ioctl = 0x8905;
/// Of `tcpi_options`: what went with the SYN was acknowledged with it (linux/tcp.h).
const TCPI_OPT_SYN_DATA: u8 = 32;
/// Ends repair without asking for the window (linux/tcp.h).
const TCP_REPAIR_OFF_NO_WP: c_int = -1;
/// How long a leg may be silent before the kernel asks whether anybody is there, and how often it asks, in seconds and times.
const KEEPALIVE: [(c_int, c_int); 3] = [(libc::TCP_KEEPIDLE, 120), (libc::TCP_KEEPINTVL, 30), (libc::TCP_KEEPCNT, 4)];
/// Bytes a socket takes beyond what is under way: what keeps memory small where a receiver is slow.
const UNSENT: c_int = 256 << 10;
/// Bytes of a leg between proxies in its buffers, of which the kernel takes twice as many with all it keeps beside them: 200 Mbit/s over
/// 300 ms, or a third of that while repairs are lost too.
const UNDER_WAY: c_int = 8 << 20;
/// Of that, what a leg may send before the other proxy has said how much it takes.
const ASSUMED_WINDOW: u32 = (UNDER_WAY / 2) as u32;
const BACKLOG: c_int = 4_096;

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn count(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// What would block is nothing.
pub fn unless_blocked<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(why) => Err(why),
    }
}

/// An address as the kernel wants it.
struct Name {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

impl Name {
    fn empty() -> Name {
        // SAFETY: all zeros is a valid sockaddr_storage.
        Name { storage: unsafe { zeroed() }, len: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    fn of(address: SocketAddr) -> Name {
        let mut name = Name::empty();
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
                // SAFETY: as above.
                unsafe { at.write(to) };
                name.len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            }
        }
        name
    }

    fn address(&self) -> io::Result<SocketAddr> {
        match c_int::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says which address it is; the storage is large enough and aligned for it.
                let v4 = unsafe { from_ref(&self.storage).cast::<libc::sockaddr_in>().read() };
                Ok((IpAddr::from(v4.sin_addr.s_addr.to_ne_bytes()), u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
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

/// A TCP socket.
#[derive(Debug)]
pub struct Socket(OwnedFd);

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Socket {
    /// A socket of the family of `like` that may have addresses of others. Its packets carry `mark`; closed before it has ended in
    /// order, it resets its connection.
    pub fn new(like: SocketAddr, mark: u32) -> io::Result<Socket> {
        let family = if like.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers; the call makes a new descriptor, which is nobody else's.
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

    /// A listening socket, which may share its address with others of this user; what it accepts inherits its options.
    pub fn listen(at: SocketAddr, mark: u32) -> io::Result<Socket> {
        let socket = Socket::new(at, mark)?;
        socket.set(libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
        let name = Name::of(at);
        // SAFETY: the descriptor is ours, pointer and length describe `name`.
        check(unsafe { libc::bind(socket.as_raw_fd(), name.pointer(), name.len) })?;
        // SAFETY: no pointers.
        check(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) })?;
        Ok(socket)
    }

    /// Data in the first packet is taken without a cookie (RFC 7413), where the namespace's `net.ipv4.tcp_fastopen` allows it.
    pub fn take_early_data(&self) -> io::Result<()> {
        self.set(libc::SOL_TCP, libc::TCP_FASTOPEN, BACKLOG)?;
        self.set(libc::SOL_TCP, TCP_FASTOPEN_NO_COOKIE, 1)
    }

    /// The next connection, if there is one.
    pub fn accept(&self) -> io::Result<Option<Socket>> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: the descriptor is ours, the address is not asked for.
        let accepted = unsafe { libc::accept4(self.as_raw_fd(), null_mut(), null_mut(), flags) };
        // SAFETY: it is new, and nobody else's.
        Ok(unless_blocked(check(accepted))?.map(|fd| Socket(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// The near end: of an accepted connection what its client connected to.
    pub fn local(&self) -> io::Result<SocketAddr> {
        let mut name = Name::empty();
        let storage = from_mut(&mut name.storage).cast();
        // SAFETY: the descriptor is ours, pointer and length describe `name`.
        check(unsafe { libc::getsockname(self.as_raw_fd(), storage, &raw mut name.len) })?;
        name.address()
    }

    /// The far end.
    pub fn remote(&self) -> io::Result<SocketAddr> {
        let mut name = Name::empty();
        let storage = from_mut(&mut name.storage).cast();
        // SAFETY: the descriptor is ours, pointer and length describe `name`.
        check(unsafe { libc::getpeername(self.as_raw_fd(), storage, &raw mut name.len) })?;
        name.address()
    }

    /// Gives it an address, which may be another host's; with port 0 the port is chosen when it connects.
    pub fn bind(&self, to: SocketAddr) -> io::Result<()> {
        if to.port() == 0 {
            self.set(libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        }
        let name = Name::of(to);
        // SAFETY: the descriptor is ours, pointer and length describe `name`.
        check(unsafe { libc::bind(self.as_raw_fd(), name.pointer(), name.len) }).map(drop)
    }

    /// Begins to connect.
    pub fn connect(&self, to: SocketAddr) -> io::Result<()> {
        let name = Name::of(to);
        // SAFETY: the descriptor is ours, pointer and length describe `name`.
        match check(unsafe { libc::connect(self.as_raw_fd(), name.pointer(), name.len) }) {
            Err(why) if why.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
            result => result.map(drop),
        }
    }

    /// Begins to connect with data in the first packet (RFC 7413, without a cookie); gives how much of it was taken.
    pub fn connect_with(&self, to: SocketAddr, data: &[u8]) -> io::Result<usize> {
        self.set(libc::SOL_TCP, TCP_FASTOPEN_NO_COOKIE, 1)?;
        let name = Name::of(to);
        let flags = libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the descriptor is ours, pointers and lengths describe `data` and `name`.
        let sent = count(unsafe {
            libc::sendto(self.as_raw_fd(), data.as_ptr().cast(), data.len(), flags, name.pointer(), name.len)
        });
        match sent {
            Err(why) if why.raw_os_error() == Some(libc::EINPROGRESS) => Ok(0),
            result => result,
        }
    }

    /// Chooses the congestion control.
    pub fn set_congestion(&self, name: &str) -> io::Result<()> {
        self.set_bytes(libc::SOL_TCP, libc::TCP_CONGESTION, name.as_bytes())
    }

    /// Limits what it sends, in bytes a second; `None` lifts the limit.
    pub fn set_rate(&self, rate: Option<u64>) -> io::Result<()> {
        // The kernel takes 64 bits as well as 32.
        self.set_bytes(libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate.unwrap_or(u64::MAX).to_ne_bytes())
    }

    /// Room for what is under way on a long path, and for what waits behind repairs of repairs. The system's own limits stay where
    /// the kernel does not let us pass them.
    pub fn hold_more(&self) {
        for option in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            let _ = self.set(libc::SOL_SOCKET, option, UNDER_WAY);
        }
    }

    /// Whether data went with the first packet, here or there, and was taken: without a cookie only another proxy does that.
    pub fn spoke_early(&self) -> bool {
        const OPTIONS: usize = 5;
        // What follows is not asked for.
        let mut info = [0; 8];
        self.get_bytes(libc::SOL_TCP, libc::TCP_INFO, &mut info).is_ok() && info[OPTIONS] & TCPI_OPT_SYN_DATA != 0
    }

    /// Sends as if the far end had shown the window that a proxy has: a SYN's is 64 KiB at most (RFC 7323, section 2.2), and what is
    /// behind it would wait for the first acknowledgement. The far end takes what its buffer holds, whatever the SYN could say.
    ///
    /// # Errors
    /// When the kernel does not let us; then all is as before.
    pub fn assume_window(&self) -> io::Result<()> {
        self.set(libc::SOL_TCP, libc::TCP_REPAIR, 1)?;
        let assumed = self.widen_window();
        let ended = self.set(libc::SOL_TCP, libc::TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
        // Repair's end has taken it away.
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

    /// Whether closing resets the connection instead of ending it in order.
    pub fn reset_on_close(&self, reset: bool) -> io::Result<()> {
        let linger = [c_int::from(reset), 0];
        let bytes: Vec<u8> = linger.iter().flat_map(|value| value.to_ne_bytes()).collect();
        self.set_bytes(libc::SOL_SOCKET, libc::SO_LINGER, &bytes)
    }

    /// The error that came since it was last asked.
    pub fn take_error(&self) -> io::Result<()> {
        let mut error = [0; 4];
        self.get_bytes(libc::SOL_SOCKET, libc::SO_ERROR, &mut error)?;
        match c_int::from_ne_bytes(error) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Bytes that are not acknowledged yet.
    pub fn unacknowledged(&self) -> u64 {
        self.ask(libc::TIOCOUTQ)
    }

    /// Bytes that were not even sent yet.
    pub fn unsent(&self) -> u64 {
        self.ask(SIOCOUTQNSD)
    }

    /// Whether the next byte is the urgent one.
    pub fn is_at_mark(&self) -> bool {
        self.ask(SIOCATMARK) != 0
    }

    fn ask(&self, request: libc::Ioctl) -> u64 {
        let mut value: c_int = 0;
        // SAFETY: the descriptor is ours; these requests write one int.
        let result = unsafe { libc::ioctl(self.as_raw_fd(), request, &raw mut value) };
        if result < 0 { 0 } else { u64::try_from(value).unwrap_or(0) }
    }

    /// Copies what has come without taking it.
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.receive(into, libc::MSG_PEEK)
    }

    /// Takes what was looked at before.
    pub fn skip(&self, bytes: usize) -> io::Result<usize> {
        // With MSG_TRUNC TCP copies nothing (tcp(7)).
        // SAFETY: the descriptor is ours; nothing is written to the null pointer.
        count(unsafe { libc::recv(self.as_raw_fd(), null_mut(), bytes, libc::MSG_TRUNC | libc::MSG_DONTWAIT) })
    }

    fn receive(&self, into: &mut [u8], flags: c_int) -> io::Result<usize> {
        // SAFETY: the descriptor is ours, pointer and length describe `into`.
        count(unsafe { libc::recv(self.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags | libc::MSG_DONTWAIT) })
    }

    /// Sends; with `urgent` the last byte is marked so.
    pub fn send(&self, bytes: &[u8], urgent: bool) -> io::Result<usize> {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | if urgent { libc::MSG_OOB } else { 0 };
        // SAFETY: the descriptor is ours, pointer and length describe `bytes`.
        count(unsafe { libc::send(self.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) })
    }

    /// Says that nothing follows.
    pub fn finish(&self) -> io::Result<()> {
        // SAFETY: no pointers.
        check(unsafe { libc::shutdown(self.as_raw_fd(), libc::SHUT_WR) }).map(drop)
    }

    fn get_bytes(&self, level: c_int, option: c_int, value: &mut [u8]) -> io::Result<()> {
        let mut len = value.len() as libc::socklen_t;
        // SAFETY: the descriptor is ours; pointer and length describe `value`.
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
        // SAFETY: the descriptor is ours; pointer and length describe `value`, which the kernel only reads.
        check(unsafe { libc::setsockopt(self.as_raw_fd(), level, option, value.as_ptr().cast(), len) }).map(drop)
    }
}

/// A pipe whose ends do not block.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipe {
    /// A pipe for about `bytes`, if the kernel gives so much.
    pub fn new(bytes: c_int) -> io::Result<Pipe> {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for two descriptors, which are new.
        check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK | libc::O_CLOEXEC) })?;
        // SAFETY: they are nobody else's.
        let [read, write] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        // A smaller one works as well.
        // SAFETY: no pointers.
        let _ = unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) };
        Ok(Pipe { read, write })
    }

    /// Moves what has come by `from` into it.
    pub fn fill(&self, from: &Socket, most: usize) -> io::Result<usize> {
        splice(from.as_raw_fd(), self.write.as_raw_fd(), most, 0)
    }

    /// Moves its first `bytes` to `to`.
    pub fn drain(&self, to: &Socket, bytes: usize) -> io::Result<usize> {
        splice(self.read.as_raw_fd(), to.as_raw_fd(), bytes, 0)
    }
}

fn splice(from: RawFd, to: RawFd, bytes: usize, flags: u32) -> io::Result<usize> {
    let flags = flags | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MOVE;
    // SAFETY: both descriptors are open, no offsets are given.
    count(unsafe { libc::splice(from, null_mut(), to, null_mut(), bytes, flags) })
}

/// What happened to a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Happened {
    /// The name it was given.
    pub token: u64,
    /// Something may have come, or the end.
    pub readable: bool,
    /// There may be room again, or the connection has come about.
    pub writable: bool,
    /// An urgent byte is on its way.
    pub urgent: bool,
    /// It has failed.
    pub failed: bool,
}

/// Edge-triggered readiness (epoll).
#[derive(Debug)]
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

/// Events taken at once.
const EVENTS: usize = 512;

impl Poll {
    /// Watches nothing yet.
    pub fn new() -> io::Result<Poll> {
        // SAFETY: no pointers; the call makes a new descriptor, which is nobody else's.
        let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        Ok(Poll { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS] })
    }

    /// Tells every change of a connection.
    pub fn watch(&self, socket: &Socket, token: u64) -> io::Result<()> {
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLRDHUP | libc::EPOLLET;
        self.add(socket.as_raw_fd(), token, events)
    }

    /// Tells as long as there is something to read.
    pub fn watch_input(&self, descriptor: RawFd, token: u64) -> io::Result<()> {
        self.add(descriptor, token, libc::EPOLLIN)
    }

    fn add(&self, descriptor: RawFd, token: u64, events: c_int) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: both descriptors are open; `event` lives until the return.
        check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, descriptor, &raw mut event) })
            .map(drop)
    }

    /// Waits for something to happen, at most so long.
    pub fn wait(&mut self, most: Duration, happened: &mut Vec<Happened>) -> io::Result<()> {
        happened.clear();
        let millis = c_int::try_from(most.as_micros().div_ceil(1_000)).unwrap_or(c_int::MAX);
        let room = self.events.len() as c_int;
        // SAFETY: the descriptor is ours, `events` has the room that is said.
        let ready = check(unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), room, millis) });
        let ready = match ready {
            Err(why) if why.kind() == io::ErrorKind::Interrupted => 0,
            result => result?,
        };
        happened.extend(self.events.iter().take(ready as usize).map(|event| {
            let has = |bits: c_int| event.events & bits as u32 != 0;
            Happened {
                token: event.u64,
                readable: has(libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP),
                writable: has(libc::EPOLLOUT),
                urgent: has(libc::EPOLLPRI),
                failed: has(libc::EPOLLERR),
            }
        }));
        Ok(())
    }
}

/// Gives this thread a table of descriptors of its own: a copy, so that it still knows those that are open, by their numbers.
pub fn own_descriptors() -> io::Result<()> {
    // SAFETY: no pointers; who owns a descriptor that was open closes the number in its own thread's table, where it stays valid.
    check(unsafe { libc::unshare(libc::CLONE_FILES) }).map(drop)
}

/// A counter that shows as readable while it is not 0, and does not block.
pub fn event_descriptor() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the call makes a new descriptor, which is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?) })
}

/// Raises the number of descriptors each thread's table may have as far as the kernel lets it, `wanted` at most; gives what it may have.
pub fn raise_descriptors(wanted: u64) -> io::Result<u64> {
    // SAFETY: all zeros is a valid rlimit.
    let mut limit: libc::rlimit = unsafe { zeroed() };
    // SAFETY: `limit` lives until the return.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    for most in [wanted.max(limit.rlim_max), limit.rlim_max] {
        let raised = libc::rlimit { rlim_cur: wanted.clamp(limit.rlim_cur, most), rlim_max: most };
        // SAFETY: `raised` lives until the return.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            return Ok(raised.rlim_cur);
        }
    }
    Ok(limit.rlim_cur)
}

/// Lets reads of a descriptor return at once.
pub fn set_nonblocking(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: no pointers.
    let flags = check(unsafe { libc::fcntl(descriptor, libc::F_GETFL) })?;
    // SAFETY: no pointers.
    check(unsafe { libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::thread::sleep;
    use std::time::Instant;
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

    /// Both ends of a connection over loopback, the near one first; the listener holds what a proxy's does.
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
            // What was assumed is there, and the connection goes on.
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
