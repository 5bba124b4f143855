use crate::sense::sample::PathSample;
use alloc::collections::VecDeque;
use core::ops::RangeInclusive;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant};

/// Maximum number of ranges of packet numbers stored. A report carries the ranges newest first.
pub const MAX_RANGES: usize = 64;
/// Minimum number of successive reports that list each received packet. All but one of them may be lost.
const CARRIED_BY: usize = 4;
/// Minimum interval between reports about one path.
const MIN_SPACING: Duration = Duration::from_millis(1);
/// Number of eliciting packets (packets that ask for a report) that make a report due before its interval ends.
const PACKETS_PER_REPORT: u32 = 32;

/// Receiver's record of the packets that arrived on one path, and the decision when to report them.
///
/// It is the receiver's side of the measurement. It keeps ranges of packet numbers as in QUIC (RFC 9000 §13.2.3). It
/// drops a range once four reports have carried it.
#[derive(Clone, Debug, Default)]
pub struct ReceiveLog {
    /// Ranges of packet numbers received, ascending and with a hole between neighbours; at most [`MAX_RANGES`].
    ranges: VecDeque<(u64, u64)>,
    packets: u64,
    bytes: u64,
    ce: u64,
    /// Counters at the arrival of the largest packet number, and the time of that arrival.
    at_largest: Option<(PathSample, Instant)>,
    /// Lowest packet number received since the last report.
    lowest_new: Option<u64>,
    /// For each of the previous reports, the lowest packet number that arrived between it and the report before.
    lowest_before: [Option<u64>; CARRIED_BY - 1],
    unreported_eliciting: u32,
    first_unreported_eliciting: Option<Instant>,
    gap_appeared: bool,
    last_report_at: Option<Instant>,
    packets_reported: u64,
}

impl ReceiveLog {
    /// Returns an empty log.
    pub fn new() -> ReceiveLog {
        ReceiveLog { ranges: VecDeque::with_capacity(MAX_RANGES + 1), ..ReceiveLog::default() }
    }

    /// Records an authenticated datagram of `bytes` bytes. A repeated packet number is ignored.
    ///
    /// `ce` is true if the datagram carries an ECN CE mark. `eliciting` is true if it asks for a report. Data and
    /// pings do, reports do not.
    pub fn on_datagram(&mut self, now: Instant, packet_number: u64, bytes: u32, ce: bool, eliciting: bool) {
        let gap_before = self.ranges.back().is_some_and(|&(_, last)| packet_number > last + 1);
        if !self.insert(packet_number) {
            return;
        }
        self.packets += 1;
        self.bytes += u64::from(bytes);
        self.ce += u64::from(ce);
        self.lowest_new = Some(self.lowest_new.map_or(packet_number, |low| low.min(packet_number)));
        if self.at_largest.is_none_or(|(r, _)| packet_number > r.largest) {
            let report = PathSample {
                largest: packet_number,
                received_at_us: now.as_micros() as u32,
                held: Duration::ZERO,
                packets_received: self.packets,
                bytes_received: self.bytes,
                ce_received: self.ce,
            };
            self.at_largest = Some((report, now));
        }
        if eliciting {
            self.unreported_eliciting += 1;
            self.first_unreported_eliciting.get_or_insert(now);
            self.gap_appeared |= gap_before;
        }
    }

    /// Returns the time at which the next report is due, or `None` if no eliciting packet waits for one.
    ///
    /// `interval` is the longest time that an eliciting packet may wait for its report. The sender uses the same
    /// value to detect silence. A gap or 32 eliciting packets make the report due at once. `spacing` returns the least
    /// time between two reports; it is at least 1 ms. A packet that is not eliciting never causes a report. Otherwise
    /// two idle nodes would report each other's reports forever.
    pub fn report_due(&self, interval: Duration, spacing: impl FnOnce() -> Duration) -> Option<Instant> {
        let eliciting = self.first_unreported_eliciting?;
        let due = if self.is_pressing() { eliciting } else { eliciting + self.dithered(interval) };
        Some(self.last_report_at.map_or(due, |last| due.max(last + spacing().max(MIN_SPACING))))
    }

    /// True if a report may leave before it is due, with a datagram that leaves anyway.
    ///
    /// A packet waits for the report, and the last report left at least a quarter of `interval` ago. *Tuned*: a quarter
    /// and the dithered interval were compared on 48 slow links. A quarter left fewer reports alone.
    pub fn may_report(&self, now: Instant, interval: Duration) -> bool {
        self.first_unreported_eliciting.is_some() && self.last_report_at.is_none_or(|last| now - last >= interval / 4)
    }

    /// True if a report should leave at once: a packet is missing, or many packets arrived.
    pub fn is_pressing(&self) -> bool {
        self.gap_appeared || self.unreported_eliciting >= PACKETS_PER_REPORT
    }

    /// True if exactly one eliciting packet waits for its report, and the last report left at least `interval` ago.
    ///
    /// A datagram that leaves anyway may then carry the report early. Reports of a busy path keep their spacing.
    pub fn is_alone(&self, now: Instant, interval: Duration) -> bool {
        self.unreported_eliciting == 1 && self.last_report_at.is_some_and(|last| now - last >= interval)
    }

    /// Returns a time between half of `interval` and all of it.
    ///
    /// The number of packets received determines the time, so that the times are spread evenly. Reports at the period
    /// of a link's own scheduler would always sample the same phase of that period.
    fn dithered(&self, interval: Duration) -> Duration {
        let spread = (self.packets_reported as u32).wrapping_mul(0x9e37_79b9) >> 16;
        interval / 2 + interval * spread / 0x2_0000
    }

    /// Returns the fixed part of a report written now; `None` before the first packet.
    ///
    /// [`ReceiveLog::ranges`] returns the rest.
    pub fn report(&self, now: Instant) -> Option<PathSample> {
        self.at_largest.map(|(report, arrived)| PathSample { held: now - arrived, ..report })
    }

    /// Returns the ranges that a report carries, largest first.
    pub fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u64>> + '_ {
        let early = u64::from(planted::is(Fault::ReportRangeEdge));
        self.ranges.iter().rev().map(move |&(first, last)| first.saturating_sub(early)..=last)
    }

    /// Records that the output of [`ReceiveLog::report`] and [`ReceiveLog::ranges`] was sent.
    pub fn on_report_sent(&mut self, now: Instant) {
        let carried = self.lowest_before.iter().copied().chain([self.lowest_new]).flatten().min();
        if let Some(floor) = carried.or(self.at_largest.map(|(r, _)| r.largest)) {
            self.forget_below(floor);
        }
        self.lowest_before.rotate_left(1);
        self.lowest_before[CARRIED_BY - 2] = self.lowest_new.take();
        self.unreported_eliciting = 0;
        self.first_unreported_eliciting = None;
        self.gap_appeared = false;
        self.last_report_at = Some(now);
        self.packets_reported = self.packets;
    }

    fn forget_below(&mut self, floor: u64) {
        while let Some(&(first, last)) = self.ranges.front() {
            if last >= floor {
                if first < floor {
                    self.ranges[0].0 = floor;
                }
                break;
            }
            self.ranges.pop_front();
        }
    }

    /// Adds `n` to the ranges. Returns false if the ranges already contained it.
    fn insert(&mut self, n: u64) -> bool {
        // Search from the back, because nearly every number belongs to the last range.
        let below = self.ranges.iter().rposition(|&(first, _)| first <= n);
        let at = below.map_or(0, |i| i + 1);
        let extends_below = match below.and_then(|i| self.ranges.get(i)) {
            Some(&(_, last)) if last >= n => return false,
            Some(&(_, last)) => last + 1 == n,
            None => false,
        };
        let extends_above = self.ranges.get(at).is_some_and(|&(first, _)| first == n + 1);
        match (extends_below, extends_above) {
            (true, true) => {
                if let Some((_, last)) = self.ranges.remove(at) {
                    self.ranges[at - 1].1 = last;
                }
            }
            (true, false) => self.ranges[at - 1].1 = n,
            (false, true) => self.ranges[at].0 = n,
            (false, false) => {
                self.ranges.insert(at, (n, n));
                if self.ranges.len() > MAX_RANGES {
                    self.ranges.pop_front();
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    const INTERVAL: Duration = Duration::from_millis(10);

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    fn log_of(numbers: &[u64]) -> ReceiveLog {
        let mut log = ReceiveLog::new();
        for &n in numbers {
            log.on_datagram(ms(n), n, 100, false, true);
        }
        log
    }

    #[test]
    fn ranges_merge_whatever_the_order() {
        let log = log_of(&[5, 1, 2, 9, 3, 8, 5, 4]);
        assert_eq!(log.ranges().collect::<Vec<_>>(), vec![8..=9, 1..=5]);
        assert_eq!(log.packets, 7, "the second 5 does not count");
    }

    #[test]
    fn at_most_the_newest_ranges_are_kept() {
        let numbers: Vec<u64> = (0..200).map(|n| n * 2).collect();
        let log = log_of(&numbers);
        assert_eq!(log.ranges().count(), MAX_RANGES);
        assert_eq!(log.ranges().next(), Some(398..=398));
    }

    #[test]
    fn counters_are_those_at_the_largest() {
        let mut log = log_of(&[1, 4]);
        log.on_datagram(ms(7), 2, 100, true, true);
        let report = log.report(ms(9)).unwrap();
        assert_eq!((report.largest, report.packets_received, report.bytes_received), (4, 2, 200));
        assert_eq!((report.received_at_us, report.held), (4_000, Duration::from_millis(5)));
        log.on_datagram(ms(10), 5, 100, false, true);
        let report = log.report(ms(10)).unwrap();
        assert_eq!((report.packets_received, report.ce_received), (4, 1));
    }

    #[test]
    fn a_number_is_in_four_reports_and_then_forgotten() {
        let mut log = log_of(&[1, 2, 3, 10]);
        for i in 0..3 {
            log.on_report_sent(ms(20 + i));
            log.on_datagram(ms(20 + i), 11 + i, 100, false, true);
        }
        assert!(log.ranges().any(|r| r.contains(&1)), "in the fourth report");
        log.on_report_sent(ms(30));
        log.on_report_sent(ms(31));
        assert!(!log.ranges().any(|r| r.contains(&3)));
        assert_eq!(log.ranges().next().map(|r| *r.end()), Some(13));
    }

    #[test]
    fn a_late_arrival_is_reported_as_often() {
        let mut log = log_of(&[1, 2, 100]);
        for i in 0..6 {
            log.on_datagram(ms(100 + i), 101 + i, 100, false, true);
            log.on_report_sent(ms(100 + i));
        }
        log.on_datagram(ms(110), 50, 100, false, true);
        for i in 0..3 {
            assert!(log.ranges().any(|r| r.contains(&50)));
            log.on_report_sent(ms(111 + i));
        }
        assert!(log.ranges().any(|r| r.contains(&50)));
    }

    #[test]
    fn reports_wait_for_the_interval_unless_there_is_news() {
        let mut log = log_of(&[1]);
        assert_eq!(log.report_due(INTERVAL, || Duration::ZERO), Some(ms(6)), "half the interval, at the first");
        log.on_report_sent(ms(11));
        assert_eq!(log.report_due(INTERVAL, || Duration::ZERO), None);
        log.on_datagram(ms(11), 3, 100, false, true);
        assert_eq!(log.report_due(INTERVAL, || Duration::ZERO), Some(ms(12)), "a gap: at once, but spaced");
        log.on_report_sent(ms(12));
        for n in 4..36 {
            log.on_datagram(ms(20), n, 100, false, true);
        }
        assert_eq!(log.report_due(INTERVAL, || Duration::ZERO), Some(ms(20)));
    }

    #[test]
    fn reports_alone_are_not_reported() {
        let mut log = ReceiveLog::new();
        log.on_datagram(ms(1), 1, 60, false, false);
        log.on_datagram(ms(2), 5, 60, false, false);
        assert_eq!(log.report_due(INTERVAL, || Duration::ZERO), None);
        log.on_datagram(ms(3), 6, 60, false, true);
        assert!(log.report_due(INTERVAL, || Duration::ZERO).is_some_and(|due| due > ms(3) && due <= ms(13)));
    }
}
