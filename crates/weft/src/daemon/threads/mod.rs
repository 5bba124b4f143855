//! The threads of the process: their start, their heartbeats, and the reaction to the end of one.
//!
//! A thread that panics, ends with a reason or takes too long for one piece of work ends the process with a message
//! that names the thread. A node with a missing part serves nobody, and its supervisor starts it again. The packet
//! loop is notified first and cleans up. If the clean-up takes too long, the process ends without it. Threads that
//! serve one client only end that client's connection.

mod pulse;

pub use pulse::Pulse;

use super::log::Log;
use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Interval of heartbeat checks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Maximum duration of one piece of work in a thread other than the packet loop (`datapath`).
///
/// Such work takes milliseconds.
pub const LONGEST_WORK: Duration = Duration::from_secs(3);
/// Maximum time for the packet loop to clean up after a thread died.
const LAST_WORDS: Duration = Duration::from_millis(1_500);
/// Maximum time for the log to write its last lines before the process ends.
const LAST_LINES: Duration = Duration::from_millis(500);
/// Age in milliseconds after which a heartbeat check no longer proves that the threads are well.
const STALE_MS: u64 = 3_000;

/// A watched thread.
struct WatchedThread {
    name: String,
    pulse: Pulse,
    longest: Duration,
    /// Number of the heartbeat that the last check found. `None` if the thread waited then.
    seen: Option<u64>,
    /// Number of consecutive checks that found the same heartbeat value.
    looks: u32,
}

impl WatchedThread {
    /// Returns true if the thread hangs.
    ///
    /// Checks are counted, not time: a process that was stopped as a whole has no hung thread.
    fn hangs(&mut self) -> bool {
        let working = self.pulse.working();
        self.looks = if working.is_some() && working == self.seen { self.looks + 1 } else { 0 };
        self.seen = working;
        LOOK_EVERY * self.looks >= self.longest
    }
}

struct ThreadState {
    log: Log,
    began: Instant,
    /// Time of the last heartbeat check, in milliseconds since `began`.
    looked_ms: AtomicU64,
    watched: Mutex<Vec<WatchedThread>>,
    fault: OnceLock<String>,
    on_fault: Box<dyn Fn() + Send + Sync>,
}

/// Starts threads and watches them.
#[derive(Clone)]
pub struct Threads(Arc<ThreadState>);

impl Threads {
    /// Starts the log's writer and the watchdog thread.
    ///
    /// If a thread dies, `on_fault` is called. The process ends soon after.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn start(log: Log, on_fault: impl Fn() + Send + Sync + 'static) -> io::Result<Threads> {
        let threads = Threads(Arc::new(ThreadState {
            log,
            began: Instant::now(),
            looked_ms: AtomicU64::new(0),
            watched: Mutex::default(),
            fault: OnceLock::new(),
            on_fault: Box::new(on_fault),
        }));
        let mut write = log.writer()?;
        threads.spawn("weft-log", move |pulse| {
            loop {
                // A write to standard error may take any time, so the watchdog does not watch this thread meanwhile.
                pulse.resting(&mut write);
            }
        })?;
        let watch = threads.clone();
        threads.spawn("weft-watch", move |pulse| {
            loop {
                pulse.resting(|| thread::sleep(LOOK_EVERY));
                watch.look();
            }
        })?;
        Ok(threads)
    }

    /// Starts a thread that runs until the node orders it to end.
    ///
    /// A panic, a reason to end, or a stopped heartbeat ends the process.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn spawn(
        &self,
        name: &str,
        work: impl FnOnce(&Pulse) -> Result<(), String> + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let (threads, pulse) = (self.clone(), self.watch(name, LONGEST_WORK));
        let owned = name.to_owned();
        let run = move || {
            let end = catch_unwind(AssertUnwindSafe(|| work(&pulse)));
            let why = match end {
                Ok(Ok(())) => return threads.forget(&pulse),
                Ok(Err(why)) => format!("the weft thread {owned} failed, so the process ends: {why}: start weft again"),
                Err(panic) => {
                    let why = words(&*panic);
                    format!("the weft thread {owned} panicked, so the process ends: {why}: please report this fault")
                }
            };
            threads.forget(&pulse);
            threads.die(why);
        };
        thread::Builder::new().name(name.to_owned()).spawn(run)
    }

    /// Starts a thread that serves one client. A panic ends that client's connection and is logged.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn serve(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let (log, owned) = (self.0.log, name.to_owned());
        let run = move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                log.error(format_args!(
                    "the weft thread {owned} panicked: {}; its client is disconnected",
                    words(&*panic)
                ));
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
    }

    /// Returns the log of the process.
    pub fn log(&self) -> Log {
        self.0.log
    }

    /// Returns a heartbeat for the calling thread, which is watched from now on.
    pub fn watch(&self, name: &str, longest: Duration) -> Pulse {
        let pulse = Pulse::new();
        let watched = WatchedThread { name: name.to_owned(), pulse: pulse.clone(), longest, seen: None, looks: 0 };
        lock(&self.0.watched).push(watched);
        pulse
    }

    /// Returns a message that names the dead thread and the reason, if a thread has died.
    pub fn fault(&self) -> Option<&str> {
        self.0.fault.get().map(String::as_str)
    }

    /// Returns true if all threads are well and were checked recently.
    pub fn are_well(&self) -> bool {
        let age_ms = self.age_ms().saturating_sub(self.0.looked_ms.load(Ordering::Relaxed));
        age_ms < STALE_MS && self.fault().is_none()
    }

    fn age_ms(&self) -> u64 {
        u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn look(&self) {
        self.0.looked_ms.store(self.age_ms(), Ordering::Relaxed);
        let hung = lock(&self.0.watched).iter_mut().find_map(|watched| {
            watched.hangs().then(|| {
                format!(
                    "the weft thread {} made no progress for {:?}, so the process ends: the machine is overloaded, \
                     or weft has a fault",
                    watched.name, watched.longest
                )
            })
        });
        if let Some(why) = hung {
            self.die(why);
        }
    }

    fn forget(&self, pulse: &Pulse) {
        lock(&self.0.watched).retain(|watched| !watched.pulse.is_same(pulse));
    }

    /// Logs the reason, lets the packet loop clean up and end the process, and ends the process itself after a limit.
    fn die(&self, why: String) {
        self.0.log.error(&why);
        // The first recorded death stays, because it is the cause of later ones.
        let _ = self.0.fault.set(why);
        (self.0.on_fault)();
        thread::sleep(LAST_WORDS);
        self.0.log.flush(LAST_LINES);
        std::process::exit(1);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes panics write to the log, because standard error could block the panicking thread.
pub fn log_panics(log: Log) {
    panic::set_hook(Box::new(move |info| {
        let (thread, place) = (thread::current(), info.location().map(ToString::to_string).unwrap_or_default());
        let name = thread.name().unwrap_or("without a name");
        log.error(format_args!("thread {name} panicked at {place}: {}", words(info.payload())));
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            log.plain(format!("{trace}\n"));
        }
    }));
}

/// Returns the message for a thread that could not be started. `work` states what the thread does.
pub fn not_started(work: &str, why: &io::Error) -> String {
    format!("cannot start the thread that {work}: {why}: check the limits of threads and memory")
}

/// Returns the message of a panic.
pub fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref().copied()).unwrap_or("no reason given")
}

#[cfg(test)]
mod tests;
