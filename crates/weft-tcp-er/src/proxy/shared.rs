//! What the head and the workers share; nobody holds a lock for longer than it takes to share the rates.

use super::bell::Bell;
use super::permit::Access;
use super::rates::{Rates, Totals, Use};
use super::room::Room;
use super::status::{Counts, Refused};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the head says to all workers.
#[derive(Default)]
pub struct Settings {
    /// What there is room for.
    pub room: Room,
    /// The congestion control of legs between proxies; empty: the system's.
    pub congestion: String,
    /// Which connections may be made.
    pub access: Access,
}

/// What one worker shows, and what wakes it.
struct Worker {
    counts: Mutex<Counts>,
    bell: Bell,
}

/// All of it.
pub struct Shared {
    settings: Mutex<Arc<Settings>>,
    rates: Mutex<Rates>,
    workers: Vec<Worker>,
    head: Bell,
    refused: Mutex<Option<Refused>>,
    connections: AtomicUsize,
    is_full: AtomicBool,
    is_over: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// For so many workers; there is no room yet.
    ///
    /// # Errors
    /// When there are no descriptors.
    pub fn new(workers: usize) -> io::Result<Shared> {
        let worker = |_| Ok(Worker { counts: Mutex::default(), bell: Bell::new()? });
        Ok(Shared {
            settings: Mutex::default(),
            rates: Mutex::new(Rates::new(workers)),
            workers: (0..workers).map(worker).collect::<io::Result<_>>()?,
            head: Bell::new()?,
            refused: Mutex::default(),
            connections: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        })
    }

    /// What wakes the head.
    pub fn head(&self) -> &Bell {
        &self.head
    }

    /// What wakes a worker.
    pub fn bell(&self, worker: usize) -> Option<&Bell> {
        self.workers.get(worker).map(|worker| &worker.bell)
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    fn ring_all(&self) {
        self.workers.iter().for_each(|worker| worker.bell.ring());
    }

    /// What holds now.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&lock(&self.settings))
    }

    /// Holds for all connections from now on.
    pub fn set(&self, settings: Settings) {
        *lock(&self.settings) = Arc::new(settings);
        self.ring_all();
    }

    /// What may be sent toward the peers from now on.
    pub fn set_totals(&self, totals: &Totals) {
        lock(&self.rates).set(totals);
        self.ring_all();
    }

    /// What a leg toward the peer with this address behind it may send, in bytes a second.
    pub fn granted(&self, address: IpAddr) -> Option<u64> {
        lock(&self.rates).granted(address)
    }

    /// Shares the totals anew, now that the legs of `worker` use this; wakes the others if it changes what theirs may send.
    pub fn share(&self, worker: usize, uses: Vec<Use>) {
        if lock(&self.rates).share(worker, uses) {
            let others = self.workers.iter().enumerate().filter(|(index, _)| *index != worker);
            others.for_each(|(_, other)| other.bell.ring());
        }
    }

    /// Connections of all workers.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// There is one more.
    pub fn one_more(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// There is one less.
    pub fn one_less(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// A worker has no more room.
    pub fn say_full(&self) {
        if !self.is_full.swap(true, Ordering::AcqRel) {
            self.head.ring();
        }
    }

    /// Whether one has said so since this was last asked.
    pub fn was_full(&self) -> bool {
        self.is_full.swap(false, Ordering::AcqRel)
    }

    /// A connection was not made; the head is woken for the first it has not taken yet.
    pub fn refuse(&self, refused: Refused) {
        if lock(&self.refused).replace(refused).is_none() {
            self.head.ring();
        }
    }

    /// The last connection that was not made since this was last asked.
    pub fn take_refused(&self) -> Option<Refused> {
        lock(&self.refused).take()
    }

    /// A worker's numbers are these.
    pub fn count(&self, worker: usize, counts: Counts) {
        if let Some(worker) = self.workers.get(worker) {
            *lock(&worker.counts) = counts;
        }
    }

    /// Every worker's numbers.
    pub fn counts(&self) -> impl Iterator<Item = Counts> {
        self.workers.iter().map(|worker| *lock(&worker.counts))
    }

    /// Whether a thread has come to its end, so that all shall.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// What a thread holds while it runs: with it all come to their end.
    pub fn running(&self) -> Running<'_> {
        Running(self)
    }
}

/// A thread runs.
pub struct Running<'a>(&'a Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        self.0.head.ring();
        self.0.ring_all();
    }
}
