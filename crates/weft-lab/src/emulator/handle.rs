//! The interface of a running emulator: start, changes, and statistics.
//!
//! A handle sends commands to the emulator's thread and waits for the answers. It never touches a packet.

use super::device::{Backend, DropCounter, Opener, Wires};
use super::run::{EmulatorCommand, EmulatorFigures, Runner, Timing, WakeUp};
use super::spec::{EmulatedDirection, EmulatedLinkSpec, LinkSide};
use super::stats::{DirectionStats, Quantiles};
use std::io;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use weft_units::Duration;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The statistics of a link since the last [`EmulatorHandle::mark`].
#[derive(Clone, PartialEq, Debug)]
pub struct EmulatedLinkStats {
    /// Statistics of the direction from the first end to the second.
    pub forward: DirectionStats,
    /// Statistics of the direction from the second end to the first.
    pub backward: DirectionStats,
    /// Packets that the kernel dropped at the interfaces of the first and second end.
    ///
    /// The kernel drops packets if the emulator does not read fast enough. No other counter includes these packets. A
    /// run with such drops must be repeated.
    pub device_drops: [u64; 2],
}

impl EmulatedLinkStats {
    /// Returns the statistics of one direction.
    pub fn direction(&self, direction: LinkSide) -> &DirectionStats {
        match direction {
            LinkSide::Forward => &self.forward,
            LinkSide::Backward => &self.backward,
        }
    }
}

/// The statistics of the emulator since the last [`EmulatorHandle::mark`].
#[derive(Clone, PartialEq, Debug)]
pub struct EmulatorSnapshot {
    /// Length of the measured time: the time since the last [`EmulatorHandle::mark`].
    pub elapsed: Duration,
    /// Processor time of the emulator's thread since the last [`EmulatorHandle::mark`].
    ///
    /// It includes the kernel's work to deliver packets.
    pub cpu: Duration,
    /// Distribution of the time by which packets were delivered too late.
    pub lateness: Quantiles,
    /// True if the emulator's thread has real-time priority (SCHED_FIFO).
    pub real_time: bool,
    /// The links, in the order given at the start.
    pub links: Vec<EmulatedLinkStats>,
}

/// A running emulator. Dropping it removes the links and their interfaces.
#[derive(Debug)]
pub struct Emulator {
    handle: EmulatorHandle,
    thread: Option<JoinHandle<()>>,
    _wires: Option<Wires>,
}

/// Changes and observes a running emulator. Clones may move to other threads.
///
/// A change takes effect within about 0.1 ms.
#[derive(Clone, Debug)]
pub struct EmulatorHandle {
    commands: Sender<EmulatorCommand>,
    wake_up: Arc<WakeUp>,
    links: Arc<[LinkCounters]>,
}

/// The kernel's drop counters at the two ends, and their values at the last [`EmulatorHandle::mark`].
#[derive(Debug)]
struct LinkCounters {
    counters: [DropCounter; 2],
    at_mark: Mutex<[u64; 2]>,
}

impl LinkCounters {
    fn read(&self) -> io::Result<[u64; 2]> {
        let [first, second] = &self.counters;
        Ok([first.read()?, second.read()?])
    }

    fn mark(&self) -> io::Result<()> {
        let now = self.read()?;
        *self.at_mark.lock().map_err(|_| gone())? = now;
        Ok(())
    }

    fn since_mark(&self) -> io::Result<[u64; 2]> {
        let (now, then) = (self.read()?, *self.at_mark.lock().map_err(|_| gone())?);
        Ok([0, 1].map(|end: usize| now.get(end).zip(then.get(end)).map_or(0, |(n, t)| n.saturating_sub(*t))))
    }
}

impl Emulator {
    /// Creates the interfaces of all `links`, brings them up and starts to carry packets.
    ///
    /// Losses and jitter depend only on `seed`, the link's position and the direction. The function uses
    /// [`Backend::best`].
    ///
    /// # Errors
    /// Returns an error that names the interface if one cannot be created or configured.
    pub fn start(links: Vec<EmulatedLinkSpec>, seed: u64) -> io::Result<Emulator> {
        Emulator::start_with(Backend::best(), links, seed)
    }

    /// Starts as [`Emulator::start`] does, with a given backend.
    ///
    /// # Errors
    /// Returns an error if [`Emulator::start`] would.
    pub fn start_with(backend: Backend, links: Vec<EmulatedLinkSpec>, seed: u64) -> io::Result<Emulator> {
        Emulator::start_timed(backend, Timing::default(), links, seed)
    }

    /// Starts as [`Emulator::start_with`] does, with a given timing.
    ///
    /// # Errors
    /// Returns an error if [`Emulator::start`] would.
    pub fn start_timed(
        backend: Backend,
        timing: Timing,
        links: Vec<EmulatedLinkSpec>,
        seed: u64,
    ) -> io::Result<Emulator> {
        let mut opener = Opener::new(backend, &links)?;
        let mut devices = Vec::with_capacity(links.len());
        let mut counters = Vec::with_capacity(links.len());
        for link in &links {
            let [(first, first_drops), (second, second_drops)] = opener.open(link)?;
            devices.push([first, second]);
            counters.push(LinkCounters { counters: [first_drops, second_drops], at_mark: Mutex::default() });
        }
        counters.iter().try_for_each(LinkCounters::mark)?;
        let wake_up = Arc::new(WakeUp::new()?);
        let (commands, inbox) = channel();
        let runner = Runner::new(&links, devices, seed, inbox, Arc::clone(&wake_up), timing)?;
        let thread = thread::Builder::new().name("emulator".into()).spawn(move || runner.run())?;
        let handle = EmulatorHandle { commands, wake_up, links: counters.into() };
        Ok(Emulator { handle, thread: Some(thread), _wires: opener.into_wires() })
    }

    /// Returns a handle for changes and statistics.
    pub fn handle(&self) -> EmulatorHandle {
        self.handle.clone()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.handle.send(EmulatorCommand::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl EmulatorHandle {
    /// Replaces the properties of one direction of link number `link`.
    ///
    /// Links are numbered from 0 in the order at the start.
    ///
    /// # Errors
    /// Returns an error if there is no such link or if the emulator has ended.
    pub fn set(&self, link: usize, direction: LinkSide, spec: EmulatedDirection) -> io::Result<()> {
        self.known(link)?;
        self.send(EmulatorCommand::Set { link, direction, spec: Box::new(spec) })
    }

    /// Cuts directions of link number `link`, or joins them again.
    ///
    /// [`LinkSide::BOTH`] selects both directions. A cut link loses all packets, and its interfaces stay up.
    ///
    /// # Errors
    /// Returns an error if there is no such link or if the emulator has ended.
    pub fn cut(&self, link: usize, directions: &[LinkSide], cut: bool) -> io::Result<()> {
        self.known(link)?;
        directions.iter().try_for_each(|&direction| self.send(EmulatorCommand::Cut { link, direction, cut }))
    }

    /// Begins a run: restarts traces and the timed changes of impaired links.
    ///
    /// # Errors
    /// Returns an error if the emulator ended.
    pub fn restart(&self) -> io::Result<()> {
        self.send(EmulatorCommand::Restart)
    }

    /// Restarts all statistics, so that they exclude a warm-up.
    ///
    /// # Errors
    /// Returns an error if the emulator ended or if an interface has vanished.
    pub fn mark(&self) -> io::Result<()> {
        self.links.iter().try_for_each(LinkCounters::mark)?;
        self.ask(EmulatorCommand::Mark)
    }

    /// Returns the statistics since the start, or since the last [`EmulatorHandle::mark`].
    ///
    /// # Errors
    /// Returns an error if the emulator has ended or if an interface has vanished.
    pub fn snapshot(&self) -> io::Result<EmulatorSnapshot> {
        let EmulatorFigures { elapsed, cpu, lateness, real_time, links } = self.ask(EmulatorCommand::Snapshot)?;
        let links = links.into_iter().zip(self.links.iter()).map(|([forward, backward], counters)| {
            Ok(EmulatedLinkStats { forward, backward, device_drops: counters.since_mark()? })
        });
        Ok(EmulatorSnapshot { elapsed, cpu, lateness, real_time, links: links.collect::<io::Result<_>>()? })
    }

    fn known(&self, link: usize) -> io::Result<()> {
        let missing = || {
            let text = format!("the emulator of weft-lab has no link number {link}: report this error of weft-lab");
            io::Error::new(io::ErrorKind::NotFound, text)
        };
        self.links.get(link).map(drop).ok_or_else(missing)
    }

    fn ask<R>(&self, command: impl FnOnce(std::sync::mpsc::SyncSender<R>) -> EmulatorCommand) -> io::Result<R> {
        let (answer, result) = sync_channel(1);
        self.send(command(answer))?;
        result.recv_timeout(ANSWER_TIMEOUT).map_err(|_| gone())
    }

    fn send(&self, command: EmulatorCommand) -> io::Result<()> {
        self.commands.send(command).map_err(|_| gone())?;
        self.wake_up.wake()
    }
}

fn gone() -> io::Error {
    io::Error::other("the emulator ended")
}
