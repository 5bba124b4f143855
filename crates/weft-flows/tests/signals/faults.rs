//! A sender, three routers and a receiver over a network with faults (row B1).
//!
//! The network loses, duplicates, delays and forges their signals.

use crate::plain_request;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr};
use weft_core::explicit_rate::exchange::{RateInitiator, TAKES_ALL, Wish, respond};
use weft_flows::admission::{AdmissionControl, FlowRoutes, PassingSignal, RouteNo, SignalVerdict};
use weft_units::{Duration, Instant, Rate, Rng};
use weft_wire::er_sig::{
    Direction, KEY_LEN, Message, Rate16, Rates, SIGNAL_LEN, Signal, SignalKey, SignalService, ttl_difference,
};
use weft_wire::ip::FlowKey;

const FLOW: FlowKey = FlowKey {
    src: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
    dst: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
    protocol: 6,
    src_port: 40_000,
    dst_port: 80,
    flow_label: 0,
};
const KEY: SignalKey = SignalKey::new([7; KEY_LEN]);
const HOP: Duration = Duration::from_millis(5);
const ROUND_TRIP: Duration = Duration::from_millis(40);

#[derive(Clone, Copy, Default)]
struct Faults {
    loss: f64,
    repeats: f64,
    late: f64,
    forged: f64,
}

struct Router {
    link: AdmissionControl<FlowKey>,
    available: Rate,
}

const LINK: RouteNo = RouteNo(0);

/// Returns a link that may guarantee `reservable`.
fn link(reservable: Rate, seed: u64) -> AdmissionControl<FlowKey> {
    let mut link = AdmissionControl::new(8, seed);
    link.set_capacity(LINK, reservable, &mut |_| ());
    link
}

/// A signal in flight, the node at which it arrives next, and the TTL of its packet.
type Flying = Reverse<(Instant, u64, usize, bool, u8, [u8; SIGNAL_LEN])>;

struct Net {
    now: Instant,
    rng: Rng,
    faults: Faults,
    routers: Vec<Router>,
    initiator: RateInitiator,
    flying: BinaryHeap<Flying>,
    serial: u64,
    /// Number of the router that ignores signals, if any.
    deaf: Option<usize>,
    /// Key of all participants. Without a key they do not verify tags.
    key: Option<SignalKey>,
}

fn mbps(rate: u64) -> Rate {
    Rate::from_mbps(rate)
}

fn wish(available: u64, guaranteed: u64) -> Signal {
    plain_request(
        SignalService::Variable,
        Rates { available: Rate16::floor(mbps(available)), guaranteed: Rate16::floor(mbps(guaranteed)) },
    )
}

impl Net {
    fn new(seed: u64, faults: Faults, routers: &[(u64, u64)], wish: Signal) -> Net {
        let mut rng = Rng::new(seed);
        let router = |(available, reservable): &(u64, u64)| Router {
            link: link(mbps(*reservable), seed),
            available: mbps(*available),
        };
        let initiator = RateInitiator::new(Wish { signal: wish, path_takes_part: false }, rng.next_u64() as u32);
        Net {
            now: Instant::from_millis(1),
            rng,
            faults,
            routers: routers.iter().map(router).collect(),
            initiator,
            flying: BinaryHeap::new(),
            serial: 0,
            deaf: None,
            key: Some(KEY),
        }
    }

    /// Sends a signal to `node`.
    ///
    /// The sender is 0, the routers are numbered from 1, and the receiver follows them.
    fn put(&mut self, node: usize, is_back: bool, ttl: u8, signal: &Signal) {
        let mut bytes = [0; SIGNAL_LEN];
        signal.emit(&mut bytes).unwrap();
        if self.rng.chance(self.faults.loss) {
            return;
        }
        let copies = if self.rng.chance(self.faults.repeats) { 2 } else { 1 };
        for _ in 0..copies {
            let late = if self.rng.chance(self.faults.late) {
                Duration::from_micros(self.rng.below(60_000))
            } else {
                Duration::ZERO
            };
            self.serial += 1;
            self.flying.push(Reverse((self.now + HOP + late, self.serial, node, is_back, ttl, bytes)));
        }
        if self.rng.chance(self.faults.forged) {
            self.forge(node, ttl, signal);
        }
    }

    /// Forges a signal as an attacker off the path would.
    ///
    /// The attacker knows the flow but neither its nonce nor the key. The tag is a guess.
    fn forge(&mut self, node: usize, ttl: u8, signal: &Signal) {
        use Message::{Confirm, Reject, Release, Request, Response, Update};
        let message = [Request, Update, Response, Confirm, Release, Reject][self.rng.below(6) as usize];
        let greedy = Rates { guaranteed: Rate16::floor(mbps(20)), ..TAKES_ALL };
        let nonce = self.rng.next_u64() as u32;
        let forged = Signal { message, nonce, preemption: 15, forward: greedy, echoed: TAKES_ALL, ..*signal };
        let guess = 1 + self.rng.below(65_535) as u16;
        let forged = Signal { tag: KEY.tag(&FLOW, &forged) ^ guess, ..forged };
        let mut bytes = [0; SIGNAL_LEN];
        forged.emit(&mut bytes).unwrap();
        self.serial += 1;
        let at = if message == Response { 0 } else { node };
        self.flying.push(Reverse((self.now + HOP, self.serial, at, at == 0, ttl, bytes)));
    }

    fn sign(&self, signal: Signal) -> Signal {
        self.key.as_ref().map_or(signal, |key| key.sign(&FLOW, signal))
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(1);
            let qttl = self.rng.next_u64() as u8;
            if let Some(signal) = self.initiator.on_packet(self.now, 64, qttl, ROUND_TRIP) {
                self.put(1, false, 64, &self.sign(signal));
            }
            while let Some(Reverse((at, ..))) = self.flying.peek()
                && *at <= self.now
            {
                let Some(Reverse((_, _, node, is_back, ttl, bytes))) = self.flying.pop() else { break };
                self.arrive(node, is_back, ttl, Signal::parse(&bytes).unwrap());
            }
            if self.now.as_micros().is_multiple_of(1_000_000) {
                let now = self.now;
                self.routers.iter_mut().for_each(|router| router.link.expire(now, &mut |_| ()));
            }
        }
    }

    fn arrive(&mut self, node: usize, is_back: bool, ttl: u8, mut signal: Signal) {
        let is_forged = self.key.as_ref().is_some_and(|key| !key.is_right(&FLOW, &signal));
        let is_end = is_back || node > self.routers.len();
        if is_forged {
            // Routers forward the signal without taking part.
            if !is_end {
                self.put(node + 1, false, ttl - 1, &signal);
            }
            return;
        }
        if is_back {
            // Answers return directly. They repeat the TTL difference with which the request arrived.
            self.initiator.on_signal(self.now, &signal, ttl_difference(ttl, signal.qttl));
            return;
        }
        if is_end {
            let difference = ttl_difference(ttl, signal.qttl);
            if let Some(answer) = respond(&signal, TAKES_ALL, 64u8.wrapping_sub(difference)) {
                self.put(0, true, 64, &answer);
            }
            return;
        }
        let (now, index) = (self.now, node - 1);
        if self.deaf == Some(node) {
            return self.put(node + 1, false, ttl - 1, &signal);
        }
        let router = &mut self.routers[index];
        let (direction, available) = (Direction::Forward, router.available);
        let passing = PassingSignal { signal: &mut signal, direction, available, node: node as u16 };
        match router.link.on_signal(now, FLOW, &FlowRoutes::one(LINK), passing, &mut |_| ()) {
            SignalVerdict::Forward => self.put(node + 1, false, ttl - 1, &signal),
            SignalVerdict::Reject => self.put(0, true, 64, &Signal { message: Message::Reject, ..signal }),
        }
    }

    fn granted(&self) -> Vec<Rate> {
        self.routers.iter().map(|router| router.link.granted(LINK)).collect()
    }
}

/// AR = 32 Mbit/s is the least of three routers, and likewise for GR.
///
/// The excess of the other routers' grants is free again.
#[test]
fn the_least_of_three_routers_is_granted_and_the_rest_released() {
    let mut net = Net::new(1, Faults::default(), &[(64, 10), (32, 6), (100, 8)], wish(1_000, 8));
    net.run(Duration::from_millis(21));
    assert!(net.granted()[0] > net.granted()[1], "not confirmed yet: {:?}", net.granted());
    net.run(Duration::from_millis(100));
    let six = Rate16::floor(mbps(6)).rate().unwrap();
    assert_eq!(net.initiator.rate(), Some(Rate::from_bps(mbps(32).bps() + six.bps())));
    assert_eq!(net.granted(), [six; 3]);
    for message in [Message::Release, Message::Confirm, Message::Reject] {
        net.put(1, false, 64, &net.sign(Signal { message, nonce: 1, ..wish(1_000, 8) }));
        net.run(HOP * 4);
        assert!(
            net.granted().iter().all(|granted| *granted >= six),
            "{message:?} of somebody else: {:?}",
            net.granted()
        );
    }
    net.routers[2].available = mbps(20);
    net.run(ROUND_TRIP * 3);
    assert_eq!(net.initiator.rate().unwrap().bps() / 1_000_000, 26, "a lower rate is told by the next update");
    let release = net.initiator.release(7).unwrap();
    net.put(1, false, 64, &net.sign(release));
    net.run(Duration::from_millis(100));
    assert_eq!(net.granted(), [Rate::ZERO; 3]);
}

/// Without tags, an attacker that knows the flow can take over its grant.
///
/// It sends a request with another nonce.
#[test]
fn only_a_tag_keeps_a_forged_request_from_taking_the_grant() {
    for key in [Some(KEY), None] {
        let mut net = Net::new(1, Faults::default(), &[(64, 10), (32, 6), (100, 8)], wish(1_000, 4));
        net.key = key;
        net.run(Duration::from_millis(100));
        let granted = net.granted();
        let forged = Signal { nonce: 1, tag: 1, ..wish(1_000, 1) };
        net.put(1, false, 64, &forged);
        net.run(HOP + Duration::from_millis(1));
        assert_eq!(net.granted() == granted, net.key.is_some());
    }
}

#[test]
fn a_router_that_takes_no_part_is_found_and_the_flow_is_plain() {
    let mut net = Net::new(1, Faults::default(), &[(64, 10), (32, 6), (100, 8)], wish(1_000, 8));
    net.deaf = Some(2);
    net.run(Duration::from_millis(800));
    assert!(net.initiator.has_given_up() && net.initiator.rate().is_none());
    // The sender repeated its request after 10 s, and will do so again after 20 s.
    net.run(Duration::from_secs(15));
    assert!(net.initiator.has_given_up() && net.initiator.rate().is_none());
    assert_eq!(net.granted(), [Rate::ZERO; 3], "tentative grants are forgotten");
}

#[test]
fn an_unanswered_flow_is_plain_after_three_requests_and_granted_after_an_answer() {
    let faults = Faults { loss: 1.0, ..Faults::default() };
    let mut net = Net::new(1, faults, &[(64, 10)], wish(1_000, 8));
    net.run(Duration::from_secs(2));
    assert!(net.initiator.has_given_up() && net.initiator.rate().is_none());
    net.faults = Faults::default();
    net.run(Duration::from_secs(2));
    assert!(!net.initiator.has_given_up());
    let granted = [64, 8].map(|rate| Rate16::floor(mbps(rate)).rate().unwrap().bps());
    assert_eq!(net.initiator.rate(), Some(Rate::from_bps(granted.iter().sum())));
}

#[test]
fn without_an_answer_requests_become_ever_rarer() {
    let mut asker = RateInitiator::new(Wish { signal: wish(1_000, 8), path_takes_part: true }, 1);
    let mut asked = Vec::new();
    for ms in 0..300_000 {
        if asker.on_packet(Instant::from_millis(ms), 64, 1, ROUND_TRIP).is_some() {
            asked.push(ms);
        }
    }
    let intervals: Vec<u64> =
        asked.windows(2).map(|pair| (pair[1] - pair[0]) / ROUND_TRIP.as_millis() as u64).collect();
    assert_eq!(intervals[..10], [2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024]);
    assert!(intervals[10..].iter().all(|interval| *interval == 1_024), "{intervals:?}");
}

proptest! {
    /// The state is right once the network works again or the flow ends.
    ///
    /// This holds under any loss, duplication, delay and forgery of signals. Grants equal the least of the routers',
    /// and each router guarantees no more. No grant lasts forever.
    #[test]
    fn grants_are_the_least_and_state_goes(
        seed: u64,
        loss in 0.0..0.4f64,
        repeats in 0.0..0.5f64,
        late in 0.0..0.5f64,
        forged in 0.0..0.5f64,
        rates in proptest::collection::vec((1..100u64, 1..20u64), 3),
    ) {
        let mut net = Net::new(seed, Faults { loss, repeats, late, forged }, &rates, wish(1_000, 8));
        net.run(Duration::from_millis(1_500));
        net.faults = Faults::default();
        net.run(Duration::from_millis(500));
        let least = |of: fn(&(u64, u64)) -> u64| Rate16::floor(mbps(rates.iter().map(of).min().unwrap())).rate().unwrap();
        let (available, reservable) = (least(|rate| rate.0), least(|rate| rate.1));
        let guaranteed = reservable.min(Rate16::floor(mbps(8)).rate().unwrap());
        if !net.initiator.has_given_up() {
            prop_assert_eq!(net.initiator.rate(), Some(Rate::from_bps(available.bps() + guaranteed.bps())));
            // An update takes again all that the routers could grant, until it is confirmed.
            let mut least = net.granted();
            for _ in 0..ROUND_TRIP.as_millis() * 2 {
                net.run(Duration::from_millis(1));
                least.iter_mut().zip(net.granted()).for_each(|(least, granted)| *least = granted.min(*least));
            }
            prop_assert_eq!(least, vec![guaranteed; 3]);
        }
        for (router, (_, reservable)) in net.routers.iter().zip(&rates) {
            prop_assert!(router.link.granted(LINK) <= mbps(*reservable));
        }
        let _ = net.initiator.release(1);
        net.run(Duration::from_secs(32));
        prop_assert_eq!(net.granted(), vec![Rate::ZERO; 3], "soft state");
    }
}
