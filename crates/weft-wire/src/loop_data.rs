//! What the two ends of a loop tell each other ([`PacketType::LoopData`](crate::hop::PacketType::LoopData)): markers and reports, with
//! a unit behind them or alone. Both are of one VPN between two edges, and sealed with its key.

use crate::WireError;
use crate::bytes::{Reader, Writer};

/// Bytes that a marker adds to a unit.
pub const MARKER_LEN: usize = 1 + MARKER_FIELDS;
/// Bytes of the longest header: a marker and a report.
pub const MAX_LOOP_HEADER_LEN: usize = 1 + MARKER_FIELDS + REPORT_FIELDS;

const MARKER_FIELDS: usize = 21;
const REPORT_FIELDS: usize = MARKER_FIELDS + 20;
const HAS_MARKER: u8 = 1;
const HAS_REPORT: u8 = 2;

/// What the ingress stamps onto a packet of the loop, or sends by itself when it has no packet. All counts wrap at 2^32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marker {
    /// The loop's markers, counted from one.
    pub sequence: u32,
    /// The ingress's clock in microseconds.
    pub sent_at_us: u32,
    /// Packets sent on the loop, ever; the one that carries the marker is among them.
    pub packets: u32,
    /// Bytes of those packets.
    pub bytes: u32,
    /// Microseconds of its delay that are no queue of the network's, but due to which of several paths it took.
    pub explained_us: u32,
}

/// The egress's answer to a marker. It repeats the marker, so that the ingress keeps none. All counts wrap at 2^32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The marker this answers.
    pub marker: Marker,
    /// When the marker arrived: the egress's clock in microseconds.
    pub received_at_us: u32,
    /// Microseconds from then until the report left.
    pub held_us: u32,
    /// Packets received on the loop when the marker arrived; the one that carried it is among them.
    pub packets: u32,
    /// Bytes of those packets.
    pub bytes: u32,
    /// Those of the packets that came with a CE mark (RFC 3168).
    pub ce_packets: u32,
}

/// Something of a loop, and which of the ingress's runs of it: when a loop begins anew, so do its numbers and counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OfRun<T> {
    /// The run, counted modulo 256.
    pub run: u8,
    /// What is of it.
    pub what: T,
}

/// What precedes the unit, if there is one. A marker or a report is in it, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoopHeader {
    /// Of the loop toward the receiver.
    pub marker: Option<OfRun<Marker>>,
    /// On the loop toward the sender.
    pub report: Option<OfRun<Report>>,
}

impl LoopHeader {
    /// A marker alone.
    pub const fn of_marker(run: u8, marker: Marker) -> LoopHeader {
        LoopHeader { marker: Some(OfRun { run, what: marker }), report: None }
    }

    /// A report alone.
    pub const fn of_report(run: u8, report: Report) -> LoopHeader {
        LoopHeader { marker: None, report: Some(OfRun { run, what: report }) }
    }

    /// Bytes it takes.
    pub const fn len(&self) -> usize {
        1 + if self.marker.is_some() { MARKER_FIELDS } else { 0 }
            + if self.report.is_some() { REPORT_FIELDS } else { 0 }
    }

    /// Whether it says nothing, and so is none.
    pub const fn is_empty(&self) -> bool {
        self.marker.is_none() && self.report.is_none()
    }

    /// Reads the header at the start of a decrypted datagram; gives what follows too: the unit with its inner header, or nothing.
    ///
    /// # Errors
    /// [`WireError::Truncated`], or [`WireError::Malformed`] for neither a marker nor a report, or something unknown.
    pub fn parse(plaintext: &[u8]) -> Result<(LoopHeader, &[u8]), WireError> {
        let mut r = Reader::new(plaintext);
        let flags = r.u8()?;
        if flags == 0 || flags & !(HAS_MARKER | HAS_REPORT) != 0 {
            return Err(WireError::Malformed);
        }
        let marker = if flags & HAS_MARKER != 0 { Some(read_marker(&mut r)?) } else { None };
        let report = if flags & HAS_REPORT != 0 { Some(read_report(&mut r)?) } else { None };
        Ok((LoopHeader { marker, report }, r.rest()))
    }

    /// Writes the header at the start of `out`; gives its length.
    ///
    /// # Errors
    /// [`WireError::NoRoom`], or [`WireError::Malformed`] for a header that says nothing.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        if self.is_empty() {
            return Err(WireError::Malformed);
        }
        let flag = |is_there: bool, flag| if is_there { flag } else { 0 };
        let mut w = Writer::new(out);
        w.u8(flag(self.marker.is_some(), HAS_MARKER) | flag(self.report.is_some(), HAS_REPORT))?;
        if let Some(marker) = &self.marker {
            write_marker(&mut w, marker.run, &marker.what)?;
        }
        if let Some(OfRun { run, what: report }) = &self.report {
            write_marker(&mut w, *run, &report.marker)?;
            for field in [report.received_at_us, report.held_us, report.packets, report.bytes, report.ce_packets] {
                w.u32(field)?;
            }
        }
        Ok(w.len())
    }
}

fn read_marker(r: &mut Reader<'_>) -> Result<OfRun<Marker>, WireError> {
    let run = r.u8()?;
    let marker =
        Marker { sequence: r.u32()?, sent_at_us: r.u32()?, packets: r.u32()?, bytes: r.u32()?, explained_us: r.u32()? };
    Ok(OfRun { run, what: marker })
}

fn read_report(r: &mut Reader<'_>) -> Result<OfRun<Report>, WireError> {
    let OfRun { run, what: marker } = read_marker(r)?;
    let (received_at_us, held_us) = (r.u32()?, r.u32()?);
    let (packets, bytes, ce_packets) = (r.u32()?, r.u32()?, r.u32()?);
    Ok(OfRun { run, what: Report { marker, received_at_us, held_us, packets, bytes, ce_packets } })
}

fn write_marker(w: &mut Writer<'_>, run: u8, marker: &Marker) -> Result<(), WireError> {
    w.u8(run)?;
    w.u32(marker.sequence)?;
    w.u32(marker.sent_at_us)?;
    w.u32(marker.packets)?;
    w.u32(marker.bytes)?;
    w.u32(marker.explained_us)
}
