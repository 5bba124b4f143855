//! Since when an answer is owed.

use alloc::collections::VecDeque;
use weft_units::{Duration, Instant};

/// Marks are at least this far apart: enough to time silence, and few to keep.
const SPACING: Duration = Duration::from_millis(3);

/// Sending times of datagrams that ask for a report and have none yet, thinned out.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    marks: VecDeque<(u64, Instant)>,
}

impl Waiting {
    pub(crate) fn on_sent(&mut self, number: u64, now: Instant) {
        if self.marks.back().is_none_or(|(_, at)| now - *at >= SPACING) {
            self.marks.push_back((number, now));
        }
    }

    /// A report named `largest` as arrived. Numbers below it that are missing are losses, not silence.
    pub(crate) fn on_report(&mut self, largest: u64) {
        while self.marks.front().is_some_and(|(number, _)| *number <= largest) {
            self.marks.pop_front();
        }
    }

    /// When the oldest datagram still unanswered was sent.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.marks.front().map(|(_, at)| *at)
    }

    pub(crate) fn clear(&mut self) {
        self.marks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_the_oldest_unanswered() {
        let mut w = Waiting::default();
        for n in 0..100 {
            w.on_sent(n, Instant::from_millis(n));
        }
        assert_eq!(w.since(), Some(Instant::ZERO));
        w.on_report(50);
        assert_eq!(w.since(), Some(Instant::from_millis(51)));
        w.on_report(99);
        assert_eq!(w.since(), None);
    }
}
