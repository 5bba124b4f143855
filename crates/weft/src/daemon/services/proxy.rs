//! Supervisor of the TCP proxy.
//!
//! The proxy is a process of its own, so that a fault there cannot affect the packet loop (`datapath`).
//!
//! A thread restarts the process when it ends. It passes policy and rates to the process, and reads the process's
//! state.

use crate::daemon::log::Log;
use crate::daemon::machine::changes::{Change, Changes, fast_open};
use crate::daemon::threads::{Pulse, Threads};
use crate::status::Proxy as Shown;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use weft_tcp_er::proxy::policy::ProxyPolicy;
use weft_tcp_er::proxy::{DiversionNames, Order, PeerTotals, ProxyLine, ProxyStatus, RefusedConnection, detour};

/// Path of this program itself, valid even after its file was replaced.
const PROGRAM: &str = "/proc/self/exe";
/// Value of `tcp_fastopen` with which clients send data in the first packet and servers accept it.
const FAST_OPEN_BOTH: u32 = 3;
/// First and longest pause before a restart of the process. Each pause is twice the one before, up to the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Run time of the proxy process after which the next pause has the first value of [`PAUSE`] again.
const WELL: Duration = Duration::from_secs(30);
/// Maximum time for the process to end after it was ordered to end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// State that the packet loop and the proxy's threads share. The packet loop holds the lock only for a copy.
#[derive(Default)]
struct SharedState {
    state: Mutex<ProxyOrders>,
    changed: Condvar,
}

#[derive(Default)]
struct ProxyOrders {
    policy: Option<ProxyPolicy>,
    totals: PeerTotals,
    /// Policy and rates that the process has not yet received.
    unsent: Unsent,
    stop: bool,
    /// True if the process has closed its standard output.
    has_ended: bool,
    shown: Shown,
}

#[derive(Clone, Copy, Default)]
struct Unsent {
    policy: bool,
    totals: bool,
}

impl SharedState {
    fn state(&self) -> MutexGuard<'_, ProxyOrders> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The proxy of a node. Dropping it ends the process.
pub struct ProxyProcess {
    shared: Arc<SharedState>,
    supervisor: Option<JoinHandle<()>>,
}

impl Drop for ProxyProcess {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.changed.notify_all();
        // The supervisor waits for the process at most `LAST_WORDS`.
        let _ = self.supervisor.take().map(JoinHandle::join);
    }
}

impl ProxyProcess {
    /// Starts the supervisor for the proxy of the device `tun`. The process starts with the first policy.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn start(tun: &str, changes: Changes, threads: &Threads) -> io::Result<ProxyProcess> {
        let shared = Arc::new(SharedState::default());
        let names = DiversionNames::of(tun);
        let supervisor = ProxySupervisor { names, shared: Arc::clone(&shared), changes, threads: threads.clone() };
        let thread = threads.spawn("weft-proxy", move |pulse| supervisor.run(pulse))?;
        Ok(ProxyProcess { shared, supervisor: Some(thread) })
    }

    /// Sets the policy of the proxy. Existing connections remain.
    pub fn set_policy(&self, policy: ProxyPolicy) {
        let mut state = self.shared.state();
        if state.policy.as_ref() != Some(&policy) {
            state.policy = Some(policy);
            state.unsent.policy = true;
            self.shared.changed.notify_all();
        }
    }

    /// Sets the rates that the proxy's connections to each peer may have together.
    pub fn set_totals(&self, totals: PeerTotals) {
        let mut state = self.shared.state();
        if state.totals != totals {
            state.totals = totals;
            state.unsent.totals = true;
            self.shared.changed.notify_all();
        }
    }

    /// Returns the state of the proxy.
    pub fn shown(&self) -> Shown {
        self.shared.state().shown.clone()
    }
}

struct ProxySupervisor {
    names: DiversionNames,
    shared: Arc<SharedState>,
    changes: Changes,
    threads: Threads,
}

impl ProxySupervisor {
    fn run(&self, pulse: &Pulse) -> Result<(), String> {
        // An earlier run may have been killed, and its record of changes lost. So the routing to its proxy is removed
        // first.
        pulse.resting(|| detour::unlead(&self.names));
        let mut pause = PAUSE.0;
        while pulse.resting(|| self.wait_for(|state| state.policy.is_some(), None)) {
            let began = Instant::now();
            // `resting` exempts this thread from the watchdog. Every wait in `run_once` is for the kernel or another
            // process, and may be long.
            let result = pulse.resting(|| self.run_once());
            pulse.resting(|| self.changes.undo(&[self.detour()]));
            if self.shared.state().stop {
                break;
            }
            if began.elapsed() > WELL {
                pause = PAUSE.0;
            }
            let how = result.unwrap_or_else(|why| why.to_string());
            let text = format!(
                "{how}: the proxy's TCP connections are reset, new ones pass without it, and it restarts in {} ms",
                pause.as_millis()
            );
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

    /// Waits until `is_so` holds, or for at most `most`. Returns false if the supervisor is to stop.
    fn wait_for(&self, is_so: impl Fn(&ProxyOrders) -> bool, most: Option<Duration>) -> bool {
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

    /// Runs the process from its start to its end, and returns how it ended.
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
        state.unsent = Unsent { policy: true, totals: true };
        state.shown = Shown { state: "running".to_owned(), early_data: early, pid: child.id(), ..state.shown.clone() };
        drop(state);
        let reader = Reader { shared: Arc::clone(&self.shared), log };
        self.threads.spawn("weft-proxy-in", move |pulse| pulse.resting(|| reader.run(stdout)))?;
        log.info(format_args!("proxy: running, pid {}", child.id()));
        // If the process no longer reads its input, it has ended, and `end` returns the reason.
        let _ = self.give_orders(&mut stdin);
        drop(stdin);
        end(child)
    }

    fn give_orders(&self, stdin: &mut ChildStdin) -> io::Result<()> {
        while self.wait_for(|state| state.has_ended || state.unsent.policy || state.unsent.totals, None) {
            let mut state = self.shared.state();
            if state.has_ended {
                break;
            }
            let unsent = std::mem::take(&mut state.unsent);
            let totals = unsent.totals.then(|| Order::Totals(state.totals.clone()));
            let policy = state.policy.clone().filter(|_| unsent.policy).map(Order::Policy);
            drop(state);
            for order in [totals, policy].into_iter().flatten() {
                writeln!(stdin, "{order}")?;
            }
            stdin.flush()?;
        }
        Ok(())
    }
}

/// Copies the counters that the proxy process reports to the state that `weft status` shows.
fn show(shown: &mut Shown, status: &ProxyStatus) {
    let counts = &status.counts;
    *shown = Shown {
        state: std::mem::take(&mut shown.state),
        pid: shown.pid,
        restarts: shown.restarts,
        early_data: shown.early_data,
        congestion: status.congestion.clone(),
        connections: counts.connections,
        capacity: status.capacity,
        is_open: status.is_open,
        taken: counts.taken,
        unreachable: counts.unreachable,
        reset: counts.reset,
        ended: counts.ended,
        up_bytes: counts.up_bytes,
        down_bytes: counts.down_bytes,
        pipes: counts.pipes,
        refused: counts.refused,
    };
}

/// Waits for the end of the process, and kills it if that takes too long.
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

/// Enables data in the first packet (TCP Fast Open) in this namespace. Returns true if it is enabled.
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
            log.info(format_args!(
                "proxy: works without TCP Fast Open, because net.ipv4.tcp_fastopen cannot be set: {why}; set it to \
                 {after} by sysctl"
            ));
            false
        }
    }
}

/// Reader of the state that the process reports.
struct Reader {
    shared: Arc<SharedState>,
    log: Log,
}

impl Reader {
    fn run(&self, stdout: ChildStdout) -> Result<(), String> {
        for line in BufReader::new(stdout).lines() {
            match line.as_deref().map(str::parse::<ProxyLine>) {
                Ok(Ok(ProxyLine::Status(status))) => self.show(&status),
                Ok(Ok(ProxyLine::Refused(refused))) => self.log_refused(&refused),
                Ok(Err(_)) => {}
                Err(_) => break,
            }
        }
        self.shared.state().has_ended = true;
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Logs a refused connection. The proxy reports at most one per ten seconds.
    fn log_refused(&self, RefusedConnection { from, to, why }: &RefusedConnection) {
        self.log.info(format_args!(
            "proxy: connection from {from} to {to} refused: {why}; weft status counts all refusals"
        ));
    }

    fn show(&self, status: &ProxyStatus) {
        let mut state = self.shared.state();
        let (was_open, congestion) = (state.shown.is_open, state.shown.congestion.clone());
        show(&mut state.shown, status);
        drop(state);
        if congestion != status.congestion {
            let name =
                if status.congestion.is_empty() { "the system's congestion control" } else { &status.congestion };
            self.log.info(format_args!(
                "proxy: connections between proxies use {name}, at most {} connections",
                status.capacity
            ));
        }
        if was_open && !status.is_open {
            self.log.info(format_args!(
                "proxy: all {} connections are in use: new connections are not proxied",
                status.counts.connections
            ));
        }
    }
}
