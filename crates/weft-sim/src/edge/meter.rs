//! What is measured of a loop at its two edges.

use crate::link::Histogram;
use weft_units::{Duration, Instant};

/// Arrivals are counted by so much time.
pub const TICK: Duration = Duration::from_millis(100);

/// At the ingress how long packets waited, at the egress what came when.
#[derive(Clone, Debug, Default)]
pub struct LoopMeter {
    bytes: u64,
    /// By tick since the simulation's beginning.
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

    /// Counts and waits begin anew; what came by tick stays.
    pub(super) fn clear(&mut self) {
        (self.bytes, self.waits) = (0, Histogram::default());
    }

    /// IP bytes that came.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// IP bytes that came in each [`TICK`] from the simulation's beginning until the last that came.
    pub fn by_tick(&self) -> &[u32] {
        &self.ticks
    }

    /// How long packets waited to enter.
    pub fn waits(&self) -> &Histogram {
        &self.waits
    }
}
