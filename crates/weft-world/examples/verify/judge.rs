//! Functions that derive one figure from many.

/// Delay that loaded weft may add to a ping on any link, in ms.
const PING_ADDED_MS: f64 = 20.0;
/// Multiple of the link's jitter that loaded weft may add to a ping.
const PING_ADDED_JITTERS: f64 = 2.0;

/// Returns the percentage of the verdicts that are true, or `None` if there is no verdict.
pub fn share_percent(verdicts: impl IntoIterator<Item = bool>) -> Option<f64> {
    let (mut all, mut well) = (0_u32, 0_u32);
    for verdict in verdicts {
        all += 1;
        well += u32::from(verdict);
    }
    (all > 0).then(|| 100.0 * f64::from(well) / f64::from(all))
}

/// Returns the least value, or `None` if there is no value.
pub fn least(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    values.into_iter().reduce(f64::min)
}

/// Returns the greatest value, or `None` if there is no value.
pub fn greatest(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    values.into_iter().reduce(f64::max)
}

/// Returns weft's goodput divided by another goodput, both in bit/s.
///
/// If weft did not run, its goodput is zero. Returns `None` if the other goodput is zero: the ratio is then
/// undefined, and weft cannot be slower.
pub fn ratio(weft_bps: Option<f64>, other_bps: Option<f64>) -> Option<f64> {
    let other = other_bps.filter(|bps| *bps > 0.0)?;
    Some(weft_bps.unwrap_or(0.0) / other)
}

/// True if a ratio is at least `least`, or if there is no ratio.
pub fn reaches(ratio: Option<f64>, least: f64) -> bool {
    ratio.is_none_or(|ratio| ratio >= least)
}

/// Returns the largest p95 that a ping may have through loaded weft, in ms.
///
/// `idle_p95_ms` is the p95 of a ping on the idle link. The jitter is the difference between the idle p95 and
/// the base round trip. ITU-T Y.1541 defines delay variation in this way, as a quantile minus the minimum.
/// This covers every kind of link, including traces, handovers and held outages, whose jitter is not a setting
/// of a scenario.
pub fn ping_bound_ms(idle_p95_ms: f64, base_rtt_ms: f64) -> f64 {
    let jitter_ms = (idle_p95_ms - base_rtt_ms).max(0.0);
    idle_p95_ms + PING_ADDED_MS.max(PING_ADDED_JITTERS * jitter_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_counts_what_holds() {
        assert_eq!(share_percent([true, true, false, true]), Some(75.0));
        assert_eq!(share_percent([false]), Some(0.0));
        assert_eq!(share_percent([]), None);
    }

    #[test]
    fn extremes_are_found_anywhere() {
        assert_eq!(least([0.9, 0.4, 0.7]), Some(0.4));
        assert_eq!(greatest([0.4, 0.9, 0.7]), Some(0.9));
        assert_eq!((least([]), greatest([])), (None, None));
    }

    #[test]
    fn weft_that_did_not_run_carried_nothing() {
        assert_eq!(ratio(Some(5e6), Some(10e6)), Some(0.5));
        assert_eq!(ratio(None, Some(10e6)), Some(0.0));
        assert!(!reaches(ratio(None, Some(10e6)), 0.95));
    }

    #[test]
    fn weft_is_not_slower_than_a_link_that_carries_nothing() {
        assert_eq!(ratio(Some(1.0), Some(0.0)), None);
        assert!(reaches(ratio(None, Some(0.0)), 0.95));
        assert!(reaches(Some(0.95), 0.95) && !reaches(Some(0.9499), 0.95));
    }

    #[test]
    fn a_ping_may_take_20_ms_more_or_twice_the_jitter() {
        assert_eq!(ping_bound_ms(31.0, 30.0), 51.0);
        assert_eq!(ping_bound_ms(40.0, 30.0), 60.0);
        assert_eq!(ping_bound_ms(70.0, 30.0), 150.0);
        assert_eq!(ping_bound_ms(29.0, 30.0), 49.0, "a link is never faster than itself");
    }
}
