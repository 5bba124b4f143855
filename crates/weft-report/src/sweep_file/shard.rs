//! The part of a sweep that one machine runs.

use std::fmt;
use std::str::FromStr;

/// Part `index` of `count`, written `index/count`.
///
/// The index counts from 0, as in Kubernetes' indexed jobs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Shard {
    index: u32,
    count: u32,
}

impl Shard {
    /// The whole sweep as one part.
    pub const WHOLE: Shard = Shard { index: 0, count: 1 };

    /// True if the mix at `position` (from 0) in the sweep belongs to this part.
    ///
    /// Adjacent mixes go to different parts, so that all parts take about the same time.
    pub fn takes(self, position: u32) -> bool {
        position % self.count == self.index
    }

    /// Returns all parts of a sweep that is divided into `count` parts, this one included.
    pub(super) fn siblings(self) -> impl Iterator<Item = Shard> {
        (0..self.count).map(move |index| Shard { index, ..self })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) if index < count => Ok(Shard { index, count }),
            Some((_, count @ 1..)) => {
                Err(format!("parts are counted from 0: the last of {count} parts is {}/{count}", count - 1))
            }
            _ => Err("expected INDEX/COUNT, such as 0/8 for the first of 8 parts".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_the_mixes_out() {
        let parts: Vec<Shard> = "0/3".parse::<Shard>().unwrap().siblings().collect();
        for position in 0..10 {
            assert_eq!(parts.iter().filter(|part| part.takes(position)).count(), 1);
        }
        assert!((0..10).all(|position| Shard::WHOLE.takes(position)));
    }

    #[test]
    fn a_wrong_shard_is_refused_with_an_example() {
        let why = |text: &str| text.parse::<Shard>().unwrap_err();
        assert_eq!(why("8/8"), "parts are counted from 0: the last of 8 parts is 7/8");
        assert!(["", "3", "-1/4", "0/0", "a/b"].iter().all(|text| why(text).contains("INDEX/COUNT")));
    }
}
