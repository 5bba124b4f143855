//! Sizes: files, folders, types, visibility, names, dependencies, documents.

use super::sources::{Source, directories, entries, root, sources};
use crate::check::{Bound, Check};
use crate::topic::Context;
use serde_json::json;
use std::collections::BTreeMap;
use std::process::Command;

/// Checks the sizes of files, folders, types and documents, and the number of dependencies.
pub fn size(_: &Context) -> Vec<Check> {
    let sources = sources();
    let engine = |source: &&Source| source.path.starts_with("crates/weft-engine/src");
    let long = names(sources.iter().filter(|source| source.text.lines().count() > 600));
    let wide = directories().into_iter().filter(|directory| entries(directory).len() > 30);
    let wide: Vec<String> = wide.map(|directory| directory.display().to_string()).collect();
    let public: usize = sources.iter().filter(engine).map(|source| source.code().matches("pub(crate)").count()).sum();
    let twice = defined_twice(&sources);
    let map = std::fs::metadata(root().join("ARCHITECTURE.md")).ok().map(|file| file.len() as f64 / 1_000.0);
    vec![
        at_most("files over 600 lines", long.len(), 0, "files").with(json!(long)),
        at_most("folders with more than 30 entries", wide.len(), 0, "folders").with(json!(wide)),
        of_type("fields of the engine's Peer", &sources, "pub struct Peer {"),
        of_type("fields of the engine's Engine", &sources, "pub struct Engine {"),
        at_most("pub(crate) in the engine", public, 200, "times"),
        at_most("type names defined more than once", twice.len(), 60, "names").with(json!(twice)),
        Check::new("external crates of weft", external_crates(), Bound::AtMost(90.0), "crates"),
        Check::new("ARCHITECTURE.md", map, Bound::AtMost(10.0), "kB"),
    ]
}

fn at_most(name: &str, count: usize, bound: u32, unit: &'static str) -> Check {
    Check::new(name, Some(count as f64), Bound::AtMost(f64::from(bound)), unit)
}

fn names<'a>(sources: impl Iterator<Item = &'a Source>) -> Vec<String> {
    sources.map(|source| format!("{} ({})", source.path.display(), source.text.lines().count())).collect()
}

/// Counts the fields of a structure of the engine.
fn of_type(name: &str, sources: &[Source], head: &str) -> Check {
    let head = head.trim_start_matches("pub ");
    let of_engine = sources.iter().filter(|source| source.path.starts_with("crates/weft-engine/src"));
    let count = of_engine.filter_map(|source| fields(&source.text, head)).max();
    Check::new(name, count.map(|count| count as f64), Bound::AtMost(15.0), "fields")
}

/// Returns the number of fields of the structure that begins with `head`, if the text defines it.
fn fields(text: &str, head: &str) -> Option<usize> {
    let mut lines = text.lines().skip_while(|line| !line.ends_with(head) || line.starts_with(' '));
    lines.next()?;
    let body = lines.take_while(|line| *line != "}");
    Some(body.filter(|line| line.starts_with("    ") && line.contains(": ") && !line.trim().starts_with("//")).count())
}

/// Returns the names of types that the workspace defines more than once.
fn defined_twice(sources: &[Source]) -> Vec<String> {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for line in
        sources.iter().filter(|source| source.path.iter().any(|part| part == "src")).flat_map(|s| s.text.lines())
    {
        if let Some(name) = defined(line) {
            *count.entry(name).or_default() += 1;
        }
    }
    count.into_iter().filter(|(_, times)| *times > 1).map(|(name, times)| format!("{name} ({times})")).collect()
}

/// Returns the name of the type that a line defines.
fn defined(line: &str) -> Option<&str> {
    // A type alias with indentation is an associated type, which its trait names, or it is local to a function.
    if line.starts_with(' ') && line.trim_start().starts_with("type ") {
        return None;
    }
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let (kind, rest) = line.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric()).next()?;
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&kind) && rest.starts_with(char::is_uppercase);
    (is_type && !name.is_empty()).then_some(name)
}

/// Returns the number of external crates that the program `weft` depends on.
fn external_crates() -> Option<f64> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = ["tree", "--locked", "-e", "normal", "-p", "weft", "--prefix", "none", "--format", "{p}"];
    let output = Command::new(cargo).args(tree).current_dir(root()).output().ok().filter(|out| out.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let names: std::collections::BTreeSet<&str> =
        text.lines().filter_map(|line| line.split(' ').next()).filter(|name| !name.starts_with("weft")).collect();
    Some(names.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_definitions_are_counted() {
        let text =
            "pub struct Peer {\n    /// A: b.\n    pub a: u8,\n    b: Vec<u8>,\n}\nstruct Other {\n    c: u8,\n}\n";
        assert_eq!((fields(text, "struct Peer {"), fields(text, "struct None {")), (Some(2), None));
        assert_eq!(defined("    pub(crate) enum Kind {"), Some("Kind"));
        assert_eq!(
            (defined("    type Value = u8;"), defined("let type_of = 1;"), defined("// struct A")),
            (None, None, None)
        );
        assert_eq!(defined("pub struct Rate(u64);"), Some("Rate"));
        assert_eq!(defined("type Graph = u8;"), Some("Graph"));
    }
}
