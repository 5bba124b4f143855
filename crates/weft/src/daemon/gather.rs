//! Work that many events ask for.

use std::time::Duration;
use weft_units::Instant;

/// What each of many sessions changes is done together, so often at most.
const GATHER: Duration = Duration::from_millis(100);

/// Work that many events ask for: done at once for the first, and together for those that follow soon.
#[derive(Default)]
pub struct Gathered {
    is_wanted: bool,
    not_before: Instant,
}

impl Gathered {
    /// Asks for it.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Whether it is to be done now.
    pub fn take(&mut self, now: Instant) -> bool {
        let is_due = self.is_wanted && now >= self.not_before;
        if is_due {
            (self.is_wanted, self.not_before) = (false, now + GATHER);
        }
        is_due
    }

    /// When it is to be done, if it was asked for.
    pub fn next(&self) -> Option<Instant> {
        self.is_wanted.then_some(self.not_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wish_is_met_at_once_and_those_that_follow_soon_together() {
        let (mut work, start) = (Gathered::default(), Instant::from_millis(1_000));
        assert!(!work.take(start) && work.next().is_none());
        work.want();
        assert!(work.next().is_some_and(|at| at <= start) && work.take(start));
        let mut done = 0;
        for ms in 1..=1_000 {
            work.want();
            done += u32::from(work.take(start + Duration::from_millis(ms)));
        }
        assert_eq!(done, 10);
    }
}
