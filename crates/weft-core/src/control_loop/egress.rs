use super::intervals::EgressIntervals;
use super::marker::{LoopReport, Marker, is_after};
use alloc::boxed::Box;
use core::num::NonZeroU32;
use weft_units::Instant;

/// The part of a loop at the egress edge. It counts packets and answers markers.
///
/// It is the same under every control law. It makes no decisions and has no timer.
#[derive(Clone, Debug, Default)]
pub struct LoopEgress {
    packets: u32,
    bytes: u32,
    ce_packets: u32,
    /// Number of the newest marker. Number zero, which occurs only after 2^32 markers, is stored as one.
    newest: Option<NonZeroU32>,
    /// Byte counts over fixed intervals; `None` until a marker requests them.
    intervals: Option<Box<EgressIntervals>>,
}

impl LoopEgress {
    /// Returns an egress for a loop whose first marker states that `packets` and `bytes` were sent before it.
    ///
    /// The egress assumes that it has received all of these packets, because it has no record of them.
    pub fn counted(packets: u32, bytes: u32) -> LoopEgress {
        LoopEgress { packets, bytes, ..LoopEgress::default() }
    }

    /// Ends the counting intervals whose time is over. Call this before a packet that arrives at `now` is counted.
    pub fn on_time(&mut self, now: Instant) {
        if let Some(intervals) = &mut self.intervals {
            intervals.on_time(now, self.bytes);
        }
    }

    /// Counts a packet that arrived for the first time. `ce` is true if it arrived with a CE mark.
    ///
    /// The caller must drop duplicates.
    pub fn on_packet(&mut self, bytes: u32, ce: bool) {
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(bytes);
        self.ce_packets = self.ce_packets.wrapping_add(u32::from(ce));
    }

    /// Returns the report that answers a marker, or `None` if a newer marker arrived before.
    ///
    /// Call this after the packet that carried the marker was counted. The caller adds the time until the report
    /// leaves to [`LoopReport::held_us`].
    pub fn on_marker(&mut self, now: Instant, marker: Marker) -> Option<LoopReport> {
        if self.newest.is_some_and(|newest| !is_after(marker.sequence, newest.get())) {
            return None;
        }
        self.newest = NonZeroU32::new(marker.sequence.max(1));
        self.on_time(now);
        if let Some(counting) = marker.counting.filter(|counting| counting.restarts) {
            let begun = EgressIntervals::begin(now, counting, marker.sequence, self.bytes);
            match &mut self.intervals {
                Some(intervals) => **intervals = begun,
                None => self.intervals = Some(Box::new(begun)),
            }
        }
        Some(LoopReport {
            marker,
            received_at_us: now.as_micros() as u32,
            held_us: 0,
            packets: self.packets,
            bytes: self.bytes,
            ce_packets: self.ce_packets,
            count: self.intervals.as_ref().filter(|_| marker.counting.is_some()).map(|intervals| intervals.count()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_the_marker_and_the_counts() {
        let mut egress = LoopEgress::default();
        egress.on_packet(1_000, false);
        egress.on_packet(500, true);
        let marker = Marker { sequence: 1, sent_at_us: 70, packets: 3, bytes: 2_500, ..Marker::default() };
        let report = egress.on_marker(Instant::from_micros((1 << 32) + 5), marker);
        let counts =
            LoopReport { marker, received_at_us: 5, held_us: 0, packets: 2, bytes: 1_500, ce_packets: 1, count: None };
        assert_eq!(report, Some(counts));
        assert_eq!(egress.on_marker(Instant::ZERO, marker), None, "the same marker again");
    }

    #[test]
    fn an_overtaken_marker_is_not_answered_and_numbers_wrap() {
        let mut egress = LoopEgress::default();
        let marker = |sequence| Marker { sequence, ..Marker::default() };
        assert!(egress.on_marker(Instant::ZERO, marker(u32::MAX)).is_some());
        assert!(egress.on_marker(Instant::ZERO, marker(1)).is_some());
        assert!(egress.on_marker(Instant::ZERO, marker(0)).is_none());
    }
}
