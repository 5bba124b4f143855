//! Transmission: from the path queues to sealed datagrams.
//!
//! Paths take turns. On each path control datagrams leave first. Data follows as pacer and window allow, in GSO
//! batches. Each datagram is built and sealed in the send buffer, and recorded in the path's record of sent packets.

use super::control::riding_report::ROOM;
use super::{Context, Peer};
use crate::api::Recovery;
use crate::api::Transmit;
use crate::links::room_for_relays;
use crate::path::LoneMarker;
use crate::path::{Lane, Path, Sent};
use crate::units::headers::Compressed;
use crate::units::{Part, Unit, UnitId};
use weft_core::pool::Pool;
use weft_units::planted::{self, Fault};
use weft_units::{Instant, PathId, VpnId};
use weft_wire::data_report::{self, LENGTH_LEN};
use weft_wire::hop::{HOP_HEADER_LEN, PART_OVERHEAD, PacketType, TAG_LEN};
use weft_wire::inner::{self, GRANULE, HeaderForm, INNER_LEN, InnerHeader, MAX_GRANULES, PartHeader, UnitKind};
use weft_wire::ip::{self, Ecn};
use weft_wire::loop_data::{Marker, OfRun};
use weft_wire::super_packet::{MAX_HEADER_LEN, SegmentRole};

const BATCH_DATAGRAMS: usize = 64;
const BATCH_BYTES: usize = 65_000;

/// A batch that is being written. The kernel cuts it into datagrams (GSO).
#[derive(Default)]
struct GsoBatch {
    len: usize,
    segment_size: usize,
    count: usize,
    tos: u8,
    last_is_short: bool,
    /// Number of bytes left free after each datagram for the relay header.
    gap: usize,
}

impl GsoBatch {
    /// Returns the space in `out` for the next datagram of the batch, or `None` if `out` is too short.
    fn room<'a>(&self, datagram: usize, out: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let at = self.len + self.count * self.gap;
        out.get_mut(at..at + datagram)
    }

    fn takes(&self, datagram: usize, tos: u8, limit: usize) -> bool {
        self.count == 0
            || ((!self.last_is_short || planted::is(Fault::GsoAfterShort))
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
    /// Writes the next datagrams to `out`: first control, then data where pacer and window allow.
    ///
    /// Returns `None` if nothing may leave now.
    pub fn poll_transmit(&mut self, cx: &mut Context<'_>, out: &mut [u8]) -> Option<Transmit> {
        if !self.is_established() {
            return None;
        }
        self.commit(cx);
        let paths = self.paths.len();
        for turn in 0..paths {
            let index = (self.dispatch.round + turn) % paths;
            let (before, _) = room_for_relays(&self.paths[index].remote);
            let out = out.get_mut(before..)?;
            let path = &self.paths[index];
            let Some(room) = path.proof.room(out.len(), path.datagram_limit()) else {
                match self.poll_address_ping(cx, index, out) {
                    Some(ping) => return Some(ping),
                    None => continue,
                }
            };
            let out = out.get_mut(..room)?;
            if let Some(transmit) = self.poll_control(cx, index, out) {
                return Some(transmit);
            }
            if let Some(transmit) = self.poll_loop(cx, index, out) {
                return Some(transmit);
            }
            if let Some(transmit) = self.poll_data(cx, index, out) {
                self.dispatch.round = (index + 1) % paths;
                return Some(transmit);
            }
        }
        None
    }

    fn poll_data(&mut self, cx: &mut Context<'_>, index: usize, out: &mut [u8]) -> Option<Transmit> {
        let now = cx.now;
        let path = self.paths.get_mut(index)?;
        if !path.is_usable() || !path.pacer.is_ready(now) || path.queues.is_empty() {
            return None;
        }
        let rate = path.rate.pacing_rate(now);
        let overhead = path.outer_header_len();
        // `overhead` contains the relay headers, which are added later and must fit into the batch as well.
        let most = BATCH_BYTES.saturating_sub(BATCH_DATAGRAMS * overhead);
        let limit = usize::try_from(path.batch.bytes(now, rate)).unwrap_or(most).min(most);
        let (path_id, has_window) = (path.id, path.has_window());
        let (_, gap) = room_for_relays(&path.remote);
        let limit = limit.min(out.len().saturating_sub(BATCH_DATAGRAMS * gap));
        let mut batch = GsoBatch { gap, ..GsoBatch::default() };
        while let Some((lane, id)) = self.next_unit(cx.pool, index) {
            if lane.waits_for_window() && !has_window {
                break;
            }
            let unit = *self.recovery.units.get(id)?;
            let compressed = self.compress(cx, &unit);
            let mut datagram = HOP_HEADER_LEN + INNER_LEN + compressed.unit_len(unit.len()) + TAG_LEN;
            let marker_len = unit.marker.map_or(0, |marker| marker.what.encoded_len());
            let has_room = datagram + marker_len <= self.paths[index].datagram_limit();
            let carried = unit.marker.filter(|_| has_room);
            if carried.is_some() {
                datagram += marker_len;
            }
            if datagram > self.paths[index].datagram_limit() {
                if batch.count > 0 {
                    break;
                }
                if unit.granules().is_some() && self.paths[index].granule_limit() > 0 {
                    return self.send_parts(cx, index, lane, out);
                }
                self.move_too_long(now, cx.pool, index, lane);
                continue;
            }
            if !batch.takes(datagram, unit.segment.tos, limit) {
                break;
            }
            // A batch has datagrams of one length, so a datagram with a report is alone.
            let may_carry = batch.count == 0 && carried.is_none();
            let most = if may_carry { self.paths[index].datagram_limit().min(out.len()) } else { 0 };
            let (mut bytes, free) = ([0; ROOM], most.saturating_sub(datagram));
            let report = self.riding_report(now, index, free, &mut bytes);
            if !report.is_empty() {
                datagram += LENGTH_LEN + report.len();
            }
            let room = batch.room(datagram, out)?;
            self.paths[index].queues.pop(lane);
            self.uncommit(lane, id);
            if unit.marker.is_some() {
                self.part_with_marker(now, index, id, carried.is_some());
            }
            let carried = carried.map(|marker| self.explain(now, index, datagram + overhead, marker));
            let before = match &carried {
                Some(marker) => Before::Marker(marker),
                None if report.is_empty() => Before::Nothing,
                None => Before::Report(report),
            };
            let Some(number) = seal_unit(cx, self.id, path_id, (&unit, &compressed), before, room) else {
                // The unit's VPN was closed after scheduling, or the session has just ended.
                self.abandon(cx.now, id, cx.pool);
                self.recovery.units.release(id, cx.pool);
                continue;
            };
            batch.add(datagram, unit.segment.tos);
            self.recovery.units.note_sent(id, (datagram + overhead) as u16);
            if lane == Lane::Bulk {
                let packet = unit.segment.shape.header_len() + unit.segment.payload_len();
                self.paths[index].overhead.on_sent(packet, datagram + overhead);
            }
            self.paths[index].limited = self.is_limiting(cx.now, index);
            let sent = self.sent(Sent::Unit(id), unit.segment.vpn, datagram + overhead);
            self.note_sent(now, index, number, datagram + overhead, sent);
            if sent.unit().is_none() {
                self.recovery.units.release(id, cx.pool);
            }
            if !report.is_empty() {
                self.on_report_rode(now, index);
                break;
            }
        }
        if batch.count == 0 {
            return None;
        }
        let path = self.paths.get_mut(index)?;
        path.pacer.consume(now, (batch.len + batch.count * overhead) as u64, rate);
        Some(transmit(path, &batch))
    }

    /// Chooses the form of a unit's header: whole, or as the difference from an earlier header.
    ///
    /// Without recovery, each header is sent whole, because this node does not learn which headers arrived.
    fn compress(&mut self, cx: &Context<'_>, unit: &Unit) -> Compressed {
        let mut header = [0; MAX_HEADER_LEN];
        if unit.kind == UnitKind::TailSlice || self.config.policy.recovery != Recovery::Arq {
            return Compressed::WHOLE;
        }
        let key = cx.sessions.sealing_key(self.id, unit.segment.vpn);
        match key.zip(write_header(cx.pool, unit, &mut header).and_then(|len| header.get(..len))) {
            Some((key, header)) => self.recovery.sent_headers.compress(cx.now, key, unit, header),
            None => Compressed::WHOLE,
        }
    }

    /// Returns the unit that a path sends next, or `None`.
    ///
    /// Queued units that have arrived by another path are released.
    fn next_unit(&mut self, pool: &mut Pool, index: usize) -> Option<(Lane, UnitId)> {
        loop {
            let (lane, id) = self.paths.get(index)?.queues.front()?;
            if self.recovery.units.is_live(id) {
                return Some((lane, id));
            }
            self.paths[index].queues.pop(lane);
            self.uncommit(lane, id);
            self.recovery.units.release(id, pool);
        }
    }

    /// Sends the missing granules of the next unit in parts, as one batch. All parts but the last have one length.
    fn send_parts(&mut self, cx: &mut Context<'_>, index: usize, lane: Lane, out: &mut [u8]) -> Option<Transmit> {
        let path = self.paths.get_mut(index)?;
        let (path_id, overhead, limit) = (path.id, path.outer_header_len(), path.granule_limit());
        let rate = path.rate.pacing_rate(cx.now);
        let (_, gap) = room_for_relays(&path.remote);
        let id = path.queues.pop(lane)?;
        self.uncommit(lane, id);
        self.part_with_marker(cx.now, index, id, false);
        let unit = *self.recovery.units.get(id)?;
        let mut body = [0; MAX_GRANULES as usize * GRANULE];
        let mut batch = GsoBatch { gap, ..GsoBatch::default() };
        if let (Some((missing, of)), Some(len)) = (unit.missing(), write_unit(cx.pool, &unit, &mut body)) {
            let parts = missing.len().div_ceil(limit).max(1);
            let stride = missing.len().div_ceil(parts).max(1);
            for first in missing.clone().step_by(stride) {
                let part = Part { first, end: missing.end.min(first + stride as u8) };
                let Some(payload) = body.get(part.bytes(len)) else { break };
                let datagram = payload.len() + PART_OVERHEAD;
                let header = PartHeader { unit: inner_header(&unit), first, of };
                let Some(room) = batch.room(datagram, out) else { break };
                let Some(number) = seal_part(cx, self.id, path_id, unit.segment.vpn, &header, payload, room) else {
                    self.abandon(cx.now, id, cx.pool);
                    break;
                };
                batch.add(datagram, unit.segment.tos);
                let sent = self.sent(Sent::Part(id, part), unit.segment.vpn, datagram + overhead);
                if sent.unit().is_some() {
                    self.recovery.units.retain(id);
                }
                self.paths[index].limited = self.is_limiting(cx.now, index) || part.end < missing.end;
                self.note_sent(cx.now, index, number, datagram + overhead, sent);
            }
        }
        self.recovery.units.parts_sent(id);
        self.recovery.units.release(id, cx.pool);
        let path = self.paths.get_mut(index).filter(|_| batch.count > 0)?;
        path.pacer.consume(cx.now, (batch.len + batch.count * overhead) as u64, rate);
        Some(transmit(path, &batch))
    }

    /// Removes a unit's marker at the unit's first transmission.
    ///
    /// If the unit's datagram does not carry the marker (`is_carried`), the marker follows in a control frame.
    fn part_with_marker(&mut self, now: Instant, index: usize, id: UnitId, is_carried: bool) {
        let Some(marker) = self.recovery.units.take_marker(id) else { return };
        if let Some(unit) = self.recovery.units.get(id).filter(|_| !is_carried) {
            let (vpn, tos) = (unit.segment.vpn, unit.segment.tos);
            self.send_alone(index, LoneMarker { vpn, marker, tos, since: now });
        }
    }

    /// Returns the entry for the record of sent packets: the unit if lost units are retransmitted, else only a size.
    fn sent(&self, sent: Sent, vpn: VpnId, ip_bytes: usize) -> Sent {
        if self.config.policy.recovery == Recovery::Arq { sent } else { Sent::Data(ip_bytes as u16, vpn) }
    }

    /// True if units wait for the path to take them, so that the path limits the delivery rate.
    ///
    /// A port that has used up its rate limits it instead.
    fn is_limiting(&self, now: Instant, index: usize) -> bool {
        let queue = &self.ingress.queue;
        !queue.is_paced(now) && (!self.paths[index].queues.is_empty() || queue.is_ready(now))
    }

    fn note_sent(&mut self, now: Instant, index: usize, number: u64, ip_bytes: usize, sent: Sent) {
        let keepalive = self.keepalive(&self.paths[index], now);
        let path = &mut self.paths[index];
        path.health.on_traffic(now, keepalive);
        path.sensing.on_data(now);
        path.on_sent(now, number, ip_bytes as u32, true, sent);
    }

    /// Moves a unit to another path, because after a decrease of this path's MTU it does not fit even in parts.
    ///
    /// If it fits on no path, the unit is given up.
    fn move_too_long(&mut self, now: Instant, pool: &mut Pool, index: usize, lane: Lane) {
        let Some(id) = self.paths[index].queues.pop(lane) else { return };
        self.uncommit(lane, id);
        let fits = |p: &Path, len: usize| p.is_usable() && len <= p.inner_limit();
        let len = self.recovery.units.get(id).map_or(0, Unit::len);
        match self.paths.iter().position(|p| fits(p, len)) {
            Some(other) => self.paths[other].queues.push(Lane::Repeat, id, len as u32),
            None => {
                self.abandon(now, id, pool);
                self.recovery.units.release(id, pool);
            }
        }
    }
}

fn transmit(path: &Path, batch: &GsoBatch) -> Transmit {
    Transmit {
        link: path.link,
        destination: path.remote,
        source: path.local,
        tos: batch.tos,
        len: batch.len,
        segment_size: (batch.count > 1).then_some(batch.segment_size as u16),
    }
}

/// What a datagram carries before its unit.
enum Before<'a> {
    Nothing,
    Marker(&'a OfRun<Marker>),
    Report(&'a [u8]),
}

/// Builds and seals a unit's datagram in `out`.
///
/// Returns the packet number, or `None` if the datagram cannot be sealed.
fn seal_unit(
    cx: &mut Context<'_>,
    peer: weft_units::PeerId,
    path: PathId,
    (unit, compressed): (&Unit, &Compressed),
    before: Before<'_>,
    out: &mut [u8],
) -> Option<u64> {
    let mut body = out.get_mut(HOP_HEADER_LEN..)?;
    let packet_type = match before {
        Before::Nothing => PacketType::Data,
        Before::Marker(marker) => {
            let at = marker.emit(body).ok()?;
            body = body.get_mut(at..)?;
            PacketType::LoopData
        }
        Before::Report(report) => {
            body = data_report::emit(report, body).ok()?;
            PacketType::DataWithReport
        }
    };
    InnerHeader { form: compressed.form, ..inner_header(unit) }.emit(body).ok()?;
    write_compressed(cx.pool, unit, compressed, body.get_mut(INNER_LEN..)?)?;
    cx.sessions.seal_in(peer, unit.segment.vpn, path, packet_type, out).ok()
}

/// Builds and seals the datagram of one part in `out`.
///
/// Returns the packet number, or `None` if the datagram cannot be sealed.
fn seal_part(
    cx: &mut Context<'_>,
    peer: weft_units::PeerId,
    path: PathId,
    vpn: VpnId,
    header: &PartHeader,
    payload: &[u8],
    out: &mut [u8],
) -> Option<u64> {
    let body = out.get_mut(HOP_HEADER_LEN..)?;
    let at = header.emit(body).ok()?;
    body.get_mut(at..at + payload.len())?.copy_from_slice(payload);
    cx.sessions.seal_in(peer, vpn, path, PacketType::DataPart, out).ok()
}

fn inner_header(unit: &Unit) -> InnerHeader {
    let (kind, last, form) = (unit.kind, is_last(unit), HeaderForm::Whole);
    InnerHeader { kind, last, index: unit.index, form, flow: unit.segment.flow, seq: unit.seq }
}

/// Writes a unit with its header in the chosen form.
fn write_compressed(pool: &Pool, unit: &Unit, compressed: &Compressed, body: &mut [u8]) -> Option<usize> {
    if compressed.form != HeaderForm::Difference {
        return write_unit(pool, unit, body);
    }
    let body = inner::emit_reference(compressed.reference, body).ok()?;
    let (difference, body) = body.split_at_mut_checked(compressed.difference().len())?;
    difference.copy_from_slice(compressed.difference());
    let (segment, packet) = (&unit.segment, unit.segment.packet(pool));
    let payload = if segment.shape.gso_size() > 0 {
        packet.get(segment.shape.payload(segment.number.into()))?
    } else {
        packet.get(compressed.header_len..)?
    };
    body.get_mut(..payload.len())?.copy_from_slice(payload);
    Some(payload.len())
}

/// Writes a unit's header, or for a whole packet as many of its first bytes as fit. Returns the number of bytes.
fn write_header(pool: &Pool, unit: &Unit, out: &mut [u8]) -> Option<usize> {
    let (segment, packet) = (&unit.segment, unit.segment.packet(pool));
    let len = if segment.shape.gso_size() > 0 {
        segment.shape.segment_header(packet, segment.number.into(), segment_role(unit), out).ok()?
    } else {
        let len = packet.len().min(out.len());
        out[..len].copy_from_slice(&packet[..len]);
        len
    };
    if segment.marked {
        ip::set_ecn(out.get_mut(..len)?, Ecn::Ce).ok()?;
    }
    Some(len)
}

fn segment_role(unit: &Unit) -> SegmentRole {
    if unit.kind == UnitKind::HeadSlice { SegmentRole::Head } else { SegmentRole::Alone }
}

/// Writes a unit's header and payload. Returns their length, or `None` if they do not fit into `body`.
fn write_unit(pool: &Pool, unit: &Unit, body: &mut [u8]) -> Option<usize> {
    let segment = &unit.segment;
    let packet = segment.packet(pool);
    let number = usize::from(segment.number);
    let mut at = 0;
    if unit.kind != UnitKind::TailSlice {
        at = segment.shape.segment_header(packet, number, segment_role(unit), body).ok()?;
        if segment.marked {
            ip::set_ecn(body.get_mut(..at)?, Ecn::Ce).ok()?;
        }
    }
    let payload = packet.get(segment.shape.payload(number))?;
    body.get_mut(at..at + payload.len())?.copy_from_slice(payload);
    Some(at + payload.len())
}

fn is_last(unit: &Unit) -> bool {
    match unit.kind {
        UnitKind::Packet | UnitKind::PartialPacket => true,
        UnitKind::HeadSlice => false,
        UnitKind::TailSlice => unit.segment.is_last(),
    }
}
