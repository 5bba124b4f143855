use crate::sense::fate::{Departure, Fate, Place};
use crate::sense::reordering::Reordering;
use crate::sense::sample::{PathSample, Sample};
use alloc::collections::VecDeque;
use core::ops::RangeInclusive;
use weft_units::{Duration, Instant};

/// Minimum time for which a packet declared lost is remembered, in case it was only late.
///
/// The actual time is at least one RTT too.
const LATE_MEMORY: Duration = Duration::from_millis(50);
/// Longest time for which a receiver holds a report on purpose.
const LONGEST_HOLD: Duration = Duration::from_millis(15);

/// One sent packet. The entry is deleted some time after its outcome is known.
#[derive(Clone, Debug)]
struct SentPacketRecord<T> {
    sent_at: Instant,
    bytes: u32,
    place: Place,
    /// Bytes sent on the path up to and including this packet.
    sent_bytes: u64,
    /// Last packet number, up to this one, that left no backlog behind.
    idle_number: Option<u64>,
    state: SentState<T>,
}

impl<T> SentPacketRecord<T> {
    fn departure(&self) -> Departure {
        Departure { at: self.sent_at, place: self.place }
    }
}

#[derive(Clone, Debug)]
enum SentState<T> {
    Outstanding(T),
    Lost,
    /// This packet and all later ones below that number were delivered.
    Delivered(u64),
}

/// The last report that acknowledged a higher packet number than all before. The next sample window starts at it.
#[derive(Clone, Copy, Debug)]
struct ReorderMark {
    report: PathSample,
    sent_at: Instant,
}

#[derive(Clone, Copy, Debug, Default)]
struct Settled {
    delivered_packets: u64,
    delivered_bytes: u64,
    lost_packets: u64,
    lost_bytes: u64,
}

/// Record of the packets sent on one path whose outcome is open: the sender's side of the measurement.
///
/// Packet numbers of a path are contiguous, so the record is a ring. A packet is lost when enough later packets have
/// arrived (RFC 9002 §6.1). That number adapts to the reordering seen on the path (RFC 8985 §6.2).
/// [`SentPackets::detect_lost`] finds the remaining losses by time, at [`SentPackets::next_loss_timeout`]. `T` is the
/// item that the caller gets back with the outcome.
#[derive(Clone, Debug)]
pub struct SentPackets<T> {
    ring: VecDeque<SentPacketRecord<T>>,
    /// Packet number of the ring's first entry.
    first: u64,
    sent_bytes: u64,
    idle_number: Option<u64>,
    in_flight_bytes: u64,
    in_flight_packets: u64,
    mark: Option<ReorderMark>,
    /// Number from which the search for losses starts. No lower number is outstanding.
    settled_below: u64,
    /// Packet number below which losses do not count.
    ///
    /// Those packets went to an address that the peer has left.
    excused_below: u64,
    reordering: Reordering,
    srtt: Duration,
    unsampled: Settled,
    spurious: u64,
}

impl<T> Default for SentPackets<T> {
    fn default() -> SentPackets<T> {
        SentPackets::new()
    }
}

impl<T> SentPackets<T> {
    /// Returns a record without packets.
    pub fn new() -> SentPackets<T> {
        SentPackets {
            ring: VecDeque::new(),
            first: 0,
            sent_bytes: 0,
            idle_number: None,
            in_flight_bytes: 0,
            in_flight_packets: 0,
            mark: None,
            settled_below: 0,
            excused_below: 0,
            reordering: Reordering::default(),
            srtt: Duration::ZERO,
            unsampled: Settled::default(),
            spurious: 0,
        }
    }

    /// Records a sent packet. Returns false, and records nothing, if the number is not the next one.
    ///
    /// The first call sets the first number. `backlogged` is true if more data waited for this path behind the
    /// packet.
    pub fn on_sent(&mut self, number: u64, now: Instant, bytes: u32, backlogged: bool, item: T) -> bool {
        if self.ring.is_empty() && self.sent_bytes == 0 {
            self.first = number;
            self.settled_below = number;
        }
        if number != self.next_number() {
            return false;
        }
        self.sent_bytes += u64::from(bytes);
        self.in_flight_bytes += u64::from(bytes);
        self.in_flight_packets += 1;
        let mut place = Place::Alone;
        if let Some(last) = self.ring.back_mut().filter(|last| last.sent_at == now) {
            last.place = if last.place == Place::Alone { Place::First } else { last.place };
            place = Place::Following;
        }
        self.ring.push_back(SentPacketRecord {
            sent_at: now,
            bytes,
            place,
            sent_bytes: self.sent_bytes,
            idle_number: self.idle_number,
            state: SentState::Outstanding(item),
        });
        if !backlogged {
            self.idle_number = Some(number);
        }
        true
    }

    /// Applies a report to the packets sent. `ranges` are the received numbers, largest first.
    ///
    /// `fate` receives each packet whose outcome became known, and its departure. Returns a sample if the
    /// report moved the largest number. A report that names a number never sent is ignored.
    pub fn on_report(
        &mut self,
        now: Instant,
        report: &PathSample,
        ranges: impl IntoIterator<Item = RangeInclusive<u64>>,
        fate: &mut impl FnMut(T, Fate, Departure),
    ) -> Option<Sample> {
        if report.largest >= self.next_number() {
            return None;
        }
        for range in ranges {
            self.deliver(now, &range, fate);
            if *range.end() < self.first {
                break;
            }
        }
        self.deliver(now, &(report.largest..=report.largest), fate);
        let sample = self.advance(now, report);
        self.detect_lost(now, fate);
        let mut sample = sample?;
        let settled = core::mem::take(&mut self.unsampled);
        sample.delivered_packets = settled.delivered_packets;
        sample.delivered_bytes = settled.delivered_bytes;
        sample.lost_packets = settled.lost_packets;
        sample.lost_bytes = settled.lost_bytes;
        sample.in_flight_bytes = self.in_flight_bytes;
        Some(sample)
    }

    fn deliver(&mut self, now: Instant, range: &RangeInclusive<u64>, fate: &mut impl FnMut(T, Fate, Departure)) {
        let from = (*range.start()).max(self.first);
        let to = (*range.end()).min(self.next_number().saturating_sub(1));
        let mark = self.mark;
        let mut next = from;
        // Reports overlap, so the loop skips ranges already known as delivered (path compression, Tarjan 1975).
        while next <= to {
            let number = next;
            let Some(entry) = self.ring.get_mut((number - self.first) as usize) else { break };
            next = number + 1;
            let departure = entry.departure();
            match core::mem::replace(&mut entry.state, SentState::Delivered(to + 1)) {
                SentState::Delivered(end) => {
                    entry.state = SentState::Delivered(end.max(to + 1));
                    next = end;
                    continue;
                }
                SentState::Lost => self.spurious += 1,
                SentState::Outstanding(item) => {
                    self.in_flight_bytes -= u64::from(entry.bytes);
                    self.in_flight_packets -= 1;
                    self.unsampled.delivered_packets += 1;
                    self.unsampled.delivered_bytes += u64::from(entry.bytes);
                    fate(item, Fate::Delivered, departure);
                }
            }
            if let Some(mark) = mark.filter(|m| m.report.largest > number) {
                self.reordering.on_overtaken(now, mark.report.largest - number, mark.sent_at - entry.sent_at);
            }
        }
    }

    /// Moves the mark to the report's largest number and measures the window since the previous mark.
    fn advance(&mut self, now: Instant, report: &PathSample) -> Option<Sample> {
        let entry = self.entry(report.largest)?;
        let &SentPacketRecord { sent_at, bytes, sent_bytes, idle_number, .. } = entry;
        let previous = self.mark;
        if previous.is_some_and(|m| m.report.largest >= report.largest) {
            return None;
        }
        self.mark = Some(ReorderMark { report: *report, sent_at });
        let elapsed = now - sent_at;
        let rtt = self.round_trip(elapsed, report.held);
        self.srtt = if self.srtt.is_zero() { rtt } else { (self.srtt * 7 + rtt) / 8 };
        let mut sample = Sample {
            rtt,
            one_way_delay_us: report.received_at_us.wrapping_sub(sent_at.as_micros() as u32),
            largest_sent_at: sent_at,
            largest_bytes: bytes,
            received_bytes: 0,
            receive_interval: Duration::ZERO,
            send_interval: Duration::ZERO,
            backlogged: false,
            ce_packets: 0,
            delivered_packets: 0,
            delivered_bytes: 0,
            lost_packets: 0,
            lost_bytes: 0,
            sent_after_bytes: self.sent_bytes - sent_bytes,
            in_flight_bytes: 0,
        };
        if let Some(before) = previous {
            sample.received_bytes = report.bytes_received.saturating_sub(before.report.bytes_received);
            // Reordering can make the receiver's clock seem to step back. The interval is then zero, and the send
            // interval counts.
            let elapsed_us = report.received_at_us.wrapping_sub(before.report.received_at_us) as i32;
            sample.receive_interval = Duration::from_micros(u64::try_from(elapsed_us).unwrap_or(0));
            sample.send_interval = sent_at - before.sent_at;
            sample.backlogged = idle_number.is_none_or(|idle| idle < before.report.largest);
            sample.ce_packets = report.ce_received.saturating_sub(before.report.ce_received);
        }
        Some(sample)
    }

    /// Returns the RTT: the elapsed time minus the time for which the receiver held the report.
    ///
    /// No receiver holds a report for longer than [`LONGEST_HOLD`] on purpose. A longer time means that its clock was
    /// stepped or that it stalled. Such a report yields no RTT below the current SRTT (RFC 9002 §5.3).
    fn round_trip(&self, elapsed: Duration, held: Duration) -> Duration {
        match elapsed.checked_sub(held) {
            Some(rtt) if held <= LONGEST_HOLD => rtt,
            Some(rtt) => rtt.max(self.srtt.min(elapsed)),
            None => elapsed,
        }
    }

    /// Records that the peer has a new address.
    ///
    /// Losses among the packets in flight do not count, and a new window begins.
    pub fn on_moved(&mut self) {
        self.excused_below = self.next_number();
        self.mark = None;
    }

    /// Declares packets lost by the packet threshold or by the time threshold (RFC 9002 §6.1.2).
    pub fn detect_lost(&mut self, now: Instant, fate: &mut impl FnMut(T, Fate, Departure)) {
        self.reordering.on_time(now);
        let Some(mark) = self.mark else { return };
        let patience = self.patience();
        for number in self.settled_below.max(self.first)..mark.report.largest {
            let Some(entry) = self.ring.get_mut((number - self.first) as usize) else { break };
            if matches!(entry.state, SentState::Outstanding(_)) {
                let overtaken_by = mark.report.largest - number;
                let overtaken_for = mark.sent_at - entry.sent_at;
                if self.reordering.is_lost(overtaken_by, overtaken_for, self.srtt) || now >= entry.sent_at + patience {
                    if let SentState::Outstanding(item) = core::mem::replace(&mut entry.state, SentState::Lost) {
                        self.in_flight_bytes -= u64::from(entry.bytes);
                        self.in_flight_packets -= 1;
                        if number >= self.excused_below {
                            self.unsampled.lost_packets += 1;
                            self.unsampled.lost_bytes += u64::from(entry.bytes);
                        }
                        fate(item, Fate::Lost, entry.departure());
                    }
                } else {
                    // Later packets were overtaken by fewer packets, so none of them is lost.
                    break;
                }
            }
            self.settled_below = number + 1;
        }
        self.forget(now);
    }

    /// Returns the time after sending at which an overtaken packet is lost.
    ///
    /// The number of packets that overtook it does not matter. The time is one RTT, two report intervals, and the
    /// reordering seen.
    fn patience(&self) -> Duration {
        let report_interval = (self.srtt / 4).clamp(Duration::from_millis(1), Duration::from_millis(25));
        self.srtt + report_interval * 2 + self.reordering.time().min(self.srtt)
    }

    fn forget(&mut self, now: Instant) {
        let late = self.srtt.max(LATE_MEMORY) + self.patience();
        while let Some(entry) = self.ring.front() {
            match entry.state {
                SentState::Outstanding(_) => break,
                SentState::Lost if now - entry.sent_at < late => break,
                _ => {}
            }
            self.ring.pop_front();
            self.first += 1;
        }
    }

    /// Calls `visit` for each packet whose outcome is open, oldest first.
    pub fn for_each_outstanding(&self, mut visit: impl FnMut(&T)) {
        for entry in &self.ring {
            if let SentState::Outstanding(item) = &entry.state {
                visit(item);
            }
        }
    }

    /// Returns the time at which [`SentPackets::detect_lost`] may find a loss without a further report.
    pub fn next_loss_timeout(&self) -> Option<Instant> {
        let largest = self.mark?.report.largest;
        let oldest = self.oldest_outstanding().filter(|&(number, _)| number < largest)?;
        Some(oldest.1 + self.patience())
    }

    fn oldest_outstanding(&self) -> Option<(u64, Instant)> {
        let from = self.settled_below.max(self.first);
        let skip = (from - self.first) as usize;
        self.ring
            .iter()
            .enumerate()
            .skip(skip)
            .find(|(_, e)| matches!(e.state, SentState::Outstanding(_)))
            .map(|(i, e)| (self.first + i as u64, e.sent_at))
    }

    /// Returns the time at which the first packet after the largest reported one was sent.
    ///
    /// The path has been silent since then.
    pub fn oldest_unreported_sent_at(&self) -> Option<Instant> {
        let from = self.mark.map_or(self.first, |m| m.report.largest + 1);
        self.entry(from.max(self.first)).map(|e| e.sent_at)
    }

    /// Declares everything outstanding lost, because the path failed.
    pub fn drain(&mut self, mut fate: impl FnMut(T, Fate, Departure)) {
        for entry in self.ring.drain(..) {
            let departure = entry.departure();
            if let SentState::Outstanding(item) = entry.state {
                fate(item, Fate::Lost, departure);
            }
            self.first += 1;
        }
        self.settled_below = self.first;
        self.in_flight_bytes = 0;
        self.in_flight_packets = 0;
        self.unsampled = Settled::default();
        self.mark = None;
    }

    fn entry(&self, number: u64) -> Option<&SentPacketRecord<T>> {
        let index = number.checked_sub(self.first)?;
        self.ring.get(usize::try_from(index).ok()?)
    }

    /// Packet number that the next packet must have.
    pub fn next_number(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    /// Bytes in flight: sent, but neither reported nor declared lost.
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// Packets in flight: sent, but neither reported nor declared lost.
    pub fn in_flight_packets(&self) -> u64 {
        self.in_flight_packets
    }

    /// Number of packets that were declared lost and arrived later.
    pub fn spurious_losses(&self) -> u64 {
        self.spurious
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    type FoundFates = Vec<(u64, Fate)>;

    #[test]
    fn packets_that_leave_at_once_have_places() {
        let mut sent = SentPackets::new();
        for (number, at) in [(0, 1), (1, 2), (2, 2), (3, 2), (4, 3)] {
            assert!(sent.on_sent(number, ms(at), 1000, true, number));
        }
        let mut places = Vec::new();
        sent.drain(|_, _, departure| places.push(departure.place));
        assert_eq!(places, [Place::Alone, Place::First, Place::Following, Place::Following, Place::Alone]);
    }

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    /// Returns a record of packets 0..n of 1000 bytes, sent 1 ms apart.
    fn sent_packets_of(n: u64) -> SentPackets<u64> {
        let mut sent = SentPackets::new();
        for i in 0..n {
            assert!(sent.on_sent(i, ms(i), 1000, true, i));
        }
        sent
    }

    /// Returns a report that the receiver, 10 ms away, wrote as soon as `largest` arrived.
    fn report(largest: u64, packets: u64) -> PathSample {
        PathSample {
            largest,
            received_at_us: (largest as u32 + 10) * 1000,
            held: Duration::from_millis(2),
            packets_received: packets,
            bytes_received: packets * 1000,
            ce_received: 0,
        }
    }

    fn hear(
        sent: &mut SentPackets<u64>,
        now: u64,
        r: PathSample,
        ranges: &[RangeInclusive<u64>],
    ) -> (Option<Sample>, FoundFates) {
        let mut fates = vec![];
        let sample = sent.on_report(ms(now), &r, ranges.iter().cloned(), &mut |item, fate, _| fates.push((item, fate)));
        (sample, fates)
    }

    #[test]
    fn two_reports_make_a_delivery_rate() {
        let mut sent = sent_packets_of(30);
        hear(&mut sent, 31, report(9, 10), &[0..=9]);
        let (sample, fates) = hear(&mut sent, 41, report(19, 20), &[0..=19]);
        let sample = sample.unwrap();
        assert_eq!(sample.delivery_rate().unwrap().bps(), 8_000_000);
        assert_eq!(sample.rtt, Duration::from_millis(20));
        assert_eq!(sample.one_way_delay_us, 10_000);
        assert_eq!((sample.sent_after_bytes, sample.in_flight_bytes), (10_000, 10_000));
        assert!(sample.backlogged);
        assert_eq!(fates.len(), 10);
        assert!(fates.iter().all(|f| f.1 == Fate::Delivered));
    }

    #[test]
    fn a_clock_stepped_while_a_report_was_held_shows_no_shorter_round_trip() {
        let mut sent = sent_packets_of(20);
        assert_eq!(hear(&mut sent, 29, report(9, 10), &[0..=9]).0.unwrap().rtt, Duration::from_millis(18));
        let stepped = PathSample { held: Duration::from_millis(16), ..report(19, 20) };
        assert_eq!(hear(&mut sent, 40, stepped, &[0..=19]).0.unwrap().rtt, Duration::from_millis(18));
    }

    #[test]
    fn a_report_held_for_longer_than_it_took_shows_no_round_trip_of_zero() {
        let mut sent = sent_packets_of(10);
        let stepped = PathSample { held: Duration::from_secs(1), ..report(9, 10) };
        assert_eq!(hear(&mut sent, 31, stepped, &[0..=9]).0.unwrap().rtt, Duration::from_millis(22));
    }

    #[test]
    fn one_packet_sent_without_a_backlog_spoils_its_window_only() {
        let mut sent = SentPackets::new();
        for i in 0..30 {
            sent.on_sent(i, ms(i), 1000, i != 12, i);
        }
        hear(&mut sent, 31, report(9, 10), &[0..=9]);
        assert!(!hear(&mut sent, 41, report(19, 20), &[0..=19]).0.unwrap().backlogged);
        assert!(hear(&mut sent, 51, report(29, 30), &[0..=29]).0.unwrap().backlogged);
    }

    #[test]
    fn the_gap_after_the_last_packet_of_a_burst_is_no_window_of_the_paths() {
        let mut sent = SentPackets::new();
        for i in 0..20 {
            let pause = if i < 10 { 0 } else { 300 };
            sent.on_sent(i, ms(i + pause), 1000, i % 10 != 9, i);
        }
        hear(&mut sent, 15, report(4, 5), &[0..=4]);
        assert!(hear(&mut sent, 20, report(9, 10), &[0..=9]).0.unwrap().backlogged);
        assert!(!hear(&mut sent, 320, report(14, 15), &[0..=14]).0.unwrap().backlogged);
    }

    #[test]
    fn three_packets_beyond_a_hole_make_a_loss() {
        let mut sent = sent_packets_of(20);
        let (_, fates) = hear(&mut sent, 31, report(6, 6), &[5..=6, 0..=3]);
        assert!(!fates.contains(&(4, Fate::Lost)));
        let (sample, fates) = hear(&mut sent, 32, report(7, 7), &[5..=7, 0..=3]);
        assert_eq!(fates, [(7, Fate::Delivered), (4, Fate::Lost)]);
        assert_eq!(sample.unwrap().lost_bytes, 1000);
        assert_eq!(sent.in_flight_packets(), 12);
    }

    #[test]
    fn a_late_arrival_widens_the_reordering_window() {
        let mut sent = sent_packets_of(60);
        hear(&mut sent, 40, report(12, 12), &[5..=12, 0..=3]);
        hear(&mut sent, 41, report(13, 14), &[0..=13]);
        assert_eq!(sent.spurious_losses(), 1);
        let (_, fates) = hear(&mut sent, 50, report(25, 24), &[21..=25, 0..=19]);
        assert!(!fates.contains(&(20, Fate::Lost)), "five packets are no longer enough");
        let (_, fates) = hear(&mut sent, 60, report(35, 34), &[21..=35, 0..=19]);
        assert!(fates.contains(&(20, Fate::Lost)));
    }

    #[test]
    fn a_hole_near_the_end_is_lost_by_time() {
        let mut sent = sent_packets_of(5);
        hear(&mut sent, 26, report(4, 4), &[4..=4, 0..=2]);
        let due = sent.next_loss_timeout().unwrap();
        let mut fates = vec![];
        sent.detect_lost(due.before(Duration::from_micros(1)), &mut |i, f, _| fates.push((i, f)));
        assert!(fates.is_empty());
        sent.detect_lost(due, &mut |i, f, _| fates.push((i, f)));
        assert_eq!(fates, [(3, Fate::Lost)]);
        assert_eq!(sent.next_loss_timeout(), None);
    }

    #[test]
    fn nonsense_from_the_peer_changes_nothing() {
        let mut sent = sent_packets_of(5);
        assert!(hear(&mut sent, 30, report(5, 5), &[0..=5]).0.is_none());
        assert_eq!(sent.in_flight_packets(), 5);
        #[allow(clippy::reversed_empty_ranges)]
        let (sample, fates) = hear(&mut sent, 30, report(2, 3), &[7..=u64::MAX, 9..=3, 2..=2]);
        assert!(sample.is_some());
        assert_eq!(fates, [(2, Fate::Delivered)]);
        assert!(hear(&mut sent, 31, report(1, 2), &[]).0.is_none(), "an old report gives no sample");
    }

    #[test]
    fn a_gap_in_the_numbers_is_refused() {
        let mut sent = sent_packets_of(3);
        assert!(!sent.on_sent(4, ms(4), 1000, true, 4));
        assert_eq!(sent.next_number(), 3);
    }

    #[test]
    fn silence_is_counted_from_the_first_unreported_packet() {
        let mut sent = sent_packets_of(10);
        assert_eq!(sent.oldest_unreported_sent_at(), Some(ms(0)));
        hear(&mut sent, 30, report(6, 6), &[5..=6, 0..=3]);
        assert_eq!(sent.oldest_unreported_sent_at(), Some(ms(7)));
        hear(&mut sent, 31, report(9, 10), &[0..=9]);
        assert_eq!(sent.oldest_unreported_sent_at(), None);
    }

    #[test]
    fn a_dead_path_gives_everything_back_and_can_live_again() {
        let mut sent = sent_packets_of(10);
        hear(&mut sent, 30, report(6, 7), &[0..=6]);
        let mut given_up = vec![];
        sent.drain(|i, f, _| given_up.push((i, f)));
        assert_eq!(given_up, [(7, Fate::Lost), (8, Fate::Lost), (9, Fate::Lost)]);
        assert_eq!(sent.in_flight_bytes(), 0);
        assert!(sent.on_sent(10, ms(50), 1000, true, 10));
        let (sample, fates) = hear(&mut sent, 80, report(10, 11), &[0..=10]);
        assert_eq!(fates, [(10, Fate::Delivered)]);
        assert!(sample.is_some());
    }

    #[test]
    fn the_book_forgets_what_is_settled() {
        let mut sent = SentPackets::new();
        for i in 0..10_000u64 {
            sent.on_sent(i, ms(i), 1000, true, i);
            if i >= 20 {
                hear(&mut sent, i, report(i - 20, i - 19), &[0..=i - 20]);
            }
        }
        assert!(sent.ring.len() <= 21);
    }
}
