use super::*;
use crate::config::At;
use weft_units::Rng;

fn link(name: &str, quota: Quota) -> Link {
    let name = At { value: name.to_owned(), span: 0..0 };
    let (tier, tcp) = (Some(weft_units::PathTier::Primary), Default::default());
    Link { name, max_rate_up: None, max_rate_up_at: Vec::new(), up: true, tier, quota: Some(quota), tcp }
}

fn quota(bytes: u64, per: QuotaPeriod, first_day: u8) -> Quota {
    Quota { bytes, per, first_day, reached: QuotaReached::Sparse }
}

/// Property: each byte that a link carried is counted once, in the period in which the node saw it.
///
/// This holds over restarts, boots, interfaces that are created anew, and clocks that are wrong for a while.
#[test]
fn usage_is_exact_whatever_restarts() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let per = if rng.chance(0.5) { QuotaPeriod::Day } else { QuotaPeriod::Month };
        let links = [link("wwan0", quota(1_000_000, per, 1 + rng.below(28) as u8))];
        let quota = links[0].quota.unwrap();
        let (mut quotas, mut boot, mut counter) = (Quotas::default(), 0, rng.below(1 << 40));
        let (mut unix_s, mut model) = (1_700_000_000 + rng.below(100_000_000), BTreeMap::<PeriodNumber, u64>::new());
        quotas.look(unix_s, "boot0", &links, |_| Some(counter));
        for _ in 0..300 {
            let more = rng.below(20_000);
            match rng.below(12) {
                0 => quotas = Quotas::parse(&quotas.lines().lines().map(str::to_owned).collect::<Vec<_>>()),
                1 => {
                    // A boot: the state was stored at the end, and the counters begin anew.
                    quotas = Quotas::parse(&quotas.lines().lines().map(str::to_owned).collect::<Vec<_>>());
                    (boot, counter) = (boot + 1, 0);
                }
                2 => counter = 0,
                3 => unix_s += rng.below(3 * 86_400),
                4 => {
                    let wrong = unix_s + rng.below(7 * 86_400);
                    let before = counter;
                    counter += more;
                    quotas.look(wrong, &format!("boot{boot}"), &links, |_| Some(counter));
                    *model.entry(PeriodNumber::of(wrong, &quota)).or_default() += counter - before;
                }
                _ => unix_s += rng.below(3_600),
            }
            let since = if quotas.links["wwan0"]
                .seen
                .as_ref()
                .is_some_and(|(of, seen)| *of == format!("boot{boot}") && *seen <= counter + more)
            {
                quotas.links["wwan0"].seen.as_ref().unwrap().1
            } else {
                0
            };
            counter += more;
            quotas.look(unix_s, &format!("boot{boot}"), &links, |_| Some(counter));
            *model.entry(PeriodNumber::of(unix_s, &quota)).or_default() += counter - since;
            let used = model[&PeriodNumber::of(unix_s, &quota)];
            assert_eq!(quotas.used(unix_s, "wwan0", &quota), used, "seed {seed}");
            let consequence = (used >= 1_000_000).then_some(QuotaReached::Sparse);
            assert_eq!(quotas.consequence(&links[0]), consequence, "seed {seed}: {used}");
        }
    }
}

#[test]
fn each_change_is_reported_once_and_a_new_period_begins_with_nothing() {
    let links = [link("wwan0", quota(1_000, QuotaPeriod::Month, 15))];
    let mut quotas = Quotas::default();
    // 2026-01-14, 2026-01-15 and 2026-02-14, at noon.
    let [before, first, last] = [1_768_392_000, 1_768_478_400, 1_771_070_400];
    let mut counter = 0;
    let mut standings = |at: u64, more: u64| -> Vec<QuotaUse> {
        counter += more;
        quotas.look(at, "b", &links, |_| Some(counter));
        quotas.take_changes().into_iter().map(|change| change.standing).collect()
    };
    assert_eq!(standings(before, 5_000), [], "nothing is known of the time before the first look");
    assert_eq!(standings(before, 799), []);
    assert_eq!(standings(before, 1), [QuotaUse::Near]);
    assert_eq!(standings(before, 199), []);
    assert_eq!(standings(before, 500), [QuotaUse::Reached]);
    assert_eq!(standings(before, 500), []);
    assert_eq!(standings(first, 10), [QuotaUse::Within]);
    assert_eq!(standings(last, 989), [QuotaUse::Near]);
    assert_eq!(standings(last, 1), [QuotaUse::Reached]);
}

#[test]
fn counters_are_read_from_the_kernel_s_table() {
    let text = "Inter-|   Receive                                                |  Transmit\n\
                 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n\
                    lo:  100       1    0    0    0     0          0         0      100       1    0    0\n\
                 wwan0: 5000000 9    0    0    0     0          0         0 2000      10    0    0\nbroken: 1 2\n";
    assert_eq!(counters(text), BTreeMap::from([("lo", 200), ("wwan0", 5_002_000)]));
}

#[test]
fn damaged_lines_are_left_out() {
    let lines = ["used wwan0 m24311 7", "used wwan0", "used wwan0 x1 7", "seen wwan0 b", "", "used eth0 d5 -1"];
    let quotas = Quotas::parse(&lines.map(str::to_owned));
    assert_eq!(quotas.lines(), "used wwan0 m24311 7\n");
}
