use super::*;
use crate::trace::Trace;

fn timed(rng: &mut Rng) -> Impairments {
    loop {
        let drawn = anything(rng);
        let timed = Impairments {
            outage: drawn.outage,
            swing: drawn.swing,
            handover: drawn.handover,
            ..Impairments::default()
        };
        if timed.is_timed() {
            return timed;
        }
    }
}

#[test]
fn a_full_link_transmits_at_its_capacity() {
    let mut rng = Rng::new(5);
    for seed in 0..60 {
        let mut impairments = timed(&mut rng);
        if let Some(outage) = &mut impairments.outage {
            outage.hold = true;
        }
        let rate = Rate::from_bps(log_even(&mut rng, 1e6, 2e7) as u64);
        let capacity = if seed % 3 == 0 && impairments.swing.is_none() {
            LinkCapacity::Trace(Trace::synthetic_lte(seed, rate, Duration::from_secs(10)))
        } else {
            LinkCapacity::Rate(rate)
        };
        let plain = Plain { capacity, delay: Duration::ZERO, ..drop_tail(rate) };
        let mut channel = channel(plain, impairments.clone(), seed);
        let (mut sent, end) = (0, Instant::from_millis(30_000));
        for number in 0..40_000 {
            channel.offer(Instant::ZERO, number, about(1_500), &mut |_| ());
        }
        channel.advance(end, &mut |happened| {
            if let ChannelEvent::Transmitted(transmission) = happened {
                sent += u64::from(transmission.bytes);
            }
        });
        let could = channel.capacity_bytes(Instant::ZERO, end);
        if channel.backlog().0 > 0 {
            // The link may send up to 30,000 bytes more than `could`: several opportunities of a trace may be at the
            // end of the run, and the capacity does not count them.
            assert!(sent <= could + 30_000 && sent + 4_500 >= could, "{impairments:?}: {sent} of {could}");
        }
    }
}

#[test]
fn capacity_adds_up_over_any_division_of_time() {
    let mut rng = Rng::new(6);
    for seed in 0..60 {
        let impairments = timed(&mut rng);
        let channel = channel(drop_tail(Rate::from_mbps(20)), impairments.clone(), seed);
        let ms = Instant::from_millis;
        let parts: u64 = (0..100).map(|n| channel.capacity_bytes(ms(n * 137), ms((n + 1) * 137))).sum();
        let whole = channel.capacity_bytes(ms(0), ms(13_700));
        assert!(whole.abs_diff(parts) <= 100, "{impairments:?}: {whole} and {parts}");
    }
}

#[test]
fn outages_take_their_share_of_time_and_swallow_or_hold() {
    for (spread, hold) in [(false, false), (true, false), (true, true)] {
        let (every, lasting) = (Duration::from_secs(4), Duration::from_millis(500));
        let outage = Some(OutageSpec { every, lasting, spread, hold });
        let impairments = Impairments { outage, ..Impairments::default() };
        let apart = Duration::from_millis(10);
        let outcome = run(&mut channel(drop_tail(Rate::from_mbps(10)), impairments, 1), 1_500, steady(400_000, apart));
        let share = outcome.gone_by(LossCause::Outage) as f64 / 400_000.0;
        let expected = if hold { 0.0 } else { 0.125 };
        assert!((share - expected).abs() < 0.012, "{share} of {expected}");
        if hold {
            let waited = |(n, due): &&(u64, Instant)| *due - Instant::from_millis(n * 10) > Duration::from_millis(30);
            let share = outcome.arrived.iter().filter(waited).count() as f64 / 400_000.0;
            assert!((share - 0.128).abs() < 0.015, "{share} waited");
        }
    }
}

#[test]
fn a_swing_stays_between_its_bounds_and_moves() {
    let mut rng = Rng::new(8);
    for seed in 0..40 {
        let swing = loop {
            if let Some(swing) = anything(&mut rng).swing {
                break swing;
            }
        };
        let impairments = Impairments { swing: Some(swing), ..Impairments::default() };
        let mut timeline = ImpairmentTimeline::new(&impairments, seed, Instant::ZERO);
        let step = swing.every / 8;
        let rates: Vec<Rate> = (0..4_000).filter_map(|n| timeline.at(Instant::ZERO + step * n).swing).collect();
        assert_eq!(rates.len(), 4_000);
        assert!(rates.iter().all(|rate| (swing.low..=swing.high).contains(rate)), "{swing:?}");
        let middle = (swing.low.bps() as f64 * swing.high.bps() as f64).sqrt() as u64;
        let above = rates.iter().filter(|rate| rate.bps() > middle).count();
        assert!((1_500..=2_500).contains(&above), "{swing:?}: {above} of 4000 above the middle");
    }
}

#[test]
fn a_handover_stalls_and_steps() {
    let handover = HandoverSpec {
        every: Duration::from_secs(15),
        stall: Duration::from_millis(100),
        step: Duration::from_millis(15),
        rate: [0.5, 1.5],
    };
    let impairments = Impairments { handover: Some(handover), ..Impairments::default() };
    let mut timeline = ImpairmentTimeline::new(&impairments, 3, Instant::ZERO);
    let all: Vec<Conditions> = (0..600_000).map(|ms| timeline.at(Instant::from_millis(ms))).collect();
    let stalled = all.iter().filter(|conditions| conditions.stalled).count();
    assert!((3_900..=4_000).contains(&stalled), "{stalled} ms of 40 handovers");
    let mut factors: Vec<u64> = all.iter().map(|conditions| (conditions.factor * 1e9) as u64).collect();
    factors.dedup();
    assert!((40..=41).contains(&factors.len()));
    assert!(all.iter().all(|c| (0.5..=1.5).contains(&c.factor) && c.extra <= handover.step));
}

#[test]
fn before_the_run_begins_nothing_happens_and_then_the_same_as_ever() {
    let mut rng = Rng::new(9);
    let impairments = timed(&mut rng);
    let waiting = Impaired { waits: true, ..impaired(impairments.clone()) };
    let rate = Rate::from_mbps(20);
    let mut late: Channel<u64> = Channel::new(drop_tail(rate), waiting, &Rng::new(1), Instant::ZERO);
    let begin = Instant::from_millis(1_234);
    late.restart(begin, &mut |_| ());
    let prompt = channel(drop_tail(rate), impairments, 1);
    for n in 0..50 {
        let (from, to) = (Duration::from_millis(n * 300), Duration::from_millis((n + 1) * 300));
        assert_eq!(
            late.capacity_bytes(begin + from, begin + to),
            prompt.capacity_bytes(Instant::ZERO + from, Instant::ZERO + to)
        );
    }
}
