//! The loss-based rival of the path's sender.

use super::{Event, Queued, World};
use weft_units::Instant;

/// The textbook Reno flow.
pub(super) struct Reno {
    window: f64,
    threshold: f64,
    next: u64,
    in_flight: u64,
    recover: u64,
}

impl Default for Reno {
    fn default() -> Reno {
        Reno { window: 10.0, threshold: f64::MAX, next: 0, in_flight: 0, recover: 0 }
    }
}

impl World<'_> {
    pub(super) fn rival_send(&mut self, now: Instant) {
        let active = self.link.rival.as_ref().is_some_and(|span| span.contains(&(now - Instant::ZERO)));
        while active && (self.rival.in_flight as f64) < self.rival.window {
            let number = self.rival.next;
            self.rival.next += 1;
            self.rival.in_flight += 1;
            if !self.enqueue(now, Queued { number, ours: false, entered: now }) {
                if self.rival.in_flight == 0 {
                    self.schedule(now + self.link.rtt, Event::RivalStart);
                }
                return;
            }
        }
    }

    pub(super) fn rival_lost(&mut self, number: u64) {
        let rival = &mut self.rival;
        rival.in_flight -= 1;
        if number >= rival.recover {
            rival.window = (rival.window / 2.0).max(2.0);
            rival.threshold = rival.window;
            rival.recover = rival.next;
        }
    }

    pub(super) fn rival_ack(&mut self, now: Instant) {
        let rival = &mut self.rival;
        rival.in_flight -= 1;
        rival.window += if rival.window < rival.threshold { 1.0 } else { 1.0 / rival.window };
        self.rival_send(now);
    }
}
