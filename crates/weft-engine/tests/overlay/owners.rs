//! Packets to addresses that lie behind no peer: the overlay finds the owners, and the node connects to them.
//!
//! The file also tests calls to the root of a key.
#![cfg(target_os = "linux")]

use crate::cloud::{Cloud, NOW_UNIX_S, certificate, claims, contact, crowd, inner, key, root};
use std::collections::BTreeSet;
use std::net::IpAddr;
use weft_core::route::calls;
use weft_engine::{Command, Event, Prefix, Rejection};
use weft_session::Claims;
use weft_units::{Duration, NodeId};

const NODES: usize = 36;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns nodes that know one of them, after some time. They are more than have sessions with each other.
fn cloud() -> Cloud {
    crowd(NODES + 1);
    let mut cloud = Cloud::new();
    for node in 0..NODES {
        let contacts: Vec<_> = (node > 0).then(|| contact(0)).into_iter().collect();
        cloud.add(certificate(node), &contacts);
        cloud.run_for(ms(200));
    }
    cloud.run_for(ms(100_000));
    cloud
}

/// Returns the pairs of nodes without a session.
fn strangers(cloud: &Cloud) -> Vec<(usize, usize)> {
    let pairs = (0..NODES).flat_map(|from| (0..NODES).map(move |to| (from, to)));
    pairs.filter(|(from, to)| from != to && !cloud.has_session(*from, *to)).collect()
}

/// Returns the time until the first packet arrives, if it arrives within `most`.
fn time_to_arrive(cloud: &mut Cloud, from: usize, to: usize, most: Duration) -> Option<Duration> {
    cloud.nodes[to].delivered.clear();
    let began = cloud.now;
    cloud.send(from, to, 7);
    while cloud.nodes[to].delivered.is_empty() && cloud.now - began < most {
        cloud.run_for(ms(5));
    }
    (cloud.nodes[to].delivered == [7]).then(|| cloud.now - began)
}

fn unroutable(cloud: &Cloud, node: usize) -> u64 {
    cloud.nodes[node].engine.snapshot(cloud.now).unroutable_packets
}

#[test]
fn a_packet_finds_the_owner_of_its_destination() {
    let mut cloud = cloud();
    let mut took = Vec::new();
    while took.len() < 9 {
        let strangers = strangers(&cloud);
        let (from, to) = strangers[took.len() * 37 % strangers.len()];
        let time = time_to_arrive(&mut cloud, from, to, ms(3_000));
        took.push(time.unwrap_or_else(|| panic!("from {from} to {to}")));
        let again = time_to_arrive(&mut cloud, to, from, ms(1_000));
        assert!(again.is_some_and(|time| time <= ms(15)), "and the answer goes straight: {again:?}");
    }
    took.sort();
    println!("first packets took {:?} (median), {:?} (most); 10 ms is a round trip", took[4], took[8]);
    assert!(took[4] <= ms(100) && took[8] <= ms(1_000), "{took:?}");
}

#[test]
fn several_packets_wait_and_arrive_in_order() {
    let mut cloud = cloud();
    let (from, to) = strangers(&cloud)[0];
    for number in 0..20 {
        cloud.send(from, to, number);
    }
    cloud.run_for(ms(1_000));
    assert_eq!(cloud.nodes[to].delivered, (0..16).collect::<Vec<u64>>(), "as many as may wait");
    assert_eq!(unroutable(&cloud, from), 4);
}

#[test]
fn an_unowned_address_is_reported_unreachable_and_no_packet_waits_for_ever() {
    let mut cloud = cloud();
    for round in 0..3 {
        for host in 0..100 {
            cloud.send(3, NODES + 100 + host, 1);
        }
        cloud.run_for(ms(10_000));
        assert_eq!(unroutable(&cloud, 3), 100 * (round + 1));
    }
}

#[test]
fn a_node_that_leaves_or_is_revoked_owns_nothing() {
    let mut cloud = cloud();
    let strangers = strangers(&cloud);
    let (asker, gone) = strangers[0];
    let is_apart = |(from, to): &&(usize, usize)| ![*from, *to].contains(&gone) && *to != asker && *to != 0;
    let (other, revoked) = *strangers.iter().find(is_apart).unwrap();
    cloud.nodes[gone].engine.handle_command(cloud.now, Command::Close).unwrap();
    cloud.run_for(ms(100));
    cloud.nodes[gone].is_alive = false;
    let (now, revocation) = (cloud.now, root().revoke(&key(revoked), NOW_UNIX_S));
    cloud.nodes[0].engine.revoke(now, &revocation).unwrap();
    cloud.run_for(ms(2_000));
    for (asker, of) in [(asker, gone), (other, revoked)] {
        let before = unroutable(&cloud, asker);
        assert_eq!(time_to_arrive(&mut cloud, asker, of, ms(4_000)), None);
        assert_eq!(unroutable(&cloud, asker), before + 1);
        assert!(!cloud.has_session(asker, of));
    }
}

#[test]
fn a_certificate_with_another_nodes_prefix_is_refused_and_reported() {
    let mut cloud = cloud();
    let thief = cloud.nodes.len();
    let (entry, victim) = strangers(&cloud)[0];
    let own = inner(thief);
    let prefixes = vec![(own.into(), 32), (inner(victim).into(), 32)];
    let claims = Claims { prefixes, not_before_unix_s: NOW_UNIX_S - 10, ..claims(thief) };
    cloud.add(Some(root().sign(&claims).unwrap()), &[contact(entry)]);
    cloud.run_for(ms(20_000));
    let stolen = |prefix: &Prefix| prefix.address == IpAddr::from(inner(victim));
    let is_told = |(_, _, event): &&(usize, _, Event)| match event {
        Event::Refused { why: Rejection::Overlap { prefix, .. }, .. } => stolen(prefix),
        Event::Conflict(conflict) => conflict.refused == key(thief).node_id(),
        _ => false,
    };
    let told: BTreeSet<usize> = cloud.events.iter().filter(is_told).map(|(node, ..)| *node).collect();
    assert!(told.len() > 3, "{told:?}");
    assert!(time_to_arrive(&mut cloud, *told.first().unwrap(), victim, ms(3_000)).is_some());
    assert!(time_to_arrive(&mut cloud, victim, 0, ms(3_000)).is_some(), "it goes on as before");
}

#[test]
fn calls_go_to_the_root_of_their_key_and_are_answered() {
    let mut cloud = cloud();
    let mut rng = weft_units::Rng::new(5);
    for n in 0..30 {
        let asker = n % NODES;
        let wanted = NodeId::random(&mut rng);
        let root = (0..NODES).min_by_key(|node| key(*node).node_id().distance_to(&wanted)).unwrap();
        let now = cloud.now;
        cloud.events.clear();
        let number = cloud.nodes[asker].engine.call_key(now, wanted, 9, b"who?").unwrap();
        cloud.run_for(ms(200));
        let asked: Vec<_> = (cloud.events.iter())
            .filter_map(|(node, _, event)| match event {
                Event::Call(calls::CallEvent::Asked(asked)) => Some((*node, asked.clone())),
                _ => None,
            })
            .collect();
        let [(node, asked)] = &asked[..] else { panic!("{asked:?}") };
        assert_eq!((*node, &*asked.body, asked.source), (root, &b"who?"[..], key(asker).node_id()));
        let now = cloud.now;
        cloud.nodes[root].engine.answer_call(now, asked, b"I").unwrap();
        cloud.run_for(ms(200));
        let answered = cloud.events.iter().any(|(node, _, event)| {
            let Event::Call(calls::CallEvent::Answered { number: of, by, body }) = event else { return false };
            (*node, *of, *by, &**body) == (asker, number, key(root).node_id(), &b"I"[..])
        });
        assert!(answered, "{:?}", cloud.events);
    }
}
