//! VPNs with queues and loops of their own between two nodes: shares, promises, measurements, and resistance to false
//! reports.

use crate::net::{Direction, World, config, direction, inner, udp};
use crate::tenants::{
    PAYLOAD, SHARE_OF_IP, accumulation, entry, explicit_rate, fill, laws, ms, of, vpn, window, world,
};
use weft_core::control_loop::LoopConfig;
use weft_core::service::Service;
use weft_engine::{Command, CommandError, ConfigError, Entry, Policy, Recovery, Reorder, VpnChange, VpnError};
use weft_units::{Duration, Rate, VpnId};

#[test]
fn vpns_share_a_link_by_weight_under_every_law_and_fill_it() {
    for law in laws() {
        let tenants = [1, 2, 4].map(|weight| (weight, Service::BestEffort, law.clone()));
        let mut world = world(&[direction(20, 10, 0.0)], &Policy::default(), &tenants);
        let got = fill(&mut world, [1, 2, 3], ms(6_000));
        let sum: f64 = got.iter().sum();
        assert!(sum > 20e6 * SHARE_OF_IP * 0.95, "{law:?}: {got:?}");
        for (got, weight) in got.into_iter().zip([1.0, 2.0, 4.0]) {
            assert!((got / sum - weight / 7.0).abs() < 0.02, "{law:?}: {got} of {sum}");
        }
    }
}

#[test]
fn the_default_vpn_takes_part_with_weight_one() {
    let mut world = world(&[direction(20, 10, 0.0)], &Policy::default(), &[(3, Service::BestEffort, window())]);
    let [default, heavy] = fill(&mut world, [0, 1], ms(4_000));
    assert!((heavy / default - 3.0).abs() < 0.1, "{default} and {heavy}");
    assert!(default + heavy > 20e6 * SHARE_OF_IP * 0.95);
}

#[test]
fn loops_measure_what_is_there() {
    for law in [window(), accumulation(Rate::from_mbps(8))] {
        let is_window = matches!(law, Some(LoopConfig::AimdWindow(_)));
        let mut world = world(&[direction(20, 15, 0.0)], &Policy::default(), &[(1, Service::BestEffort, law)]);
        let [got] = fill(&mut world, [1], ms(4_000));
        let status = entry(&world, 0, 1).control.unwrap();
        assert!(status.backlogged && (ms(30)..ms(45)).contains(&status.rtt), "{status:?}");
        assert!((status.delivered.bps() as f64 / got - 1.0).abs() < 0.05, "{} and {got}", status.delivered);
        if is_window {
            assert!(got > 20e6 * SHARE_OF_IP * 0.95, "{got}");
            assert!(status.window_bytes >= u64::from(status.in_flight_bytes));
        } else {
            assert!((got / 8e6 - 1.0).abs() < 0.02, "its own law holds it back: {got}");
            assert!(status.accumulation_bytes < 6_000, "{status:?}");
        }
        assert_eq!(status.lost_packets, 0);
    }
}

/// Checks explicit rates: a VPN alone is granted the full capacity, and in competition with a VPN without a loop at
/// least its share by turns.
#[test]
fn explicit_rates_follow_what_the_link_becomes_and_what_others_take() {
    let best_effort = |weight, law| (weight, Service::BestEffort, law);
    let tenants = [best_effort(2, explicit_rate()), best_effort(1, None)];
    let mut world = world(&[direction(40, 15, 0.0)], &Policy::default(), &tenants);
    let [alone] = fill(&mut world, [1], ms(4_000));
    assert!(alone > 40e6 * SHARE_OF_IP * 0.95, "{alone}");
    world.set(0, 0, |link| link.rate = Rate::from_mbps(10));
    world.run_for(ms(1_000));
    let [heavy, free] = fill(&mut world, [1, 2], ms(6_000));
    assert!((heavy / free - 2.0).abs() < 0.1 && heavy + free > 10e6 * SHARE_OF_IP * 0.95, "{heavy} and {free}");
    let control = entry(&world, 0, 1).control.unwrap();
    assert!((control.rate.bps() as f64) < 12.5e6, "no more than is there: {control:?}");
}

/// Checks *sent = delivered + finally lost + in flight* in unique units. A retransmitted unit is not a loss.
#[test]
fn no_unit_is_lost_from_the_books() {
    let off = Policy { recovery: Recovery::Off, reorder: Reorder::Off, ..Policy::default() };
    for (policy, loss) in [(Policy::default(), 0.03), (off, 0.01)] {
        for law in [window(), accumulation(Rate::from_mbps(1_000)), explicit_rate()] {
            let links = [direction(20, 10, loss), direction(10, 30, loss)];
            let mut world = world(&links, &policy, &[(1, Service::BestEffort, law.clone())]);
            fill(&mut world, [1], ms(4_000));
            world.run_for(ms(5_000));
            let (sent, received) = (of(&world, 0, 1).totals.sent_packets, of(&world, 1, 1).totals.received_packets);
            let (entry, peer) = (entry(&world, 0, 1), &world.nodes[0].snapshot(world.now).peers[0]);
            assert_eq!((entry.queued_packets, entry.sent_packets), (0, sent), "all that left was sent");
            let control = entry.control.unwrap();
            assert_eq!(control.in_flight_bytes, 0, "settled in the end: {control:?}");
            match policy.recovery {
                Recovery::Arq => {
                    assert_eq!(sent, received + peer.abandoned_units);
                    assert!(peer.repeated_units > 30, "{peer:?}");
                    assert!(
                        u64::from(control.lost_packets) <= peer.abandoned_units,
                        "{control:?}, {}",
                        peer.abandoned_units
                    );
                }
                Recovery::Off => {
                    let lost = (sent - received) as f64;
                    assert!(
                        lost > 5.0 && (f64::from(control.lost_packets) / lost - 1.0).abs() < 0.1,
                        "{control:?}, {lost}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_window_gives_way_where_others_lose_too_and_the_rate_law_does_not_mind_random_loss() {
    let mut world = world(&[direction(20, 20, 0.02)], &Policy::default(), &[(1, Service::BestEffort, window())]);
    fill(&mut world, [1], ms(4_000));
    let status = entry(&world, 0, 1).control.unwrap();
    assert!(status.loss_event_rate.is_some_and(|p| p > 0.001), "first losses are events though repeated: {status:?}");
}

#[test]
fn promises_are_kept_on_the_way_in() {
    let leased = Service::LeasedLine { rate: Rate::from_mbps(8) };
    let assured = Service::Assured { rate: Rate::from_mbps(6), gamma: 0.98 };
    let policy = Policy { leasable: Some(Rate::from_mbps(9)), ..Policy::default() };
    for law in laws() {
        let tenants = [(1, leased, law.clone()), (1, assured, law.clone()), (1, Service::BestEffort, law.clone())];
        let mut world = world(&[direction(20, 10, 0.0)], &policy, &tenants);
        // A window grows by a tenth of a packet each RTT.
        let got = fill(&mut world, [1, 2, 3], ms(20_000));
        let rest = (got.iter().sum::<f64>() - 14e6) / 3.0;
        for (got, promised) in got.into_iter().zip([8e6, 6e6, 0.0]) {
            // A rate does not grow while its packets see a queue, even a short one.
            let tolerance = match law {
                None | Some(LoopConfig::ExplicitRate(_)) => 0.4e6,
                Some(LoopConfig::AimdWindow(_)) => 1e6,
                Some(LoopConfig::Accumulation(_)) => 2e6,
            };
            assert!((got - promised - rest).abs() < tolerance, "{law:?}: {got} of {promised} and {rest}");
            assert!(got > promised * 0.98);
        }
    }
}

#[test]
fn shares_change_while_they_are_used_and_what_cannot_be_is_refused_with_the_reason() {
    let policy = Policy { leasable: Some(Rate::from_mbps(9)), ..Policy::default() };
    let tenants = [1, 1].map(|weight| (weight, Service::BestEffort, window()));
    let mut world = world(&[direction(20, 10, 0.0)], &policy, &tenants);
    let set = |world: &mut World, vpn: &str, weight, service| {
        let change = VpnChange { weight, service };
        world.nodes[0].handle_command(world.now, Command::SetVpn { vpn: vpn.into(), change })
    };
    let line = |mbps| Some(Service::LeasedLine { rate: Rate::from_mbps(mbps) });
    let [first, second] = fill(&mut world, [1, 2], ms(3_000));
    assert!((first / second - 1.0).abs() < 0.05, "{first} {second}");
    assert_eq!(set(&mut world, "vpn1", Some(4), None), Ok(()));
    let [first, second] = fill(&mut world, [1, 2], ms(3_000));
    assert!((first / second - 4.0).abs() < 0.3, "{first} {second}");
    assert_eq!(set(&mut world, "vpn2", None, line(8)), Ok(()));
    let [_, second] = fill(&mut world, [1, 2], ms(3_000));
    assert!(second > 9.5e6, "{second}");
    let refused = set(&mut world, "vpn1", None, line(2)).unwrap_err();
    let CommandError::Vpn(VpnError::Lease(why)) = &refused else { panic!("{refused:?}") };
    let text = "2.0 Mbit/s toward home requested, but only 1.0 Mbit/s of the leasable 9.0 Mbit/s are free";
    assert_eq!(why.to_string(), text.replace("home", &world.nodes[0].snapshot(world.now).peers[0].name));
    assert_eq!(set(&mut world, "vpn1", Some(0), None), Err(CommandError::Vpn(VpnError::NoWeight)));
    assert_eq!((of(&world, 0, 1).weight, of(&world, 0, 1).service), (4, Service::BestEffort), "nothing has changed");
    assert_eq!(set(&mut world, "vpn2", None, line(9)), Ok(()), "its own line may grow");
    assert_eq!(set(&mut world, "vpn2", None, Some(Service::BestEffort)), Ok(()));
    assert_eq!(set(&mut world, "vpn1", None, line(9)), Ok(()), "given back");
}

#[test]
fn leased_lines_that_do_not_fit_are_refused_at_the_start_and_at_a_reload() {
    let line = |mbps| Service::LeasedLine { rate: Rate::from_mbps(mbps) };
    let policy = Policy { leasable: Some(Rate::from_mbps(10)), ..Policy::default() };
    let mut world = world(&[direction(20, 10, 0.0)], &policy, &[(1, line(6), window())]);
    let vpns = |second| vec![vpn(0, 1, 1, line(6), window()), vpn(0, 2, 1, line(second), window())];
    let peers = |policy: &Policy| config(0, 1, policy, 1).peers;
    let now = world.now;
    let refused = world.nodes[0].reconfigure(now, peers(&policy), vpns(5), Vec::new(), None).unwrap_err();
    assert!(matches!(&refused, ConfigError::Vpn(name, VpnError::Lease(_)) if name == "vpn2"), "{refused}");
    assert_eq!(world.nodes[0].vpns().len(), 2, "nothing has changed");
    let nothing = world.nodes[0].reconfigure(now, peers(&Policy::default()), vpns(1), Vec::new(), None).unwrap_err();
    assert!(nothing.to_string().contains("but nothing may be leased there"), "{nothing}");
    assert_eq!(world.nodes[0].reconfigure(now, peers(&policy), vpns(4), Vec::new(), None), Ok(()));
}

#[test]
fn loops_go_on_after_reloads_restarts_and_silence() {
    for law in [window(), accumulation(Rate::from_mbps(1_000))] {
        let tenants = [(1, Service::BestEffort, law.clone())];
        let mut world = world(&[direction(20, 10, 0.0)], &Policy::default(), &tenants);
        let full = 20e6 * SHARE_OF_IP * 0.93;
        let check = |world: &mut World, what: &str| {
            let [got] = fill(world, [1], ms(4_000));
            assert!(got > full, "{law:?} after {what}: {got}\n{:?}", entry(world, 0, 1).control);
        };
        check(&mut world, "the start");
        // With another queue, this end's loop restarts and the other end's loop does not.
        let peers = || config(0, 1, &Policy::default(), 1).peers;
        let mut other = vpn(0, 1, 1, Service::BestEffort, law.clone());
        other.entry.limit_packets = 100;
        let now = world.now;
        world.nodes[0].reconfigure(now, peers(), vec![other], Vec::new(), None).unwrap();
        check(&mut world, "a reload here");
        let now = world.now;
        let of_the_other = || config(1, 1, &Policy::default(), 1).peers;
        world.nodes[1].reconfigure(now, of_the_other(), Vec::new(), Vec::new(), None).unwrap();
        world.run_for(ms(300));
        let again = vec![vpn(1, 1, 1, Service::BestEffort, law.clone())];
        let now = world.now;
        world.nodes[1].reconfigure(now, of_the_other(), again, Vec::new(), None).unwrap();
        world.run_for(ms(2_500));
        check(&mut world, "a reload there");
        (0..2).for_each(|from| world.set(0, from, |link| link.cut = true));
        fill(&mut world, [1], ms(3_000));
        (0..2).for_each(|from| world.set(0, from, |link| link.cut = false));
        world.run_for(ms(1_000));
        check(&mut world, "three seconds of silence");
    }
}

#[test]
fn flows_of_a_vpn_are_distinguished_and_a_paced_one_is_not_held_up() {
    let tenants = [(1, Service::BestEffort, window())];
    let mut world = world(&[direction(10, 10, 0.0)], &Policy::default(), &tenants);
    for node in 0..2 {
        let mut fair = vpn(node, 1, 1, Service::BestEffort, window());
        fair.entry = Entry { control: window(), ..Entry::default() };
        let (now, peers) = (world.now, config(node, 1, &Policy::default(), 1).peers);
        world.nodes[node].reconfigure(now, peers, vec![fair], Vec::new(), None).unwrap();
    }
    let (mut number, mut slowest) = (0u64, Duration::ZERO);
    let start = world.now;
    while world.now < start + ms(4_000) {
        for _ in entry(&world, 0, 1).queued_packets..100 {
            world.send_raw_in(0, VpnId(1), &udp(inner(0), inner(1), 4000, 1 << 40, PAYLOAD));
        }
        world.send_raw_in(0, VpnId(1), &udp(inner(0), inner(1), 5000, number, 160));
        let sent_at = world.now;
        let mut waited = None;
        for _ in 0..20 {
            world.run_for(ms(1));
            let came = world.delivered_in[1].drain(..).any(|(_, packet)| packet[38..46] == number.to_be_bytes());
            waited = waited.or(came.then_some(world.now - sent_at));
        }
        if world.now > start + ms(1_000) {
            slowest = slowest.max(waited.unwrap_or(ms(999)));
        }
        number += 1;
    }
    assert!(slowest < ms(20), "10 ms on the way, and up to {slowest:?} in all");
}

/// Checks that units in parts, sent before the path's MTU is known, count as whole units and not as losses.
#[test]
fn units_in_parts_count_whole() {
    for recovery in [Recovery::Arq, Recovery::Off] {
        let policy = Policy { recovery, ..Policy::default() };
        for law in [window(), accumulation(Rate::from_mbps(1_000))] {
            let narrow = Direction { mtu: 1_420, ..direction(20, 10, 0.0) };
            let mut world = world(&[narrow], &policy, &[(1, Service::BestEffort, law.clone())]);
            world.run_for(ms(3_000));
            let mut arrived = 0;
            for number in 0..400 {
                world.send_raw_in(0, VpnId(1), &udp(inner(0), inner(1), 4000, number, 1_412));
                world.run_for(ms(5));
                arrived += std::mem::take(&mut world.delivered_in[1]).len();
            }
            world.run_for(ms(1_000));
            arrived += world.delivered_in[1].len();
            let control = entry(&world, 0, 1).control.unwrap();
            assert_eq!((arrived, control.lost_packets, control.in_flight_bytes), (400, 0, 0), "{recovery:?} {law:?}");
        }
    }
}

#[test]
fn packets_that_the_egress_refuses_are_no_loss() {
    let foreign = "10.99.0.1".parse().unwrap();
    for law in [window(), accumulation(Rate::from_mbps(1_000))] {
        let mut world = world(&[direction(20, 10, 0.0)], &Policy::default(), &[(1, Service::BestEffort, law)]);
        for number in 0..2_000 {
            world.send_raw_in(0, VpnId(1), &udp(foreign, inner(1), 4000, number, PAYLOAD));
            world.run_for(ms(1));
        }
        assert!(of(&world, 1, 1).totals.strays > 1_000);
        let control = entry(&world, 0, 1).control.unwrap();
        assert!(control.lost_packets == 0 && control.delivered > Rate::from_mbps(5), "{control:?}");
    }
}

/// Checks that markers and reports of unpressed loops share datagrams.
///
/// Two more datagrams for every few packets would cost more than the loops.
#[test]
fn reports_of_idle_loops_share_datagrams() {
    let datagrams = |law: Option<LoopConfig>| {
        let tenants: Vec<_> = (0..40).map(|_| (1, Service::BestEffort, law.clone())).collect();
        let mut world = world(&[direction(100, 10, 0.0)], &Policy::default(), &tenants);
        let sent = |world: &World| {
            let peers = world.nodes.iter().map(|node| node.snapshot(world.now).peers.remove(0));
            peers.flat_map(|peer| peer.paths).map(|path| path.sent_datagrams).sum::<u64>()
        };
        let mut before = 0;
        for number in 0..8_000 {
            if number == 2_000 {
                before = sent(&world);
            }
            // Full datagrams have no space for a marker.
            let packet = udp(inner(0), inner(1), 4000, number, 1_412);
            world.send_raw_in(0, VpnId(1 + (number % 40) as u32), &packet);
            world.run_for(Duration::from_micros(500));
        }
        sent(&world) - before
    };
    let [without, with @ ..] = laws().map(datagrams);
    for with in with {
        assert!(with < without + without / 20, "{with} beside {without} without loops");
    }
}
