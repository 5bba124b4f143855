//! Both engines are agents for hosts without signalling.

use crate::hosts::*;
use crate::net::*;
use weft_engine::*;
use weft_units::{Duration, Rate};
use weft_wire::er_sig::carriage;

/// Target utilization of the control law, as a share of the capacity.
const AIM: f64 = 0.95;

#[test]
fn a_connection_is_granted_what_the_bundle_carries_in_both_directions_and_its_end_is_reported() {
    let mut world = world(&[direction(20, 5, 0.0), direction(30, 10, 0.0)], |_, _| {});
    assert_near(capacity(&world, 0), 50e6 / 8.0 * 0.96, 0.1);
    send(&mut world, 0, &tcp(0, 4000, SYN, 0));
    world.run_for(Duration::from_millis(60));
    assert_eq!(hear(&mut world, 1).iter().map(|syn| mss(syn)).collect::<Vec<_>>(), [Some(1_440 - 40 - 32)]);
    assert_eq!(granted(&world, 0, 4000), None);
    send(&mut world, 1, &tcp(1, 4000, SYN | ACK, 0));
    world.run_for(Duration::from_millis(60));
    assert_eq!(hear(&mut world, 0).iter().map(|syn| mss(syn)).collect::<Vec<_>>(), [Some(1_440 - 40 - 32)]);
    let grant = granted(&world, 0, 4000).expect("after one round trip");
    assert_near(grant.bytes_per_second as f64, capacity(&world, 0) * AIM, 0.01);
    assert_eq!((grant.flow.src, grant.flow.src_port, grant.flow.dst_port), (inner(0).into(), 4000, 80));
    assert_eq!(granted(&world, 1, 4000), None, "not confirmed yet");
    send(&mut world, 0, &tcp(0, 4000, ACK, 0));
    world.run_for(Duration::from_millis(60));
    let back = granted(&world, 1, 4000).expect("with the confirmation");
    assert_near(back.bytes_per_second as f64, capacity(&world, 1) * AIM, 0.01);
    assert_eq!((back.flow.src, back.flow.src_port), (inner(1).into(), 80));
    let shown = status(&world, 0);
    assert_eq!((shown.flows, shown.shown[0].rule.as_deref(), shown.totals.granted), (1, Some("bulk"), 1));
    assert_near(shown.peers[0].granted.bps() as f64 / 8.0, grant.bytes_per_second as f64, 1e-6);
    send(&mut world, 0, &tcp(0, 4000, FIN | ACK, 0));
    world.run_for(Duration::from_millis(60));
    assert_eq!((granted(&world, 0, 4000), granted(&world, 1, 4000)), (None, None));
    assert_eq!((status(&world, 0).flows, status(&world, 1).flows), (0, 0));
}

/// Checks that trains alone, without any data, determine the first grant.
#[test]
fn the_first_connection_over_sensed_paths_is_granted_what_trains_found() {
    let links = [direction(20, 5, 0.0), direction(10, 10, 0.0)];
    let granted_over = |policy: &Policy| {
        let mut world = World::new(&links, policy);
        signal(&mut world, |_, _| {});
        world.run_for(Duration::from_secs(30));
        connect(&mut world, 4000);
        granted(&world, 0, 4000).map_or(0.0, |grant| grant.bytes_per_second as f64)
    };
    assert_near(granted_over(&Policy { sense: true, ..Policy::default() }), 30e6 / 8.0 * 0.96 * AIM, 0.1);
    assert_eq!(granted_over(&Policy::default()), 0.0, "without trains nothing is known yet");
}

#[test]
fn one_direction_alone_is_asked_for_if_the_rule_says_so() {
    let mut world = world(&[direction(20, 5, 0.0)], |_, config| {
        config.rules.iter_mut().for_each(|rule| rule.reverse = false);
    });
    connect(&mut world, 4000);
    assert!(granted(&world, 0, 4000).is_some());
    assert_eq!(granted(&world, 1, 4000), None);
}

#[test]
fn flows_that_match_no_rule_stay_unchanged() {
    let mut world = world(&[direction(20, 5, 0.0)], |_, config| {
        config.rules.iter_mut().for_each(|rule| rule.ports = 443..=443);
    });
    connect(&mut world, 4000);
    assert_eq!((granted(&world, 0, 4000), status(&world, 0).flows), (None, 0));
}

#[test]
fn a_guarantee_is_within_what_may_be_reserved_and_both_together_within_the_bundle() {
    let mut world = world(&[direction(20, 5, 0.0)], |_, config| {
        config.rules.iter_mut().for_each(|rule| rule.guaranteed = Rate::from_mbps(15));
    });
    connect(&mut world, 4000);
    let capacity = capacity(&world, 0);
    let grant = granted(&world, 0, 4000).unwrap();
    assert!(grant.bytes_per_second as f64 <= capacity * 1.001, "{} of {capacity}", grant.bytes_per_second);
    assert_near(status(&world, 0).peers[0].guaranteed.bps() as f64 / 8.0, capacity * 0.5, 0.01);
    connect(&mut world, 4001);
    let guaranteed = status(&world, 0).peers[0].guaranteed.bps() as f64 / 8.0;
    assert!(guaranteed <= capacity * 0.5 * 1.001, "{guaranteed}");
    send(&mut world, 0, &tcp(0, 4000, FIN | ACK, 0));
    send(&mut world, 0, &tcp(0, 4001, FIN | ACK, 0));
    world.run_for(Duration::from_secs(4));
    assert_eq!(status(&world, 0).peers[0].guaranteed, Rate::ZERO);
    assert_eq!(status(&world, 1).peers[0].guaranteed, Rate::ZERO);
}

/// Checks a flow without answers.
///
/// The first SYN has an option that the remote host sees, and the second has none. Requests become ever rarer.
#[test]
fn a_sender_without_answers_stops_asking_and_the_flow_is_plain() {
    let mut world = world(&[direction(20, 5, 0.0)], |_, _| {});
    world.nodes[1].set_signalling(world.now, None);
    let mut options = Vec::new();
    for packet in [SYN, SYN, ACK, ACK, ACK, ACK, ACK, ACK] {
        send(&mut world, 0, &tcp(0, 4000, packet, 0));
        world.run_for(Duration::from_millis(400));
        options.extend(hear(&mut world, 1).iter().map(|heard| carriage::locate(heard).unwrap().is_some()));
    }
    assert_eq!(options, [true, false, true, true, false, true, false, false]);
    assert_eq!((granted(&world, 0, 4000), status(&world, 0).totals.given_up), (None, 1));
}

/// Number of packets in each direction, 20 ms apart.
const ROUNDS: u32 = 1_500;

#[test]
fn grants_come_and_are_renewed_in_spite_of_losses_and_end_without_packets() {
    let policy = Policy { recovery: Recovery::Off, ..Policy::default() };
    let lossy = World::new(&[direction(20, 5, 0.2)], &policy);
    let mut world = world_of(lossy, |_, _| {});
    send(&mut world, 0, &tcp(0, 4000, SYN, 0));
    // A grant lasts for 1 s. Renewals are requested each 280 ms, and one in three is lost in one of the two
    // directions.
    let mut moments = [0; 2];
    for _ in 0..ROUNDS {
        for node in 0..2 {
            send(&mut world, node, &tcp(node, 4000, ACK, 0));
        }
        world.run_for(Duration::from_millis(20));
        for (node, moments) in moments.iter_mut().enumerate() {
            *moments += u32::from(granted(&world, node, 4000).is_some_and(|grant| grant.ends > world.now));
            hear(&mut world, node);
        }
    }
    assert!(moments.iter().all(|of| *of >= ROUNDS * 2 / 3), "{moments:?} of {ROUNDS}\n{}", story(&world));
    world.run_for(Duration::from_secs(6));
    assert_eq!((granted(&world, 0, 4000), granted(&world, 1, 4000)), (None, None), "they end by themselves");
    world.run_for(Duration::from_secs(30));
    assert_eq!((status(&world, 0).flows, status(&world, 1).flows), (0, 0));
}

/// Checks that a sender with only super-packets sends its signals in separate ACKs.
#[test]
fn super_packets_are_not_touched_and_updates_go_before_them() {
    let mut world = world(&[direction(20, 5, 0.0)], |_, _| {});
    connect(&mut world, 4000);
    world.events.clear();
    let mut bytes = 0;
    for _ in 0..100 {
        let mut packet = tcp(0, 4000, ACK, 5_600);
        let partial = weft_wire::super_packet::partial_l4_checksum(&packet).unwrap();
        packet[36..38].copy_from_slice(&partial.to_be_bytes());
        let mut vnet = [0; 10];
        let header = weft_wire::virtio::VnetHeader {
            flags: weft_wire::virtio::NEEDS_CSUM,
            gso_type: weft_wire::virtio::GsoType::TcpV4,
            gso_ecn: false,
            hdr_len: 40,
            gso_size: 1_400,
            csum_start: 20,
            csum_offset: 16,
        };
        header.emit(&mut vnet).unwrap();
        world.send_raw(0, &[&vnet[..], &packet].concat());
        send(&mut world, 1, &tcp(1, 4000, ACK, 0));
        world.run_for(Duration::from_millis(20));
        bytes += hear(&mut world, 1).iter().map(|packet| packet.len() - 40).sum::<usize>();
    }
    assert_eq!(bytes, 100 * 5_600);
    let grant = granted(&world, 0, 4000).expect("renewed");
    assert!(grant.ends > world.now, "{:?} at {:?}", grant.ends, world.now);
    assert_eq!(status(&world, 0).totals.given_up, 0);
}
