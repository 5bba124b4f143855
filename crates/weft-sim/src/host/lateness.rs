//! How late segments come: what a duplicate-acknowledgment threshold is up against.

/// Segments by the duplicate acknowledgments that they provoke by being late, if every segment is acknowledged at once: those that came
/// since the acknowledgment number last moved. Retransmissions do not count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lateness {
    /// Segments by their duplicates.
    by_duplicates: Vec<u64>,
}

impl Lateness {
    /// A segment came, `duplicates` having been provoked until then.
    pub(super) fn note(&mut self, duplicates: usize) {
        if self.by_duplicates.len() <= duplicates {
            self.by_duplicates.resize(duplicates + 1, 0);
        }
        self.by_duplicates[duplicates] += 1;
    }

    /// Adds what another receiver saw.
    pub fn add(&mut self, other: &Lateness) {
        let length = self.by_duplicates.len().max(other.by_duplicates.len());
        self.by_duplicates.resize(length, 0);
        self.by_duplicates.iter_mut().zip(&other.by_duplicates).for_each(|(own, count)| *own += count);
    }

    /// The share of segments that provoke at least so many duplicates: fast retransmit with this threshold takes them for lost. Zero
    /// where nothing came.
    pub fn share_of_at_least(&self, duplicates: usize) -> f64 {
        let all: u64 = self.by_duplicates.iter().sum();
        let late: u64 = self.by_duplicates.iter().skip(duplicates).sum();
        late as f64 / all.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_segments_of_all_receivers() {
        let (mut a, mut b) = (Lateness::default(), Lateness::default());
        assert_eq!(a.share_of_at_least(1), 0.0);
        [0, 0, 3].into_iter().for_each(|duplicates| a.note(duplicates));
        b.note(7);
        a.add(&b);
        assert_eq!([0, 1, 3, 4, 7, 8].map(|n| a.share_of_at_least(n)), [1.0, 0.5, 0.5, 0.25, 0.25, 0.0]);
    }
}
