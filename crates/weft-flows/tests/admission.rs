//! An admission never over-commits, pre-empts exactly by precedence, and gives back all that it regains.
//!
//! Random sequences run beside a model that examines all grants at each step. `WEFT_SEQUENCES` sets their number. The
//! full test has 1,000,000.
#![allow(missing_docs)]

use std::collections::BTreeMap;
use weft_flows::admission::{
    AdmissionControl, AdmissionEvent, AdmissionOutcome, FlowRoutes, GrantRequest, LoweredBy, RouteNo, Shortfall,
};
use weft_units::{Duration, Instant, Rate, Rng};

const ROUTES: u64 = 4;
const MOST: usize = 9;

#[derive(Clone, Debug)]
struct Held {
    asked: u64,
    granted: u64,
    precedence: u8,
    age: u64,
    routes: FlowRoutes,
    expires_at: Option<Instant>,
}

impl Held {
    fn takes(&self, route: RouteNo) -> bool {
        self.routes.as_slice().contains(&route)
    }
}

/// The rules of admission, without any index.
#[derive(Default)]
struct Model {
    capacity: BTreeMap<RouteNo, u64>,
    held: BTreeMap<u32, Held>,
    next_age: u64,
}

impl Model {
    fn granted(&self, route: RouteNo, precedence: u8, without: Option<u32>) -> u64 {
        let counts = |(flow, held): &(&u32, &Held)| {
            Some(**flow) != without && held.precedence >= precedence && held.takes(route)
        };
        self.held.iter().filter(counts).map(|(_, held)| held.granted).sum()
    }

    fn free(&self, routes: &FlowRoutes, precedence: u8, without: Option<u32>) -> u64 {
        let on_route = |route: &RouteNo| {
            let capacity = self.capacity.get(route).copied().unwrap_or(0);
            capacity.saturating_sub(self.granted(*route, precedence, without))
        };
        routes.as_slice().iter().map(on_route).min().unwrap_or(0)
    }

    fn lower_excess(&mut self, routes: &[RouteNo]) {
        for route in routes {
            while self.granted(*route, 0, None) > self.capacity.get(route).copied().unwrap_or(0) {
                let in_force = self.held.iter_mut().filter(|(_, held)| held.granted > 0 && held.takes(*route));
                // The lowest precedence loses first, among equals the youngest.
                let (_, victim) = in_force.min_by_key(|(_, held)| (held.precedence, u64::MAX - held.age)).unwrap();
                victim.granted = 0;
            }
        }
    }

    fn give_back(&mut self) {
        loop {
            let fits = |(_, held): &(&u32, &Held)| {
                held.granted == 0 && held.asked <= self.free(&held.routes, held.precedence, None)
            };
            // The highest precedence receives first, among equals the oldest that fits.
            let next = self.held.iter().filter(fits).min_by_key(|(_, held)| (16 - held.precedence, held.age));
            let Some(flow) = next.map(|(flow, _)| *flow) else { return };
            let held = self.held.get_mut(&flow).unwrap();
            held.granted = held.asked;
            let routes = held.routes;
            self.lower_excess(routes.as_slice());
        }
    }

    fn request(&mut self, now: Instant, flow: u32, asks: GrantRequest, routes: FlowRoutes) -> AdmissionOutcome {
        let is_known = self.held.contains_key(&flow);
        let is_full = !is_known && self.held.len() >= MOST;
        let precedence = asks.precedence.min(15);
        let free = if is_full { 0 } else { self.free(&routes, precedence, Some(flow)) };
        let rate = asks.rate.bps();
        let (asked, granted) = match asks.shortfall {
            _ if rate <= free => (rate, rate),
            Shortfall::Refuse => return AdmissionOutcome::Refused,
            Shortfall::Wait if is_full => return AdmissionOutcome::Refused,
            Shortfall::Reduce => (free, free),
            Shortfall::Wait => (rate, 0),
        };
        let before = self.held.remove(&flow);
        if asked == 0 {
            self.give_back();
            return AdmissionOutcome::Refused;
        }
        if before.is_none() {
            self.next_age += 1;
        }
        let age = before.map_or(self.next_age, |before| before.age);
        let expires_at = asks.lifetime.map(|lifetime| now + lifetime);
        self.held.insert(flow, Held { asked, granted, precedence, age, routes, expires_at });
        self.lower_excess(routes.as_slice());
        self.give_back();
        if granted == 0 { AdmissionOutcome::Waits } else { AdmissionOutcome::Granted(Rate::from_bps(granted)) }
    }

    fn expire(&mut self, now: Instant) {
        self.held.retain(|_, held| held.expires_at.is_none_or(|at| at > now));
        self.give_back();
    }

    fn rates(&self) -> BTreeMap<u32, u64> {
        self.held.iter().map(|(flow, held)| (*flow, held.granted)).collect()
    }
}

fn random_routes(rng: &mut Rng) -> FlowRoutes {
    let routes: Vec<RouteNo> = (0..1 + rng.below(3)).map(|_| RouteNo(rng.below(ROUTES) as u16)).collect();
    FlowRoutes::new(&routes).unwrap()
}

/// Rates of a sequence: all small, so that many fit exactly, or of any size.
fn random_rate(rng: &mut Rng, scale: u64) -> u64 {
    if rng.chance(0.2) { rng.below(scale * 4) } else { scale / 4 * rng.below(6) }
}

/// Checks that the events of a call are exactly the changes since `before`.
fn check_events(seed: u64, before: &BTreeMap<u32, u64>, model: &Model, mut events: Vec<AdmissionEvent<u32>>) {
    events.sort_by_key(|event| match event {
        AdmissionEvent::Lowered { flow, .. } | AdmissionEvent::Raised { flow, .. } => *flow,
        AdmissionEvent::Expired { flow, .. } => *flow,
    });
    let mut events = events.into_iter();
    for (flow, from) in before {
        let Some(held) = model.held.get(flow) else {
            let gone = AdmissionEvent::Expired { flow: *flow, from: Rate::from_bps(*from) };
            assert_eq!(events.next(), Some(gone), "seed {seed}");
            continue;
        };
        let (from, to) = (Rate::from_bps(*from), Rate::from_bps(held.granted));
        if from < to {
            assert_eq!(events.next(), Some(AdmissionEvent::Raised { flow: *flow, to }), "seed {seed}");
        } else if from > to {
            let Some(AdmissionEvent::Lowered { flow: told, from: had, to: has, why }) = events.next() else {
                panic!("seed {seed}: {flow} was lowered and not told");
            };
            assert_eq!((told, had, has), (*flow, from, to), "seed {seed}");
            if let LoweredBy::Precedence(by) = why {
                assert!(by > held.precedence, "seed {seed}: {by} took from {}", held.precedence);
            }
        }
    }
    assert_eq!(events.next(), None, "seed {seed}");
}

fn play(seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let (mut control, mut model) = (AdmissionControl::new(MOST, seed), Model::default());
    let scale = 4 << rng.below(20);
    let mut now = Instant::ZERO;
    let steps = 4 + rng.below(24);
    for _ in 0..steps {
        now += Duration::from_millis(rng.below(700));
        let mut before = model.rates();
        let flow = rng.below(12) as u32;
        let mut events = Vec::new();
        match rng.below(20) {
            0..9 => {
                let request = GrantRequest {
                    rate: Rate::from_bps(random_rate(&mut rng, scale)),
                    precedence: (rng.below(4) * rng.below(7)) as u8,
                    shortfall: [Shortfall::Refuse, Shortfall::Reduce, Shortfall::Wait][rng.below(3) as usize],
                    lifetime: rng.chance(0.6).then(|| Duration::from_millis(rng.below(5_000))),
                };
                let routes = random_routes(&mut rng);
                let outcome = control.request(now, flow, request, routes, &mut |event| events.push(event));
                assert_eq!(outcome, model.request(now, flow, request, routes), "seed {seed}");
                // The outcome already informs the flow, so no event is needed.
                match outcome {
                    AdmissionOutcome::Granted(rate) => _ = before.insert(flow, rate.bps()),
                    AdmissionOutcome::Waits => _ = before.insert(flow, 0),
                    AdmissionOutcome::Refused if !model.held.contains_key(&flow) => _ = before.remove(&flow),
                    AdmissionOutcome::Refused => {}
                }
            }
            9..11 => {
                before.remove(&flow);
                control.release(&flow, &mut |event| events.push(event));
                model.held.remove(&flow);
                model.give_back();
            }
            11..14 => {
                control.expire(now, &mut |event| events.push(event));
                model.expire(now);
            }
            _ => {
                let (route, capacity) = (RouteNo(rng.below(ROUTES) as u16), random_rate(&mut rng, scale) * 2);
                control.set_capacity(route, Rate::from_bps(capacity), &mut |event| events.push(event));
                model.capacity.insert(route, capacity);
                model.lower_excess(&[route]);
                model.give_back();
            }
        }
        check_events(seed, &before, &model, events);
        check_state(seed, &control, &model);
    }
    steps
}

fn check_state(seed: u64, control: &AdmissionControl<u32>, model: &Model) {
    for route in (0..ROUTES).map(|route| RouteNo(route as u16)) {
        let granted = control.granted(route);
        assert!(granted <= control.capacity(route), "seed {seed}: over-committed");
        assert_eq!(granted.bps(), model.granted(route, 0, None), "seed {seed}");
    }
    for flow in 0..12 {
        let held = model.held.get(&flow);
        assert_eq!(control.of(&flow).bps(), held.map_or(0, |held| held.granted), "seed {seed}");
        let waits_for = held.filter(|held| held.granted == 0).map(|held| Rate::from_bps(held.asked));
        assert_eq!(control.waits_for(&flow), waits_for, "seed {seed}");
    }
    assert_eq!(control.len(), model.held.len(), "seed {seed}");
    assert_eq!(control.next_timeout(), model.held.values().filter_map(|held| held.expires_at).min(), "seed {seed}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test's length may come from the environment")]
fn random_sequences_agree_with_the_model() {
    let sequences = std::env::var("WEFT_SEQUENCES").ok().and_then(|n| n.parse().ok()).unwrap_or(120_000);
    let steps: u64 = (0..sequences).map(play).sum();
    println!("{sequences} sequences, {steps} steps");
}
