use crate::sense::fate::{Departure, Fate, Place};
use crate::sense::reordering::Reordering;
use crate::sense::sample::{PathSample, Sample};
use alloc::collections::VecDeque;
use core::ops::RangeInclusive;
use weft_units::{Duration, Instant};

/// Minimum time for which a packet declared lost stays in the record, in case it arrives late.
///
/// It stays there for at least one RTT, too.
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
    /// Number of the last packet, before this one, behind which no more data waited for the path.
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
    /// This packet and all later ones below the stored number were delivered.
    Delivered(u64),
}

/// The last report that acknowledged a higher packet number than all before.
///
/// The next sample window starts at that packet.
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
/// Packet numbers of a path are contiguous, so the record is a ring. A packet is lost when a number of later packets
/// have arrived (RFC 9002 §6.1). This number adapts to the reordering seen on the path (RFC 8985 §6.2).
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
    /// Packet number at which the search for losses starts. The outcome of all lower numbers is known.
    settled_below: u64,
    /// Packet number below which losses do not count as the path's loss.
    ///
    /// Packets below this number were sent to an address that the peer has left.
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
    /// `fate` receives each packet whose outcome became known, and its departure. Returns a [`Sample`] if the
    /// report raised the largest acknowledged number. A report that names a number never sent is ignored.
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

    /// Ends the present sample window at the report's largest number, measures it, and begins the next one there.
    ///
    /// Returns `None` if the report does not raise the largest acknowledged number.
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
            sent_after_bytes: self.sent_bytes - sent_bytes,
            ..Sample::default()
        };
        if let Some(before) = previous {
            sample.received_bytes = report.bytes_received.saturating_sub(before.report.bytes_received);
            // Reordering can make the receiver's clock seem to step back. The receive interval is then zero, and only
            // the send interval is used.
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
    /// Losses among the packets in flight are not included in the path's loss, and a new window begins.
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
        let entries = (from..).zip(self.ring.range(skip.min(self.ring.len())..));
        let mut outstanding = entries.filter(|(_, entry)| matches!(entry.state, SentState::Outstanding(_)));
        outstanding.next().map(|(number, entry)| (number, entry.sent_at))
    }

    /// Returns the time at which the first packet after the largest reported one was sent, if there is one.
    ///
    /// The path has been silent since then.
    pub fn oldest_unreported_sent_at(&self) -> Option<Instant> {
        let from = self.mark.map_or(self.first, |m| m.report.largest + 1);
        self.entry(from.max(self.first)).map(|e| e.sent_at)
    }

    /// Deletes the records of all packets but the newest `kept`, because the path failed, and begins a new window.
    ///
    /// Deleted packets whose outcome was open are declared lost. No sample includes them.
    pub fn give_up(&mut self, kept: usize, mut fate: impl FnMut(T, Fate, Departure)) {
        let excess = self.ring.len().saturating_sub(kept);
        for entry in self.ring.drain(..excess) {
            let departure = entry.departure();
            if let SentState::Outstanding(item) = entry.state {
                self.in_flight_bytes -= u64::from(entry.bytes);
                self.in_flight_packets -= 1;
                fate(item, Fate::Lost, departure);
            }
            self.first += 1;
        }
        self.settled_below = self.settled_below.max(self.first);
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
#[path = "sent_packets_tests.rs"]
mod tests;
