//! Computes medians, percentiles and Jain's index.

/// Returns the median, or `None` if there are no values.
///
/// With an even number of values it is the mean of the two middle ones.
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

/// Returns the value at or below which the fraction `share` of the values lies.
///
/// Returns `None` if there are no values.
///
/// It is the nearest value of the sorted list (nearest-rank method). `share` lies between 0 and 1.
pub fn percentile(values: impl IntoIterator<Item = f64>, share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).or(sorted.last()).copied()
}

/// Returns Jain's fairness index of the values: 1 if all are equal, and less the more they differ.
///
/// Returns `None` if there are fewer than two values or all are zero.
///
/// Source: Jain, Chiu and Hawe, DEC-TR-301, 1984.
pub fn jain(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut count, mut sum, mut squares) = (0u32, 0.0, 0.0);
    for value in values {
        (count, sum, squares) = (count + 1, sum + value, squares + value * value);
    }
    (count > 1 && squares > 0.0).then(|| sum * sum / (f64::from(count) * squares))
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
    fn jain_s_index_is_one_if_all_are_equal() {
        assert_eq!(jain([3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain([1.0, 0.0]), Some(0.5));
        assert_eq!([jain([1.0]), jain([0.0, 0.0])], [None, None]);
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
