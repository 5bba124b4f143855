//! Routes over several relays that nodes find by themselves.

use crate::cloud::{Cloud, certificate, contact};
use weft_engine::RouteStatus;
use weft_units::Duration;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns `nodes` relays, of which each reaches only those that `joined` names.
fn network(nodes: usize, joined: &[(usize, usize)]) -> Cloud {
    let mut cloud = Cloud::new();
    cloud.restrict(joined);
    for node in 0..nodes {
        let known = joined.iter().find_map(|(one, other)| (*other == node).then_some(*one));
        let node = cloud.add(certificate(node), &known.map(contact).into_iter().collect::<Vec<_>>());
        cloud.nodes[node].engine.set_relaying(true);
    }
    cloud
}

fn routes(cloud: &Cloud, node: usize, to: usize) -> Vec<RouteStatus> {
    let routes = cloud.nodes[node].engine.found_route_status().into_iter();
    routes.filter(|route| route.to == format!("n{to}")).collect()
}

#[test]
fn four_nodes_in_a_row_find_the_route_from_end_to_end() {
    let mut cloud = network(4, &[(0, 1), (1, 2), (2, 3)]);
    cloud.run_for(ms(10_000));
    cloud.assert_all_reach_all(&[0, 1, 2, 3]);
    for (node, to) in [(0, 3), (3, 0)] {
        let found = routes(&cloud, node, to);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].answers && !found[0].is_standby && found[0].relays.len() == 2, "{found:?}");
    }
}

#[test]
fn a_row_of_eight_nodes_is_joined_and_one_of_nine_is_too_long() {
    let row = |nodes: usize| (1..nodes).map(|node| (node - 1, node)).collect::<Vec<_>>();
    let mut cloud = network(8, &row(8));
    cloud.run_for(ms(40_000));
    cloud.assert_all_reach_all(&[0, 3, 7]);
    let found = routes(&cloud, 0, 7);
    assert!(found.len() == 1 && found[0].relays.len() == 6, "{found:?}");
    let mut cloud = network(9, &row(9));
    cloud.run_for(ms(40_000));
    assert!(cloud.has_session(0, 7) && !cloud.has_session(0, 8), "{:?}", cloud.sessions(0));
}

#[test]
fn two_routes_without_a_common_relay_are_found_and_both_carry() {
    // Two rows of two relays join the ends.
    let mut cloud = network(6, &[(0, 1), (1, 2), (2, 5), (0, 3), (3, 4), (4, 5)]);
    cloud.run_for(ms(15_000));
    let found = routes(&cloud, 0, 5);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|route| route.answers && !route.is_standby && route.relays.len() == 2));
    assert!(found[0].relays.iter().all(|relay| !found[1].relays.contains(relay)));
    for number in 0..100 {
        cloud.send(0, 5, number);
        cloud.run_for(ms(1));
    }
    cloud.run_for(ms(200));
    let mut arrived = cloud.nodes[5].delivered.clone();
    arrived.retain(|number| *number < 100);
    assert_eq!(arrived, (0..100).collect::<Vec<_>>());
    // One relay dies. The other route carries everything after a short gap.
    cloud.nodes[1].is_alive = false;
    for number in 1_000..1_500 {
        cloud.send(0, 5, number);
        cloud.run_for(ms(2));
    }
    cloud.run_for(ms(300));
    let arrived = cloud.nodes[5].delivered.iter().filter(|number| **number >= 1_000).count();
    assert!(arrived >= 450, "{arrived} of 500");
}
