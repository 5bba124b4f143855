//! Averages of the loss of probes to a neighbour, and the number of losses in a row that chance does not explain.

/// Weight of the newest probe in [`Loss::recent`].
///
/// The average thus covers about the last twenty probes. *Standard*: the SUCCESS_WINDOW of Chimera, an overlay library.
const RECENT: f64 = 0.05;
/// Factor by which earlier results in [`Loss::average`] fade with each probe.
///
/// The average covers about the last hundred probes.
const KEEP: f64 = 0.99;
/// Number of probes that are assumed before the first real one, half of them lost.
///
/// *Standard*: Chimera, an overlay library, assumes ten failed and ten good ones.
const PRIOR: f64 = 20.0;
/// Minimum of [`Loss::cautious`], the loss assumed for any neighbour, as a fraction.
///
/// With this minimum, six lost probes in a row mark a link as down that never lost a probe before.
const LEAST: f64 = 1.0 / 128.0;

/// Moving averages over the results of probes: L ← (1 − α)·L + α·x.
///
/// x is 1 if the probe was lost, and 0 otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    recent: f64,
    lost: f64,
    total: f64,
    prior: f64,
}

impl Default for Loss {
    fn default() -> Loss {
        Loss { recent: 0.0, lost: 0.0, total: 0.0, prior: PRIOR }
    }
}

impl Loss {
    /// Adds the result of one probe to the averages.
    pub fn on_fate(&mut self, lost: bool) {
        let fate = f64::from(u8::from(lost));
        self.recent += RECENT * (fate - self.recent);
        self.lost = self.lost * KEEP + fate;
        self.total = self.total * KEEP + 1.0;
        self.prior *= KEEP;
    }

    /// Fraction of about the last twenty probes that was lost.
    pub fn recent(&self) -> f64 {
        self.recent
    }

    /// Fraction of about the last hundred probes that was lost, at least `least`.
    pub fn average(&self, least: f64) -> f64 {
        if self.total > 0.0 { (self.lost / self.total).max(least) } else { least }
    }

    /// Returns the loss over about a hundred probes, including the assumed first ones, as a fraction.
    ///
    /// Use it where an estimate that is too low does harm.
    pub fn cautious(&self) -> f64 {
        ((self.lost + self.prior / 2.0) / (self.total + self.prior)).max(LEAST)
    }
}

/// Returns the least n with pⁿ ≤ `bound`.
///
/// It is the shortest run of events of probability `p` that chance does not explain.
pub fn run_length(p: f64, bound: f64) -> u32 {
    let p = p.clamp(1e-6, 0.9);
    libm::ceil(libm::log(bound) / libm::log(p)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_grow_with_the_probability() {
        assert_eq!((run_length(0.1, 1.1e-3), run_length(0.1, 0.9e-3)), (3, 4));
        assert_eq!((run_length(LEAST, 1e-12), run_length(0.36, 1e-12), run_length(0.5, 1e-12)), (6, 28, 40));
        assert_eq!(run_length(1.0, 1e-12), run_length(0.9, 1e-12), "bounded");
    }

    #[test]
    fn a_neighbour_begins_doubtful_and_earns_its_trust() {
        let mut loss = Loss::default();
        assert_eq!((loss.recent(), loss.average(0.0), loss.cautious()), (0.0, 0.0, 0.5));
        for n in 0..1_000 {
            let before = loss.cautious();
            loss.on_fate(false);
            assert!(loss.cautious() < before || n > 100);
        }
        assert_eq!(loss.cautious(), LEAST);
        for n in 0..4_000 {
            loss.on_fate(n % 4 == 0);
        }
        assert!((loss.average(0.0) - 0.25).abs() < 0.01 && (loss.cautious() - 0.25).abs() < 0.01);
        assert!((loss.recent() - 0.25).abs() < 0.05);
    }
}
