//! How many of a neighbour's probes are lost, and how long a run of them chance explains.

/// Weight of the newest probe in [`Loss::recent`]: about the last twenty count, as Chimera's SUCCESS_WINDOW.
const RECENT: f64 = 0.05;
/// What of a probe's weight the next one leaves in the long average, which is over about a hundred.
const KEEP: f64 = 0.99;
/// Probes, half of them lost, that a neighbour begins with (Chimera: ten failed and ten good).
const PRIOR: f64 = 20.0;
/// No neighbour is thought to lose less: a run of six still ends one that never lost anything.
const LEAST: f64 = 1.0 / 128.0;

/// Averages over the fates of probes: L ← (1 − α)·L + α·fate (SPECS §6.2).
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
    /// Takes in the fate of one probe.
    pub fn on_fate(&mut self, lost: bool) {
        let fate = f64::from(u8::from(lost));
        self.recent += RECENT * (fate - self.recent);
        self.lost = self.lost * KEEP + fate;
        self.total = self.total * KEEP + 1.0;
        self.prior *= KEEP;
    }

    /// The share lost of about the last twenty.
    pub fn recent(&self) -> f64 {
        self.recent
    }

    /// The share lost of about the last hundred, not below `least`.
    pub fn average(&self, least: f64) -> f64 {
        if self.total > 0.0 { (self.lost / self.total).max(least) } else { least }
    }

    /// As [`Loss::average`], and while there were few the doubtful prior counts: for questions where too low an answer does harm.
    pub fn cautious(&self) -> f64 {
        ((self.lost + self.prior / 2.0) / (self.total + self.prior)).max(LEAST)
    }
}

/// The least n with pⁿ ≤ `bound`: a run of that many is no chance any more, if each one has probability `p`.
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
