use super::Losses;
use super::marker::{LoopReport, Marker, is_after};
use super::round_trip::RoundTrip;
use weft_units::{Duration, Instant};

/// Upper limit of the time-out, which doubles with each unanswered marker.
///
/// One marker a second is a small load (RFC 6298 §2.4). If half of the markers are lost and the time-out doubles
/// without a limit, the mean time until an answer is infinite.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(1);
/// Weight of a new value in the moving average of the delivery rate, which thus covers about four round trips.
const RATE_GAIN: f64 = 0.25;

/// Counters of one loop at its ingress edge: packets sent, packets settled (received or lost), and reports.
///
/// All counts are cumulative. A report thus contains the information of all earlier ones that were lost. A report on a
/// marker settles everything that was sent before the marker. *sent = received + lost + in flight* always holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ledger {
    pub rtt: RoundTrip,
    sent_packets: u32,
    sent_bytes: u32,
    settled_packets: u32,
    settled_bytes: u32,
    marked_packets: u32,
    marked_at: Instant,
    sequence: u32,
    reported: u32,
    /// Number of markers after the last answered one whose reports give no RTT sample.
    ///
    /// They were in flight when an RTT sample was so large that it had to be limited. A pause of the machine makes the
    /// samples of all markers in flight larger, and only the first of these samples is used.
    unsampled: u32,
    lost_packets: u32,
    ce_packets: u32,
    round: LedgerRound,
    delivered_bps: f64,
    sent_at: Instant,
    progress_at: Instant,
    backoff: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct LedgerRound {
    received_bytes: u32,
    received_at_us: u32,
    started: bool,
}

/// Information that the ingress derives from one report.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportDelta {
    /// Number of the marker that the report answers.
    pub sequence: u32,
    /// Bytes that the report newly settles: they are known to be received or lost.
    pub settled_bytes: u32,
    /// Number of packets newly found lost.
    pub lost_packets: u32,
    /// Number of packets newly known to have arrived with a CE mark.
    pub ce_packets: u32,
    /// Time from the marker's departure until now, minus the time for which the egress held the report.
    pub round_trip: Duration,
    /// Arrival minus departure of the marker in microseconds, modulo 2^32.
    ///
    /// The explained delay of the marker ([`Marker::explained_us`]) is subtracted. The two times are of different
    /// clocks, so only differences between such delays have a meaning.
    pub one_way_delay_us: u32,
}

impl Ledger {
    /// Bytes in flight: sent, but not yet reported as received or lost.
    pub fn in_flight(&self) -> u32 {
        self.sent_bytes.wrapping_sub(self.settled_bytes)
    }

    /// Number of packets sent since the last marker.
    pub fn unmarked_packets(&self) -> u32 {
        self.sent_packets.wrapping_sub(self.marked_packets)
    }

    /// Number of packets found lost since the start, modulo 2^32.
    pub fn lost_packets(&self) -> u32 {
        self.lost_packets
    }

    /// Number of packets reported as received or lost since the start, modulo 2^32.
    pub fn settled_packets(&self) -> u32 {
        self.settled_packets
    }

    /// Number of the last marker.
    pub fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Number of packets sent since the start, modulo 2^32.
    pub fn sent_packets(&self) -> u32 {
        self.sent_packets
    }

    /// Bytes sent since the start, modulo 2^32.
    pub fn sent_bytes(&self) -> u32 {
        self.sent_bytes
    }

    pub fn marked_at(&self) -> Instant {
        self.marked_at
    }

    /// Recent delivery rate in bits per second.
    pub fn delivered_bps(&self) -> f64 {
        self.delivered_bps
    }

    /// Time since the last packet was sent, or zero if data is in flight.
    pub fn idle(&self, now: Instant) -> Duration {
        if self.in_flight() > 0 || self.sent_packets == 0 { Duration::ZERO } else { now - self.sent_at }
    }

    pub fn on_sent(&mut self, now: Instant, bytes: u32) {
        if self.in_flight() == 0 {
            self.progress_at = now;
        }
        self.sent_packets = self.sent_packets.wrapping_add(1);
        self.sent_bytes = self.sent_bytes.wrapping_add(bytes);
        self.sent_at = now;
    }

    /// Returns the next marker, which states the packets and bytes sent so far.
    ///
    /// With `is_pressing` the marker must not wait for other frames.
    pub fn mark(&mut self, now: Instant, is_pressing: bool) -> Marker {
        self.sequence = self.sequence.wrapping_add(1);
        self.marked_packets = self.sent_packets;
        self.marked_at = now;
        Marker {
            sequence: self.sequence,
            sent_at_us: now.as_micros() as u32,
            packets: self.sent_packets,
            bytes: self.sent_bytes,
            explained_us: 0,
            is_pressing,
            counting: None,
        }
    }

    /// Applies a report. Returns `None` if it is old, or answers no marker of this loop.
    pub fn on_report(&mut self, now: Instant, report: &LoopReport, losses: Losses) -> Option<ReportDelta> {
        let marker = &report.marker;
        let newer = is_after(marker.sequence, self.reported) && !is_after(marker.sequence, self.sequence);
        let settled_bytes = marker.bytes.wrapping_sub(self.settled_bytes);
        let settled_packets = marker.packets.wrapping_sub(self.settled_packets);
        let in_flight_packets = self.sent_packets.wrapping_sub(self.settled_packets);
        if !newer || settled_bytes > self.in_flight() || settled_packets > in_flight_packets {
            return None;
        }
        let markers = marker.sequence.wrapping_sub(self.reported);
        self.reported = marker.sequence;
        self.settled_bytes = marker.bytes;
        self.settled_packets = marker.packets;
        self.progress_at = now;
        self.backoff = 0;
        let out_us = (now.as_micros() as u32).wrapping_sub(marker.sent_at_us);
        let round_trip = Duration::from_micros(out_us.saturating_sub(report.held_us).into());
        let is_sampled = markers > self.unsampled;
        self.unsampled = self.unsampled.saturating_sub(markers);
        if is_sampled && self.rtt.on_sample(now, round_trip) {
            self.unsampled = self.sequence.wrapping_sub(self.reported);
        }
        self.measure_rate(report);
        let ce_packets = report.ce_packets.wrapping_sub(self.ce_packets);
        self.ce_packets = report.ce_packets;
        let missing = marker.packets.wrapping_sub(report.packets);
        let one_way_delay_us = report.received_at_us.wrapping_sub(marker.sent_at_us);
        Some(ReportDelta {
            sequence: marker.sequence,
            settled_bytes,
            lost_packets: if losses == Losses::Counted { self.find_lost(missing) } else { 0 },
            ce_packets: ce_packets.min(settled_packets),
            round_trip,
            one_way_delay_us: one_way_delay_us.wrapping_sub(marker.explained_us),
        })
    }

    /// Returns the number of newly lost packets.
    ///
    /// `missing` is the number of packets that were sent before a marker and have not arrived. If it is lower than the
    /// number found lost before, packets arrived late, or an edge restarted.
    fn find_lost(&mut self, missing: u32) -> u32 {
        let lost = if is_after(missing, self.lost_packets) { missing.wrapping_sub(self.lost_packets) } else { 0 };
        self.lost_packets = missing;
        lost
    }

    /// Records packets that the lower layers report as lost.
    pub fn on_lost(&mut self, packets: u32) {
        self.lost_packets = self.lost_packets.wrapping_add(packets);
    }

    fn measure_rate(&mut self, report: &LoopReport) {
        let over_us = report.received_at_us.wrapping_sub(self.round.received_at_us);
        if self.round.started && u128::from(over_us) < self.rtt.smoothed().as_micros() {
            return;
        }
        let bits = f64::from(report.bytes.wrapping_sub(self.round.received_bytes)) * 8.0;
        if self.round.started {
            let bps = bits * 1e6 / f64::from(over_us.max(1));
            self.delivered_bps += (bps - self.delivered_bps) * RATE_GAIN;
        }
        self.round = LedgerRound { received_bytes: report.bytes, received_at_us: report.received_at_us, started: true };
    }

    /// Returns the time at which a marker must be sent by itself; `None` if no data is in flight.
    ///
    /// It is one time-out after the last report. If `patience` is not zero, it is one time-out plus `patience` after
    /// the last report or the last marker, whichever is later.
    pub fn deadline(&self, patience: Duration) -> Option<Instant> {
        let first = self.rtt.timeout();
        let timeout = (first * (1 << self.backoff)).min(LONGEST_TIMEOUT.max(first));
        let since = if patience.is_zero() { self.progress_at } else { self.progress_at.max(self.marked_at) };
        (self.in_flight() > 0).then(|| since + timeout + patience)
    }

    /// Once the deadline has passed, returns a marker to send, and true if an earlier marker was not answered.
    ///
    /// With `is_pressing` the marker must not wait for other frames.
    pub fn on_deadline(&mut self, now: Instant, patience: Duration, is_pressing: bool) -> Option<(Marker, bool)> {
        if self.deadline(patience).is_none_or(|deadline| now < deadline) {
            return None;
        }
        let unanswered = self.reported != self.sequence;
        self.progress_at = now;
        if unanswered {
            self.backoff = (self.backoff + 1).min(8);
        }
        Some((self.mark(now, is_pressing || unanswered), unanswered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_loop::LoopEgress;
    use alloc::vec::Vec;

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Sends `n` packets of 1,000 bytes with a marker on the last.
    ///
    /// The egress receives all but `lose` of them.
    fn send(ledger: &mut Ledger, egress: &mut LoopEgress, at: Instant, n: u32, lose: u32) -> Option<LoopReport> {
        for i in 0..n {
            ledger.on_sent(at, 1_000);
            if i >= lose {
                egress.on_packet(1_000, false);
            }
        }
        egress.on_marker(at, ledger.mark(at, true))
    }

    #[test]
    fn a_report_settles_everything_before_its_marker() {
        let (mut ledger, mut egress) = (Ledger::default(), LoopEgress::default());
        let lost_report = send(&mut ledger, &mut egress, ms(0), 4, 1);
        let report = send(&mut ledger, &mut egress, ms(10), 4, 1).unwrap_or_default();
        assert!(lost_report.is_some());
        assert_eq!(ledger.in_flight(), 8_000);
        let news = ledger.on_report(ms(50), &report, Losses::Counted).map(|n| (n.settled_bytes, n.lost_packets));
        assert_eq!(news, Some((8_000, 2)));
        assert_eq!((ledger.in_flight(), ledger.rtt.smoothed()), (0, Duration::from_millis(40)));
        assert!(ledger.on_report(ms(60), &report, Losses::Counted).is_none(), "the same report again");
        assert_eq!(ledger.deadline(Duration::ZERO), None);
    }

    #[test]
    fn late_packets_are_not_lost() {
        let (mut ledger, mut egress) = (Ledger::default(), LoopEgress::default());
        let lost = |ledger: &mut Ledger, at, report: Option<LoopReport>| {
            report.and_then(|r| ledger.on_report(at, &r, Losses::Counted)).map_or(0, |n| n.lost_packets)
        };
        let first = send(&mut ledger, &mut egress, ms(0), 4, 2);
        assert_eq!(lost(&mut ledger, ms(10), first), 2);
        egress.on_packet(1_000, false);
        let second = send(&mut ledger, &mut egress, ms(20), 4, 0);
        assert_eq!((lost(&mut ledger, ms(30), second), ledger.lost_packets()), (0, 1), "one came after all");
        let third = send(&mut ledger, &mut egress, ms(40), 4, 1);
        assert_eq!((lost(&mut ledger, ms(50), third), ledger.lost_packets()), (1, 2));
    }

    #[test]
    fn where_losses_are_reported_what_is_missing_is_none_and_what_is_explained_is_no_delay() {
        let (mut ledger, mut egress) = (Ledger::default(), LoopEgress::default());
        send(&mut ledger, &mut egress, ms(0), 4, 2);
        let marker = Marker { explained_us: 30_000, ..ledger.mark(ms(1), true) };
        let report = egress.on_marker(ms(41), marker).unwrap_or_default();
        let news = ledger.on_report(ms(50), &report, Losses::Told);
        let news = news.map(|n| (n.settled_bytes, n.lost_packets, n.one_way_delay_us, n.round_trip));
        assert_eq!(news, Some((4_000, 0, 10_000, Duration::from_millis(49))));
        ledger.on_lost(2);
        assert_eq!((ledger.lost_packets(), ledger.in_flight()), (2, 0));
    }

    /// The RTT samples of all markers in flight are too long when a clock jumps, whether there are 1 or 100 markers.
    ///
    /// Together they change the time-out only as one long sample does. Later samples are used again.
    #[test]
    fn a_pause_counts_once_however_many_markers_were_in_flight() {
        let mut rng = weft_units::Rng::new(7);
        for _ in 0..500 {
            let (mut ledger, mut egress) =
                (Ledger { sequence: u32::MAX - 30, ..Ledger::default() }, LoopEgress::default());
            ledger.reported = ledger.sequence;
            let (usual, in_flight) = (1 + rng.below(200), 1 + rng.below(100));
            let mut answer = |ledger: &mut Ledger, sent: &[u64], at: u64| {
                let reports: Vec<_> = sent.iter().map(|at| send(ledger, &mut egress, ms(*at), 1, 0)).collect();
                for report in reports.into_iter().flatten() {
                    assert!(ledger.on_report(ms(at), &report, Losses::Counted).is_some());
                }
            };
            for round in 0..50 {
                answer(&mut ledger, &[round * usual], (round + 1) * usual);
            }
            let (begin, jump) = (50 * usual, rng.below(60_000));
            let times: Vec<_> = (0..in_flight).map(|marker| begin + marker * usual / in_flight).collect();
            answer(&mut ledger, &times, begin + usual + jump);
            let largest_sample = Duration::from_millis(usual * 8).max(Duration::from_secs(1));
            assert!(
                ledger.rtt.timeout() <= largest_sample * 3,
                "{usual} ms, {in_flight} in flight, {jump} ms: {:?}",
                ledger.rtt
            );

            let begin = begin + usual + jump;
            for round in 0..50 {
                answer(&mut ledger, &[begin + round * usual], begin + (round + 1) * usual);
            }
            assert!(ledger.rtt.smoothed() <= Duration::from_millis(usual + 2), "{usual} ms: {:?}", ledger.rtt);
        }
    }

    #[test]
    fn reports_that_answer_no_marker_of_ours_change_nothing() {
        let (mut ledger, mut egress) = (Ledger::default(), LoopEgress::default());
        let report = send(&mut ledger, &mut egress, ms(0), 4, 0).unwrap_or_default();
        let forged = |f: fn(&mut Marker)| {
            let mut forged = report;
            f(&mut forged.marker);
            forged
        };
        for bad in [
            forged(|m| m.sequence = 9),
            forged(|m| m.bytes = 4_001),
            forged(|m| m.packets = 5),
            forged(|m| m.sequence = 0),
        ] {
            assert!(ledger.on_report(ms(5), &bad, Losses::Counted).is_none());
        }
        assert_eq!(ledger.in_flight(), 4_000);
    }

    #[test]
    fn silence_is_asked_about_ever_more_rarely() {
        let mut ledger = Ledger::default();
        ledger.on_sent(ms(0), 1_000);
        assert_eq!(ledger.deadline(Duration::ZERO), Some(ms(300)));
        assert_eq!(
            ledger.on_deadline(ms(300), Duration::ZERO, true).map(|(_, unanswered)| unanswered),
            Some(false),
            "no marker was out"
        );
        assert_eq!(
            ledger.on_deadline(ms(600), Duration::ZERO, true).map(|(m, unanswered)| (m.packets, unanswered)),
            Some((1, true))
        );
        assert_eq!(ledger.deadline(Duration::ZERO), Some(ms(1_200)));
        assert!(ledger.on_deadline(ms(1_199), Duration::ZERO, true).is_none());
    }
}
