//! Measures at one edge the two loops of a VPN with another edge: the bytes that arrive, and the waits before sending.

use crate::link::Histogram;
use weft_units::{Duration, Instant};

/// Length of the intervals in which arrivals at the egress edge are counted.
pub const TICK: Duration = Duration::from_millis(100);

/// The measurements of one VPN at an edge: waits in the loop that begins there, arrivals of the one that ends there.
#[derive(Clone, Debug, Default)]
pub struct LoopMeter {
    bytes: u64,
    /// IP bytes that arrived in each [`TICK`] since the start of the simulation.
    ticks: Vec<u32>,
    waits: Histogram,
}

impl LoopMeter {
    pub(super) fn arrived(&mut self, now: Instant, bytes: u32) {
        let tick = (now.as_nanos() / TICK.as_nanos() as u64) as usize;
        self.ticks.resize(self.ticks.len().max(tick + 1), 0);
        self.ticks[tick] = self.ticks[tick].saturating_add(bytes);
        self.bytes += u64::from(bytes);
    }

    pub(super) fn queued(&mut self, wait: Duration) {
        self.waits.record(wait.as_nanos() as u64);
    }

    /// Resets the total bytes and the waiting times, but keeps the arrivals by interval.
    pub(super) fn clear(&mut self) {
        (self.bytes, self.waits) = (0, Histogram::default());
    }

    /// Returns the IP bytes that have arrived at this edge since the statistics were last reset.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the IP bytes that arrived in each [`TICK`].
    ///
    /// The intervals run from the start of the simulation to the last arrival.
    pub fn by_tick(&self) -> &[u32] {
        &self.ticks
    }

    /// Returns the times for which packets waited in the queue of the loop that begins at this edge.
    pub fn waits(&self) -> &Histogram {
        &self.waits
    }
}
