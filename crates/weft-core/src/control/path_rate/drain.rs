use weft_units::{Duration, Instant};

/// Maximum time between two drains.
const EVERY: Duration = Duration::from_secs(10);
/// Length of a drain in round trips.
///
/// The report on the first packet that was sent at the lower rate arrives after one round trip. The second shows the
/// effect.
const ROUND_TRIPS: u32 = 2;
/// A queue is doubtful (perhaps a longer path) below this ratio of the capacity to its maximum since the last drain.
///
/// The capacity is lowered while the delay looks like a queue. On a longer path that would be wrong.
const FELL: f64 = 0.8;
/// First time from a drain until the next one if a queue is doubtful ([`FELL`]), in round trips.
///
/// Each drain that empties a queue doubles the time.
const FIRST_WAIT: u32 = 8;
/// Longest time from a drain until the next one if a queue is doubtful ([`FELL`]), in round trips.
const LONGEST_WAIT: u32 = 1_024;
/// Minimum time from a drain until the next one if a queue is doubtful ([`FELL`]).
const LEAST_WAIT: Duration = Duration::from_millis(100);

/// Empties the queue for a short time at intervals, and reports whether it became empty.
///
/// A drain removes the delay that a queue causes. A longer delay of the path itself remains.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    started: Instant,
    /// Queueing delay at the start of the drain.
    queue: Duration,
    /// Least queueing delay since the start of the drain.
    least: Duration,
    /// Highest capacity since the end of the last drain, in bits per second.
    capacity_bps: f64,
    wait: u32,
}

impl Default for Drain {
    fn default() -> Drain {
        let none = Duration::ZERO;
        // The highest capacity is infinite at first, so that the first measured capacity counts as one that has fallen.
        Drain { started: Instant::ZERO, queue: none, least: none, capacity_bps: f64::MAX, wait: FIRST_WAIT }
    }
}

impl Drain {
    /// True if a drain is due.
    ///
    /// `is_queued` is true if the capacity was measured while a queue stood.
    pub fn is_due(&mut self, now: Instant, capacity_bps: f64, is_queued: bool, round_trip: Duration) -> bool {
        self.capacity_bps = self.capacity_bps.max(capacity_bps);
        let is_doubtful = is_queued && capacity_bps < FELL * self.capacity_bps;
        let wait = if is_doubtful { (round_trip * self.wait).max(LEAST_WAIT).min(EVERY) } else { EVERY };
        now - self.started > wait
    }

    /// Starts a drain. `queue` is the present queueing delay.
    pub fn begin(&mut self, now: Instant, queue: Duration) {
        (self.started, self.queue, self.least) = (now, queue, queue);
    }

    /// True if the drain continues. `queue` is the queueing delay of the last packet.
    pub fn goes_on(&mut self, now: Instant, queue: Duration, round_trip: Duration) -> bool {
        let goes_on = now - self.started < round_trip * ROUND_TRIPS;
        if goes_on {
            self.least = self.least.min(queue);
        }
        goes_on
    }

    /// Ends the drain. Returns true if a queue stood and its delay did not fall by half.
    ///
    /// `capacity_bps` is the present capacity. A queue of at most `seen` cannot be distinguished from no queue.
    pub fn end(&mut self, capacity_bps: f64, seen: Duration) -> bool {
        let stays = self.queue > seen && self.least > self.queue / 2;
        self.capacity_bps = capacity_bps;
        self.wait = if stays { FIRST_WAIT } else { (self.wait * 2).min(LONGEST_WAIT) };
        stays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(50);
    const SEEN: Duration = Duration::from_millis(1);

    fn drain(drain: &mut Drain, at_ms: u64, queues_ms: &[u64], capacity_bps: f64) -> bool {
        let at = Instant::from_millis(at_ms);
        drain.begin(at, Duration::from_millis(queues_ms[0]));
        for (n, queue) in queues_ms.iter().enumerate() {
            assert!(drain.goes_on(at + ROUND_TRIP / 4 * n as u32, Duration::from_millis(*queue), ROUND_TRIP));
        }
        assert!(!drain.goes_on(at + ROUND_TRIP * 2, Duration::ZERO, ROUND_TRIP));
        drain.end(capacity_bps, SEEN)
    }

    #[test]
    fn a_queue_goes_and_a_longer_way_stays() {
        assert!(!drain(&mut Drain::default(), 100, &[20, 20, 20, 20, 12, 5, 0], 1e6));
        assert!(drain(&mut Drain::default(), 100, &[20, 20, 20, 20, 19, 18, 20], 1e6));
        assert!(!drain(&mut Drain::default(), 100, &[1, 1, 1, 1, 1, 1, 1], 1e6), "too little to tell");
    }

    #[test]
    fn a_capacity_that_fell_is_looked_into_soon_and_later_each_time_it_was_right() {
        let mut of = Drain::default();
        let mut due_ms = |from_ms: u64, capacity_bps, is_queued| {
            (from_ms..).find(|ms| of.is_due(Instant::from_millis(*ms), capacity_bps, is_queued, ROUND_TRIP)).unwrap()
        };
        assert_eq!(due_ms(1, 1e6, true), 401, "after eight round trips");
        drain(&mut of, 401, &[20, 0], 1e6);
        let mut due_ms = |from_ms: u64, capacity_bps, is_queued| {
            (from_ms..).find(|ms| of.is_due(Instant::from_millis(*ms), capacity_bps, is_queued, ROUND_TRIP)).unwrap()
        };
        assert_eq!(due_ms(402, 0.9e6, true), 10_402, "it did not fall by much");
        assert_eq!(due_ms(402, 0.7e6, false), 10_402, "there is no queue");
        assert_eq!(due_ms(402, 0.7e6, true), 1_202, "after sixteen");
        drain(&mut of, 1_202, &[20, 20], 0.7e6);
        assert!(of.is_due(Instant::from_millis(1_603), 0.5e6, true, ROUND_TRIP), "it was no queue: after eight");
    }
}
