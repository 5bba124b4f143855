use super::phase::State;
use super::rate_meter::RateMeter;
use super::round::Round;
use super::{PathRate, Sample};
use weft_units::tuned::{Constant, Ratio, Tuned};
use weft_units::{Duration, Instant};

/// Ratio of the best rate of the last seconds to the capacity above which the sender may return to that rate.
///
/// *Derived*: the first three rounds of growth without a queue reach a lower rate anyway.
const WORTH: f64 = 1.25;
/// Minimum rate at which the sender fills the path, as a fraction of the capacity.
///
/// A queue that empties at a lower rate does not show that the path carries more. *Tuned*.
const FILLED: Tuned<Ratio> = Tuned::new(Constant::Filled, Ratio(0.9));
/// Fraction of the tried rate that must arrive for a return to that rate to succeed.
///
/// Tuned.
const FOUND: Tuned<Ratio> = Tuned::new(Constant::Found, Ratio(0.85));
/// Number of rounds with an empty queue that a return to an earlier rate stands for in the growth of the rate.
///
/// *Tuned*: the path's rate changed by much, so it may now be higher than before it fell.
const NEXT_GROWTH: Tuned<u32> = Tuned::new(Constant::NextGrowth, 3);
/// First time between two attempts to return to an earlier rate, in round trips. Each attempt that fails doubles it.
///
/// Derived: reports on an attempt have then arrived.
const FIRST_WAIT: u32 = 2;
/// Longest time between two attempts to return to an earlier rate, in round trips.
///
/// Tuned.
const LONGEST_WAIT: Tuned<u32> = Tuned::new(Constant::RecallWait, 64);

/// Determines when to return to a rate that the path carried a short time ago.
///
/// Where the rate of a path falls and rises again within seconds, growth from the low rate takes many round trips each
/// time. The fall leaves a queue. If this queue vanishes although the sender fills the path, the fall is over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recall {
    /// Time since which the rate fills the path.
    filled_since: Option<Instant>,
    /// Start of the last attempt to return to an earlier rate.
    since: Instant,
    due: Instant,
    wait: u32,
    /// Rate of the last attempt to return, in bits per second; `None` once packets have arrived at that rate.
    sought_bps: Option<f64>,
}

impl Recall {
    /// Starts an attempt to send at `sought_bps` if one is due. Returns true if it did.
    fn begin(&mut self, now: Instant, round_trip: Duration, sought_bps: f64) -> bool {
        let is_due = now >= self.due;
        if is_due {
            self.wait = (self.wait * 2).clamp(FIRST_WAIT, LONGEST_WAIT.get());
            (self.since, self.due) = (now, now + round_trip * self.wait);
            self.sought_bps = Some(sought_bps);
        }
        is_due
    }

    /// Records the rate at which packets are sent from now on.
    pub fn on_rate(&mut self, now: Instant, rate_bps: f64, capacity_bps: f64) {
        let fills = rate_bps >= FILLED.get() * capacity_bps;
        self.filled_since = if fills { self.filled_since.or(Some(now)) } else { None };
    }

    /// True if all the sample's packets were sent at a rate that fills the path.
    fn is_filled(&self, sample: &Sample) -> bool {
        self.filled_since.is_some_and(|since| sample.largest_sent_at >= since + sample.send_interval)
    }

    /// True if the sample's packets were sent before the last attempt. They then show the earlier, lower rate.
    pub fn precedes(&self, sample: &Sample) -> bool {
        sample.largest_sent_at < self.since
    }

    /// Records the delivery rate.
    ///
    /// If it reaches the rate of the last attempt, that attempt has succeeded, and the next one may follow soon.
    fn on_delivered(&mut self, delivered_bps: f64) {
        if self.sought_bps.is_some_and(|sought_bps| delivered_bps > FOUND.get() * sought_bps) {
            (self.wait, self.sought_bps) = (0, None);
        }
    }
}

impl PathRate {
    /// Returns to the best rate of the last seconds once no queue stands although the sender fills the path.
    pub fn recall(&mut self, now: Instant, sample: &Sample) {
        self.recall.on_delivered(self.meter.delivered_bps());
        let is_free = matches!(self.state, State::Steady | State::Probe) && !self.trial.is_open();
        let may_have_returned = is_free && sample.backlogged && self.is_drained() && self.recall.is_filled(sample);
        let is_worth_it = self.best_bps > WORTH * self.capacity_bps;
        if may_have_returned && is_worth_it && self.recall.begin(now, self.rtt.smoothed(), self.best_bps) {
            self.capacity_bps = self.bounded(self.best_bps);
            self.growth = NEXT_GROWTH.get() as usize;
            self.meter = RateMeter::default();
            self.round = Round::new(now, self.capacity_bps);
        }
    }

    /// True if neither the last packet nor those of the last round trip met a queue.
    fn is_drained(&self) -> bool {
        let none = self.queue_target() / 4;
        self.delay.standing_queue() < none && self.delay.queue() < none.max(self.packets_time(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const ROUND_TRIP: Duration = Duration::from_millis(50);

    #[test]
    fn attempts_that_fail_are_further_and_further_apart() {
        let (mut recall, mut at) = (Recall::default(), Vec::new());
        for ms in 0..20_000 {
            if recall.begin(Instant::from_millis(ms), ROUND_TRIP, 10e6) {
                at.push(ms);
            }
            recall.on_delivered(2e6);
        }
        let gaps: Vec<u64> = at.windows(2).map(|pair| (pair[1] - pair[0]) / 50).collect();
        assert!(gaps.starts_with(&[2, 4, 8, 16, 32, 64, 64, 64]), "{gaps:?}");
    }

    #[test]
    fn an_attempt_that_is_right_is_repeated_soon() {
        let mut recall = Recall::default();
        for n in 0..20 {
            let now = Instant::from_millis(n * 150);
            assert!(recall.begin(now, ROUND_TRIP, 10e6), "{n}");
            recall.on_delivered(9e6);
        }
    }
}
