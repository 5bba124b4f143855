//! Egress: joins arrived units into packets and super-packets for the TUN device, as GRO would.
//!
//! Each peer has an output of its own. Peers take turns at the device, so that a burst of one peer delays no packet
//! of another. The output never reorders the units that it is given.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;
use hashbrown::HashMap;
use weft_core::flow::hash::SeededState;
use weft_core::pool::{BufId, Pool};
use weft_flows::table::FlowRef;
use weft_units::planted::{self, Fault};
use weft_units::{FlowId, FlowSeq, VpnId};
use weft_wire::ecn::{Decapsulated, DscpModel, decapsulate};
use weft_wire::er_sig::Direction;
use weft_wire::inner::{InnerHeader, UnitKind};
use weft_wire::ip::{self, Ecn};
use weft_wire::super_packet::{MAX_HEADER_LEN, Run};
use weft_wire::virtio::VNET_HEADER_LEN;

/// Maximum number of payload pieces of one write to a TUN device, besides the headers.
const MAX_PIECES: usize = 64;
/// Number of writes to TUN devices for which an empty output keeps memory.
///
/// *Derived*: one turn of the daemon usually delivers this number. Only a release of held units adds more.
const USUAL_WRITES: usize = 1_024;
/// Number of payload pieces for which an empty output keeps memory.
const USUAL_PIECES: usize = 8_192;
/// Maximum number of bytes of a head slice: its header and one segment.
const HEAD_ROOM: usize = 2_048;

/// A unit that arrived, whether it was delivered or waits for earlier units.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    pub buf: BufId,
    pub vpn: VpnId,
    pub start: usize,
    pub len: usize,
    pub inner: InnerHeader,
    pub outer_tos: u8,
}

impl Arrived {
    pub fn bytes<'a>(&self, pool: &'a Pool) -> &'a [u8] {
        pool.bytes(self.buf).get(self.start..self.start + self.len).unwrap_or_default()
    }
}

/// Maximum number of flows whose heads (segments with a header) are kept.
///
/// When one more flow would exceed it, all kept heads are discarded. Later slices of their super-packets that arrive
/// after the head was written are then dropped.
const MAX_HEADS: usize = 4_096;

/// The last head (segment with its header) of a flow.
///
/// Only its header is kept, for slices without a header that arrive after the head was written.
struct Head {
    vpn: VpnId,
    seq: FlowSeq,
    len: u16,
    /// Length of the head's header, in bytes.
    header_len: u16,
    header: [u8; MAX_HEADER_LEN],
}

impl Head {
    /// Writes the head's packet into `room`: the packet's header, followed by zeros in place of its payload.
    fn packet<'a>(&self, room: &'a mut [u8; HEAD_ROOM]) -> &'a [u8] {
        room[..MAX_HEADER_LEN].copy_from_slice(&self.header);
        &room[..usize::from(self.len)]
    }
}

/// The last heads (segments with their headers) of a peer's flows.
struct Heads {
    by_flow: HashMap<FlowId, Head, SeededState>,
}

impl Heads {
    /// Keeps a flow's newest head (segment with its header), whose header has `header_len` bytes.
    fn keep(&mut self, vpn: VpnId, flow: FlowId, seq: FlowSeq, packet: &[u8], header_len: usize) {
        let Some(len) = u16::try_from(packet.len()).ok().filter(|len| usize::from(*len) <= HEAD_ROOM) else { return };
        if self.by_flow.len() >= MAX_HEADS && !self.by_flow.contains_key(&flow) {
            self.by_flow.clear();
        }
        let mut header = [0; MAX_HEADER_LEN];
        let known = packet.len().min(MAX_HEADER_LEN);
        header[..known].copy_from_slice(&packet[..known]);
        self.by_flow.insert(flow, Head { vpn, seq, len, header_len: header_len as u16, header });
    }

    fn get(&self, vpn: VpnId, flow: FlowId, seq: FlowSeq) -> Option<&Head> {
        let any = planted::is(Fault::SliceOnAnyHead);
        self.by_flow.get(&flow).filter(|h| any || (h.vpn, h.seq) == (vpn, seq))
    }
}

/// A run of segments of one flow that will become one write to a TUN device.
struct Open {
    /// The VPN and the flow of the run. A flow number may be reused by another VPN.
    origin: (VpnId, FlowId),
    head_seq: FlowSeq,
    next_tail: u8,
    run: Run,
    /// Header of the run's first packet, from which the write's header is made.
    first: [u8; MAX_HEADER_LEN],
    first_len: usize,
    pieces: usize,
}

/// The state of a flow in the flow table, and the direction in which the arriving packets travel.
pub type DirectedFlow = (FlowRef, Direction);

/// One write to a TUN device that is complete and waits for its turn.
struct Write {
    vpn: VpnId,
    header: [u8; Run::MAX_EMITTED_LEN],
    header_len: usize,
    pieces: usize,
}

#[derive(Clone, Copy)]
struct Piece {
    buf: BufId,
    start: usize,
    len: usize,
}

/// VPN, destination and length of the next packet in a peer's output.
pub struct Front {
    pub vpn: VpnId,
    /// Destination of the packet. `None` if the packet could not be built.
    pub destination: Option<IpAddr>,
    /// Length of the packet with the virtio-net header, in bytes.
    pub len: usize,
}

/// The output of a peer: its packets that wait to be written to the TUN devices, in order.
pub struct Output {
    heads: Heads,
    open: Option<Open>,
    writes: VecDeque<Write>,
    /// Payload pieces of all writes in order, followed by those of the open run.
    pieces: VecDeque<Piece>,
    /// Units dropped because their head is unknown or they are malformed.
    pub orphans: u64,
    /// State in the flow table of the latest flow with each flow number, for slices, which have no header.
    states: Vec<Option<DirectedFlow>>,
    /// For each flow number, true if the rules of access dropped the flow's last packet.
    refused: Vec<bool>,
}

impl Output {
    pub fn new(seed: u64) -> Output {
        let heads = Heads { by_flow: HashMap::with_hasher(SeededState::new(seed)) };
        Output {
            heads,
            open: None,
            writes: VecDeque::new(),
            pieces: VecDeque::new(),
            orphans: 0,
            states: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Deletes all stored heads, because the peer restarted. Delivered units are still written.
    ///
    /// A head is a segment with a header.
    pub fn forget_heads(&mut self) {
        self.heads.by_flow.clear();
    }

    /// Returns the length of the header in the flow's last head, in bytes, or `None` if no head is stored.
    ///
    /// Slices of the flow have the same header.
    pub fn header_len(&self, vpn: VpnId, flow: FlowId) -> Option<usize> {
        let head = self.heads.by_flow.get(&flow).filter(|head| head.vpn == vpn)?;
        Some(head.header_len.into())
    }

    /// Returns the flow-table state of the flow to which a slice without a header belongs, if flow state is kept.
    pub fn state(&self, flow: FlowId) -> Option<DirectedFlow> {
        self.states.get(usize::from(flow.0)).copied().flatten()
    }

    /// Records the flow-table state of the flow to which the peer now gives this flow number.
    pub fn set_state(&mut self, flow: FlowId, state: Option<DirectedFlow>) {
        let at = usize::from(flow.0);
        if self.states.len() <= at {
            self.states.resize(at + 1, None);
        }
        self.states[at] = state;
    }

    /// True if the rules of access dropped the last packet of this flow.
    pub fn is_refused(&self, flow: FlowId) -> bool {
        self.refused.get(usize::from(flow.0)).copied().unwrap_or(false)
    }

    /// Records whether the rules of access dropped the last packet of this flow.
    pub fn set_refused(&mut self, flow: FlowId, is_refused: bool) {
        let at = usize::from(flow.0);
        if self.refused.len() <= at && is_refused {
            self.refused.resize(at + 1, false);
        }
        if let Some(place) = self.refused.get_mut(at) {
            *place = is_refused;
        }
    }

    /// Returns the number of buffers that wait to be written.
    pub fn buffers(&self) -> usize {
        self.pieces.len()
    }

    /// Adds a delivered unit to the output, and takes ownership of the unit's buffer reference.
    pub fn add(&mut self, pool: &mut Pool, flow: FlowId, seq: FlowSeq, unit: Arrived) {
        let placed = match unit.inner.kind {
            UnitKind::TailSlice => self.add_tail(flow, seq, &unit),
            _ => self.add_packet(pool, flow, seq, &unit),
        };
        if placed.is_none() {
            self.orphans += 1;
            pool.release(unit.buf);
        }
    }

    fn add_packet(&mut self, pool: &mut Pool, flow: FlowId, seq: FlowSeq, unit: &Arrived) -> Option<()> {
        let packet = pool.bytes_mut(unit.buf).get_mut(unit.start..unit.start + unit.len)?;
        restore_tos(packet, unit.outer_tos)?;
        let kind = unit.inner.kind;
        let run = Run::begin(kind, packet).ok()?;
        if kind == UnitKind::HeadSlice {
            self.heads.keep(unit.vpn, flow, seq, packet, run.header_len());
        }
        let origin = (unit.vpn, flow);
        if self.join(origin, seq, kind, packet, unit) {
            return Some(());
        }
        self.close();
        let packet = unit.bytes(pool);
        let first_len = packet.len().min(MAX_HEADER_LEN);
        let mut first = [0; MAX_HEADER_LEN];
        first[..first_len].copy_from_slice(&packet[..first_len]);
        let header = run.header_len();
        self.pieces.push_back(Piece { buf: unit.buf, start: unit.start + header, len: unit.len - header });
        self.open = Some(Open { origin, head_seq: seq, next_tail: 1, run, first, first_len, pieces: 1 });
        Some(())
    }

    /// Tries to append a packet to the open run, as GRO would. Returns false if the packet does not fit the run.
    fn join(&mut self, origin: (VpnId, FlowId), seq: FlowSeq, kind: UnitKind, packet: &[u8], unit: &Arrived) -> bool {
        let Some(open) = self.open.as_mut().filter(|o| o.origin == origin) else { return false };
        if open.pieces >= MAX_PIECES || !open.run.join(&open.first[..open.first_len], kind, packet) {
            return false;
        }
        (open.head_seq, open.next_tail) = (seq, 1);
        open.pieces += 1;
        let header = open.run.header_len();
        self.pieces.push_back(Piece { buf: unit.buf, start: unit.start + header, len: unit.len - header });
        true
    }

    fn add_tail(&mut self, flow: FlowId, seq: FlowSeq, unit: &Arrived) -> Option<()> {
        let (index, is_last) = (unit.inner.index, unit.inner.last);
        let head_seq = seq.plus(-i32::from(index));
        let piece = Piece { buf: unit.buf, start: unit.start, len: unit.len };
        // A congestion mark belongs to this slice alone. In a write with other segments, the mark would apply to all
        // of them, so a marked slice joins no run.
        let marked = Ecn::of(unit.outer_tos) == Ecn::Ce;
        let origin = (unit.vpn, flow);
        let same = |o: &&mut Open| !marked && o.origin == origin && o.head_seq == head_seq && o.next_tail == index;
        if let Some(open) = self.open.as_mut().filter(same)
            && open.pieces < MAX_PIECES
            && open.run.push_tail(unit.len, is_last).is_ok()
        {
            open.next_tail += 1;
            open.pieces += 1;
            self.pieces.push_back(piece);
            return Some(());
        }
        let mut room = [0; HEAD_ROOM];
        let head = self.heads.get(unit.vpn, flow, head_seq)?.packet(&mut room);
        let further = u8::from(planted::is(Fault::SliceTooFar));
        let run = Run::begin_with_tail(head, index + further, unit.len, is_last).ok()?;
        self.close();
        let first_len = head.len().min(MAX_HEADER_LEN);
        let mut first = [0; MAX_HEADER_LEN];
        first[..first_len].copy_from_slice(&head[..first_len]);
        restore_tos(&mut first[..first_len], unit.outer_tos)?;
        self.pieces.push_back(piece);
        self.open = Some(Open { origin, head_seq, next_tail: index + 1, run, first, first_len, pieces: 1 });
        if marked {
            self.close();
        }
        Some(())
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let mut header = [0; Run::MAX_EMITTED_LEN];
        let header_len = open.run.emit(&open.first[..open.first_len], &mut header).unwrap_or(0);
        self.writes.push_back(Write { vpn: open.origin.0, header, header_len, pieces: open.pieces });
    }

    /// Passes at most `most` packets to `write`, each as its VPN and the pieces that form it.
    ///
    /// Releases the buffers, and returns the number of packets passed.
    pub fn drain(&mut self, most: usize, pool: &mut Pool, write: &mut impl FnMut(VpnId, &[&[u8]])) -> usize {
        for done in 0..most {
            let Some(w) = self.next_write() else {
                self.writes.shrink_to(USUAL_WRITES);
                self.pieces.shrink_to(USUAL_PIECES);
                return done;
            };
            let mut gather: [&[u8]; MAX_PIECES + 1] = [&[]; MAX_PIECES + 1];
            gather[0] = w.header.get(..w.header_len).unwrap_or_default();
            for (slot, piece) in gather.iter_mut().skip(1).zip(self.pieces.iter().take(w.pieces)) {
                *slot = pool.bytes(piece.buf).get(piece.start..piece.start + piece.len).unwrap_or_default();
            }
            if w.header_len > 0 {
                write(w.vpn, &gather[..=w.pieces]);
            }
            self.release(w.pieces, pool);
        }
        most
    }

    /// Drops the oldest packets of the output until `buffers` buffers are free, because buffers are short.
    ///
    /// Returns the number of packets dropped.
    pub fn shed(&mut self, buffers: usize, pool: &mut Pool) -> u64 {
        let (enough, mut dropped) = (self.pieces.len().saturating_sub(buffers), 0);
        while self.pieces.len() > enough
            && let Some(w) = self.next_write()
        {
            self.release(w.pieces, pool);
            dropped += 1;
        }
        dropped
    }

    /// Returns VPN, destination and length of the first packet of the output, or `None` if the output is empty.
    pub fn front(&mut self, pool: &Pool) -> Option<Front> {
        if self.writes.is_empty() {
            self.close();
        }
        let write = self.writes.front()?;
        let pieces = self.pieces.iter().take(write.pieces);
        let len = write.header_len + pieces.map(|piece| piece.len).sum::<usize>();
        // If the write has no IP header of its own, its only piece is a whole packet and begins with the header.
        let packet = match write.header.get(VNET_HEADER_LEN..write.header_len) {
            Some(header) if !header.is_empty() => header,
            _ => self.pieces.front().and_then(|p| pool.bytes(p.buf).get(p.start..p.start + p.len)).unwrap_or_default(),
        };
        Some(Front { vpn: write.vpn, destination: destination_of(packet), len })
    }

    fn next_write(&mut self) -> Option<Write> {
        if self.writes.is_empty() {
            self.close();
        }
        self.writes.pop_front()
    }

    fn release(&mut self, pieces: usize, pool: &mut Pool) {
        self.pieces.drain(..pieces.min(self.pieces.len())).for_each(|piece| pool.release(piece.buf));
    }
}

/// Returns the destination of a packet, or `None` if it is not IP. `header` holds at least the fixed IP header.
fn destination_of(header: &[u8]) -> Option<IpAddr> {
    match header.first()? >> 4 {
        4 => header.get(16..20)?.first_chunk::<4>().map(|octets| IpAddr::from(*octets)),
        6 => header.get(24..40)?.first_chunk::<16>().map(|octets| IpAddr::from(*octets)),
        _ => None,
    }
}

/// Copies the outer header's congestion mark into the packet (RFC 6040). Returns `None` if the RFC requires a drop.
fn restore_tos(packet: &mut [u8], outer_tos: u8) -> Option<()> {
    let inner = ip::tos(packet).ok()?;
    match decapsulate(inner, outer_tos, DscpModel::Pipe) {
        Decapsulated::Tos(tos) if tos == inner => Some(()),
        Decapsulated::Tos(tos) => ip::set_tos(packet, tos).ok(),
        Decapsulated::Drop => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use weft_core::pool::Limits;
    use weft_wire::inner::HeaderForm;

    const PAYLOAD: usize = 100;

    fn head(source: u8) -> Vec<u8> {
        let total = 40 + PAYLOAD as u8;
        let mut packet = alloc::vec![0x45, 0, 0, total, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, source, 10, 0, 0, 9];
        packet.extend([0, 80, 0, 7, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        packet.extend([source; PAYLOAD]);
        packet
    }

    fn unit(pool: &mut Pool, kind: UnitKind, index: u8, bytes: &[u8]) -> Arrived {
        let buf = pool.alloc(bytes.len()).unwrap();
        pool.bytes_mut(buf)[..bytes.len()].copy_from_slice(bytes);
        let (form, seq) = (HeaderForm::Whole, FlowSeq::new(index.into()));
        let inner = InnerHeader { kind, last: index > 0, index, form, flow: FlowId(3), seq };
        Arrived { buf, vpn: VpnId::DEFAULT, start: 0, len: bytes.len(), inner, outer_tos: 0 }
    }

    #[test]
    fn a_slice_never_joins_another_vpns_packet_of_the_same_number() {
        let mut pool = Pool::new(Limits { small: 10, large: 0 });
        let mut output = Output::new(0);
        let head = Arrived { vpn: VpnId(1), ..unit(&mut pool, UnitKind::HeadSlice, 0, &head(1)) };
        output.add(&mut pool, FlowId(3), FlowSeq::new(0), head);
        for vpn in [2, 1] {
            let tail = Arrived { vpn: VpnId(vpn), ..unit(&mut pool, UnitKind::TailSlice, 1, &[vpn as u8; PAYLOAD]) };
            output.add(&mut pool, FlowId(3), FlowSeq::new(1), tail);
        }
        let mut written = Vec::new();
        output.drain(usize::MAX, &mut pool, &mut |vpn, pieces| written.push((vpn, pieces[1..].concat())));
        assert_eq!(written, [(VpnId(1), alloc::vec![1; 2 * PAYLOAD])]);
        assert_eq!((output.orphans, pool.small_usage().in_use), (1, 0));
    }
}
