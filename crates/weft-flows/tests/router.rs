//! The router against a model: each flow has its guarantee exactly if admission granted it.
#![allow(missing_docs)]

use std::collections::BTreeMap;
use weft_core::service::MemberId;
use weft_flows::admission::{AdmissionControl, FlowRoutes, GrantRequest, PassingSignal, RouteNo, Shortfall};
use weft_flows::router::{FlowRouter, FlowVerdict, GrantHolder, GrantKey, PacketFacts, RouterConfig};
use weft_flows::rules::{FlowRule, FlowRules, RuleMatch};
use weft_flows::table::{FlowCursor, FlowRef, TableConfig};
use weft_units::{Duration, Instant, Rate, Rng, VpnId};
use weft_wire::er_sig::{BurstTolerance, DelayVariance, Direction, Message, Rate16, Rates, Signal, SignalService};
use weft_wire::ip::FlowKey;

const IDLE: Duration = Duration::from_secs(3);
/// Rate of one voice call: that of the class `voice`.
const CALL: u64 = 82_000;

fn key(port: u16, call: bool) -> FlowKey {
    FlowKey {
        src: [10, 0, (port >> 8) as u8, port as u8].into(),
        dst: [10, 9, 0, 1].into(),
        protocol: 17,
        src_port: port,
        dst_port: if call { 5_004 } else { 80 },
        flow_label: 0,
    }
}

fn flow_holder(port: u16, call: bool) -> GrantHolder {
    GrantHolder::Flow(GrantKey::of(VpnId::DEFAULT, &key(port, call)))
}

fn rules() -> FlowRules {
    let matches = RuleMatch { to_ports: Some(5_004..=5_004), protocol: Some(17), ..RuleMatch::default() };
    FlowRules::new(vec![FlowRule { name: "calls".into(), matches, class: "voice".into(), ..FlowRule::default() }])
}

struct World {
    now: Instant,
    router: FlowRouter,
    admission: AdmissionControl<GrantHolder>,
    /// Time of each flow's last packet.
    used: BTreeMap<(u16, bool), Instant>,
}

impl World {
    fn new(seed: u64) -> World {
        let table = TableConfig { flows: 1_024, users: 4_096, idle: IDLE, active: None, ..TableConfig::default() };
        let router = FlowRouter::new(RouterConfig { rules: rules(), table, ..RouterConfig::default() }, seed).unwrap();
        let admission = AdmissionControl::new(10_000, seed);
        World { now: Instant::from_millis(1), router, admission, used: BTreeMap::new() }
    }

    fn packet(&mut self, port: u16, call: bool) -> FlowRef {
        let packet = PacketFacts {
            vpn: VpnId::DEFAULT,
            key: key(port, call),
            dscp: (port % 64) as u8,
            packets: 1,
            bytes: 200,
            near: "home",
            far: "hub",
        };
        let passage = self.router.on_packet(self.now, &packet, &mut |_| {});
        let flow = passage.flow.unwrap();
        let standing = self.router.standing(self.now, flow, (&packet, RouteNo(1)), &mut self.admission).unwrap();
        assert_eq!(standing.weight, 1);
        self.used.insert((port, call), self.now);
        flow
    }

    fn set_capacity(&mut self, rate: Rate) {
        let mut events = Vec::new();
        self.admission.set_capacity(RouteNo(1), rate, &mut |event| events.push(event));
        events.iter().for_each(|event| self.router.on_admission(event));
    }

    /// Lets a signal of a flow pass, as a node does.
    fn signal(&mut self, key: &FlowKey, mut signal: Signal) {
        let (key, mut events) = (GrantKey::of(VpnId::DEFAULT, key), Vec::new());
        let holder = GrantHolder::Flow(key);
        let direction = Direction::Forward;
        let passing = PassingSignal { signal: &mut signal, direction, available: Rate::ZERO, node: 3 };
        let routes = FlowRoutes::one(RouteNo(1));
        self.admission.on_signal(self.now, holder, &routes, passing, &mut |event| events.push(event));
        events.iter().for_each(|event| self.router.on_admission(event));
        self.router.on_signalled(&key, (&signal, direction), &self.admission);
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        let mut events = Vec::new();
        self.admission.expire(self.now, &mut |event| events.push(event));
        events.iter().for_each(|event| self.router.on_admission(event));
        while self.router.next_timeout(self.now).is_some_and(|at| at <= self.now) {
            self.router.expire(self.now, &mut self.admission, &mut |_| {});
        }
    }

    /// Compares each flow with admission's grants. Returns the number of voice calls that have their guarantee.
    fn granted(&mut self) -> u64 {
        let (mut cursor, mut records) = (FlowCursor::default(), Vec::new());
        while self.router.list(self.now, &mut cursor, 100, &mut |_, record| records.push(*record)) {}
        let mut granted = 0;
        for record in &records {
            let of = self.admission.of(&GrantHolder::Flow(GrantKey::of(record.vpn, &record.key)));
            assert_eq!(record.granted.guaranteed, of, "{record:?}");
            assert_eq!(u16::from(record.dscp), record.key.src_port % 64);
            let is_call = record.key.dst_port == 5_004;
            let verdict = self.router.verdict(record);
            assert_eq!(verdict == FlowVerdict::NothingAsked, !is_call, "{record:?}");
            assert_eq!(verdict == FlowVerdict::Granted, of > Rate::ZERO, "{record:?}");
            granted += u64::from(verdict == FlowVerdict::Granted);
        }
        granted
    }
}

#[test]
fn each_flow_has_its_guarantee_exactly_if_it_was_granted() {
    for seed in 0..20 {
        let (mut rng, mut world) = (Rng::new(seed), World::new(seed));
        let mut capacity = 0;
        for _ in 0..400 {
            match rng.below(6) {
                0 => {
                    capacity = rng.below(40) * CALL + rng.below(CALL);
                    world.set_capacity(Rate::from_bps(capacity));
                }
                1 => world.wait(Duration::from_millis(rng.below(4_000))),
                _ => _ = world.packet(rng.below(60) as u16, rng.chance(0.7)),
            }
            let granted = world.granted();
            let limit = capacity / CALL;
            let (now, grace) = (world.now, Duration::from_millis(200));
            let calls = |since: Duration| {
                world.used.iter().filter(|((_, call), at)| *call && now - **at < since).count() as u64
            };
            // A flow may outlive its idle time by a tick of the timer wheel.
            assert!(granted <= limit && granted >= limit.min(calls(IDLE - grace)), "seed {seed}: {granted} of {limit}");
            assert!(granted <= calls(IDLE + grace), "seed {seed}: {granted} granted");
        }
    }
}

#[test]
fn new_rules_reach_known_flows() {
    let mut world = World::new(1);
    world.set_capacity(Rate::from_mbps(1));
    world.packet(1, true);
    world.packet(2, false);
    assert_eq!(world.granted(), 1);
    let table = TableConfig { flows: 1_024, ..TableConfig::default() };
    world.router.reconfigure(RouterConfig { rules: FlowRules::default(), table, ..RouterConfig::default() }).unwrap();
    world.wait(Duration::from_millis(1));
    assert_eq!((world.granted(), world.router.counters().1), (0, 0));
    let flow = world.packet(1, true);
    assert_eq!(world.router.get(world.now, flow).unwrap().asked, Rate::ZERO);
    assert_eq!(world.admission.len(), 0);
}

fn signal(message: Message, rate: u64, preemption: u8, nonce: u32) -> Signal {
    let rates = Rates { available: Rate16::ZERO, guaranteed: Rate16::floor(Rate::from_bps(rate)) };
    Signal {
        message,
        service: SignalService::Guaranteed,
        receiver_pays: false,
        is_lowered: false,
        preemption,
        delay_priority: 0,
        burst: BurstTolerance::default(),
        delay_variance: DelayVariance::default(),
        forward: rates,
        reverse: Rates::default(),
        echoed: rates,
        nonce,
        hops: 0,
        qttl: 9,
        lowered_by: 0,
        must_be_met: false,
        is_overlay: false,
        tag: 0,
    }
}

/// Flows with and without a rule send signals at random.
///
/// Each next packet of a flow finds the rate that admission granted, whether the flow asked in band or by its rule. The
/// sum of all guarantees never exceeds the capacity of the route.
#[test]
fn a_flow_has_what_it_was_granted_in_band_and_else_what_its_rule_was() {
    for seed in 0..40 {
        let (mut rng, mut world) = (Rng::new(seed), World::new(seed));
        let (mut capacity, mut in_band) = (Rate::ZERO, 0);
        for _ in 0..600 {
            let (port, call) = (rng.below(12) as u16, rng.chance(0.5));
            match rng.below(8) {
                0 => {
                    capacity = Rate::from_bps(rng.below(20 * CALL));
                    world.set_capacity(capacity);
                }
                1 => world.wait(Duration::from_millis(rng.below(2_500))),
                2..=4 => {
                    let message = [Message::Request, Message::Update, Message::Confirm, Message::Release];
                    let (rate, nonce) = (rng.below(4 * CALL), rng.below(2) as u32);
                    let message = message[rng.below(4) as usize];
                    world.signal(&key(port, call), signal(message, rate, rng.below(3) as u8, nonce));
                }
                _ => {}
            }
            let flow = world.packet(port, call);
            let of = flow_holder(port, call);
            let granted = world.router.get(world.now, flow).unwrap().granted;
            assert_eq!(granted.guaranteed, world.admission.of(&of), "seed {seed}: port {port}, call {call}");
            assert!(world.admission.granted(RouteNo(1)) <= capacity, "seed {seed}: over-committed");
            in_band += u32::from(world.admission.signalled(&of).is_some_and(|(_, is_granted)| is_granted));
        }
        assert!(in_band > 20, "seed {seed}: only {in_band} packets of flows with a grant in band");
        world.wait(Duration::from_secs(31));
        world.wait(Duration::from_secs(31));
        assert_eq!(world.admission.len(), 0, "seed {seed}: state stays");
    }
}

/// One leased line of the model.
#[derive(Clone, Copy, Debug)]
struct Line {
    rate: u64,
    member: u32,
    is_in_force: bool,
    age: u64,
}

/// Leased lines on one route, without any index. No flow has their precedence, so flows change nothing for them.
#[derive(Default)]
struct Lines {
    capacity: u64,
    by_vpn: BTreeMap<u32, Line>,
    ages: u64,
}

impl Lines {
    fn in_force(&self) -> u64 {
        self.by_vpn.values().filter(|line| line.is_in_force).map(|line| line.rate).sum()
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        while self.in_force() > capacity {
            let youngest = self.by_vpn.values_mut().filter(|line| line.is_in_force).max_by_key(|line| line.age);
            youngest.unwrap().is_in_force = false;
        }
        self.raise();
    }

    /// The oldest line that waits and fits gets its rate first.
    fn raise(&mut self) {
        let mut vpns: Vec<u32> = self.by_vpn.keys().copied().collect();
        vpns.sort_by_key(|vpn| self.by_vpn[vpn].age);
        for vpn in vpns {
            let free = self.capacity - self.in_force();
            let line = self.by_vpn.get_mut(&vpn).unwrap();
            line.is_in_force |= line.rate <= free;
        }
    }

    fn lease(&mut self, vpn: u32, rate: u64, member: u32) {
        self.ages += 1;
        let age = self.by_vpn.get(&vpn).map_or(self.ages, |line| line.age);
        self.by_vpn.insert(vpn, Line { rate, member, is_in_force: false, age });
        let free = self.capacity - self.in_force();
        self.by_vpn.get_mut(&vpn).unwrap().is_in_force = rate <= free;
        self.raise();
    }

    fn end(&mut self, ends: impl Fn(u32, &Line) -> bool) {
        self.by_vpn.retain(|vpn, line| !ends(*vpn, line));
        self.raise();
    }
}

/// Rules, requests in band and leased lines share one capacity.
///
/// Lines have the rates of the model. Flows have at most the rest, and a waiting voice call would not fit.
#[test]
fn rules_requests_in_band_and_leased_lines_never_over_commit_the_route() {
    for seed in 0..60 {
        let (mut rng, mut world, mut lines) = (Rng::new(seed), World::new(seed), Lines::default());
        let route = RouteNo(1);
        let (mut both, mut waited) = (0, 0);
        for _ in 0..500 {
            let (port, call) = (rng.below(12) as u16, rng.chance(0.5));
            let mut events = Vec::new();
            match rng.below(10) {
                0 => {
                    lines.set_capacity(rng.below(40 * CALL));
                    world.set_capacity(Rate::from_bps(lines.capacity));
                }
                1 => world.wait(Duration::from_millis(rng.below(2_500))),
                2 | 3 => {
                    let (vpn, member) = (rng.below(4) as u32, rng.below(3) as u32);
                    let rate = 1 + rng.below(15 * CALL);
                    lines.lease(vpn, rate, member);
                    let rate = Rate::from_bps(rate);
                    let request = GrantRequest { rate, precedence: 15, shortfall: Shortfall::Wait, lifetime: None };
                    let (holder, routes) = (GrantHolder::Vpn(VpnId(vpn), route), FlowRoutes::one(route));
                    let mut note = |event| events.push(event);
                    let members = [MemberId(member)];
                    world.admission.request_aggregate(world.now, holder, request, routes, &members, &mut note);
                }
                4 => {
                    let vpn = rng.below(4) as u32;
                    lines.end(|other, _| other == vpn);
                    let holder = GrantHolder::Vpn(VpnId(vpn), route);
                    world.admission.release(&holder, &mut |event| events.push(event));
                }
                5 if rng.chance(0.3) => {
                    let member = rng.below(3) as u32;
                    lines.end(|_, line| line.member == member);
                    world.admission.release_member(MemberId(member), &mut |event| events.push(event));
                }
                6 | 7 => {
                    let message = [Message::Request, Message::Update, Message::Confirm, Message::Release];
                    let (rate, nonce) = (rng.below(4 * CALL), rng.below(2) as u32);
                    let message = message[rng.below(4) as usize];
                    world.signal(&key(port, call), signal(message, rate, rng.below(10) as u8, nonce));
                }
                _ => _ = world.packet(port, call),
            }
            events.iter().for_each(|event| world.router.on_admission(event));
            for vpn in 0..4 {
                let of = world.admission.of(&GrantHolder::Vpn(VpnId(vpn), route)).bps();
                let model = lines.by_vpn.get(&vpn).filter(|line| line.is_in_force).map_or(0, |line| line.rate);
                assert_eq!(of, model, "seed {seed}: line {vpn}");
            }
            let all = (0..12).flat_map(|port| [flow_holder(port, true), flow_holder(port, false)]);
            let flows: u64 = all.clone().map(|flow| world.admission.of(&flow).bps()).sum();
            assert_eq!(flows + lines.in_force(), world.admission.granted(route).bps(), "seed {seed}: another book");
            assert!(flows + lines.in_force() <= lines.capacity, "seed {seed}: over-committed");
            let free = lines.capacity - lines.in_force() - flows;
            let waits = all.filter_map(|flow| world.admission.waits_for(&flow)).map(Rate::bps);
            assert!(waits.clone().all(|rate| rate > free), "seed {seed}: a flow that fits waits");
            both += u32::from(flows > 0 && lines.in_force() > 0);
            waited += u32::from(waits.count() > 0);
        }
        assert!(
            both > 50 && waited > 20,
            "seed {seed}: {both} steps with flows and lines, {waited} with flows that wait"
        );
    }
}
