//! A relay's work: what is for another goes on, in the buffer it came in.

use super::is_route;
use crate::interface::{Received, Transmit};
use crate::node::Engine;
use weft_core::pool::BufId;
use weft_session::Relayed;
use weft_units::Instant;
use weft_wire::relay::Label;

/// So many batches wait at most to be sent; more means that nobody sends.
const MAX_FORWARDS: usize = 256;
/// Datagrams in a batch (Linux: UDP_MAX_SEGMENTS).
const MAX_BATCH: usize = 64;

/// Datagrams in a buffer, one behind the other, that leave together.
pub(super) struct Forward {
    buf: BufId,
    start: usize,
    transmit: Transmit,
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
        let route = self.relaying.routes.found(now, opened.peer, opened.way.back(), received.source.is_ipv4());
        let within = Received { link: route.link.id, source: route.address, destination: None, ..*received };
        self.handle_datagram(now, &within, start + opened.within.start, start + opened.within.end);
    }

    fn pass_on(&mut self, received: &Received, start: usize, end: usize, opened: &Relayed, label: Label) {
        let relaying = &self.relaying;
        let next = relaying.peer(label).filter(|next| relaying.is_relay && *next != opened.peer);
        let before = relaying.labels.get(usize::from(opened.peer.0));
        let ways = next.zip(before).map(|(next, before)| (next, opened.way.passed(*before)));
        let Some((next, way)) = ways.filter(|_| relaying.forwards.len() < MAX_FORWARDS) else {
            self.relaying.totals.refused_datagrams += 1;
            return;
        };
        let path = self.peers.get(usize::from(next.0)).and_then(|peer| peer.paths.get(peer.fastest_path()?));
        let Some(path) = path.filter(|path| path.is_usable()) else {
            self.relaying.totals.refused_datagrams += 1;
            return;
        };
        let transmit = Transmit {
            link: path.link,
            destination: path.remote,
            source: path.local,
            tos: received.tos,
            len: end - start,
            segment_size: None,
        };
        let Some(bytes) = self.pool.bytes_mut(received.buf).get_mut(start..end) else { return };
        if self.sessions.seal_relayed(next, &way, bytes).is_err() {
            self.relaying.totals.refused_datagrams += 1;
            return;
        }
        self.relaying.totals.datagrams += 1;
        self.relaying.totals.bytes += (end - start) as u64;
        let last = self.relaying.forwards.back_mut();
        if !last.is_some_and(|last| last.takes(received.buf, start, &transmit)) {
            self.pool.retain(received.buf);
            self.relaying.forwards.push_back(Forward { buf: received.buf, start, transmit });
        }
    }

    /// The next datagrams that are only passing through.
    pub(crate) fn poll_forward(&mut self, out: &mut [u8]) -> Option<Transmit> {
        let Forward { buf, start, transmit } = self.relaying.forwards.pop_front()?;
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
