//! A relay's work: what is for another goes on, in the buffer it came in.

use super::is_route;
use crate::interface::{Received, Transmit};
use crate::node::Engine;
use core::net::{IpAddr, SocketAddr};
use weft_core::pool::BufId;
use weft_session::Relayed;
use weft_units::{Instant, LinkId, PeerId};
use weft_wire::relay::{Label, Way};

/// So many batches wait at most to be sent; more means that nobody sends.
const MAX_FORWARDS: usize = 256;
/// Datagrams in a batch (Linux: UDP_MAX_SEGMENTS).
const MAX_BATCH: usize = 64;

/// Datagrams that only pass through: one behind the other in the buffer they came in, they leave together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forward {
    /// The buffer. Who takes the batch gives it back ([`Pool::release`](weft_core::pool::Pool::release)).
    pub buf: BufId,
    /// Where in it they begin.
    pub start: usize,
    /// How they leave.
    pub transmit: Transmit,
}

/// The next node, and the way to it: the same for all datagrams of a batch.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    before: PeerId,
    label: Label,
    next: PeerId,
    link: LinkId,
    destination: SocketAddr,
    source: Option<IpAddr>,
}

/// The route by which a datagram came, and its link and address: the same for all datagrams of a batch.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    via: PeerId,
    way: Way,
    link: LinkId,
    source: SocketAddr,
}

impl Forward {
    /// Takes one more datagram in, if it lies behind the others, is no longer than the first and goes the same way.
    fn takes(&mut self, buf: BufId, start: usize, datagram: &Transmit) -> bool {
        let batch = &mut self.transmit;
        let size = batch.segment_size.map_or(batch.len, usize::from);
        let fits = self.buf == buf
            && self.start + batch.len == start
            && batch.len.is_multiple_of(size)
            && batch.len / size < MAX_BATCH
            && datagram.len <= size
            && (batch.link, batch.destination, batch.source, batch.tos)
                == (datagram.link, datagram.destination, datagram.source, datagram.tos);
        if fits {
            batch.len += datagram.len;
            batch.segment_size = u16::try_from(size).ok();
        }
        fits
    }
}

impl Engine {
    /// Takes in a relayed datagram: it is for this node, or goes on.
    pub(crate) fn on_relayed(&mut self, now: Instant, received: &Received, start: usize, end: usize) {
        let Some(bytes) = self.pool.bytes_mut(received.buf).get_mut(start..end) else { return };
        // Nothing is relayed within what is relayed: a way says all.
        let opened = match self.sessions.open_relayed(bytes) {
            Ok(opened) if !is_route(&received.source) => opened,
            _ => {
                self.rejected_datagrams += 1;
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
            Some(label) => self.pass_on(received, start, end, &opened, label),
            None => self.on_arrival(now, received, start, &opened),
        }
    }

    /// What is within came from the route's other end, as if by a link.
    fn on_arrival(&mut self, now: Instant, received: &Received, start: usize, opened: &Relayed) {
        let Arrival { link, source, .. } = self.arrival(now, received, opened);
        let within = Received { link, source, destination: None, ..*received };
        self.handle_datagram(now, &within, start + opened.within.start, start + opened.within.end);
    }

    /// The route of a datagram that is for this node; looked for once a batch.
    fn arrival(&mut self, now: Instant, received: &Received, opened: &Relayed) -> Arrival {
        let relaying = &mut self.relaying;
        let (via, way) = (opened.peer, opened.way);
        let known = relaying.arrival.filter(|known| (known.via, known.way) == (via, way));
        known.unwrap_or_else(|| {
            let route = relaying.routes.found(now, via, way.back(), received.source.is_ipv4());
            let arrival = Arrival { via, way, link: route.link.id, source: route.address };
            *relaying.arrival.insert(arrival)
        })
    }

    fn pass_on(&mut self, received: &Received, start: usize, end: usize, opened: &Relayed, label: Label) {
        if self.try_to_pass_on(received, start, end, opened, label).is_none() {
            self.relaying.totals.refused_datagrams += 1;
        }
    }

    fn try_to_pass_on(
        &mut self,
        received: &Received,
        start: usize,
        end: usize,
        opened: &Relayed,
        label: Label,
    ) -> Option<()> {
        let segment = self.segment(opened.peer, label)?;
        if self.is_cut(segment.link, &segment.destination) {
            return None;
        }
        let before = self.relaying.labels.get(usize::from(opened.peer.0))?;
        let way = opened.way.passed(*before);
        let datagram = self.pool.bytes_mut(received.buf).get_mut(start..end)?;
        self.sessions.seal_relayed(segment.next, &way, datagram).ok()?;
        let Segment { link, destination, source, .. } = segment;
        let transmit = Transmit { link, destination, source, tos: received.tos, len: end - start, segment_size: None };
        self.relaying.totals.datagrams += 1;
        self.relaying.totals.bytes += transmit.len as u64;
        let last = self.relaying.forwards.back_mut();
        if !last.is_some_and(|last| last.takes(received.buf, start, &transmit)) {
            self.pool.retain(received.buf);
            self.relaying.forwards.push_back(Forward { buf: received.buf, start, transmit });
        }
        Some(())
    }

    /// By what link and path a datagram from `before` reaches the node of that label, if it may and can; looked for once a batch.
    fn segment(&mut self, before: PeerId, label: Label) -> Option<Segment> {
        let relaying = &mut self.relaying;
        if relaying.forwards.len() >= MAX_FORWARDS {
            return None;
        }
        if let Some(known) = relaying.segment.filter(|known| (known.before, known.label) == (before, label)) {
            return Some(known);
        }
        let next = relaying.peer(label).filter(|next| relaying.is_relay && *next != before)?;
        let peer = self.peers.get(usize::from(next.0))?;
        let path = peer.fastest_direct_path()?;
        let (link, destination, source) = (path.link, path.remote, path.local);
        relaying.segment = Some(Segment { before, label, next, link, destination, source });
        relaying.segment
    }

    /// Another batch begins: what was found for the last one may not hold for it.
    pub(crate) fn forget_last_batch(&mut self) {
        self.relaying.segment = None;
        self.relaying.arrival = None;
    }

    /// The next datagrams that only pass through, where they are. [`Engine::poll_transmit`] gives a copy of them.
    pub fn poll_forward(&mut self) -> Option<Forward> {
        self.relaying.forwards.pop_front()
    }

    pub(crate) fn copy_forward(&mut self, out: &mut [u8]) -> Option<Transmit> {
        let Forward { buf, start, transmit } = self.poll_forward()?;
        let bytes = self.pool.bytes(buf).get(start..start + transmit.len);
        let room = out.get_mut(..transmit.len);
        let is_written = bytes.zip(room).map(|(bytes, room)| room.copy_from_slice(bytes)).is_some();
        self.pool.release(buf);
        is_written.then_some(transmit)
    }

    /// Whether something is only passing through.
    pub(crate) fn has_forwards(&self) -> bool {
        !self.relaying.forwards.is_empty()
    }
}
