//! Determines the next event source with a tournament over the times of all sources.

use weft_units::{Duration, Instant, Join, Tournament};

/// Maximum duration of a simulation: 4.8 hours.
///
/// Derived from the 44 bits of a time. Later events never happen.
pub const LONGEST: Duration = Duration::from_nanos(u64::MAX >> SOURCE_BITS);

/// A time and a source in one number, so that ties are decided by the source.
///
/// 44 bits of nanoseconds are 4.8 hours, and 20 bits are a million sources.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entrant(u64);

const SOURCE_BITS: u32 = 20;

impl Entrant {
    /// Combines a time and a source.
    ///
    /// A time beyond the range means never.
    fn new(at: Instant, source: u32) -> Entrant {
        let nanos = at.as_nanos().min(u64::MAX >> SOURCE_BITS);
        Entrant(nanos << SOURCE_BITS | u64::from(source))
    }

    fn at(self) -> Instant {
        match self.0 >> SOURCE_BITS {
            never if never == u64::MAX >> SOURCE_BITS => Instant::FAR_FUTURE,
            nanos => Instant::from_nanos(nanos),
        }
    }

    fn source(self) -> u32 {
        self.0 as u32 & ((1 << SOURCE_BITS) - 1)
    }
}

/// Combines two entrants to the earlier one.
impl Join for Entrant {
    const NOTHING: Entrant = Entrant(u64::MAX);

    fn join(self, other: Entrant) -> Entrant {
        self.min(other)
    }
}

/// Stores the next time of each source.
///
/// The earliest time is known at once. A change costs the logarithm of the number of sources. Sources with equal times
/// follow in the order of their numbers.
#[derive(Default)]
pub(crate) struct SourceSchedule {
    tournament: Tournament<Entrant>,
    sources: u32,
}

impl SourceSchedule {
    pub(crate) fn new() -> SourceSchedule {
        SourceSchedule::default()
    }

    /// Adds a source without a pending event.
    ///
    /// # Panics
    /// Panics if there are already a million sources.
    pub(crate) fn add(&mut self) -> u32 {
        let source = self.sources;
        assert!(source < (1 << SOURCE_BITS) - 1, "too many nodes and links");
        self.sources += 1;
        self.set(source, Instant::FAR_FUTURE);
        source
    }

    /// Sets the next time of `source`, or [`Instant::FAR_FUTURE`] for never.
    #[inline]
    pub(crate) fn set(&mut self, source: u32, at: Instant) {
        self.tournament.set(source as usize, Entrant::new(at, source));
    }

    /// Returns the earliest source and its time.
    ///
    /// The time is [`Instant::FAR_FUTURE`] if no source has a pending event.
    #[inline]
    pub(crate) fn first(&self) -> (Instant, u32) {
        let first = self.tournament.total();
        (first.at(), first.source())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    #[test]
    fn the_earliest_comes_first_and_ties_go_by_number() {
        let (mut schedule, mut rng) = (SourceSchedule::new(), Rng::new(3));
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
        assert_eq!(SourceSchedule::new().first().0, Instant::FAR_FUTURE);
    }
}
