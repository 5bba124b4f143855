//! A network without configured peers: each node knows one other, and all find each other.
#![allow(missing_docs)]

mod cloud;
mod net;

use cloud::{Cloud, NOW_UNIX_S, certificate, claims, contact, inner, key, root};
use weft_engine::{Contact, Event, Prefix, Rejection, Standing, Unmet};
use weft_session::CertificateError;
use weft_units::Duration;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Nodes each of which knows the one before.
fn chain(nodes: usize) -> Cloud {
    let mut cloud = Cloud::new();
    for node in 0..nodes {
        let known: Vec<Contact> = node.checked_sub(1).map(contact).into_iter().collect();
        cloud.add(certificate(node), &known);
    }
    cloud
}

fn standing(cloud: &Cloud, node: usize, of: usize) -> Option<Standing> {
    let status = cloud.nodes[node].engine.overlay_status().unwrap();
    status.members.into_iter().find(|member| member.id == key(of).node_id()).map(|member| member.standing)
}

#[test]
fn a_node_that_knows_one_meets_the_others_and_talks_to_them_directly() {
    let mut cloud = chain(2);
    cloud.run_for(ms(2_000));
    let newcomer = cloud.add(certificate(2), &[contact(1)]);
    cloud.run_for(ms(1_000));
    assert_eq!(cloud.sessions(newcomer), ["n0", "n1"]);
    let by_the_way = |cloud: &Cloud| cloud.sent.get(&(newcomer, 1)).copied().unwrap_or_default();
    let before = by_the_way(&cloud);
    for number in 0..50 {
        cloud.send(newcomer, 0, number);
        cloud.run_for(ms(10));
    }
    assert_eq!(cloud.nodes[0].delivered, (0..50).collect::<Vec<_>>());
    assert!(by_the_way(&cloud) - before < 1_000, "nothing of it by way of node 1");
}

#[test]
fn eight_nodes_each_of_which_knows_one_other_all_reach_each_other() {
    let mut cloud = chain(8);
    cloud.run_for(ms(5_000));
    for node in 0..8 {
        assert_eq!(cloud.sessions(node).len(), 7, "node {node}: {:?}", cloud.sessions(node));
        assert!(cloud.nodes[node].engine.overlay_status().unwrap().is_ready, "node {node}");
    }
    cloud.assert_all_reach_all(&(0..8).collect::<Vec<_>>());
}
