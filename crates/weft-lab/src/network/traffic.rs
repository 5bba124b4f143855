//! A network's flows: threads of this process with real sockets of the kernel.

use super::{datagrams, tcp};
use crate::LabError;
use crate::interrupt;
use crate::net::NetNamespace;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use weft_scenario::{FlowResult, NetworkFlow, TcpSpec, Traffic, percentile};
use weft_units::Rng;

/// Maximum time for which a flow's thread blocks before it checks whether the run is over.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// The end nodes, addresses and settings of a flow, as its threads need them.
pub(super) struct FlowSetting<'a> {
    pub flow: &'a NetworkFlow,
    pub tcp: TcpSpec,
    pub from: &'a NetNamespace,
    pub to: &'a NetNamespace,
    /// The address to which the flow sends. It belongs to the receiving node `to`, on loopback or in the tunnel.
    pub address: Ipv4Addr,
    /// The TCP or UDP port to which the flow sends. No other flow uses it.
    pub port: u16,
    /// The time at which the run begins, in all threads.
    pub epoch: Instant,
    pub rng: Rng,
    pub over: &'a AtomicBool,
    pub sink: &'a Sink,
}

impl FlowSetting<'_> {
    /// Waits until the flow starts: at its configured start plus a random part of its configured spread.
    pub fn wait(&self) -> Result<(), LabError> {
        let spread = self.flow.spread.mul_f64(self.rng.split(1).unit());
        interrupt::sleep_until(self.epoch + self.flow.start + spread)
    }

    /// Returns the time until the flow stops. `None` if it has stopped or the run was interrupted.
    pub fn left(&self) -> Option<Duration> {
        let left = (self.epoch + self.flow.stop).saturating_duration_since(Instant::now());
        (!left.is_zero() && !self.is_over()).then_some(left)
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || interrupt::check().is_err()
    }
}

/// Counts the data of a flow that has arrived, and measures when it arrived.
#[derive(Debug, Default)]
pub(super) struct Sink {
    bytes: AtomicU64,
    resets: AtomicU64,
    arrivals: Mutex<FlowArrivals>,
}

#[derive(Debug, Default)]
struct FlowArrivals {
    last: Option<Instant>,
    longest_gap: Duration,
    one_way_ms: Vec<f64>,
}

impl Sink {
    /// Records the arrival of `bytes`, and the one-way delay of a datagram. `one_way` is `None` for TCP.
    pub fn came(&self, bytes: u64, one_way: Option<Duration>) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let (now, mut arrivals) = (Instant::now(), self.arrivals.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(last) = arrivals.last.replace(now) {
            arrivals.longest_gap = arrivals.longest_gap.max(now - last);
        }
        arrivals.one_way_ms.extend(one_way.map(|time| time.as_secs_f64() * 1e3));
    }

    /// Counts one TCP transfer that ended with an error before the flow stopped.
    pub fn broke(&self) {
        self.resets.fetch_add(1, Ordering::Relaxed);
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Deletes the gaps between arrivals and the one-way delays recorded so far, so that the warm-up does not count.
    pub fn mark(&self) {
        *self.arrivals.lock().unwrap_or_else(PoisonError::into_inner) = FlowArrivals::default();
    }

    /// Returns the flow's result for the last part of the run, which lasted `counted`.
    ///
    /// The flow had received `before` bytes at the beginning of this part.
    pub fn result(&self, flow: &NetworkFlow, before: u64, counted: Duration) -> FlowResult {
        let arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let delays = |q| percentile(arrivals.one_way_ms.iter().copied(), q);
        FlowResult {
            name: flow.name.clone(),
            goodput_bps: Some(self.bytes().saturating_sub(before) as f64 * 8.0 / counted.as_secs_f64()),
            longest_gap_ms: arrivals.last.map(|_| arrivals.longest_gap.as_secs_f64() * 1e3),
            one_way_ms_p50: delays(0.5),
            one_way_ms_p95: delays(0.95),
            one_way_ms_p99: delays(0.99),
            tcp_resets: flow.traffic.is_tcp().then(|| self.resets.load(Ordering::Relaxed) as f64),
            ..FlowResult::default()
        }
    }
}

/// Runs the sender and the receiver of a flow in their namespaces, until the flow ends.
pub(super) fn run(place: &FlowSetting<'_>) -> Result<(), LabError> {
    thread::scope(|scope| {
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let receiver = scope.spawn(move || {
            place.to.run(|| match place.flow.traffic.is_tcp() {
                true => tcp::receive(place, &ready),
                false => datagrams::receive(place, &ready),
            })?
        });
        // Either the receiver has reported that it is ready, or it has ended with an error and the channel is closed.
        let _ = is_ready.recv();
        place.wait()?;
        let sent = place.from.run(|| match place.flow.traffic {
            Traffic::Ftp { size_bytes } => tcp::send(place, size_bytes, None),
            Traffic::Http { size_bytes, pause } => tcp::send(place, Some(size_bytes), Some(pause)),
            _ => datagrams::send(place),
        })?;
        receiver.join().unwrap_or(Err(LabError::Interrupted))?;
        sent
    })
}
