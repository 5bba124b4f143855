//! Arrived units, joined again into packets and super-packets for the TUN device.

use alloc::boxed::Box;
use alloc::vec::Vec;
use hashbrown::HashMap;
use weft_core::flow::hash::SeededState;
use weft_core::pool::{BufId, Pool};
use weft_units::planted::{self, Fault};
use weft_units::{FlowId, FlowSeq, PeerId, VpnId};
use weft_wire::ecn::{Decapsulated, DscpModel, decapsulate};
use weft_wire::inner::{InnerHeader, UnitKind};
use weft_wire::ip::{self, Ecn, IpView};
use weft_wire::super_packet::{MAX_HEADER_LEN, Run};

/// Pieces of one write: the virtio-net header with the packet's own, and the payloads.
const MAX_PIECES: usize = 64;
/// Room for what one turn usually delivers. Address space only, until it is used.
const USUAL_WRITES: usize = 1_024;
const USUAL_PIECES: usize = 8_192;
/// A head is the header and one segment, whole.
const HEAD_ROOM: usize = 2_048;

/// A unit as it came, or as it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) buf: BufId,
    pub(crate) vpn: VpnId,
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) inner: InnerHeader,
    pub(crate) outer_tos: u8,
}

impl Arrived {
    pub(crate) fn bytes<'a>(&self, pool: &'a Pool) -> &'a [u8] {
        pool.bytes(self.buf).get(self.start..self.start + self.len).unwrap_or_default()
    }
}

/// A peer that opens more flows than this at once loses heads, and with them the tails that come late.
const MAX_HEADS: usize = 4_096;

/// The last head slice of a flow, for tails that come after its run was written.
struct Head {
    vpn: VpnId,
    seq: FlowSeq,
    len: usize,
    /// The head's packet: its header, and as many payload bytes as its length says.
    /// In a place of its own, so that the table of heads can grow without moving them.
    packet: Box<[u8; HEAD_ROOM]>,
}

/// The heads of a peer's flows.
pub(crate) struct Heads {
    peer: PeerId,
    by_flow: HashMap<FlowId, Head, SeededState>,
}

impl Heads {
    pub(crate) fn new(peer: PeerId, seed: u64) -> Heads {
        Heads { peer, by_flow: HashMap::with_hasher(SeededState::new(seed)) }
    }

    pub(crate) fn clear(&mut self) {
        self.by_flow.clear();
    }

    fn keep(&mut self, vpn: VpnId, flow: FlowId, seq: FlowSeq, packet: &[u8]) {
        let Some(len) = (packet.len() <= HEAD_ROOM).then_some(packet.len()) else { return };
        if self.by_flow.len() >= MAX_HEADS && !self.by_flow.contains_key(&flow) {
            self.by_flow.clear();
        }
        let head = self.by_flow.entry(flow).or_insert_with(|| Head { vpn, seq, len, packet: Box::new([0; HEAD_ROOM]) });
        (head.vpn, head.seq, head.len) = (vpn, seq, len);
        let header = len.min(MAX_HEADER_LEN);
        head.packet[..header].copy_from_slice(&packet[..header]);
    }

    /// Bytes of the header that the slices of a flow lately had.
    pub(crate) fn header_len(&self, vpn: VpnId, flow: FlowId) -> Option<usize> {
        let head = self.by_flow.get(&flow).filter(|head| head.vpn == vpn)?;
        let packet = IpView::parse(&head.packet[..head.len]).ok()?;
        Some(head.len - packet.tcp()?.payload().len())
    }

    fn get(&self, vpn: VpnId, flow: FlowId, seq: FlowSeq) -> Option<&[u8]> {
        let any = planted::is(Fault::SliceOnAnyHead);
        self.by_flow.get(&flow).filter(|h| any || (h.vpn, h.seq) == (vpn, seq)).map(|h| &h.packet[..h.len])
    }
}

/// A run of segments that will be one write.
struct Open {
    /// Each peer numbers its flows for itself, and gives a number to a flow of another VPN in time.
    origin: (PeerId, VpnId, FlowId),
    head_seq: FlowSeq,
    next_tail: u8,
    run: Run,
    /// The packet the run began with, where the header is taken from.
    first: [u8; MAX_HEADER_LEN],
    first_len: usize,
    pieces_from: usize,
}

/// A finished write.
struct Write {
    vpn: VpnId,
    header: [u8; Run::MAX_EMITTED_LEN],
    header_len: usize,
    pieces: core::ops::Range<usize>,
}

#[derive(Clone, Copy)]
struct Piece {
    buf: BufId,
    start: usize,
    len: usize,
}

/// Writes for the TUN devices, in order.
pub(crate) struct Output {
    open: Option<Open>,
    writes: Vec<Write>,
    pieces: Vec<Piece>,
    /// Units that could not be placed: no head, or malformed.
    pub(crate) orphans: u64,
}

impl Default for Output {
    fn default() -> Output {
        let (writes, pieces) = (Vec::with_capacity(USUAL_WRITES), Vec::with_capacity(USUAL_PIECES));
        Output { open: None, writes, pieces, orphans: 0 }
    }
}

impl Output {
    /// Adds a unit; takes over its buffer's reference.
    pub(crate) fn add(&mut self, heads: &mut Heads, pool: &mut Pool, flow: FlowId, seq: FlowSeq, unit: Arrived) {
        let placed = match unit.inner.kind {
            UnitKind::TailSlice => self.add_tail(heads, flow, seq, &unit),
            _ => self.add_packet(heads, pool, flow, seq, &unit),
        };
        if placed.is_none() {
            self.orphans += 1;
            pool.release(unit.buf);
        }
    }

    fn add_packet(
        &mut self,
        heads: &mut Heads,
        pool: &mut Pool,
        flow: FlowId,
        seq: FlowSeq,
        unit: &Arrived,
    ) -> Option<()> {
        let packet = pool.bytes_mut(unit.buf).get_mut(unit.start..unit.start + unit.len)?;
        restore_tos(packet, unit.outer_tos)?;
        let kind = unit.inner.kind;
        if kind == UnitKind::HeadSlice {
            heads.keep(unit.vpn, flow, seq, packet);
        }
        let run = Run::begin(kind, packet).ok()?;
        let origin = (heads.peer, unit.vpn, flow);
        if self.join(origin, seq, kind, packet, unit) {
            return Some(());
        }
        self.close();
        let packet = unit.bytes(pool);
        let first_len = packet.len().min(MAX_HEADER_LEN);
        let mut first = [0; MAX_HEADER_LEN];
        first[..first_len].copy_from_slice(&packet[..first_len]);
        let pieces_from = self.pieces.len();
        let header = run.header_len();
        self.pieces.push(Piece { buf: unit.buf, start: unit.start + header, len: unit.len - header });
        self.open = Some(Open { origin, head_seq: seq, next_tail: 1, run, first, first_len, pieces_from });
        Some(())
    }

    /// Lets a packet continue the open run, as a receiver's GRO would.
    fn join(
        &mut self,
        origin: (PeerId, VpnId, FlowId),
        seq: FlowSeq,
        kind: UnitKind,
        packet: &[u8],
        unit: &Arrived,
    ) -> bool {
        let Some(open) = self.open.as_mut().filter(|o| o.origin == origin) else { return false };
        if self.pieces.len() - open.pieces_from >= MAX_PIECES
            || !open.run.join(&open.first[..open.first_len], kind, packet)
        {
            return false;
        }
        (open.head_seq, open.next_tail) = (seq, 1);
        let header = open.run.header_len();
        self.pieces.push(Piece { buf: unit.buf, start: unit.start + header, len: unit.len - header });
        true
    }

    fn add_tail(&mut self, heads: &Heads, flow: FlowId, seq: FlowSeq, unit: &Arrived) -> Option<()> {
        let (index, is_last) = (unit.inner.index, unit.inner.last);
        let head_seq = seq.plus(-i32::from(index));
        let piece = Piece { buf: unit.buf, start: unit.start, len: unit.len };
        // A mark is for this tail alone: its run must not spread it.
        let marked = Ecn::of(unit.outer_tos) == Ecn::Ce;
        let origin = (heads.peer, unit.vpn, flow);
        let same = |o: &&mut Open| !marked && o.origin == origin && o.head_seq == head_seq && o.next_tail == index;
        if let Some(open) = self.open.as_mut().filter(same)
            && self.pieces.len() - open.pieces_from < MAX_PIECES
            && open.run.push_tail(unit.len, is_last).is_ok()
        {
            open.next_tail += 1;
            self.pieces.push(piece);
            return Some(());
        }
        let head = heads.get(unit.vpn, flow, head_seq)?;
        let further = u8::from(planted::is(Fault::SliceTooFar));
        let run = Run::begin_with_tail(head, index + further, unit.len, is_last).ok()?;
        self.close();
        let first_len = head.len().min(MAX_HEADER_LEN);
        let mut first = [0; MAX_HEADER_LEN];
        first[..first_len].copy_from_slice(&head[..first_len]);
        restore_tos(&mut first[..first_len], unit.outer_tos)?;
        let pieces_from = self.pieces.len();
        self.pieces.push(piece);
        self.open = Some(Open { origin, head_seq, next_tail: index + 1, run, first, first_len, pieces_from });
        if marked {
            self.close();
        }
        Some(())
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let mut header = [0; Run::MAX_EMITTED_LEN];
        let header_len = open.run.emit(&open.first[..open.first_len], &mut header).unwrap_or(0);
        let vpn = open.origin.1;
        self.writes.push(Write { vpn, header, header_len, pieces: open.pieces_from..self.pieces.len() });
    }

    /// Hands every write to `write`, its VPN and its pieces, and gives the buffers back.
    pub(crate) fn drain(&mut self, pool: &mut Pool, write: &mut impl FnMut(VpnId, &[&[u8]])) {
        self.close();
        for w in &self.writes {
            let mut gather: [&[u8]; MAX_PIECES + 1] = [&[]; MAX_PIECES + 1];
            gather[0] = w.header.get(..w.header_len).unwrap_or_default();
            let pieces = self.pieces.get(w.pieces.clone()).unwrap_or_default();
            for (slot, piece) in gather.iter_mut().skip(1).zip(pieces) {
                *slot = pool.bytes(piece.buf).get(piece.start..piece.start + piece.len).unwrap_or_default();
            }
            if w.header_len > 0 {
                write(w.vpn, &gather[..=pieces.len()]);
            }
        }
        self.writes.clear();
        for piece in self.pieces.drain(..) {
            pool.release(piece.buf);
        }
    }
}

/// The outer ECN field's congestion mark goes into the packet (RFC 6040). `None` where that says to drop it.
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
    fn a_slice_never_joins_another_peers_packet_of_the_same_number() {
        let mut pool = Pool::new(Limits { small: 10, large: 0 });
        let mut output = Output::default();
        let mut peers = [1, 2].map(|peer| Heads::new(PeerId(peer), 0));
        for (heads, source) in peers.iter_mut().zip([1, 2]) {
            let head = unit(&mut pool, UnitKind::HeadSlice, 0, &head(source));
            output.add(heads, &mut pool, FlowId(3), FlowSeq::new(0), head);
        }
        let tail = unit(&mut pool, UnitKind::TailSlice, 1, &[1; PAYLOAD]);
        output.add(&mut peers[0], &mut pool, FlowId(3), FlowSeq::new(1), tail);
        let mut written = Vec::new();
        output.drain(&mut pool, &mut |_, pieces| written.push((pieces[0][10 + 15], pieces[1..].concat())));
        assert_eq!(written, [1, 2, 1].map(|source| (source, alloc::vec![source; PAYLOAD])));
    }

    #[test]
    fn a_slice_never_joins_another_vpns_packet_of_the_same_number() {
        let mut pool = Pool::new(Limits { small: 10, large: 0 });
        let (mut output, mut heads) = (Output::default(), Heads::new(PeerId(1), 0));
        let head = Arrived { vpn: VpnId(1), ..unit(&mut pool, UnitKind::HeadSlice, 0, &head(1)) };
        output.add(&mut heads, &mut pool, FlowId(3), FlowSeq::new(0), head);
        for vpn in [2, 1] {
            let tail = Arrived { vpn: VpnId(vpn), ..unit(&mut pool, UnitKind::TailSlice, 1, &[vpn as u8; PAYLOAD]) };
            output.add(&mut heads, &mut pool, FlowId(3), FlowSeq::new(1), tail);
        }
        let mut written = Vec::new();
        output.drain(&mut pool, &mut |vpn, pieces| written.push((vpn, pieces[1..].concat())));
        assert_eq!(written, [(VpnId(1), alloc::vec![1; 2 * PAYLOAD])]);
        assert_eq!((output.orphans, pool.small_usage().in_use), (1, 0));
    }
}
