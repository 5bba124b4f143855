use super::*;

const KINDS: [JitterKind; 4] =
    [JitterKind::Grants, JitterKind::Aggregation, JitterKind::Independent, JitterKind::Spikes];

fn jittered(kind: JitterKind, limit: Duration) -> Impairments {
    Impairments { jitter: Some(Jitter { kind, limit }), ..Impairments::default() }
}

#[test]
fn jitter_stays_within_its_limit_and_only_independent_one_reorders() {
    let mut rng = Rng::new(3);
    for number in 0..80 {
        let kind = KINDS[number % 4];
        let limit = Duration::from_secs_f64(log_even(&mut rng, 0.2, 50.0) / 1e3);
        let plain = drop_tail(Rate::from_mbps(1_000));
        let delay = plain.delay;
        let apart = Duration::from_micros(200);
        let outcome = run(&mut channel(plain, jittered(kind, limit), number as u64), 1_250, steady(20_000, apart));
        assert_eq!(outcome.arrived.len(), 20_000);
        let sent = |n: u64| Instant::from_nanos(n * 200_000 + 10_000) + delay;
        let mut most = Duration::ZERO;
        for (packet, due) in &outcome.arrived {
            let added = due.as_nanos() as i128 - sent(*packet).as_nanos() as i128;
            assert!((0..=limit.as_nanos() as i128).contains(&added), "{kind:?} {limit:?}: {added} ns");
            most = most.max(*due - sent(*packet));
        }
        // The greatest delay must reach this fraction of the limit. Only a few spikes occur within 4 s, and the lowest
        // ones reach only 0.3 of the limit.
        let reached = if kind == JitterKind::Spikes { 0.25 } else { 0.6 };
        assert!(most > limit.mul_f64(reached), "{kind:?} of {limit:?} reaches only {most:?}");
        let in_order = outcome.arrived.is_sorted_by_key(|(packet, _)| *packet);
        assert_eq!(in_order, kind != JitterKind::Independent || limit < apart, "{kind:?} {limit:?}");
    }
}

#[test]
fn grants_release_bursts_and_conserve_capacity() {
    let mut rng = Rng::new(4);
    for (number, kind) in [JitterKind::Grants, JitterKind::Aggregation].into_iter().cycle().take(30).enumerate() {
        let limit = Duration::from_secs_f64(log_even(&mut rng, 2.0, 50.0) / 1e3);
        let rate = Rate::from_bps(log_even(&mut rng, 5e6, 5e8) as u64);
        // All packets are offered at once, so the link is never idle.
        let outcome = run(
            &mut channel(drop_tail(rate), jittered(kind, limit), number as u64),
            1_500,
            steady(20_000, Duration::ZERO),
        );
        let (first, last) = (outcome.arrived[0].1, outcome.arrived[19_999].1);
        let longest = rate.time_for(1_500 * 20_000) + limit;
        assert!(last - first <= longest, "{kind:?} {limit:?} at {rate}");
        let mut instants: Vec<Instant> = outcome.arrived.iter().map(|(_, due)| *due).collect();
        instants.dedup();
        if kind == JitterKind::Grants {
            let spacing = (last - first) / (instants.len() as u32 - 1).max(1);
            let least = limit / 2;
            assert!(spacing >= least.min(rate.time_for(1_500)), "{limit:?}: {spacing:?} between bursts");
        }
    }
}

#[test]
fn late_packets_are_overtaken_by_just_so_much() {
    let reorder = Some(ReorderSpec { share: 0.01, by: Duration::from_millis(5) });
    let impairments = Impairments { reorder, ..Impairments::default() };
    let outcome = run(
        &mut channel(drop_tail(Rate::from_mbps(100)), impairments, 1),
        1_500,
        steady(50_000, Duration::from_millis(1)),
    );
    let late: Vec<_> =
        outcome.arrived.iter().filter(|(n, due)| *due - Instant::from_millis(*n) > Duration::from_millis(21)).collect();
    assert!(late.len().abs_diff(500) < 120, "{}", late.len());
    assert!(late.iter().all(|(n, due)| *due == Instant::from_millis(*n) + Duration::from_micros(25_120)));
    assert!(outcome.arrived.is_sorted_by_key(|(_, due)| *due));
}
