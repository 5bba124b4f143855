//! Routes that members of an overlay find by themselves. `make verify TOPIC=papers` has the large runs.

use weft_units::Duration;
use weft_world::found_routes::{deaths, knowledge, two_routes};

#[test]
fn two_relayed_routes_without_a_common_relay_carry_what_both_have() {
    let bps = two_routes(1);
    assert!(bps >= 0.9 * 80e6, "{:.1} Mbit/s", bps / 1e6);
}

#[test]
fn a_dead_relay_leaves_a_short_gap() {
    let gaps = deaths(1, 16, 4);
    assert!(gaps.len() == 4, "{gaps:?}");
    assert!(gaps.iter().all(|death| death.gap <= death.rtt + Duration::from_millis(100)), "{gaps:?}");
}

#[test]
fn members_know_all_links_after_ten_seconds() {
    for seed in 1..=3 {
        let known = knowledge(seed, 24, Duration::from_secs(10));
        assert!(known.least_known >= 0.99 && known.least_right >= 0.95, "seed {seed}: {known:?}");
    }
}
