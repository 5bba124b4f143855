//! Durations of the packet loop's turns. During a turn the loop receives nothing else.

use std::time::Duration;

/// Duration above which a turn is counted as long: such a pause is audible in a telephone call.
const LONG: Duration = Duration::from_millis(50);

/// Statistics of the turns since the start.
#[derive(Clone, Copy, Default, Debug)]
pub struct TurnTimes {
    /// Duration of the longest turn.
    pub longest: Duration,
    /// Number of turns of more than 50 ms.
    pub long: u64,
}

impl TurnTimes {
    /// Records the duration of a turn.
    pub fn note(&mut self, took: Duration) {
        self.longest = self.longest.max(took);
        self.long += u64::from(took > LONG);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_kept_and_long_ones_are_counted() {
        let mut turns = TurnTimes::default();
        [1, 51, 50, 70, 3].iter().for_each(|ms| turns.note(Duration::from_millis(*ms)));
        assert_eq!((turns.longest, turns.long), (Duration::from_millis(70), 2));
    }
}
