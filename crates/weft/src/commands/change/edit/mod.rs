//! Edits of a configuration's text. All that an edit does not name stays as it is, byte for byte.
//!
//! An edit finds the places of tables and settings, replaces text there, and reads the result again.

mod layout;

use crate::toml_text::quoted;
use layout::{Form, Layout, children, inline_end, inline_part};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Tables that the file can have several times, each with a name.
const NAMED: [&str; 5] = ["peer", "link", "vpn", "rule", "class"];

/// Keys of a rule whose values are not text.
const NUMBERS: [&str; 6] = ["burst-bytes", "delay-priority", "dscp", "must-be-met", "precedence", "protocol"];

/// Parts of a text, each with its new content.
type Edits = Vec<(Range<usize>, String)>;

/// The text of a configuration.
pub struct Document {
    text: String,
}

impl Document {
    /// Parses the text of a configuration.
    ///
    /// # Errors
    /// Returns the place of a mistake in the syntax.
    pub fn parse(text: &str) -> Result<Document, String> {
        DeTable::parse(text).map_err(|why| why.to_string())?;
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        Ok(Document { text: format!("{text}{end}") })
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Replaces the parts that `find` returns.
    fn edit(&mut self, find: impl FnOnce(&DeTable<'_>, &Layout<'_>) -> Result<Edits, String>) -> Result<(), String> {
        let mut edits = {
            let root = DeTable::parse(&self.text).map_err(|why| why.to_string())?;
            find(root.get_ref(), &Layout::new(&self.text, root.get_ref()))?
        };
        // From the last to the first, places stay as they are. An addition stands before a part that begins there.
        edits.sort_by_key(|(at, _)| (at.start, at.end));
        let mut text = self.text.clone();
        edits.iter().rev().for_each(|(at, new)| text.replace_range(at.clone(), new));
        DeTable::parse(&text).map_err(|why| {
            let why = why.message();
            format!("with this change the configuration would not be valid TOML: {why}: correct the key or the value")
        })?;
        self.text = text;
        Ok(())
    }
}

/// Sets `key`, such as `peer.hub.weight`. Tables that do not exist yet are added.
///
/// # Errors
/// Returns the reason why the file can have no such setting.
pub fn set(doc: &mut Document, key: &str, value: &str) -> Result<(), String> {
    set_at(doc, &path(key)?, value)
}

fn set_at(doc: &mut Document, path: &[String], value: &str) -> Result<(), String> {
    let (last, tables) =
        path.split_last().ok_or("the key is empty: give a table and a key, such as peer.hub.weight")?;
    doc.edit(|root, layout| {
        let spot = Spot::find(root, layout, tables)?;
        match spot.table.get(last.as_str()).filter(|_| spot.missing.is_empty()) {
            Some(old) if layout.form(old) == Form::Setting => Ok(vec![(old.span(), value_of(value))]),
            Some(_) => Err(format!("`{0}` is a table, not a setting: set a key in it, {0}.KEY", path.join("."))),
            None => spot.add(layout, last, &value_of(value)),
        }
    })
}

/// Removes `key`: a setting or a whole table.
///
/// # Errors
/// Returns a message if there is no such setting.
pub fn unset(doc: &mut Document, key: &str) -> Result<(), String> {
    unset_at(doc, &path(key)?, || format!("the key {key} is not set in the configuration: there is nothing to remove"))
}

fn unset_at(doc: &mut Document, path: &[String], absent: impl Fn() -> String) -> Result<(), String> {
    let (last, tables) = path.split_last().ok_or_else(&absent)?;
    let text = doc.text.clone();
    doc.edit(|root, layout| {
        if let [array] = tables
            && let Some(list) = root.get(array.as_str())
            && layout.form(list) == Form::Elements
        {
            return Ok(removed(layout.lines(element(list, last).ok_or_else(&absent)?)));
        }
        let spot = Spot::find(root, layout, tables).map_err(|_| absent())?;
        let value = spot.table.get(last.as_str()).filter(|_| spot.missing.is_empty()).ok_or_else(&absent)?;
        match spot.inline(layout) {
            Some(_) if layout.form(value) == Form::Implied => Err(format!(
                "the file has the table `{0}` only as dotted keys: remove each of them with: weft unset {0}.KEY",
                path.join(".")
            )),
            Some(table) => Ok(removed(vec![inline_part(&text, table, &value.span())])),
            None => Ok(removed(layout.lines(value))),
        }
    })
}

/// Adds a rule with these keys and values, before the rule `before` or behind the last one.
///
/// # Errors
/// Returns a message if there is a rule of this name, or no rule `before`.
pub fn add_rule(
    doc: &mut Document,
    name: &str,
    settings: &[(String, String)],
    before: Option<&str>,
) -> Result<(), String> {
    let mut rule = format!("\n[[rule]]\nname = {}\n", quoted(name));
    for (key, value) in settings {
        // Ports and protocols are text in the file, also where they look like numbers.
        let value = if NUMBERS.contains(&key.as_str()) { value_of(value) } else { quoted(value) };
        rule += &format!("{} = {value}\n", written(&[key]));
    }
    doc.edit(|root, layout| {
        let rules = rules(root, layout)?;
        if rules.iter().any(|of| is_called(of, name)) {
            return Err(format!("there is a rule `{name}` already: choose another name, or remove that rule first"));
        }
        let at = place(&rules, layout, before)?;
        Ok(vec![(at..at, rule)])
    })
}

/// Moves a rule before the rule `before`, or behind the last one.
///
/// # Errors
/// Returns a message if one of the rules does not exist.
pub fn move_rule(doc: &mut Document, name: &str, before: Option<&str>) -> Result<(), String> {
    let text = doc.text.clone();
    doc.edit(|root, layout| {
        let mut rules = rules(root, layout)?;
        let from = rules.iter().position(|of| is_called(of, name)).ok_or_else(|| no_rule(&rules, name))?;
        if before == Some(name) {
            return Err(format!("the rule `{name}` cannot precede itself: give another rule with --before"));
        }
        let at = place(&rules, layout, before)?;
        let lines = layout.lines(rules.remove(from));
        let rule: String = lines.iter().filter_map(|lines| text.get(lines.clone())).collect();
        Ok([removed(lines), vec![(at..at, rule)]].concat())
    })
}

/// Removes a rule.
///
/// # Errors
/// Returns a message if there is no such rule.
pub fn remove_rule(doc: &mut Document, name: &str) -> Result<(), String> {
    doc.edit(|root, layout| {
        let rules = rules(root, layout)?;
        let rule = rules.iter().find(|of| is_called(of, name)).ok_or_else(|| no_rule(&rules, name))?;
        Ok(removed(layout.lines(rule)))
    })
}

/// Sets keys of a class. A class that the file does not name yet is added.
///
/// # Errors
/// Returns the reason why the file can have no such setting.
pub fn set_class(doc: &mut Document, name: &str, settings: &[(String, String)]) -> Result<(), String> {
    settings.iter().try_for_each(|(key, value)| set_at(doc, &["class", name, key].map(str::to_owned), value))
}

/// Removes the table of a class.
///
/// # Errors
/// Returns a message if the file has no table for the class.
pub fn reset_class(doc: &mut Document, name: &str) -> Result<(), String> {
    unset_at(doc, &["class", name].map(str::to_owned), || {
        format!("the file has no [[class]] `{name}`, so there is nothing to reset")
    })
}

/// Returns the rules of the file in their order.
fn rules<'a, 'i>(root: &'a DeTable<'i>, layout: &Layout<'_>) -> Result<Vec<&'a Spanned<DeValue<'i>>>, String> {
    match root.get("rule") {
        Some(list) if layout.form(list) == Form::Elements => Ok(children(list)),
        Some(_) => Err(
            "this command changes only rules in [[rule]] tables, and the configuration has others: change them by hand"
                .to_owned(),
        ),
        None => Ok(Vec::new()),
    }
}

/// Returns the place before a rule, or behind the last one.
fn place(rules: &[&Spanned<DeValue<'_>>], layout: &Layout<'_>, before: Option<&str>) -> Result<usize, String> {
    let Some(before) = before else { return Ok(rules.last().map_or_else(|| layout.end(), |last| layout.after(last))) };
    let rule = rules.iter().find(|of| is_called(of, before)).ok_or_else(|| no_rule(rules, before))?;
    Ok(layout.block(rule.span().start).start)
}

fn no_rule(rules: &[&Spanned<DeValue<'_>>], name: &str) -> String {
    let names: Vec<&str> = rules.iter().filter_map(|rule| rule.get_ref().get("name")?.get_ref().as_str()).collect();
    match names[..] {
        [] => format!("there is no rule `{name}`: the configuration has no rules"),
        _ => format!("there is no rule `{name}`: the rules of the configuration are {}", names.join(", ")),
    }
}

fn removed(parts: Vec<Range<usize>>) -> Edits {
    parts.into_iter().map(|part| (part, String::new())).collect()
}

/// Splits a dotted key. A part in quotation marks may contain dots.
fn path(key: &str) -> Result<Vec<String>, String> {
    // The key is read as a header, whose place must be the whole text.
    let header = format!("[{key}]");
    let wrong = || format!("`{key}` is not the key of a setting: write it like peer.hub.weight");
    let root = DeTable::parse(&header)
        .map_err(|why| format!("`{key}` is not the key of a setting, such as peer.hub.weight: {}", why.message()))?;
    let (mut table, mut keys, mut place) = (root.get_ref(), Vec::new(), 0..0);
    while let Some((part, value)) = table.iter().next() {
        keys.push(part.get_ref().to_string());
        place = value.span();
        table = value.get_ref().as_table().ok_or_else(wrong)?;
    }
    if place == (0..header.len()) { Ok(keys) } else { Err(wrong()) }
}

/// Returns a value in TOML syntax as it is. Any other text becomes a string.
fn value_of(text: &str) -> String {
    if DeValue::parse(text.trim()).is_ok() { text.trim().to_owned() } else { quoted(text) }
}

/// Writes a dotted key.
fn written(keys: &[impl AsRef<str>]) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let write = |key: &str| if !key.is_empty() && key.chars().all(is_bare) { key.to_owned() } else { quoted(key) };
    keys.iter().map(|key| write(key.as_ref())).collect::<Vec<_>>().join(".")
}

/// Returns the table in `list` that has this name.
fn element<'a, 'i>(list: &'a Spanned<DeValue<'i>>, name: &str) -> Option<&'a Spanned<DeValue<'i>>> {
    children(list).into_iter().find(|table| is_called(table, name))
}

fn is_called(table: &Spanned<DeValue<'_>>, name: &str) -> bool {
    table.get_ref().get("name").and_then(|value| value.get_ref().as_str()) == Some(name)
}

/// The table that a path leads to, as far as the file has it.
struct Spot<'a, 'i, 'p> {
    table: &'a DeTable<'i>,
    /// The table as a value, or the tables of a name where only that element is missing. `None` is the whole file.
    value: Option<&'a Spanned<DeValue<'i>>>,
    /// The table with a header, or the inline table, that contains the settings. `None` is the whole file.
    home: Option<&'a Spanned<DeValue<'i>>>,
    /// Keys from `home` to the table.
    keys: Vec<&'p str>,
    /// Keys of a header of the table.
    header: Vec<&'p str>,
    /// Rest of the path, which the file does not have.
    missing: &'p [String],
}

impl<'a, 'i, 'p> Spot<'a, 'i, 'p> {
    fn find(root: &'a DeTable<'i>, layout: &Layout<'_>, path: &'p [String]) -> Result<Self, String> {
        let (keys, header) = (Vec::new(), Vec::new());
        let mut spot = Spot { table: root, value: None, home: None, keys, header, missing: path };
        while let [part, rest @ ..] = spot.missing
            && let Some(mut value) = spot.table.get(part.as_str())
        {
            let (form, mut rest) = (layout.form(value), rest);
            if form == Form::Elements {
                let [name, others @ ..] = rest else {
                    return Err(format!(
                        "a key of a [[{part}]] table needs the name of that table: write {part}.NAME.KEY"
                    ));
                };
                spot.value = Some(value);
                let Some(found) = element(value, name) else { break };
                (value, rest) = (found, others);
            }
            let table = value.get_ref().as_table();
            let table = table.ok_or_else(|| {
                format!("`{part}` is a setting, not a table, so no key can follow it: shorten the key")
            })?;
            (spot.table, spot.value, spot.missing) = (table, Some(value), rest);
            spot.header.push(part);
            match form {
                Form::Implied => spot.keys.push(part),
                _ => (spot.home, spot.keys) = (Some(value), Vec::new()),
            }
        }
        Ok(spot)
    }

    /// Returns the inline table that contains the settings.
    fn inline(&self, layout: &Layout<'_>) -> Option<&'a Spanned<DeValue<'i>>> {
        self.home.filter(|home| layout.form(home) == Form::Setting)
    }

    /// Adds a setting, and the tables that are missing.
    fn add(&self, layout: &Layout<'_>, key: &str, value: &str) -> Result<Edits, String> {
        let inline = self.inline(layout);
        let is_dotted = self.value.is_some_and(|value| layout.is_dotted(value));
        let has_lines = is_dotted || self.missing.is_empty() && self.keys.is_empty();
        if inline.is_none() && !has_lines {
            let at = self.value.map_or_else(|| layout.end(), |value| layout.after(value));
            return Ok(vec![(at..at, self.tables()? + &format!("{} = {value}\n", written(&[key])))]);
        }
        if let Some(named) = self.missing.iter().find(|part| NAMED.contains(&part.as_str())) {
            return Err(format!(
                "the file has no table `{}`, and no command can add a [[{named}]] there: add it to the file by hand",
                self.missing.join(".")
            ));
        }
        let missing = self.missing.iter().map(String::as_str);
        let keys: Vec<&str> = self.keys.iter().copied().chain(missing).chain([key]).collect();
        let setting = format!("{} = {value}", written(&keys));
        let (at, text) = match (inline, self.home) {
            (Some(table), _) => match inline_end(table) {
                (at, true) => (at, format!(", {setting}")),
                (at, false) => (at, format!(" {setting} ")),
            },
            (None, Some(home)) => (layout.block(home.span().start).end, setting + "\n"),
            (None, None) => (layout.head_end(), setting + "\n"),
        };
        Ok(vec![(at..at, text)])
    }

    /// Writes the headers of the missing tables, and the names of tables that have one.
    fn tables(&self) -> Result<String, String> {
        let (mut header, mut text) = (self.header.clone(), String::new());
        let mut parts = self.missing.iter().peekable();
        while let Some(part) = parts.next() {
            header.push(part);
            if NAMED.contains(&part.as_str()) {
                let name = parts.next().ok_or_else(|| {
                    format!("a key of a [[{part}]] table needs the name of that table: write {part}.NAME.KEY")
                })?;
                text += &format!("\n[[{}]]\nname = {}\n", written(&header), quoted(name));
            } else if parts.peek().is_none() {
                text += &format!("\n[{}]\n", written(&header));
            }
        }
        if text.is_empty() { Ok(format!("\n[{}]\n", written(&header))) } else { Ok(text) }
    }
}

#[cfg(test)]
mod tests;
