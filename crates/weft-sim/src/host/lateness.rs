//! Measures how late segments arrive, in duplicate acknowledgments that they cause while they are missing.
//!
//! A threshold of duplicate acknowledgments below this lateness makes a sender retransmit without need.

/// The number of segments for each number of duplicate acknowledgments that a segment caused while it was missing.
///
/// If the receiver acknowledges every segment immediately, a missing segment causes as many of them as other segments
/// arrive while the acknowledgment number does not advance. Retransmissions are not included.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lateness {
    /// Number of segments, by the number of duplicate acknowledgments that each caused, from 0.
    by_duplicates: Vec<u64>,
}

impl Lateness {
    /// Records a segment that caused `duplicates` duplicate acknowledgments while it was missing.
    pub(super) fn note(&mut self, duplicates: usize) {
        if self.by_duplicates.len() <= duplicates {
            self.by_duplicates.resize(duplicates + 1, 0);
        }
        self.by_duplicates[duplicates] += 1;
    }

    /// Adds the counts of another receiver to these.
    pub fn add(&mut self, other: &Lateness) {
        let length = self.by_duplicates.len().max(other.by_duplicates.len());
        self.by_duplicates.resize(length, 0);
        self.by_duplicates.iter_mut().zip(&other.by_duplicates).for_each(|(own, count)| *own += count);
    }

    /// Returns the fraction of all counted segments that caused at least `duplicates` duplicate acknowledgments.
    ///
    /// A sender whose threshold is `duplicates` takes these segments for lost. The result is zero if no segment
    /// arrived.
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
