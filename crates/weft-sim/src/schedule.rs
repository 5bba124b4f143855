//! Who is next: a tournament among the times of all sources of events.

use weft_units::Instant;

#[derive(Clone, Copy)]
struct Entrant {
    at: Instant,
    source: u32,
}

impl Entrant {
    const NOBODY: Entrant = Entrant { at: Instant::FAR_FUTURE, source: u32::MAX };
}

/// One next time for each source; the earliest is known at once, and a change costs the logarithm of the number of sources.
///
/// Sources of equal times come in the order of their numbers.
pub(crate) struct Schedule {
    /// A winner tree: the children of `i` are `2i` and `2i + 1`, the sources are the second half.
    tree: Vec<Entrant>,
    sources: u32,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule::new()
    }
}

impl Schedule {
    pub(crate) fn new() -> Schedule {
        Schedule { tree: vec![Entrant::NOBODY; 2], sources: 0 }
    }

    /// A new source, with nothing to do yet.
    pub(crate) fn add(&mut self) -> u32 {
        let source = self.sources;
        self.sources += 1;
        if self.sources as usize > self.leaves() {
            self.grow();
        }
        let leaf = self.leaves() + source as usize;
        self.tree[leaf].source = source;
        source
    }

    fn leaves(&self) -> usize {
        self.tree.len() / 2
    }

    fn grow(&mut self) {
        let old = self.tree[self.leaves()..].to_vec();
        let leaves = old.len() * 2;
        self.tree = vec![Entrant::NOBODY; 2 * leaves];
        self.tree[leaves..leaves + old.len()].copy_from_slice(&old);
        for node in (1..leaves).rev() {
            self.tree[node] = self.winner(node);
        }
    }

    fn winner(&self, node: usize) -> Entrant {
        let (left, right) = (self.tree[2 * node], self.tree[2 * node + 1]);
        if right.at < left.at { right } else { left }
    }

    /// Sets when `source` is next; [`Instant::FAR_FUTURE`] for never.
    pub(crate) fn set(&mut self, source: u32, at: Instant) {
        let mut node = self.leaves() + source as usize;
        if self.tree[node].at == at {
            return;
        }
        self.tree[node].at = at;
        while node > 1 {
            node /= 2;
            let (before, winner) = (self.tree[node], self.winner(node));
            self.tree[node] = winner;
            if winner.source == before.source && winner.at == before.at {
                return;
            }
        }
    }

    /// The earliest source and its time.
    pub(crate) fn first(&self) -> (Instant, u32) {
        let first = self.tree[1];
        (first.at, first.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    #[test]
    fn the_earliest_comes_first_and_ties_go_by_number() {
        let (mut schedule, mut rng) = (Schedule::new(), Rng::new(3));
        let mut times: Vec<Instant> = Vec::new();
        for step in 0..20_000 {
            if step % 200 == 0 {
                assert_eq!(schedule.add() as usize, times.len());
                times.push(Instant::FAR_FUTURE);
            }
            let source = rng.below(times.len() as u64) as usize;
            times[source] = Instant::from_nanos(rng.below(50));
            schedule.set(source as u32, times[source]);
            let least = (0..times.len()).min_by_key(|&s| times[s]).unwrap();
            assert_eq!(schedule.first(), (times[least], least as u32));
        }
    }

    #[test]
    fn an_empty_schedule_has_nothing_to_do() {
        assert_eq!(Schedule::new().first().0, Instant::FAR_FUTURE);
    }
}
