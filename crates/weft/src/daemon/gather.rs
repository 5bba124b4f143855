//! Coalescing of work that many events request.
//!
//! After the first request the work runs at once. For all requests in the following pause it runs once, at its end.

use weft_units::Instant;

/// Pause after each run of the work, as a multiple of the run's duration.
///
/// The work thus takes at most a tenth of the time.
const RESTS: u32 = 9;

/// Requests for one kind of work, such as setting routes. Many requests lead to one run of the work.
#[derive(Default)]
pub struct Gathered {
    is_wanted: bool,
    not_before: Instant,
}

impl Gathered {
    /// Records that the work must run.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Returns true if the work is due now, and clears the request.
    pub fn take(&mut self, now: Instant) -> bool {
        let is_due = self.is_wanted && now >= self.not_before;
        self.is_wanted &= !is_due;
        is_due
    }

    /// Records that the work ran from `began` to `ended`.
    pub fn done(&mut self, began: Instant, ended: Instant) {
        self.not_before = ended + ended.since(began) * RESTS;
    }

    /// Returns the time at which the work is due, if it was requested.
    pub fn next(&self) -> Option<Instant> {
        self.is_wanted.then_some(self.not_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_first_wish_is_met_at_once_and_work_takes_a_tenth_of_the_time() {
        let took = Duration::from_millis(7);
        let (mut work, start) = (Gathered::default(), Instant::from_millis(1_000));
        assert!(!work.take(start) && work.next().is_none());
        let (mut now, mut times) = (start, 0);
        while now < start + Duration::from_secs(7) {
            work.want();
            assert!(times > 0 || work.next().is_some_and(|at| at <= now));
            if work.take(now) {
                times += 1;
                work.done(now, now + took);
                now += took;
            }
            now += Duration::from_millis(1);
        }
        assert!((90..=100).contains(&times), "{times}");
    }
}
