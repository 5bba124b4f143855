//! Means with confidence intervals, and the straightness of a line.

/// A mean, and half the width of its 95 % confidence interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The mean over the seeds.
    pub mean: f64,
    /// Half the width of the interval (Student's t). Zero for a single value.
    pub half_width: f64,
}

/// The 0.975 quantiles of Student's t distribution for 1 to 30 degrees of freedom.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
/// The 0.975 quantile of the normal distribution, for more than 30 degrees of freedom.
const Z_975: f64 = 1.96;

impl Estimate {
    /// Returns the estimate of a value that does not depend on chance: its interval has no width.
    pub fn exact(value: f64) -> Estimate {
        Estimate { mean: value, half_width: 0.0 }
    }

    /// Returns the estimate from one value for each seed. The mean is NaN if there are no values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Estimate {
        let values: Vec<f64> = values.into_iter().collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let Some(freedom) = values.len().checked_sub(2) else { return Estimate::exact(mean) };
        let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (count - 1.0);
        let quantile = T_975.get(freedom).copied().unwrap_or(Z_975);
        Estimate { mean, half_width: quantile * (variance / count).sqrt() }
    }

    /// Returns the lower and the upper end of the 95 % confidence interval.
    pub fn interval(self) -> [f64; 2] {
        [self.mean - self.half_width, self.mean + self.half_width]
    }
}

/// Returns how straight the line through these points is: the coefficient of determination R².
///
/// It is that of the best-fitting straight line (least squares), from 0 to 1.
pub fn r_squared(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let sum = |term: fn(f64, f64) -> f64| points.iter().map(|(x, y)| term(x - mean_x, y - mean_y)).sum::<f64>();
    let (xx, xy, yy) = (sum(|x, _| x * x), sum(|x, y| x * y), sum(|_, y| y * y));
    xy * xy / (xx * yy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_student() {
        let five = Estimate::of([9.0, 10.0, 11.0, 10.0, 10.0]);
        assert_eq!(five.mean, 10.0);
        // The standard deviation is s = √0.5, so s/√5 = 0.31623, and the quantile is t(4) = 2.776.
        assert!((five.half_width - 0.878).abs() < 1e-3);
        assert_eq!(Estimate::of([3.0]), Estimate::exact(3.0));
        let many = Estimate::of((0..1_000).map(|n| f64::from(n % 2)));
        assert!((many.half_width - 1.96 * 0.5 / 1_000f64.sqrt()).abs() < 1e-4);
    }

    #[test]
    fn a_straight_line_has_r_squared_one() {
        assert!((r_squared(&[(1.0, 3.0), (2.0, 5.0), (3.0, 7.0)]) - 1.0).abs() < 1e-12);
        // Around the means, Σx² = 2, Σxy = 1 and Σy² = 2/3, so R² = 1/(2 · 2/3).
        assert!((r_squared(&[(1.0, 0.0), (2.0, 1.0), (3.0, 1.0)]) - 0.75).abs() < 1e-12);
    }
}
