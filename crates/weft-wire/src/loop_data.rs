//! What the two ends of a loop tell each other: a marker before a unit
//! ([`PacketType::LoopData`](crate::hop::PacketType::LoopData)), sealed with the key of its VPN, or markers and reports of many VPNs
//! in control frames ([`crate::frame::Frame`]).

use crate::WireError;
use crate::bytes::{Reader, Writer};

/// Bytes that a marker adds to a unit.
pub const MARKER_LEN: usize = 22;

const IS_PRESSING: u8 = 1;

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
    /// The loop holds packets back, so that it and its report wait for nothing.
    pub is_pressing: bool,
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

impl OfRun<Marker> {
    /// Reads the marker at the start of a decrypted datagram; gives what follows too: the unit with its inner header.
    ///
    /// # Errors
    /// [`WireError::Truncated`], or [`WireError::Malformed`] for flags that are not known.
    pub fn parse(plaintext: &[u8]) -> Result<(OfRun<Marker>, &[u8]), WireError> {
        let mut r = Reader::new(plaintext);
        Ok((read_marker(&mut r)?, r.rest()))
    }

    /// Writes it at the start of `out`; gives its length, [`MARKER_LEN`].
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let mut w = Writer::new(out);
        write_marker(&mut w, self.run, &self.what)?;
        Ok(w.len())
    }
}

pub(crate) fn read_marker(r: &mut Reader<'_>) -> Result<OfRun<Marker>, WireError> {
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

pub(crate) fn read_report(r: &mut Reader<'_>) -> Result<OfRun<Report>, WireError> {
    let OfRun { run, what: marker } = read_marker(r)?;
    let (received_at_us, held_us) = (r.u32()?, r.u32()?);
    let (packets, bytes, ce_packets) = (r.u32()?, r.u32()?, r.u32()?);
    Ok(OfRun { run, what: Report { marker, received_at_us, held_us, packets, bytes, ce_packets } })
}

pub(crate) fn write_report(w: &mut Writer<'_>, run: u8, report: &Report) -> Result<(), WireError> {
    write_marker(w, run, &report.marker)?;
    for field in [report.received_at_us, report.held_us, report.packets, report.bytes, report.ce_packets] {
        w.u32(field)?;
    }
    Ok(())
}
