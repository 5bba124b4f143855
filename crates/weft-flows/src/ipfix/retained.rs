//! The bounded queue of records: those to be sent, and those that were sent and may still be refused.

use super::record::ExportRecord;
use alloc::collections::VecDeque;
use weft_units::{Duration, Instant};

/// Counts of records that did not fit into the queue, since the exporter was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NotSent {
    /// Number of records that were dropped because the queue was full.
    pub records: u64,
    /// Packets that the dropped records counted.
    pub packets: u64,
    /// IP bytes that the dropped records counted.
    pub bytes: u64,
    /// Earliest start of a dropped record, in milliseconds since 1970, or zero if none was dropped.
    pub first_ms: u64,
    /// Latest end of a dropped record, in milliseconds since 1970, or zero if none was dropped.
    pub last_ms: u64,
}

impl NotSent {
    fn add(&mut self, record: &ExportRecord) {
        self.first_ms = if self.records == 0 { record.start_ms } else { self.first_ms.min(record.start_ms) };
        self.last_ms = self.last_ms.max(record.end_ms);
        self.records += 1;
        self.packets += record.packets;
        self.bytes += record.bytes;
    }
}

/// Counts of an exporter since it was made, and the present length of its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExportCounters {
    /// Number of records in sent messages that can no longer be refused.
    pub sent_records: u64,
    /// Number of messages that were made, refused ones included.
    pub messages: u64,
    /// Number of messages that the collector's machine refused.
    pub refused_messages: u64,
    /// Number of records that wait to be sent.
    pub pending_records: usize,
    /// Number of records that were sent and may still be refused.
    pub retained_records: usize,
    /// Counts of the records that were dropped because the queue was full.
    pub not_sent: NotSent,
}

/// A message that was sent and may still be refused.
#[derive(Clone, Copy, Debug)]
struct SentMessage {
    number: u64,
    sequence: u32,
    records: usize,
    sent_at: Instant,
}

/// Records in the order in which they were added. The first ones are in messages that were sent.
#[derive(Debug)]
pub struct Retained {
    records: VecDeque<ExportRecord>,
    /// Number of records at the front that are in `messages`.
    sent: usize,
    messages: VecDeque<SentMessage>,
    capacity: usize,
    counters: ExportCounters,
}

/// Messages without records, such as probes, that are kept in addition to those with records.
///
/// *Derived*: the exporter makes at most one each [`super::HOLD`], except for names of classes: 256 of them fill fewer
/// than 64 messages of the smallest size.
const EMPTY_MESSAGES: usize = 128;

impl Retained {
    /// Returns an empty queue for `capacity` records.
    pub fn new(capacity: usize) -> Retained {
        Retained {
            records: VecDeque::with_capacity(capacity),
            sent: 0,
            messages: VecDeque::with_capacity(capacity + EMPTY_MESSAGES),
            capacity,
            counters: ExportCounters::default(),
        }
    }

    /// Returns the number of records for which there is space.
    pub fn room(&self) -> usize {
        self.capacity - self.records.len()
    }

    /// Adds a record. Returns false if there is no space. The record is then counted as not sent.
    pub fn push(&mut self, record: ExportRecord) -> bool {
        let fits = self.room() > 0;
        if fits {
            self.records.push_back(record);
        } else {
            self.counters.not_sent.add(&record);
        }
        fits
    }

    /// Returns the records that wait to be sent.
    pub fn pending(&self) -> impl Iterator<Item = &ExportRecord> {
        self.records.range(self.sent..)
    }

    /// Returns true if a record waits to be sent.
    pub fn has_pending(&self) -> bool {
        self.sent < self.records.len()
    }

    /// Returns true if another message can be kept.
    pub fn has_place_for_message(&self) -> bool {
        self.messages.len() < self.capacity + EMPTY_MESSAGES
    }

    /// Keeps a message with the first `records` pending records.
    pub fn on_sent(&mut self, now: Instant, number: u64, sequence: u32, records: usize) {
        self.sent += records;
        self.counters.messages += 1;
        self.messages.push_back(SentMessage { number, sequence, records, sent_at: now });
    }

    /// Removes the messages up to `number`, because the collector can no longer refuse them.
    pub fn release_through(&mut self, number: u64) {
        while self.messages.front().is_some_and(|message| message.number <= number) {
            self.release_first();
        }
    }

    /// Forgets the messages that were sent at least `hold` ago.
    pub fn release_older(&mut self, now: Instant, hold: Duration) {
        while self.messages.front().is_some_and(|message| message.sent_at + hold <= now) {
            self.release_first();
        }
    }

    fn release_first(&mut self) {
        let Some(message) = self.messages.pop_front() else { return };
        self.records.drain(..message.records.min(self.records.len()));
        self.sent -= message.records;
        self.counters.sent_records += message.records as u64;
    }

    /// Returns the time at which the oldest kept message was sent, or `None` if no message is kept.
    pub fn oldest(&self) -> Option<Instant> {
        self.messages.front().map(|message| message.sent_at)
    }

    /// Returns the number of the kept message with this sequence number, or `None` if there is none.
    ///
    /// A message without records has the sequence number of the next one. The older of the two is returned.
    pub fn number_of(&self, sequence: u32) -> Option<u64> {
        self.messages.iter().find(|message| message.sequence == sequence).map(|message| message.number)
    }

    /// Returns the number of the last kept message, or `None` if no message is kept.
    pub fn last_number(&self) -> Option<u64> {
        self.messages.back().map(|message| message.number)
    }

    /// Makes the records of all messages from `number` on pending again, and returns the first sequence number among
    /// them.
    pub fn requeue_from(&mut self, number: u64) -> Option<u32> {
        let mut first = None;
        while let Some(message) = self.messages.pop_back_if(|message| message.number >= number) {
            self.sent -= message.records;
            self.counters.refused_messages += 1;
            first = Some(message.sequence);
        }
        first
    }

    /// Returns the counts of records and messages since the exporter was made.
    pub fn counters(&self) -> ExportCounters {
        ExportCounters { pending_records: self.records.len() - self.sent, retained_records: self.sent, ..self.counters }
    }

    /// Returns the counts of the records that were dropped because the queue was full.
    pub fn not_sent(&self) -> NotSent {
        self.counters.not_sent
    }
}
