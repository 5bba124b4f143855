//! Reception: from opened datagrams to the TUN device.
//!
//! A datagram finds or creates its path. Control frames are dispatched to their modules. A data unit is rebuilt from
//! parts and from a compressed header. Its source is checked against the peer's prefixes, and the unit is resequenced
//! and handed to the egress output. A datagram that was not authenticated never reaches this module.

use super::delivery::Egress;
use super::inbound::Arrivals;
use super::inbound::egress::Arrived;
use super::inbound::join::Joined;
use super::sense::asks_for_report;
use super::signalling::may_carry;
use super::{Context, Peer, loops};
use crate::api::Event;
use crate::api::PathState;
use crate::api::Received;
use crate::links::is_route;
use crate::links::{ETHERNET_MTU, Link};
use crate::path::{Ends, Path, Proof};
use crate::vpn::News;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use weft_core::pool::BufId;
use weft_core::reorder::Inserted;
use weft_session::{OpenedPacket, VpnStanding};
use weft_units::planted::{self, Fault};
use weft_units::{Duration, FlowId, FlowSeq, Instant, VpnId};
use weft_wire::frame::{Frame, Frames};
use weft_wire::hop::PacketType;
use weft_wire::inner::{self, GRANULE, HeaderForm, InnerHeader, MAX_GRANULES, PART_HEADER_LEN, PartHeader, UnitKind};
use weft_wire::ip::{Ecn, IpView};
use weft_wire::super_packet::MAX_HEADER_LEN;

/// Maximum number of remembered addresses from which copies of one handshake initiation arrived.
///
/// *Derived*: one for each of a peer's links.
const MAX_HANDSHAKE_ADDRESSES: usize = 16;

/// A datagram that was authenticated and decrypted, with the position of its plaintext in the buffer.
pub struct Datagram {
    pub opened: OpenedPacket,
    pub plaintext: Range<usize>,
    pub wire_bytes: u32,
}

/// A path is quiet if this node has sent no report about it for this time.
///
/// Derived: half of the interval at which a path without traffic is probed while hosts use it.
const QUIET: Duration = Duration::from_millis(500);

impl Peer {
    pub fn on_datagram(&mut self, cx: &mut Context<'_>, received: &Received, datagram: &Datagram, link: Option<&Link>) {
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
            PacketType::DataWithReport => {
                let Some(unit_at) = self.on_report_with_data(cx, received.buf, plaintext.clone()) else { return };
                plaintext.start = unit_at;
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
        if !path.pending.pongs.is_empty() && path.log.is_alone(now, QUIET) {
            // On a quiet path, the datagram with the answer to a ping also carries the report about the ping.
            self.schedule_report(now, index);
        }
        let Some(path) = self.paths.get_mut(index) else { return };
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

    /// Returns the index of the path of a datagram, and creates the path if the peer opens one.
    ///
    /// If the path is unknown and the peer may not open it, returns `None`, and the datagram is refused. If a path that
    /// the peer opened has its newest datagram from another address, the path moves to that address.
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
            // The datagram's destination differs from `path.local` if the peer now sends to another address of this
            // node.
            let turned = received.destination.is_some() && path.local != received.destination;
            let moved = turned || path.remote != received.source || path.link != received.link;
            let is_newest = path.newest.is_none_or(|n| datagram.opened.packet_number > n)
                || planted::is(Fault::OlderDatagramMovesPath);
            if moved && !path.ours && is_newest && !planted::is(Fault::MoveNotFollowed) {
                if path.remote != received.source {
                    path.proof.on_moved(cx.now, path.remote, received.source);
                    path.sent_packets.on_moved();
                }
                path.remote = received.source;
                // The peer stores the name of this node's link for the path, so this node sends it the new name.
                path.pending.link |= path.link != received.link;
                path.link = received.link;
                path.link_name.clear();
                path.link_name.push_str(link_name);
                path.local = received.destination;
                path.rate.set_cap(link.and_then(|link| link.cap));
                let was_barred = core::mem::replace(&mut path.barred, link.is_some_and(|link| !link.send));
                if path.barred && !was_barred {
                    self.move_units_away(cx, index);
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
            allowed: link.map(|link| link.allowed).unwrap_or_default(),
        };
        let mut path = Path::new(cx.now, datagram.opened.path, ends, false);
        if !self.is_known(cx, &received.source) {
            path.proof = Proof::in_doubt(cx.now);
        }
        self.paths.push(path);
        Some(self.paths.len() - 1)
    }

    /// True if this node may send to an address of the peer without a proof that the peer receives there.
    ///
    /// The address is configured, or stands for a relayed route, or the peer has used it in a handshake or for a path.
    fn is_known(&self, cx: &Context<'_>, remote: &SocketAddr) -> bool {
        let has_path = |path: &Path| path.remote == *remote && path.shows_peer();
        let is_configured = !cx.trust.is_certified(self.id) && self.config.endpoints.contains(remote);
        is_configured
            || is_route(remote)
            || self.addresses.handshake_from.contains(remote)
            || self.paths.iter().any(has_path)
    }

    /// Records the source address of a handshake initiation that this node answered.
    ///
    /// `repeated` is true for a copy of the last initiation.
    pub fn on_handshake_from(&mut self, remote: SocketAddr, repeated: bool) {
        if !repeated {
            self.addresses.handshake_from.clear();
        }
        if self.addresses.handshake_from.len() < MAX_HANDSHAKE_ADDRESSES
            && !self.addresses.handshake_from.contains(&remote)
        {
            self.addresses.handshake_from.push(remote);
        }
    }

    /// Handles a control datagram.
    ///
    /// Returns true if the datagram asks for a report, or `None` if it ended the session and its paths.
    fn on_control(
        &mut self,
        cx: &mut Context<'_>,
        index: usize,
        received: &Received,
        datagram: &Datagram,
    ) -> Option<bool> {
        let mut copy = [0u8; 1500];
        let bytes = cx.pool.bytes(received.buf).get(datagram.plaintext.clone())?;
        // A padded probe may be longer than `copy`. The bytes that do not fit are padding.
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
                // A chirp fills its datagram, so the rest of the datagram is padding.
                break;
            }
        }
        // The functions below run once for all frames of the datagram, because they examine all lost units or all
        // paths.
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
            Frame::Policy { bundle_toward_me, path_active, path_use } => {
                let path = &mut self.paths[index];
                // The policy in an older datagram is out of date and is ignored.
                if path.newest_policy < Some(datagram.opened.packet_number) {
                    path.newest_policy = Some(datagram.opened.packet_number);
                    path.told_use = path_use;
                    self.on_policy(cx, index, bundle_toward_me, path_active);
                }
            }
            Frame::Vpn { vpn, index: receiver, wants_index } => {
                self.on_vpn(cx, datagram.opened.key, vpn, receiver, wants_index);
            }
            Frame::LoopMarker { vpn, marker } => self.on_marker(cx, at, vpn, marker),
            Frame::LoopReport { vpn, ref report } => self.on_loop_report(cx, vpn, report),
            Frame::Gone { path } => self.on_gone(cx, path),
            Frame::Load(load) => {
                cx.vpns.heard.insert(cx.now, self.id, load);
            }
            Frame::Neighbour(ref neighbour) => self.control.reach.hear(cx.now, neighbour),
            Frame::Revocation(revocation) => self.on_revocation(cx, revocation),
            Frame::Overlay(message) => self.on_overlay(cx.now, message),
            Frame::Chirp(ref chirp) => self.on_chirp(index, at, chirp),
            Frame::Chirped(ref chirped) => self.on_chirped(cx.now, chirped),
        }
    }

    /// Handles the peer's VPN frame, received under the session key with the number `key`.
    ///
    /// `receiver` is the index by which the peer recognizes datagrams of the VPN, or 0 if the peer refuses the VPN.
    /// `wants_index` is true if the peer requests this node's index as well.
    fn on_vpn(&mut self, cx: &mut Context<'_>, key: u32, vpn: VpnId, receiver: u32, wants_index: bool) {
        let is_member = cx.vpns.has_member(vpn, self.id);
        if is_member && receiver != 0 {
            cx.sessions.set_vpn_index(self.id, key, vpn, receiver);
            // An index that belongs to an older session key than the newest one does not open the VPN. This node then
            // requests another index.
            let is_open = cx.sessions.vpn_standing(self.id, vpn) == VpnStanding::Open;
            let waited = self.ingress.openings.answered(vpn, is_open);
            if !waited.is_empty() {
                for (arrival, segment) in waited {
                    self.push_to_queue(cx, arrival, segment);
                }
                self.drop_stale_of(cx, vpn);
            }
        } else if is_member {
            for (_, segment) in self.ingress.openings.refused(cx.now, vpn) {
                self.drop_closed(cx, segment);
            }
        }
        if wants_index {
            self.ingress.openings.queue_frame(if is_member { News::Answer(vpn) } else { News::Refuse(vpn) });
        }
    }

    fn on_pong(&mut self, cx: &mut Context<'_>, token: u32, path: weft_units::PathId) {
        if let Some(probes) = &mut self.control.probes {
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
        self.inbound.hold_asked = hold.min(most);
        if let Arrivals::Resequence(resequencer) = &mut self.inbound.arrivals
            && !planted::is(Fault::HoldIgnored)
        {
            let part = if planted::is(Fault::HoldHalved) { 2 } else { 1 };
            resequencer.set_hold(self.inbound.hold_asked / part);
        }
    }

    /// Handles the peer's policy frame.
    ///
    /// The frame states whether the peer accepts data on several paths, and whether it uses this path for data.
    fn on_policy(&mut self, cx: &mut Context<'_>, index: usize, bundle: bool, active: bool) {
        self.dispatch.peer_wants_bundle = bundle;
        let Some(path) = self.paths.get_mut(index) else { return };
        if path.ours {
            return;
        }
        if core::mem::replace(&mut path.active, active) && !active {
            self.move_units_away(cx, index);
        }
        if active {
            self.resolve_simultaneous_open(cx, index);
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

    /// Handles the case that both nodes opened a path between the same two addresses.
    ///
    /// Only the path with the lower id stays in use.
    fn resolve_simultaneous_open(&mut self, cx: &mut Context<'_>, theirs: usize) {
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
        self.move_units_away(cx, ours);
    }

    fn on_skip(&mut self, cx: &mut Context<'_>, flow: FlowId, first: FlowSeq, count: u32) {
        if let Arrivals::Resequence(resequencer) = &mut self.inbound.arrivals {
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
        if self.inbound.would_hold(cx.now, &inner) {
            match copy_out(cx, &item) {
                Some(copied) => item = copied,
                None => return,
            }
        } else if !(planted::is(Fault::BufferReleasedEarly) && inner.kind == UnitKind::TailSlice) {
            cx.pool.retain(buf);
        }
        self.insert(cx, item, ce);
    }

    /// Returns the unit with its whole header, or `None` if decompression fails.
    ///
    /// A unit with a compressed header gets a new buffer.
    fn with_whole_header(&mut self, cx: &mut Context<'_>, item: Arrived) -> Option<Arrived> {
        let (flow, is_partial) = (item.inner.flow, item.inner.kind != UnitKind::Packet);
        let inner = InnerHeader { form: HeaderForm::Whole, ..item.inner };
        if item.inner.form == HeaderForm::Whole {
            return Some(item);
        }
        if item.inner.form == HeaderForm::Reference {
            self.inbound.known_headers.learn(flow, inner.seq, item.bytes(cx.pool));
            return Some(Arrived { inner, ..item });
        }
        let (seq, body) = inner::parse_reference(item.bytes(cx.pool)).ok()?;
        let Some(reference) = self.inbound.known_headers.get(flow, seq) else {
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

    /// Handles a datagram with a part of a unit. The unit is processed once all of its parts have arrived.
    fn on_part(&mut self, cx: &mut Context<'_>, vpn: VpnId, buf: BufId, plaintext: Range<usize>, outer_tos: u8) {
        let mut copy = [0; MAX_GRANULES as usize * GRANULE + PART_HEADER_LEN];
        let bytes = cx.pool.bytes(buf).get(plaintext).and_then(|bytes| {
            let copy = copy.get_mut(..bytes.len())?;
            copy.copy_from_slice(bytes);
            Some(copy)
        });
        let Some(Ok((part, payload))) = bytes.map(|bytes| PartHeader::parse(bytes)) else {
            self.inbound.joins.broken += 1;
            return;
        };
        let Some(joined) = self.inbound.joins.add(cx.now, cx.pool, vpn, &part, payload, outer_tos) else { return };
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

    /// Inserts a unit into the resequencer and takes ownership of its buffer reference.
    ///
    /// `ce` is true if a router on the path set the datagram's CE mark.
    fn insert(&mut self, cx: &mut Context<'_>, item: Arrived, ce: bool) {
        if cx.signal.room().is_some() && may_carry(cx.pool, &item) {
            self.ready_offer(cx);
        }
        let (now, vpn, inner, len) = (cx.now, item.vpn, item.inner, item.len);
        let mut egress = Egress::of(self.id, (&mut self.output, &mut self.totals, &mut self.offer), cx);
        let mut out = |flow, seq, item| egress.deliver(flow, seq, item);
        let inserted = match &mut self.inbound.arrivals {
            Arrivals::Resequence(r) => r.insert(now, inner.flow, inner.seq, item, &mut out),
            Arrivals::AsTheyCome(d) => d.insert(now, inner.flow, inner.seq, item, &mut out),
        };
        let Inserted::Duplicate(item) = inserted else {
            return self.count_in_loop(now, vpn, &inner, len, ce);
        };
        self.totals.duplicate_units += 1;
        if !planted::is(Fault::DuplicateKeepsBuffer) {
            cx.pool.release(item.buf);
        }
    }

    /// True if the peer is a member of `vpn` and the unit's source address lies behind the peer.
    fn may_send(&self, cx: &Context<'_>, vpn: VpnId, inner: &InnerHeader, source: Option<IpAddr>) -> bool {
        match inner.kind {
            UnitKind::TailSlice => vpn == VpnId::DEFAULT || cx.vpns.has_member(vpn, self.id),
            _ => source.is_some_and(|source| cx.vpns.is_behind(vpn, self.id, source)),
        }
    }

    /// Drops a unit that the peer may not send. A peer that is not a member of the unit's VPN is informed.
    ///
    /// The unit is still counted in its loop, because it arrived.
    fn refuse(&mut self, cx: &mut Context<'_>, vpn: VpnId, inner: &InnerHeader, len: usize, ce: bool) {
        cx.vpns.count_stray(vpn);
        self.count_in_loop(cx.now, vpn, inner, len, ce);
        if vpn != VpnId::DEFAULT && !cx.vpns.has_member(vpn, self.id) {
            self.ingress.openings.queue_frame(News::Refuse(vpn));
            self.announce_vpns(None);
        }
    }

    /// Delivers the units that have waited for a missing unit for longer than the hold time.
    pub(super) fn expire_holes(&mut self, cx: &mut Context<'_>) {
        if let Arrivals::Resequence(resequencer) = &mut self.inbound.arrivals {
            let now = cx.now;
            let mut egress = Egress::of(self.id, (&mut self.output, &mut self.totals, &mut self.offer), cx);
            resequencer.expire(now, &mut |flow, seq, item| egress.deliver(flow, seq, item));
        }
    }

    /// Delivers a batch of units that wait for missing units, because few buffers are left.
    ///
    /// The missing units are skipped.
    pub(super) fn give_up_holes(&mut self, cx: &mut Context<'_>, units: usize) {
        if let Arrivals::Resequence(resequencer) = &mut self.inbound.arrivals {
            let mut egress = Egress::of(self.id, (&mut self.output, &mut self.totals, &mut self.offer), cx);
            resequencer.give_up(units, &mut |flow, seq, item| egress.deliver(flow, seq, item));
        }
    }
}

/// Returns a unit's source address, and true if a router on the path set the CE mark of the datagram.
///
/// A CE mark of the sender or of the ingress queue is ignored. For a tail slice, no address and no mark are returned:
/// its head slice has been checked.
fn seen(inner: &InnerHeader, packet: &[u8], outer_tos: u8) -> (Option<IpAddr>, bool) {
    let view = if inner.kind == UnitKind::TailSlice { None } else { IpView::parse(packet).ok() };
    let ce = view.as_ref().is_some_and(|ip| Ecn::of(outer_tos) == Ecn::Ce && Ecn::of(ip.tos) != Ecn::Ce);
    (view.map(|ip| ip.src), ce)
}

/// Copies a unit that must wait from the large receive buffer to a small one.
///
/// Returns `None` if no small buffer is free.
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

/// True if a frame asks for a report.
fn is_eliciting(frame: &Frame<'_>) -> bool {
    match frame {
        Frame::Report(_) | Frame::Padding | Frame::Pong { .. } | Frame::LoopReport { .. } => false,
        Frame::Chirped(_) | Frame::Overlay(_) | Frame::Load(_) => false,
        Frame::Ping { .. } if planted::is(Fault::PingNotReported) => false,
        Frame::Chirp(chirp) => asks_for_report(chirp),
        _ => true,
    }
}
