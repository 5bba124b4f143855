//! Rows F1 to F3: what a port with flow state promises to users and flows beyond the papers.

use super::super::Estimate;
use super::super::case::{FLOW_ALTERNATES, PREEMPTION, THREE_HUNDRED, read_pair};
use super::super::checks::Checks;
use super::super::laboratory::Laboratory;
use super::super::row::{Measured, Row, RowFinding};
use super::calls::{UDP, voice_rule};
use super::ports::{runs, with_flow_state};
use crate::pair::EngineSettings;
use weft_engine::LinkConfig;
use weft_flows::rules::{FlowRule, Overrides, RuleMatch};
use weft_scenario::{App, Capacity, Flow, Scenario, VariantRun};
use weft_sim::record::FIRST_PORT;
use weft_units::{PathTier, PathUse, Rate, Rng};

pub(super) const ROWS: [Row; 3] = [
    Row {
        id: "F1",
        figure: "Beyond paper 001, §III: users",
        claim: "a port shares by user: whoever has 300 connections gets what one with one connection gets",
        accept: "Jain's index of the users' goodputs is at least 0.99, with one connection beside 300 and with 50 users of 1 to 100 connections; the link is used to at least 95 %",
        setup: "CUBIC connections behind one port with flow state, users by host (`scenarios/three-hundred-connections.toml`); without flow state for comparison; 50 users over the same link with 50 Mbit/s, each with a random number of connections",
        examine: users,
    },
    Row {
        id: "F2",
        figure: "Beyond paper 001, §III: precedence",
        claim: "guarantees go by precedence: a call of a higher one displaces a lower one, which is lowered and not cut",
        accept: "with one precedence no call loses a packet that began before the guarantees were used up; with a higher one no later call loses a packet, and exactly as many calls as before lose none; all calls go on",
        setup: "60 calls, 40 more 10 s later, and 60 CUBIC connections over 10 Mbit/s (`scenarios/preemption.toml`); calls without a guarantee have the delay priority of bulk, and so lose packets",
        examine: precedence,
    },
    Row {
        id: "F3",
        figure: "Beyond paper 001, §III: alternates",
        claim: "all flows of a link go over to a stored alternate when the link falls silent",
        accept: "no gap of packets sent each millisecond is longer than 50 ms over an alternate of the same delay, no connection is reset, and the calls go on",
        setup: "a download, 20 calls and a probe; the first link is silent three times for 5 s, while a link of a lower rank stands by (`scenarios/flow-alternates.toml`, where that link is 20 ms longer; also with equal delays)",
        examine: alternates,
    },
];

/// Least of Jain's index over users. *Standard*: the project's requirement of a fair port.
const LEAST_FAIRNESS: f64 = 0.99;
/// Least utilisation of the link (0 to 1). *Standard*: the target of a port with flow state.
const LEAST_USE: f64 = 0.95;
/// Users of the second case of F1, and their greatest number of connections.
const MANY: (usize, u32) = (50, 100);
/// Rate of the link in the second case of F1, in Mbit/s. Each user could have 1 Mbit/s.
const MANY_MBPS: u64 = 50;
/// Longest gap over an alternate of the same delay, in ms. *Standard*: the project's limit of a failover.
const GAP_MS: f64 = 50.0;

fn users(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    let mut scenario = read_pair(THREE_HUNDRED)?;
    scenario.variants.truncate(1);
    let by_user = with_flow_state(Vec::new());
    let cases = [
        ("1 beside 300, no flow state", scenario.clone(), EngineSettings::default()),
        ("1 beside 300", scenario.clone(), by_user.clone()),
        ("50 users of 1 to 100", many_users(scenario), by_user),
    ];
    for (name, scenario, settings) in cases {
        let played = lab.play_whole(&scenario, &settings)?;
        let fairness = Estimate::of(runs(&played).filter_map(|run| run.host_fairness));
        let used = Estimate::of(runs(&played).filter_map(|run| Some(run.links.first()?.utilisation)));
        measured.add(name, "Jain's index of users", fairness);
        measured.add(
            name,
            "use of the link, %",
            Estimate { mean: used.mean * 100.0, half_width: used.half_width * 100.0 },
        );
        if settings.flows.is_some() {
            checks.at_least(&format!("{name}: Jain's index"), fairness.mean, LEAST_FAIRNESS);
            checks.at_least(&format!("{name}: the use of the link"), used.mean, LEAST_USE);
        }
    }
    Ok(checks.finding(measured))
}

/// Returns the scenario with [`MANY`] users, each with a random number of connections.
fn many_users(mut scenario: Scenario) -> Scenario {
    let (mut rng, rate) = (Rng::new(1), Capacity::Rate(Rate::from_mbps(MANY_MBPS)));
    scenario.links.iter_mut().for_each(|link| (link.up.capacity, link.down.capacity) = (rate.clone(), rate.clone()));
    scenario.hosts = (0..MANY.0).map(|user| format!("user-{user}")).collect();
    scenario.flows.clear();
    for user in 0..MANY.0 {
        let connections = 1 + rng.below(u64::from(MANY.1));
        scenario.flows.extend((0..connections).map(|number| Flow {
            host: Some(user),
            ..Flow::plain(format!("{user}-{number}"), App::Iperf3, scenario.duration)
        }));
    }
    scenario
}

fn precedence(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let mut scenario = read_pair(PREEMPTION)?;
    scenario.variants.truncate(1);
    let late = late_ports(&scenario)?;
    let calls = call_rule("calls", RuleMatch::default(), None);
    let first = call_rule("late", RuleMatch { from_ports: Some(late), ..RuleMatch::default() }, Some(14));
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    let mut guaranteed = Vec::new();
    for (name, rules, kept) in
        [("one precedence", vec![calls.clone()], "early"), ("later calls first", vec![first, calls], "late")]
    {
        let played = lab.play_whole(&scenario, &with_flow_state(rules))?;
        for group in ["early", "late"] {
            let whole = Estimate::of(runs(&played).map(|run| whole_calls(run, group)));
            measured.add(name, format!("{group} calls without a loss"), whole);
        }
        let least = runs(&played).flat_map(|run| calls_of(run, "")).filter_map(|call| call.goodput_bps);
        let least = least.fold(f64::INFINITY, f64::min) / 1e3;
        measured.add(name, "least of a call, kbit/s", Estimate::exact(least));
        checks.check(least > 0.0, || format!("{name}: a call is cut"));
        let lost = runs(&played).flat_map(|run| calls_of(run, kept)).filter(|call| call.lost != Some(0.0)).count();
        checks.check(lost == 0, || format!("{name}: {lost} of the {kept} calls lose packets"));
        guaranteed.push(runs(&played).map(|run| whole_calls(run, "")).sum::<f64>());
    }
    checks.check(guaranteed.windows(2).all(|both| both[0] == both[1]), || {
        format!("the calls without a loss are not as many: {guaranteed:?} over all seeds")
    });
    Ok(checks.finding(measured))
}

/// Returns the source ports of the later calls in the simulator.
fn late_ports(scenario: &Scenario) -> Result<std::ops::RangeInclusive<u16>, String> {
    let is_late = |flow: &Flow| flow.name.starts_with("late");
    let first = scenario.flows.iter().position(is_late).ok_or("the scenario has no later calls")? as u16;
    let count = scenario.flows.iter().filter(|flow| is_late(flow)).count() as u16;
    Ok(FIRST_PORT + first..=FIRST_PORT + first + count - 1)
}

/// Returns a rule for UDP flows: the class of calls, which without a guarantee wait as bulk does.
fn call_rule(name: &str, matches: RuleMatch, precedence: Option<u8>) -> FlowRule {
    let overrides = Overrides { precedence, delay_priority: Some(1), ..Overrides::default() };
    let matches = RuleMatch { protocol: Some(UDP), ..matches };
    FlowRule { name: name.into(), class: "voice".into(), matches, overrides }
}

/// Returns the calls of a run whose names begin with `group`.
fn calls_of<'a>(run: &'a VariantRun, group: &'a str) -> impl Iterator<Item = &'a weft_scenario::FlowResult> {
    run.flows.iter().filter(move |flow| flow.lost.is_some() && flow.name.starts_with(group))
}

/// Returns the number of calls of a group without a lost packet.
fn whole_calls(run: &VariantRun, group: &str) -> f64 {
    calls_of(run, group).filter(|call| call.lost == Some(0.0)).count() as f64
}

fn alternates(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let as_written = read_pair(FLOW_ALTERNATES)?;
    let mut equal = as_written.clone();
    if let [first, second, ..] = &mut equal.links[..] {
        (second.up.delay, second.down.delay) = (first.up.delay, first.down.delay);
    }
    let spare = LinkConfig {
        name: as_written.links.get(1).map_or(String::new(), |link| link.name.clone()),
        cap: None,
        send: true,
        allowed: PathUse { tier: PathTier::Secondary, ..PathUse::default() },
    };
    let settings = EngineSettings { links: vec![spare], ..with_flow_state(vec![voice_rule()]) };
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for (name, scenario, bound) in [("equal delays", equal, Some(GAP_MS)), ("20 ms longer", as_written, None)] {
        let played = lab.play_whole(&scenario, &settings)?;
        let gaps: Vec<f64> = runs(&played).flat_map(|run| &run.events).filter_map(|event| event.gap_ms).collect();
        let longest = gaps.iter().copied().fold(0.0, f64::max);
        let resets = runs(&played).flat_map(|run| &run.flows).filter_map(|flow| flow.tcp_resets).sum::<f64>();
        let silent = runs(&played).flat_map(|run| calls_of(run, "call")).filter(|call| call.goodput_bps <= Some(0.0));
        let silent = silent.count();
        measured.add(name, "cuts", Estimate::exact(gaps.len() as f64));
        measured.add(name, "mean gap, ms", Estimate::of(gaps.iter().copied()));
        measured.add(name, "longest, ms", Estimate::exact(longest));
        measured.add(name, "connections reset", Estimate::exact(resets));
        checks.check(!gaps.is_empty(), || format!("{name}: no cut was measured"));
        checks.check(resets == 0.0 && silent == 0, || {
            format!("{name}: {resets} connections are reset, {silent} calls end")
        });
        if let Some(bound) = bound {
            checks.check(longest <= bound, || format!("{name}: the longest gap is {longest:.1} ms, above {bound} ms"));
        }
    }
    Ok(checks.finding(measured))
}
