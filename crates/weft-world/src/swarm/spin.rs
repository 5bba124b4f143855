//! Detects a node whose event loop runs again and again without work.

use super::violation::Violation;
use weft_units::{Duration, Instant};

/// Maximum number of runs of the event loop without input and output within [`WINDOW`]. More violate an invariant.
///
/// *Derived*: one run each 50 µs. Paced packets wake a node a few hundred microseconds apart. A timer whose time has
/// passed wakes it each microsecond.
const MOST_IDLE_TURNS: u32 = 20_000;
/// Time over which the runs of the event loop are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// Number of runs of a node's event loop without input and output.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleTurns {
    since: Instant,
    count: u32,
}

impl IdleTurns {
    pub(super) fn new(now: Instant) -> IdleTurns {
        IdleTurns { since: now, count: 0 }
    }

    /// Records a run of the event loop at `now`. Fails if too many runs in the last [`WINDOW`] had no work.
    pub(super) fn on_turn(&mut self, now: Instant, node: usize, had_work: bool) -> Result<(), Violation> {
        if now.since(self.since) >= WINDOW {
            *self = IdleTurns::new(now);
        }
        self.count += u32::from(!had_work);
        if self.count > MOST_IDLE_TURNS {
            return Err(Violation::new("spin", now, format!("node {node} wakes again and again without work")));
        }
        Ok(())
    }
}
