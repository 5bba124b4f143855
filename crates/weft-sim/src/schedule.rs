//! Who is next: a tournament among the times of all sources of events.

use weft_units::{Duration, Instant};

/// How long a simulation can last: 4.8 hours. What is later never happens.
pub const LONGEST: Duration = Duration::from_nanos(u64::MAX >> SOURCE_BITS);

/// A time and a source in one number, so that ties go by source: 44 bits of nanoseconds are 4.8 hours, 20 bits a million sources.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entrant(u64);

const SOURCE_BITS: u32 = 20;

impl Entrant {
    const NOBODY: Entrant = Entrant(u64::MAX);

    /// What is later than can be told is never.
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

/// How many play in a match.
const SIDES: usize = 4;

/// One next time for each source; the earliest is known at once, and a change costs the logarithm of the number of sources.
///
/// Sources of equal times come in the order of their numbers.
pub(crate) struct Schedule {
    /// A tree of matches in rounds, the final first: the winner of match `m` is player `m` of the round before; the players of the last
    /// round are the sources.
    matches: Vec<[Entrant; SIDES]>,
    /// The first match of the last round.
    last_round: usize,
    sources: u32,
    /// Who won the final.
    first: Entrant,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule::new()
    }
}

impl Schedule {
    pub(crate) fn new() -> Schedule {
        Schedule { matches: vec![[Entrant::NOBODY; SIDES]], last_round: 0, sources: 0, first: Entrant::NOBODY }
    }

    /// A new source, with nothing to do yet.
    ///
    /// # Panics
    /// When there are a million.
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

    /// One round more.
    fn grow(&mut self) {
        let players = self.matches.split_off(self.last_round);
        self.last_round += players.len();
        self.matches = vec![[Entrant::NOBODY; SIDES]; self.last_round + players.len() * SIDES];
        for (source, entrant) in players.into_iter().flatten().enumerate() {
            self.replay(source as u32, entrant);
        }
    }

    /// Sets when `source` is next; [`Instant::FAR_FUTURE`] for never.
    #[inline]
    pub(crate) fn set(&mut self, source: u32, at: Instant) {
        let entrant = Entrant::new(at, source);
        let player = source as usize;
        if self.matches[self.last_round + player / SIDES][player % SIDES] != entrant {
            self.replay(source, entrant);
        }
    }

    /// Plays the matches between a source's first and the final anew.
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

    /// The earliest source and its time; [`Instant::FAR_FUTURE`] if none has anything to do.
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
