//! Groups of routes under random deaths and revivals, against the definition of each rule.
#![allow(missing_docs)]

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use weft_flows::alternates::{AlternateGroups, ComponentId, DestinationId, GroupId, RouteFacts, RouteId};
use weft_flows::table::{FlowStart, FlowStates, TableConfig};
use weft_units::{Duration, Instant, Rng, VpnId};
use weft_wire::er_sig::Direction;
use weft_wire::ip::FlowKey;

const DETECTION: Duration = Duration::from_millis(50);

fn facts(destination: u32, metric_us: u64, weight: u32, components: &[u32]) -> RouteFacts {
    RouteFacts {
        destination: DestinationId(destination),
        metric: Duration::from_micros(metric_us),
        weight,
        detection: DETECTION,
        components: components.iter().map(|n| ComponentId(*n)).collect(),
    }
}

fn draw_facts(rng: &mut Rng) -> RouteFacts {
    let components: Vec<u32> = (0..1 + rng.below(4)).map(|_| rng.below(8) as u32).collect();
    facts(rng.below(3) as u32, 1_000 + rng.below(4_000), 1 + rng.below(9) as u32, &components)
}

/// The state of the routes, as the caller set it.
#[derive(Default)]
struct Truth {
    facts: BTreeMap<u16, RouteFacts>,
    withdrawn: BTreeSet<u16>,
    dead: BTreeSet<ComponentId>,
}

impl Truth {
    fn is_alive(&self, route: u16) -> bool {
        let facts = self.facts.get(&route);
        !self.withdrawn.contains(&route) && facts.is_some_and(|f| f.components.iter().all(|c| !self.dead.contains(c)))
    }

    fn live(&self, destination: DestinationId) -> impl Iterator<Item = (u16, &RouteFacts)> {
        let of = move |(_, facts): &(&u16, &RouteFacts)| facts.destination == destination;
        self.facts.iter().filter(of).map(|(n, facts)| (*n, facts)).filter(|(n, _)| self.is_alive(*n))
    }

    fn check(
        &self,
        groups: &AlternateGroups,
        before: &BTreeMap<u16, (Option<RouteId>, u16)>,
    ) -> Result<(), TestCaseError> {
        for (route, facts) in &self.facts {
            let current = groups.current(GroupId(*route));
            let any_lives = self.live(facts.destination).next().is_some();
            prop_assert_eq!(current.is_some(), any_lives, "a group has a route exactly if one lives");
            let view = groups.view(GroupId(*route)).expect("the group exists");
            if let Some((old, epoch)) = before.get(route) {
                prop_assert_eq!(*old == view.current, *epoch == view.epoch, "the epoch tells each change");
            }
            let Some(current) = current else { continue };
            prop_assert!(self.is_alive(current.route.0), "no group uses a dead route");
            prop_assert_eq!(self.facts[&current.route.0].destination, facts.destination);
            let held = self.is_alive(*route) && current.route.0 != *route;
            prop_assert_eq!(view.return_at.is_some(), held, "a return is due exactly while a live primary is unused");
        }
        Ok(())
    }

    /// After a poll, the standby is the best by definition: near-equal, diverse, fast.
    fn check_standbys(&self, groups: &AlternateGroups) -> Result<(), TestCaseError> {
        for (route, facts) in &self.facts {
            let view = groups.view(GroupId(*route)).expect("the group exists");
            let used = view.current.map_or(facts, |current| &self.facts[&current.0]);
            let shared = |other: &RouteFacts| {
                let (a, b): (BTreeSet<_>, BTreeSet<_>) =
                    (used.components.iter().collect(), other.components.iter().collect());
                a.intersection(&b).count()
            };
            let best = self
                .live(facts.destination)
                .filter(|(n, _)| Some(RouteId(*n)) != view.current)
                .min_by_key(|(n, other)| (other.metric * 4 > used.metric * 5, shared(other), other.metric, *n));
            prop_assert_eq!(view.standby, best.map(|(n, _)| RouteId(n)));
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn every_group_uses_a_live_route_whenever_there_is_one(seed: u64) {
        let mut rng = Rng::new(seed);
        let (mut groups, mut truth, mut now) = (AlternateGroups::new(), Truth::default(), Instant::from_millis(1));
        let mut before = BTreeMap::new();
        for _ in 0..150 {
            let (route, alive) = (rng.below(10) as u16, rng.chance(0.5));
            match rng.below(10) {
                0 | 1 => {
                    let facts = draw_facts(&mut rng);
                    groups.set_route(now, RouteId(route), facts.clone());
                    let old = truth.facts.insert(route, facts.clone());
                    if old.is_none_or(|old| old.destination != facts.destination) {
                        truth.withdrawn.remove(&route);
                        before.remove(&route);
                    }
                }
                2 => {
                    groups.remove_route(now, RouteId(route));
                    truth.facts.remove(&route);
                    truth.withdrawn.remove(&route);
                    before.remove(&route);
                    prop_assert!(groups.current(GroupId(route)).is_none() && groups.view(GroupId(route)).is_none());
                }
                3 | 4 if truth.facts.contains_key(&route) => {
                    groups.set_route_alive(now, RouteId(route), alive);
                    if alive { truth.withdrawn.remove(&route); } else { truth.withdrawn.insert(route); }
                }
                5..8 => {
                    let component = ComponentId(rng.below(8) as u32);
                    groups.set_component_alive(now, component, alive);
                    if alive { truth.dead.remove(&component); } else { truth.dead.insert(component); }
                }
                _ => {
                    now += Duration::from_micros(rng.below(1 << rng.clone().below(24)));
                    groups.poll(now);
                    truth.check_standbys(&groups)?;
                    let due = groups.next_timeout();
                    prop_assert!(due.is_none_or(|at| at > now), "a poll leaves nothing undone");
                }
            }
            truth.check(&groups, &before)?;
            let read = |route: &u16| groups.view(GroupId(*route)).map(|view| (*route, (view.current, view.epoch)));
            before.extend(truth.facts.keys().filter_map(read));
        }
        for component in 0..8 {
            groups.set_component_alive(now, ComponentId(component), true);
        }
        for route in truth.facts.keys() {
            groups.set_route_alive(now, RouteId(*route), true);
        }
        groups.poll(now + DETECTION * 32 * 256);
        for route in truth.facts.keys() {
            let current = groups.current(GroupId(*route)).map(|current| current.route.0);
            prop_assert_eq!(current, Some(*route), "in the end every group returns");
        }
    }

    /// New flows spread over near-equal routes by weight. A route that is far slower gets none.
    #[test]
    fn new_flows_spread_by_weight(seed: u64, routes in 1u16..6) {
        let (mut rng, mut groups) = (Rng::new(seed), AlternateGroups::new());
        let mut weights = BTreeMap::new();
        for route in 0..routes {
            let weight = 1 + rng.below(9) as u32;
            groups.set_route(Instant::ZERO, RouteId(route), facts(1, 10_000 + rng.below(2_500), weight, &[]));
            weights.insert(route, weight);
        }
        groups.set_route(Instant::ZERO, RouteId(90), facts(1, 20_000, 1_000, &[]));
        let (total, mut chosen) = (f64::from(weights.values().sum::<u32>()), BTreeMap::<u16, f64>::new());
        for _ in 0..20_000 {
            let hash = rng.next_u64();
            let group = groups.choose(DestinationId(1), hash).expect("routes live");
            prop_assert_eq!(groups.choose(DestinationId(1), hash), Some(group), "a hash always chooses the same");
            *chosen.entry(group.0).or_default() += 1.0 / 20_000.0;
        }
        for (route, weight) in &weights {
            let (share, expected) = (chosen.get(route).copied().unwrap_or(0.0), f64::from(*weight) / total);
            // Five standard deviations of a share of 20,000 draws.
            let bound = 5.0 * (expected * (1.0 - expected) / 20_000.0).sqrt() + 1e-9;
            prop_assert!((share - expected).abs() <= bound, "{share} instead of {expected}");
        }
        prop_assert!(!chosen.contains_key(&90));
    }

    /// A route that says that it is full loses flows. One that says that it is not gets no flow that it would not get
    /// without a report. No answer makes a flow take a route that is not near-equal.
    #[test]
    fn load_only_turns_flows_away(seed: u64, routes in 1u16..6, full in any::<u8>(), liar in 0u16..6) {
        let (mut rng, mut groups) = (Rng::new(seed), AlternateGroups::new());
        let best = 10_000;
        let mut near = Vec::new();
        for route in 0..routes {
            let (metric, weight) = (best + rng.below(4_000) * u64::from(route > 0), 1 + rng.below(9) as u32);
            groups.set_route(Instant::ZERO, RouteId(route), facts(1, metric, weight, &[]));
            near.extend((metric * 100 <= best * 125).then_some(route));
        }
        let says_full = |route: u16| full >> route & 1 == 1;
        for _ in 0..200 {
            let hash = rng.next_u64();
            let choose = |is_full: &dyn Fn(u16) -> bool| {
                groups.choose_unless(DestinationId(1), hash, |route| is_full(route.0)).expect("routes live").0
            };
            let (home, chosen) = (choose(&|_| false), choose(&says_full));
            prop_assert!(near.contains(&chosen));
            prop_assert_eq!(Some(GroupId(home)), groups.choose(DestinationId(1), hash));
            prop_assert!(!says_full(chosen) || near.iter().all(|route| says_full(*route)) && chosen == home);
            prop_assert!(says_full(home) || chosen == home, "only a full route loses flows");
            let (silent, loud) = (choose(&|of| of != liar && says_full(of)), choose(&|of| of == liar || says_full(of)));
            prop_assert!(loud != liar || silent == liar, "a report gains no flow");
        }
    }

    /// The hold-down is the detection time divided by the gain, within its bounds.
    #[test]
    fn flows_return_when_the_gain_has_paid_for_another_death(primary_us in 1_000u64..10_000, more_us in 0u64..10_000) {
        let mut groups = AlternateGroups::new();
        groups.set_route(Instant::ZERO, RouteId(0), facts(1, primary_us, 1, &[0]));
        groups.set_route(Instant::ZERO, RouteId(1), facts(1, primary_us + more_us, 1, &[1]));
        groups.poll(Instant::ZERO);
        let now = Instant::from_millis(100);
        groups.set_component_alive(now, ComponentId(0), false);
        prop_assert_eq!(groups.current(GroupId(0)).map(|current| current.route), Some(RouteId(1)));
        groups.set_component_alive(now, ComponentId(0), true);
        groups.poll(now);
        prop_assert_eq!(groups.choose(DestinationId(1), 7), Some(GroupId(1)), "a held route gets no new flow");
        let hold = groups.next_timeout().expect("a return is due").since(now);
        let times = (primary_us + more_us).checked_div(more_us).unwrap_or(32).min(32);
        prop_assert_eq!(hold, DETECTION * times as u32);
        groups.poll((now + hold).before(Duration::from_nanos(1)));
        prop_assert_eq!(groups.current(GroupId(0)).map(|current| current.route), Some(RouteId(1)));
        groups.poll(now + hold);
        prop_assert_eq!(groups.current(GroupId(0)).map(|current| current.route), Some(RouteId(0)));
    }
}

#[test]
fn a_flapping_primary_is_trusted_ever_later_and_a_steady_one_again_at_once() {
    let mut groups = AlternateGroups::new();
    groups.set_route(Instant::ZERO, RouteId(0), facts(1, 1_000, 1, &[0]));
    groups.set_route(Instant::ZERO, RouteId(1), facts(1, 2_000, 1, &[1]));
    let mut now = Instant::ZERO;
    let mut cycle = |steady: Duration| {
        now += steady;
        groups.set_component_alive(now, ComponentId(0), false);
        groups.set_component_alive(now, ComponentId(0), true);
        groups.poll(now);
        let hold = groups.next_timeout().expect("a return is due").since(now);
        now += hold;
        groups.poll(now);
        hold
    };
    let holds: Vec<Duration> = (0..12).map(|_| cycle(Duration::from_millis(1))).collect();
    let expected: Vec<Duration> = (0..12u32).map(|n| DETECTION * 2 * (1 << n.min(8))).collect();
    assert_eq!(holds, expected, "each death soon after a return doubles the hold-down");
    assert_eq!(cycle(Duration::from_secs(3_600)), DETECTION * 2);
}

#[test]
fn every_flow_follows_its_group_and_notices_the_move_once() {
    let (mut groups, mut table) =
        (AlternateGroups::new(), FlowStates::new(TableConfig { flows: 1_000, ..TableConfig::default() }, 1));
    groups.set_route(Instant::ZERO, RouteId(0), facts(1, 1_000, 1, &[0]));
    groups.set_route(Instant::ZERO, RouteId(1), facts(1, 1_000, 1, &[1]));
    groups.poll(Instant::ZERO);
    let mut used = BTreeMap::new();
    let flows: Vec<_> = (0..500u16)
        .map(|port| {
            let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
            let key = FlowKey { src, dst, protocol: 6, src_port: port, dst_port: 443, flow_label: 0 };
            let flow =
                table.insert(Instant::ZERO, VpnId::DEFAULT, &key, &FlowStart::default(), &mut |_| ()).expect("room");
            assert_eq!(table.follow(flow, Direction::Forward, &groups), None);
            let group = groups.choose(DestinationId(1), table.hash(VpnId::DEFAULT, &key));
            assert!(table.set_group(flow, Direction::Forward, group, &groups));
            *used.entry(group).or_insert(0) += 1;
            flow
        })
        .collect();
    assert!(used.len() == 2 && used.values().all(|n| *n > 150), "flows to one destination use both routes: {used:?}");
    groups.set_component_alive(Instant::from_millis(1), ComponentId(0), false);
    let mut moved = 0;
    for flow in &flows {
        let followed = table.follow(*flow, Direction::Forward, &groups).expect("an alternate lives");
        assert_eq!(followed.route, RouteId(1));
        moved += usize::from(followed.moved);
        assert!(table.follow(*flow, Direction::Forward, &groups).is_some_and(|again| !again.moved));
    }
    assert_eq!(moved, used[&Some(GroupId(0))]);
}
