//! Codec of markers and reports, by which the ingress and egress edges of a loop exchange their counts.
//!
//! A marker precedes a unit in a [`PacketType::LoopData`](crate::hop::PacketType::LoopData) datagram, sealed with the
//! key of its VPN. Markers and reports of several VPNs also travel in control frames ([`crate::frame::Frame`]).

use crate::WireError;
use crate::bytes::{ByteReader, Writer};

/// Number of bytes that a marker adds to a unit.
pub const MARKER_LEN: usize = 22;

/// Flag bit of [`Marker::is_pressing`].
const IS_PRESSING: u8 = 1;

/// Counts that the ingress edge attaches to a packet of the loop, or sends alone if no packet is due. All wrap at 2^32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marker {
    /// Number of this marker within the loop, starting at one.
    pub sequence: u32,
    /// Sending time on the ingress edge's clock, in microseconds.
    pub sent_at_us: u32,
    /// Total number of packets sent on the loop, including the one that carries the marker.
    pub packets: u32,
    /// Total bytes of the packets sent on the loop.
    pub bytes: u32,
    /// Part of the marker's delay that is not queueing in the network, in microseconds.
    ///
    /// It covers the wait for a path at the ingress edge and the longer delay of the chosen path.
    pub explained_us: u32,
    /// True if the loop holds packets back. The marker and its report are then sent without delay.
    pub is_pressing: bool,
}

/// The egress edge's answer to a marker. It repeats the marker, so the ingress edge need not store it. All counts wrap
/// at 2^32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoopReport {
    /// The marker that this report answers.
    pub marker: Marker,
    /// Arrival time of the marker on the egress edge's clock, in microseconds.
    pub received_at_us: u32,
    /// Time from the marker's arrival until the report left, in microseconds.
    pub held_us: u32,
    /// Total packets received on the loop when the marker arrived, including the one that carried it.
    pub packets: u32,
    /// Total bytes of the packets received on the loop.
    pub bytes: u32,
    /// Number of packets received on the loop with a CE mark (RFC 3168).
    pub ce_packets: u32,
}

/// A marker or report with the number of its run. When a loop restarts, its run number rises and its counts restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OfRun<T> {
    /// Run number, modulo 256.
    pub run: u8,
    /// The marker or report.
    pub what: T,
}

impl OfRun<Marker> {
    /// Parses the marker of a decrypted datagram, and returns the unit after it with its inner header.
    ///
    /// # Errors
    /// [`WireError::Truncated`], or [`WireError::Malformed`] for unknown flags.
    pub fn parse(plaintext: &[u8]) -> Result<(OfRun<Marker>, &[u8]), WireError> {
        let mut r = ByteReader::new(plaintext);
        Ok((read_marker(&mut r)?, r.rest()))
    }

    /// Writes the marker at the start of `out` and returns its length, [`MARKER_LEN`].
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let mut w = Writer::new(out);
        write_marker(&mut w, self.run, &self.what)?;
        Ok(w.len())
    }
}

pub(crate) fn read_marker(r: &mut ByteReader<'_>) -> Result<OfRun<Marker>, WireError> {
    let flags = r.u8()?;
    if flags & !IS_PRESSING != 0 {
        return Err(WireError::Malformed);
    }
    let run = r.u8()?;
    let marker = Marker {
        sequence: r.u32()?,
        sent_at_us: r.u32()?,
        packets: r.u32()?,
        bytes: r.u32()?,
        explained_us: r.u32()?,
        is_pressing: flags & IS_PRESSING != 0,
    };
    Ok(OfRun { run, what: marker })
}

pub(crate) fn write_marker(w: &mut Writer<'_>, run: u8, marker: &Marker) -> Result<(), WireError> {
    w.u8(if marker.is_pressing { IS_PRESSING } else { 0 })?;
    w.u8(run)?;
    w.u32(marker.sequence)?;
    w.u32(marker.sent_at_us)?;
    w.u32(marker.packets)?;
    w.u32(marker.bytes)?;
    w.u32(marker.explained_us)
}

pub(crate) fn read_report(r: &mut ByteReader<'_>) -> Result<OfRun<LoopReport>, WireError> {
    let OfRun { run, what: marker } = read_marker(r)?;
    let (received_at_us, held_us) = (r.u32()?, r.u32()?);
    let (packets, bytes, ce_packets) = (r.u32()?, r.u32()?, r.u32()?);
    Ok(OfRun { run, what: LoopReport { marker, received_at_us, held_us, packets, bytes, ce_packets } })
}

pub(crate) fn write_report(w: &mut Writer<'_>, run: u8, report: &LoopReport) -> Result<(), WireError> {
    write_marker(w, run, &report.marker)?;
    for field in [report.received_at_us, report.held_us, report.packets, report.bytes, report.ce_packets] {
        w.u32(field)?;
    }
    Ok(())
}
