//! The classifier finds the rule that a scan finds, and every fault that is reported is one.
#![allow(missing_docs)]

use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_flows::Service;
use weft_flows::class::{Classes, DEFAULT_CLASS};
use weft_flows::rules::{
    EditError, FirstPacket, FlowPrefix, FlowRule, FlowRules, NameId, Overrides, RuleEdit, RuleKey, RuleLimits,
    RuleMatch, RuleProblem,
};
use weft_units::{Duration, Rate, Rng, VpnId};
use weft_wire::ip::FlowKey;

/// Draws rules and packets from few values, so that rules overlap and packets meet them.
struct Draw {
    rng: Rng,
    /// Chance that a rule names a property.
    named: f64,
}

impl Draw {
    fn maybe<T>(&mut self, value: impl FnOnce(&mut Draw) -> T) -> Option<T> {
        let named = self.named;
        self.rng.chance(named).then(|| value(self))
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.rng.below(values.len() as u64) as usize]
    }

    /// Draws an address: the first and the last byte vary, so that prefixes of all lengths differ.
    fn address(&mut self, is_ipv6: bool) -> IpAddr {
        let (first, last) = (self.rng.below(4) as u8, self.rng.below(8) as u8);
        if is_ipv6 {
            let mut octets = [0; 16];
            (octets[0], octets[15]) = (first, last);
            Ipv6Addr::from(octets).into()
        } else {
            Ipv4Addr::new(first, 0, 0, last).into()
        }
    }

    fn prefix(&mut self, is_ipv6: bool) -> FlowPrefix {
        let width = if is_ipv6 { 128 } else { 32 };
        let length = match self.rng.below(4) {
            0 => self.rng.below(width + 1),
            1 => 5 + self.rng.below(4),
            _ => width - self.rng.below(4),
        };
        FlowPrefix { address: self.address(is_ipv6), length: length as u8 }
    }

    fn port(&mut self) -> u16 {
        self.one_of(&[0, 1, 2, 3, 80, 443, 5_000, u16::MAX])
    }

    fn ports(&mut self) -> std::ops::RangeInclusive<u16> {
        let (a, b) = (self.port(), self.port());
        a.min(b)..=a.max(b)
    }

    fn protocol(&mut self) -> u8 {
        self.one_of(&[1, 6, 17, 255])
    }

    fn dscp(&mut self) -> u8 {
        self.one_of(&[0, 46, 63])
    }

    fn name(&mut self) -> String {
        self.one_of(&["hub", "home", "10.0.0.1"]).to_owned()
    }

    /// Draws a rule without contradictions in itself.
    fn rule(&mut self, number: usize) -> FlowRule {
        let (is_ipv6, has_ports) = (self.rng.chance(0.3), self.rng.chance(0.5));
        let protocol = if has_ports { Some(self.one_of(&[6, 17])) } else { self.maybe(Draw::protocol) };
        let matches = RuleMatch {
            from: self.maybe(|draw| draw.prefix(is_ipv6)),
            to: self.maybe(|draw| draw.prefix(is_ipv6)),
            from_ports: self.maybe(Draw::ports).filter(|_| has_ports),
            to_ports: self.maybe(Draw::ports).filter(|_| has_ports),
            protocol,
            dscp: self.maybe(Draw::dscp),
            vpn: self.maybe(|draw| VpnId(draw.rng.below(3) as u32)),
            user: self.maybe(Draw::name),
            near: self.maybe(Draw::name),
            far: self.maybe(Draw::name),
        };
        let class = self.one_of(&["voice", "video", "interactive", "bulk", "background"]).to_owned();
        let overrides = Overrides { precedence: self.maybe(|d| d.rng.below(16) as u8), ..Overrides::default() };
        FlowRule { name: format!("r{number}"), matches, class, overrides }
    }

    fn packet(&mut self) -> FirstPacket {
        let is_ipv6 = self.rng.chance(0.3);
        let key = FlowKey {
            src: self.address(is_ipv6),
            dst: self.address(is_ipv6),
            protocol: self.protocol(),
            src_port: self.port(),
            dst_port: self.port(),
            flow_label: self.rng.below(2) as u32,
        };
        let mut name = || NameId(self.rng.below(4) as u32);
        let (user, near, far) = (name(), name(), name());
        FirstPacket { key, dscp: self.dscp(), vpn: VpnId(self.rng.below(4) as u32), user, near, far }
    }

    fn rules(&mut self, count: usize) -> FlowRules {
        FlowRules::new((0..count).map(|number| self.rule(number)).collect())
    }
}

/// Removes the shadowed rules. A rule that shadows others is never shadowed itself.
fn without_faults(mut rules: FlowRules, classes: &Classes) -> FlowRules {
    for fault in rules.check(classes, &RuleLimits::default()).into_iter().rev() {
        assert!(matches!(fault.problem, RuleProblem::Shadowed { .. }), "{fault}");
        rules.apply(RuleEdit::Remove { at: fault.rule }).unwrap();
    }
    rules
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_classifier_finds_what_a_scan_finds(seed: u64, count in 0usize..150, named in 0.05f64..0.9) {
        let (classes, mut draw) = (Classes::built_in(), Draw { rng: Rng::new(seed), named });
        let rules = without_faults(draw.rules(count), &classes);
        let classifier = rules.compile(&classes, &RuleLimits::default()).unwrap();
        prop_assert_eq!(classifier.len(), rules.rules().len());
        for _ in 0..200 {
            let packet = draw.packet();
            let (decision, expected) = (classifier.classify(&packet), rules.first_match(&packet));
            prop_assert_eq!(decision.rule, expected);
            let treatment = decision.request.treatment;
            match expected.map(|at| &rules.rules()[at]) {
                Some(rule) => {
                    let class = classes.get(treatment.class).unwrap();
                    prop_assert_eq!(&class.name, &rule.class);
                    let precedence = rule.overrides.precedence.unwrap_or(class.treatment.precedence);
                    prop_assert_eq!(treatment.precedence, precedence);
                }
                None => prop_assert_eq!(treatment.class, DEFAULT_CLASS),
            }
            let trace = rules.trace(&packet);
            prop_assert_eq!(trace.matched, expected);
            prop_assert_eq!(trace.earlier.len(), expected.unwrap_or(rules.rules().len()));
            prop_assert!(trace.earlier.iter().all(|step| !step.mismatches.is_empty()));
        }
    }

    /// The packets of these rules are few enough to try all.
    #[test]
    fn exactly_the_rules_without_a_packet_of_their_own_are_shadowed(
        seed: u64, count in 1usize..12, named in 0.2f64..0.8
    ) {
        let (classes, mut rng) = (Classes::built_in(), Rng::new(seed));
        let rules = FlowRules::new((0..count).map(|number| small_rule(&mut rng, named, number)).collect());
        let mut is_reached = vec![false; count];
        for at in every_small_packet().filter_map(|packet| rules.first_match(&packet)) {
            is_reached[at] = true;
        }
        let mut is_shadowed = vec![false; count];
        for fault in rules.check(&classes, &RuleLimits::default()) {
            let RuleProblem::Shadowed { by } = fault.problem else { panic!("{fault}") };
            prop_assert!(by.iter().all(|(at, name)| *at < fault.rule && *name == rules.rules()[*at].name));
            // The rules that are named suffice to shadow it.
            let named = by.iter().map(|(at, _)| *at).chain([fault.rule]);
            let alone = FlowRules::new(named.map(|at| rules.rules()[at].clone()).collect());
            let alone = alone.check(&classes, &RuleLimits::default());
            prop_assert!(alone.iter().any(|left| left.rule == by.len()), "{:?}", by);
            is_shadowed[fault.rule] = true;
        }
        let expected: Vec<bool> = is_reached.iter().map(|reached| !reached).collect();
        prop_assert_eq!(is_shadowed, expected);
    }

    /// No packet reaches a rule that is reported as shadowed, whatever the rules.
    #[test]
    fn a_shadowed_rule_gets_no_packet(seed: u64, count in 2usize..60, named in 0.05f64..0.4) {
        let (classes, mut draw) = (Classes::built_in(), Draw { rng: Rng::new(seed), named });
        let rules = draw.rules(count);
        let faults = rules.check(&classes, &RuleLimits::default());
        for _ in 0..500 {
            let matched = rules.first_match(&draw.packet());
            prop_assert!(faults.iter().all(|fault| Some(fault.rule) != matched), "{:?}", matched);
        }
    }

    #[test]
    fn every_edit_can_be_undone(seed: u64, count in 0usize..20, edits in 1usize..20) {
        let mut draw = Draw { rng: Rng::new(seed), named: 0.3 };
        let mut rules = draw.rules(count);
        let before = rules.rules().to_vec();
        let mut undo = Vec::new();
        for number in 0..edits {
            let len = rules.rules().len();
            let (from, to) = (draw.rng.below(len as u64 + 2) as usize, draw.rng.below(len as u64 + 2) as usize);
            let (edit, is_possible) = match number % 3 {
                0 => (RuleEdit::Move { from, to }, from < len && to < len),
                1 => (RuleEdit::Remove { at: from }, from < len),
                _ => (RuleEdit::Insert { at: from, rule: Box::new(draw.rule(count + number)) }, from <= len),
            };
            let unchanged = rules.rules().to_vec();
            let result = rules.apply(edit.clone());
            prop_assert_eq!(result.is_ok(), is_possible, "{:?} of {}", edit, len);
            match result {
                Ok(back) => undo.push(back),
                Err(_) => prop_assert_eq!(rules.rules(), unchanged),
            }
        }
        for back in undo.into_iter().rev() {
            rules.apply(back).unwrap();
        }
        prop_assert_eq!(rules.rules(), before);
    }
}

/// Draws a rule over two bits of the source, two of the destination, four ranges of ports and two protocols.
fn small_rule(rng: &mut Rng, named: f64, number: usize) -> FlowRule {
    let prefix = |rng: &mut Rng| {
        let address = Ipv4Addr::new((rng.below(4) << 6) as u8, 0, 0, 0).into();
        FlowPrefix { address, length: rng.below(3) as u8 }
    };
    let chance = |rng: &mut Rng| rng.chance(named);
    let edges = [0, 10, 20, 30, u16::MAX];
    let (a, b) = (rng.below(4) as usize, rng.below(4) as usize);
    let ports = edges[a.min(b)] + u16::from(a.min(b) > 0)..=edges[a.max(b) + 1];
    let matches = RuleMatch {
        from: chance(rng).then(|| prefix(rng)),
        to: chance(rng).then(|| prefix(rng)),
        to_ports: chance(rng).then_some(ports),
        protocol: Some([6, 17][rng.below(2) as usize]),
        ..RuleMatch::default()
    };
    FlowRule { name: format!("r{number}"), matches, class: "bulk".to_owned(), overrides: Overrides::default() }
}

/// Returns one packet of each kind that rules of [`small_rule`] distinguish, IPv6 included.
fn every_small_packet() -> impl Iterator<Item = FirstPacket> {
    let address = |number: u8| -> IpAddr {
        if number < 4 { Ipv4Addr::new(number << 6, 1, 2, 3).into() } else { Ipv6Addr::LOCALHOST.into() }
    };
    let pairs = (0..5u8).flat_map(|from| (0..5u8).map(move |to| (from, to))).filter(|(a, b)| (*a < 4) == (*b < 4));
    pairs.flat_map(move |(from, to)| {
        [6, 17].into_iter().flat_map(move |protocol| {
            [10, 20, 30, u16::MAX].into_iter().map(move |dst_port| {
                plain(FlowKey { src: address(from), dst: address(to), protocol, src_port: 9, dst_port, flow_label: 0 })
            })
        })
    })
}

fn plain(key: FlowKey) -> FirstPacket {
    FirstPacket { key, dscp: 0, vpn: VpnId::DEFAULT, user: NameId(0), near: NameId(0), far: NameId(0) }
}

fn rule(name: &str, class: &str, matches: RuleMatch, overrides: Overrides) -> FlowRule {
    FlowRule { name: name.to_owned(), matches, class: class.to_owned(), overrides }
}

fn prefix(text: &str) -> FlowPrefix {
    let (address, length) = text.split_once('/').unwrap();
    FlowPrefix { address: address.parse().unwrap(), length: length.parse().unwrap() }
}

/// Asserts that a list with only this rule has the fault, or none if `expected` is empty.
#[track_caller]
fn tells(expected: &str, class: &str, matches: RuleMatch, overrides: Overrides) {
    let limits = RuleLimits { capacity: Some(Rate::from_mbps(10)), delay_variance: Some(Duration::from_millis(2)) };
    let rules = FlowRules::new(vec![rule("calls", class, matches, overrides)]);
    let faults = rules.check(&Classes::built_in(), &limits);
    assert_eq!(rules.compile(&Classes::built_in(), &limits).is_ok(), faults.is_empty());
    let message: String = faults.iter().map(|fault| format!("{fault}\n")).collect();
    let is_told = if expected.is_empty() { message.is_empty() } else { message.contains(expected) };
    assert!(is_told && message.lines().count() <= 1, "{expected:?}: {message}");
}

#[test]
fn every_contradiction_of_figures_is_reported() {
    let tells = |expected: &str, class: &str, overrides| tells(expected, class, RuleMatch::default(), overrides);
    let none = Overrides::default;
    let guaranteed = |bps| Overrides { guaranteed: Some(Rate::from_bps(bps)), ..none() };
    tells("", "voice", none());
    tells("rule `calls` (0): there is no class `vioce`", "vioce", none());
    tells("", "bulk", guaranteed(10_000_000));
    tells("exceeds 10.0 Mbit/s, the most", "bulk", guaranteed(10_000_001));
    let burst = |bytes| Overrides { burst_bytes: Some(bytes), ..none() };
    tells("", "voice", burst(1_602));
    tells("a delay variance of 10ms contradicts the burst", "voice", burst(1_603));
    let variance = |micros| Overrides { delay_variance: Some(Duration::from_micros(micros)), ..none() };
    tells("", "bulk", variance(2_000));
    tells("below the 2ms of the best path", "bulk", variance(1_999));
    let service = |service| Overrides { service: Some(service), ..none() };
    tells("needs `guaranteed`", "bulk", service(Service::Guaranteed));
    tells("needs `guaranteed`", "bulk", service(Service::Variable));
    tells("needs `maximum`", "bulk", service(Service::Maximum));
    let maximum = |bps| Overrides { maximum: Some(Rate::from_bps(bps)), ..none() };
    tells("", "voice", maximum(82_000));
    tells("the guarantee of 82.0 kbit/s exceeds the maximum of 81.0 kbit/s", "voice", maximum(81_000));
    tells("", "bulk", Overrides { precedence: Some(15), delay_priority: Some(15), ..none() });
    tells("0 to 15", "bulk", Overrides { precedence: Some(16), ..none() });
    tells("0 to 15", "bulk", Overrides { delay_priority: Some(16), ..none() });
}

#[test]
fn every_contradiction_of_properties_is_reported() {
    let tells = |expected: &str, matches| tells(expected, "bulk", matches, Overrides::default());
    let any = RuleMatch::default;
    tells("", RuleMatch { to_ports: Some(1..=2), protocol: Some(17), ..any() });
    tells("only TCP and UDP have ports", RuleMatch { to_ports: Some(1..=2), ..any() });
    tells("only TCP and UDP have ports", RuleMatch { from_ports: Some(1..=2), protocol: Some(1), ..any() });
    #[allow(clippy::reversed_empty_ranges)]
    tells("`ports` is out of range", RuleMatch { to_ports: Some(2..=1), protocol: Some(6), ..any() });
    tells("", RuleMatch { dscp: Some(63), ..any() });
    tells("`dscp` is out of range", RuleMatch { dscp: Some(64), ..any() });
    tells("`from` is out of range", RuleMatch { from: Some(prefix("10.0.0.0/33")), ..any() });
    tells("`to` is out of range", RuleMatch { to: Some(prefix("::/129")), ..any() });
    let families = RuleMatch { from: Some(prefix("10.0.0.0/8")), to: Some(prefix("::/0")), ..any() };
    tells("no flow is both IPv4 and IPv6", families);
}

fn to(name: &str, text: &str) -> FlowRule {
    rule(name, "bulk", RuleMatch { to: Some(prefix(text)), ..RuleMatch::default() }, Overrides::default())
}

#[test]
fn faults_of_the_list_name_the_other_rules() {
    let told = |rules| {
        let faults = FlowRules::new(rules).check(&Classes::built_in(), &RuleLimits::default());
        faults.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        told(vec![
            to("low", "10.0.0.0/9"),
            to("x", "10.0.0.0/10"),
            to("high", "10.128.0.0/9"),
            to("all", "10.0.0.0/8")
        ]),
        [
            "rule `x` (1): it never applies: `low` (0) before it matches all its flows",
            "rule `all` (3): it never applies: `low` (0), `high` (2) before it together match all its flows",
        ]
    );
    assert_eq!(told(vec![to("a", "10.0.0.0/9"), to("a", "::/1")]), ["rule `a` (1): rule 0 has the same name"]);
    let many =
        (0..=weft_flows::rules::MAX_RULES as u32).map(|n| to(&n.to_string(), &format!("{}/32", Ipv4Addr::from(n))));
    assert_eq!(told(many.collect()), ["rule `4096` (4096): there are more than 4096 rules"]);
}

#[test]
fn an_edit_with_a_fault_changes_nothing() {
    let (classes, limits) = (Classes::built_in(), RuleLimits::default());
    let mut rules = FlowRules::new(vec![rule("all", "bulk", RuleMatch::default(), Overrides::default())]);
    let before = rules.rules().to_vec();
    let calls = RuleMatch { protocol: Some(17), dscp: Some(46), far: Some("hub".to_owned()), ..RuleMatch::default() };
    let calls = rule("calls", "voice", calls, Overrides::default());
    let behind = rules.edit(RuleEdit::Insert { at: 1, rule: Box::new(calls.clone()) }, &classes, &limits);
    assert!(matches!(&behind, Err(EditError::Faults(faults)) if faults.len() == 1), "{behind:?}");
    assert_eq!(rules.rules(), before);

    let (classifier, undo) = rules.edit(RuleEdit::Insert { at: 0, rule: Box::new(calls) }, &classes, &limits).unwrap();
    let local = Ipv4Addr::LOCALHOST.into();
    let packet = plain(FlowKey { src: local, dst: local, protocol: 17, src_port: 1, dst_port: 2, flow_label: 0 });
    let trace = rules.trace(&packet);
    assert_eq!(trace.matched, Some(1));
    assert_eq!(
        (trace.earlier[0].name.as_str(), &trace.earlier[0].mismatches[..]),
        ("calls", &[RuleKey::Dscp, RuleKey::Far][..])
    );
    let call = FirstPacket { dscp: 46, far: rules.names().id("hub"), ..packet };
    let voice = classes.get(classes.find("voice").unwrap()).unwrap().treatment;
    assert_eq!(classifier.classify(&call).request.treatment, voice);
    assert_eq!(classifier.classify(&packet).rule, Some(1));
    rules.apply(undo).unwrap();
    assert_eq!(rules.rules(), before);
}
