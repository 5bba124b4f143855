//! Relaying: forwards datagrams of other nodes, in the buffers in which they arrived.
//!
//! A relayed datagram is authenticated and its header is rewritten. It then joins a batch for its next node. The
//! relay cannot decrypt the content and keeps no state about it.

use super::Engine;
use crate::api::{Departing, Forward, Received, Transmit};
use crate::links::is_route;
use crate::relay::forward::{ArrivalRoute, RelayHop, ip_bytes};
use crate::relay::turns::WaitingBatch;
use core::ops::Range;
use weft_session::Relayed;
use weft_units::{Instant, LinkId, PeerId};
use weft_wire::relay::{Label, Way};

impl Engine {
    /// Handles a relayed datagram: delivers it to this node or forwards it.
    pub(super) fn on_relayed(&mut self, now: Instant, received: &Received, start: usize, end: usize) {
        let Some(bytes) = self.pool.bytes_mut(received.buf).get_mut(start..end) else { return };
        // A relay header may not contain another one, because one header carries the whole route.
        let opened = match self.sessions.open_relayed(bytes) {
            Ok(opened) if !is_route(&received.source) => opened,
            _ => {
                self.wire.rejected_datagrams += 1;
                return;
            }
        };
        if !self.on_authentic(now, opened.peer, opened.first_with_this_key, opened.fresh) {
            return;
        }
        if opened.way.is_begun() && !self.trust.may_relay(opened.peer) {
            self.relaying.totals.refused_datagrams += 1;
            return;
        }
        match opened.way.next() {
            Some(label) => self.pass_on(now, received, start..end, &opened, label),
            None => self.on_arrival(now, received, start, &opened),
        }
    }

    /// Handles the datagram inside a relayed datagram as if it had arrived on the link that stands for the route.
    fn on_arrival(&mut self, now: Instant, received: &Received, start: usize, opened: &Relayed) {
        let ArrivalRoute { link, source, .. } = self.arrival(now, received, opened);
        let within = Received { link, source, destination: None, ..*received };
        self.handle_datagram(now, &within, start + opened.within.start, start + opened.within.end);
    }

    /// Returns the route by which a relayed datagram reached this node. The lookup is done once for each batch.
    fn arrival(&mut self, now: Instant, received: &Received, opened: &Relayed) -> ArrivalRoute {
        let relaying = &mut self.relaying;
        let (via, way) = (opened.peer, opened.way);
        let known = relaying.arrival.filter(|known| (known.via, known.way) == (via, way));
        known.unwrap_or_else(|| {
            let route = relaying.routes.found(now, via, way.back(), received.source.is_ipv4());
            let arrival = ArrivalRoute { via, way, link: route.link.id, source: route.address };
            *relaying.arrival.insert(arrival)
        })
    }

    fn pass_on(&mut self, now: Instant, received: &Received, range: Range<usize>, opened: &Relayed, label: Label) {
        if self.try_to_pass_on(now, received, range, opened, label).is_none() {
            self.relaying.totals.refused_datagrams += 1;
        }
    }

    fn try_to_pass_on(
        &mut self,
        now: Instant,
        received: &Received,
        range: Range<usize>,
        opened: &Relayed,
        label: Label,
    ) -> Option<()> {
        let segment = self.segment(opened.peer, label)?;
        if self.is_cut(segment.link, &segment.destination) {
            return None;
        }
        let way = opened.way.passed(self.relaying.labels.of(opened.peer.0.into())?);
        let RelayHop { link, destination, source, place, next, .. } = segment;
        let transmit = Transmit { link, destination, source, tos: received.tos, len: range.len(), segment_size: None };
        let forward = Forward { buf: received.buf, start: range.start, transmit };
        let waiting = WaitingBatch { forward, to: next, way, ip_bytes: ip_bytes(&transmit), since: now };
        self.relaying.departures.push(place, opened.peer, waiting, &mut self.pool);
        Some(())
    }

    /// Returns the next node of a relayed datagram, and the link and address to it.
    ///
    /// Returns `None` if this node does not relay, or if the next node is not a reachable peer. `label` names the next
    /// node in the relay header. `before` is the peer from which the datagram arrived. The lookup is done once for each
    /// batch.
    fn segment(&mut self, before: PeerId, label: Label) -> Option<RelayHop> {
        let relaying = &mut self.relaying;
        if let Some(known) = relaying.segment.filter(|known| (known.before, known.label) == (before, label)) {
            return Some(known);
        }
        let next = relaying.labels.peer(label).filter(|next| relaying.is_relay && *next != before)?;
        let peer = self.peers.get(usize::from(next.0))?;
        let path = peer.fastest_proven_path()?;
        let (link, destination, source) = (path.link, path.remote, path.local);
        let place = relaying.departures.place_of(&self.links, link);
        relaying.segment = Some(RelayHop { before, label, next, link, place, destination, source });
        relaying.segment
    }

    /// Deletes the results of the lookups for the last batch of relayed datagrams.
    pub(super) fn forget_last_batch(&mut self) {
        self.relaying.segment = None;
        self.relaying.arrival = None;
    }

    /// Returns the next batch of datagrams to send, if there is one.
    ///
    /// Own and relayed datagrams take turns, own ones first, and each waits for its pacer.
    ///
    /// An own send is written to `out`, which should hold 65,536 bytes.
    pub fn poll_departing(&mut self, now: Instant, out: &mut [u8]) -> Option<Departing> {
        if self.relaying.departures.has_turn(now)
            && let Some(forward) = self.poll_forward(now)
        {
            return Some(Departing::Relayed(forward));
        }
        match self.poll_wrapped(now, out) {
            Some(own) => Some(Departing::Own(own)),
            None => self.poll_forward(now).map(Departing::Relayed),
        }
    }

    /// Returns the next batch of datagrams to send, always in `out`.
    ///
    /// It works as [`Engine::poll_departing`], but copies relayed datagrams to `out`.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<Transmit> {
        loop {
            match self.poll_departing(now, out)? {
                Departing::Own(transmit) => return Some(transmit),
                Departing::Relayed(forward) => {
                    if let Some(transmit) = self.copy_forward(&forward, out) {
                        return Some(transmit);
                    }
                }
            }
        }
    }

    fn poll_forward(&mut self, now: Instant) -> Option<Forward> {
        while let Some(WaitingBatch { forward, to, way, .. }) =
            self.relaying.departures.pop(now, &self.links, &mut self.pool)
        {
            if self.seal_forward(&forward, to, &way).is_some() {
                self.relaying.totals.datagrams += forward.datagrams() as u64;
                self.relaying.totals.bytes += forward.transmit.len as u64;
                return Some(forward);
            }
            self.relaying.totals.refused_datagrams += forward.datagrams() as u64;
            self.pool.release(forward.buf);
        }
        None
    }

    /// Seals the datagrams of a relayed batch for the next node `to` when the batch leaves.
    ///
    /// Their packet numbers are thus in the order of departure, and the present key is used.
    fn seal_forward(&mut self, forward: &Forward, to: PeerId, way: &Way) -> Option<()> {
        let Transmit { len, segment_size, .. } = forward.transmit;
        let batch = self.pool.bytes_mut(forward.buf).get_mut(forward.start..forward.start + len)?;
        for datagram in batch.chunks_mut(segment_size.map_or(len, usize::from).max(1)) {
            self.sessions.seal_relayed(to, way, datagram).ok()?;
        }
        Some(())
    }

    fn copy_forward(&mut self, forward: &Forward, out: &mut [u8]) -> Option<Transmit> {
        let Forward { buf, start, transmit } = *forward;
        let bytes = self.pool.bytes(buf).get(start..start + transmit.len);
        let room = out.get_mut(..transmit.len);
        let is_written = bytes.zip(room).map(|(bytes, room)| room.copy_from_slice(bytes)).is_some();
        self.pool.release(buf);
        is_written.then_some(transmit)
    }

    /// Records that this node sends datagrams of its own on `transmit.link`.
    ///
    /// `path` is the link of their path, which for a relayed route is another one. If `transmit.link` has a rate
    /// limit, the peer's paths on `path` send their next data only when this node's own datagrams have left at it.
    pub(super) fn note_own(&mut self, now: Instant, path: LinkId, transmit: &Transmit) {
        let departures = &mut self.relaying.departures;
        let Some(at) = departures.on_own(now, &self.links, transmit.link, ip_bytes(transmit)) else { return };
        if let Some(peer) = self.peers.get_mut(self.wire.turn) {
            peer.paths.iter_mut().filter(|own| own.link == path).for_each(|own| own.pacer.wait_until(at));
        }
    }
}
