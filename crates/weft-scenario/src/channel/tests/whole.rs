use super::*;

/// Returns the send times of packet bursts with pauses between them, so that queues fill and empty.
fn bursty(seed: u64, count: usize) -> Vec<Instant> {
    let mut rng = Rng::new(seed);
    let mut now = Instant::ZERO;
    (0..count)
        .map(|_| {
            now += Duration::from_micros(if rng.chance(0.05) { rng.below(40_000) } else { rng.below(300) });
            now
        })
        .collect()
}

#[test]
fn the_same_seed_gives_the_same_fates_and_another_one_others() {
    let mut rng = Rng::new(10);
    for seed in 0..40 {
        let impairments = anything(&mut rng);
        let times = bursty(seed, 5_000);
        let outcome = |seed| {
            let plain = Plain { loss: 0.01, ..drop_tail(Rate::from_mbps(20)) };
            run(&mut channel(plain, impairments.clone(), seed), 1_500, times.iter().copied())
        };
        assert_eq!(outcome(seed), outcome(seed));
        assert_ne!(outcome(seed), outcome(seed + 1));
    }
}

#[test]
fn every_packet_arrives_or_is_gone_however_late_one_looks() {
    let mut rng = Rng::new(11);
    for seed in 0..60 {
        let mut impairments = anything(&mut rng);
        impairments.duplicate = 0.0;
        let limit_bytes = log_even(&mut rng, 3e3, 1e6) as u64;
        let rate = Rate::from_mbps(10);
        let managed = [Aqm::CoDel, Aqm::Red, Aqm::FqCoDel][seed as usize % 3].queue(limit_bytes, rate);
        let queue = match seed % 4 {
            0 => QueueSpec::Managed { kind: managed.0, config: managed.1, ecn: false },
            _ => QueueSpec::DropTail { limit_packets: usize::MAX, limit_bytes },
        };
        let plain = Plain { queue, ..drop_tail(rate) };
        let times = bursty(seed, 3_000);
        let lazy = run(&mut channel(plain.clone(), impairments.clone(), seed), 1_500, times.iter().copied());
        assert_eq!(lazy.arrived.len() + lazy.gone.len(), 3_000, "{impairments:?}");
        assert_eq!(lazy, watched(channel(plain, impairments.clone(), seed), &times), "{impairments:?}");
    }
}

/// Does the same as [`run`] with packets of 1500 bytes, but advances the channel at each event and every 100 µs.
fn watched(mut channel: Channel<u64>, times: &[Instant]) -> ChannelFates {
    let mut outcome = ChannelFates::default();
    let mut now = Instant::ZERO;
    let mut next = 0;
    while next < times.len() || channel.earliest_arrival() < Instant::FAR_FUTURE {
        let offered = times.get(next).copied().unwrap_or(Instant::FAR_FUTURE);
        let glance = if next < times.len() { now + Duration::from_micros(100) } else { Instant::FAR_FUTURE };
        now = now.max(offered.min(glance).min(channel.next_departure()).min(channel.next_arrival()));
        let gone = &mut outcome.gone;
        channel.advance(now, &mut |happened| note(gone, happened));
        while let Some(arrived) = channel.arrive(now) {
            outcome.arrived.push((arrived.packet, arrived.due));
        }
        if offered <= now {
            channel.offer(offered, next as u64, about(1_500), &mut |happened| note(gone, happened));
            next += 1;
        }
    }
    outcome
}

#[test]
fn a_channel_without_impairments_is_a_plain_link() {
    let plain = Plain {
        queue: QueueSpec::DropTail { limit_packets: usize::MAX, limit_bytes: 4_500 },
        ..drop_tail(Rate::from_mbps(12))
    };
    let outcome = run(&mut channel(plain, Impairments::default(), 1), 1_500, steady(5, Duration::ZERO));
    let ms = Instant::from_millis;
    assert_eq!(outcome.arrived, [(0, ms(21)), (1, ms(22)), (2, ms(23))]);
    assert_eq!(outcome.gone, [(3, LossCause::Queue), (4, LossCause::Queue)]);
}

#[test]
fn codel_keeps_a_standing_queue_short() {
    let rate = Rate::from_mbps(12);
    let (kind, config) = Aqm::CoDel.queue(1_500_000, rate);
    assert_eq!(kind, QueueKind::Codel);
    let queue = QueueSpec::Managed { kind, config, ecn: false };
    let apart = Duration::from_micros(950);
    let managed =
        run(&mut channel(Plain { queue, ..drop_tail(rate) }, Impairments::default(), 1), 1_500, steady(20_000, apart));
    let (last, due) = managed.arrived[managed.arrived.len() - 1];
    let waited = due - (Instant::ZERO + apart * last as u32);
    assert!(waited < Duration::from_millis(80) && managed.gone_by(LossCause::Queue) > 100, "{waited:?}");
}

#[test]
fn a_new_rate_holds_from_the_next_byte_on_and_a_cut_swallows_all() {
    let mut channel = channel(drop_tail(Rate::from_mbps(12)), Impairments::default(), 1);
    (0..3).for_each(|n| channel.offer(Instant::ZERO, n, about(1_500), &mut |_| ()));
    let half = Plain { delay: Duration::ZERO, ..drop_tail(Rate::from_mbps(6)) };
    channel.set(Instant::from_micros(500), half, &mut |_| ());
    channel.advance(Instant::from_micros(3_500), &mut |_| ());
    let due: Vec<u64> = std::iter::from_fn(|| channel.arrive(Instant::FAR_FUTURE)).map(|a| a.due.as_micros()).collect();
    assert_eq!(due, [1_500, 3_500]);
    let mut gone = Vec::new();
    channel.clear(Instant::from_micros(4_000), &mut |happened| note(&mut gone, happened));
    assert_eq!(gone, [(2, LossCause::Outage)]);
    assert_eq!(channel.earliest_arrival(), Instant::FAR_FUTURE);
}
