//! Medians and percentiles.

/// The median; the mean of the two middle values if their number is even; none of none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[upper]),
        _ => Some((sorted[upper - 1] + sorted[upper]) / 2.0),
    }
}

/// The value below which `share` (of one) of the values lie, by the nearest-rank method; none of none.
pub fn percentile(values: impl IntoIterator<Item = f64>, share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).or(sorted.last()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_numbers() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([]), None);
    }

    #[test]
    fn percentiles_by_nearest_rank() {
        let hundred = || (1..=100).map(f64::from);
        assert_eq!(percentile(hundred(), 0.95), Some(95.0));
        assert_eq!(percentile(hundred(), 0.0), Some(1.0));
        assert_eq!(percentile(hundred(), 1.0), Some(100.0));
        assert_eq!(percentile([], 0.5), None);
    }
}
