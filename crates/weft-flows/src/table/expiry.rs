//! Time-outs: idle flows end, and other flows are reported at intervals.
//!
//! A packet does not touch the timer of its flow. The timer looks at the time of the last packet when it fires, and
//! starts again if the flow was used since.

use super::record::elapsed;
use super::{FlowEnd, FlowRecord, FlowStates};
use weft_units::{Duration, Instant};

/// Binary logarithm of the milliseconds in a tick. Tuned: a flow may outlive its time-out by 64 ms.
const TICK_BITS: u32 = 6;
/// Maximum number of timer steps in one call of `expire`.
///
/// Derived: the end of a flow takes up to 1.7 us, so a call takes about 100 us.
const STEPS: u32 = 64;

impl FlowStates {
    /// Ends the flows that are idle, and reports those whose active time-out passed.
    ///
    /// `report` receives a record of each. A flow that continues is reported with [`FlowEnd::Active`], and only if it
    /// had packets. A call does a bounded amount of work. It is complete when [`FlowStates::next_timeout`] lies after
    /// `now`.
    pub fn expire(&mut self, now: Instant, report: &mut impl FnMut(&FlowRecord)) {
        let (tick, mut steps) = (tick_of(now), STEPS);
        while let Some(record) = self.wheel.poll(tick, &mut steps) {
            if self.hot[record as usize].idle(now) >= self.config.idle {
                self.end(now, record, FlowEnd::Idle, report);
                self.counters.idle += 1;
                continue;
            }
            self.report_active(now, record, report);
            self.arm(now, record);
        }
    }

    /// Returns the time at which [`FlowStates::expire`] has work to do, or `None` if there is no flow.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.wheel.next_work().map(|tick| Instant::from_millis(u64::from(tick) << TICK_BITS))
    }

    /// Sets the time between two reports of a flow that continues. A known flow takes it at its next timer.
    pub fn set_active(&mut self, active: Option<Duration>) {
        self.config.active = active;
    }

    fn report_active(&mut self, now: Instant, record: u32, report: &mut impl FnMut(&FlowRecord)) {
        let at = record as usize;
        let Some(active) = self.config.active else { return };
        if elapsed(now, self.cold[at].reported_ms) < active {
            return;
        }
        let flow = self.record(now, record, Some(FlowEnd::Active));
        if flow.delta.iter().any(|delta| delta.packets > 0) {
            report(&flow);
        }
        self.cold[at].set_reported(&mut self.hot[at], now);
    }

    /// Starts the timer of a flow, for its idle or its active time-out, whichever is earlier.
    pub(super) fn arm(&mut self, now: Instant, record: u32) {
        let idle_left = self.config.idle.saturating_sub(self.hot[record as usize].idle(now));
        let reported = elapsed(now, self.cold[record as usize].reported_ms);
        let active_left = self.config.active.map_or(Duration::MAX, |active| active.saturating_sub(reported));
        let at = (now + idle_left.min(active_left)).as_nanos().div_ceil(1_000_000 << TICK_BITS);
        // The tick after the current one, at least, so that one call never fires a timer twice.
        self.wheel.schedule(record, u32::try_from(at).unwrap_or(u32::MAX).max(tick_of(now).saturating_add(1)));
    }
}

fn tick_of(now: Instant) -> u32 {
    u32::try_from(now.as_nanos() / (1_000_000 << TICK_BITS)).unwrap_or(u32::MAX)
}
