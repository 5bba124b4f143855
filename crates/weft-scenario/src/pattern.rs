//! Finds names by patterns such as `sat-*`, and checks names.

use crate::ScenarioError;
use crate::error::{Checked, Source, which_exist};
use toml::Spanned;

/// Maximum number of items of one kind in a file: nodes, links, flows and others.
///
/// A larger number is probably a typing mistake.
const MOST: usize = 100_000;

/// Returns true if `name` matches `pattern`, in which `*` matches any characters or none.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    let mut pieces = rest.split('*');
    let last = pieces.next_back().unwrap_or_default();
    for piece in pieces {
        let Some(at) = name.find(piece) else { return false };
        name = &name[at + piece.len()..];
    }
    name.ends_with(last)
}

/// Returns the indices of the `names` that a pattern matches, in order. It fails if there are none.
///
/// `what` is the kind of thing that they name, for error messages.
pub(crate) fn matching(
    source: &Source<'_>,
    pattern: &Spanned<String>,
    what: &str,
    names: &[String],
) -> Checked<Vec<usize>> {
    let text = pattern.get_ref();
    let found: Vec<usize> = (0..names.len()).filter(|number| matches(text, &names[*number])).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let all = names.iter().map(String::as_str);
    let message = match text.contains('*') {
        true => format!("no {what} matches the pattern `{text}`: correct the pattern"),
        false if names.is_empty() => format!("there is no {what} `{text}`, because the scenario has no {what}"),
        false => format!("there is no {what} `{text}`: {}", which_exist(text, all)),
    };
    Err(source.at(pattern, message))
}

/// Returns the index of the single node with this name.
pub(crate) fn node(source: &Source<'_>, name: &Spanned<String>, nodes: &[String]) -> Checked<usize> {
    let found = matching(source, name, "node", nodes)?;
    match found[..] {
        [node] => Ok(node),
        _ => Err(source.at(
            name,
            format!(
                "expected one node, but the pattern `{}` matches {} nodes: name one of them",
                name.get_ref(),
                found.len()
            ),
        )),
    }
}

/// Returns pairs of a node that the first pattern matches and a node that the second matches.
///
/// If one pattern matches a single node, that node is paired with each node of the other pattern. Otherwise the first
/// node is paired with the first, the second with the second, and so on.
pub(crate) fn pairs(
    source: &Source<'_>,
    from: &Spanned<String>,
    to: &Spanned<String>,
    nodes: &[String],
) -> Checked<Vec<(usize, usize)>> {
    let (a, b) = (matching(source, from, "node", nodes)?, matching(source, to, "node", nodes)?);
    let pairs: Vec<(usize, usize)> = match (&a[..], &b[..]) {
        ([one], many) => many.iter().map(|other| (*one, *other)).collect(),
        (many, [one]) => many.iter().map(|other| (*other, *one)).collect(),
        (many, others) if many.len() == others.len() => many.iter().copied().zip(others.iter().copied()).collect(),
        (many, others) => {
            let (first, second) = (from.get_ref(), to.get_ref());
            let message = format!(
                "`{first}` matches {} nodes and `{second}` matches {}: expected one node on either side, or as many \
                 on both",
                many.len(),
                others.len()
            );
            return Err(source.at(to, message));
        }
    };
    match pairs.iter().find(|(a, b)| a == b) {
        Some((node, _)) => Err(source.at(
            to,
            format!("both ends are node `{}`: give a link, tunnel or flow two different nodes as ends", nodes[*node]),
        )),
        None => Ok(pairs),
    }
}

/// Checks that a name contains only the characters that names may have. `what` names the kind of thing in the error.
pub(crate) fn sound_name(source: &Source<'_>, name: &Spanned<String>, what: &str) -> Checked<()> {
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
    if !name.get_ref().is_empty() && name.get_ref().len() <= 64 && name.get_ref().chars().all(sound) {
        return Ok(());
    }
    Err(source.at(name, format!("the name of a {what} must be 1 to 64 letters, digits, -, _ or .")))
}

/// Returns the name of item `number` of `count` items: `name` if `count` is 1, or else `name-0`, `name-1` and so on.
pub(crate) fn numbered(name: &str, number: usize, count: usize) -> String {
    if count == 1 { name.to_owned() } else { format!("{name}-{number}") }
}

/// The names of the items of one kind read so far, such as nodes. No two of them may have the same name.
pub(crate) struct Unique<'a> {
    what: &'a str,
    names: std::collections::BTreeSet<String>,
}

impl<'a> Unique<'a> {
    pub fn new(what: &'a str) -> Unique<'a> {
        Unique { what, names: std::collections::BTreeSet::new() }
    }

    /// Adds a name, or fails if it already exists or there are too many.
    ///
    /// `offset` is the byte offset in the file at which an error is reported.
    pub fn take(&mut self, source: &Source<'_>, offset: usize, name: &str) -> Result<(), ScenarioError> {
        let Unique { what, names } = self;
        if names.len() >= MOST {
            return Err(source.error(offset, format!("a scenario can have at most {MOST} {what}s: remove some")));
        }
        if !names.insert(name.to_owned()) {
            return Err(source.error(offset, format!("two {what}s have the name `{name}`: change one `name`")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, expected) in [
            ("s*", "s12", true),
            ("s*", "d1", false),
            ("*", "", true),
            ("r0", "r0", true),
            ("r0", "r01", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*-1", "in-1", true),
            ("*-1", "in-11", false),
            ("ab*b", "ab", false),
            ("**", "x", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
