use super::*;
use crate::{Body, FlowNo, PacketEcn};
use weft_core::queue::{QueueConfig, QueueKind};
use weft_scenario::trace::Trace;
use weft_units::Rate;

const MBIT_12: Rate = Rate::from_mbps(12); // a full packet takes 1 ms

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

fn spec(capacity: LinkCapacity, delay_ms: u64) -> LinkSpec {
    LinkSpec { capacity, delay: Duration::from_millis(delay_ms), ..LinkSpec::with_rate(MBIT_12) }
}

fn constant(delay_ms: u64) -> LinkSpec {
    spec(LinkCapacity::Rate(MBIT_12), delay_ms)
}

fn packets(limit: usize) -> QueueSpec {
    QueueSpec::DropTail { limit_packets: limit, limit_bytes: u64::MAX }
}

fn link(spec: LinkSpec) -> LinkDirectionState {
    LinkDirectionState::new(NodeId(0), NodeId(1), spec, &Rng::new(1), Instant::ZERO)
}

fn packet(number: u64, bytes: u32) -> Box<Packet> {
    Box::new(Packet {
        flow: FlowNo(number as u32 % 4),
        source: NodeId(0),
        destination: NodeId(1),
        bytes,
        label: 0,
        ecn: PacketEcn::NotEct,
        body: Body::Udp { number, sent_at: Instant::ZERO },
    })
}

/// Lets packets arrive until `end`. Returns the number of each packet and its arrival time in µs.
fn drain(link: &mut LinkDirectionState, end: Instant) -> Vec<(u64, u64)> {
    let mut got = Vec::new();
    while link.next_arrival().min(link.next_departure()) <= end {
        let now = link.next_arrival().min(link.next_departure());
        link.depart_managed(now);
        if let Some(Body::Udp { number, .. }) = link.arrive(now).map(|packet| packet.body) {
            got.push((number, now.as_micros()));
        }
    }
    got
}

#[test]
fn a_rate_spaces_packets_and_idle_time_is_not_saved_up() {
    let mut link = link(constant(5));
    (0..3).for_each(|n| link.offer(ms(0), packet(n, 1500)));
    assert_eq!(drain(&mut link, ms(100)), [(0, 6_000), (1, 7_000), (2, 8_000)]);
    link.offer(ms(200), packet(9, 1500));
    assert_eq!(drain(&mut link, ms(300)), [(9, 206_000)]);
    assert_eq!(link.stats(ms(300)).sent_packets, 4);
    assert_eq!(link.capacity_bytes(ms(0), ms(300)), 450_000);
}

#[test]
fn a_full_queue_drops_the_newcomer() {
    let mut link = link(LinkSpec { queue: packets(3), ..constant(0) });
    (0..5).for_each(|n| link.offer(ms(0), packet(n, 1500)));
    assert_eq!(link.backlog(ms(0)), (3, 4_500));
    link.offer(ms(1), packet(5, 1500));
    let arrived: Vec<u64> = drain(&mut link, ms(100)).into_iter().map(|(n, _)| n).collect();
    assert_eq!(arrived, [0, 1, 2, 5]);
    let stats = link.stats(ms(100));
    assert_eq!((stats.sent_packets, stats.dropped_packets), (4, 2));
}

#[test]
fn a_managed_queue_of_the_same_length_delivers_at_the_same_times() {
    let config = QueueConfig { limit_bytes: 4_500, ..QueueConfig::default() };
    let managed = QueueSpec::Managed { kind: QueueKind::DropTail, config, ecn: false };
    let plain = QueueSpec::DropTail { limit_packets: usize::MAX, limit_bytes: 6_000 };
    let run = |queue| {
        let mut link = link(LinkSpec { queue, ..constant(5) });
        (0..20).for_each(|n| link.offer(ms(0), packet(n, 1500)));
        drain(&mut link, ms(100))
    };
    let got = run(managed);
    assert_eq!(got.len(), 4);
    assert_eq!(got, run(plain));
}

#[test]
fn a_trace_fills_opportunities_and_wastes_the_unused() {
    let trace = Trace::parse("2\n4\n4\n10\n", "test").unwrap();
    let mut link = link(spec(LinkCapacity::Trace(trace), 1));
    link.offer(ms(3), packet(0, 1500)); // the opportunity at 2 ms has passed unused
    link.offer(ms(3), packet(1, 700)); // these two share the second opportunity at 4 ms
    link.offer(ms(3), packet(2, 700));
    link.offer(ms(3), packet(3, 1500)); // begins in the rest of that opportunity and ends at 10 ms
    assert_eq!(drain(&mut link, ms(11)), [(0, 5_000), (1, 5_000), (2, 5_000), (3, 11_000)]);
    link.offer(ms(11), packet(4, 3000)); // takes two opportunities of the second round: 12 and 14 ms
    assert_eq!(drain(&mut link, ms(30)), [(4, 15_000)]);
}

#[test]
fn a_new_rate_holds_from_the_next_byte_on() {
    let mut link = link(constant(0));
    (0..2).for_each(|n| link.offer(ms(0), packet(n, 1500)));
    let half = LinkSpec { capacity: LinkCapacity::Rate(Rate::from_mbps(6)), ..constant(0) };
    link.set(Instant::from_micros(500), half);
    // The rate changes after half of the first packet has been sent. The second half needs twice the time.
    assert_eq!(drain(&mut link, ms(100)), [(0, 1_500), (1, 3_500)]);
}

#[test]
fn a_new_delay_holds_for_what_has_not_left_and_overtakes_nothing() {
    let mut link = link(constant(10));
    (0..3).for_each(|n| link.offer(ms(0), packet(n, 1500)));
    link.set(Instant::from_micros(1_500), constant(1));
    assert_eq!(drain(&mut link, ms(100)), [(0, 11_000), (1, 11_000), (2, 11_000)]);
}

#[test]
fn a_cut_swallows_everything() {
    let mut link = link(constant(5));
    (0..3).for_each(|n| link.offer(ms(0), packet(n, 1500)));
    link.set(ms(2), LinkSpec { cut: true, ..constant(5) });
    link.offer(ms(3), packet(3, 1500));
    assert_eq!(link.next_arrival(), Instant::FAR_FUTURE);
    link.set(ms(10), constant(5));
    link.offer(ms(10), packet(4, 1500));
    assert_eq!(drain(&mut link, ms(100)), [(4, 16_000)]);
    assert_eq!(link.stats(ms(100)).cut_packets, 4);
}

#[test]
fn packets_longer_than_the_mtu_are_dropped() {
    let mut link = link(LinkSpec { mtu: 1400, ..constant(0) });
    link.offer(ms(0), packet(0, 1401));
    link.offer(ms(0), packet(1, 1400));
    assert_eq!(drain(&mut link, ms(100)).len(), 1);
}

#[test]
fn loss_takes_its_share_and_repeats_with_the_seed() {
    let run = |seed| {
        let spec = LinkSpec { loss: 0.1, queue: packets(usize::MAX), ..constant(0) };
        let mut link = LinkDirectionState::new(NodeId(0), NodeId(1), spec, &Rng::new(seed), Instant::ZERO);
        (0..10_000).for_each(|n| link.offer(ms(0), packet(n, 100)));
        let got = drain(&mut link, ms(10_000));
        assert_eq!(link.stats(ms(10_000)).lost_packets + got.len() as u64, 10_000);
        got
    };
    let lost = 10_000 - run(1).len() as i64;
    assert!((lost - 1_000).abs() < 120, "{lost}"); // four standard deviations
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn jitter_delays_within_its_limit_and_keeps_the_order() {
    let mut link = link(LinkSpec { jitter: Duration::from_millis(10), ..constant(20) });
    (0..100).for_each(|n| link.offer(ms(n), packet(n, 150)));
    let got = drain(&mut link, ms(1_000));
    assert!(got.len() == 100 && got.is_sorted());
    for (n, at) in got {
        assert!((20_100..=30_100).contains(&(at - n * 1_000)), "{n} at {at}");
    }
}

#[test]
fn queueing_delay_is_measured() {
    let mut link = link(constant(0));
    (0..100).for_each(|n| link.offer(ms(0), packet(n, 1500)));
    drain(&mut link, ms(1_000));
    let p95 = link.stats(ms(1_000)).queue_delay.quantile(0.95).unwrap();
    assert!(p95.abs_diff(Duration::from_millis(95)) < Duration::from_millis(4), "{p95:?}");
}

#[test]
fn lengths_are_those_when_packets_leave_however_late_one_looks() {
    let lengths = |looks: &[u64]| {
        let mut link = link(constant(5));
        link.watch_lengths();
        for (number, at) in [0, 0, 0, 2, 10].into_iter().enumerate() {
            link.offer(ms(at), packet(number as u64, 1500));
            looks.iter().filter(|look| **look == at).for_each(|look| _ = link.stats(ms(*look)));
        }
        let summary = link.stats(ms(50)).queue_packets.as_ref().map(Lengths::summary).unwrap();
        link.clear_stats(ms(60));
        assert_eq!(link.stats(ms(60)).queue_packets, Some(Lengths::default()));
        (summary.mean, summary.max)
    };
    // Lengths at the departures: 3 at 1 ms; 2 at 2 ms; 2 at 3 ms, because a packet arrived at 2 ms; 1 at 4 ms; and 1
    // for the packet that arrived at 10 ms.
    assert_eq!(lengths(&[]), (9.0 / 5.0, 3.0));
    assert_eq!(lengths(&[0, 2, 10]), lengths(&[]));
}

#[test]
fn an_impaired_link_counts_what_its_channel_does() {
    use weft_scenario::channel::{Impaired, Impairments, OutageSpec, PolicerSpec};
    let ms = Duration::from_millis;
    let policer = PolicerSpec { rate: MBIT_12, bucket_bytes: 3_000, after: ms(0), only_udp: true };
    let outage = OutageSpec { every: ms(100), lasting: ms(20), spread: false, hold: false };
    let impairments = Impairments { policer: Some(policer), outage: Some(outage), ..Impairments::default() };
    let impaired = Some(Arc::new(Impaired { impairments, schedule: 1, waits: true }));
    let spec = LinkSpec { impaired, ..spec(LinkCapacity::Rate(Rate::from_mbps(24)), 5) };
    let mut link = link(spec.clone());
    // Until its restart the link drops nothing by its policer and its outages.
    (0..10).for_each(|n| link.offer(Instant::ZERO, packet(n, 1500)));
    assert_eq!(drain(&mut link, Instant::from_millis(20)).len(), 10);
    link.restart(Instant::from_millis(20));
    link.clear_stats(Instant::from_millis(20));
    let mut arrived = 0;
    for n in 0..2_000 {
        let now = Instant::from_micros(20_000 + n * 500);
        arrived += drain(&mut link, now).len() as u64;
        link.offer(now, packet(n, 1500));
    }
    let end = Instant::from_millis(1_100);
    arrived += drain(&mut link, end).len() as u64;
    let stats = link.stats(end).clone();
    assert_eq!(arrived + stats.cut_packets + stats.dropped_packets, 2_000, "{stats:?}");
    // Outages drop a fifth of the packets. The policer passes half of the rest, and one full bucket after each pause.
    assert!(stats.cut_packets.abs_diff(400) < 50 && stats.dropped_packets.abs_diff(780) < 60, "{stats:?}");
    assert_eq!(link.capacity_bytes(Instant::from_millis(20), Instant::from_millis(1_020)), 2_400_000);
    link.set(end, LinkSpec { cut: true, ..spec });
    link.offer(end, packet(0, 1500));
    assert_eq!((link.backlog(end), link.next_arrival()), ((0, 0), Instant::FAR_FUTURE));
}
