//! Stores the ranges of data that arrived beyond a gap.

/// Maximum number of ranges that one acknowledgment reports (SACK blocks).
const REPORTED: usize = 3;

/// The ranges of received bytes beyond the first gap, in order of sequence numbers.
///
/// Ranges that touch are joined.
#[derive(Clone, Debug, Default)]
pub(super) struct Reassembly {
    runs: Vec<(u64, u64)>,
    /// One byte of each recently extended range, the most recent first (RFC 2018 §4).
    touched: [Option<u64>; REPORTED],
}

impl Reassembly {
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the index of the first range that ends at or after `seq`.
    fn position(&self, seq: u64) -> usize {
        self.runs.partition_point(|&(_, end)| end < seq)
    }

    /// Adds `start..end`, and returns false if all of it was present.
    pub fn insert(&mut self, start: u64, end: u64) -> bool {
        let first = self.position(start);
        let mut run = (start, end);
        let mut last = first;
        while let Some(&(s, e)) = self.runs.get(last)
            && s <= end
        {
            if s <= start && end <= e {
                self.touch(start);
                return false;
            }
            run = (run.0.min(s), run.1.max(e));
            last += 1;
        }
        if last == first {
            self.runs.insert(first, run);
        } else {
            self.runs.drain(first + 1..last);
            self.runs[first] = run;
        }
        self.touch(start);
        true
    }

    /// Moves the range that contains `seq` to the front of the recently extended ranges.
    fn touch(&mut self, seq: u64) {
        let at = self.run_of(seq);
        let mut kept = self.touched.iter().flatten().copied().filter(|&old| self.run_of(old) != at);
        let mut touched = [Some(seq), None, None];
        touched[1..].fill_with(|| kept.next());
        self.touched = touched;
    }

    fn run_of(&self, seq: u64) -> Option<(u64, u64)> {
        let at = self.runs.partition_point(|&(_, end)| end <= seq);
        self.runs.get(at).copied().filter(|&(start, _)| start <= seq)
    }

    /// Removes all ranges that begin at or before `seq`, because all data before `seq` has arrived.
    ///
    /// It returns the sequence number up to which the data is now complete.
    pub fn advance(&mut self, seq: u64) -> u64 {
        let joined = self.runs.partition_point(|&(start, _)| start <= seq);
        self.runs.drain(..joined).next_back().map_or(seq, |(_, end)| end.max(seq))
    }

    /// Returns the ranges that an acknowledgment reports, the most recently extended first.
    pub fn recent(&self) -> impl Iterator<Item = (u64, u64)> {
        self.touched.iter().flatten().filter_map(|&seq| self.run_of(seq))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent(r: &Reassembly) -> Vec<(u64, u64)> {
        r.recent().collect()
    }

    #[test]
    fn runs_join_and_the_latest_is_reported_first() {
        let mut r = Reassembly::default();
        assert!(r.insert(10, 20) && r.insert(30, 40) && r.insert(50, 60) && r.insert(70, 80));
        assert_eq!(recent(&r), [(70, 80), (50, 60), (30, 40)]);
        assert!(r.insert(20, 30));
        assert_eq!(recent(&r), [(10, 40), (70, 80), (50, 60)]);
        assert!(!r.insert(12, 15));
        assert_eq!(r.runs, [(10, 40), (50, 60), (70, 80)]);
        assert!(r.insert(45, 75));
        assert_eq!((r.runs.as_slice(), recent(&r)), (&[(10, 40), (45, 80)][..], vec![(45, 80), (10, 40)]));
    }

    #[test]
    fn a_segment_in_order_delivers_the_run_that_it_joins() {
        let mut r = Reassembly::default();
        r.insert(10, 20);
        r.insert(30, 40);
        assert_eq!(r.advance(5), 5);
        assert_eq!(r.advance(10), 20);
        assert_eq!(recent(&r), [(30, 40)]);
        assert_eq!(r.advance(45), 45);
        assert!(r.is_empty() && recent(&r).is_empty());
    }
}
