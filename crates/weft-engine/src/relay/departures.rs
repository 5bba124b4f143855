//! Datagrams that a relay has to forward, by egress link.
//!
//! Peers take turns ([`Turns`]) within the link's `max-rate-up`. Queues are bounded in bytes and age. A link without
//! a limit queues nothing: the packet loop sends datagrams, in batches, in the same pass in which it received them.
//! On a link with a limit, this node's own datagrams use up the limit too. Its control datagrams leave at once. Its
//! data of all peers together gets half of the limit while relayed datagrams wait, and else what they leave.

use super::turns::{Turns, WaitingBatch};
use crate::links::Links;
use crate::path::Pacer;
use alloc::vec::Vec;
use weft_core::pool::Pool;
use weft_units::{Duration, Instant, LinkId, PeerId, Rate};

/// Maximum number of batches that wait on all links together. Derived: a quarter of the engine's 4,096 large buffers.
const MAX_BATCHES: usize = 1_024;
/// Maximum length of a link's queue, as time at the link's rate limit. A longer queue loses batches.
const MAX_QUEUE: Duration = Duration::from_millis(50);
/// Least maximum length of a queue, in bytes, whatever the link's rate: twenty full datagrams.
const LEAST_QUEUE_BYTES: u64 = 30_000;
/// Longest wait of a batch. Afterwards it is dropped, because its sender has retransmitted its content long ago.
const MAX_AGE: Duration = Duration::from_millis(200);
/// Maximum length of a batch, as time at the link's rate limit. A batch holds at least one datagram.
const BATCH_TIME: Duration = Duration::from_millis(1);
/// Part of a link's limit that this node's own datagrams get while relayed batches wait.
///
/// *Derived*: own and relayed datagrams take turns.
const OWN_SHARE: f64 = 0.5;
/// Longest time by which this node's own datagrams may delay relayed ones.
const MAX_DEBT: Duration = Duration::from_millis(50);

/// Queue of the relayed datagrams for one egress link.
#[derive(Debug)]
struct Departure {
    link: LinkId,
    cap: Option<Rate>,
    pacer: Pacer,
    /// Time at which this node's own datagrams have left: at the limit, or at half of it while relayed batches wait.
    own: Pacer,
    turns: Turns,
}

impl Departure {
    fn ready_at(&self) -> Option<Instant> {
        let at = if self.cap.is_some() { self.pacer.ready_at() } else { Instant::ZERO };
        (!self.turns.is_empty()).then_some(at)
    }

    /// Returns the maximum length of a batch on this link, in bytes.
    fn most_of_batch(&self) -> usize {
        self.cap.map_or(usize::MAX, |cap| usize::try_from(cap.bytes_in(BATCH_TIME)).unwrap_or(usize::MAX))
    }

    fn is_too_long(&self) -> bool {
        let most = self.cap.map(|cap| cap.bytes_in(MAX_QUEUE).max(LEAST_QUEUE_BYTES));
        most.is_some_and(|most| self.turns.ip_bytes() > most)
    }
}

/// Queues of the relayed datagrams for all egress links.
#[derive(Debug, Default)]
pub struct Departures {
    links: Vec<Departure>,
    next: usize,
    batches: usize,
    /// True if this node's own datagrams left last, so that relayed datagrams are next.
    is_turn: bool,
    /// Number of datagrams dropped because too many waited, they waited too long, or their link went down.
    dropped: u64,
}

impl Departures {
    /// Returns the index of a link's queue in the list of queues, and creates the queue if there is none.
    pub fn place_of(&mut self, links: &Links, link: LinkId) -> usize {
        let cap = links.get(link).and_then(|link| link.cap);
        let place = self.links.iter().position(|departure| departure.link == link).unwrap_or_else(|| {
            self.links.retain(|departure| !departure.turns.is_empty() || links.get(departure.link).is_some());
            self.links.push(Departure {
                link,
                cap,
                pacer: Pacer::default(),
                own: Pacer::default(),
                turns: Turns::default(),
            });
            self.links.len() - 1
        });
        if let Some(departure) = self.links.get_mut(place) {
            departure.cap = cap;
        }
        place
    }

    /// Queues a peer's datagram for the link at `place`.
    ///
    /// A new batch adds one reference to the buffer of its datagrams. A datagram that joins a batch adds none.
    pub fn push(&mut self, place: usize, from: PeerId, waiting: WaitingBatch, pool: &mut Pool) {
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

    /// Drops one batch of the link on which the most batches wait.
    fn shed(&mut self, pool: &mut Pool) {
        let longest = self.links.iter_mut().max_by_key(|departure| departure.turns.batches());
        if let Some(waiting) = longest.and_then(|departure| departure.turns.pop_fattest()) {
            self.batches -= 1;
            self.dropped += drop_batch(&waiting, pool);
        }
    }

    /// Removes and returns the next batch that may leave now.
    pub fn pop(&mut self, now: Instant, links: &Links, pool: &mut Pool) -> Option<WaitingBatch> {
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

    /// Drops all batches of a link that is down. `place` is the index of the link's queue.
    fn forget(&mut self, place: usize, pool: &mut Pool) {
        while let Some(waiting) = self.links.get_mut(place).and_then(|departure| departure.turns.pop()) {
            self.batches -= 1;
            self.dropped += drop_batch(&waiting, pool);
        }
    }

    /// Records that this node's own datagrams left by a link.
    ///
    /// Returns the time at which the next data of the same peer may leave by the link, or `None` for a link without a
    /// limit.
    pub fn on_own(&mut self, now: Instant, links: &Links, link: LinkId, ip_bytes: u64) -> Option<Instant> {
        self.is_turn = true;
        let cap = links.get(link)?.cap?;
        let place = self.place_of(links, link);
        let departure = self.links.get_mut(place)?;
        departure.pacer.consume(now, ip_bytes, cap);
        departure.pacer.wait_at_most(now + MAX_DEBT);
        let share = if departure.turns.is_empty() { cap } else { cap.scaled(OWN_SHARE) };
        departure.own.consume(now, ip_bytes, share);
        Some(departure.own.ready_at())
    }

    /// True if a relayed batch leaves before this node's next own datagram.
    pub fn has_turn(&self, now: Instant) -> bool {
        self.is_turn && self.ready_at().is_some_and(|at| at <= now)
    }

    /// Returns the time at which the next relayed batch may leave, or `None` if none waits.
    pub fn ready_at(&self) -> Option<Instant> {
        if self.batches == 0 {
            return None;
        }
        self.links.iter().filter_map(Departure::ready_at).min()
    }

    /// Returns the number of relayed datagrams dropped so far.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Releases a batch's buffer. Returns the number of its datagrams.
fn drop_batch(waiting: &WaitingBatch, pool: &mut Pool) -> u64 {
    pool.release(waiting.forward.buf);
    waiting.forward.datagrams() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Forward, LinkConfig, LinkEvent, Transmit};
    use alloc::vec;
    use weft_core::pool::Limits;
    use weft_units::{PathUse, Rng};
    use weft_wire::relay::{Label, Way};

    const LINK: LinkId = LinkId(1);
    const PACKET: u64 = 1_200;

    fn links(cap: Rate) -> Links {
        let config = LinkConfig { name: "wan".into(), cap: Some(cap), send: true, allowed: PathUse::default() };
        let mut links = Links::new(vec![config]);
        links.apply(&LinkEvent::Up { link: LINK, name: "wan".into(), mtu: 1_500, ipv4: true, ipv6: false });
        links
    }

    fn batch(now: Instant, pool: &mut Pool) -> Option<WaitingBatch> {
        let (buf, destination) = (pool.alloc_small()?, ([192, 0, 2, 1], 1).into());
        let transmit = Transmit { link: LINK, destination, source: None, tos: 0, len: 1_172, segment_size: None };
        let way = Way::new(&[Label(1)]).ok()?;
        let forward = Forward { buf, start: 0, transmit };
        Some(WaitingBatch { forward, to: PeerId(9), way, ip_bytes: PACKET, since: now })
    }

    /// Returns the rates of own data and of relayed data in Mbit/s, over ten seconds.
    ///
    /// Each of `peers` own peers always has data. Relayed data arrives at `relayed`. A burst of `control` datagrams
    /// of this node leaves every two seconds.
    fn rates(cap: Rate, peers: usize, relayed: Rate, control: usize) -> [f64; 2] {
        let (links, mut departures) = (links(cap), Departures::default());
        let mut pool = Pool::new(Limits { small: 4_096, large: 0 });
        let mut ready = vec![Instant::ZERO; peers];
        let (mut sent, mut credit, mut turn) = ([0, 0], 0, 0);
        for us in (0..10_000_000u64).step_by(100) {
            let now = Instant::from_millis(1_000) + Duration::from_micros(us);
            credit += relayed.bps();
            while credit >= PACKET * 8 * 10_000 {
                credit -= PACKET * 8 * 10_000;
                if let Some(waiting) = batch(now, &mut pool) {
                    let (place, buf) = (departures.place_of(&links, LINK), waiting.forward.buf);
                    departures.push(place, PeerId(8), waiting, &mut pool);
                    pool.release(buf);
                }
            }
            if us % 2_000_000 == 0 {
                for _ in 0..control {
                    departures.on_own(now, &links, LINK, 100);
                }
            }
            loop {
                let own = (0..peers).map(|nth| (turn + nth) % peers).find(|peer| ready[*peer] <= now);
                if own.is_none() || departures.has_turn(now) {
                    let Some(waiting) = departures.pop(now, &links, &mut pool) else { break };
                    sent[1] += waiting.ip_bytes;
                    pool.release(waiting.forward.buf);
                } else if let Some(peer) = own {
                    ready[peer] = departures.on_own(now, &links, LINK, PACKET).unwrap_or(now);
                    sent[0] += PACKET;
                    turn = peer + 1;
                }
            }
        }
        sent.map(|bytes| bytes as f64 * 8.0 / 1e7)
    }

    /// Own data of any number of peers and relayed data share the limit, whatever control datagrams leave.
    #[test]
    fn own_and_relayed_data_share_the_limit() {
        let mut rng = Rng::new(3);
        for _ in 0..20 {
            let (peers, mbps, control) = (1 + rng.below(40) as usize, 2 + rng.below(50), rng.below(100) as usize);
            let (cap, load) = (Rate::from_mbps(mbps), 0.2 + rng.unit());
            let [own, relayed] = rates(cap, peers, cap.scaled(load), control);
            let [own, relayed] = [own, relayed].map(|rate| rate / mbps as f64);
            let what =
                alloc::format!("{peers} peers, {mbps} Mbit/s, load {load:.2}: {own:.2} own, {relayed:.2} relayed");
            assert!((0.85..1.06).contains(&(own + relayed)), "{what}");
            assert!(own > 0.38 && relayed > load.min(0.5) * 0.8, "{what}");
        }
    }
}
