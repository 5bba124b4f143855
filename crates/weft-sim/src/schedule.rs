//! Determines which of many event sources has the next event, with a tournament tree over their times.

use weft_units::{Duration, Instant};

/// Maximum duration of a simulation: 4.8 hours.
///
/// Derived from the 44 bits of a time. Later events never happen.
pub const LONGEST: Duration = Duration::from_nanos(u64::MAX >> SOURCE_BITS);

/// The time of a source's next event and the number of the source, combined in one number.
///
/// Of two sources with the same time, the one with the lower number is thus first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entrant(u64);

const SOURCE_BITS: u32 = 20;

impl Entrant {
    const NOBODY: Entrant = Entrant(u64::MAX);

    /// Combines the time of a source's next event and the source's number.
    ///
    /// A time of [`LONGEST`] or later counts as never.
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

/// Number of entrants in one match of the tournament tree. They are sources, or winners of other matches.
const SIDES: usize = 4;

/// The time of the next event of each source.
///
/// Reading the earliest time takes constant time. A change takes time proportional to the logarithm of the number of
/// sources. Sources with equal times follow in the order of their numbers.
pub(crate) struct SourceSchedule {
    /// The matches of the tournament tree in rounds. The final is first.
    ///
    /// The matches of one round decide about the entrants of the round before it in this array. The entrants of the
    /// last round in the array are the sources.
    matches: Vec<[Entrant; SIDES]>,
    /// Index in `matches` of the first match of the last round.
    last_round: usize,
    sources: u32,
    /// Winner of the final: the source with the earliest time, and this time.
    first: Entrant,
}

impl Default for SourceSchedule {
    fn default() -> SourceSchedule {
        SourceSchedule::new()
    }
}

impl SourceSchedule {
    pub(crate) fn new() -> SourceSchedule {
        SourceSchedule { matches: vec![[Entrant::NOBODY; SIDES]], last_round: 0, sources: 0, first: Entrant::NOBODY }
    }

    /// Adds a source without a pending event.
    ///
    /// # Panics
    /// Panics if there are already a million sources.
    pub(crate) fn add(&mut self) -> u32 {
        let source = self.sources;
        assert!(source < (1 << SOURCE_BITS) - 1, "too many nodes and links");
        self.sources += 1;
        if self.sources as usize > (self.matches.len() - self.last_round) * SIDES {
            self.grow();
        }
        self.replay(source, Entrant::new(Instant::FAR_FUTURE, source));
        source
    }

    /// Adds one round to the tree, so that four times as many sources fit.
    fn grow(&mut self) {
        let players = self.matches.split_off(self.last_round);
        self.last_round += players.len();
        self.matches = vec![[Entrant::NOBODY; SIDES]; self.last_round + players.len() * SIDES];
        for (source, entrant) in players.into_iter().flatten().enumerate() {
            self.replay(source as u32, entrant);
        }
    }

    /// Sets the time of the next event of `source`. [`Instant::FAR_FUTURE`] means that it has none.
    #[inline]
    pub(crate) fn set(&mut self, source: u32, at: Instant) {
        let entrant = Entrant::new(at, source);
        let player = source as usize;
        if self.matches[self.last_round + player / SIDES][player % SIDES] != entrant {
            self.replay(source, entrant);
        }
    }

    /// Plays all matches of the tree again on which `source` has influence, from its own one to the final.
    ///
    /// `entrant` is the source with its new time.
    #[inline]
    fn replay(&mut self, source: u32, entrant: Entrant) {
        let matches = &mut self.matches[..];
        let (mut winner, mut side, mut game) =
            (entrant, source as usize % SIDES, self.last_round + source as usize / SIDES);
        loop {
            let players = &mut matches[game];
            players[side] = winner;
            let [a, b, c, d] = *players;
            winner = a.min(b).min(c.min(d));
            if game == 0 {
                break;
            }
            (side, game) = ((game - 1) % SIDES, (game - 1) / SIDES);
        }
        self.first = winner;
    }

    /// Returns the earliest time of all sources, and the source that has it.
    ///
    /// The time is [`Instant::FAR_FUTURE`] if no source has a pending event.
    pub(crate) fn first(&self) -> (Instant, u32) {
        (self.first.at(), self.first.source())
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
