//! Codec of the markers and reports of a loop.
//!
//! By them, the two edges of the loop exchange the numbers of packets sent and received.
//!
//! A marker precedes a unit in a [`PacketType::LoopData`](crate::hop::PacketType::LoopData) datagram, sealed with the
//! key of its VPN. Markers and reports of several VPNs also travel in control frames ([`crate::frame::Frame`]).

use crate::WireError;
use crate::bytes::{ByteReader, Writer};

/// Number of bytes that a marker without [`Marker::counting`] adds to a unit.
pub const MARKER_LEN: usize = 22;
/// Number of bytes that [`Marker::counting`] adds to a marker.
const COUNTING_LEN: usize = 4;

/// Flag bit of a marker for [`Marker::is_pressing`].
const IS_PRESSING: u8 = 1;
/// Flag bit of a marker with [`Marker::counting`].
const IS_COUNTED: u8 = 2;
/// Flag bit of a marker whose [`Counting::restarts`] is true.
const RESTARTS: u8 = 4;
/// Flag bit of a report with [`LoopReport::count`]. The echoed marker always has [`IS_COUNTED`] then.
const HAS_COUNT: u8 = 8;

/// Counters that the ingress edge attaches to a packet of the loop, or sends alone if no packet is due.
///
/// All counters wrap at 2^32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marker {
    /// Number of this marker within the loop, starting at one.
    pub sequence: u32,
    /// Sending time on the ingress edge's clock, in microseconds.
    pub sent_at_us: u32,
    /// Number of packets sent on the loop so far, including the one that carries the marker.
    pub packets: u32,
    /// Number of bytes of these packets.
    pub bytes: u32,
    /// Part of the marker's delay that is not queueing delay between the edges, in microseconds.
    ///
    /// It covers the wait for a path at the ingress edge and the longer delay of the chosen path.
    pub explained_us: u32,
    /// True if packets of the loop wait at the ingress edge. The marker and its report are then sent without delay.
    pub is_pressing: bool,
    /// If set, the egress edge also counts bytes over fixed intervals (paper 004 §6.1).
    pub counting: Option<Counting>,
}

/// Fixed intervals over which the egress edge counts arriving bytes (paper 004 §6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counting {
    /// Length T of an interval in microseconds, above zero.
    pub interval_us: u32,
    /// True if a new series of intervals starts when this marker arrives.
    pub restarts: bool,
}

/// Number of the loop's bytes that had arrived when the last complete interval ended.
///
/// All fields wrap at 2^32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IntervalCount {
    /// Number of the marker that started the intervals.
    pub restarted_by: u32,
    /// Number of complete intervals since the marker that started them.
    pub intervals: u32,
    /// Number of bytes received on the loop until the last complete interval ended.
    pub bytes: u32,
}

impl Marker {
    /// Returns the number of bytes by which the marker makes a datagram longer.
    pub fn encoded_len(&self) -> usize {
        MARKER_LEN + if self.counting.is_some() { COUNTING_LEN } else { 0 }
    }
}

/// The egress edge's answer to a marker.
///
/// The answer repeats the marker, so the ingress edge need not store the marker. All counters wrap at 2^32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoopReport {
    /// The marker that this report answers.
    pub marker: Marker,
    /// Arrival time of the marker on the egress edge's clock, in microseconds.
    pub received_at_us: u32,
    /// Time from the marker's arrival until the report left, in microseconds.
    pub held_us: u32,
    /// Number of packets received on the loop when the marker arrived, including the one that carried it.
    pub packets: u32,
    /// Number of bytes of these packets.
    pub bytes: u32,
    /// Number of these packets that carried a CE mark (RFC 3168).
    pub ce_packets: u32,
    /// Count over fixed intervals. `None` if the marker does not ask for it, or before the intervals have started.
    pub count: Option<IntervalCount>,
}

/// A marker or report, with the run number of its loop.
///
/// When a loop restarts, its run number rises and its counters restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OfRun<T> {
    /// Number of the loop's present run, modulo 256.
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

    /// Writes the marker at the start of `out` and returns its length, [`Marker::encoded_len`].
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
    let (marker, flags) = read_flagged(r)?;
    if flags & HAS_COUNT != 0 { Err(WireError::Malformed) } else { Ok(marker) }
}

/// Reads a marker and its flags. In a report, the flags may include [`HAS_COUNT`].
fn read_flagged(r: &mut ByteReader<'_>) -> Result<(OfRun<Marker>, u8), WireError> {
    let flags = r.u8()?;
    let is_counted = flags & IS_COUNTED != 0;
    let only_counted = RESTARTS | HAS_COUNT;
    if flags & !(IS_PRESSING | IS_COUNTED | only_counted) != 0 || (flags & only_counted != 0 && !is_counted) {
        return Err(WireError::Malformed);
    }
    let run = r.u8()?;
    let mut marker = Marker {
        sequence: r.u32()?,
        sent_at_us: r.u32()?,
        packets: r.u32()?,
        bytes: r.u32()?,
        explained_us: r.u32()?,
        is_pressing: flags & IS_PRESSING != 0,
        counting: None,
    };
    if is_counted {
        let interval_us = r.u32()?;
        if interval_us == 0 {
            return Err(WireError::Malformed);
        }
        marker.counting = Some(Counting { interval_us, restarts: flags & RESTARTS != 0 });
    }
    Ok((OfRun { run, what: marker }, flags))
}

pub(crate) fn write_marker(w: &mut Writer<'_>, run: u8, marker: &Marker) -> Result<(), WireError> {
    write_flagged(w, run, marker, 0)
}

fn write_flagged(w: &mut Writer<'_>, run: u8, marker: &Marker, more_flags: u8) -> Result<(), WireError> {
    let counting = match marker.counting {
        Some(Counting { interval_us: 0, .. }) => return Err(WireError::Malformed),
        Some(Counting { restarts: true, .. }) => IS_COUNTED | RESTARTS,
        Some(_) => IS_COUNTED,
        None => 0,
    };
    w.u8(if marker.is_pressing { IS_PRESSING } else { 0 } | counting | more_flags)?;
    w.u8(run)?;
    w.u32(marker.sequence)?;
    w.u32(marker.sent_at_us)?;
    w.u32(marker.packets)?;
    w.u32(marker.bytes)?;
    w.u32(marker.explained_us)?;
    marker.counting.map_or(Ok(()), |counting| w.u32(counting.interval_us))
}

pub(crate) fn read_report(r: &mut ByteReader<'_>) -> Result<OfRun<LoopReport>, WireError> {
    let (OfRun { run, what: marker }, flags) = read_flagged(r)?;
    let (received_at_us, held_us) = (r.u32()?, r.u32()?);
    let (packets, bytes, ce_packets) = (r.u32()?, r.u32()?, r.u32()?);
    let count = match flags & HAS_COUNT {
        0 => None,
        _ => Some(IntervalCount { restarted_by: r.u32()?, intervals: r.u32()?, bytes: r.u32()? }),
    };
    Ok(OfRun { run, what: LoopReport { marker, received_at_us, held_us, packets, bytes, ce_packets, count } })
}

pub(crate) fn write_report(w: &mut Writer<'_>, run: u8, report: &LoopReport) -> Result<(), WireError> {
    // The receiver of a report rejects an interval count if the echoed marker has no intervals, so the count is left
    // out.
    let count = report.count.filter(|_| report.marker.counting.is_some());
    write_flagged(w, run, &report.marker, if count.is_some() { HAS_COUNT } else { 0 })?;
    for field in [report.received_at_us, report.held_us, report.packets, report.bytes, report.ce_packets] {
        w.u32(field)?;
    }
    let Some(count) = count else { return Ok(()) };
    [count.restarted_by, count.intervals, count.bytes].into_iter().try_for_each(|field| w.u32(field))
}
