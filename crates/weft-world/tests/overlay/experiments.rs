//! Small runs of the experiments that `examples/overlay.rs` runs at a large scale.

use weft_units::Duration;
use weft_world::overlay::{brownout, churn, deaths, for_seeds, percentile, quiet, scale};

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn disturbed_overlays_become_whole_again() {
    let all = for_seeds(0..24, threads(), churn::run);
    let broken: Vec<_> = all.iter().filter(|outcome| outcome.is_broken()).collect();
    assert!(broken.is_empty(), "{broken:?}");
    assert!(all.iter().all(churn::ChurnOutcome::has_few_hops));
    let lost: u64 = all.iter().map(|outcome| outcome.disturbed.1).sum();
    assert!(lost > 1_000, "so little disturbed proves little: {lost}");
}

#[test]
fn a_neighbour_that_the_nearest_cannot_reach_either_is_reached_over_others() {
    // In these seeds no node adjacent to the two ring neighbours reached both of them, and three relays were too few.
    for outcome in [2948, 7166].map(churn::run) {
        assert_eq!(outcome.around.1, 0, "{outcome:?}");
    }
}

#[test]
fn a_node_taken_for_dead_is_back_before_its_place_falls_vacant() {
    // In these seeds nodes still probed peers that had declared them dead, and got no answer.
    //
    // Their next attempt to join would have been up to eight seconds later.
    for outcome in [8960, 9350, 9721].map(churn::run) {
        assert_eq!(outcome.missing.0, 0, "{outcome:?}");
    }
}

#[test]
fn a_dead_relay_is_left_within_a_tenth_of_a_second_and_a_round_trip() {
    let gaps: Vec<_> = deaths::run(1, 50, 12).into_iter().filter(|gap| !gap.of_root).collect();
    let beyond: Vec<f64> = gaps.iter().map(|gap| gap.ms - gap.rtt_ms).collect();
    assert!(gaps.len() >= 20 && percentile(&beyond, 0.99) <= 100.0, "{gaps:?}");
}

#[test]
fn a_brownout_is_left_and_forgotten() {
    for outcome in for_seeds(0..4, threads(), |seed| brownout::run(seed, 20, Duration::from_secs(120), false)) {
        assert!(outcome.left && outcome.demoted_ms <= 1_500.0 && outcome.flaps <= 1, "{outcome:?}");
        assert!((100.0..60_000.0).contains(&outcome.back_ms), "{outcome:?}");
    }
}

#[test]
fn loss_and_jitter_cause_no_false_alarm() {
    let outcome = quiet::run(1, 12, Duration::from_secs(1_800), 0.2, Duration::from_millis(50));
    assert_eq!(outcome.false_alarms, 0);
    let (sent, came) = outcome.packets;
    assert!(came > sent / 2, "{outcome:?}");
}

#[test]
fn state_grows_with_the_logarithm() {
    let [few, many] = [60, 400].map(|nodes| scale::run(1, nodes, 1_000));
    let mean =
        |outcome: &scale::ScaleOutcome| outcome.members.iter().sum::<u32>() as f64 / outcome.members.len() as f64;
    assert!(mean(&many) < 2.5 * mean(&few), "{} and {} members", mean(&few), mean(&many));
    for outcome in [few, many] {
        assert_eq!((outcome.lost, outcome.missing.0), (0, 0));
        assert!(f64::from(percentile(&outcome.hops, 0.95)) <= f64::from(outcome.nodes).log(16.0) + 2.0);
    }
}

#[test]
fn a_seed_always_does_the_same() {
    let [a, b] = [churn::run(5), churn::run(5)];
    assert_eq!(format!("{a:?}"), format!("{b:?}"));
}
