//! Scenarios of flow state between two nodes: users share a port equally, whatever the number of their connections.

use std::collections::BTreeSet;
use weft_engine::{FlowsConfig, PortSettings};
use weft_flows::router::RouterConfig;
use weft_scenario::{App, Capacity, Flow, Scenario, Variant, VariantResult};
use weft_units::{Duration, Rate, Rng};
use weft_world::pair::{EngineSettings, PairOptions, run};

const THREE_HUNDRED: &str = include_str!("../../../scenarios/three-hundred-connections.toml");
const MIXED_PORT: &str = include_str!("../../../scenarios/mixed-port.toml");

fn read(text: &str, length_s: u64) -> Scenario {
    let mut scenario = Scenario::parse(text, "t").unwrap();
    (scenario.duration, scenario.warmup) = (Duration::from_secs(length_s), Duration::from_secs(length_s / 3));
    scenario.flows.iter_mut().for_each(|flow| flow.stop = scenario.duration);
    scenario
}

fn set_rate(scenario: &mut Scenario, mbps: u64) {
    scenario.links.iter_mut().for_each(|link| link.up.capacity = Capacity::Rate(Rate::from_mbps(mbps)));
}

/// Gives each host a number of connections.
fn connect(scenario: &mut Scenario, connections: &[usize]) {
    scenario.hosts = (0..connections.len()).map(|host| format!("host{host}")).collect();
    let each = (0..).zip(connections).flat_map(|(host, count)| (0..*count).map(move |number| (host, number)));
    let flow = |(host, number): (usize, usize)| Flow {
        host: Some(host),
        ..Flow::plain(format!("{host}-{number}"), App::Iperf3, scenario.duration)
    };
    scenario.flows = each.map(flow).collect();
}

/// Runs the scenario once. A variant without a `weft` table has no flow state.
fn play(scenario: &Scenario) -> Vec<VariantResult> {
    let settings = |variant: &Variant| {
        let flows = FlowsConfig {
            own_name: String::new(),
            router: RouterConfig::default(),
            port: PortSettings::reserving(0.75),
        };
        Ok(EngineSettings { flows: Some(flows).filter(|_| !variant.weft.is_empty()), ..EngineSettings::default() })
    };
    let options = PairOptions { repeat: Some(1), threads: 2, ..PairOptions::default() };
    run(scenario, &scenario.load_traces(None).unwrap(), &options, &settings, &|_, _| ()).unwrap().result.variants
}

#[test]
fn one_connection_has_as_much_as_three_hundred() {
    let [by_flow, by_user] = &play(&read(THREE_HUNDRED, 12))[..] else { panic!("two variants run") };
    assert_eq!(by_user.hosts.iter().map(|host| host.flows).collect::<Vec<_>>(), [1, 300]);
    assert!(by_flow.host_fairness.unwrap() < 0.6, "{:?}", by_flow.hosts);
    assert!(by_user.host_fairness.unwrap() >= 0.99, "{:?}", by_user.hosts);
    assert!(by_user.efficiency > 0.9, "{}", by_user.efficiency);
    assert!(by_flow.ports.is_empty() && by_user.ports[0].queue_ms_p95 > 0.0, "{:?}", by_user.ports);
}

#[test]
fn fifty_users_with_random_numbers_of_connections_share_equally() {
    let mut rng = Rng::new(1);
    let connections: Vec<usize> = (0..50).map(|_| 1 + rng.below(100) as usize).collect();
    assert!(connections.iter().collect::<BTreeSet<_>>().len() > 20);
    let mut scenario = read(THREE_HUNDRED, 12);
    scenario.variants.retain(|variant| !variant.weft.is_empty());
    set_rate(&mut scenario, 50);
    connect(&mut scenario, &connections);
    let result = &play(&scenario)[0];
    let got: Vec<(usize, f64)> = result.hosts.iter().map(|host| (host.flows, host.goodput_bps / 1e6)).collect();
    assert!(result.host_fairness.unwrap() >= 0.99, "{:?}: {got:.2?}", result.host_fairness);
}

#[test]
fn a_mixed_port_is_used_and_its_result_depends_on_the_seed_alone() {
    let mut scenario = read(MIXED_PORT, 6);
    set_rate(&mut scenario, 30);
    let once = play(&scenario);
    assert!(once[0].links[0].utilisation > 0.8, "{:?}", once[0].links);
    assert_eq!(format!("{once:?}"), format!("{:?}", play(&scenario)));
}
