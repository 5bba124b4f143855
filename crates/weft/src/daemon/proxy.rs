//! The proxy beside the daemon: a process that is started again when it ends, so that it can fail without touching the packet loop.

use super::changes::{Change, Changes, fast_open};
use super::log::Log;
use super::threads::{Pulse, Threads};
use crate::status::Proxy as Shown;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use weft_tcp_er::proxy::policy::Policy;
use weft_tcp_er::proxy::{Names, Order, Refused, Status, Told, Totals, detour};

/// The program itself, even when its file was replaced.
const PROGRAM: &str = "/proc/self/exe";
/// Both clients and servers may send data with the first packet.
const FAST_OPEN_BOTH: u32 = 3;
/// First and longest pause before it is started again; the first again after it has run so long.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
const WELL: Duration = Duration::from_secs(30);
/// How long it may take to end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What the threads share. The datapath holds the lock for a copy at most.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    policy: Option<Policy>,
    totals: Totals,
    /// Something is to be said to it.
    news: News,
    stop: bool,
    /// The process has closed its standard output.
    has_ended: bool,
    shown: Shown,
}

#[derive(Clone, Copy, Default)]
struct News {
    policy: bool,
    totals: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The proxy of a node; ends with it.
pub struct Proxy {
    shared: Arc<Shared>,
    supervisor: Option<JoinHandle<()>>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.changed.notify_all();
        // It waits for the process for a moment, not longer.
        let _ = self.supervisor.take().map(JoinHandle::join);
    }
}

impl Proxy {
    /// Starts to look after the proxy of the device `tun`; the process follows with the first policy.
    ///
    /// # Errors
    /// When there is no thread.
    pub fn start(tun: &str, changes: Changes, threads: &Threads) -> io::Result<Proxy> {
        let shared = Arc::new(Shared::default());
        let names = Names::of(tun);
        let supervisor = Supervisor { names, shared: Arc::clone(&shared), changes, threads: threads.clone() };
        let thread = threads.spawn("weft-proxy", move |pulse| supervisor.run(pulse))?;
        Ok(Proxy { shared, supervisor: Some(thread) })
    }

    /// What it shall do from now on. Connections it has stay.
    pub fn set_policy(&self, policy: Policy) {
        let mut state = self.shared.state();
        if state.policy.as_ref() != Some(&policy) {
            state.policy = Some(policy);
            state.news.policy = true;
            self.shared.changed.notify_all();
        }
    }

    /// What the paths to the peers carry now.
    pub fn set_totals(&self, totals: Totals) {
        let mut state = self.shared.state();
        if state.totals != totals {
            state.totals = totals;
            state.news.totals = true;
            self.shared.changed.notify_all();
        }
    }

    /// How it is.
    pub fn shown(&self) -> Shown {
        self.shared.state().shown.clone()
    }
}

struct Supervisor {
    names: Names,
    shared: Arc<Shared>,
    changes: Changes,
    threads: Threads,
}

impl Supervisor {
    fn run(&self, pulse: &Pulse) -> Result<(), String> {
        // Of a run that could not clear up, and whose record was lost.
        pulse.resting(|| detour::unlead(&self.names));
        let mut pause = PAUSE.0;
        while pulse.resting(|| self.wait_for(|state| state.policy.is_some(), None)) {
            let began = Instant::now();
            // What it waits for in there is the kernel, or another process.
            let result = pulse.resting(|| self.run_once());
            pulse.resting(|| self.changes.undo(&[self.detour()]));
            if self.shared.state().stop {
                break;
            }
            if began.elapsed() > WELL {
                pause = PAUSE.0;
            }
            let how = result.unwrap_or_else(|why| why.to_string());
            let text =
                format!("{how}; its connections are reset, new ones go plain, again in {} ms", pause.as_millis());
            self.threads.log().error(format_args!("proxy: {text}"));
            let mut state = self.shared.state();
            state.shown = Shown { state: how, restarts: state.shown.restarts + 1, ..Shown::default() };
            drop(state);
            pulse.resting(|| self.wait_for(|_| false, Some(pause)));
            pause = (pause * 2).min(PAUSE.1);
        }
        Ok(())
    }

    fn detour(&self) -> Change {
        Change::Detour { tun: self.names.tun.clone() }
    }

    /// Waits until `is_so`, or so long; false when it shall stop.
    fn wait_for(&self, is_so: impl Fn(&State) -> bool, most: Option<Duration>) -> bool {
        let until = most.map(|most| Instant::now() + most);
        let mut state = self.shared.state();
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if state.stop || is_so(&state) || left == Some(Duration::ZERO) {
                return !state.stop;
            }
            state = match left {
                None => self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// From its start to its end, and how it ended.
    fn run_once(&self) -> io::Result<String> {
        let log = self.threads.log();
        let early = allow_early_data(&self.changes, log);
        self.changes.make(&[self.detour()])?;
        let mut child = Command::new(PROGRAM)
            .arg0("weft")
            .args(["proxy", &self.names.tun])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut state = self.shared.state();
        state.has_ended = false;
        state.news = News { policy: true, totals: true };
        state.shown = Shown { state: "running".to_owned(), early_data: early, pid: child.id(), ..state.shown.clone() };
        drop(state);
        let reader = Reader { shared: Arc::clone(&self.shared), log };
        self.threads.spawn("weft-proxy-in", move |pulse| pulse.resting(|| reader.run(stdout)))?;
        log.info(format_args!("proxy: running, pid {}", child.id()));
        // What cannot be said to it any more is said by its end.
        let _ = self.give_orders(&mut stdin);
        drop(stdin);
        end(child)
    }

    fn give_orders(&self, stdin: &mut ChildStdin) -> io::Result<()> {
        while self.wait_for(|state| state.has_ended || state.news.policy || state.news.totals, None) {
            let mut state = self.shared.state();
            if state.has_ended {
                break;
            }
            let news = std::mem::take(&mut state.news);
            let totals = news.totals.then(|| Order::Totals(state.totals.clone()));
            let policy = state.policy.clone().filter(|_| news.policy).map(Order::Policy);
            drop(state);
            for order in [totals, policy].into_iter().flatten() {
                writeln!(stdin, "{order}")?;
            }
            stdin.flush()?;
        }
        Ok(())
    }
}

/// Waits for its end, and brings it about when that takes long.
fn end(mut child: Child) -> io::Result<String> {
    let until = Instant::now() + LAST_WORDS;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(format!("ended, {status}"));
        }
        if Instant::now() >= until {
            child.kill()?;
            return Ok(format!("ended, {}", child.wait()?));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Lets data go with the first packet, in this namespace; whether it may now.
fn allow_early_data(changes: &Changes, log: Log) -> bool {
    let Ok(before) = fast_open() else { return false };
    let after = before | FAST_OPEN_BOTH;
    if after == before {
        return true;
    }
    match changes.make(&[Change::FastOpen { before, after }]) {
        Ok(()) => {
            log.info(format_args!("proxy: net.ipv4.tcp_fastopen set to {after}"));
            true
        }
        Err(why) => {
            log.info(format_args!("proxy: no early data, for net.ipv4.tcp_fastopen cannot be set: {why}"));
            false
        }
    }
}

/// Reads what the process says of itself.
struct Reader {
    shared: Arc<Shared>,
    log: Log,
}

impl Reader {
    fn run(&self, stdout: ChildStdout) -> Result<(), String> {
        for line in BufReader::new(stdout).lines() {
            match line.as_deref().map(str::parse::<Told>) {
                Ok(Ok(Told::Status(status))) => self.show(&status),
                Ok(Ok(Told::Refused(refused))) => self.log_refused(&refused),
                Ok(Err(_)) => {}
                Err(_) => break,
            }
        }
        self.shared.state().has_ended = true;
        self.shared.changed.notify_all();
        Ok(())
    }

    /// The proxy tells of one in ten seconds at most.
    fn log_refused(&self, Refused { from, to, why }: &Refused) {
        self.log.info(format_args!("proxy: connection from {from} to {to} refused: {why}; weft status counts all"));
    }

    fn show(&self, status: &Status) {
        let mut state = self.shared.state();
        let (was_open, congestion) = (state.shown.is_open, state.shown.congestion.clone());
        state.shown.set(status);
        drop(state);
        if congestion != status.congestion {
            let name =
                if status.congestion.is_empty() { "the system's congestion control" } else { &status.congestion };
            self.log.info(format_args!("proxy: legs between proxies have {name}, {} connections fit", status.capacity));
        }
        if was_open && !status.is_open {
            self.log
                .info(format_args!("proxy: full with {} connections, new ones go plain", status.counts.connections));
        }
    }
}
