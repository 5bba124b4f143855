//! Loads the congestion control `weft_er` into the kernel and keeps it loaded, on a thread of its own.
//!
//! The thread renews the rates granted by destination and by flow. The packet loop (`datapath`) only sends it
//! messages and never waits.

use crate::config::TcpEr;
use crate::daemon::Log;
use crate::daemon::threads::{Pulse, Threads};
use nix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weft_engine::FlowKey;
use weft_tcp_er::congestion::{Congestion, CongestionChoice, GrantError, KernelConnection, choose};

/// Interval at which the granted rates are renewed in the kernel.
///
/// *Derived*: a grant expires after four round trips, and at the earliest after 200 ms.
const RENEW_EVERY: Duration = Duration::from_millis(50);
/// Interval of checks that the congestion control is still loaded.
///
/// If another process has loaded the congestion control, the kernel may unload it when that process ends.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of messages that wait for the thread.
///
/// The signalling repeats a dropped message a round trip later.
const MAX_MESSAGES: usize = 1_024;

enum TcpErMessage {
    Granted { flow: KernelConnection, bytes_per_s: u64, until: Instant },
    Withdrawn(KernelConnection),
}

/// Handle of the thread that keeps `weft_er` loaded. Dropping it ends the grants and unloads `weft_er`.
pub struct RateKeeper {
    /// Channel for messages to the thread. The thread ends when this becomes `None`.
    messages: Option<SyncSender<TcpErMessage>>,
    choice: Arc<Mutex<CongestionChoice>>,
    /// The newest configuration. The thread applies it when it next renews the rates.
    wanted: Arc<Mutex<TcpEr>>,
    holder: Option<JoinHandle<()>>,
}

impl Drop for RateKeeper {
    fn drop(&mut self) {
        self.messages = None;
        // Before Linux 6.4 the congestion control stays loaded until its holder unloads it, even after the process
        // ends. So this waits until the thread has unloaded it.
        if let Some(holder) = self.holder.take() {
            let _ = holder.join();
        }
    }
}

impl RateKeeper {
    /// Loads the congestion control. If that fails, logs the reason and the congestion control that is used instead.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn start(wanted: TcpEr, threads: &Threads) -> io::Result<RateKeeper> {
        let log = threads.log();
        let (loaded, choice) = match Congestion::load() {
            Ok(congestion) => (Some(congestion), choose(None)),
            Err(why) => (None, choose(Some(&why.to_string()))),
        };
        if !choice.because.is_empty() {
            let instead = choice.available.name().unwrap_or("the kernel's own congestion control");
            log.info(format_args!(
                "congestion control weft_er cannot be used, so TCP connections with a granted rate use {instead}: {}",
                choice.because
            ));
        }
        let (messages, inbox) = sync_channel(MAX_MESSAGES);
        let (choice, wanted) = (Arc::new(Mutex::new(choice)), Arc::new(Mutex::new(wanted)));
        let shared = (Arc::clone(&choice), Arc::clone(&wanted));
        let mut keeper = RateKeeper { messages: Some(messages), choice, wanted, holder: None };
        if let Some(congestion) = loaded {
            let (choice, wanted) = shared;
            let holder = Holder { congestion, wanted, applied: TcpEr::default(), flows: HashMap::new(), choice, log };
            keeper.holder = Some(threads.spawn("weft-tcp-er", move |pulse| holder.run(&inbox, pulse))?);
        }
        Ok(keeper)
    }

    /// Replaces the configured grants, each of which is for a prefix of destinations.
    pub fn set(&self, wanted: TcpEr) {
        *lock(&self.wanted) = wanted;
    }

    /// Grants a flow a rate in bytes per second, for the duration `lasts`.
    pub fn granted(&self, flow: &FlowKey, bytes_per_s: u64, lasts: Duration) {
        self.send_message(TcpErMessage::Granted { flow: connection(flow), bytes_per_s, until: Instant::now() + lasts });
    }

    /// Withdraws the grant of a flow.
    pub fn withdrawn(&self, flow: &FlowKey) {
        self.send_message(TcpErMessage::Withdrawn(connection(flow)));
    }

    /// Returns the congestion control of sockets with an explicit rate, and the reason if it is not `weft_er`.
    pub fn choice(&self) -> CongestionChoice {
        lock(&self.choice).clone()
    }

    fn send_message(&self, word: TcpErMessage) {
        // If the channel is full or the thread has ended, the message is dropped.
        let _ = self.messages.as_ref().map(|messages| messages.try_send(word));
    }
}

fn connection(flow: &FlowKey) -> KernelConnection {
    KernelConnection { local_port: flow.src_port, remote: SocketAddr::new(flow.dst, flow.dst_port) }
}

struct Holder {
    congestion: Congestion,
    wanted: Arc<Mutex<TcpEr>>,
    /// The configuration whose grants are in the kernel.
    applied: TcpEr,
    /// Granted rate in bytes per second, and its end, for each connection.
    flows: HashMap<KernelConnection, (u64, Instant)>,
    choice: Arc<Mutex<CongestionChoice>>,
    log: Log,
}

impl Holder {
    fn run(mut self, messages: &Receiver<TcpErMessage>, pulse: &Pulse) -> Result<(), String> {
        let (mut renew_at, mut look_at) = (Instant::now(), Instant::now() + LOOK_EVERY);
        loop {
            let now = Instant::now();
            if now >= renew_at {
                self.renew(now);
                renew_at = now + RENEW_EVERY;
            }
            if now >= look_at {
                self.check();
                look_at = now + LOOK_EVERY;
            }
            match pulse.resting(|| messages.recv_timeout(renew_at - now)) {
                Ok(TcpErMessage::Granted { flow, bytes_per_s, until }) => {
                    self.flows.insert(flow, (bytes_per_s, until));
                    self.log_failure(self.congestion.grants().set_flow(flow, bytes_per_s, monotonic_ns()));
                }
                Ok(TcpErMessage::Withdrawn(flow)) => {
                    self.flows.remove(&flow);
                    self.log_failure(self.congestion.grants().clear_flow(flow));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.end();
                    return Ok(());
                }
            }
        }
    }

    fn renew(&mut self, now: Instant) {
        let wanted = lock(&self.wanted).clone();
        if wanted != self.applied {
            self.apply(wanted);
        }
        let (grants, now_ns) = (self.congestion.grants(), monotonic_ns());
        for grant in &self.applied.grants {
            let to = grant.to.value;
            self.log_failure(grants.set(to.address, to.length, grant.rate.bps() / 8, now_ns));
        }
        for (flow, (bytes_per_s, until)) in &self.flows {
            self.log_failure(if now < *until {
                grants.set_flow(*flow, *bytes_per_s, now_ns)
            } else {
                grants.clear_flow(*flow)
            });
        }
        self.flows.retain(|_, (_, until)| now < *until);
    }

    /// Removes the grants by prefix from the kernel, and takes those of `wanted` as the next to renew.
    fn apply(&mut self, wanted: TcpEr) {
        for grant in &self.applied.grants {
            let to = grant.to.value;
            self.log_failure(self.congestion.grants().clear(to.address, to.length));
        }
        self.applied = wanted;
    }

    fn end(mut self) {
        self.apply(TcpEr::default());
        for flow in self.flows.keys() {
            self.log_failure(self.congestion.grants().clear_flow(*flow));
        }
    }

    fn check(&mut self) {
        let failed = self.congestion.keep().err().map(|why| why.to_string());
        *lock(&self.choice) = choose(failed.as_deref());
    }

    fn log_failure(&self, done: Result<(), GrantError>) {
        if let Err(why) = done {
            self.log.debug(format_args!("cannot change the granted rate of a TCP connection in the kernel: {why}"));
        }
    }
}

/// Locks a value that two threads share.
///
/// A thread that panicked leaves it whole, because each change is one assignment.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the clock that `bpf_ktime_get_ns` reads, in nanoseconds.
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
