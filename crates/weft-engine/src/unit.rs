//! Units on their way out: what a data datagram carries, kept until its fate is known.

use alloc::vec::Vec;
use core::ops::Range;
use weft_core::pool::{BufId, Pool};
use weft_units::planted::{self, Fault};
use weft_units::{FlowId, FlowSeq, Instant, VpnId};
use weft_wire::inner::{self, GRANULE, UnitKind};
use weft_wire::loop_data::{Marker, OfRun};
use weft_wire::super_packet::SuperPacket;
use weft_wire::virtio::VNET_HEADER_LEN;

/// One segment of a packet from the TUN device, before it is scheduled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) buf: BufId,
    pub(crate) vpn: VpnId,
    pub(crate) flow: FlowId,
    pub(crate) shape: SuperPacket,
    pub(crate) number: u16,
    /// Tells super-packets apart, also where a buffer is used again.
    pub(crate) serial: u32,
    /// Outer TOS byte.
    pub(crate) tos: u8,
    /// The AQM marked it.
    pub(crate) marked: bool,
    pub(crate) born: Instant,
    pub(crate) is_tcp: bool,
    pub(crate) flow_hash: u32,
}

impl Segment {
    /// Bytes of payload beyond the header.
    pub(crate) fn payload_len(&self) -> usize {
        self.shape.payload(usize::from(self.number)).len()
    }

    /// The packet it is a segment of.
    pub(crate) fn packet<'a>(&self, pool: &'a Pool) -> &'a [u8] {
        pool.bytes(self.buf).get(VNET_HEADER_LEN..VNET_HEADER_LEN + self.shape.total_len()).unwrap_or_default()
    }

    pub(crate) fn is_last(&self) -> bool {
        self.number as usize + 1 >= self.shape.segments()
    }
}

/// A unit: a segment with its place in the flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    pub(crate) segment: Segment,
    pub(crate) kind: UnitKind,
    pub(crate) index: u8,
    pub(crate) seq: FlowSeq,
    pub(crate) urgent: bool,
    /// Bytes of the datagram it was last sent in, with the outer headers; zero before.
    pub(crate) sent_bytes: u16,
    /// What leaves with it, the first time it is sent.
    pub(crate) marker: Option<OfRun<Marker>>,
    pub(crate) deadline: Instant,
    /// Granules that arrived in parts, a bit each.
    pub(crate) arrived: u16,
    /// A part was lost, and what is missing waits to be repeated.
    pub(crate) repeating: bool,
    /// How often it was repeated.
    pub(crate) repeats: u8,
    /// Places that still name this unit: path queues and sent records.
    pub(crate) refs: u16,
    /// Its buffer is given back: it arrived, or was given up.
    pub(crate) settled: bool,
}

impl Unit {
    /// Header and payload bytes it puts into a datagram.
    pub(crate) fn len(&self) -> usize {
        let payload = self.segment.payload_len();
        if self.kind == UnitKind::TailSlice { payload } else { self.segment.shape.header_len() + payload }
    }

    /// Granules it has; `None` if it cannot be sent in parts.
    pub(crate) fn granules(&self) -> Option<u8> {
        inner::granules(self.len())
    }

    /// The granules from the first that is missing to the last, and how many the unit has.
    pub(crate) fn missing(&self) -> Option<(Range<u8>, u8)> {
        let of = self.granules()?;
        let missing = !self.arrived & bits(&(0..of));
        Some((missing.trailing_zeros() as u8..16 - missing.leading_zeros() as u8, of))
    }
}

/// A run of granules of one unit, in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) first: u8,
    pub(crate) end: u8,
}

impl Part {
    /// Where its bytes lie in a unit of `len` bytes.
    pub(crate) fn bytes(self, len: usize) -> Range<usize> {
        usize::from(self.first) * GRANULE..(usize::from(self.end) * GRANULE).min(len)
    }
}

/// Granules as a set.
pub(crate) fn bits(granules: &Range<u8>) -> u16 {
    granules.clone().fold(0, |set, granule| set | 1u16.checked_shl(granule.into()).unwrap_or(0))
}

/// A unit's place in the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitId(u32);

/// All units of a peer that are queued on a path or in flight.
#[derive(Default)]
pub(crate) struct Units {
    slots: Vec<Option<Unit>>,
    free: Vec<u32>,
}

impl Units {
    /// Takes over the buffer reference in `unit`.
    pub(crate) fn insert(&mut self, unit: Unit) -> UnitId {
        match self.free.pop() {
            Some(n) => {
                if let Some(slot) = self.slots.get_mut(n as usize) {
                    *slot = Some(unit);
                }
                UnitId(n)
            }
            None => {
                self.slots.push(Some(unit));
                self.free.reserve(self.slots.capacity());
                UnitId((self.slots.len() - 1) as u32)
            }
        }
    }

    pub(crate) fn get(&self, id: UnitId) -> Option<&Unit> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    /// Takes the marker off a unit.
    pub(crate) fn take_marker(&mut self, id: UnitId) -> Option<OfRun<Marker>> {
        self.slots.get_mut(id.0 as usize)?.as_mut()?.marker.take()
    }

    /// Still worth sending.
    pub(crate) fn is_live(&self, id: UnitId) -> bool {
        self.get(id).is_some_and(|u| !u.settled)
    }

    /// Notes the size of the datagram it is sent in.
    pub(crate) fn note_sent(&mut self, id: UnitId, sent_bytes: u16) {
        if let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) {
            unit.sent_bytes = sent_bytes;
        }
    }

    pub(crate) fn retain(&mut self, id: UnitId) {
        if let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) {
            unit.refs += 1;
        }
    }

    /// A part arrived: whether with it the whole unit has.
    pub(crate) fn part_arrived(&mut self, id: UnitId, part: Part) -> bool {
        let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) else { return false };
        unit.arrived |= bits(&(part.first..part.end));
        unit.missing().is_some_and(|(missing, _)| missing.is_empty())
    }

    /// A unit that waits for a path is given up at `at`.
    pub(crate) fn set_deadline(&mut self, id: UnitId, at: Instant) {
        if let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) {
            unit.deadline = at;
        }
    }

    /// Notes that it is repeated: how often it was by now.
    pub(crate) fn count_repeat(&mut self, id: UnitId) -> u8 {
        let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) else { return 0 };
        unit.repeats = unit.repeats.saturating_add(1);
        unit.repeats
    }

    /// A part was lost: whether that is a reason to repeat, which it is once for all parts of one transmission.
    pub(crate) fn part_lost(&mut self, id: UnitId, part: Part) -> bool {
        let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) else { return false };
        let lost = bits(&(part.first..part.end)) & !unit.arrived;
        !unit.settled && lost != 0 && !core::mem::replace(&mut unit.repeating, true)
    }

    /// What is missing of the unit is on its way: the next part lost is a reason to repeat again.
    pub(crate) fn parts_sent(&mut self, id: UnitId) {
        if let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) {
            unit.repeating = false;
        }
    }

    /// For how many units there is room.
    pub(crate) fn room(&self) -> usize {
        self.slots.capacity()
    }

    /// One place less names the unit.
    pub(crate) fn release(&mut self, id: UnitId, pool: &mut Pool) {
        let Some(slot) = self.slots.get_mut(id.0 as usize) else { return };
        let Some(unit) = slot else { return };
        unit.refs = unit.refs.saturating_sub(1);
        if unit.refs == 0 {
            if !unit.settled && !planted::is(Fault::AbandonedKeepsBuffer) {
                pool.release(unit.segment.buf);
            }
            *slot = None;
            self.free.push(id.0);
        }
    }

    /// Gives the buffer back; returns false if that was done before.
    pub(crate) fn settle(&mut self, id: UnitId, pool: &mut Pool) -> bool {
        match self.slots.get_mut(id.0 as usize) {
            Some(Some(unit)) if !unit.settled => {
                unit.settled = true;
                pool.release(unit.segment.buf);
                true
            }
            _ => false,
        }
    }

    /// Units held.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
