//! State that the head thread and the worker threads share.
//!
//! A thread holds a lock only briefly: at most while it computes the rates.

use super::bell::Bell;
use super::capacity::ProxyCapacity;
use super::permit::AccessCheck;
use super::rates::{PeerRates, PeerTotals, Use};
use super::status::{Counts, RefusedConnection};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Settings that the head thread publishes to all workers.
#[derive(Default)]
pub struct ProxySettings {
    /// Maximum numbers of the proxy's connections and pipes.
    pub capacity: ProxyCapacity,
    /// Name of the congestion control of TCP connections between proxies. Empty: the system's default.
    pub congestion: String,
    /// Rules that decide which connections the proxy may make.
    pub access: AccessCheck,
}

/// Counters that a worker publishes, and its wake-up signal.
struct WorkerState {
    counts: Mutex<Counts>,
    bell: Bell,
}

/// State that the head thread and the worker threads share.
pub struct ProxyState {
    settings: Mutex<Arc<ProxySettings>>,
    rates: Mutex<PeerRates>,
    workers: Vec<WorkerState>,
    head: Bell,
    /// The last refused connection, if the head thread has not reported it yet.
    refused: Mutex<Option<RefusedConnection>>,
    /// Number of current connections of all workers together.
    connections: AtomicUsize,
    /// True if a worker reported since the last call of [`ProxyState::was_full`] that it is full.
    is_full: AtomicBool,
    /// True if a thread of the proxy has ended, so that all others must end too.
    is_over: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProxyState {
    /// Creates the state for `workers` workers. Its capacity is zero until the first [`ProxyState::set`].
    ///
    /// # Errors
    /// Fails if no descriptors are available.
    pub fn new(workers: usize) -> io::Result<ProxyState> {
        let worker = |_| Ok(WorkerState { counts: Mutex::default(), bell: Bell::new()? });
        Ok(ProxyState {
            settings: Mutex::default(),
            rates: Mutex::new(PeerRates::new(workers)),
            workers: (0..workers).map(worker).collect::<io::Result<_>>()?,
            head: Bell::new()?,
            refused: Mutex::default(),
            connections: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        })
    }

    /// Returns the wake-up signal of the head thread.
    pub fn head(&self) -> &Bell {
        &self.head
    }

    /// Returns the wake-up signal of a worker.
    pub fn bell(&self, worker: usize) -> Option<&Bell> {
        self.workers.get(worker).map(|worker| &worker.bell)
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    fn ring_all(&self) {
        self.workers.iter().for_each(|worker| worker.bell.ring());
    }

    /// Returns the current settings.
    pub fn settings(&self) -> Arc<ProxySettings> {
        Arc::clone(&lock(&self.settings))
    }

    /// Publishes settings for all connections and wakes all workers.
    pub fn set(&self, settings: ProxySettings) {
        *lock(&self.settings) = Arc::new(settings);
        self.ring_all();
    }

    /// Sets the rates toward the peers and wakes all workers.
    pub fn set_totals(&self, totals: &PeerTotals) {
        lock(&self.rates).set(totals);
        self.ring_all();
    }

    /// Returns the maximum rate of a connection to this address behind a peer, in bytes per second.
    ///
    /// `None` if no rate is known.
    pub fn granted(&self, address: IpAddr) -> Option<u64> {
        lock(&self.rates).granted(address)
    }

    /// Replaces the measured demands of `worker`'s connections and divides the rates among all connections again.
    ///
    /// It wakes the other workers if rates change.
    pub fn share(&self, worker: usize, uses: Vec<Use>) {
        if lock(&self.rates).share(worker, uses) {
            let others = self.workers.iter().enumerate().filter(|(index, _)| *index != worker);
            others.for_each(|(_, other)| other.bell.ring());
        }
    }

    /// Number of connections of all workers.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Adds one to the number of connections of all workers.
    pub fn one_more(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Subtracts one from the number of connections of all workers.
    pub fn one_less(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Records that a worker is full, and wakes the head thread.
    pub fn say_full(&self) {
        if !self.is_full.swap(true, Ordering::AcqRel) {
            self.head.ring();
        }
    }

    /// Returns true if a worker was full since the last call of this function.
    pub fn was_full(&self) -> bool {
        self.is_full.swap(false, Ordering::AcqRel)
    }

    /// Stores a refused connection, which the head thread reports to the daemon.
    ///
    /// Wakes the head thread unless an earlier one is still stored.
    pub fn refuse(&self, refused: RefusedConnection) {
        if lock(&self.refused).replace(refused).is_none() {
            self.head.ring();
        }
    }

    /// Returns and removes the connection that was refused last, if the head thread has not taken it yet.
    pub fn take_refused(&self) -> Option<RefusedConnection> {
        lock(&self.refused).take()
    }

    /// Stores the present counters of a worker, for the status report.
    pub fn count(&self, worker: usize, counts: Counts) {
        if let Some(worker) = self.workers.get(worker) {
            *lock(&worker.counts) = counts;
        }
    }

    /// Returns the counters of every worker.
    pub fn counts(&self) -> impl Iterator<Item = Counts> {
        self.workers.iter().map(|worker| *lock(&worker.counts))
    }

    /// True if a thread has ended, so that all threads must end.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Returns a guard that a thread holds while it runs. Dropping it ends all threads.
    pub fn running(&self) -> RunningGuard<'_> {
        RunningGuard(self)
    }
}

/// Guard of a running thread. Dropping it ends all threads.
pub struct RunningGuard<'a>(&'a ProxyState);

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        self.0.head.ring();
        self.0.ring_all();
    }
}
