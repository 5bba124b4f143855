//! A network without configured peers. Each node knows one other node, and all must find each other.

use crate::cloud::{Cloud, NOW_UNIX_S, certificate, claims, contact, key, root};
use weft_engine::{Contact, Event, NodeStanding, OverlayMember, Rejection, Unmet};
use weft_session::{CertificateError, Claims};
use weft_units::{Duration, Rng};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns nodes of which each knows the previous one.
fn chain(nodes: usize) -> Cloud {
    let mut cloud = Cloud::new();
    for node in 0..nodes {
        let known: Vec<Contact> = node.checked_sub(1).map(contact).into_iter().collect();
        cloud.add(certificate(node), &known);
    }
    cloud
}

/// Returns the keys of a node's certified peers.
fn certified(cloud: &Cloud, node: usize) -> Vec<weft_session::PublicKey> {
    cloud.nodes[node].engine.certified_peers().map(|peer| peer.certificate.claims().public_key).collect()
}

fn member(cloud: &Cloud, node: usize, of: usize) -> Option<OverlayMember> {
    let status = cloud.nodes[node].engine.overlay_status()?;
    status.members.into_iter().find(|member| member.id == key(of).node_id())
}

fn is_member(cloud: &Cloud, node: usize, of: usize) -> bool {
    member(cloud, node, of).is_some_and(|member| member.standing == NodeStanding::Member)
}

/// Returns the reasons for which a node reported its first contacts as unmet.
fn unmet(cloud: &Cloud, node: usize) -> Vec<Unmet> {
    let of = |(at, _, event): &(usize, _, Event)| match event {
        Event::Unmet { why, .. } if *at == node => Some(why.clone()),
        _ => None,
    };
    cloud.events.iter().filter_map(of).collect()
}

fn why_not(cloud: &Cloud, node: usize) -> Option<Unmet> {
    cloud.nodes[node].engine.overlay_status().unwrap().contacts[0].why_not.clone()
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

#[test]
fn a_dead_node_is_removed_and_found_again_after_its_return() {
    let mut cloud = chain(5);
    cloud.run_for(ms(5_000));
    cloud.nodes[2].is_alive = false;
    cloud.run_for(ms(3_000));
    let others = [0, 1, 3, 4];
    for node in others {
        assert!(!is_member(&cloud, node, 2), "the overlay of {node} goes on without it after three seconds");
    }
    cloud.run_for(ms(12_000));
    for node in others {
        assert!(!cloud.has_session(node, 2), "node {node}: {:?}", cloud.sessions(node));
        assert!(!certified(&cloud, node).contains(&key(2)), "nothing is routed to it at {node}");
    }
    cloud.assert_all_reach_all(&others);
    cloud.restart(2, &[contact(4)]);
    cloud.run_for(ms(15_000));
    cloud.assert_all_reach_all(&[0, 1, 2, 3, 4]);
}

#[test]
fn a_node_that_says_goodbye_is_removed_at_once() {
    let mut cloud = chain(4);
    cloud.run_for(ms(5_000));
    cloud.nodes[1].engine.handle_command(cloud.now, weft_engine::Command::Close).unwrap();
    cloud.run_for(ms(20));
    cloud.nodes[1].is_alive = false;
    for node in [0, 2, 3] {
        assert!(member(&cloud, node, 1).is_none(), "at node {node}");
        assert!(!cloud.has_session(node, 1));
    }
    cloud.run_for(ms(12_000));
    let left = cloud.events.iter().filter(|(_, _, event)| matches!(event, Event::Left { name, .. } if name == "n1"));
    assert_eq!(left.count(), 3);
}

#[test]
fn nodes_that_cannot_be_called_meet_over_a_relay_they_have_in_common() {
    let mut cloud = Cloud::new();
    let relay = cloud.add(certificate(0), &[]);
    cloud.nodes[relay].engine.set_relaying(true);
    let homes =
        [cloud.add_behind_nat(certificate(1), &[contact(0)]), cloud.add_behind_nat(certificate(2), &[contact(0)])];
    cloud.run_for(ms(5_000));
    cloud.assert_all_reach_all(&[relay, homes[0], homes[1]]);
    assert!(member(&cloud, homes[0], homes[1]).unwrap().is_relayed);
    assert!(!member(&cloud, homes[0], relay).unwrap().is_relayed);
    assert_eq!(cloud.sent.get(&(homes[0], homes[1])), None, "nothing comes through the NATs");
    // A node that can be called is called. No node calls home 1, which calls the newcomer itself.
    let newcomer = cloud.add(certificate(3), &[contact(0)]);
    cloud.run_for(ms(5_000));
    cloud.assert_all_reach_all(&[relay, homes[0], homes[1], newcomer]);
    assert!(!member(&cloud, homes[0], newcomer).unwrap().is_relayed);
}

#[test]
fn nodes_behind_nats_that_keep_their_port_meet_over_the_relay_and_then_talk_directly() {
    let mut cloud = Cloud::new();
    let relay = cloud.add(certificate(0), &[]);
    cloud.nodes[relay].engine.set_relaying(true);
    let [left, right] = [1, 2].map(|node| cloud.add_behind_kind_nat(certificate(node), &[contact(0)]));
    cloud.run_for(ms(5_000));
    cloud.assert_all_reach_all(&[relay, left, right]);
    let passed_on = |cloud: &Cloud| cloud.nodes[relay].engine.relay_totals().bytes;
    let before = passed_on(&cloud);
    for number in 1_000..1_050 {
        cloud.send(left, right, number);
        cloud.run_for(ms(10));
    }
    let arrived = cloud.nodes[right].delivered.iter().filter(|number| **number >= 1_000).count();
    assert!(arrived == 50 && passed_on(&cloud) - before < 10_000, "{arrived}, {} by relay", passed_on(&cloud) - before);
}

#[test]
fn homes_that_join_at_any_time_all_talk_directly() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut cloud = Cloud::new();
        cloud.delay = Duration::from_micros(50 + rng.below(30_000));
        let relay = cloud.add(certificate(0), &[]);
        cloud.nodes[relay].engine.set_relaying(true);
        let homes = 2 + rng.below(3) as usize;
        for home in 1..=homes {
            cloud.add_behind_kind_nat(certificate(home), &[contact(0)]);
            cloud.run_for(Duration::from_micros(rng.below(2_000_000)));
        }
        cloud.run_for(ms(10_000));
        for (one, other) in (1..=homes).flat_map(|one| (1..=homes).map(move |other| (one, other))) {
            // The relay's answers give each home the outer addresses of the others, whichever of them called first.
            let is_direct = one == other || member(&cloud, one, other).is_some_and(|member| !member.is_relayed);
            assert!(is_direct, "{one} reaches {other} over the relay only: draw {seed}, {homes} homes");
        }
    }
}

#[test]
fn a_network_that_falls_in_two_works_in_both_parts_and_becomes_one_again() {
    for apart_s in [10, 120] {
        let mut cloud = chain(8);
        cloud.run_for(ms(5_000));
        cloud.apart = [0, 2, 5, 7].into();
        cloud.run_for(Duration::from_secs(apart_s));
        cloud.assert_all_reach_all(&[0, 2, 5, 7]);
        cloud.assert_all_reach_all(&[1, 3, 4, 6]);
        assert!(!is_member(&cloud, 0, 1) && !is_member(&cloud, 6, 7), "after {apart_s} s");
        cloud.apart.clear();
        cloud.run_for(ms(20_000));
        cloud.assert_all_reach_all(&[0, 1, 2, 3, 4, 5, 6, 7]);
    }
}

#[test]
fn without_a_relay_in_common_they_do_not_meet_and_nothing_is_left_of_the_try() {
    let mut cloud = Cloud::new();
    cloud.add(certificate(0), &[]);
    cloud.add_behind_nat(certificate(1), &[contact(0)]);
    cloud.add_behind_nat(certificate(2), &[contact(0)]);
    cloud.run_for(ms(60_000));
    assert_eq!((cloud.sessions(1), cloud.sessions(2)), (vec!["n0".to_owned()], vec!["n0".to_owned()]));
    let calling = |node: usize| cloud.nodes[node].engine.overlay_status().unwrap().calling;
    assert!(calling(1) <= 1 && calling(2) <= 1, "{} and {}", calling(1), calling(2));
    assert_eq!((certified(&cloud, 1), certified(&cloud, 2)), (vec![key(0)], vec![key(0)]));
}

#[test]
fn a_contact_without_a_good_certificate_is_not_met_and_the_cause_is_reported_once() {
    let expired = Claims { not_after_unix_s: NOW_UNIX_S - 1, ..claims(0) };
    let refused = |why| Unmet::Refused(Rejection::Certificate(why));
    for (shown, why) in [
        (Some(root().sign(&expired).unwrap()), refused(CertificateError::Expired)),
        (
            Some(weft_session::RootKey::from_seed([98; 32]).sign(&claims(0)).unwrap()),
            refused(CertificateError::OtherRoot),
        ),
        (certificate(5), refused(CertificateError::OtherKey)),
        (None, Unmet::NoCertificate),
    ] {
        let mut cloud = Cloud::new();
        cloud.add(shown, &[]);
        cloud.add(certificate(1), &[contact(0)]);
        cloud.run_for(ms(30_000));
        assert!(cloud.sessions(1).is_empty(), "{why:?}: {:?}", cloud.sessions(1));
        assert_eq!(unmet(&cloud, 1), std::slice::from_ref(&why));
        assert_eq!(why_not(&cloud, 1), Some(why));
    }
}

#[test]
fn a_revoked_node_is_not_called_again() {
    let mut cloud = chain(4);
    cloud.run_for(ms(5_000));
    let revocation = root().revoke(&key(2), NOW_UNIX_S);
    assert_eq!(cloud.nodes[0].engine.revoke(cloud.now, &revocation), Ok(true));
    for _ in 0..60 {
        cloud.run_for(ms(1_000));
        for node in [0, 1, 3] {
            assert!(!cloud.has_session(node, 2), "at {node}");
        }
    }
    assert_eq!(cloud.nodes[1].engine.meet(cloud.now, &contact(2)), Err(Unmet::Revoked));
    cloud.assert_all_reach_all(&[0, 1, 3]);
}

#[test]
fn a_contact_that_does_not_answer_is_reported_and_met_when_it_does() {
    let mut cloud = Cloud::new();
    cloud.add(certificate(0), &[]);
    cloud.nodes[0].is_alive = false;
    cloud.add(certificate(1), &[contact(0)]);
    cloud.run_for(ms(40_000));
    assert_eq!((unmet(&cloud, 1), why_not(&cloud, 1)), (vec![Unmet::Silent], Some(Unmet::Silent)));
    cloud.restart(0, &[]);
    cloud.run_for(ms(15_000));
    assert_eq!((cloud.sessions(1), why_not(&cloud, 1)), (vec!["n0".to_owned()], None));
    cloud.run_for(ms(2_000));
    cloud.assert_all_reach_all(&[0, 1]);
}

#[test]
fn an_unused_session_of_a_called_node_is_closed() {
    let mut cloud = Cloud::new();
    for node in 0..2 {
        cloud.add(certificate(node), &[]);
    }
    let now = cloud.now;
    cloud.nodes.iter_mut().for_each(|place| place.engine.set_overlay(now, None));
    cloud.nodes[1].engine.meet(now, &contact(0)).unwrap();
    cloud.run_for(ms(500));
    for _ in 0..10 {
        cloud.assert_all_reach_all(&[0, 1]);
        cloud.run_for(ms(20_000));
    }
    cloud.run_for(ms(120_000));
    assert_eq!((cloud.sessions(0), cloud.sessions(1)), (Vec::<String>::new(), Vec::new()), "{:#?}", cloud.events);
    assert!(certified(&cloud, 1).is_empty());
    cloud.nodes[1].engine.meet(cloud.now, &contact(0)).unwrap();
    cloud.run_for(ms(500));
    cloud.assert_all_reach_all(&[0, 1]);
}

#[test]
fn those_called_in_vain_are_bounded_and_forgotten() {
    let mut cloud = Cloud::new();
    cloud.add(certificate(0), &[]);
    let nobody = |number: u16| {
        let [high, low] = number.to_be_bytes();
        let secret = [9, high, low].into_iter().cycle().take(32).collect::<Vec<_>>().try_into().unwrap();
        let public_key = weft_session::Identity::from_secret(secret).public_key();
        Contact { public_key, endpoints: vec!["203.0.113.1:51900".parse().unwrap()] }
    };
    let met = (0..2_000).map(|number| cloud.nodes[0].engine.meet(cloud.now, &nobody(number)));
    let met: Vec<_> = met.collect();
    assert_eq!(met.iter().filter(|met| met.is_ok()).count(), 1_024);
    assert!(met.iter().all(|met| met.is_ok() || *met == Err(Unmet::TooMany)));
    let calling = |cloud: &Cloud| cloud.nodes[0].engine.overlay_status().unwrap().calling;
    assert_eq!(calling(&cloud), 1_024);
    cloud.run_for(ms(7_000));
    assert_eq!(calling(&cloud), 0);
    assert_eq!(cloud.nodes[0].engine.meet(cloud.now, &nobody(1)), Err(Unmet::JustTried));
    assert_eq!(cloud.nodes[0].engine.meet(cloud.now, &contact(0)), Err(Unmet::Myself));
}

#[test]
fn a_configured_peer_is_of_the_network_if_it_shows_a_certificate() {
    for (shown, is_of_it) in [(certificate(1), true), (None, false)] {
        let mut cloud = Cloud::new();
        cloud.add(certificate(0), &[]);
        cloud.add(shown, &[]);
        cloud.configure(0, 1);
        cloud.configure(1, 0);
        cloud.add(certificate(2), &[contact(0)]);
        cloud.run_for(ms(5_000));
        assert!(cloud.has_session(0, 1) && cloud.has_session(0, 2));
        assert_eq!(cloud.has_session(1, 2), is_of_it);
        assert_eq!((is_member(&cloud, 0, 1), is_member(&cloud, 2, 1)), (is_of_it, is_of_it));
    }
}
