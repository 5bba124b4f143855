//! The threads of the process: the one way to start them, their heartbeats, and what happens when one dies.
//!
//! A thread that panics, ends with a reason or stays at the same work too long ends the process with a message that names it: a node with a
//! part missing serves nobody, and its supervisor starts it again. The packet loop hears of it first and clears up. Where it cannot, the
//! process ends without it. Threads that serve one client each only end their client's connection.

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

/// How often heartbeats are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A thread beside the packet loop may be at one piece of work for so long. They take milliseconds.
pub const LONGEST_WORK: Duration = Duration::from_secs(3);
/// How long the packet loop has to clear up once a thread died.
const LAST_WORDS: Duration = Duration::from_millis(1_500);
/// How long the log may take with the last lines.
const LAST_LINES: Duration = Duration::from_millis(500);
/// Heartbeats that were not looked at for so long prove nothing.
const STALE_MS: u64 = 3_000;

/// A thread that is looked at.
struct Watched {
    name: String,
    pulse: Pulse,
    longest: Duration,
    /// Its last beat, and how often it was the same.
    seen: Option<u64>,
    looks: u32,
}

impl Watched {
    /// Whether it hangs. Looks are counted, not time: a process that was stopped as a whole has hung nowhere.
    fn hangs(&mut self) -> bool {
        let working = self.pulse.working();
        self.looks = if working.is_some() && working == self.seen { self.looks + 1 } else { 0 };
        self.seen = working;
        LOOK_EVERY * self.looks >= self.longest
    }
}

struct Shared {
    log: Log,
    began: Instant,
    /// When heartbeats were last looked at, in milliseconds since `began`.
    looked_ms: AtomicU64,
    watched: Mutex<Vec<Watched>>,
    fault: OnceLock<String>,
    on_fault: Box<dyn Fn() + Send + Sync>,
}

/// Starts threads and looks after them.
#[derive(Clone)]
pub struct Threads(Arc<Shared>);

impl Threads {
    /// Starts the log's writer, and looks after threads from now on. `on_fault` is called when one died; the process ends soon after.
    ///
    /// # Errors
    /// When no thread can be made.
    pub fn start(log: Log, on_fault: impl Fn() + Send + Sync + 'static) -> io::Result<Threads> {
        let threads = Threads(Arc::new(Shared {
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
                // Standard error may take as long as it likes.
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

    /// Starts a thread that lives until it is told to end. Its reason to end otherwise, a panic or a heartbeat that stops end the process.
    ///
    /// # Errors
    /// When no thread can be made.
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
                Ok(Err(why)) => format!("thread {owned} ended: {why}"),
                Err(panic) => format!("thread {owned} panicked: {}", words(&*panic)),
            };
            threads.forget(&pulse);
            threads.die(why);
        };
        thread::Builder::new().name(name.to_owned()).spawn(run)
    }

    /// Starts a thread that serves one client. A panic ends that client's connection and is logged.
    ///
    /// # Errors
    /// When no thread can be made.
    pub fn serve(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let (log, owned) = (self.0.log, name.to_owned());
        let run = move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                log.error(format_args!("thread {owned} panicked: {}; its client is dropped", words(&*panic)));
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
    }

    /// Where they say what happens.
    pub fn log(&self) -> Log {
        self.0.log
    }

    /// The heartbeat of the calling thread, which is looked at from now on.
    pub fn watch(&self, name: &str, longest: Duration) -> Pulse {
        let pulse = Pulse::new();
        let watched = Watched { name: name.to_owned(), pulse: pulse.clone(), longest, seen: None, looks: 0 };
        lock(&self.0.watched).push(watched);
        pulse
    }

    /// What thread died and why, if one did.
    pub fn fault(&self) -> Option<&str> {
        self.0.fault.get().map(String::as_str)
    }

    /// Whether all hearts beat, and somebody looks at them.
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
            watched.hangs().then(|| format!("thread {} hangs: no progress for {:?}", watched.name, watched.longest))
        });
        if let Some(why) = hung {
            self.die(why);
        }
    }

    fn forget(&self, pulse: &Pulse) {
        lock(&self.0.watched).retain(|watched| !watched.pulse.is_same(pulse));
    }

    /// Says why, lets the packet loop clear up, and ends the process where that does not.
    fn die(&self, why: String) {
        self.0.log.error(format_args!("{why}; the process ends"));
        // The first one is the cause.
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

/// Has panics said in the log: standard error may hold up the thread that panics.
pub fn say_panics(log: Log) {
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

/// What a panic says.
pub fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref().copied()).unwrap_or("no reason given")
}

#[cfg(test)]
mod tests;
