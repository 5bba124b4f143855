//! Codec of control frames, by which the two ends of a session exchange state.
//!
//! Frames carry state of paths, flows, VPNs and loops. A control datagram holds frames one after another. [`Frames`]
//! parses them and [`FrameWriter`] writes them. The parser checks all ranges and lengths, so that the engine never sees
//! a frame with invalid values.

use crate::WireError;
use crate::bytes::{ByteReader, Writer};
use crate::certificate::{REVOCATION_LEN, RevocationView};
use crate::load_report::TransitLoad;
use crate::loop_data::{self, LoopReport, MARKER_LEN, Marker, OfRun};
use crate::relay::Label;
use crate::train::{self, Chirp, Chirped};
use core::ops::RangeInclusive;
use weft_units::{FlowId, FlowSeq, PathId, PathTier, PathUse, VpnId};

/// Maximum number of packet-number ranges in a [`Frame::Report`], not counting the first range.
pub const MAX_REPORT_RANGES: usize = 256;

// Type bytes of the frames, one for each variant of `Frame`.
const PADDING: u8 = 0;
const REPORT: u8 = 1;
const PING: u8 = 2;
const PONG: u8 = 3;
const HOLD: u8 = 4;
const SKIP: u8 = 5;
const POLICY: u8 = 6;
const CLOSE: u8 = 7;
const VPN: u8 = 8;
const LOOP_MARKER: u8 = 9;
const LOOP_REPORT: u8 = 10;
const REVOCATION: u8 = 11;
const NEIGHBOUR: u8 = 12;
const OVERLAY: u8 = 13;
const CHIRP: u8 = 14;
const CHIRPED: u8 = 15;
const GONE: u8 = 16;
const LINK: u8 = 17;
const LOAD: u8 = 18;

/// Maximum length of the name in a [`Frame::Link`], in bytes. Linux allows 15 for an interface.
pub const MAX_LINK_NAME: usize = 32;
/// Maximum number of frames in a control datagram.
///
/// *Derived*: SKIP frames cost the receiver most time, 0.7 µs each, because each may release the waiting units of
/// another flow. A datagram full of SKIP frames then takes less than 20 µs.
pub const MAX_FRAMES: usize = 24;

/// Length of a [`Frame::Revocation`], in bytes.
pub const REVOCATION_FRAME_LEN: usize = 1 + REVOCATION_LEN;
/// Length of a [`Frame::Overlay`] without its message, in bytes.
pub const OVERLAY_FRAME_OVERHEAD: usize = 1 + 2;
/// Length of a [`Frame::LoopMarker`] without [`Marker::counting`], in bytes.
pub const LOOP_MARKER_LEN: usize = 1 + 4 + MARKER_LEN;

/// Returns the length of a [`Frame::LoopMarker`] with this marker, in bytes.
pub fn loop_marker_len(marker: &Marker) -> usize {
    1 + 4 + marker.encoded_len()
}

/// One frame of a control datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// One byte of padding, ignored by the receiver.
    Padding,
    /// The packet numbers that arrived on a path, and counters of its datagrams.
    Report(ReceptionReport<'a>),
    /// Asks the receiver for a pong with the same token.
    Ping {
        /// Value chosen by the sender.
        token: u32,
    },
    /// Answers a ping with the same token.
    Pong {
        /// Token of the ping that is answered.
        token: u32,
        /// The path on which the ping arrived.
        path: PathId,
    },
    /// Sets the time for which the receiver waits for a missing unit of a flow before it delivers later units.
    Hold {
        /// Time for which the receiver waits for a missing unit, in microseconds.
        hold_us: u32,
    },
    /// Units that the sender has given up. The receiver need not wait for them.
    Skip {
        /// The flow of the units.
        flow: FlowId,
        /// The sequence number of the first unit.
        first: FlowSeq,
        /// Number of units, 1..=2^23.
        count: u32,
    },
    /// Settings that the sender requests from the receiver. Unknown bits are ignored.
    Policy {
        /// True if the receiver should use all its paths to the sender together.
        bundle_toward_me: bool,
        /// True if the sender uses the path of this frame for data. False if it only probes the path.
        path_active: bool,
        /// Traffic for which the sender lets the receiver use this path.
        path_use: PathUse,
    },
    /// The sender ends the session.
    Close {
        /// Code of the reason for the end. The session layer defines the codes.
        reason: u8,
    },
    /// States the receiver index by which the sender of the frame finds a VPN in datagrams that it receives.
    ///
    /// The index is valid as long as the key that sealed the frame. Unknown flags are ignored.
    Vpn {
        /// The VPN, other than [`VpnId::DEFAULT`].
        vpn: VpnId,
        /// Receiver index that the VPN's packets to the sender must carry. Zero: the sender accepts none of them.
        index: u32,
        /// True if the sender has packets of the VPN for the receiver and asks for the receiver's index.
        wants_index: bool,
    },
    /// A marker of a VPN's loop toward the receiver, sent alone because no packet of the VPN carries it.
    LoopMarker {
        /// The VPN, other than [`VpnId::DEFAULT`].
        vpn: VpnId,
        /// The marker, and a run number that rises when the loop restarts.
        marker: OfRun<Marker>,
    },
    /// A report about a VPN's loop toward the sender.
    LoopReport {
        /// The VPN, other than [`VpnId::DEFAULT`].
        vpn: VpnId,
        /// The report, and a run number that rises when the loop restarts.
        report: OfRun<LoopReport>,
    },
    /// A revocation of a node's certificates. A node that can verify it applies it and forwards it.
    Revocation(RevocationView),
    /// A statement of the sender, a relay, about a node to which it forwards datagrams. Unknown flags are ignored.
    Neighbour(Neighbour),
    /// A message of the overlay ([`crate::overlay::OverlayMessage`]), not parsed here.
    Overlay(&'a [u8]),
    /// One datagram of a train that measures the path on which it is sent.
    Chirp(Chirp),
    /// The delays that the receiver of a train measured.
    Chirped(Chirped<'a>),
    /// The sender has given up a path that it had opened. A newer datagram on the path revokes this frame.
    Gone {
        /// The path that was given up.
        path: PathId,
    },
    /// The sender's name for the link of this path: 1 to [`MAX_LINK_NAME`] bytes of UTF-8.
    ///
    /// A node that does not support this frame ignores the rest of the datagram, so this frame comes last.
    Link(&'a str),
    /// Load of a port of the sender by which it forwards the receiver's packets.
    ///
    /// A node that does not support this frame ignores the rest of the datagram, so this frame comes last.
    Load(TransitLoad),
}

/// A relay's statement about one of its own peers, by which other nodes choose routes over the relay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// The peer of the relay.
    pub node: Label,
    /// True if the relay can reach the peer. Otherwise the other fields have no meaning.
    pub is_reachable: bool,
    /// Round-trip time between the relay and the peer, in microseconds.
    pub rtt_us: u32,
    /// Loss rate of datagrams between the relay and the peer, in 1/256.
    pub loss: u8,
}

/// The counters in a report about one path.
///
/// The numbers of packets and bytes are totals since the session began, so a lost report loses no information.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReportCounters {
    /// The path id, as the sender of the reported packets numbers it.
    pub path: PathId,
    /// Arrival time of the largest reported packet number, in microseconds of the receiver's clock, which wraps.
    pub received_at_us: u32,
    /// Time between the arrival of the largest reported packet number and this report, in microseconds.
    pub held_us: u64,
    /// Number of datagrams received on the path.
    pub packets_received: u64,
    /// Number of bytes of the received datagrams.
    pub bytes_received: u64,
    /// Number of received datagrams with a CE mark.
    pub ce_received: u64,
}

/// A received report: counters, and packet-number ranges that the parser has checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceptionReport<'a> {
    /// Counters of the report.
    pub arrivals: ReportCounters,
    /// First and last number of the range with the largest packet numbers.
    first: (u64, u64),
    /// Number of ranges in `encoded`.
    count: usize,
    /// The ranges after the first one: the gap before each, and its length.
    encoded: &'a [u8],
}

impl<'a> ReceptionReport<'a> {
    /// Returns the largest packet number, which arrived at [`ReportCounters::received_at_us`].
    pub fn largest(&self) -> u64 {
        self.first.1
    }

    /// Returns the ranges of packet numbers that arrived, the largest numbers first. They are never adjacent.
    pub fn ranges(&self) -> Ranges<'a> {
        Ranges { next: Some(self.first), left: self.count, encoded: self.encoded }
    }

    fn parse(r: &mut ByteReader<'a>) -> Result<Self, WireError> {
        let path = PathId(r.u8()?);
        let largest = r.varint()?;
        let arrivals = ReportCounters {
            path,
            received_at_us: r.u32()?,
            held_us: r.varint()?,
            packets_received: r.varint()?,
            bytes_received: r.varint()?,
            ce_received: r.varint()?,
        };
        let smallest = largest.checked_sub(r.varint()?).ok_or(WireError::Malformed)?;
        let count = usize::try_from(r.varint()?).map_err(|_| WireError::Malformed)?;
        if count > MAX_REPORT_RANGES {
            return Err(WireError::Malformed);
        }
        let start = r.rest();
        let mut below = smallest;
        for _ in 0..count {
            below = next_range(r, below)?.0;
        }
        let encoded = start.get(..start.len() - r.rest().len()).unwrap_or_default();
        Ok(ReceptionReport { arrivals, first: (smallest, largest), count, encoded })
    }
}

/// Reads the gap and the length of a range, and returns the range, which lies below `smallest` (RFC 9000 §19.3.1).
fn next_range(r: &mut ByteReader<'_>, smallest: u64) -> Result<(u64, u64), WireError> {
    let gap = r.varint()?;
    let end = smallest.checked_sub(gap).and_then(|n| n.checked_sub(2)).ok_or(WireError::Malformed)?;
    let start = end.checked_sub(r.varint()?).ok_or(WireError::Malformed)?;
    Ok((start, end))
}

/// Iterator over the ranges of packet numbers in a report, the largest numbers first.
#[derive(Clone, Debug)]
pub struct Ranges<'a> {
    /// The range that the iterator returns next.
    next: Option<(u64, u64)>,
    /// Number of ranges left in `encoded`.
    left: usize,
    encoded: &'a [u8],
}

impl Iterator for Ranges<'_> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        let (start, end) = self.next?;
        self.next = None;
        if let Some(left) = self.left.checked_sub(1) {
            let mut r = ByteReader::new(self.encoded);
            self.next = next_range(&mut r, start).ok();
            (self.left, self.encoded) = (left, r.rest());
        }
        Some(start..=end)
    }
}

/// Iterator over the frames of a control payload. It ends after the first error.
///
/// More than [`MAX_FRAMES`] frames are an error. Padding bytes in a row are one frame.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    rest: ByteReader<'a>,
    /// Maximum number of frames that may still follow.
    left: usize,
}

impl<'a> Frames<'a> {
    /// Returns the frames of a decrypted control payload.
    pub fn new(plaintext: &'a [u8]) -> Self {
        Frames { rest: ByteReader::new(plaintext), left: MAX_FRAMES }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.rest().is_empty() {
            return None;
        }
        let frame = if self.left > 0 { parse_frame(&mut self.rest) } else { Err(WireError::TooLong) };
        self.left = self.left.saturating_sub(1);
        match frame {
            Ok(Frame::Padding) => self.rest.skip_zeros(),
            Ok(_) => {}
            Err(_) => self.rest = ByteReader::new(&[]),
        }
        Some(frame)
    }
}

/// Returns the bits of a POLICY frame that encode the use of a path.
///
/// Bit 2 is set unless the rank of the path is the primary one. Bits 3 and 4 distinguish the other ranks. A program
/// that supports only bit 2 uses a path with bit 2 last. Bit 5 is set if the path carries only sparse flows.
fn use_bits(path_use: PathUse) -> u8 {
    let tier = match path_use.tier {
        PathTier::Primary => 0,
        PathTier::Detour => 1 << 2,
        PathTier::Secondary => 1 << 2 | 1 << 3,
        PathTier::Backup => 1 << 2 | 2 << 3,
    };
    tier | u8::from(path_use.is_sparse_only) << 5
}

fn use_of_bits(flags: u8) -> PathUse {
    let tier = match (flags >> 2 & 1, flags >> 3 & 3) {
        (0, _) => PathTier::Primary,
        (_, 1) => PathTier::Secondary,
        (_, 2) => PathTier::Backup,
        _ => PathTier::Detour,
    };
    PathUse { tier, is_sparse_only: flags >> 5 & 1 == 1 }
}

fn parse_frame<'a>(r: &mut ByteReader<'a>) -> Result<Frame<'a>, WireError> {
    Ok(match r.u8()? {
        PADDING => Frame::Padding,
        REPORT => Frame::Report(ReceptionReport::parse(r)?),
        PING => Frame::Ping { token: r.u32()? },
        PONG => Frame::Pong { token: r.u32()?, path: PathId(r.u8()?) },
        HOLD => Frame::Hold { hold_us: r.u32()? },
        SKIP => {
            let (flow, first) = (FlowId(r.u16()?), FlowSeq::new(r.u24()?));
            Frame::Skip { flow, first, count: skip_count(r.varint()?)? }
        }
        POLICY => {
            let flags = r.u8()?;
            let [bundle_toward_me, path_active] = [1, 2].map(|bit| flags & bit != 0);
            Frame::Policy { bundle_toward_me, path_active, path_use: use_of_bits(flags) }
        }
        CLOSE => Frame::Close { reason: r.u8()? },
        VPN => Frame::Vpn { vpn: vpn_id(r.u32()?)?, index: r.u32()?, wants_index: r.u8()? & 1 != 0 },
        LOOP_MARKER => Frame::LoopMarker { vpn: vpn_id(r.u32()?)?, marker: loop_data::read_marker(r)? },
        LOOP_REPORT => Frame::LoopReport { vpn: vpn_id(r.u32()?)?, report: loop_data::read_report(r)? },
        NEIGHBOUR => {
            let (node, flags) = (Label(r.u32()?), r.u8()?);
            Frame::Neighbour(Neighbour { node, is_reachable: flags & 1 != 0, rtt_us: r.u32()?, loss: r.u8()? })
        }
        REVOCATION => Frame::Revocation(RevocationView::read(r)?),
        OVERLAY => {
            let len = r.u16()?;
            Frame::Overlay(r.slice(len.into())?)
        }
        CHIRP => Frame::Chirp(Chirp::read(r)?),
        CHIRPED => Frame::Chirped(Chirped::read(r)?),
        GONE => Frame::Gone { path: PathId(r.u8()?) },
        LINK => {
            let len = usize::from(r.u8()?);
            Frame::Link(link_name(core::str::from_utf8(r.slice(len)?).map_err(|_| WireError::Malformed)?)?)
        }
        LOAD => Frame::Load(TransitLoad::read(r)?),
        _ => return Err(WireError::UnknownType),
    })
}

fn link_name(name: &str) -> Result<&str, WireError> {
    if (1..=MAX_LINK_NAME).contains(&name.len()) { Ok(name) } else { Err(WireError::Malformed) }
}

/// Returns the VPN with this number. Fails for the default VPN, whose packets use the session's own index.
fn vpn_id(number: u32) -> Result<VpnId, WireError> {
    if number == VpnId::DEFAULT.0 { Err(WireError::Malformed) } else { Ok(VpnId(number)) }
}

/// Returns the number of units in a SKIP frame. Fails if it is outside 1..=2^23.
///
/// Serial-number arithmetic can order numbers only within half of the sequence space of 2^24 numbers.
fn skip_count(count: u64) -> Result<u32, WireError> {
    if (1..=1 << 23).contains(&count) { Ok(count as u32) } else { Err(WireError::Malformed) }
}

/// Writes up to [`MAX_FRAMES`] frames. A frame that does not fit is rejected and leaves the buffer unchanged.
#[derive(Debug)]
pub struct FrameWriter<'a> {
    out: Writer<'a>,
    /// Maximum number of frames that may still be written.
    left: usize,
}

impl<'a> FrameWriter<'a> {
    /// Creates a writer that starts at the beginning of `out`.
    pub fn new(out: &'a mut [u8]) -> Self {
        FrameWriter { out: Writer::new(out), left: MAX_FRAMES }
    }

    /// Number of bytes written so far.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// True if nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.out.len() == 0
    }

    /// Number of bytes that are still free.
    pub fn room(&self) -> usize {
        self.out.room()
    }

    /// Number of frames that may still be written, if they have space.
    pub fn frames_left(&self) -> usize {
        self.left
    }

    /// Writes one frame at the current position.
    ///
    /// # Errors
    /// [`WireError::NoRoom`], or [`WireError::Malformed`] for a value that the format cannot represent.
    pub fn write(&mut self, frame: &Frame<'_>) -> Result<(), WireError> {
        if let Frame::Report(report) = frame {
            return self.write_report(&report.arrivals, report.ranges(), MAX_REPORT_RANGES + 1).map(|_| ());
        }
        self.whole_or_nothing(|w| match *frame {
            Frame::Padding | Frame::Report(_) => w.u8(PADDING),
            Frame::Ping { token } => w.u8(PING).and_then(|()| w.u32(token)),
            Frame::Pong { token, path } => {
                w.u8(PONG)?;
                w.u32(token)?;
                w.u8(path.0)
            }
            Frame::Hold { hold_us } => w.u8(HOLD).and_then(|()| w.u32(hold_us)),
            Frame::Skip { flow, first, count } => {
                w.u8(SKIP)?;
                w.u16(flow.0)?;
                w.u24(first.get())?;
                w.varint(skip_count(u64::from(count))?.into())
            }
            Frame::Policy { bundle_toward_me, path_active, path_use } => {
                let flags = u8::from(bundle_toward_me) | u8::from(path_active) << 1 | use_bits(path_use);
                w.put(&[POLICY, flags])
            }
            Frame::Close { reason } => w.put(&[CLOSE, reason]),
            Frame::Gone { path } => w.put(&[GONE, path.0]),
            Frame::Vpn { vpn, index, wants_index } => {
                w.u8(VPN)?;
                w.u32(vpn_id(vpn.0)?.0)?;
                w.u32(index)?;
                w.u8(wants_index.into())
            }
            Frame::LoopMarker { vpn, marker: OfRun { run, what } } => {
                w.u8(LOOP_MARKER)?;
                w.u32(vpn_id(vpn.0)?.0)?;
                loop_data::write_marker(w, run, &what)
            }
            Frame::LoopReport { vpn, report: OfRun { run, what } } => {
                w.u8(LOOP_REPORT)?;
                w.u32(vpn_id(vpn.0)?.0)?;
                loop_data::write_report(w, run, &what)
            }
            Frame::Neighbour(Neighbour { node, is_reachable, rtt_us, loss }) => {
                w.u8(NEIGHBOUR)?;
                w.u32(node.0)?;
                w.u8(is_reachable.into())?;
                w.u32(rtt_us)?;
                w.u8(loss)
            }
            Frame::Chirp(chirp) => w.u8(CHIRP).and_then(|()| chirp.write(w)),
            Frame::Chirped(ref chirped) => w.u8(CHIRPED).and_then(|()| chirped.write(w)),
            Frame::Revocation(revocation) => w.u8(REVOCATION).and_then(|()| w.put(&revocation.emit())),
            Frame::Link(name) => {
                let name = link_name(name)?;
                w.u8(LINK)?;
                w.u8(name.len() as u8)?;
                w.put(name.as_bytes())
            }
            Frame::Load(ref load) => w.u8(LOAD).and_then(|()| load.emit(w)),
            Frame::Overlay(message) => {
                w.u8(OVERLAY)?;
                w.u16(u16::try_from(message.len()).map_err(|_| WireError::Malformed)?)?;
                w.put(message)
            }
        })
    }

    /// Writes a report of the packet numbers in `ranges`, and returns the number of ranges written.
    ///
    /// `ranges` must be in descending order and not adjacent. At most `max_ranges` are written, fewer if they do not
    /// fit. The smallest packet numbers are omitted first.
    ///
    /// # Errors
    /// [`WireError::NoRoom`] if not even the first range fits. [`WireError::Malformed`] if there is no range, if the
    /// ranges are not in descending order, or if a value is above 2^62 − 1.
    pub fn write_report(
        &mut self,
        arrivals: &ReportCounters,
        ranges: impl IntoIterator<Item = RangeInclusive<u64>>,
        max_ranges: usize,
    ) -> Result<usize, WireError> {
        let mut ranges = ranges.into_iter();
        let first = ranges.next().ok_or(WireError::Malformed)?;
        self.whole_or_nothing(|w| {
            write_arrivals(w, arrivals, &first)?;
            write_more_ranges(w, *first.start(), ranges, max_ranges)
        })
    }

    /// Writes a [`Frame::Chirped`] with the delays of the datagrams of a received train, in microseconds.
    ///
    /// # Errors
    /// [`WireError::NoRoom`]; [`WireError::Malformed`] for a train without packets, or with more than
    /// [`train::MAX_TRAIN`].
    pub fn write_chirped(&mut self, path: PathId, train: u16, delays_us: &[Option<u32>]) -> Result<(), WireError> {
        self.whole_or_nothing(|w| w.u8(CHIRPED).and_then(|()| train::write_delays(w, path, train, delays_us)))
    }

    fn whole_or_nothing<T>(
        &mut self,
        write: impl FnOnce(&mut Writer<'a>) -> Result<T, WireError>,
    ) -> Result<T, WireError> {
        let left = self.left.checked_sub(1).ok_or(WireError::NoRoom)?;
        let before = self.out.len();
        let result = write(&mut self.out);
        match result {
            Ok(_) => self.left = left,
            Err(_) => self.out.truncate(before),
        }
        result
    }
}

fn write_arrivals(w: &mut Writer<'_>, a: &ReportCounters, first: &RangeInclusive<u64>) -> Result<(), WireError> {
    let (smallest, largest) = (*first.start(), *first.end());
    w.u8(REPORT)?;
    w.u8(a.path.0)?;
    w.varint(largest)?;
    w.u32(a.received_at_us)?;
    w.varint(a.held_us)?;
    w.varint(a.packets_received)?;
    w.varint(a.bytes_received)?;
    w.varint(a.ce_received)?;
    w.varint(largest.checked_sub(smallest).ok_or(WireError::Malformed)?)
}

/// Writes the number of ranges after the first one, and these ranges. Returns the number of all ranges.
///
/// If that number may exceed 63, it is written as a varint of two bytes. Its place must be reserved, because it is
/// known only after the ranges are written.
fn write_more_ranges(
    w: &mut Writer<'_>,
    mut smallest: u64,
    ranges: impl Iterator<Item = RangeInclusive<u64>>,
    max_ranges: usize,
) -> Result<usize, WireError> {
    let limit = max_ranges.saturating_sub(1).min(MAX_REPORT_RANGES);
    let wide = limit > 63;
    let count_at = w.len();
    w.put(if wide { &[0x40, 0] } else { &[0] })?;
    let mut count = 0u16;
    for range in ranges.take(limit) {
        let before = w.len();
        match write_range(w, smallest, &range) {
            Ok(()) => (count, smallest) = (count + 1, *range.start()),
            Err(WireError::NoRoom) => {
                w.truncate(before);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    if wide {
        w.patch(count_at, &(0x4000 | count).to_be_bytes())?
    } else {
        w.patch(count_at, &[count as u8])?
    }
    Ok(usize::from(count) + 1)
}

fn write_range(w: &mut Writer<'_>, smallest: u64, range: &RangeInclusive<u64>) -> Result<(), WireError> {
    let gap = smallest.checked_sub(*range.end()).and_then(|n| n.checked_sub(2)).ok_or(WireError::Malformed)?;
    let length = range.end().checked_sub(*range.start()).ok_or(WireError::Malformed)?;
    w.varint(gap)?;
    w.varint(length)
}
