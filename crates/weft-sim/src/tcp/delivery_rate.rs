//! Computes delivery rate samples (draft-cheng-iccrg-delivery-rate-estimation-02) for BBR and TCP-ER.
//!
//! The sender reports each segment that it sends and each segment that is delivered. Each acknowledgment then yields at
//! most one sample. Section numbers in this module refer to the draft.

use super::congestion::RateSample;
use std::collections::VecDeque;
use std::time::Duration;
use weft_units::{Instant, Rate};

/// State of the connection at the time when a segment was sent (the P variables of the draft, §3.1.2).
#[derive(Clone, Copy, Debug)]
struct DeliverySnapshot {
    sent_at: Instant,
    first_sent_at: Instant,
    delivered: u64,
    delivered_at: Instant,
    app_limited: bool,
}

/// Measures the rate at which the sent data is delivered.
///
/// It keeps one snapshot for each segment in the scoreboard, in the same order.
#[derive(Clone, Debug, Default)]
pub(super) struct DeliveryRate {
    snapshots: VecDeque<DeliverySnapshot>,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Number of delivered bytes up to which samples are marked as limited by the application. `None`: no marks.
    app_limited_until: Option<u64>,
    newest: Option<DeliverySnapshot>,
}

impl DeliveryRate {
    fn snapshot(&mut self, now: Instant, idle: bool) -> DeliverySnapshot {
        if idle {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        DeliverySnapshot {
            sent_at: now,
            first_sent_at: self.first_sent_at,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            app_limited: self.app_limited_until.is_some(),
        }
    }

    /// Records that a new segment is sent. `idle` is true if nothing was in flight (draft §3.2).
    pub fn sent(&mut self, now: Instant, idle: bool) {
        let snapshot = self.snapshot(now, idle);
        self.snapshots.push_back(snapshot);
    }

    /// Records that the segment at `index` of the scoreboard is retransmitted.
    pub fn sent_again(&mut self, index: usize, now: Instant, idle: bool) {
        let snapshot = self.snapshot(now, idle);
        if let Some(old) = self.snapshots.get_mut(index) {
            *old = snapshot;
        }
    }

    /// Records that the segment at `index` of the scoreboard was delivered (UpdateRateSample, draft §3.3).
    pub fn delivered(&mut self, index: usize, now: Instant, bytes: u64) {
        self.delivered += bytes;
        self.delivered_at = now;
        let Some(&snapshot) = self.snapshots.get(index) else { return };
        if self.newest.is_none_or(|newest| snapshot.delivered >= newest.delivered) {
            self.newest = Some(snapshot);
            self.first_sent_at = snapshot.sent_at;
        }
    }

    /// Removes the record of the oldest segment, which is now cumulatively acknowledged.
    pub fn pop(&mut self) {
        self.snapshots.pop_front();
    }

    /// Marks samples as limited by the application until the `pipe_bytes` now in flight are delivered (draft §3.4).
    pub fn app_limited(&mut self, pipe_bytes: u64) {
        self.app_limited_until = Some(self.delivered + pipe_bytes);
    }

    /// Returns the sample of the acknowledgment that was processed last (GenerateRateSample, draft §3.3).
    ///
    /// `None` means that the sample covers less time than `min_rtt`, or that nothing was delivered.
    pub fn sample(&mut self, min_rtt: Option<Duration>) -> Option<RateSample> {
        if self.app_limited_until.is_some_and(|until| self.delivered > until) {
            self.app_limited_until = None;
        }
        let newest = self.newest.take()?;
        let sending = newest.sent_at - newest.first_sent_at;
        let acknowledging = self.delivered_at - newest.delivered_at;
        let interval = sending.max(acknowledging);
        if interval.is_zero() || min_rtt.is_some_and(|rtt| interval < rtt) {
            return None;
        }
        Some(RateSample {
            rate: Rate::from_bytes_over(self.delivered - newest.delivered, interval),
            app_limited: newest.app_limited,
            delivered: self.delivered,
            prior_delivered: newest.delivered,
            interval,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn the_rate_is_what_arrived_since_the_segment_left() {
        let mut rate = DeliveryRate::default();
        (0..4).for_each(|n| rate.sent(at(n * 10), n == 0));
        let mut rates = Vec::new();
        for n in 0..4 {
            rate.delivered(0, at(100 + n * 10), 1250);
            rate.pop();
            rates.push(
                rate.sample(Some(Duration::from_millis(100))).map(|s| (s.rate.bps(), s.delivered, s.prior_delivered)),
            );
        }
        assert_eq!(rates[0], Some((100_000, 1250, 0)));
        assert_eq!(rates[3], Some((4 * 1250 * 8 * 1000 / 130, 5000, 0)));
    }

    #[test]
    fn a_burst_of_acknowledgments_does_not_look_fast() {
        let mut rate = DeliveryRate::default();
        (0..10).for_each(|n| rate.sent(at(n * 10), n == 0));
        (0..10).for_each(|n| rate.delivered(n, at(200), 1000));
        let sample = rate.sample(None).expect("ten segments");
        assert_eq!(sample.interval, Duration::from_millis(200));
        assert!(rate.sample(None).is_none());
        assert!(!sample.app_limited);
    }

    #[test]
    fn segments_of_an_idle_application_are_marked() {
        let mut rate = DeliveryRate::default();
        rate.sent(at(0), true);
        rate.app_limited(1000);
        rate.sent(at(5), false);
        rate.delivered(0, at(100), 1000);
        rate.pop();
        assert!(!rate.sample(None).expect("first").app_limited);
        rate.delivered(0, at(105), 1000);
        assert!(rate.sample(None).expect("second").app_limited);
        rate.sent(at(110), true);
        rate.delivered(1, at(200), 1000);
        assert!(!rate.sample(None).expect("third").app_limited);
    }
}
