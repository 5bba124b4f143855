//! The emulator's thread.
//!
//! The thread reads packets from the devices, offers them to the directions of links, and delivers them when
//! they are due. Between packets it carries out the commands of handles.

use super::device::LinkDevice;
use super::direction::DirectionPipe;
use super::impaired::{Classified, classify};
use super::spec::{EmulatedDirection, EmulatedLinkSpec, LinkSide};
use super::stats::{DirectionStats, Quantiles, TimeHistogram};
use crate::net::sys;
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use weft_units::{Duration, FlowId, Instant, Rng};

/// Minimum interval between two wake-ups of the thread.
///
/// Packets that are due within this interval are delivered together, up to this time late.
const GRAIN: Duration = Duration::from_micros(75);
/// Time after which the thread wakes up if it has nothing to deliver.
const IDLE: Duration = Duration::from_secs(1);
/// Maximum number of packets that the thread reads from one device before it reads the next device.
const READ_BATCH: usize = 256;
/// Token of the wake-up counter in epoll. All other tokens are numbers of devices.
const WAKE_UP: u64 = u64::MAX;

/// A command to the emulator's thread.
pub(super) enum EmulatorCommand {
    Set { link: usize, direction: LinkSide, spec: Box<EmulatedDirection> },
    Cut { link: usize, direction: LinkSide, cut: bool },
    Restart,
    Mark(SyncSender<()>),
    Snapshot(SyncSender<EmulatorFigures>),
    Stop,
}

/// The measurements of the emulator's thread since the last `mark`.
pub(super) struct EmulatorFigures {
    pub elapsed: Duration,
    pub cpu: Duration,
    pub lateness: Quantiles,
    pub real_time: bool,
    pub links: Vec<[DirectionStats; 2]>,
}

/// An event counter that ends the thread's wait.
#[derive(Debug)]
pub(super) struct WakeUp(File);

impl WakeUp {
    pub(super) fn new() -> io::Result<WakeUp> {
        // SAFETY: The call takes no pointers.
        let fd = sys::check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        // SAFETY: The descriptor is new and has no other owner.
        Ok(WakeUp(unsafe { File::from_raw_fd(fd) }))
    }

    pub(super) fn wake(&self) -> io::Result<()> {
        (&self.0).write_all(&1u64.to_ne_bytes())
    }

    fn clear(&self) {
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

#[derive(Clone)]
struct EmulatedPacket {
    bytes: Box<[u8]>,
    length: usize,
}

impl EmulatedPacket {
    fn payload(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl Classified for EmulatedPacket {
    fn is_udp(&self) -> bool {
        classify(self.payload()).0
    }

    fn flow(&self) -> FlowId {
        classify(self.payload()).1
    }
}

/// Free buffers, all of one size.
struct FreeBuffers {
    free: Vec<EmulatedPacket>,
    buffer_bytes: usize,
}

impl FreeBuffers {
    fn take(&mut self) -> EmulatedPacket {
        self.free.pop().unwrap_or_else(|| EmulatedPacket { bytes: vec![0; self.buffer_bytes].into(), length: 0 })
    }
}

struct EmulatedLink {
    devices: [LinkDevice; 2],
    forward: DirectionPipe<EmulatedPacket>,
    backward: DirectionPipe<EmulatedPacket>,
}

/// The state of the emulator's thread.
pub(super) struct Runner {
    links: Vec<EmulatedLink>,
    pool: FreeBuffers,
    epoll: OwnedFd,
    inbox: Receiver<EmulatorCommand>,
    wake_up: Arc<WakeUp>,
    lateness: TimeHistogram,
    origin: Duration,
    marked: Instant,
    cpu_at_mark: Duration,
    real_time: bool,
    timing: Timing,
}

/// The precision with which packets are delivered at their time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Timing {
    /// Packets are delivered within about 0.1 ms of their time. This needs only a small part of a processor.
    #[default]
    Thrifty,
    /// Packets are delivered within some microseconds of their time.
    ///
    /// The thread never sleeps, so it needs a whole processor.
    Exact,
}

impl Runner {
    pub(super) fn new(
        specs: &[EmulatedLinkSpec],
        devices: Vec<[LinkDevice; 2]>,
        seed: u64,
        inbox: Receiver<EmulatorCommand>,
        wake_up: Arc<WakeUp>,
        timing: Timing,
    ) -> io::Result<Runner> {
        // SAFETY: The call takes no pointers.
        let fd = sys::check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: The descriptor is new and has no other owner.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        watch(&epoll, wake_up.0.as_fd(), WAKE_UP)?;
        let rng = Rng::new(seed);
        let mut links = Vec::with_capacity(specs.len());
        for (number, (spec, devices)) in (0u64..).zip(specs.iter().zip(devices)) {
            for (end, device) in (0u64..).zip(&devices) {
                watch(&epoll, device.as_fd(), number * 2 + end)?;
            }
            let pipe =
                |spec: &EmulatedDirection, label| DirectionPipe::new(spec.clone(), &rng.split(label), Instant::ZERO);
            let (forward, backward) = (pipe(&spec.forward, number * 2), pipe(&spec.backward, number * 2 + 1));
            links.push(EmulatedLink { devices, forward, backward });
        }
        let buffer_bytes = specs.iter().map(|s| usize::from(s.mtu)).max().unwrap_or(0);
        Ok(Runner {
            links,
            pool: FreeBuffers { free: Vec::new(), buffer_bytes },
            epoll,
            inbox,
            wake_up,
            lateness: TimeHistogram::new(),
            origin: clock(libc::CLOCK_MONOTONIC),
            marked: Instant::ZERO,
            cpu_at_mark: Duration::ZERO,
            real_time: false,
            timing,
        })
    }

    pub(super) fn run(mut self) {
        self.real_time = prefer_this_thread(self.timing);
        self.cpu_at_mark = clock(libc::CLOCK_THREAD_CPUTIME_ID);
        let mut ready = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let mut earliest = self.now();
        while let Ok(count) = self.wait(earliest, &mut ready) {
            earliest = self.now() + if self.timing == Timing::Exact { Duration::ZERO } else { GRAIN };
            for event in ready.iter().take(count) {
                match event.u64 {
                    WAKE_UP if self.obey().is_break() => return,
                    WAKE_UP => {}
                    device => self.read(device),
                }
            }
            self.deliver();
        }
    }

    fn now(&self) -> Instant {
        since(self.origin)
    }

    /// Waits for packets, commands or the next delivery, but at least until `earliest`.
    ///
    /// Returns the number of entries of `ready` that the kernel filled.
    fn wait(&self, earliest: Instant, ready: &mut [libc::epoll_event]) -> io::Result<usize> {
        let next =
            self.links.iter().flat_map(|link| [link.forward.next_due(), link.backward.next_due()]).flatten().min();
        sleep_until(self.origin + earliest.since(Instant::ZERO));
        let idle = if self.timing == Timing::Exact { Duration::ZERO } else { IDLE };
        let timeout = timespec(next.map_or(idle, |due| due.since(self.now()).min(idle)));
        // SAFETY: `ready` and `timeout` outlive the call, the length is that of `ready`, and no signal mask
        // is given.
        let count = unsafe {
            let (events, length) = (ready.as_mut_ptr(), ready.len());
            let no_mask = std::ptr::null::<libc::sigset_t>();
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                events,
                length,
                &raw const timeout,
                no_mask,
                8usize,
            )
        };
        match usize::try_from(count) {
            Ok(count) => Ok(count),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                error => Err(error),
            },
        }
    }

    /// Reads the packets that the node behind device number `device` sent.
    fn read(&mut self, device: u64) {
        let now = self.now();
        let Some(link) = self.links.get_mut((device / 2) as usize) else { return };
        let [first, second] = &mut link.devices;
        let (from, pipe) =
            if device.is_multiple_of(2) { (first, &mut link.forward) } else { (second, &mut link.backward) };
        for _ in 0..READ_BATCH {
            let mut packet = self.pool.take();
            match from.receive(&mut packet.bytes) {
                Ok(length) => {
                    packet.length = length;
                    pipe.offer(now, packet, length as u64);
                }
                Err(_) => {
                    self.pool.free.push(packet);
                    break;
                }
            }
        }
    }

    fn deliver(&mut self) {
        let (origin, lateness) = (self.origin, &mut self.lateness);
        for EmulatedLink { devices: [first, second], forward, backward } in &mut self.links {
            for (pipe, to) in [(forward, second), (backward, first)] {
                pipe.deliver(since(origin), |packet, due| {
                    lateness.record(since(origin) - due);
                    to.send(packet.payload()).is_ok()
                });
                self.pool.free.extend(pipe.spent());
            }
        }
    }

    fn obey(&mut self) -> ControlFlow<()> {
        self.wake_up.clear();
        while let Ok(command) = self.inbox.try_recv() {
            let now = self.now();
            match command {
                EmulatorCommand::Set { link, direction, spec } => {
                    self.change(link, direction, |pipe| pipe.set(now, *spec))
                }
                EmulatorCommand::Cut { link, direction, cut } => {
                    self.change(link, direction, |pipe| pipe.cut(now, cut))
                }
                EmulatorCommand::Restart => {
                    for link in &mut self.links {
                        link.forward.restart(now);
                        link.backward.restart(now);
                    }
                }
                EmulatorCommand::Mark(answer) => {
                    self.mark(now);
                    let _ = answer.send(());
                }
                EmulatorCommand::Snapshot(answer) => {
                    let _ = answer.send(self.measured(now));
                }
                EmulatorCommand::Stop => return ControlFlow::Break(()),
            }
        }
        ControlFlow::Continue(())
    }

    fn change(&mut self, link: usize, direction: LinkSide, change: impl FnOnce(&mut DirectionPipe<EmulatedPacket>)) {
        let Some(link) = self.links.get_mut(link) else { return };
        change(match direction {
            LinkSide::Forward => &mut link.forward,
            LinkSide::Backward => &mut link.backward,
        });
    }

    fn mark(&mut self, now: Instant) {
        for link in &mut self.links {
            link.forward.mark(now);
            link.backward.mark(now);
        }
        self.lateness.clear();
        self.marked = now;
        self.cpu_at_mark = clock(libc::CLOCK_THREAD_CPUTIME_ID);
    }

    fn measured(&mut self, now: Instant) -> EmulatorFigures {
        EmulatorFigures {
            elapsed: now - self.marked,
            cpu: clock(libc::CLOCK_THREAD_CPUTIME_ID).saturating_sub(self.cpu_at_mark),
            lateness: self.lateness.quantiles(),
            real_time: self.real_time,
            links: self.links.iter_mut().map(|l| [l.forward.stats(now), l.backward.stats(now)]).collect(),
        }
    }
}

fn watch(epoll: &OwnedFd, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
    // SAFETY: Both descriptors are open, and `event` outlives the call.
    sys::check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) })
        .map(drop)
}

/// Requests exact timers and real-time priority for the calling thread.
///
/// Returns true if the kernel granted the priority. With exact timing the thread gets the least niceness instead of
/// real-time priority, because the kernel stops a real-time thread that never sleeps for a twentieth of each second
/// (`sched_rt_runtime_us`).
fn prefer_this_thread(timing: Timing) -> bool {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: The arguments are integers and one struct that outlives the call. All calls affect only this
    // thread.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        if timing == Timing::Exact {
            libc::setpriority(libc::PRIO_PROCESS, 0, -20);
            return false;
        }
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const priority) == 0
    }
}

fn since(origin: Duration) -> Instant {
    Instant::ZERO + clock(libc::CLOCK_MONOTONIC).saturating_sub(origin)
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut time = timespec(Duration::ZERO);
    // SAFETY: The kernel writes one timespec, which outlives the call.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Sleeps until `time` on the monotonic clock.
fn sleep_until(time: Duration) {
    let time = timespec(time);
    // SAFETY: The kernel reads one timespec and returns no remainder.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const time, std::ptr::null_mut()) };
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: libc::c_long::from(time.subsec_nanos() as i32) }
}
