//! How long the packet loop's turns take. Within a turn nothing else is taken in.

use std::time::Duration;

/// A turn beyond this is heard in a call, and is counted.
const LONG: Duration = Duration::from_millis(50);

/// The turns since the start.
#[derive(Clone, Copy, Default, Debug)]
pub struct Turns {
    /// The longest one.
    pub longest: Duration,
    /// Those of more than 50 ms.
    pub long: u64,
}

impl Turns {
    /// Counts a turn.
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
        let mut turns = Turns::default();
        [1, 51, 50, 70, 3].iter().for_each(|ms| turns.note(Duration::from_millis(*ms)));
        assert_eq!((turns.longest, turns.long), (Duration::from_millis(70), 2));
    }
}
