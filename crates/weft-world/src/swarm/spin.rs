//! Detects a node that wakes again and again without work.

use super::violation::Violation;
use weft_units::{Duration, Instant};

/// Most turns without input and output within [`WINDOW`].
///
/// *Derived*: one each 50 µs. Paced packets wake a node a few hundred microseconds apart, a timer that is due in the past
/// each microsecond.
const MOST_IDLE_TURNS: u32 = 20_000;
/// Time over which turns are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// Counts a node's turns without input and output.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleTurns {
    since: Instant,
    count: u32,
}

impl IdleTurns {
    pub(super) fn new(now: Instant) -> IdleTurns {
        IdleTurns { since: now, count: 0 }
    }

    /// Counts a turn of `node` at `now`. Fails if the node had too many of them lately.
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
