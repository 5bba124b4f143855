//! The ACK conditioner against a model: the sender learns all that the receiver acknowledged.
//!
//! `ACKS=10000000 cargo test --release -p weft-core --test ack_condition` judges ten million segments.

use std::collections::BTreeSet;
use weft_core::flow::ack_condition::{AckConditioner, AckVerdict, AckView};
use weft_units::Rng;

const SEGMENT: u32 = 1_000;
const ACK: u8 = 0x10;

/// A receiver of RFC 2018 that acknowledges each segment. Its segments arrive in a random order, some twice.
struct Receiver {
    rng: Rng,
    next: u32,
    /// Segments that arrived above `next`, by number.
    held: BTreeSet<u32>,
    /// Numbers of the latest arrivals, the last one first.
    latest: Vec<u32>,
    /// Numbers of the segments in flight.
    under_way: Vec<u32>,
    window: u16,
    base: u32,
}

/// Contents of one ACK.
#[derive(Clone, Debug)]
struct Said {
    ack: u32,
    window: u16,
    flags: u8,
    payload_len: u32,
    sack: Vec<(u32, u32)>,
}

impl Receiver {
    fn edge(&self, number: u32) -> u32 {
        self.base.wrapping_add(number.wrapping_mul(SEGMENT))
    }

    /// Returns the block of contiguous segments around one that is held.
    fn block(&self, number: u32) -> (u32, u32) {
        let (mut from, mut to) = (number, number + 1);
        while from > 0 && self.held.contains(&(from - 1)) {
            from -= 1;
        }
        while self.held.contains(&to) {
            to += 1;
        }
        (self.edge(from), self.edge(to))
    }

    fn arrive(&mut self) -> Said {
        let at = self.rng.below(self.under_way.len() as u64) as usize;
        let newest = self.under_way.iter().max().map_or(0, |n| n + 1);
        let number = match self.rng.chance(0.03) {
            true => self.under_way[at].saturating_sub(4),
            false => std::mem::replace(&mut self.under_way[at], newest),
        };
        let is_second = number < self.next || !self.held.insert(number);
        while self.held.remove(&self.next) {
            self.next += 1;
        }
        self.latest.retain(|n| self.held.contains(n) && *n != number);
        let mut sack: Vec<(u32, u32)> = Vec::new();
        if is_second {
            sack.push((self.edge(number), self.edge(number + 1)));
        }
        if self.held.contains(&number) {
            self.latest.insert(0, number);
        }
        for latest in self.latest.clone() {
            let block = self.block(latest);
            if !sack.contains(&block) || is_second && sack.iter().skip(1).all(|b| *b != block) {
                sack.push(block);
            }
        }
        let most = 1 + self.rng.below(4) as usize;
        sack.truncate(if self.rng.chance(0.9) { 3 } else { most });
        if self.rng.chance(0.05) {
            self.window = 400 + self.rng.below(3) as u16;
        }
        let payload_len = if self.rng.chance(0.02) { 100 } else { 0 };
        let flags = if self.rng.chance(0.01) { ACK | 0x40 } else { ACK };
        Said { ack: self.edge(self.next), window: self.window, flags, payload_len, sack }
    }
}

/// A sender's state: the acknowledgment, and each segment that was reported as received.
#[derive(Default)]
struct Sender {
    acked: u32,
    sacked: BTreeSet<u32>,
    /// Reports of segments received twice, ECN echoes, windows and data.
    news: Vec<(u32, u16, u8, u32)>,
}

impl Sender {
    fn hear(&mut self, base: u32, said: &Said) {
        self.acked = self.acked.max(said.ack.wrapping_sub(base) / SEGMENT);
        for (left, right) in &said.sack {
            let number = |edge: &u32| edge.wrapping_sub(base) / SEGMENT;
            self.sacked.extend(number(left)..number(right));
        }
        let acked = self.acked;
        self.sacked = self.sacked.split_off(&acked);
        if said.payload_len > 0 || said.flags != ACK {
            self.news.push((said.ack, said.window, said.flags, said.payload_len));
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test's length may come from the environment")]
fn no_acknowledgement_of_a_receiver_is_lost() {
    let usual = if std::env::var_os("WEFT_CHECK").is_some() { 10_000_000 } else { 300_000 };
    let most: u64 = std::env::var("ACKS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let (mut judged, mut forwarded, mut duplicates) = (0, 0, 0);
    for seed in 0.. {
        let mut rng = Rng::new(seed);
        let base = rng.next_u64() as u32;
        let under_way = (0..1 + rng.below(12) as u32).collect();
        let (held, latest) = (BTreeSet::new(), Vec::new());
        let mut receiver = Receiver { rng: rng.split(1), next: 0, held, latest, under_way, window: 400, base };
        let (mut conditioner, mut held): (_, Option<Said>) = (AckConditioner::default(), None);
        let (mut plain, mut thinned) = (Sender::default(), Sender::default());
        let (mut last, mut window_told) = (None, None);
        for _ in 0..1_000 {
            let said = receiver.arrive();
            plain.hear(base, &said);
            duplicates += u64::from(last == Some(said.ack));
            last = Some(said.ack);
            let Said { ack, window, flags, payload_len, .. } = said;
            let verdict = conditioner.judge(&AckView { ack, window, flags, payload_len, sack: &said.sack });
            judged += 1;
            let mut forward = |said: Option<Said>| {
                let said = said.expect("there is a held segment");
                thinned.hear(base, &said);
                window_told = Some(said.window);
                forwarded += 1;
            };
            match verdict {
                AckVerdict::Pass => {
                    assert!(held.is_none());
                    forward(Some(said));
                }
                AckVerdict::Hold => held = Some(said),
                AckVerdict::Replace => {
                    assert!(held.take().is_some());
                    forward(Some(said));
                }
                AckVerdict::PassBoth => {
                    forward(held.take());
                    forward(Some(said));
                }
            }
            if held.is_some() && rng.chance(0.2) {
                conditioner.on_released();
                forward(held.take());
            }
            if held.is_none() {
                assert_eq!((plain.acked, &plain.sacked), (thinned.acked, &thinned.sacked), "seed {seed}");
                assert_eq!((&plain.news, window_told), (&thinned.news, Some(receiver.window)), "seed {seed}");
            }
        }
        if judged >= most {
            break;
        }
    }
    println!("{judged} segments, {duplicates} duplicates, {forwarded} forwarded");
    assert!(judged - forwarded > duplicates / 4, "{judged} {forwarded} {duplicates}");
}
