//! What a relay has to pass on, link by link: in turns by peer ([`Turns`]), within the link's `max-rate-up`, bounded in bytes and age.
//!
//! A link without a limit holds nothing back: what came in leaves in the same turn of the node, as batches. Where a link has a limit, this node's own
//! datagrams count against it too. Its control goes at once; its data and what is relayed then wait for each other.

use super::turns::{Turns, Waiting};
use crate::links::Links;
use crate::path::Pacer;
use alloc::vec::Vec;
use weft_core::pool::Pool;
use weft_units::{Duration, Instant, LinkId, PeerId, Rate};

/// Batches that wait at most, of all links: a quarter of the large buffers.
const MAX_BATCHES: usize = 1_024;
/// Bytes that wait for a link at most are those of this time at its limit …
const MAX_QUEUE: Duration = Duration::from_millis(50);
/// … but at least this many: twenty full datagrams.
const LEAST_QUEUE_BYTES: u64 = 30_000;
/// A batch that waited for longer is dropped: its sender has long repeated what was in it.
const MAX_AGE: Duration = Duration::from_millis(200);
/// A batch is at most this long at the link's limit, or one datagram.
const BATCH_TIME: Duration = Duration::from_millis(1);
/// Datagrams of this node's own hold up what is relayed for this long at most.
const MAX_DEBT: Duration = Duration::from_millis(50);

/// What waits for one link.
#[derive(Debug)]
struct Departure {
    link: LinkId,
    cap: Option<Rate>,
    pacer: Pacer,
    turns: Turns,
}

impl Departure {
    fn ready_at(&self) -> Option<Instant> {
        let at = if self.cap.is_some() { self.pacer.ready_at() } else { Instant::ZERO };
        (!self.turns.is_empty()).then_some(at)
    }

    /// Bytes of a batch at most.
    fn most_of_batch(&self) -> usize {
        self.cap.map_or(usize::MAX, |cap| usize::try_from(cap.bytes_in(BATCH_TIME)).unwrap_or(usize::MAX))
    }

    fn is_too_long(&self) -> bool {
        let most = self.cap.map(|cap| cap.bytes_in(MAX_QUEUE).max(LEAST_QUEUE_BYTES));
        most.is_some_and(|most| self.turns.ip_bytes() > most)
    }
}

/// What waits for all links.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    links: Vec<Departure>,
    next: usize,
    batches: usize,
    /// This node's own datagrams went last.
    is_turn: bool,
    /// Datagrams that were dropped because too many waited, or waited for too long.
    dropped: u64,
}

impl Departures {
    /// The place of a link.
    pub(super) fn place_of(&mut self, links: &Links, link: LinkId) -> usize {
        let cap = links.get(link).and_then(|link| link.cap);
        let place = self.links.iter().position(|departure| departure.link == link).unwrap_or_else(|| {
            self.links.retain(|departure| !departure.turns.is_empty() || links.get(departure.link).is_some());
            self.links.push(Departure { link, cap, pacer: Pacer::default(), turns: Turns::default() });
            self.links.len() - 1
        });
        if let Some(departure) = self.links.get_mut(place) {
            departure.cap = cap;
        }
        place
    }

    /// Takes in a datagram of a peer that leaves by the link at `place`. Its buffer is retained once for each batch.
    pub(super) fn push(&mut self, place: usize, from: PeerId, waiting: Waiting, pool: &mut Pool) {
        let (buf, now) = (waiting.forward.buf, waiting.since);
        let Some(departure) = self.links.get_mut(place) else { return };
        if departure.turns.is_empty() {
            departure.pacer.start(now);
        }
        let most = departure.most_of_batch();
        if !departure.turns.push(from, waiting, most) {
            pool.retain(buf);
            self.batches += 1;
        }
        while departure.is_too_long()
            && let Some(waiting) = departure.turns.pop_fattest()
        {
            self.batches -= 1;
            self.dropped += drop_batch(&waiting, pool);
        }
        if self.batches > MAX_BATCHES || pool.is_scarce(buf) {
            self.shed(pool);
        }
    }

    /// Drops a batch of the link for which most wait.
    fn shed(&mut self, pool: &mut Pool) {
        let longest = self.links.iter_mut().max_by_key(|departure| departure.turns.batches());
        if let Some(waiting) = longest.and_then(|departure| departure.turns.pop_fattest()) {
            self.batches -= 1;
            self.dropped += drop_batch(&waiting, pool);
        }
    }

    /// The next batch that may leave now.
    pub(super) fn pop(&mut self, now: Instant, links: &Links, pool: &mut Pool) -> Option<Waiting> {
        if self.batches == 0 {
            return None;
        }
        for turn in 0..self.links.len() {
            let place = (self.next + turn) % self.links.len();
            let Some(departure) = self.links.get_mut(place) else { continue };
            let Some(link) = links.get(departure.link) else {
                self.forget(place, pool);
                continue;
            };
            departure.cap = link.cap;
            while departure.ready_at().is_some_and(|at| at <= now)
                && let Some(waiting) = departure.turns.pop()
            {
                self.batches -= 1;
                if now - waiting.since > MAX_AGE {
                    self.dropped += drop_batch(&waiting, pool);
                    continue;
                }
                if let Some(cap) = departure.cap {
                    departure.pacer.consume(now, waiting.ip_bytes, cap);
                }
                (self.next, self.is_turn) = (place + 1, false);
                return Some(waiting);
            }
        }
        None
    }

    /// The link is down: what waits for it goes nowhere.
    fn forget(&mut self, place: usize, pool: &mut Pool) {
        while let Some(waiting) = self.links.get_mut(place).and_then(|departure| departure.turns.pop()) {
            self.batches -= 1;
            self.dropped += drop_batch(&waiting, pool);
        }
    }

    /// This node's own datagrams leave by a link: when the next of its data may, where that has to wait for what is relayed.
    pub(super) fn on_own(&mut self, now: Instant, link: LinkId, ip_bytes: u64) -> Option<Instant> {
        self.is_turn = true;
        let departure = self.links.iter_mut().find(|departure| departure.link == link)?;
        departure.pacer.consume(now, ip_bytes, departure.cap?);
        departure.pacer.wait_at_most(now + MAX_DEBT);
        departure.ready_at()
    }

    /// Whether something relayed goes before the next of this node's own.
    pub(super) fn has_turn(&self, now: Instant) -> bool {
        self.is_turn && self.ready_at().is_some_and(|at| at <= now)
    }

    /// When the next batch may leave.
    pub(crate) fn ready_at(&self) -> Option<Instant> {
        if self.batches == 0 {
            return None;
        }
        self.links.iter().filter_map(Departure::ready_at).min()
    }

    /// Datagrams dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Gives a batch's buffer back; how many datagrams it held.
fn drop_batch(waiting: &Waiting, pool: &mut Pool) -> u64 {
    pool.release(waiting.forward.buf);
    waiting.forward.datagrams() as u64
}
