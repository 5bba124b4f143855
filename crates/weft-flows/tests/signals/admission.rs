//! Grants that are requested in band, and aggregates with members.

use crate::plain_request;
use weft_core::service::MemberId;
use weft_flows::admission::{
    AdmissionControl, AdmissionEvent, AdmissionOutcome, FlowRoutes, GrantRequest, LoweredBy, PassingSignal, RouteNo,
    Shortfall, SignalVerdict,
};
use weft_units::{Duration, Instant, Rate, Rng};
use weft_wire::er_sig::{Direction, Message, Rate16, Rates, Signal, SignalService};

const MANY: Rate = Rate::from_mbps(1_000);
const ROUTE: RouteNo = RouteNo(2);

type Events = Vec<AdmissionEvent<u32>>;

fn mbps(rate: f64) -> Rate16 {
    Rate16::floor(Rate::from_bps((rate * 1e6) as u64))
}

fn request(guaranteed: f64, preemption: u8, nonce: u32) -> Signal {
    Signal {
        preemption,
        nonce,
        qttl: 9,
        ..plain_request(SignalService::Guaranteed, Rates { available: Rate16::UNLIMITED, guaranteed: mbps(guaranteed) })
    }
}

fn link(capacity_mbps: u64) -> AdmissionControl<u32> {
    let mut control = AdmissionControl::new(4, 1);
    control.set_capacity(ROUTE, Rate::from_mbps(capacity_mbps), &mut |_| ());
    control
}

fn pass(link: &mut AdmissionControl<u32>, at: u64, flow: u32, signal: &mut Signal) -> (SignalVerdict, Events) {
    let (now, routes, mut events) = (Instant::from_millis(at), FlowRoutes::one(ROUTE), Events::new());
    let passing = PassingSignal { signal, direction: Direction::Forward, available: MANY, node: 7 };
    let verdict = link.on_signal(now, flow, &routes, passing, &mut |event| events.push(event));
    (verdict, events)
}

fn expire(link: &mut AdmissionControl<u32>, at: u64) -> Events {
    let mut events = Events::new();
    link.expire(Instant::from_millis(at), &mut |event| events.push(event));
    events
}

/// Paper 001, Figure 2: three routers grant 64, 32 and 40 Mbit/s.
///
/// The sender confirms 32, and the first and the last router release the rest.
#[test]
fn over_commitments_are_released_by_the_confirmation() {
    let mut links = [64, 32, 40].map(link);
    let mut signal = request(100.0, 0, 5);
    for link in &mut links {
        assert_eq!(pass(link, 0, 1, &mut signal), (SignalVerdict::Forward, vec![]));
    }
    assert_eq!(signal.forward.guaranteed.rate(), Some(Rate::from_mbps(32)));
    assert_eq!((signal.hops, signal.is_lowered), (3, true));
    let granted =
        |links: &[AdmissionControl<u32>; 3]| links.each_ref().map(|link| link.granted(ROUTE).bps() / 1_000_000);
    assert_eq!(granted(&links), [64, 32, 32]);
    let echoed = Rates { guaranteed: signal.forward.guaranteed, ..Rates::default() };
    let mut confirm = Signal { message: Message::Confirm, echoed, ..signal };
    links.iter_mut().for_each(|link| _ = pass(link, 100, 1, &mut confirm));
    assert_eq!(granted(&links), [32, 32, 32]);
    links.iter_mut().for_each(|link| assert_eq!(expire(link, 29_000), []));
    assert_eq!(granted(&links), [32, 32, 32]);
    let mut forged = Signal { message: Message::Release, nonce: 6, ..signal };
    pass(&mut links[0], 200, 1, &mut forged);
    assert_eq!(granted(&links), [32, 32, 32], "of another request");
    let mut release = Signal { message: Message::Release, ..signal };
    pass(&mut links[0], 200, 1, &mut release);
    assert!(links[0].is_empty());
    for link in &mut links[1..] {
        assert_eq!(expire(link, 31_000), [AdmissionEvent::Expired { flow: 1, from: Rate::from_mbps(32) }]);
        assert!(link.is_empty() && link.next_timeout().is_none());
    }
}

#[test]
fn unconfirmed_grants_expire_and_repeated_requests_are_granted_once() {
    let mut link = link(50);
    for at in [0, 10, 20] {
        pass(&mut link, at, 1, &mut request(30.0, 0, 5));
        assert_eq!((link.len(), link.granted(ROUTE)), (1, mbps(30.0).rate().unwrap_or_default()));
    }
    assert_eq!((expire(&mut link, 3_019), link.len()), (vec![], 1));
    assert_eq!(link.next_timeout(), Some(Instant::from_millis(3_020)));
    assert_eq!(expire(&mut link, 3_020).len(), 1);
    assert_eq!((link.len(), link.granted(ROUTE)), (0, Rate::ZERO));
}

#[test]
fn a_victim_is_informed_at_once_and_again_when_it_gets_its_rate_back() {
    let mut link = link(50);
    let (low, has) = (mbps(40.0).rate().unwrap(), mbps(30.0));
    pass(&mut link, 0, 1, &mut request(40.0, 1, 5));
    let mut high = request(30.0, 2, 6);
    let (_, events) = pass(&mut link, 0, 2, &mut high);
    let why = LoweredBy::Precedence(2);
    assert_eq!(events, [AdmissionEvent::Lowered { flow: 1, from: low, to: Rate::ZERO, why }]);
    assert_eq!((high.forward.guaranteed, link.of(&1), link.waits_for(&1)), (has, Rate::ZERO, Some(low)));
    // The victim asks for nothing meanwhile, and keeps its place beyond the tentative lifetime.
    for at in (0..10_000).step_by(500) {
        let mut update = Signal { message: Message::Update, ..request(0.0, 1, 5) };
        pass(&mut link, at, 1, &mut update);
        let mut update = Signal { message: Message::Update, ..request(30.0, 2, 6) };
        pass(&mut link, at, 2, &mut update);
        assert_eq!(expire(&mut link, at), []);
    }
    let (_, events) = pass(&mut link, 9_600, 2, &mut Signal { message: Message::Release, ..high });
    assert_eq!(events, [AdmissionEvent::Raised { flow: 1, to: low }]);
    assert_eq!((link.of(&1), link.granted(ROUTE)), (low, low));
}

#[test]
fn a_victim_that_asks_again_is_granted_what_is_left() {
    let mut link = link(50);
    pass(&mut link, 0, 1, &mut request(40.0, 1, 5));
    pass(&mut link, 0, 2, &mut request(30.0, 2, 6));
    let mut again = Signal { message: Message::Update, ..request(40.0, 1, 5) };
    pass(&mut link, 1, 1, &mut again);
    let left = again.forward.guaranteed.rate().unwrap_or_default();
    assert!((19_900_000..=20_100_000).contains(&left.bps()) && link.of(&1) == left, "{left}");
    assert!(link.granted(ROUTE) <= Rate::from_mbps(50));
}

#[test]
fn a_strict_request_that_cannot_be_met_is_rejected_and_grants_nothing() {
    let mut link = link(50);
    let mut signal = Signal { must_be_met: true, ..request(60.0, 0, 5) };
    let before = signal;
    assert_eq!(pass(&mut link, 0, 1, &mut signal), (SignalVerdict::Reject, vec![]));
    assert!(link.is_empty() && signal == before);
}

#[test]
fn the_table_is_bounded_and_a_maximum_needs_no_place_in_it() {
    let mut link = link(50);
    for flow in 0..6 {
        let mut signal = request(1.0, 0, flow);
        pass(&mut link, 0, flow, &mut signal);
        let granted = if flow < 4 { mbps(1.0) } else { Rate16::ZERO };
        assert_eq!(signal.forward.guaranteed, granted, "{flow}");
    }
    let mut signal = Signal { service: SignalService::Maximum, ..request(500.0, 0, 9) };
    pass(&mut link, 0, 9, &mut signal);
    assert_eq!((signal.forward.guaranteed, link.len()), (mbps(500.0), 4));
    assert_eq!(signal.forward.available, Rate16::floor(MANY));
}

#[test]
fn a_response_asks_for_the_reverse_direction() {
    let mut link = link(50);
    let reverse = Rates { available: Rate16::UNLIMITED, guaranteed: mbps(20.0) };
    let mut response = Signal { message: Message::Response, reverse, ..request(10.0, 0, 3) };
    let routes = FlowRoutes::one(ROUTE);
    let mut send = |signal: &mut Signal, direction| {
        let passing = PassingSignal { signal, direction, available: MANY, node: 7 };
        link.on_signal(Instant::ZERO, 1, &routes, passing, &mut |_| ());
        link.granted(ROUTE)
    };
    assert_eq!(send(&mut response, Direction::Forward), Rate::ZERO);
    assert_eq!(send(&mut response, Direction::Reverse), mbps(20.0).rate().unwrap());
    let accepted = Rates { guaranteed: mbps(5.0), ..reverse };
    let mut confirm = Signal { message: Message::Confirm, reverse: accepted, ..response };
    assert_eq!(send(&mut confirm, Direction::Reverse), mbps(5.0).rate().unwrap());
}

/// Signals may be lost, repeated, forged and reordered. Grants never exceed the capacity, and they end after silence.
#[test]
fn random_signals_never_over_commit_and_leave_nothing_behind() {
    for seed in 0..3_000 {
        let mut rng = Rng::new(seed);
        let mut link = link(10 + rng.below(90));
        let mut now = 0;
        for _ in 0..40 {
            now += rng.below(1_500);
            let (flow, nonce) = (rng.below(6) as u32, rng.below(3) as u32);
            let message = [Message::Request, Message::Update, Message::Confirm, Message::Release, Message::Reject]
                [rng.below(5) as usize];
            let service =
                [SignalService::Guaranteed, SignalService::Variable, SignalService::Available][rng.below(3) as usize];
            let guaranteed = mbps(rng.unit() * 60.0);
            let echoed = Rates { guaranteed: mbps(rng.unit() * 60.0), ..Rates::default() };
            let must_be_met = rng.chance(0.2);
            let mut signal =
                Signal { message, service, echoed, must_be_met, ..request(0.0, rng.below(16) as u8, nonce) };
            signal.forward.guaranteed = guaranteed;
            let before = link.of(&flow);
            let (_, events) = pass(&mut link, now, flow, &mut signal);
            assert!(signal.forward.guaranteed <= guaranteed, "a node never raises a rate");
            if message == Message::Confirm && !events.iter().any(|event| matches!(event, AdmissionEvent::Raised { .. }))
            {
                assert!(link.of(&flow) <= before);
            }
            if rng.chance(0.3) {
                expire(&mut link, now);
            }
            if rng.chance(0.1) {
                link.set_capacity(ROUTE, Rate::from_mbps(rng.below(100)), &mut |_| ());
            }
            assert!(link.granted(ROUTE) <= link.capacity(ROUTE) && link.len() <= 4);
            let sum: u64 = (0..6).map(|flow| link.of(&flow).bps()).sum();
            assert_eq!(sum, link.granted(ROUTE).bps());
        }
        expire(&mut link, now + 30_000);
        assert!(link.is_empty() && link.granted(ROUTE) == Rate::ZERO, "seed {seed}");
    }
}

#[test]
fn a_leased_line_ends_when_a_member_leaves_and_frees_its_rate() {
    let mut control = AdmissionControl::new(100, 1);
    let routes = FlowRoutes::new(&[RouteNo(0), RouteNo(1)]).unwrap();
    for route in routes.as_slice() {
        control.set_capacity(*route, Rate::from_mbps(100), &mut |_| ());
    }
    let line =
        |precedence| GrantRequest { rate: Rate::from_mbps(60), precedence, shortfall: Shortfall::Wait, lifetime: None };
    let ask = |key, precedence, members: &[MemberId], control: &mut AdmissionControl<u32>| {
        control.request_aggregate(Instant::ZERO, key, line(precedence), routes, members, &mut |_| ())
    };
    let granted = AdmissionOutcome::Granted(Rate::from_mbps(60));
    assert_eq!(ask(1, 3, &[MemberId(1), MemberId(2)], &mut control), granted);
    assert_eq!(ask(2, 3, &[MemberId(2), MemberId(3)], &mut control), AdmissionOutcome::Waits);
    assert_eq!(ask(3, 3, &[MemberId(3), MemberId(4), MemberId(5)], &mut control), AdmissionOutcome::Waits);
    let mut events = Events::new();
    control.expire(Instant::ZERO + Duration::from_secs(1_000_000), &mut |event| events.push(event));
    assert_eq!((events.len(), control.len()), (0, 3), "a lease needs no renewal");
    control.release_member(MemberId(2), &mut |event| events.push(event));
    assert_eq!(events, [AdmissionEvent::Raised { flow: 3, to: Rate::from_mbps(60) }]);
    assert_eq!((control.len(), control.granted(RouteNo(1))), (1, Rate::from_mbps(60)));
    control.release_member(MemberId(1), &mut |event| panic!("nothing is left of member 1: {event:?}"));
    control.release_member(MemberId(4), &mut |_| ());
    assert!(control.is_empty() && control.granted(RouteNo(0)) == Rate::ZERO);
}

/// However flows signal, time out and change routes, each route keeps its own entries, and each entry is freed again.
#[test]
fn flows_that_signal_on_one_route_leave_the_places_of_others() {
    const PLACES: usize = 5;
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut link: AdmissionControl<u32> = AdmissionControl::new(1_000, seed);
        link.set_most_signalled(PLACES);
        let routes = [RouteNo(0), RouteNo(1), RouteNo(2)];
        routes.iter().for_each(|route| link.set_capacity(*route, Rate::from_mbps(10_000), &mut |_| ()));
        let (mut now, mut routes_of) = (0, std::collections::BTreeMap::new());
        for _ in 0..200 {
            now += rng.below(400);
            link.expire(Instant::from_millis(now), &mut |_| ());
            let (flow, route) = (rng.below(30) as u32, routes[rng.below(3) as usize]);
            let message = [Message::Request, Message::Request, Message::Release][rng.below(3) as usize];
            let mut signal = Signal { message, ..request(1.0, 0, 5) };
            let would = link.would_guarantee(&flow, 0, &FlowRoutes::one(route), mbps(1.0));
            let passing =
                PassingSignal { signal: &mut signal, direction: Direction::Forward, available: MANY, node: 7 };
            link.on_signal(Instant::from_millis(now), flow, &FlowRoutes::one(route), passing, &mut |_| ());
            if message == Message::Request {
                assert_eq!(link.of(&flow), would, "seed {seed}: another rate than was announced");
                routes_of.insert(flow, route);
            }
            routes_of.retain(|flow, _| link.of(flow) > Rate::ZERO);
            for route in routes {
                let held = routes_of.values().filter(|held| **held == route).count();
                assert_eq!(link.granted(route), mbps(1.0).rate().unwrap().scaled(held as f64), "seed {seed}");
                assert!(held <= PLACES, "seed {seed}: {held}");
            }
        }
        link.expire(Instant::from_millis(now + 60_000), &mut |_| ());
        for flow in 100..100 + PLACES as u32 {
            pass(&mut link, now + 60_000, flow, &mut request(1.0, 0, 5));
            assert_eq!(link.of(&flow), mbps(1.0).rate().unwrap(), "seed {seed}: a place was not given back");
        }
    }
}
