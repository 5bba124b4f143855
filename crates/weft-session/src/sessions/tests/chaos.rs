//! Two nodes follow their timers over a network that delays, reorders, duplicates and loses datagrams.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use weft_units::Rng;

const STEP: Duration = Duration::from_millis(50);

/// A datagram on its way to node 0 or node 1.
struct DatagramInFlight {
    arrives: Instant,
    to: usize,
    datagram: Vec<u8>,
}

struct ChaosNetwork {
    now: Instant,
    rng: Rng,
    /// Probability that a datagram is lost. It is duplicated with half of this probability.
    loss: f64,
    nodes: [Sessions; 2],
    stamp: u64,
    flights: Vec<DatagramInFlight>,
    /// First blocks of all ciphertexts.
    ///
    /// All plaintexts are zeros, so an equal pair proves that a nonce was used twice.
    blocks: BTreeSet<[u8; 32]>,
    opened: [u64; 2],
}

impl ChaosNetwork {
    fn new(seed: u64, loss: f64) -> ChaosNetwork {
        let (a, b) = identities();
        ChaosNetwork {
            now: Instant::ZERO,
            rng: Rng::new(seed),
            loss,
            nodes: [node(&a, &b, 1), node(&b, &a, 2)],
            stamp: 0,
            flights: Vec::new(),
            blocks: BTreeSet::new(),
            opened: [0; 2],
        }
    }

    fn send(&mut self, to: usize, datagram: &[u8]) {
        for chance in [1.0, self.loss / 2.0] {
            if self.rng.chance(chance) && !self.rng.chance(self.loss) {
                let delay = Duration::from_millis(5 + self.rng.below(1500) * self.rng.below(2));
                self.flights.push(DatagramInFlight { arrives: self.now + delay, to, datagram: datagram.to_vec() });
            }
        }
    }

    fn seal_and_send(&mut self, from: usize) {
        let path = PathId(self.rng.below(3) as u8);
        if let Ok((_, datagram)) = seal(&mut self.nodes[from], path, &[0; 32]) {
            let block = datagram[HOP_HEADER_LEN..][..32].try_into().unwrap();
            assert!(self.blocks.insert(block), "a nonce was used twice");
            self.send(1 - from, &datagram);
        }
    }

    fn arrive(&mut self, flight: DatagramInFlight) {
        let (to, mut out) = (flight.to, [0; RESPONSE_LEN]);
        if open(&mut self.nodes[to], &flight.datagram).is_ok() {
            self.opened[to] += 1;
            return;
        }
        match self.nodes[to].handle(self.now, &flight.datagram, SOURCE, false, &mut out) {
            Ok(Outcome::Reply { len, .. } | Outcome::Cookie { len }) => self.send(1 - to, &out[..len]),
            Ok(Outcome::Established { .. }) => self.seal_and_send(to),
            Ok(Outcome::CookieReceived { .. } | Outcome::Introduced { .. } | Outcome::Refused { .. }) | Err(_) => (),
        }
    }

    fn follow_timers(&mut self, own: usize) {
        for action in self.nodes[own].handle_timeout(self.now) {
            if action == (TimeoutAction::Initiate { peer: PEER }) {
                self.stamp += 1;
                let datagram = initiation(&mut self.nodes[own], self.now, self.stamp);
                self.send(1 - own, &datagram);
            }
        }
    }

    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            self.now += STEP;
            let now = self.now;
            for flight in self.flights.extract_if(.., |flight| flight.arrives <= now).collect::<Vec<_>>() {
                self.arrive(flight);
            }
            for own in [0, 1] {
                self.follow_timers(own);
                self.seal_and_send(own);
            }
        }
    }

    fn restart(&mut self, own: usize, seed: u8) {
        let (a, b) = identities();
        self.nodes[own] = if own == 0 { node(&a, &b, seed) } else { node(&b, &a, seed) };
        for node in &mut self.nodes {
            node.force_initiate(self.now, PEER).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn sessions_outlive_a_bad_network(seed: u64, loss in 0.0..0.6, both: bool) {
        let mut network = ChaosNetwork::new(seed, loss);
        network.nodes[0].force_initiate(Instant::ZERO, PEER).unwrap();
        if both {
            network.nodes[1].force_initiate(Instant::ZERO, PEER).unwrap();
        }
        network.run(Duration::from_secs(200));
        network.restart(usize::from(both), 3);
        network.run(Duration::from_secs(200));
        network.loss = 0.0;
        network.run(Duration::from_secs(20));
        let before = network.opened;
        network.run(Duration::from_secs(400));
        let sent = 400_000 / STEP.as_millis() as u64;
        for (now, before) in network.opened.into_iter().zip(before) {
            prop_assert!(now - before > sent - 60, "{} of {sent} arrived", now - before);
        }
    }
}
