use super::*;

fn fates(impairments: Impairments, seed: u64, count: usize, bytes: u64) -> Vec<PacketFate> {
    let mut fates = FateSequence::new(&impairments, &Rng::new(seed));
    (0..count).map(|_| fates.next(Instant::ZERO, bytes, 0.0)).collect()
}

#[test]
fn bursts_have_their_share_and_their_length() {
    let mut rng = Rng::new(1);
    for seed in 0..40 {
        let spec = BurstLoss { share: log_even(&mut rng, 2e-3, 0.3), length: log_even(&mut rng, 1.0, 30.0) };
        if spec.begins() > 1.0 {
            continue;
        }
        const COUNT: usize = 1_000_000;
        let all = fates(Impairments { burst_loss: Some(spec), ..Impairments::default() }, seed, COUNT, 1_500);
        let lost = all.iter().filter(|fate| fate.lost).count() as f64;
        let bursts = all.windows(2).filter(|pair| !pair[0].lost && pair[1].lost).count() as f64;
        // Burst lengths are geometric, so the mean of n bursts has a relative deviation of at most 1 / √n. The number
        // of bursts in the test deviates by as much.
        let tolerance = 5.0 * (2.0 / bursts).sqrt();
        assert!((lost / COUNT as f64 / spec.share - 1.0).abs() < tolerance, "{spec:?}: {lost} lost");
        assert!((lost / bursts / spec.length - 1.0).abs() < tolerance, "{spec:?}: {bursts} bursts of {lost}");
    }
}

#[test]
fn only_long_packets_are_lost_and_a_share_of_all_is_all() {
    for share in [0.05, 1.0] {
        let impairments = Impairments { long_loss: Some(LongLoss { over: 1_200, share }), ..Impairments::default() };
        let lost = |bytes| fates(impairments.clone(), 3, 100_000, bytes).iter().filter(|fate| fate.lost).count();
        assert_eq!(lost(1_200), 0);
        assert!((lost(1_201) as f64 / 1e5 - share).abs() < 0.005, "{share}");
    }
}

#[test]
fn a_policer_passes_its_rate_and_its_bucket() {
    let mut rng = Rng::new(2);
    for _ in 0..50 {
        let spec = PolicerSpec {
            rate: Rate::from_bps(log_even(&mut rng, 5e5, 5e8) as u64),
            bucket_bytes: log_even(&mut rng, 3e3, 3e6) as u64,
            after: Duration::ZERO,
            only_udp: false,
        };
        let bytes = 64 + rng.below(1_437);
        let offered = spec.rate.scaled(1.2 + rng.unit());
        let apart = offered.time_for(bytes);
        // The bucket becomes empty in less than a fifth of `length`, so the test also covers the policer's rate.
        let excess = (offered.bps() - spec.rate.bps()) as f64;
        let length = Duration::from_secs_f64((spec.bucket_bytes * 8) as f64 / excess * 5.0 + 1.0);
        let mut policer = Policer::new(spec, Instant::ZERO);
        let count = ((length.as_nanos() / apart.as_nanos()) as u64).min(500_000);
        let passed = steady(count, apart).filter(|now| policer.takes(*now, bytes, true)).count() as u64 * bytes;
        let allowed = spec.rate.bytes_in(apart * count as u32) + spec.bucket_bytes;
        assert!(passed <= allowed + bytes, "{spec:?}: {passed} of {allowed}");
        let was_emptied = count * bytes > allowed;
        assert!(!was_emptied || passed + 2 * bytes >= allowed, "{spec:?}: {passed} of {allowed}");
    }
}

#[test]
fn a_policer_waits_and_leaves_other_protocols_alone() {
    let spec =
        PolicerSpec { rate: Rate::from_mbps(1), bucket_bytes: 1_500, after: Duration::from_secs(5), only_udp: true };
    let mut policer = Policer::new(spec, Instant::ZERO);
    assert!((0..100).all(|_| policer.takes(Instant::from_millis(4_999), 1_500, true)));
    assert!(policer.takes(Instant::from_millis(5_000), 1_500, true));
    assert!(!policer.takes(Instant::from_millis(5_000), 1_500, true));
    assert!(policer.takes(Instant::from_millis(5_000), 1_500, false));
    assert!(policer.takes(Instant::from_millis(5_012), 1_500, true));
}

#[test]
fn duplicates_and_late_packets_have_their_share() {
    let reorder = Some(ReorderSpec { share: 0.01, by: Duration::from_millis(5) });
    let all = fates(Impairments { reorder, duplicate: 0.005, ..Impairments::default() }, 4, 1_000_000, 1_500);
    let late = all.iter().filter(|fate| fate.late == Duration::from_millis(5)).count();
    let twice = all.iter().filter(|fate| fate.twice).count();
    assert!(late.abs_diff(10_000) < 500 && twice.abs_diff(5_000) < 350, "{late} late, {twice} twice");
}

#[test]
fn a_burst_is_over_after_a_pause_and_the_share_stays() {
    let spec = BurstLoss { share: 0.06, length: 30.0 };
    let mut fates = FateSequence::new(&Impairments { burst_loss: Some(spec), ..Impairments::default() }, &Rng::new(5));
    let lost: Vec<bool> = (0..100_000).map(|n| fates.next(Instant::from_millis(n * 200), 1_500, 0.0).lost).collect();
    let share = lost.iter().filter(|lost| **lost).count() as f64 / 1e5;
    assert!((share - 0.06).abs() < 0.004, "{share}");
    let longest = lost.split(|lost| !lost).map(<[bool]>::len).max().unwrap();
    assert!(longest < 8, "{longest} in a row");
}
