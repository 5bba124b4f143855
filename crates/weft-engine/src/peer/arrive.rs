//! From opened datagrams to the TUN device.

use super::sense::asks_for_report;
use super::signalling::{may_carry, signal_in};
use super::{Arrivals, Context, Peer, Totals, loops};
use crate::PathState;
use crate::egress::{Arrived, Output};
use crate::event::Event;
use crate::interface::Received;
use crate::join::Joined;
use crate::links::{ETHERNET_MTU, Link};
use crate::path::{Ends, Path, Proof};
use crate::relay::is_route;
use crate::signal::{Offer, Place, Room};
use crate::vpn::{News, Vpns};
use alloc::boxed::Box;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use weft_core::pool::{BufId, Pool};
use weft_core::reorder::Inserted;
use weft_session::{Opened, VpnStanding};
use weft_units::planted::{self, Fault};
use weft_units::{Duration, FlowId, FlowSeq, Instant, PeerId, VpnId};
use weft_wire::frame::{Frame, Frames};
use weft_wire::hop::PacketType;
use weft_wire::inner::{self, GRANULE, HeaderForm, InnerHeader, MAX_GRANULES, PART_HEADER_LEN, PartHeader, UnitKind};
use weft_wire::ip::{Ecn, IpView};
use weft_wire::super_packet::MAX_HEADER_LEN;

/// Maximum addresses of an initiation that are remembered: one for each of a peer's links.
const MAX_HANDSHAKE_ADDRESSES: usize = 16;

/// An authentic datagram and where its plaintext lies.
pub(crate) struct Datagram {
    pub(crate) opened: Opened,
    pub(crate) plaintext: Range<usize>,
    pub(crate) wire_bytes: u32,
}

impl Peer {
    pub(crate) fn on_datagram(
        &mut self,
        cx: &mut Context<'_>,
        received: &Received,
        datagram: &Datagram,
        link: Option<&Link>,
    ) {
        let now = cx.now;
        let Some(index) = self.path_of(cx, received, datagram, link) else { return };
        let is_data = datagram.opened.packet_type != PacketType::Control;
        let ce = Ecn::of(received.tos) == Ecn::Ce;
        let (mut plaintext, vpn) = (datagram.plaintext.clone(), datagram.opened.vpn);
        let vpn = if planted::is(Fault::VpnForgotten) { VpnId::DEFAULT } else { vpn };
        let mut of_loop = None;
        let eliciting = match datagram.opened.packet_type {
            PacketType::Control => self.on_control(cx, index, received, datagram),
            PacketType::LoopData => {
                let Some((marker, unit_at)) = cx.pool.bytes(received.buf).get(plaintext.clone()).and_then(loops::split)
                else {
                    return;
                };
                plaintext.start += unit_at;
                of_loop = Some(marker);
                Some(true)
            }
            _ => Some(true),
        };
        let Some(eliciting) = eliciting else { return };
        let Some(path) = self.paths.get_mut(index) else { return };
        path.newest = path.newest.max(Some(datagram.opened.packet_number));
        path.totals.received_datagrams += 1;
        path.totals.received_bytes += u64::from(datagram.wire_bytes);
        if path.remote == received.source {
            path.proof.on_received(datagram.wire_bytes.into());
        }
        path.log.on_datagram(received.at.min(now), datagram.opened.packet_number, datagram.wire_bytes, ce, eliciting);
        if is_data && eliciting && !plaintext.is_empty() {
            path.unreported_bytes += u64::from(datagram.wire_bytes);
            self.note_packet(now);
            match datagram.opened.packet_type {
                PacketType::DataPart => self.on_part(cx, vpn, received.buf, plaintext, received.tos),
                _ => self.on_data(cx, vpn, received.buf, plaintext, received.tos),
            }
        }
        if let Some(marker) = of_loop {
            self.on_marker(cx, received.at, vpn, marker);
        }
    }

    /// The path of a datagram: known, or new if the peer opens it. A newer datagram from another address moves it.
    fn path_of(
        &mut self,
        cx: &mut Context<'_>,
        received: &Received,
        datagram: &Datagram,
        link: Option<&Link>,
    ) -> Option<usize> {
        let link_name = link.map_or("", |link| link.name.as_str());
        if let Some(index) = self.path_index(datagram.opened.path) {
            let path = self.paths.get_mut(index)?;
            // The peer has turned the path to another address of this node.
            let turned = received.destination.is_some() && path.local != received.destination;
            let moved = turned || path.remote != received.source || path.link != received.link;
            let is_newest = path.newest.is_none_or(|n| datagram.opened.packet_number > n)
                || planted::is(Fault::OlderDatagramMovesPath);
            if moved && !path.ours && is_newest && !planted::is(Fault::MoveNotFollowed) {
                if path.remote != received.source {
                    path.proof.on_moved(cx.now, path.remote, received.source);
                    path.book.on_moved();
                }
                path.remote = received.source;
                // The peer knows the name of the link that it leaves.
                path.pending.link |= path.link != received.link;
                path.link = received.link;
                path.link_name.clear();
                path.link_name.push_str(link_name);
                path.local = received.destination;
                path.rate.set_cap(link.and_then(|link| link.cap));
                let was_barred = core::mem::replace(&mut path.barred, link.is_some_and(|link| !link.send));
                if path.barred && !was_barred {
                    self.close_books(cx, index);
                }
            }
            if self.paths[index].left && is_newest {
                self.paths[index].left = false;
                self.paths[index].barred = link.is_some_and(|link| !link.send);
            }
            return Some(index);
        }
        if !self.may_open(datagram.opened.path) {
            self.totals.refused_datagrams += 1;
            return None;
        }
        let ends = Ends {
            link: received.link,
            link_name: link_name.into(),
            link_mtu: link.map_or(ETHERNET_MTU, |link| link.mtu),
            remote: received.source,
            local: received.destination,
            cap: link.and_then(|link| link.cap),
            barred: link.is_some_and(|link| !link.send),
            standby: false,
        };
        let mut path = Path::new(cx.now, datagram.opened.path, ends, false);
        if !self.is_known(cx, &received.source) {
            path.proof = Proof::in_doubt(cx.now);
        }
        self.paths.push(path);
        Some(self.paths.len() - 1)
    }

    /// Whether nothing speaks against an address: the user named it, the peer shook hands or has a path there, or relays lead there.
    fn is_known(&self, cx: &Context<'_>, remote: &SocketAddr) -> bool {
        let has_path = |path: &Path| path.remote == *remote && path.proof.is_proven() && path.health.answers();
        let is_configured = !cx.trust.is_certified(self.id) && self.config.endpoints.contains(remote);
        is_configured || is_route(remote) || self.handshake_from.contains(remote) || self.paths.iter().any(has_path)
    }

    /// An initiation of the peer was answered; `repeated` if it is a copy of the last one.
    pub(crate) fn on_handshake_from(&mut self, remote: SocketAddr, repeated: bool) {
        if !repeated {
            self.handshake_from.clear();
        }
        if self.handshake_from.len() < MAX_HANDSHAKE_ADDRESSES && !self.handshake_from.contains(&remote) {
            self.handshake_from.push(remote);
        }
    }

    /// Takes in a control datagram: whether it asks for a report; `None` if the session is over, and the path with it.
    fn on_control(
        &mut self,
        cx: &mut Context<'_>,
        index: usize,
        received: &Received,
        datagram: &Datagram,
    ) -> Option<bool> {
        let mut copy = [0u8; 1500];
        let bytes = cx.pool.bytes(received.buf).get(datagram.plaintext.clone())?;
        // A padded probe is longer; what follows the frames is padding.
        let len = bytes.len().min(copy.len());
        let frames = copy.get_mut(..len)?;
        frames.copy_from_slice(&bytes[..len]);
        let (mut eliciting, mut has_report, mut is_asked_for_vpn) = (false, false, false);
        for frame in Frames::new(frames) {
            let Ok(frame) = frame else { break };
            if let Frame::Padding = frame {
                continue;
            }
            if let Frame::Close { .. } = frame {
                if cx.trust.is_certified(self.id) {
                    self.stop_calling();
                }
                self.on_lost(cx, "the peer closed it");
                return None;
            }
            eliciting |= is_eliciting(&frame);
            has_report |= matches!(frame, Frame::Report(_));
            is_asked_for_vpn |= matches!(frame, Frame::Vpn { wants_index: true, .. });
            self.on_frame(cx, index, received.at, datagram, &frame);
            if let Frame::Chirp(_) = frame {
                // What follows is padding: the datagram is one packet of a train.
                break;
            }
        }
        // Once for all frames: these look at all that is lost, and at all paths.
        if has_report {
            self.repeat_lost(cx);
        }
        if is_asked_for_vpn {
            self.announce_vpns(Some(index));
        }
        self.update_hold();
        Some(eliciting)
    }

    fn on_frame(&mut self, cx: &mut Context<'_>, index: usize, at: Instant, datagram: &Datagram, frame: &Frame<'_>) {
        match *frame {
            Frame::Padding | Frame::Close { .. } => {}
            Frame::Link(name) => self.paths[index].remote_link = Some(name.into()),
            Frame::Report(ref report) => self.on_report(cx, report),
            Frame::Ping { token } => {
                let path = self.paths[index].id;
                if self.paths[index].pending.pongs.len() < 8 {
                    self.paths[index].pending.pongs.push((token, path));
                }
            }
            Frame::Pong { token, path } => self.on_pong(cx, token, path),
            Frame::Hold { hold_us } => self.on_hold(Duration::from_micros(u64::from(hold_us))),
            Frame::Skip { flow, first, count } => self.on_skip(cx, flow, first, count),
            Frame::Policy { bundle_toward_me, path_active, path_standby, declines_neighbours } => {
                let path = &mut self.paths[index];
                // Older ones say what was.
                if path.newest_policy < Some(datagram.opened.packet_number) {
                    path.newest_policy = Some(datagram.opened.packet_number);
                    path.standby = if path.ours { path.standby } else { path_standby };
                    self.on_neighbours_declined(declines_neighbours);
                    self.on_policy(cx, index, bundle_toward_me, path_active);
                }
            }
            Frame::Vpn { vpn, index: receiver, wants_index } => {
                self.on_vpn(cx, datagram.opened.key, vpn, receiver, wants_index);
            }
            Frame::LoopMarker { vpn, marker } => self.on_marker(cx, at, vpn, marker),
            Frame::LoopReport { vpn, ref report } => self.on_loop_report(cx, vpn, report),
            Frame::Gone { path } => self.on_gone(cx, path),
            Frame::Neighbour(ref neighbour) => self.reach.hear(cx.now, neighbour),
            Frame::Revocation(revocation) => self.on_revocation(cx, revocation),
            Frame::Overlay(message) => self.on_overlay(cx.now, message),
            Frame::Chirp(ref chirp) => self.on_chirp(index, at, chirp),
            Frame::Chirped(ref chirped) => self.on_chirped(cx.now, chirped),
        }
    }

    /// The peer says, in a datagram under `key`, how it is addressed in a VPN, or that it takes nothing of it.
    fn on_vpn(&mut self, cx: &mut Context<'_>, key: u32, vpn: VpnId, receiver: u32, wants_index: bool) {
        let is_member = cx.vpns.has_member(vpn, self.id);
        if is_member && receiver != 0 {
            cx.sessions.set_vpn_index(self.id, key, vpn, receiver);
            // Under an older key than the newest it is asked for again.
            let is_open = cx.sessions.vpn_standing(self.id, vpn) == VpnStanding::Open;
            let waited = self.openings.answered(vpn, is_open);
            if !waited.is_empty() {
                for (arrival, segment) in waited {
                    self.push_to_queue(cx, arrival, segment);
                }
                self.drop_stale(cx);
            }
        } else if is_member {
            for (_, segment) in self.openings.refused(cx.now, vpn) {
                self.drop_closed(cx, segment);
            }
        }
        if wants_index {
            self.openings.tell(if is_member { News::Answer(vpn) } else { News::Refuse(vpn) });
        }
    }

    fn on_pong(&mut self, cx: &mut Context<'_>, token: u32, path: weft_units::PathId) {
        if let Some(probes) = &mut self.probes {
            probes.on_answer(cx.now, token);
        }
        let Some(path) = self.path_index(path).and_then(|i| self.paths.get_mut(i)) else { return };
        if let Some(at) = path.pings.iter().position(|(t, _)| *t == token) {
            let (_, (id, sent_at)) = path.pings.swap_remove(at);
            cx.events.push_back(Event::Pong { peer: self.id, path: path.id, rtt: cx.now - sent_at, id });
        }
    }

    fn on_hold(&mut self, hold: Duration) {
        let most = if planted::is(Fault::HoldUnbounded) { Duration::MAX } else { Duration::from_secs(5) };
        self.hold_asked = hold.min(most);
        if let Arrivals::Resequence(resequencer) = &mut self.arrivals
            && !planted::is(Fault::HoldIgnored)
        {
            let part = if planted::is(Fault::HoldHalved) { 2 } else { 1 };
            resequencer.set_hold(self.hold_asked / part);
        }
    }

    /// The peer says how it wants to be sent to, and whether it uses this path.
    fn on_policy(&mut self, cx: &mut Context<'_>, index: usize, bundle: bool, active: bool) {
        self.peer_wants_bundle = bundle;
        let Some(path) = self.paths.get_mut(index) else { return };
        if path.ours {
            return;
        }
        if core::mem::replace(&mut path.active, active) && !active {
            self.close_books(cx, index);
        }
        if active {
            self.settle_simultaneous_open(cx, index);
        }
        let keepalive = self.keepalive(&self.paths[index], cx.now);
        let path = &mut self.paths[index];
        if active
            && path.health.state() == PathState::Opening
            && let Some(cause) = path.health.on_confirmed(cx.now, cx.now, keepalive)
        {
            self.log_path(cx.events, index, cause);
        }
        self.refresh_weights();
    }

    /// Both ends called at once and use a path each between the same two addresses: the one with the lower number stays.
    fn settle_simultaneous_open(&mut self, cx: &mut Context<'_>, theirs: usize) {
        let (id, link, remote) = match self.paths.get(theirs) {
            Some(path) => (path.id, path.link, path.remote),
            None => return,
        };
        let is_twin = |p: &Path| p.ours && p.active && p.link == link && p.remote == remote && p.id > id;
        let Some(ours) = self.paths.iter().position(is_twin) else { return };
        let path = &mut self.paths[ours];
        path.active = false;
        path.pending.policy = true;
        let rate = path.rate.clone();
        self.paths[theirs].rate.take_over(&rate);
        self.close_books(cx, ours);
    }

    fn on_skip(&mut self, cx: &mut Context<'_>, flow: FlowId, first: FlowSeq, count: u32) {
        if let Arrivals::Resequence(resequencer) = &mut self.arrivals {
            let now = cx.now;
            let mut egress = Egress::of(self.id, (&mut self.output, &mut self.totals, &mut self.offer), cx);
            resequencer.skip(now, flow, first, count, &mut |flow, seq, item| egress.deliver(flow, seq, item));
        }
    }

    fn on_data(&mut self, cx: &mut Context<'_>, vpn: VpnId, buf: BufId, plaintext: Range<usize>, outer_tos: u8) {
        let Some(bytes) = cx.pool.bytes(buf).get(plaintext.clone()) else { return };
        let Ok((inner, payload)) = InnerHeader::parse(bytes) else { return };
        let start = plaintext.end - payload.len();
        let came = Arrived { buf, vpn, start, len: payload.len(), inner, outer_tos };
        let Some(mut item) = self.with_whole_header(cx, came) else { return };
        let is_restored = item.buf != buf;
        let (source, ce) = seen(&item.inner, item.bytes(cx.pool), outer_tos);
        if !planted::is(Fault::AnySource) && !self.may_send(cx, vpn, &inner, source) {
            if is_restored {
                cx.pool.release(item.buf);
            }
            return self.refuse(cx, vpn, &inner, item.len, ce);
        }
        if is_restored {
            return self.insert(cx, item, ce);
        }
        if self.would_hold(cx.now, &inner) {
            match copy_out(cx, &item) {
                Some(copied) => item = copied,
                None => return,
            }
        } else if !(planted::is(Fault::BufferReleasedEarly) && inner.kind == UnitKind::TailSlice) {
            cx.pool.retain(buf);
        }
        self.insert(cx, item, ce);
    }

    /// The unit as it was before its header was compressed: in a buffer of its own if it was. `None` if that fails.
    fn with_whole_header(&mut self, cx: &mut Context<'_>, item: Arrived) -> Option<Arrived> {
        let (flow, is_partial) = (item.inner.flow, item.inner.kind != UnitKind::Packet);
        let inner = InnerHeader { form: HeaderForm::Whole, ..item.inner };
        if item.inner.form == HeaderForm::Whole {
            return Some(item);
        }
        if item.inner.form == HeaderForm::Reference {
            self.known_headers.learn(flow, inner.seq, item.bytes(cx.pool));
            return Some(Arrived { inner, ..item });
        }
        let (seq, body) = inner::parse_reference(item.bytes(cx.pool)).ok()?;
        let Some(reference) = self.known_headers.get(flow, seq) else {
            self.output.orphans += 1;
            return None;
        };
        let mut header = [0; MAX_HEADER_LEN];
        let (header_len, payload) = reference.restore(body, is_partial, &mut header).ok()?;
        let len = header_len + payload.len();
        let payload_at = item.start + item.len - payload.len();
        let buf = cx.pool.alloc(len)?;
        let came = cx.pool.take(item.buf);
        if let (Some(to), Some(payload)) =
            (cx.pool.bytes_mut(buf).get_mut(..len), came.get(payload_at..item.start + item.len))
        {
            to[..header_len].copy_from_slice(&header[..header_len]);
            to[header_len..].copy_from_slice(payload);
        }
        cx.pool.put(item.buf, came);
        Some(Arrived { buf, start: 0, len, inner, ..item })
    }

    /// A part of a unit: the unit counts once it is whole.
    fn on_part(&mut self, cx: &mut Context<'_>, vpn: VpnId, buf: BufId, plaintext: Range<usize>, outer_tos: u8) {
        let mut copy = [0; MAX_GRANULES as usize * GRANULE + PART_HEADER_LEN];
        let bytes = cx.pool.bytes(buf).get(plaintext).and_then(|bytes| {
            let copy = copy.get_mut(..bytes.len())?;
            copy.copy_from_slice(bytes);
            Some(copy)
        });
        let Some(Ok((part, payload))) = bytes.map(|bytes| PartHeader::parse(bytes)) else {
            self.joins.broken += 1;
            return;
        };
        let Some(joined) = self.joins.add(cx.now, cx.pool, vpn, &part, payload, outer_tos) else { return };
        let Joined { vpn, unit: inner, buf, len, outer_tos } = joined;
        let packet = cx.pool.bytes(buf).get(..len).unwrap_or_default();
        let (source, ce) = seen(&inner, packet, outer_tos);
        if !planted::is(Fault::SourceNotChecked) && !self.may_send(cx, vpn, &inner, source) {
            if !planted::is(Fault::StrayKeepsBuffer) {
                cx.pool.release(buf);
            }
            return self.refuse(cx, vpn, &inner, len, ce);
        }
        self.insert(cx, Arrived { buf, vpn, start: 0, len, inner, outer_tos }, ce);
    }

    /// Puts a unit in its place; takes over its buffer's reference. `ce`: the way marked it.
    fn insert(&mut self, cx: &mut Context<'_>, item: Arrived, ce: bool) {
        if cx.signal.room().is_some() && may_carry(cx.pool, &item) {
            self.ready_offer(cx);
        }
        let (now, vpn, inner, len) = (cx.now, item.vpn, item.inner, item.len);
        let mut egress = Egress::of(self.id, (&mut self.output, &mut self.totals, &mut self.offer), cx);
        let mut out = |flow, seq, item| egress.deliver(flow, seq, item);
        let inserted = match &mut self.arrivals {
            Arrivals::Resequence(r) => r.insert(now, inner.flow, inner.seq, item, &mut out),
            Arrivals::AsTheyCome(d) => d.insert(now, inner.flow, inner.seq, item, &mut out),
        };
        let Inserted::Duplicate(item) = inserted else {
            return self.count_in_loop(vpn, &inner, len, ce);
        };
        self.totals.duplicate_units += 1;
        if !planted::is(Fault::DuplicateKeepsBuffer) {
            cx.pool.release(item.buf);
        }
    }

    /// Whether this peer may send such a unit in `vpn`: it is a member, and the source lies behind it.
    fn may_send(&self, cx: &Context<'_>, vpn: VpnId, inner: &InnerHeader, source: Option<IpAddr>) -> bool {
        match inner.kind {
            UnitKind::TailSlice => vpn == VpnId::DEFAULT || cx.vpns.has_member(vpn, self.id),
            _ => source.is_some_and(|source| cx.vpns.is_behind(vpn, self.id, source)),
        }
    }

    /// A unit that the peer may not send; one that is no member, perhaps no longer, is told so. It was not lost: its loop counts it.
    fn refuse(&mut self, cx: &mut Context<'_>, vpn: VpnId, inner: &InnerHeader, len: usize, ce: bool) {
        cx.vpns.count_stray(vpn);
        self.count_in_loop(vpn, inner, len, ce);
        if vpn != VpnId::DEFAULT && !cx.vpns.has_member(vpn, self.id) {
            self.openings.tell(News::Refuse(vpn));
            self.announce_vpns(None);
        }
    }

    fn would_hold(&mut self, now: Instant, inner: &InnerHeader) -> bool {
        match &mut self.arrivals {
            Arrivals::Resequence(r) => r.would_hold(now, inner.flow, inner.seq),
            Arrivals::AsTheyCome(_) => false,
        }
    }

    /// Releases what has waited long enough for a hole.
    pub(super) fn expire_holes(&mut self, cx: &mut Context<'_>) {
        if let Arrivals::Resequence(resequencer) = &mut self.arrivals {
            let now = cx.now;
            let mut egress = Egress::of(self.id, (&mut self.output, &mut self.totals, &mut self.offer), cx);
            resequencer.expire(now, &mut |flow, seq, item| egress.deliver(flow, seq, item));
        }
    }

    /// Delivers a batch of what waits for order, without what is missing: others are short of room.
    pub(super) fn give_up_holes(&mut self, cx: &mut Context<'_>, units: usize) {
        if let Arrivals::Resequence(resequencer) = &mut self.arrivals {
            let mut egress = Egress::of(self.id, (&mut self.output, &mut self.totals, &mut self.offer), cx);
            resequencer.give_up(units, &mut |flow, seq, item| egress.deliver(flow, seq, item));
        }
    }

    pub(super) fn hole_deadline(&self) -> Option<Instant> {
        match &self.arrivals {
            Arrivals::Resequence(r) => r.next_deadline(),
            Arrivals::AsTheyCome(_) => None,
        }
    }

    /// Parts and half-joined units that were of no use.
    pub(crate) fn broken_parts(&self) -> u64 {
        self.joins.broken
    }

    /// Units that wait for order.
    pub(crate) fn held_units(&self) -> usize {
        match &self.arrivals {
            Arrivals::Resequence(r) => r.held(),
            Arrivals::AsTheyCome(_) => 0,
        }
    }
}

/// Where a unit says it comes from, and whether the way put a CE mark on it, not its sender or the ingress's queue. A tail slice has
/// both from its head.
fn seen(inner: &InnerHeader, packet: &[u8], outer_tos: u8) -> (Option<IpAddr>, bool) {
    let view = if inner.kind == UnitKind::TailSlice { None } else { IpView::parse(packet).ok() };
    let ce = view.as_ref().is_some_and(|ip| Ecn::of(outer_tos) == Ecn::Ce && Ecn::of(ip.tos) != Ecn::Ce);
    (view.map(|ip| ip.src), ce)
}

/// A unit that has to wait leaves the large receive buffer for a small one of its own.
fn copy_out(cx: &mut Context<'_>, item: &Arrived) -> Option<Arrived> {
    let small = cx.pool.alloc(item.len)?;
    let memory = cx.pool.take(item.buf);
    let copied = memory.get(item.start..item.start + item.len).and_then(|from| {
        cx.pool.bytes_mut(small).get_mut(..item.len)?.copy_from_slice(from);
        Some(Arrived { buf: small, start: 0, ..*item })
    });
    cx.pool.put(item.buf, memory);
    if copied.is_none() {
        cx.pool.release(small);
    }
    copied
}

/// What of a peer an [`Egress`] works on.
type EgressEnds<'a> = (&'a mut Output, &'a mut Totals, &'a mut Option<Box<Offer>>);

/// Where units in order go.
struct Egress<'a> {
    totals: &'a mut Totals,
    output: &'a mut Output,
    pool: &'a mut Pool,
    vpns: &'a mut Vpns,
    signals: Option<(&'a mut Room, Place<'a>)>,
}

impl<'a> Egress<'a> {
    fn of(peer: PeerId, ends: EgressEnds<'a>, cx: &'a mut Context<'_>) -> Egress<'a> {
        let (output, totals, offer) = ends;
        let signals = cx
            .signal
            .room_mut()
            .zip(offer.as_deref_mut())
            .map(|(room, offer)| (room, Place { now: cx.now, peer, offer, inward: None, events: cx.events }));
        Egress { totals, output, pool: cx.pool, vpns: cx.vpns, signals }
    }

    fn deliver(&mut self, flow: FlowId, seq: FlowSeq, mut item: Arrived) {
        if let Some((room, place)) = &mut self.signals
            && may_carry(self.pool, &item)
        {
            signal_in(room, place, self.pool, &mut item);
        }
        let Some(vpn) = self.vpns.get_mut(item.vpn) else {
            // Removed while it waited.
            self.pool.release(item.buf);
            return;
        };
        vpn.totals.received_packets += 1;
        vpn.totals.received_bytes += item.len as u64;
        self.totals.received_packets += 1;
        self.totals.received_bytes += item.len as u64;
        self.output.add(self.pool, flow, seq, item);
    }
}

/// Whether a frame asks for a report.
fn is_eliciting(frame: &Frame<'_>) -> bool {
    match frame {
        Frame::Report(_) | Frame::Padding | Frame::Pong { .. } | Frame::LoopReport { .. } => false,
        Frame::Chirped(_) | Frame::Overlay(_) => false,
        Frame::Ping { .. } if planted::is(Fault::PingNotReported) => false,
        Frame::Chirp(chirp) => asks_for_report(chirp),
        _ => true,
    }
}
