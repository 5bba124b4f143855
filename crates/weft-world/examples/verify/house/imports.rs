//! Checks that imports between the engine's modules have one direction and form no circle.
//!
//! A module here is a module directly below the engine's `src`. An import is a `use` of `crate::` or `super::`, or
//! such a path in code. The crate's root re-exports public names. An import of such a name is treated as an import of
//! the module that defines the name.

use super::sources::{Source, sources};
use crate::check::{Bound, Check};
use crate::topic::Context;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// A graph of names: each module with the modules that it imports.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Checks that the imports between the engine's modules form no circle.
pub fn imports(_: &Context) -> Vec<Check> {
    let sources = sources();
    let engine: Vec<&Source> =
        sources.iter().filter(|s| s.path.starts_with("crates/weft-engine/src") && s.is_shipped()).collect();
    let circles = circles(&rooms(&engine));
    let tied: usize = circles.iter().map(Vec::len).sum();
    vec![
        Check::new("rooms of the engine that circles of imports tie", Some(tied as f64), Bound::AtMost(0.0), "rooms")
            .with(json!(circles)),
    ]
}

/// Returns each module with the modules that it imports.
fn rooms(sources: &[&Source]) -> Graph {
    let reexports = reexports(sources);
    let mut graph = Graph::new();
    for source in sources {
        let Some(room) = room_of(source) else { continue };
        let own = graph.entry(room.clone()).or_default();
        for name in imported(source.code()) {
            let target = reexports.get(&name).cloned().unwrap_or(name);
            if target != room {
                own.insert(target);
            }
        }
    }
    let known: BTreeSet<String> = graph.keys().cloned().collect();
    graph.values_mut().for_each(|targets| targets.retain(|target| known.contains(target)));
    graph
}

/// Returns the module of a file, or `None` for the root of the crate.
fn room_of(source: &Source) -> Option<String> {
    let below = source.path.strip_prefix("crates/weft-engine/src").ok()?;
    let first = below.iter().next()?.to_str()?;
    let room = first.strip_suffix(".rs").unwrap_or(first);
    (room != "lib").then(|| room.to_owned())
}

/// Returns the first path segment behind each `crate::`, also inside braces. Links in comments are not imports.
fn imported(code: &str) -> Vec<String> {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut found = Vec::new();
    for line in code.split(';').flat_map(|statement| statement.split("crate::").skip(1)) {
        let names = line.strip_prefix('{').map_or_else(|| vec![line], |list| top_level(list));
        for name in names {
            let name: String = name.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if !name.is_empty() {
                found.push(name);
            }
        }
    }
    found
}

/// Splits a list in braces at the commas of its top level.
fn top_level(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&list[start..at]);
                return parts;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts
}

/// Returns the defining module of each name that the root of the crate re-exports.
fn reexports(sources: &[&Source]) -> BTreeMap<String, String> {
    let root = sources.iter().find(|source| source.path.ends_with("src/lib.rs"));
    let mut names = BTreeMap::new();
    for statement in root.map_or("", |root| root.code()).split(';') {
        let Some((_, path)) = statement.split_once("use ") else { continue };
        let Some((room, rest)) = path.trim().split_once("::") else { continue };
        let rest = rest.rsplit("::").next().unwrap_or(rest).trim_start_matches('{').trim_end_matches('}');
        names.extend(rest.split(',').map(|name| (name.trim().to_owned(), room.to_owned())));
    }
    names
}

/// Returns the groups of two or more nodes that reach each other.
fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> = graph.keys().map(|node| (node, reachable(graph, node))).collect();
    let mut groups: BTreeSet<Vec<String>> = BTreeSet::new();
    for node in graph.keys() {
        let tied = reach[node].iter().filter(|other| reach.get(**other).is_some_and(|back| back.contains(node)));
        let mut group: Vec<String> = tied.map(|other| (*other).clone()).collect();
        group.sort();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    groups.into_iter().collect()
}

fn reachable<'a>(graph: &'a Graph, from: &'a String) -> BTreeSet<&'a String> {
    let (mut seen, mut ahead) = (BTreeSet::new(), vec![from]);
    while let Some(node) = ahead.pop() {
        for next in graph.get(node).into_iter().flatten() {
            if seen.insert(next) {
                ahead.push(next);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_in_braces_and_in_code_are_found() {
        let code = "use crate::{a::B, c::{D, e::F}, g};\nuse crate::h::I;\nfn f() { crate::j::k(); }\n/// See [`crate::l::M`].\n";
        assert_eq!(imported(code), ["a", "c", "g", "h", "j"]);
    }

    #[test]
    fn a_circle_is_found_and_a_chain_is_none() {
        let graph = |edges: &[(&str, &str)]| {
            let mut graph = Graph::new();
            for (from, to) in edges {
                graph.entry((*to).into()).or_default();
                graph.entry((*from).into()).or_default().insert((*to).into());
            }
            circles(&graph)
        };
        assert!(graph(&[("a", "b"), ("b", "c"), ("a", "c")]).is_empty());
        assert_eq!(graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]), [["a", "b", "c"]]);
    }
}
