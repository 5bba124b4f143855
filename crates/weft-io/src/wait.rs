//! Waits for descriptors with a timeout in nanoseconds. Another thread can end the wait.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use crate::sys::{check, retry, unless_blocked};

/// Maximum number of events that one wait returns.
const MAX_EVENTS: usize = 64;

/// Readiness of a descriptor. An error or hang-up is reported as readable, because the read returns the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Number by which the caller named the descriptor to the poller.
    pub token: u64,
    /// True if a read of the descriptor will not block.
    pub readable: bool,
    /// True if a write to the descriptor will not block. Reported only if requested.
    pub writable: bool,
}

/// Level-triggered readiness of several descriptors (epoll).
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    /// Timer that ends a wait where the kernel lacks `epoll_pwait2`.
    timer: OwnedFd,
    /// True until the kernel has rejected `epoll_pwait2`.
    has_pwait2: bool,
}

/// Token of the internal timer, never reported to the caller.
const TIMER: u64 = u64::MAX;

impl Poller {
    /// Creates a poller that watches nothing yet.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the call makes a new descriptor that nothing else owns.
        let epoll = unsafe { owned(libc::epoll_create1(libc::EPOLL_CLOEXEC))? };
        // SAFETY: no pointers; the call makes a new descriptor that nothing else owns.
        let timer =
            unsafe { owned(libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK))? };
        // The system call takes a 64-bit timespec on every machine. Only 64-bit C libraries define it that way.
        let has_pwait2 = cfg!(target_pointer_width = "64");
        let poller = Self { epoll, timer, has_pwait2 };
        poller.add(poller.timer.as_raw_fd(), TIMER)?;
        Ok(poller)
    }

    /// Watches a descriptor for reading. [`Ready`] returns `token`; `u64::MAX` is reserved.
    pub fn add(&self, descriptor: RawFd, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, descriptor, token, false)
    }

    /// Watches a descriptor for reading, and also for writing while `writable` is set.
    pub fn watch_writable(&self, descriptor: RawFd, token: u64, writable: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, descriptor, token, writable)
    }

    /// Stops watching a descriptor. Closing its last duplicate has the same effect.
    pub fn remove(&self, descriptor: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, descriptor, 0, false)
    }

    fn control(&self, operation: i32, descriptor: RawFd, token: u64, writable: bool) -> io::Result<()> {
        let events = libc::EPOLLIN | if writable { libc::EPOLLOUT } else { 0 };
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: this object owns the epoll descriptor, the kernel rejects a wrong `descriptor`, and `event` outlives
        // the call.
        check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, descriptor, &raw mut event) }).map(drop)
    }

    /// Waits until a descriptor is ready or the timeout expires.
    ///
    /// It replaces the content of `ready` by the ready descriptors. `None` waits without a limit. A signal ends the
    /// wait early with nothing ready.
    pub fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MAX_EVENTS];
        let count = match self.wait_events(timeout, &mut events) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            result => result?,
        };
        let events = events.iter().take(count).filter(|event| event.u64 != TIMER);
        ready.extend(events.map(|event| Ready {
            token: event.u64,
            readable: event.events & !(libc::EPOLLOUT as u32) != 0,
            writable: event.events & libc::EPOLLOUT as u32 != 0,
        }));
        Ok(())
    }

    fn wait_events(&mut self, timeout: Option<Duration>, events: &mut [libc::epoll_event]) -> io::Result<usize> {
        if self.has_pwait2 {
            match self.pwait2(timeout, events) {
                // Kernels before 5.11 lack the call, and some sandboxes block it.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                    self.has_pwait2 = false;
                }
                result => return result,
            }
        }
        self.wait_by_timer(timeout, events)
    }

    fn pwait2(&self, timeout: Option<Duration>, events: &mut [libc::epoll_event]) -> io::Result<usize> {
        let timeout = timeout.map(timespec);
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        // Uses the system call itself, because older C libraries lack a wrapper.
        // SAFETY: this object owns the descriptor, `events` holds the given number of entries, `timeout` is null or
        // outlives the call, and there is no signal mask.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                events.len(),
                timeout,
                ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        check(count as i32).map(|count| count as usize)
    }

    fn wait_by_timer(&self, timeout: Option<Duration>, events: &mut [libc::epoll_event]) -> io::Result<usize> {
        let millis = match timeout {
            Some(Duration::ZERO) => 0,
            _ => -1,
        };
        self.set_timer(timeout.unwrap_or(Duration::ZERO))?;
        // SAFETY: this object owns the descriptor, and `events` holds the given number of entries.
        check(unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, millis) })
            .map(|count| count as usize)
    }

    /// Arms the timer, which cancels an earlier expiry. Zero disarms it.
    fn set_timer(&self, after: Duration) -> io::Result<()> {
        let value = libc::itimerspec { it_interval: timespec(Duration::ZERO), it_value: timespec(after) };
        // SAFETY: this object owns the descriptor, and `value` outlives the call. The old value is not requested.
        check(unsafe { libc::timerfd_settime(self.timer.as_raw_fd(), 0, &raw const value, ptr::null_mut()) }).map(drop)
    }
}

/// Makes a waiting [`Poller`] return, from any thread (eventfd).
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
}

impl Waker {
    /// Creates a waker.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the call makes a new descriptor that nothing else owns.
        let event = unsafe { owned(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))? };
        Ok(Self { event })
    }

    /// Wakes the poller. Several calls before the next [`Waker::clear`] have the effect of one.
    pub fn wake(&self) -> io::Result<()> {
        let one = 1_u64.to_ne_bytes();
        let write = || {
            // SAFETY: this object owns the descriptor. Pointer and length describe `one`.
            let written = unsafe { libc::write(self.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
            check(written as i32)
        };
        // The write would block if the counter is full. A full counter already wakes the poller.
        unless_blocked(retry(write)).map(drop)
    }

    /// Clears all wake-ups. Must be called before the caller reads the data of the other thread.
    pub fn clear(&self) -> io::Result<()> {
        let mut count = [0; 8];
        let read = || {
            // SAFETY: this object owns the descriptor. Pointer and length describe `count`.
            let read = unsafe { libc::read(self.event.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
            check(read as i32)
        };
        unless_blocked(retry(read)).map(drop)
    }
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}

/// Sets the timer slack of this thread, in nanoseconds.
///
/// By default the kernel may end a wait up to 50 µs late, to save wake-ups.
pub fn set_timer_slack(nanoseconds: u32) -> io::Result<()> {
    // SAFETY: this option takes a number and no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(nanoseconds)) }).map(drop)
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: duration.subsec_nanos() as _,
    }
}

/// Takes ownership of a descriptor that a system call returned.
///
/// # Safety
/// `descriptor` must be −1, or open and owned by nothing else.
unsafe fn owned(descriptor: RawFd) -> io::Result<OwnedFd> {
    let descriptor = check(descriptor)?;
    // SAFETY: the caller guarantees it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use super::{Poller, Ready, Waker};
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    const LONG: Option<Duration> = Some(Duration::from_secs(10));

    fn pollers() -> [Poller; 2] {
        let mut without_pwait2 = Poller::new().unwrap();
        without_pwait2.has_pwait2 = false;
        [Poller::new().unwrap(), without_pwait2]
    }

    #[test]
    fn a_waker_wakes_until_it_is_cleared() {
        for mut poller in pollers() {
            let (waker, mut ready) = (Waker::new().unwrap(), Vec::new());
            poller.add(waker.as_raw_fd(), 7).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| waker.wake().and_then(|()| waker.wake()).unwrap());
                poller.wait(LONG, &mut ready).unwrap();
            });
            assert_eq!(ready, [Ready { token: 7, readable: true, writable: false }]);
            waker.clear().unwrap();
            poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
            assert_eq!(ready, []);
        }
    }

    #[test]
    fn writability_is_reported_only_on_request() {
        for mut poller in pollers() {
            let (waker, mut ready) = (Waker::new().unwrap(), Vec::new());
            poller.add(waker.as_raw_fd(), 1).unwrap();
            poller.watch_writable(waker.as_raw_fd(), 2, true).unwrap();
            poller.wait(LONG, &mut ready).unwrap();
            assert_eq!(ready, [Ready { token: 2, readable: false, writable: true }]);
            poller.remove(waker.as_raw_fd()).unwrap();
            poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
            assert_eq!(ready, []);
        }
    }

    #[test]
    fn a_wait_ends_and_not_before_its_time() {
        super::set_timer_slack(1).unwrap();
        for (mut poller, name) in pollers().into_iter().zip(["epoll_pwait2", "timerfd"]) {
            let mut ready = Vec::new();
            let mut worst = Duration::ZERO;
            for _ in 0..20 {
                let timeout = Duration::from_micros(300);
                let start = Instant::now();
                poller.wait(Some(timeout), &mut ready).unwrap();
                assert_eq!(ready, []);
                assert!(start.elapsed() >= timeout);
                worst = worst.max(start.elapsed() - timeout);
            }
            println!("{name}: at most {worst:?} late");
        }
    }
}
