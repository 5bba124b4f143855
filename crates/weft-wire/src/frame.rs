//! Control frames: what the two ends of a session tell each other about paths and flows.

use crate::WireError;
use crate::bytes::{Reader, Writer};
use crate::certificate::{REVOCATION_LEN, Revocation};
use crate::loop_data::{self, MARKER_LEN, Marker, OfRun, Report as LoopReport};
use crate::relay::Label;
use crate::train::{self, Chirp, Chirped};
use core::ops::RangeInclusive;
use weft_units::{FlowId, FlowSeq, PathId, VpnId};

/// The most ranges a report may name besides its first.
pub const MAX_REPORT_RANGES: usize = 256;

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

/// The longest name a [`Frame::Link`] tells, in bytes. Linux allows 15 for an interface.
pub const MAX_LINK_NAME: usize = 32;

/// Bytes of a [`Frame::Revocation`].
pub const REVOCATION_FRAME_LEN: usize = 1 + REVOCATION_LEN;
/// Bytes of a [`Frame::Overlay`] beside its message.
pub const OVERLAY_FRAME_OVERHEAD: usize = 1 + 2;
/// Bytes of a [`Frame::LoopMarker`].
pub const LOOP_MARKER_LEN: usize = 1 + 4 + MARKER_LEN;

/// One frame of a control datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// One byte without a meaning.
    Padding,
    /// What arrived on a path.
    Report(Report<'a>),
    /// Asks for a pong with the same token.
    Ping {
        /// Chosen by the sender.
        token: u32,
    },
    /// Answers a ping.
    Pong {
        /// The ping's token.
        token: u32,
        /// The path the ping came by.
        path: PathId,
    },
    /// How long the receiver should wait for a hole in a flow before it goes on without.
    Hold {
        /// Microseconds.
        hold_us: u32,
    },
    /// Units that were given up: the receiver need not wait for them.
    Skip {
        /// The flow they belong to.
        flow: FlowId,
        /// The first of them.
        first: FlowSeq,
        /// How many, 1..=2^23.
        count: u32,
    },
    /// What the sender wishes the receiver to do. Bits not known are ignored.
    Policy {
        /// Use all paths together toward the sender.
        bundle_toward_me: bool,
        /// The path this frame comes by is one the sender uses for data, not one it only tries.
        path_active: bool,
        /// It is to carry data only while no other path answers.
        path_standby: bool,
        /// Tell the sender of no neighbours: it has no peer to which it would look for a way over the receiver.
        declines_neighbours: bool,
    },
    /// The sender ends the session.
    Close {
        /// Why; the session layer gives the numbers.
        reason: u8,
    },
    /// How the sender is addressed in a VPN, for as long as the key lives that sealed this frame. Flags not known are ignored.
    Vpn {
        /// The VPN, not [`VpnId::DEFAULT`].
        vpn: VpnId,
        /// The receiver index of its packets toward the sender; zero: the sender takes none from this peer.
        index: u32,
        /// The sender has packets for the receiver, and wants to be told the index there.
        wants_index: bool,
    },
    /// A marker of the loop of a VPN toward the receiver, when no packet of the VPN carries it.
    LoopMarker {
        /// The VPN, not [`VpnId::DEFAULT`].
        vpn: VpnId,
        /// The marker.
        marker: OfRun<Marker>,
    },
    /// A report on the loop of a VPN toward the sender.
    LoopReport {
        /// The VPN, not [`VpnId::DEFAULT`].
        vpn: VpnId,
        /// The report.
        report: OfRun<LoopReport>,
    },
    /// A node's certificates hold no more: whoever can check it acts by it, and passes it on.
    Revocation(Revocation),
    /// A node that the sender passes datagrams on to. Flags not known are ignored.
    Neighbour(Neighbour),
    /// A message of the overlay ([`crate::overlay::Message`]), not looked into.
    Overlay(&'a [u8]),
    /// A packet of a train that senses the path it comes by.
    Chirp(Chirp),
    /// What became of a train.
    Chirped(Chirped<'a>),
    /// The sender has given up a path that it opened. A newer datagram on the path takes that back.
    Gone {
        /// The path.
        path: PathId,
    },
    /// What the sender calls the link by which this path leaves there: 1 to [`MAX_LINK_NAME`] bytes, UTF-8. Nodes that do not know this
    /// frame read nothing behind it, so it comes last.
    Link(&'a str),
}

/// What a relay says of a node beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// The node.
    pub node: Label,
    /// Whether it can be reached; if not, the rest means nothing.
    pub is_reachable: bool,
    /// Round-trip time from the relay, in microseconds.
    pub rtt_us: u32,
    /// What is lost on the way there, in 1/256.
    pub loss: u8,
}

/// A report's counters. All but `held_us` are totals since the session began, which survive the loss of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrivals {
    /// The path, as the sender of the reported packets numbers it.
    pub path: PathId,
    /// When the largest packet number arrived: microseconds on the receiver's clock, wrapping.
    pub received_at_us: u32,
    /// Microseconds between that arrival and this report.
    pub held_us: u64,
    /// Datagrams received on the path.
    pub packets_received: u64,
    /// Bytes of those datagrams.
    pub bytes_received: u64,
    /// How many of them carried a CE mark.
    pub ce_received: u64,
}

/// A report as received: counters, and ranges that were checked when it was parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report<'a> {
    /// The counters.
    pub arrivals: Arrivals,
    first: (u64, u64),
    count: usize,
    encoded: &'a [u8],
}

impl<'a> Report<'a> {
    /// The packet number that arrived last at [`Arrivals::received_at_us`]: the largest.
    pub fn largest(&self) -> u64 {
        self.first.1
    }

    /// The ranges of packet numbers that arrived, from the largest downwards, never touching.
    pub fn ranges(&self) -> Ranges<'a> {
        Ranges { next: Some(self.first), left: self.count, encoded: self.encoded }
    }

    fn parse(r: &mut Reader<'a>) -> Result<Self, WireError> {
        let path = PathId(r.u8()?);
        let largest = r.varint()?;
        let arrivals = Arrivals {
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
        Ok(Report { arrivals, first: (smallest, largest), count, encoded })
    }
}

/// Reads one gap and length: the range below one that begins at `smallest` (RFC 9000 §19.3.1).
fn next_range(r: &mut Reader<'_>, smallest: u64) -> Result<(u64, u64), WireError> {
    let gap = r.varint()?;
    let end = smallest.checked_sub(gap).and_then(|n| n.checked_sub(2)).ok_or(WireError::Malformed)?;
    let start = end.checked_sub(r.varint()?).ok_or(WireError::Malformed)?;
    Ok((start, end))
}

/// Iterator over a report's ranges, from the largest downwards.
#[derive(Clone, Debug)]
pub struct Ranges<'a> {
    next: Option<(u64, u64)>,
    left: usize,
    encoded: &'a [u8],
}

impl Iterator for Ranges<'_> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        let (start, end) = self.next?;
        self.next = None;
        if let Some(left) = self.left.checked_sub(1) {
            let mut r = Reader::new(self.encoded);
            self.next = next_range(&mut r, start).ok();
            (self.left, self.encoded) = (left, r.rest());
        }
        Some(start..=end)
    }
}

/// Iterator over the frames of a control payload; ends after the first error.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    rest: Reader<'a>,
}

impl<'a> Frames<'a> {
    /// The frames of a decrypted control payload.
    pub fn new(plaintext: &'a [u8]) -> Self {
        Frames { rest: Reader::new(plaintext) }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.rest().is_empty() {
            return None;
        }
        let frame = parse_frame(&mut self.rest);
        if frame.is_err() {
            self.rest = Reader::new(&[]);
        }
        Some(frame)
    }
}

fn parse_frame<'a>(r: &mut Reader<'a>) -> Result<Frame<'a>, WireError> {
    Ok(match r.u8()? {
        PADDING => Frame::Padding,
        REPORT => Frame::Report(Report::parse(r)?),
        PING => Frame::Ping { token: r.u32()? },
        PONG => Frame::Pong { token: r.u32()?, path: PathId(r.u8()?) },
        HOLD => Frame::Hold { hold_us: r.u32()? },
        SKIP => {
            let (flow, first) = (FlowId(r.u16()?), FlowSeq::new(r.u24()?));
            Frame::Skip { flow, first, count: skip_count(r.varint()?)? }
        }
        POLICY => {
            let flags = r.u8()?;
            let [bundle_toward_me, path_active, path_standby, declines_neighbours] =
                [1, 2, 4, 8].map(|bit| flags & bit != 0);
            Frame::Policy { bundle_toward_me, path_active, path_standby, declines_neighbours }
        }
        CLOSE => Frame::Close { reason: r.u8()? },
        VPN => Frame::Vpn { vpn: vpn_id(r.u32()?)?, index: r.u32()?, wants_index: r.u8()? & 1 != 0 },
        LOOP_MARKER => Frame::LoopMarker { vpn: vpn_id(r.u32()?)?, marker: loop_data::read_marker(r)? },
        LOOP_REPORT => Frame::LoopReport { vpn: vpn_id(r.u32()?)?, report: loop_data::read_report(r)? },
        NEIGHBOUR => {
            let (node, flags) = (Label(r.u32()?), r.u8()?);
            Frame::Neighbour(Neighbour { node, is_reachable: flags & 1 != 0, rtt_us: r.u32()?, loss: r.u8()? })
        }
        REVOCATION => Frame::Revocation(Revocation::read(r)?),
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
        _ => return Err(WireError::UnknownType),
    })
}

fn link_name(name: &str) -> Result<&str, WireError> {
    if (1..=MAX_LINK_NAME).contains(&name.len()) { Ok(name) } else { Err(WireError::Malformed) }
}

/// The default VPN's packets go by the session's own index.
fn vpn_id(number: u32) -> Result<VpnId, WireError> {
    if number == VpnId::DEFAULT.0 { Err(WireError::Malformed) } else { Ok(VpnId(number)) }
}

/// Half the sequence space is the most that serial-number arithmetic can tell apart.
fn skip_count(count: u64) -> Result<u32, WireError> {
    if (1..=1 << 23).contains(&count) { Ok(count as u32) } else { Err(WireError::Malformed) }
}

/// Writes frames one after another; a frame that does not fit is refused and leaves no trace.
#[derive(Debug)]
pub struct FrameWriter<'a> {
    out: Writer<'a>,
}

impl<'a> FrameWriter<'a> {
    /// Writes from the start of `out`.
    pub fn new(out: &'a mut [u8]) -> Self {
        FrameWriter { out: Writer::new(out) }
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.out.len() == 0
    }

    /// Bytes that are still free.
    pub fn room(&self) -> usize {
        self.out.room()
    }

    /// Writes one frame.
    ///
    /// # Errors
    /// [`WireError::NoRoom`], or [`WireError::Malformed`] for a value the format has no place for.
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
            Frame::Policy { bundle_toward_me, path_active, path_standby, declines_neighbours } => {
                let flags = [bundle_toward_me, path_active, path_standby, declines_neighbours];
                let bits = flags.into_iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(flag));
                w.put(&[POLICY, bits])
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
            Frame::Overlay(message) => {
                w.u8(OVERLAY)?;
                w.u16(u16::try_from(message.len()).map_err(|_| WireError::Malformed)?)?;
                w.put(message)
            }
        })
    }

    /// Writes a report of `ranges`, which come from the largest downwards, sorted and not touching. Takes as many as
    /// fit and at most `max_ranges`; gives how many those were. The smallest ranges are the ones left out.
    ///
    /// # Errors
    /// [`WireError::NoRoom`] when not even the first range fits; [`WireError::Malformed`] when there is no range, the
    /// ranges are not descending, or a value is above 2^62 − 1.
    pub fn write_report(
        &mut self,
        arrivals: &Arrivals,
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

    /// Writes what became of a train.
    ///
    /// # Errors
    /// [`WireError::NoRoom`]; [`WireError::Malformed`] for a train without packets, or of more than [`train::MAX_TRAIN`].
    pub fn write_chirped(&mut self, path: PathId, train: u16, delays_us: &[Option<u32>]) -> Result<(), WireError> {
        self.whole_or_nothing(|w| w.u8(CHIRPED).and_then(|()| train::write_delays(w, path, train, delays_us)))
    }

    fn whole_or_nothing<T>(
        &mut self,
        write: impl FnOnce(&mut Writer<'a>) -> Result<T, WireError>,
    ) -> Result<T, WireError> {
        let before = self.out.len();
        let result = write(&mut self.out);
        if result.is_err() {
            self.out.truncate(before);
        }
        result
    }
}

fn write_arrivals(w: &mut Writer<'_>, a: &Arrivals, first: &RangeInclusive<u64>) -> Result<(), WireError> {
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

/// Writes the count and the ranges after the first. The count is a two-byte varint where it may be above 63, so that
/// it can be filled in at the end.
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
