//! The state of an export to one collector.

use super::record::ExportRecord;
use super::retained::{ExportCounters, NotSent, Retained};
use super::sets::{Dialect, MessageHeader};
use super::writer::ExportWriter;
use super::{HOLD, MESSAGE_BYTES, MESSAGE_BYTES_MIN, PROBE_MAX};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use weft_units::{Duration, Instant};

/// Settings of an exporter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExporterConfig {
    /// Format of the messages.
    pub dialect: Dialect,
    /// True if the messages go over a stream (TCP), false over datagrams (UDP).
    pub is_stream: bool,
    /// Observation domain: distinguishes the exporters of one machine.
    pub domain: u32,
    /// Longest message, in bytes. A value outside [`MESSAGE_BYTES_MIN`]..=65,535 is replaced by the nearer bound.
    pub message_bytes: usize,
    /// Interval at which the templates are sent again over UDP.
    pub template_interval: Duration,
    /// Maximum number of records that wait to be sent, or that were sent and may still be refused.
    pub queue_records: usize,
}

impl Default for ExporterConfig {
    /// Returns settings for UDP.
    ///
    /// The queue keeps 65,536 records, *derived*: at 200,000 records/s, 50,000 were sent within [`HOLD`] and may still
    /// be refused, and the rest is for records that wait. Templates are repeated each 30 s, *tuned*: a collector that
    /// restarts within [`HOLD`], while messages are sent without a pause, loses at most the records of 30 s. RFC 7011
    /// §8.4 allows up to 10 minutes. The templates cost 12 bytes/s.
    fn default() -> ExporterConfig {
        ExporterConfig {
            dialect: Dialect::Ipfix,
            is_stream: false,
            domain: 0,
            message_bytes: MESSAGE_BYTES,
            template_interval: Duration::from_secs(30),
            queue_records: 1 << 16,
        }
    }
}

/// A message to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportMessage {
    /// Number by which [`Exporter::on_acknowledged`] names the message.
    pub number: u64,
    /// Length of the message in the buffer, in bytes.
    pub len: usize,
}

/// State of the collector, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Collector {
    /// The collector gets messages.
    Reachable,
    /// The stream is not connected.
    Closed,
    /// The collector refused a message. A probe is sent at `probe_at`.
    Refusing { probe_at: Instant, interval: Duration },
    /// A probe was sent. Unless it is refused until `until`, the collector is reachable.
    Probed { until: Instant, interval: Duration },
}

/// Makes messages of records, and keeps the records until they are sent.
///
/// Over UDP the caller reports refusals with [`Exporter::on_refused`]. A message that was not refused within [`HOLD`]
/// is regarded as received. Over TCP the caller reports the messages that the collector's machine acknowledged. Neither
/// protocol reports whether the collector's program read a record (RFC 7011 §10). A collector that fails silently loses
/// the records that UDP carries meanwhile. `octetTotalCount` in the flow's next record then shows the gap.
#[derive(Debug)]
pub struct Exporter {
    config: ExporterConfig,
    queue: Retained,
    collector: Collector,
    started: Instant,
    /// Time at which the templates are sent again.
    templates_at: Instant,
    /// Time at which the last message was made.
    last_message: Instant,
    /// True if the counts of dropped records changed since they were sent.
    statistics_due: bool,
    class_names: Vec<String>,
    /// Number of classes whose name was sent since the last templates.
    named: usize,
    next_number: u64,
    sequence: u32,
}

impl Exporter {
    /// Returns an exporter without records. All memory for records is allocated here.
    pub fn new(now: Instant, config: ExporterConfig) -> Exporter {
        let message_bytes = config.message_bytes.clamp(MESSAGE_BYTES_MIN, u16::MAX.into());
        Exporter {
            config: ExporterConfig { message_bytes, ..config },
            queue: Retained::new(config.queue_records),
            collector: if config.is_stream { Collector::Closed } else { Collector::Reachable },
            started: now,
            templates_at: now,
            last_message: now,
            statistics_due: false,
            class_names: Vec::new(),
            named: 0,
            next_number: 0,
            sequence: 0,
        }
    }

    /// Sets the names of the classes, in the order of their numbers, and sends them anew.
    pub fn set_class_names<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        self.class_names = names.map(ToOwned::to_owned).collect();
        self.named = 0;
    }

    /// Returns the number of records for which there is space.
    ///
    /// A flow that continues keeps its counters while there is no space, and its next record carries them.
    pub fn room(&self) -> usize {
        self.queue.room()
    }

    /// Adds a record. Returns false if there is no space.
    ///
    /// The record is then dropped, and the collector gets its counts in the statistics. The caller must not count it
    /// again.
    pub fn push(&mut self, record: ExportRecord) -> bool {
        let is_kept = self.queue.push(record);
        self.statistics_due |= !is_kept;
        is_kept
    }

    /// Writes the next message to `buffer`, or returns `None` if there is nothing to send now.
    ///
    /// `unix_s` is the time in seconds since 1970. A buffer shorter than the longest message makes shorter messages.
    /// One below [`MESSAGE_BYTES_MIN`] gets none. The caller sends the message before it polls again.
    pub fn poll_message(&mut self, now: Instant, unix_s: u32, buffer: &mut [u8]) -> Option<ExportMessage> {
        if !self.config.is_stream {
            self.queue.release_older(now, HOLD);
        }
        if let Collector::Probed { until, .. } = self.collector
            && now >= until
        {
            self.collector = Collector::Reachable;
        }
        let is_probe = match self.collector {
            Collector::Reachable => false,
            Collector::Refusing { probe_at, .. } if now >= probe_at => true,
            _ => return None,
        };
        let buffer = buffer.get_mut(..self.config.message_bytes.min(buffer.len()))?;
        if buffer.len() < MESSAGE_BYTES_MIN || !self.queue.has_place_for_message() {
            return None;
        }
        let message = self.compose(now, unix_s, buffer, is_probe)?;
        if let Collector::Refusing { interval, .. } = self.collector {
            self.collector = Collector::Probed { until: now + HOLD, interval };
        }
        Some(message)
    }

    fn compose(&mut self, now: Instant, unix_s: u32, buffer: &mut [u8], is_probe: bool) -> Option<ExportMessage> {
        let dialect = self.config.dialect;
        let header_bytes = dialect.header_bytes();
        let (head, body) = buffer.split_at_mut_checked(header_bytes)?;
        let mut w = ExportWriter::new(body);
        let templates = if is_probe || self.needs_templates(now) { self.templates(now, &mut w) } else { 0 };
        let (options, flows) =
            if is_probe { (0, 0) } else { (self.options(&mut w), dialect.flows(&mut w, self.queue.pending())) };
        let len = header_bytes + w.len();
        if len == header_bytes {
            return None;
        }
        let data = options + flows;
        let (sequence, domain) = (self.sequence, self.config.domain);
        let records = templates + data as u16;
        let header = MessageHeader { unix_s, uptime: now.since(self.started), sequence, domain, records };
        dialect.header(&mut ExportWriter::new(head), &header, len);
        let number = self.next_number;
        self.next_number += 1;
        self.last_message = now;
        self.queue.on_sent(now, number, sequence, flows as usize);
        // IPFIX counts records (RFC 7011 §3.1), NetFlow messages (RFC 3954 §5.1).
        self.sequence = sequence.wrapping_add(if dialect == Dialect::Ipfix { data } else { 1 });
        Some(ExportMessage { number, len })
    }

    /// Returns true if the next message begins with templates.
    ///
    /// Over UDP, the first message after a pause begins with them, because a collector that restarted during the pause
    /// has none.
    fn needs_templates(&self, now: Instant) -> bool {
        let is_after_pause = now.since(self.last_message) >= HOLD && !self.config.is_stream;
        now >= self.templates_at || (is_after_pause && self.has_work())
    }

    /// Writes the templates, and returns their number.
    ///
    /// It also makes the statistics and the names of classes due: a collector without templates lacks them too.
    fn templates(&mut self, now: Instant, w: &mut ExportWriter<'_>) -> u16 {
        self.templates_at =
            if self.config.is_stream { Instant::FAR_FUTURE } else { now + self.config.template_interval };
        self.named = 0;
        self.statistics_due = self.queue.not_sent() != NotSent::default();
        self.config.dialect.templates(w)
    }

    /// Writes the records of statistics and of class names that are due and fit, and returns their number.
    fn options(&mut self, w: &mut ExportWriter<'_>) -> u32 {
        let (dialect, mut count) = (self.config.dialect, 0);
        if self.statistics_due && dialect.statistics(w, self.config.domain, &self.queue.not_sent()) {
            self.statistics_due = false;
            count += 1;
        }
        while let Some(name) = self.class_names.get(self.named).filter(|_| dialect.has_class_names()) {
            if !dialect.class_name(w, self.named as u16, name) {
                break;
            }
            self.named += 1;
            count += 1;
        }
        count
    }

    /// Records that the collector's machine refused a message over UDP (ICMP port unreachable).
    ///
    /// `sequence` is the sequence number in the refused message, which the error queue of the socket quotes
    /// (`IP_RECVERR`). All later messages are regarded as refused too. Without a `sequence`, only the last message is.
    /// The records are sent again after a probe.
    pub fn on_refused(&mut self, now: Instant, sequence: Option<u32>) {
        let number = match sequence {
            Some(sequence) => self.queue.number_of(sequence),
            None => self.queue.last_number(),
        };
        self.requeue(number);
        let interval = match self.collector {
            Collector::Refusing { .. } => return,
            Collector::Probed { interval, .. } => (2 * interval).min(PROBE_MAX),
            Collector::Reachable | Collector::Closed => HOLD,
        };
        self.collector = Collector::Refusing { probe_at: now + interval, interval };
    }

    fn requeue(&mut self, number: Option<u64>) {
        if let Some(sequence) = number.and_then(|number| self.queue.requeue_from(number)) {
            self.sequence = sequence;
            self.named = 0;
            self.statistics_due = self.queue.not_sent() != NotSent::default();
        }
    }

    /// Records that the stream to the collector is connected. The templates are sent first.
    pub fn on_connected(&mut self, now: Instant) {
        self.collector = Collector::Reachable;
        self.sequence = 0;
        self.templates_at = now;
    }

    /// Records that the collector's machine acknowledged all messages up to `number` (TCP).
    pub fn on_acknowledged(&mut self, number: u64) {
        self.queue.release_through(number);
    }

    /// Records that the stream ended. Records that were not acknowledged are sent again on the next one.
    pub fn on_closed(&mut self) {
        self.requeue(Some(0));
        self.collector = Collector::Closed;
    }

    /// Returns the time at which [`Exporter::poll_message`] has work to do, if no record is added before.
    pub fn next_timeout(&self) -> Instant {
        let next = match self.collector {
            Collector::Closed => Instant::FAR_FUTURE,
            Collector::Refusing { probe_at, .. } => probe_at,
            Collector::Probed { until, .. } => until,
            Collector::Reachable if self.has_work() => Instant::ZERO,
            Collector::Reachable => self.templates_at,
        };
        let release = self.queue.oldest().filter(|_| !self.config.is_stream).map(|sent| sent + HOLD);
        next.min(release.unwrap_or(Instant::FAR_FUTURE))
    }

    /// Returns true if something beside the templates is to be sent.
    fn has_work(&self) -> bool {
        let has_names = self.named < self.class_names.len() && self.config.dialect.has_class_names();
        self.queue.has_pending() || self.statistics_due || has_names
    }

    /// Returns true if the collector gets messages, as far as is known.
    pub fn is_reachable(&self) -> bool {
        self.collector == Collector::Reachable
    }

    /// Returns the counts of records and messages since the exporter was made.
    pub fn counters(&self) -> ExportCounters {
        self.queue.counters()
    }
}
