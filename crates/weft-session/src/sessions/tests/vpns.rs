use super::*;
use weft_units::Rng;

const REKEY: Instant = Instant::from_millis(REKEY_AFTER.as_millis() as u64);
const END: Instant = Instant::from_millis(KEY_LIFETIME.as_millis() as u64);
const RED: VpnId = VpnId(7);
const BLUE: VpnId = VpnId(8);

/// Seals a packet of a VPN at one node and opens it at the other. Returns the opened packet.
fn pass_in(from: &mut Sessions, to: &mut Sessions, vpn: VpnId) -> OpenedPacket {
    let (number, datagram) = seal_in(from, vpn, PATH, b"hello").unwrap();
    let (opened, text) = open(to, &datagram).unwrap();
    assert_eq!((opened.vpn, opened.packet_number, text.as_slice()), (vpn, number, b"hello".as_slice()));
    opened
}

fn open_both_ways(a: &mut Sessions, b: &mut Sessions, vpn: VpnId) {
    tell(a, b, vpn);
    tell(b, a, vpn);
}

#[test]
fn a_vpn_opens_only_where_the_other_end_sent_its_index() {
    let (mut a, mut b) = connected();
    assert_eq!(a.vpn_standing(PEER, RED), VpnStanding::Closed);
    assert_eq!(seal_in(&mut a, RED, PATH, b""), Err(SealError::VpnClosed));
    tell(&mut b, &mut a, RED);
    assert_eq!(a.vpn_standing(PEER, RED), VpnStanding::Open);
    assert_eq!(a.vpn_standing(PEER, BLUE), VpnStanding::Closed);
    assert_eq!(b.vpn_standing(PEER, RED), VpnStanding::Closed, "one way is no promise for the other");
    let base = pass(&mut a, &mut b);
    let red = pass_in(&mut a, &mut b, RED);
    assert_eq!((base.vpn, base.key), (VpnId::DEFAULT, red.key));
    tell(&mut a, &mut b, RED);
    pass_in(&mut b, &mut a, RED);
}

#[test]
fn a_packet_of_one_vpn_does_not_open_as_anothers() {
    let (mut a, mut b) = connected();
    let key = pass(&mut b, &mut a).key;
    for vpn in [RED, BLUE] {
        tell(&mut b, &mut a, vpn);
    }
    let (_, red) = seal_in(&mut a, RED, PATH, b"red").unwrap();
    let (_, blue) = seal_in(&mut a, BLUE, PATH, b"blue").unwrap();
    let (_, base) = seal(&mut a, PATH, b"base").unwrap();
    for from in [&red, &blue, &base] {
        for to in [&red, &blue, &base].into_iter().filter(|to| *to != from) {
            let mut redirected = to.clone();
            redirected[2..6].copy_from_slice(&from[2..6]);
            assert_eq!(open(&mut b, &redirected), Err(OpenError::BadCrypto));
        }
    }
    // A packet that is sealed with the key of one VPN under the index of another does not open: each VPN has its own
    // key.
    let index = u32::from_be_bytes(blue[2..6].try_into().unwrap());
    a.set_vpn_index(PEER, key, RED, index);
    let (_, confused) = seal_in(&mut a, RED, PATH, b"red").unwrap();
    assert_eq!(open(&mut b, &confused), Err(OpenError::BadCrypto));
    assert!(open(&mut b, &red).is_ok() && open(&mut b, &blue).is_ok() && open(&mut b, &base).is_ok());
}

#[test]
fn numbers_and_windows_are_common_to_all_vpns() {
    let (mut a, mut b) = connected();
    open_both_ways(&mut a, &mut b, RED);
    let numbers: Vec<_> = [VpnId::DEFAULT, RED, VpnId::DEFAULT, RED].map(|vpn| seal_in(&mut a, vpn, PATH, b"")).into();
    let numbers: Vec<_> = numbers.into_iter().map(Result::unwrap).collect();
    assert!(numbers.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1));
    for (_, datagram) in numbers.iter().rev() {
        assert!(open(&mut b, datagram).is_ok());
        assert_eq!(open(&mut b, datagram), Err(OpenError::Replayed));
    }
}

#[test]
fn control_is_of_no_vpn() {
    let (mut a, mut b) = connected();
    open_both_ways(&mut a, &mut b, RED);
    let mut datagram = [0; HOP_HEADER_LEN + TAG_LEN];
    assert_eq!(a.seal_in(PEER, RED, PATH, PacketType::Control, &mut datagram), Err(SealError::Malformed));
    let (_, mut datagram) = seal_in(&mut a, RED, PATH, b"").unwrap();
    datagram[0] = PacketType::Control.byte();
    assert_eq!(open(&mut b, &datagram), Err(OpenError::UnknownSession));
    assert_eq!(a.vpn_index(PEER, VpnId::DEFAULT), None);
    a.set_vpn_index(PEER, 0, RED, 5);
    a.set_vpn_index(PeerId(9), 0, RED, 5);
    pass_in(&mut a, &mut b, RED);
}

#[test]
fn a_rekey_loses_nothing_of_a_vpn() {
    let (mut a, mut b) = connected();
    open_both_ways(&mut a, &mut b, RED);
    let (_, in_flight) = seal_in(&mut a, RED, PATH, b"old").unwrap();
    handshake(&mut a, &mut b, REKEY, 2);
    assert_eq!(a.vpn_standing(PEER, RED), VpnStanding::Aging);
    pass_in(&mut a, &mut b, RED);
    assert_eq!(b.vpn_standing(PEER, RED), VpnStanding::Open, "a packet of the new key has yet to come");
    let old = pass_in(&mut b, &mut a, RED).key;
    tell(&mut a, &mut b, RED);
    assert_eq!(b.vpn_standing(PEER, RED), VpnStanding::Open);
    assert_ne!(pass_in(&mut b, &mut a, RED).key, old, "under the new key as soon as that is told");
    tell(&mut b, &mut a, RED);
    assert_eq!(a.vpn_standing(PEER, RED), VpnStanding::Open);
    pass_in(&mut a, &mut b, RED);
    assert!(open(&mut b, &in_flight).is_ok());
    let (_, late) = seal_in(&mut a, RED, PATH, b"late").unwrap();
    a.handle_timeout(END);
    b.handle_timeout(END);
    assert!(open(&mut b, &late).is_ok(), "of the new key");
    assert_eq!(open(&mut b, &in_flight), Err(OpenError::UnknownSession));
}

#[test]
fn an_unused_vpn_ends_with_its_key_and_leaves_nothing() {
    let (mut a, mut b) = connected();
    let before = b.indices.len();
    for vpn in 1..1000 {
        open_both_ways(&mut a, &mut b, VpnId(vpn));
    }
    pass_in(&mut a, &mut b, VpnId(999));
    assert_eq!(b.indices.len(), before + 999);
    handshake(&mut a, &mut b, REKEY, 2);
    pass(&mut a, &mut b);
    a.handle_timeout(END);
    b.handle_timeout(END);
    assert_eq!((a.indices.len(), b.indices.len()), (before, before));
    assert_eq!(a.vpn_standing(PEER, VpnId(999)), VpnStanding::Closed);
    open_both_ways(&mut a, &mut b, VpnId(999));
    pass_in(&mut a, &mut b, VpnId(999));
    b.remove_peer(PEER);
    assert_eq!(b.indices.len(), 0);
}

#[test]
fn a_restarted_peer_opens_its_vpns_anew() {
    let (left, right) = identities();
    let (mut a, mut b) = connected();
    open_both_ways(&mut a, &mut b, RED);
    let (_, from_the_old) = seal_in(&mut a, RED, PATH, b"").unwrap();
    let mut again = node(&left, &right, 11);
    handshake(&mut again, &mut b, at(5), 2);
    pass(&mut again, &mut b);
    assert_eq!(open(&mut b, &from_the_old), Err(OpenError::UnknownSession));
    assert_eq!(b.vpn_standing(PEER, RED), VpnStanding::Closed);
    open_both_ways(&mut again, &mut b, RED);
    pass_in(&mut again, &mut b, RED);
    pass_in(&mut b, &mut again, RED);
}

/// Lets `run`, one run of a node's program, initiate a handshake with `hub`, and again if `hub` refuses the stamp.
fn meet(run: &mut Sessions, hub: &mut Sessions, now: Instant, stamp: u64) {
    let _ = run.force_initiate(now, PEER);
    let first = initiation(run, now, stamp);
    let second = match answer(hub, now, &first) {
        Ok((_, second)) => second,
        Err(_) => {
            let refusal = hub.take_refusal().expect("it is authentic").answer;
            answer(run, now, &refusal).unwrap();
            let again = initiation(run, now, stamp);
            answer(hub, now, &again).unwrap().1
        }
    };
    answer(run, now, &second).unwrap();
}

/// Property: a peer opens every packet that a run seals in a VPN, even if another run uses the same static key.
///
/// This holds from the run's first handshake on. The stamps of the runs are in any order. Packets are sealed before and
/// after the run's next handshake with the peer.
#[test]
fn packets_sealed_in_a_vpn_open_after_other_runs_with_the_same_key() {
    let (left, right) = identities();
    let (mut sealed, mut waited) = (0, 0);
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut runs: Vec<Sessions> = (1..3 + rng.below(3) as u8).map(|number| node(&left, &right, number)).collect();
        let mut hub = node(&right, &left, 9);
        let mut stamps: Vec<u64> = runs.iter().map(|_| 1 + rng.below(50)).collect();
        for step in 0..2 + rng.below(8) {
            let (run, now) = (rng.below(runs.len() as u64) as usize, at(10 * (step + 1)));
            stamps[run] += 1 + rng.below(30);
            meet(&mut runs[run], &mut hub, now, stamps[run]);
            let mut late = Vec::new();
            for vpn in [RED, BLUE] {
                late.extend(seal_in(&mut runs[run], vpn, PATH, b"").ok().map(|(_, datagram)| datagram));
            }
            pass(&mut runs[run], &mut hub);
            for vpn in [RED, BLUE] {
                if rng.chance(0.5) {
                    match seal_in(&mut runs[run], vpn, PATH, b"") {
                        Ok((_, datagram)) => late.push(datagram),
                        Err(_) => waited += 1,
                    }
                    tell(&mut hub, &mut runs[run], vpn);
                    pass_in(&mut runs[run], &mut hub, vpn);
                }
            }
            sealed += late.len();
            for datagram in late {
                assert!(open(&mut hub, &datagram).is_ok(), "seed {seed}, step {step}");
            }
        }
    }
    assert!(sealed > 100 && waited > 100, "{sealed} {waited}");
}
