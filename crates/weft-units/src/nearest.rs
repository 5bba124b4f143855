//! The name that a misspelt one probably stands for.

use alloc::vec;
use alloc::vec::Vec;

/// Shortest beginning of a name that stands for the name, in characters.
const SHORTEST_BEGINNING: usize = 3;

/// Returns the entry of `known` that `word` probably stands for.
///
/// An entry is near if one edit leads from the word to it, or if the word is its beginning. It is also near if it has
/// the same first character and at most a third of its characters differ: `decrease` does not stand for `increase`.
/// The first of the nearest entries is returned.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let near = |candidate: &str| {
        let is_beginning = word.chars().count() >= SHORTEST_BEGINNING && candidate.starts_with(&word);
        let edits = if is_beginning { 1 } else { edits(&word, candidate) };
        let is_alike = candidate.chars().next() == word.chars().next() && 3 * edits <= candidate.chars().count();
        (edits <= 1 || is_alike).then_some(edits)
    };
    let near = known.into_iter().filter_map(|candidate| Some((near(candidate)?, candidate)));
    near.min_by_key(|(edits, _)| *edits).map(|(_, candidate)| candidate)
}

/// Returns the least number of edits between two words.
///
/// An edit inserts, removes or replaces a character, or swaps two neighbours (*standard*: the optimal string alignment
/// distance).
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    // Row `i` has the distances from the first `i` characters of `from` to each beginning of `to`.
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use proptest::prelude::*;

    #[test]
    fn edits_are_counted() {
        for (from, to, count) in [
            ("kitten", "sitting", 3),
            ("", "abc", 3),
            ("abc", "", 3),
            ("delay", "delay", 0),
            ("stauts", "status", 1),
            ("ca", "abc", 3),
        ] {
            assert_eq!(edits(from, to), count, "{from} {to}");
        }
    }

    #[test]
    fn only_what_is_near_is_proposed() {
        let known = ["schedule", "recovery", "listen", "key", "earliest-delivery", "weights", "increase"];
        for (word, found) in [
            ("Schedul", Some("schedule")),
            ("recvoery", Some("recovery")),
            ("listn", Some("listen")),
            ("kye", Some("key")),
            ("wieght", Some("weights")),
            ("decrease", None),
            ("earliest", Some("earliest-delivery")),
            ("zzz", None),
            ("k", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), found, "{word}");
        }
    }

    proptest! {
        #[test]
        fn a_swap_is_one_edit_and_both_ways_are_alike(word in "[a-f]{2,9}", other in "[a-f]{0,9}", at in 0..8usize) {
            prop_assert_eq!(edits(&word, &other), edits(&other, &word));
            let mut swapped: Vec<char> = word.chars().collect();
            let at = at % (swapped.len() - 1);
            swapped.swap(at, at + 1);
            prop_assert!(edits(&word, &swapped.into_iter().collect::<String>()) <= 1);
        }
    }
}
