//! Outgoing units: the content of data datagrams, kept until its fate is known.
//!
//! A unit holds a reference to its packet's buffer. Path queues and records of sent packets refer to it by id. The
//! buffer is released when the unit arrives or is given up, and the slot when the last reference ends.

pub mod headers;

use alloc::vec::Vec;
use core::ops::Range;
use weft_core::pool::{BufId, Pool};
use weft_flows::table::FlowRef;
use weft_units::planted::{self, Fault};
use weft_units::{FlowId, FlowSeq, Instant, PeerId, VpnId};
use weft_wire::inner::{self, GRANULE, UnitKind};
use weft_wire::loop_data::{Marker, OfRun};
use weft_wire::super_packet::SuperPacket;
use weft_wire::virtio::VNET_HEADER_LEN;

/// Least MTU that IPv6 requires (RFC 8200 §5), in bytes. A path that carries less carries full packets in parts.
pub const INNER_MTU_MIN: u16 = 1280;

/// Origin of a packet that leaves for a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A host behind this node. The packet arrived on the TUN device.
    Host,
    /// Another peer: the packet is in transit.
    Peer(PeerId),
}

/// A whole packet or super-packet in its buffer, behind a virtio-net header.
#[derive(Clone, Copy, Debug)]
pub struct Whole {
    pub vpn: VpnId,
    pub buf: BufId,
    pub shape: SuperPacket,
}

/// One segment of a packet from the TUN device, before scheduling.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub buf: BufId,
    pub vpn: VpnId,
    pub flow: FlowId,
    /// State of the segment's flow, if flow state is kept.
    pub state: Option<FlowRef>,
    pub shape: SuperPacket,
    pub number: u16,
    /// Number that distinguishes super-packets even if a buffer is reused.
    pub serial: u32,
    /// TOS byte of the outer header.
    pub tos: u8,
    /// True if the ingress queue's AQM marked the segment for congestion (ECN).
    pub marked: bool,
    pub born: Instant,
    pub is_tcp: bool,
    pub flow_hash: u32,
}

impl Segment {
    /// Returns the segment's payload length, in bytes.
    pub fn payload_len(&self) -> usize {
        self.shape.payload(usize::from(self.number)).len()
    }

    /// Returns the packet to which the segment belongs.
    pub fn packet<'a>(&self, pool: &'a Pool) -> &'a [u8] {
        pool.bytes(self.buf).get(VNET_HEADER_LEN..VNET_HEADER_LEN + self.shape.total_len()).unwrap_or_default()
    }

    pub fn is_last(&self) -> bool {
        self.number as usize + 1 >= self.shape.segments()
    }
}

/// A unit: a segment with its sequence number in the flow.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    pub segment: Segment,
    pub kind: UnitKind,
    pub index: u8,
    pub seq: FlowSeq,
    pub urgent: bool,
    /// Size of the unit's last datagram with outer headers, in bytes. Zero before the first transmission.
    pub sent_bytes: u16,
    /// Loop marker that leaves with the first transmission.
    pub marker: Option<OfRun<Marker>>,
    pub deadline: Instant,
    /// Set of granules that arrived in parts, one bit for each granule.
    pub arrived: u16,
    /// True if a part was lost and the missing granules wait for retransmission.
    pub repeating: bool,
    /// Number of retransmissions.
    pub repeats: u8,
    /// Number of references to this unit in the path queues and in the paths' records of sent packets.
    pub refs: u16,
    /// Number of references in `refs` that are spare copies. They leave only if a path has nothing else to send.
    pub spares: u16,
    /// True if the buffer was released, because the unit arrived or was given up.
    pub settled: bool,
}

impl Unit {
    /// Returns the number of references in path queues and records of sent packets, without spare copies.
    pub fn carriers(&self) -> u16 {
        self.refs.saturating_sub(self.spares)
    }

    /// Returns the header and payload bytes that the unit takes in a datagram.
    pub fn len(&self) -> usize {
        let payload = self.segment.payload_len();
        if self.kind == UnitKind::TailSlice { payload } else { self.segment.shape.header_len() + payload }
    }

    /// Returns the number of granules, or `None` if the unit cannot be sent in parts.
    pub fn granules(&self) -> Option<u8> {
        inner::granules(self.len())
    }

    /// Returns the range from the first to the last missing granule, and the number of the unit's granules.
    ///
    /// `None` if the unit cannot be sent in parts.
    pub fn missing(&self) -> Option<(Range<u8>, u8)> {
        let of = self.granules()?;
        let missing = !self.arrived & bits(&(0..of));
        Some((missing.trailing_zeros() as u8..16 - missing.leading_zeros() as u8, of))
    }
}

/// A part of a unit that is in flight: a range of the unit's granules.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub first: u8,
    pub end: u8,
}

impl Part {
    /// Returns the range of the part's bytes within a unit of `len` bytes.
    pub fn bytes(self, len: usize) -> Range<usize> {
        usize::from(self.first) * GRANULE..(usize::from(self.end) * GRANULE).min(len)
    }
}

/// Returns a range of granules as a set of bits.
pub fn bits(granules: &Range<u8>) -> u16 {
    granules.clone().fold(0, |set, granule| set | 1u16.checked_shl(granule.into()).unwrap_or(0))
}

/// Index of a unit in [`Units`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitId(u32);

/// All units of a peer that are queued on a path or in flight.
#[derive(Default)]
pub struct Units {
    slots: Vec<Option<Unit>>,
    free: Vec<u32>,
}

impl Units {
    /// Adds a unit, which takes over a reference to its packet's buffer. Returns the unit's id.
    pub fn insert(&mut self, unit: Unit) -> UnitId {
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

    pub fn get(&self, id: UnitId) -> Option<&Unit> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    /// Removes and returns a unit's marker, if it has one.
    pub fn take_marker(&mut self, id: UnitId) -> Option<OfRun<Marker>> {
        self.slots.get_mut(id.0 as usize)?.as_mut()?.marker.take()
    }

    /// True if the unit has neither arrived nor been given up.
    pub fn is_live(&self, id: UnitId) -> bool {
        self.get(id).is_some_and(|u| !u.settled)
    }

    /// Records the size of the unit's last datagram, with outer headers, in bytes.
    pub fn note_sent(&mut self, id: UnitId, sent_bytes: u16) {
        if let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) {
            unit.sent_bytes = sent_bytes;
        }
    }

    pub fn retain(&mut self, id: UnitId) {
        if let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) {
            unit.refs += 1;
        }
    }

    /// Counts a reference to the unit as a spare copy.
    pub fn add_spare(&mut self, id: UnitId) {
        if let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) {
            unit.spares += 1;
        }
    }

    /// Records that a spare copy left its queue.
    pub fn remove_spare(&mut self, id: UnitId) {
        if let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) {
            unit.spares = unit.spares.saturating_sub(1);
        }
    }

    /// Records that a part of a unit arrived at the peer. Returns true if the whole unit has arrived now.
    pub fn part_arrived(&mut self, id: UnitId, part: Part) -> bool {
        let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) else { return false };
        unit.arrived |= bits(&(part.first..part.end));
        unit.missing().is_some_and(|(missing, _)| missing.is_empty())
    }

    /// Sets the time at which a unit that waits for a path is given up.
    pub fn set_deadline(&mut self, id: UnitId, at: Instant) {
        if let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) {
            unit.deadline = at;
        }
    }

    /// Counts a retransmission, and returns the number of the unit's retransmissions so far.
    pub fn count_repeat(&mut self, id: UnitId) -> u8 {
        let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) else { return 0 };
        unit.repeats = unit.repeats.saturating_add(1);
        unit.repeats
    }

    /// Records a lost part. Returns true if it causes a retransmission, at most once for all parts of one transmission.
    pub fn part_lost(&mut self, id: UnitId, part: Part) -> bool {
        let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) else { return false };
        let lost = bits(&(part.first..part.end)) & !unit.arrived;
        !unit.settled && lost != 0 && !core::mem::replace(&mut unit.repeating, true)
    }

    /// Records that the missing granules were sent again. The next lost part causes another retransmission.
    pub fn parts_sent(&mut self, id: UnitId) {
        if let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) {
            unit.repeating = false;
        }
    }

    /// Replaces a unit, which keeps its buffer and its references.
    pub fn replace(&mut self, id: UnitId, by: Unit) {
        if let Some(Some(unit)) = self.slots.get_mut(id.0 as usize) {
            *unit = by;
        }
    }

    /// Returns the number of units for which memory is allocated.
    pub fn room(&self) -> usize {
        self.slots.capacity()
    }

    /// Releases one reference to the unit. The last release removes the unit.
    pub fn release(&mut self, id: UnitId, pool: &mut Pool) {
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

    /// Releases the buffer of a unit that arrived or was given up. Returns false if it was released before.
    pub fn release_packet(&mut self, id: UnitId, pool: &mut Pool) -> bool {
        match self.slots.get_mut(id.0 as usize) {
            Some(Some(unit)) if !unit.settled => {
                unit.settled = true;
                pool.release(unit.segment.buf);
                true
            }
            _ => false,
        }
    }

    /// Returns the number of units that are queued or in flight.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
