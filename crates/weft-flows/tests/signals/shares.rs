//! Flows that ask several routers for rates converge to max-min shares (row B1).
//!
//! Each router has a controller and an admission. Their signals may be lost or forged. `fair::solve` computes the
//! expected shares.

use crate::plain_request;
use proptest::prelude::*;
use weft_core::explicit_rate::erica::{Erica, EricaConfig};
use weft_core::explicit_rate::exchange::{RateInitiator, TAKES_ALL, Wish, respond};
use weft_core::explicit_rate::pi::LinkState;
use weft_core::fair::solve::max_min;
use weft_flows::admission::{AdmissionControl, FlowRoutes, PassingSignal, RouteNo, SignalVerdict};
use weft_units::{Duration, Instant, Rate, Rng};
use weft_wire::er_sig::{Direction, KEY_LEN, Rate16, Rates, Signal, SignalKey, SignalService, ttl_difference};
use weft_wire::ip::FlowKey;

const ROUND_TRIP: Duration = Duration::from_millis(40);
const INTERVAL: Duration = Duration::from_millis(50);
const KEY: SignalKey = SignalKey::new([3; KEY_LEN]);
const ROUTES: [&[usize]; 5] = [&[0, 1], &[1], &[0, 2], &[1, 2], &[2]];

fn flow(number: usize) -> FlowKey {
    let [src, dst] = [1, 2].map(|host| std::net::Ipv4Addr::new(10, 0, number as u8, host).into());
    FlowKey { src, dst, protocol: 6, src_port: 4_000, dst_port: 80, flow_label: 0 }
}

fn wish() -> Signal {
    plain_request(SignalService::Available, Rates { available: Rate16::UNLIMITED, guaranteed: Rate16::ZERO })
}

struct Router {
    capacity: f64,
    law: Erica,
    admission: AdmissionControl<FlowKey>,
    queue_bits: f64,
}

struct Net {
    now: Instant,
    rng: Rng,
    loss: f64,
    forged: f64,
    routers: Vec<Router>,
    senders: Vec<RateInitiator>,
}

impl Net {
    fn new(seed: u64, capacities: &[f64], loss: f64, forged: f64) -> Net {
        let mut rng = Rng::new(seed);
        let router = |capacity: &f64| Router {
            capacity: *capacity,
            law: Erica::new(EricaConfig { delay: Duration::from_millis(5), ..EricaConfig::default() }),
            admission: AdmissionControl::new(16, seed),
            queue_bits: 0.0,
        };
        let wish = Wish { signal: wish(), path_takes_part: false };
        let senders = ROUTES.iter().map(|_| RateInitiator::new(wish, rng.next_u64() as u32)).collect();
        Net {
            now: Instant::from_millis(1),
            rng,
            loss,
            forged,
            routers: capacities.iter().map(router).collect(),
            senders,
        }
    }

    fn rates(&self) -> Vec<f64> {
        self.senders.iter().map(|sender| sender.rate().unwrap_or_default().bps() as f64).collect()
    }

    /// Plays one interval.
    ///
    /// The fluid flows, and each sender sends the due signal, which passes its routers and returns.
    fn step(&mut self) {
        self.now += INTERVAL;
        let rates = self.rates();
        for (at, router) in self.routers.iter_mut().enumerate() {
            let asks = |number: &usize| ROUTES[*number].contains(&at) && !self.senders[*number].has_given_up();
            let through: Vec<f64> = (0..ROUTES.len()).filter(asks).map(|number| rates[number]).collect();
            let arriving: f64 = through.iter().sum();
            router.queue_bits = (router.queue_bits + (arriving - router.capacity) * INTERVAL.as_secs_f64()).max(0.0);
            let link = LinkState {
                capacity: Rate::from_bps(router.capacity as u64),
                arriving: Rate::from_bps(arriving as u64),
                queued_bytes: (router.queue_bits / 8.0) as u64,
                round_trip: ROUND_TRIP,
            };
            router.law.on_interval(&link, through.len() as u32);
        }
        for (number, rate) in rates.into_iter().enumerate() {
            // Sends a confirmation and then the update.
            (0..2).for_each(|_| self.say(number, rate));
        }
    }

    fn say(&mut self, number: usize, rate: f64) {
        let qttl = self.rng.next_u64() as u8;
        let Some(signal) = self.senders[number].on_packet(self.now, 64, qttl, ROUND_TRIP) else { return };
        let mut signal = KEY.sign(&flow(number), signal);
        if self.rng.chance(self.forged) {
            // Forges a request of another flow or of a greedy one. Without the key, the tag is wrong.
            let forged = Signal { nonce: self.rng.next_u64() as u32, forward: TAKES_ALL, ..signal };
            let tag = KEY.tag(&flow(number), &forged) ^ (1 + self.rng.below(65_535) as u16);
            assert!(self.pass(number, &mut Signal { tag, ..forged }, rate).is_none());
        }
        let Some(ttl) = self.pass(number, &mut signal, rate) else { return };
        let difference = ttl_difference(ttl, signal.qttl);
        let Some(answer) = respond(&signal, TAKES_ALL, 64u8.wrapping_sub(difference)) else { return };
        if KEY.is_right(&flow(number), &answer) && !self.rng.chance(self.loss) {
            self.senders[number].on_signal(self.now, &answer, ttl_difference(64, answer.qttl));
        }
    }

    /// Sends a signal along its route.
    ///
    /// Returns the TTL on arrival, or `None` if it is lost, or if its tag is wrong so that no node takes part.
    fn pass(&mut self, number: usize, signal: &mut Signal, rate: f64) -> Option<u8> {
        let mut ttl = 64;
        for at in ROUTES[number] {
            if self.rng.chance(self.loss) || !KEY.is_right(&flow(number), signal) {
                return None;
            }
            ttl -= 1;
            let router = &mut self.routers[*at];
            let grant = router.law.grant(Rate::from_bps(rate as u64));
            let node = *at as u16 + 1;
            let passing = PassingSignal { signal: &mut *signal, direction: Direction::Forward, available: grant, node };
            let routes = FlowRoutes::one(RouteNo(0));
            let verdict = router.admission.on_signal(self.now, flow(number), &routes, passing, &mut |_| ());
            assert_eq!(verdict, SignalVerdict::Forward);
        }
        Some(ttl)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn grants_are_max_min_fair(
        seed: u64,
        capacities in proptest::collection::vec(5e6..50e6f64, 3),
        loss in 0.0..0.2f64,
        forged in 0.0..0.3f64,
    ) {
        let mut net = Net::new(seed, &capacities, loss, forged);
        (0..400).for_each(|_| net.step());
        net.loss = 0.0;
        (0..400).for_each(|_| net.step());
        let mut mean = vec![0.0; ROUTES.len()];
        for _ in 0..100 {
            net.step();
            mean.iter_mut().zip(net.rates()).for_each(|(mean, rate)| *mean += rate / 100.0);
        }
        // A sender without an answer to three requests is plain TCP.
        let (routes, mean): (Vec<_>, Vec<_>) =
            (0..ROUTES.len()).filter(|at| !net.senders[*at].has_given_up()).map(|at| (ROUTES[at], mean[at])).unzip();
        let fair = max_min(&capacities, &routes, &vec![1.0; routes.len()]);
        for (rate, share) in mean.iter().zip(&fair) {
            prop_assert!((rate / share - 1.0).abs() < 0.15, "{:?} and {:?}", mean, fair);
        }
    }
}
