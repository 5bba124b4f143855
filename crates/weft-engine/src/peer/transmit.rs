//! From the path queues into datagrams.

use super::{Context, Peer};
use crate::Transmit;
use crate::config::Recovery;
use crate::path::{Lane, Path, Sent};
use crate::unit::{Unit, UnitId};
use weft_core::pool::Pool;
use weft_units::{Duration, Instant, PathId};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};
use weft_wire::inner::{INNER_LEN, InnerHeader, UnitKind};
use weft_wire::ip::{self, Ecn};
use weft_wire::super_packet::SegmentRole;

/// A GSO batch is at most this long at its path's rate, or one datagram.
const BATCH_TIME: Duration = Duration::from_millis(1);
const BATCH_DATAGRAMS: usize = 64;
const BATCH_BYTES: usize = 65_000;

/// A batch being written.
#[derive(Default)]
struct Batch {
    len: usize,
    segment_size: usize,
    count: usize,
    tos: u8,
    last_is_short: bool,
}

impl Batch {
    fn takes(&self, datagram: usize, tos: u8, limit: usize) -> bool {
        self.count == 0
            || (!self.last_is_short
                && datagram <= self.segment_size
                && tos == self.tos
                && self.count < BATCH_DATAGRAMS
                && self.len + datagram <= limit.min(BATCH_BYTES))
    }

    fn add(&mut self, datagram: usize, tos: u8) {
        if self.count == 0 {
            self.segment_size = datagram;
            self.tos = tos;
        }
        self.last_is_short = datagram < self.segment_size;
        self.len += datagram;
        self.count += 1;
    }
}

impl Peer {
    /// Writes the next datagrams to `out`; control first, then data where pace and window allow.
    pub(crate) fn poll_transmit(&mut self, cx: &mut Context<'_>, out: &mut [u8]) -> Option<Transmit> {
        if !self.is_established() {
            return None;
        }
        self.commit(cx);
        let paths = self.paths.len();
        for turn in 0..paths {
            let index = (self.round + turn) % paths;
            if let Some(transmit) = self.poll_control(cx, index, out) {
                return Some(transmit);
            }
            if let Some(transmit) = self.poll_data(cx, index, out) {
                self.round = (index + 1) % paths;
                return Some(transmit);
            }
        }
        None
    }

    fn poll_data(&mut self, cx: &mut Context<'_>, index: usize, out: &mut [u8]) -> Option<Transmit> {
        let now = cx.now;
        let path = self.paths.get(index)?;
        if !path.is_usable() || !path.pacer.is_ready(now) || path.queues.is_empty() {
            return None;
        }
        let rate = path.rate.pacing_rate(now);
        let limit = usize::try_from(rate.bytes_in(BATCH_TIME)).unwrap_or(BATCH_BYTES);
        let overhead = path.outer_header_len();
        let (path_id, has_window) = (path.id, path.has_window());
        let mut batch = Batch::default();
        while let Some((lane, id)) = self.next_unit(cx.pool, index) {
            if lane == Lane::Bulk && !has_window {
                break;
            }
            let unit = *self.units.get(id)?;
            let datagram = HOP_HEADER_LEN + INNER_LEN + unit.len() + TAG_LEN;
            if datagram > self.paths[index].datagram_limit() {
                self.move_too_long(cx.pool, index, lane);
                continue;
            }
            if !batch.takes(datagram, unit.segment.tos, limit) {
                break;
            }
            let room = out.get_mut(batch.len..batch.len + datagram)?;
            self.paths[index].queues.pop(lane);
            self.uncommit(id);
            let Some(number) = seal_unit(cx, self.id, path_id, &unit, room) else {
                self.units.release(id, cx.pool);
                break;
            };
            batch.add(datagram, unit.segment.tos);
            self.paths[index].limited = !self.paths[index].queues.is_empty() || !self.queue.is_empty();
            self.note_sent(now, cx.pool, index, number, datagram + overhead, id);
        }
        if batch.count == 0 {
            return None;
        }
        let path = self.paths.get_mut(index)?;
        path.pacer.consume(now, (batch.len + batch.count * overhead) as u64, rate);
        Some(transmit(path, &batch))
    }

    /// The unit a path sends next; units that arrived meanwhile by another path are let go.
    fn next_unit(&mut self, pool: &mut Pool, index: usize) -> Option<(Lane, UnitId)> {
        loop {
            let (lane, id) = self.paths.get(index)?.queues.front()?;
            if self.units.is_live(id) {
                return Some((lane, id));
            }
            self.paths[index].queues.pop(lane);
            self.uncommit(id);
            self.units.release(id, pool);
        }
    }

    fn note_sent(&mut self, now: Instant, pool: &mut Pool, index: usize, number: u64, ip_bytes: usize, id: UnitId) {
        let repeat = self.config.policy.recovery == Recovery::Arq;
        let sent = if repeat { Sent::Unit(id) } else { Sent::Data(ip_bytes as u16) };
        if !repeat {
            self.units.release(id, pool);
        }
        let keepalive = self.paths[index].keepalive(true);
        let path = &mut self.paths[index];
        path.health.on_traffic(now, keepalive);
        path.on_sent(now, number, ip_bytes as u32, true, sent);
    }

    /// A unit from before the path's MTU shrank: another path may still carry it.
    fn move_too_long(&mut self, pool: &mut Pool, index: usize, lane: Lane) {
        let Some(id) = self.paths[index].queues.pop(lane) else { return };
        self.uncommit(id);
        let fits = |p: &Path, len: usize| p.is_usable() && len <= p.inner_limit();
        let len = self.units.get(id).map_or(0, Unit::len);
        match self.paths.iter().position(|p| fits(p, len)) {
            Some(other) => self.paths[other].queues.push(Lane::Repeat, id, len as u32),
            None => {
                self.abandon(id, pool);
                self.units.release(id, pool);
            }
        }
    }
}

fn transmit(path: &Path, batch: &Batch) -> Transmit {
    Transmit {
        link: path.link,
        destination: path.remote,
        source: path.local,
        tos: batch.tos,
        len: batch.len,
        segment_size: (batch.count > 1).then_some(batch.segment_size as u16),
    }
}

/// Builds the datagram of a unit in `out` and seals it; gives its packet number.
fn seal_unit(cx: &mut Context<'_>, peer: weft_units::PeerId, path: PathId, unit: &Unit, out: &mut [u8]) -> Option<u64> {
    let inner = InnerHeader { kind: unit.kind, last: is_last(unit), index: unit.index, flow: unit.flow, seq: unit.seq };
    let body = out.get_mut(HOP_HEADER_LEN..)?;
    inner.emit(body).ok()?;
    let body = body.get_mut(INNER_LEN..)?;
    let segment = &unit.segment;
    let packet = segment.packet(cx.pool);
    let number = usize::from(segment.number);
    let role = if unit.kind == UnitKind::HeadSlice { SegmentRole::Head } else { SegmentRole::Alone };
    let mut at = 0;
    if unit.kind != UnitKind::TailSlice {
        at = segment.shape.segment_header(packet, number, role, body).ok()?;
        if segment.marked {
            ip::set_ecn(body.get_mut(..at)?, Ecn::Ce).ok()?;
        }
    }
    let payload = packet.get(segment.shape.payload(number))?;
    body.get_mut(at..at + payload.len())?.copy_from_slice(payload);
    cx.sessions.seal(peer, path, PacketType::Data, out).ok()
}

fn is_last(unit: &Unit) -> bool {
    match unit.kind {
        UnitKind::Packet | UnitKind::PartialPacket => true,
        UnitKind::HeadSlice => false,
        UnitKind::TailSlice => unit.segment.is_last(),
    }
}
