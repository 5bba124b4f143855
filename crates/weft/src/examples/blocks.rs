//! Examples in documents: fenced and indented blocks.

use std::fs;
use std::path::{Path, PathBuf};

/// A block of a document.
#[derive(Debug)]
pub struct Block {
    /// Place at which the block begins: `docs/operate/vpns.md:7`.
    pub place: String,
    /// Text of the block, without fence and indentation.
    pub text: String,
}

/// Returns the root directory of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns every document for readers: those in the root, docs, scenarios, examples and packaging.
pub fn documents() -> Vec<PathBuf> {
    let (mut found, mut ahead) = (Vec::new(), vec![root()]);
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let is_searched =
                ["docs", "scenarios", "examples", "packaging"].iter().any(|name| path.starts_with(root().join(name)));
            if path.is_dir() && is_searched {
                ahead.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(found.len() > 20, "documents are missing: {found:?}");
    found
}

/// Returns the blocks of a document, except pictures (`mermaid`).
pub fn blocks(path: &Path) -> Vec<Block> {
    let name = path.strip_prefix(root()).unwrap().display().to_string();
    let text = fs::read_to_string(path).unwrap();
    let mut blocks: Vec<Block> = Vec::new();
    let (mut fence, mut is_open, mut was_blank) = (None, false, true);
    for (number, line) in (1..).zip(text.lines()) {
        let begin = |text: &str| Block { place: format!("{name}:{number}"), text: format!("{text}\n") };
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(kind.to_owned()) };
            is_open = false;
        } else if let Some(kind) = &fence {
            match (kind == "mermaid", is_open, blocks.last_mut()) {
                (true, ..) => {}
                (false, true, Some(block)) => block.text += &format!("{line}\n"),
                _ => blocks.push(begin(line)),
            }
            is_open = true;
        } else {
            match (line.strip_prefix("    "), is_open, blocks.last_mut()) {
                (Some(code), true, Some(block)) => block.text += &format!("{code}\n"),
                (Some(code), false, _) if was_blank => {
                    blocks.push(begin(code));
                    is_open = true;
                }
                (None, true, Some(block)) if line.is_empty() => block.text += "\n",
                _ => is_open = false,
            }
        }
        was_blank = line.trim().is_empty();
    }
    blocks
}

/// Returns true if a block is a part of a TOML file.
pub fn is_toml(block: &Block) -> bool {
    let first = block.text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or_default();
    (first.starts_with('[') || first.contains(" = ")) && !first.starts_with("[Interface]")
}

/// Returns the commands of a text as words.
///
/// It leaves out comments, redirections and the command after a pipe.
pub fn commands(text: &str) -> Vec<Vec<String>> {
    let joined = joined(text);
    joined.lines().flat_map(line_commands).filter(|words| !words.is_empty()).collect()
}

/// Joins each line that ends in a backslash with the next one.
pub fn joined(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| format!("{} {}", text.trim_end(), part.trim_start()))
}

/// Returns the commands of a line. Two blanks begin a remark, as in help texts.
fn line_commands(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words, mut word): (Vec<Vec<String>>, Vec<String>, Option<String>) =
        (Vec::new(), Vec::new(), None);
    let (mut quote, mut blanks, mut depth) = (None, 0, 0);
    let mut chars = line.trim().chars().peekable();
    while let Some(c) = chars.next() {
        blanks = if c == ' ' { blanks + 1 } else { 0 };
        match (quote, c) {
            (Some(q), _) if c == q && depth == 0 => quote = None,
            (_, '(') if word.as_ref().is_some_and(|word| word.ends_with('$')) || depth > 0 => {
                depth += 1;
                word.get_or_insert_default().push(c);
            }
            (_, ')') if depth > 0 => {
                depth -= 1;
                word.get_or_insert_default().push(c);
            }
            (Some(_), _) => word.get_or_insert_default().push(c),
            _ if depth > 0 => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | ';' | '&') => {
                words.extend(word.take());
                all.push(std::mem::take(&mut words));
                while chars.next_if(|next| *next == '|' || *next == '&').is_some() {}
            }
            (None, '>' | '<') => {
                // A redirection takes the next word with it.
                word = word.take().filter(|word| !word.chars().all(|c| c.is_ascii_digit()));
                words.extend(word.take());
                while chars.next_if(|next| *next == ' ').is_some() {}
                while chars.next_if(|next| !" |;&".contains(*next)).is_some() {}
            }
            (None, ' ') => {
                words.extend(word.take());
                if blanks >= 2 {
                    break;
                }
            }
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    all.push(words);
    all
}

#[test]
fn commands_are_taken_apart_as_a_shell_does() {
    let words = |text: &str| commands(text).iter().map(|words| words.join("·")).collect::<Vec<_>>();
    assert_eq!(words("weft paths --json | jq '.a[] | {b}'  # c"), ["weft·paths·--json", "jq·.a[] | {b}"]);
    assert_eq!(
        words("weft ca sign --key \"$(weft pubkey a | x)\" \\\n  --out b    a remark"),
        ["weft·ca·sign·--key·$(weft pubkey a | x)·--out·b"]
    );
    assert_eq!(words("a 2>/dev/null && weft pubkey <key >out; c"), ["a", "weft·pubkey", "c"]);
}
