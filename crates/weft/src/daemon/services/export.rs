//! Export of flow records to a collector, on a thread of its own.
//!
//! The packet loop (`datapath`) takes records from the engine and passes them in batches through a bounded channel.
//! It never waits: while the channel is full, the records stay in the engine's queue, which counts the records that
//! it loses. The thread owns the exporter and its socket, so a slow collector or a slow connection delays no packet.

mod records;
mod socket;

use crate::config::flows::{ExportProtocol, ExportSettings};
use crate::daemon::clock::{self, Clock};
use crate::daemon::log::Log;
use crate::daemon::threads::{Pulse, Threads};
use crate::status::FlowExport;
use socket::CollectorSocket;
use std::cell::LazyCell;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use weft_engine::Engine;
use weft_flows::ipfix::{ExportRecord, Exporter, MESSAGE_BYTES};
use weft_io::wait::{Poller, Ready, Waker};
use weft_units::Instant;

/// Maximum number of records in a batch. One flow may give two records, one for each direction.
const BATCH_RECORDS: usize = 256;
/// Maximum number of batches that wait for the thread. Further records stay in the engine.
///
/// *Derived*: the batches hold as many records as the engine keeps.
const MOST_BATCHES: usize = 256;
/// Maximum number of batches that one turn of the packet loop makes. Tuned: they take less than a millisecond.
const BATCHES_PER_TURN: usize = 4;
/// Maximum number of messages that are sent without a pause.
///
/// Derived: a datagram of 1,232 bytes takes 2,304 bytes of a receive buffer, so the 208 KiB that Linux gives a collector
/// by default hold 92 datagrams.
const BURST_MESSAGES: usize = 32;
/// Shortest time for which the thread waits after a burst of messages.
///
/// Derived: a burst of 32 messages of 9 records each per millisecond carries 288,000 records/s.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// Longest time for which the thread waits for work. After each wait the thread updates the counters.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Maximum time to send the last records when the node stops. The rest is lost.
const LAST_RECORDS: Duration = Duration::from_secs(1);

/// Poller token of the waker, with which the packet loop ends this thread's wait.
const WAKER: u64 = 0;
/// Poller token of the collector's socket.
const SOCKET: u64 = 1;

/// A message from the packet loop to the thread.
enum ExportWork {
    Records(Vec<ExportRecord>),
    ClassNames(Vec<String>),
}

impl ExportWork {
    fn into_records(self) -> Option<Vec<ExportRecord>> {
        if let ExportWork::Records(records) = self { Some(records) } else { None }
    }

    fn into_class_names(self) -> Option<Vec<String>> {
        if let ExportWork::ClassNames(names) = self { Some(names) } else { None }
    }
}

/// Counters that the thread updates and the packet loop reads.
#[derive(Default)]
struct ExportTotals {
    is_reachable: AtomicBool,
    sent: AtomicU64,
    waiting: AtomicU64,
    not_sent: AtomicU64,
}

/// Handle of the thread that exports. Dropping it makes the thread send its records, and end.
pub struct ExportHandle {
    settings: ExportSettings,
    work: SyncSender<ExportWork>,
    /// Empty batches that the thread gives back, to be filled again.
    spare: Receiver<Vec<ExportRecord>>,
    /// Records that are not passed to the thread yet, because the channel was full.
    batch: Vec<ExportRecord>,
    /// Names of the classes that the thread does not have yet.
    class_names: Option<Vec<String>>,
    waker: Arc<Waker>,
    totals: Arc<ExportTotals>,
    /// Channel that is disconnected when the thread has ended.
    ended: Receiver<()>,
    clock: Clock,
}

impl ExportHandle {
    /// Starts the thread. `class_names` are in the order of the classes' numbers.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn start(
        settings: &ExportSettings,
        class_names: Vec<String>,
        clock: Clock,
        threads: &Threads,
    ) -> io::Result<ExportHandle> {
        let (work, inbox) = sync_channel(MOST_BATCHES);
        let (gives_back, spare) = sync_channel(MOST_BATCHES);
        let (lives, ended) = mpsc::channel();
        let (waker, poller) = (Arc::new(Waker::new()?), Poller::new()?);
        poller.add(waker.as_raw_fd(), WAKER)?;
        let totals = Arc::new(ExportTotals::default());
        let collector = settings.collector.value;
        let thread = ExportThread {
            collector: collector.to_string(),
            exporter: Exporter::new(clock.now(), settings.exporter()),
            socket: CollectorSocket::new(collector, settings.protocol == ExportProtocol::Tcp),
            poller,
            waker: Arc::clone(&waker),
            inbox,
            gives_back,
            totals: Arc::clone(&totals),
            clock,
            log: threads.log(),
            was_reachable: true,
            _lives: lives,
        };
        threads.spawn("weft-export", move |pulse| thread.run(pulse))?;
        let batch = Vec::with_capacity(BATCH_RECORDS);
        let (settings, class_names) = (settings.clone(), Some(class_names));
        Ok(ExportHandle { settings, work, spare, batch, class_names, waker, totals, ended, clock })
    }

    /// Returns true if the thread serves these settings. A change of the export interval needs no new thread.
    pub fn serves(&self, settings: &ExportSettings) -> bool {
        (self.settings.exporter(), self.settings.collector.value) == (settings.exporter(), settings.collector.value)
    }

    /// Sets the names of the classes, in the order of their numbers.
    pub fn set_class_names(&mut self, names: Vec<String>) {
        self.class_names = Some(names);
    }

    /// Moves records from the engine to the thread. Returns true if more records wait and the channel has space.
    pub fn pass_records(&mut self, engine: &mut Engine) -> bool {
        if let Some(names) = self.class_names.take() {
            self.class_names = self.send(ExportWork::ClassNames(names)).and_then(ExportWork::into_class_names);
        }
        let clock = self.clock;
        let began_ns = LazyCell::new(|| clock::unix_ns().saturating_sub(clock.now().as_nanos()));
        let unix_ms = |at: Instant| (*began_ns + at.as_nanos()) / 1_000_000;
        for _ in 0..BATCHES_PER_TURN {
            while self.batch.len() + 2 <= BATCH_RECORDS
                && let Some(record) = engine.take_flow_record()
            {
                self.batch.extend(records::records(engine, &record, &unix_ms));
            }
            if self.batch.is_empty() || !self.send_batch() {
                return false;
            }
        }
        true
    }

    /// Sends the batch. Returns false, and keeps the batch, if the channel is full.
    fn send_batch(&mut self) -> bool {
        let next = self.spare.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH_RECORDS));
        let batch = std::mem::replace(&mut self.batch, next);
        match self.send(ExportWork::Records(batch)).and_then(ExportWork::into_records) {
            Some(kept) => {
                self.batch = kept;
                false
            }
            None => true,
        }
    }

    /// Sends work to the thread. Returns it if the channel is full, or if the thread has ended.
    fn send(&self, work: ExportWork) -> Option<ExportWork> {
        let sent = self.work.try_send(work);
        // If the thread cannot be woken, it reads the channel within a second anyway.
        let _ = self.waker.wake();
        match sent {
            Ok(()) => None,
            Err(TrySendError::Full(work) | TrySendError::Disconnected(work)) => Some(work),
        }
    }

    /// Ends all flows and waits at most `LAST_RECORDS` until their records are sent.
    pub fn finish(mut self, engine: &mut Engine) {
        let (now, until) = (self.clock.now(), self.clock.now() + LAST_RECORDS);
        let mut has_more = true;
        while has_more && self.clock.now() < until {
            has_more = engine.end_flows(now);
            while self.pass_records(engine) {}
            while !self.batch.is_empty() && self.clock.now() < until {
                std::thread::sleep(SHORTEST_WAIT);
                while self.pass_records(engine) {}
            }
        }
        let Self { work, waker, ended, clock, .. } = self;
        drop(work);
        let _ = waker.wake();
        let rest = until.since(clock.now());
        // If the collector accepts nothing, the process ends before the thread does.
        let _ = ended.recv_timeout(rest);
    }

    /// Returns the state of the export for `weft status`.
    pub fn shown(&self) -> FlowExport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let ExportTotals { is_reachable, sent, waiting, not_sent } = &*self.totals;
        FlowExport {
            collector: self.settings.collector.value.to_string(),
            is_reachable: is_reachable.load(Ordering::Relaxed),
            sent_records: read(sent),
            waiting_records: read(waiting),
            not_sent_records: read(not_sent),
        }
    }
}

/// State of the thread that exports flow records.
struct ExportThread {
    collector: String,
    exporter: Exporter,
    socket: CollectorSocket,
    poller: Poller,
    waker: Arc<Waker>,
    inbox: Receiver<ExportWork>,
    gives_back: SyncSender<Vec<ExportRecord>>,
    totals: Arc<ExportTotals>,
    clock: Clock,
    log: Log,
    was_reachable: bool,
    /// Dropped when the thread ends, which disconnects the handle's receiver `ended`.
    _lives: mpsc::Sender<()>,
}

impl ExportThread {
    fn run(mut self, pulse: &Pulse) -> Result<(), String> {
        let mut ready: Vec<Ready> = Vec::new();
        let mut buffer = [0; MESSAGE_BYTES];
        let mut until = None;
        loop {
            let is_closed = self.take_work();
            pulse.resting(|| self.exchange(&mut buffer)).map_err(|why| why.to_string())?;
            self.publish();
            let now = self.clock.now();
            if is_closed && (self.is_done() || now >= *until.get_or_insert(now + LAST_RECORDS)) {
                return Ok(());
            }
            let wait = self.time_to_wait(now, is_closed);
            pulse.resting(|| self.poller.wait(Some(wait), &mut ready)).map_err(|why| why.to_string())?;
            self.waker.clear().map_err(|why| why.to_string())?;
        }
    }

    fn time_to_wait(&self, now: Instant, is_closed: bool) -> Duration {
        let longest = if is_closed { Duration::from_millis(20) } else { LONGEST_WAIT };
        let due = self.exporter.next_timeout().min(self.socket.next_timeout(now));
        due.since(now).clamp(SHORTEST_WAIT, longest)
    }

    /// Takes the records and class names that the packet loop sent. Returns true if the packet loop has ended.
    fn take_work(&mut self) -> bool {
        loop {
            match self.inbox.try_recv() {
                Ok(ExportWork::Records(mut batch)) => {
                    for record in batch.drain(..) {
                        // If the exporter has no space for a record, it adds the record to its number of lost
                        // records.
                        self.exporter.push(record);
                    }
                    let _ = self.gives_back.try_send(batch);
                }
                Ok(ExportWork::ClassNames(names)) => self.exporter.set_class_names(names.iter().map(String::as_str)),
                Err(why) => return why == TryRecvError::Disconnected,
            }
        }
    }

    /// Reports the fate of earlier messages to the exporter, and sends new ones.
    fn exchange(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let now = self.clock.now();
        self.socket.look(now, &mut self.exporter, &self.poller, SOCKET)?;
        for _ in 0..BURST_MESSAGES {
            // IPFIX and NetFlow state the seconds since 1970 in 32 bits, which suffice until 2106.
            let (now, unix_s) = (self.clock.now(), self.clock.unix_s() as u32);
            let Some(message) = self.exporter.poll_message(now, unix_s, buffer) else { break };
            let Some(bytes) = buffer.get(..message.len) else { break };
            self.socket.send(now, &mut self.exporter, message, bytes);
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.exporter.counters().pending_records == 0
    }

    fn publish(&mut self) {
        let (counters, is_reachable) = (self.exporter.counters(), self.exporter.is_reachable());
        let waiting = counters.pending_records + counters.retained_records;
        self.totals.is_reachable.store(is_reachable, Ordering::Relaxed);
        self.totals.sent.store(counters.sent_records, Ordering::Relaxed);
        self.totals.waiting.store(waiting as u64, Ordering::Relaxed);
        self.totals.not_sent.store(counters.not_sent.records, Ordering::Relaxed);
        if is_reachable != self.was_reachable {
            self.was_reachable = is_reachable;
            let collector = &self.collector;
            match is_reachable {
                true => self.log.info(format_args!("flow records: collector {collector} takes messages again")),
                false => self.log.error(format_args!(
                    "flow records: collector {collector} does not answer: the records are kept meanwhile: check that it runs"
                )),
            }
        }
    }
}
