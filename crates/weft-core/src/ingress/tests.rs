use super::*;
use crate::control_loop::accumulation::AccumulationConfig;
use crate::control_loop::aimd_window::AimdConfig;
use crate::control_loop::{LoopConfig, LoopEgress};
use crate::queue::{QueueConfig, QueueKind};
use crate::service::Service;
use alloc::vec;
use core::mem::size_of;
use proptest::prelude::*;
use weft_units::Rng;
use weft_units::{Duration, FlowId, Rate};

fn weight(weight: f64) -> Share {
    Share::new(weight, Service::BestEffort).unwrap_or_default()
}

fn profile(control: Option<LoopConfig>) -> Arc<Profile> {
    let sizes = QueueConfig { limit_units: 200, ..QueueConfig::default() };
    Arc::new(Profile { queue: QueueKind::DropTail, sizes, control })
}

fn window(initial_packets: u8) -> LoopConfig {
    LoopConfig::AimdWindow(AimdConfig { initial_packets, slow_start: false, ..AimdConfig::default() })
}

fn arrival(bytes: u32) -> Arrival {
    Arrival { flow: FlowId(0), bytes, ecn_capable: false }
}

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// Removes and returns the packets that may leave at `now`, at most `most` packets.
fn drain(ingress: &mut Ingress<u32>, now: Instant, most: usize) -> Vec<IngressDeparture<u32>> {
    let mut gone = Vec::new();
    while gone.len() < most && ingress.head(now, &mut |_| ()).is_some() {
        gone.extend(ingress.pop(now));
    }
    gone
}

#[test]
fn the_vpn_with_the_longest_backlog_loses_packets_and_then_continues() {
    for (queue, control) in [(QueueKind::FqCodel, None), (QueueKind::DropTail, Some(window(1)))] {
        let mut ingress = Ingress::new(IngressConfig::default(), Rng::new(1));
        let profile = Arc::new(Profile { queue, ..Profile::clone(&profile(control)) });
        let vpns = [0; 2].map(|_| ingress.add(weight(1.0), Arc::clone(&profile)));
        for (vpn, packets) in vpns.into_iter().zip([3, 20]) {
            (0..packets).for_each(|n| ingress.enqueue(ms(0), vpn, arrival(1_000), n, &mut |_| ()));
        }
        drain(&mut ingress, ms(0), 2);
        let waiting = |ingress: &Ingress<u32>| vpns.map(|vpn| ingress.status(vpn).unwrap().queued_packets);
        let (mut shed, before) = (0, waiting(&ingress));
        ingress.shed(ms(1), &mut |_| shed += 1);
        assert!(shed > 0 && waiting(&ingress) == [before[0], before[1] - shed], "{queue:?}: {shed} of {before:?}");
        (0..9).for_each(|_| ingress.shed(ms(1), &mut |_| ()));
        vpns.into_iter().for_each(|vpn| ingress.on_report(ms(2), vpn, &LoopReport::default()));
        ingress.enqueue(ms(3), vpns[1], arrival(1_000), 99, &mut |_| ());
        assert!(ingress.status(vpns[1]).is_some_and(|status| status.queued_packets > 0));
    }
}

#[test]
fn turns_go_by_weight_in_bytes() {
    let mut ingress = Ingress::new(IngressConfig::default(), Rng::new(1));
    let vpns = [1.0, 2.0, 4.0].map(|w| ingress.add(weight(w), profile(None)));
    for n in 0..200 {
        for (vpn, bytes) in vpns.into_iter().zip([1_500, 500, 900]) {
            ingress.enqueue(ms(0), vpn, arrival(bytes), n, &mut |_| ());
        }
    }
    let mut bytes = [0.0; 3];
    for gone in drain(&mut ingress, ms(0), 200) {
        bytes[gone.vpn.0 as usize] += f64::from(gone.unit.bytes);
    }
    let total: f64 = bytes.iter().sum();
    for (bytes, weight) in bytes.into_iter().zip([1.0, 2.0, 4.0]) {
        assert!((bytes / total - weight / 7.0).abs() < 0.03, "{bytes} of {total}");
    }
}

#[test]
fn where_the_way_on_is_short_a_promised_rate_is_kept_and_the_rest_shared() {
    let config = IngressConfig { promises: true, ..IngressConfig::default() };
    let assured = |mbps| Service::Assured { rate: Rate::from_mbps(mbps), gamma: 0.98 };
    // 12 Mbit/s: one packet each millisecond. The values are each VPN's promised and received rate in Mbit/s.
    for (promises, expected) in [([6, 0, 0, 0], [7.5, 1.5, 1.5, 1.5]), ([20, 10, 0, 0], [8.0, 4.0, 0.05, 0.05])] {
        let mut ingress = Ingress::new(config, Rng::new(1));
        let vpns = promises.map(|mbps| {
            let service = if mbps > 0 { assured(mbps) } else { Service::BestEffort };
            ingress.add(Share::new(1.0, service).unwrap_or_default(), profile(None))
        });
        let mut sent = [0u32; 4];
        for at in 0..20_000 {
            for vpn in vpns {
                ingress.enqueue(ms(at), vpn, arrival(1_500), 0, &mut |_| ());
            }
            for gone in drain(&mut ingress, ms(at), 1) {
                sent[gone.vpn.0 as usize] += 1;
            }
        }
        for (sent, expected) in sent.into_iter().zip(expected) {
            let mbps = f64::from(sent) * 12_000.0 / 20e6;
            assert!((mbps - expected).abs() < 0.3 + expected * 0.05, "{promises:?}: {mbps} instead of {expected}");
        }
    }
}

#[test]
fn a_vpn_that_waits_for_a_report_delays_no_other_and_continues_with_it() {
    let mut ingress = Ingress::new(IngressConfig::default(), Rng::new(1));
    let vpns = [1.0, 1.0].map(|w| ingress.add(weight(w), profile(Some(window(4)))));
    for n in 0..10 {
        vpns.iter().for_each(|vpn| ingress.enqueue(ms(0), *vpn, arrival(1_500), n, &mut |_| ()));
    }
    let gone = drain(&mut ingress, ms(0), 100);
    assert_eq!(gone.iter().filter(|gone| gone.vpn == vpns[0]).count(), 4);
    assert_eq!(gone.len(), 8, "four each");
    let marker = gone.iter().rfind(|gone| gone.vpn == vpns[1]).and_then(|gone| gone.marker);
    let mut egress = LoopEgress::default();
    (0..4).for_each(|_| egress.on_packet(1_500, false));
    let report = marker.and_then(|marker| egress.on_marker(ms(5), marker)).unwrap_or_default();
    ingress.on_report(ms(10), vpns[1], &report);
    let gone = drain(&mut ingress, ms(10), 100);
    assert!(gone.iter().all(|gone| gone.vpn == vpns[1]) && gone.len() == 4, "{}", gone.len());
}

#[test]
fn discarded_packets_do_not_count_as_sent() {
    let mut ingress = Ingress::new(IngressConfig::default(), Rng::new(1));
    let vpn = ingress.add(weight(1.0), profile(Some(window(2))));
    (0..5).for_each(|n| ingress.enqueue(ms(0), vpn, arrival(1_500), n, &mut |_| ()));
    for n in 0..3 {
        assert!(ingress.head(ms(0), &mut |_| ()).is_some());
        assert_eq!(ingress.discard(ms(0)).map(|unit| unit.item), Some(n));
        assert!(ingress.discard(ms(0)).is_none(), "nothing is selected");
    }
    assert_eq!(drain(&mut ingress, ms(0), 9).len(), 2, "the whole window is there");
    assert_eq!(ingress.status(vpn).map(|status| (status.sent_packets, status.queued_packets)), Some((2, 0)));
}

#[test]
fn a_vpn_that_waits_for_a_time_is_ready_then() {
    let rate = Rate::from_bps(1_200_000);
    let config = AccumulationConfig { initial: rate, cap: rate, ..AccumulationConfig::default() };
    let law = LoopConfig::Accumulation(Arc::new(config));
    let mut ingress = Ingress::new(IngressConfig::default(), Rng::new(1));
    let vpn = ingress.add(weight(1.0), profile(Some(law)));
    (0..3).for_each(|n| ingress.enqueue(ms(0), vpn, arrival(1_500), n, &mut |_| ()));
    assert_eq!(drain(&mut ingress, ms(0), 9).len(), 1);
    assert_eq!(ingress.deadline(), Some(ms(10)), "1500 bytes at 1.2 Mbit/s");
    assert_eq!(drain(&mut ingress, ms(9), 9).len(), 0);
    assert_eq!(drain(&mut ingress, ms(10), 9).len(), 1);
    assert_eq!(ingress.status(vpn).map(|status| status.queued_packets), Some(1));
}

#[test]
fn a_loop_without_reports_asks_for_one() {
    let mut ingress = Ingress::new(IngressConfig::default(), Rng::new(1));
    let vpn = ingress.add(weight(1.0), profile(Some(window(4))));
    (0..9).for_each(|n| ingress.enqueue(ms(0), vpn, arrival(1_500), n, &mut |_| ()));
    assert_eq!(drain(&mut ingress, ms(0), 9).len(), 4);
    let due = ingress.deadline().unwrap_or_default();
    assert!(ingress.next_marker(due.before(Duration::from_nanos(1))).is_none());
    assert!(ingress.head(due, &mut |_| ()).is_none());
    assert!(ingress.next_marker(due).is_some_and(|(whose, marker)| whose == vpn && marker.packets == 4));
    assert!(ingress.next_marker(due).is_none() && ingress.deadline().is_some_and(|next| next > due));
}

#[test]
fn losses_are_reported_to_all_loops_of_the_pair_if_configured() {
    for shared_events in [false, true] {
        let config = IngressConfig { shared_events, ..IngressConfig::default() };
        let mut ingress = Ingress::new(config, Rng::new(1));
        let vpns = [1.0, 1.0].map(|w| ingress.add(weight(w), profile(Some(window(40)))));
        for n in 0..100 {
            vpns.iter().for_each(|vpn| ingress.enqueue(ms(0), *vpn, arrival(1_500), n, &mut |_| ()));
        }
        let gone = drain(&mut ingress, ms(0), 100);
        let mut egresses = [LoopEgress::default(), LoopEgress::default()];
        let lost = gone.iter().position(|gone| gone.vpn == vpns[0]);
        for (n, gone) in gone.iter().enumerate() {
            let egress = &mut egresses[gone.vpn.0 as usize];
            if Some(n) != lost {
                egress.on_packet(gone.unit.bytes, false);
            }
            if let Some(report) = gone.marker.and_then(|marker| egress.on_marker(ms(5), marker)) {
                ingress.on_report(ms(10), gone.vpn, &report);
            }
        }
        let windows = vpns.map(|vpn| ingress.status(vpn).and_then(|s| s.control).map_or(0, |c| c.window_bytes));
        assert!(windows[0] < 58_000, "{windows:?}");
        assert_eq!(windows[1] < 58_000, shared_events, "{windows:?}");
    }
}

#[test]
fn an_idle_vpn_gives_its_queue_back_and_its_loop_goes_on_counting() {
    let mut ingress = Ingress::new(IngressConfig::default(), Rng::new(1));
    let vpn = ingress.add(weight(1.0), profile(Some(window(4))));
    let mut egress = LoopEgress::default();
    let mut sequences = vec![];
    for at in [0, 60_000] {
        ingress.enqueue(ms(at), vpn, arrival(1_500), 0, &mut |_| ());
        for gone in drain(&mut ingress, ms(at), 9) {
            egress.on_packet(gone.unit.bytes, false);
            let marker = gone.marker.or_else(|| ingress.next_marker(ms(at + 1_000)).map(|(_, marker)| marker));
            let Some(marker) = marker else { continue };
            sequences.push(marker.sequence);
            let report = egress.on_marker(ms(at + 5), marker).unwrap_or_default();
            ingress.on_report(ms(at + 10), vpn, &report);
        }
        assert_eq!(ingress.awake(), 1);
        assert!(ingress.next_marker(ms(at + 9_999)).is_none() && ingress.awake() == 1);
        assert!(ingress.next_marker(ms(at + 20_000)).is_none() && ingress.awake() == 0);
    }
    assert_eq!(sequences, [1, 2]);
    assert_eq!(ingress.status(vpn).map(|status| (status.sent_packets, status.sent_bytes)), Some((2, 3_000)));
    assert_eq!(ingress.deadline(), None);
}

#[test]
fn an_idle_vpn_is_small_and_a_busy_one_too() {
    assert!(size_of::<IngressVpn>() + size_of::<ControlLoop>() < 1_024);
    assert!(size_of::<Awake<u64>>() + size_of::<ControlLoop>() < 2_048);
}

/// A random operation on an ingress.
#[derive(Clone, Debug)]
enum Deed {
    Enqueue { vpn: usize, bytes: u32 },
    Send { most: usize },
    Arrive { most: usize, lose: bool },
    Pass { us: u64 },
    Expire { vpn: Option<usize> },
    Shed,
    Weigh { vpn: usize, weight: f64 },
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let vpn = 0..4usize;
    proptest::collection::vec(
        prop_oneof![
            4 => (vpn.clone(), 40..2_000u32).prop_map(|(vpn, bytes)| Deed::Enqueue { vpn, bytes }),
            3 => (1..8usize).prop_map(|most| Deed::Send { most }),
            2 => (1..4usize, proptest::bool::weighted(0.1)).prop_map(|(most, lose)| Deed::Arrive { most, lose }),
            2 => (100..40_000u64).prop_map(|us| Deed::Pass { us }),
            1 => (40_000..20_000_000u64).prop_map(|us| Deed::Pass { us }),
            1 => proptest::option::of(vpn.clone()).prop_map(|vpn| Deed::Expire { vpn }),
            1 => Just(Deed::Shed),
            1 => (vpn, 0.01..100.0f64).prop_map(|(vpn, weight)| Deed::Weigh { vpn, weight }),
        ],
        1..300,
    )
}

/// Returns the expiry of a packet: every third packet is too old at once, the others never.
fn expiry_of(number: u32, now: Instant) -> Expiry {
    let at = if number.is_multiple_of(3) { now } else { Instant::FAR_FUTURE };
    Expiry { superseded_at: at, useless_at: at }
}

/// Removes the packets that [`expiry_of`] calls too old from a model's queue. Returns their numbers.
fn take_expired(waiting: &mut VecDeque<(u32, u32)>) -> Vec<u32> {
    let gone = waiting.iter().map(|(number, _)| *number).filter(|number| number.is_multiple_of(3)).collect();
    waiting.retain(|(number, _)| !number.is_multiple_of(3));
    gone
}

proptest! {
    /// Compares an ingress with separate loops that have the same configuration and receive the same events.
    ///
    /// No packet leaves without credit. No VPN waits that has packets and credit. Each VPN's packets leave in order,
    /// and every packet leaves.
    #[test]
    fn packets_leave_exactly_when_their_vpn_has_credit(deeds in deeds()) {
        let accumulation = AccumulationConfig { initial: Rate::from_mbps(2), ..AccumulationConfig::default() };
        let laws = [None, Some(window(4)), Some(window(2)), Some(LoopConfig::Accumulation(Arc::new(accumulation)))];
        let mut ingress = Ingress::new(IngressConfig::default(), Rng::new(1));
        let vpns: Vec<VpnNo> = laws.iter().map(|law| ingress.add(weight(1.0), profile(law.clone()))).collect();
        let mut model: Vec<Option<ControlLoop>> =
            laws.iter().map(|law| law.clone().map(|law| ControlLoop::new(law, weight(1.0)))).collect();
        let mut waiting: Vec<VecDeque<(u32, u32)>> = vec![VecDeque::new(); 4];
        let mut on_the_way: VecDeque<(usize, u32, Option<Marker>)> = VecDeque::new();
        let mut egresses: [LoopEgress; 4] = core::array::from_fn(|_| LoopEgress::default());
        let (mut now, mut number) = (Instant::ZERO, 0u32);
        for deed in deeds {
            match deed {
                Deed::Enqueue { vpn, bytes } => {
                    number += 1;
                    let mut refused = false;
                    ingress.enqueue(now, vpns[vpn], arrival(bytes), number, &mut |_| refused = true);
                    if !refused {
                        waiting[vpn].push_back((number, bytes));
                    }
                }
                Deed::Send { most } => {
                    let mut sent = 0;
                    while sent < most && let Some(head) = ingress.head(now, &mut |_| ()) {
                        prop_assert_eq!(ingress.head_item(), waiting[head.vpn.0 as usize].front().map(|w| &w.0));
                        let gone = ingress.pop(now).unwrap();
                        let vpn = gone.vpn.0 as usize;
                        let (expected, bytes) = waiting[vpn].pop_front().unwrap();
                        prop_assert_eq!((gone.unit.item, gone.unit.bytes, head.vpn), (expected, bytes, gone.vpn));
                        if let Some(law) = &mut model[vpn] {
                            prop_assert_eq!(law.credit(now, bytes), Credit::Now);
                            prop_assert_eq!(law.on_sent(now, bytes, !waiting[vpn].is_empty()), gone.marker);
                        }
                        on_the_way.push_back((vpn, bytes, gone.marker));
                        sent += 1;
                    }
                    for (vpn, law) in model.iter().enumerate().filter(|_| sent < most) {
                        if let Some((_, bytes)) = waiting[vpn].front() {
                            let credit = law.as_ref().map_or(Credit::Now, |law| law.credit(now, *bytes));
                            // The token bucket rounds up to whole bytes, so a time may be late by that of one byte. At
                            // the minimum rate of the accumulation law this is half a millisecond.
                            let soon = ingress.deadline().is_some_and(|at| at <= now + Duration::from_micros(500));
                            prop_assert!(credit != Credit::Now || soon, "VPN {vpn} could send");
                        }
                    }
                }
                Deed::Arrive { most, lose } => {
                    for (vpn, bytes, marker) in on_the_way.drain(..most.min(on_the_way.len())).collect::<Vec<_>>() {
                        if lose {
                            continue;
                        }
                        egresses[vpn].on_packet(bytes, false);
                        if let Some(report) = marker.and_then(|marker| egresses[vpn].on_marker(now, marker)) {
                            ingress.on_report(now, vpns[vpn], &report);
                            // The loop of a VPN without a queue has nothing in flight, so it ignores reports that
                            // arrive late.
                            let is_awake = ingress.vpns[vpn].slot != super::vpn::NONE;
                            if let Some(law) = model[vpn].as_mut().filter(|_| is_awake) {
                                law.on_report(now, &report);
                            }
                        }
                    }
                }
                Deed::Pass { us } => {
                    now += Duration::from_micros(us);
                    while let Some((vpn, marker)) = ingress.next_marker(now) {
                        let vpn = vpn.0 as usize;
                        prop_assert_eq!(model[vpn].as_mut().and_then(|law| law.on_deadline(now)), Some(marker));
                        on_the_way.push_back((vpn, 0, Some(marker)));
                    }
                    for law in model.iter().flatten() {
                        prop_assert!(law.deadline().is_none_or(|due| due > now), "now {now:?} {:?} ing {:?} first {:?} laws {:?}", law.deadline(), ingress.deadline(), ingress.timers.first(), model);
                    }
                    // An idle ingress sets further deadlines only for a loop that must still send a marker.
                    let (mut at, mut looks) = (now, 0);
                    while waiting.iter().all(VecDeque::is_empty)
                        && let Some(due) = ingress.deadline().filter(|due| *due <= at + super::vpn::A_MOMENT)
                        && model.iter().flatten().all(|law| law.deadline().is_none_or(|own| own > at.max(due)))
                    {
                        at = at.max(due);
                        prop_assert!(ingress.next_marker(at).is_none());
                        looks += 1;
                        prop_assert!(looks < 10, "it spins");
                    }
                }
                Deed::Expire { vpn } => {
                    let expiry = |number: &u32| expiry_of(*number, now);
                    let mut gone = Vec::new();
                    match vpn {
                        Some(vpn) => ingress.expire_vpn(now, vpns[vpn], &expiry, &mut |number| gone.push(number)),
                        None => ingress.expire(now, &expiry, &mut |number| gone.push(number)),
                    }
                    gone.sort_unstable();
                    let of_those = waiting.iter_mut().enumerate().filter(|(of, _)| vpn.is_none_or(|vpn| vpn == *of));
                    let mut expected: Vec<u32> = of_those.flat_map(|(_, waiting)| take_expired(waiting)).collect();
                    expected.sort_unstable();
                    prop_assert_eq!(gone, expected);
                }
                Deed::Shed => ingress.shed(now, &mut |number| {
                    waiting.iter_mut().for_each(|waiting| waiting.retain(|(other, _)| *other != number));
                }),
                Deed::Weigh { vpn, weight: new } => {
                    ingress.set_share(now, vpns[vpn], weight(new));
                    if let Some(law) = &mut model[vpn] {
                        law.set_share(now, weight(new));
                    }
                }
            }
            for (vpn, waiting) in vpns.iter().zip(&waiting) {
                prop_assert_eq!(ingress.status(*vpn).map(|s| s.queued_packets), Some(waiting.len()));
            }
            let bytes = waiting.iter().flatten().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>();
            let packets = waiting.iter().map(VecDeque::len).sum::<usize>();
            prop_assert_eq!((ingress.backlog_packets(), ingress.backlog_bytes()), (packets, bytes));
        }
    }
}
