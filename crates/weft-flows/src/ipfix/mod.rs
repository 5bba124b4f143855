//! Export of flow records as IPFIX (RFC 7011, RFC 7012) or NetFlow version 9 (RFC 3954).
//!
//! A caller takes a flow's counters once, as an [`ExportRecord`], and gives it to the [`Exporter`]. The exporter keeps
//! it until it was sent and was not refused, and yields messages. The caller sends them. Records wait in a bounded
//! queue. A record that does not fit is counted, and the collector gets the counts as `notSentOctetTotalCount` and
//! its companions (RFC 7011 §4.3). The sum of all records and of these counts therefore equals the bytes and packets of
//! the flows exactly.
//!
//! The exporter opens no socket and reads no clock. It allocates only when it is made.

mod exporter;
mod field;
mod record;
mod retained;
mod sets;
mod writer;

pub use exporter::{ExportMessage, Exporter, ExporterConfig};
pub use field::{
    ACHIEVED_RATE, ALTERNATE, ASKED_RATE, CLASS, CLASS_NAME, GRANTED_RATE, PATH, PRECEDENCE, PRIVATE_ENTERPRISE,
    VERDICT,
};
pub use record::{EndReason, ExportRecord, ExportVerdict, RecordDirection};
pub use retained::{ExportCounters, NotSent};
pub use sets::Dialect;

use weft_units::Duration;

/// Default maximum length of a message, in bytes, without UDP and IP headers.
///
/// *Derived*: every IPv6 path carries 1,280 bytes (RFC 8200 §5), less 40 for IPv6 and 8 for UDP. RFC 7011 §10.3.3
/// forbids a message that exceeds the path MTU.
pub const MESSAGE_BYTES: usize = 1_232;

/// Minimum of the configured maximum length of a message, in bytes.
///
/// *Standard*: the size that RFC 7011 §10.3.3 names for paths with an unknown MTU. Every set of templates fits.
pub const MESSAGE_BYTES_MIN: usize = 512;

/// Time for which a message over UDP is kept after it was sent.
///
/// *Derived*: the refusal of a collector that is not there (ICMP port unreachable) arrives after one round trip, and
/// round trips without a satellite link stay below a quarter of a second.
pub const HOLD: Duration = Duration::from_millis(250);

/// Longest time between two probes of a collector that refuses.
///
/// *Tuned*: a probe is one message. A collector that returns gets its records within this time.
pub const PROBE_MAX: Duration = Duration::from_secs(10);
