//! System calls of the proxy on descriptors: readiness, the descriptor table of a thread, and its size limit.

use super::sys::{Socket, check};
use std::ffi::c_int;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Events of one descriptor that [`Poll::wait`] returns.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorEvents {
    /// Token with which the descriptor was registered.
    pub token: u64,
    /// True if data or the end of the stream may have arrived.
    pub readable: bool,
    /// True if the socket may accept data again, or the connection was established.
    pub writable: bool,
    /// True if an urgent byte is in the stream.
    pub urgent: bool,
    /// True if the descriptor has an error.
    pub failed: bool,
}

/// A set of descriptors whose events a thread waits for (epoll).
#[derive(Debug)]
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

/// Maximum number of events that one wait returns.
const EVENTS: usize = 512;

impl Poll {
    /// Creates a poll to which no descriptors are added yet.
    pub fn new() -> io::Result<Poll> {
        // SAFETY: no pointers; the call makes a new descriptor that nothing else owns.
        let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        Ok(Poll { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS] })
    }

    /// Adds a connection's socket. Every change of its readiness is reported once (edge-triggered).
    pub fn watch(&self, socket: &Socket, token: u64) -> io::Result<()> {
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLRDHUP | libc::EPOLLET;
        self.add(socket.as_raw_fd(), token, events)
    }

    /// Adds a descriptor. It is reported by each wait as long as it is readable (level-triggered).
    pub fn watch_input(&self, descriptor: RawFd, token: u64) -> io::Result<()> {
        self.add(descriptor, token, libc::EPOLLIN)
    }

    fn add(&self, descriptor: RawFd, token: u64, events: c_int) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: both descriptors are open, and `event` outlives the call.
        check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, descriptor, &raw mut event) })
            .map(drop)
    }

    /// Waits for events, for at most the time `most`, and writes them to `happened`.
    pub fn wait(&mut self, most: Duration, happened: &mut Vec<DescriptorEvents>) -> io::Result<()> {
        happened.clear();
        let millis = c_int::try_from(most.as_micros().div_ceil(1_000)).unwrap_or(c_int::MAX);
        let room = self.events.len() as c_int;
        // SAFETY: this object owns the descriptor, and `events` holds the given number of entries.
        let ready = check(unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), room, millis) });
        let ready = match ready {
            Err(why) if why.kind() == io::ErrorKind::Interrupted => 0,
            result => result?,
        };
        happened.extend(self.events.iter().take(ready as usize).map(|event| {
            let has = |bits: c_int| event.events & bits as u32 != 0;
            DescriptorEvents {
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

/// Gives this thread its own descriptor table: a copy in which all open descriptors keep their numbers.
pub fn own_descriptors() -> io::Result<()> {
    // SAFETY: no pointers. Descriptors that are open now stay open, with the same numbers, in the tables of this thread
    // and of the other threads. An object that owns a descriptor closes it in the table of its own thread only.
    check(unsafe { libc::unshare(libc::CLONE_FILES) }).map(drop)
}

/// Creates a descriptor with a counter, which is readable while the counter is not 0 (eventfd). It never blocks.
pub fn event_descriptor() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the call makes a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?) })
}

/// Raises the descriptor limit toward `wanted` as far as permitted, and returns the new limit.
pub fn raise_descriptors(wanted: u64) -> io::Result<u64> {
    // SAFETY: all zeros is a valid rlimit.
    let mut limit: libc::rlimit = unsafe { zeroed() };
    // SAFETY: `limit` outlives the call.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    for most in [wanted.max(limit.rlim_max), limit.rlim_max] {
        let raised = libc::rlimit { rlim_cur: wanted.clamp(limit.rlim_cur, most), rlim_max: most };
        // SAFETY: `raised` outlives the call.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            return Ok(raised.rlim_cur);
        }
    }
    Ok(limit.rlim_cur)
}

/// Makes reads of a descriptor return at once if no data is there.
pub fn set_nonblocking(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: no pointers.
    let flags = check(unsafe { libc::fcntl(descriptor, libc::F_GETFL) })?;
    // SAFETY: no pointers.
    check(unsafe { libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(drop)
}
