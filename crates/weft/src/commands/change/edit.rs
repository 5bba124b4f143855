//! Edits of a configuration's text. Comments and the order of everything else stay.

use toml_edit::{ArrayOfTables, DocumentMut, Item, Key, Table, TableLike, Value};

/// Tables that the file can have several times, each with a name.
const NAMED: [&str; 5] = ["peer", "link", "vpn", "rule", "class"];

/// Keys of a rule whose values are not text.
const NUMBERS: [&str; 6] = ["burst-bytes", "delay-priority", "dscp", "must-be-met", "precedence", "protocol"];

/// Parses the text of a configuration.
///
/// # Errors
/// Returns the place of a mistake in the syntax.
pub fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|why: toml_edit::TomlError| why.to_string())
}

/// Sets `key`, such as `peer.hub.weight`. Tables that do not exist yet are added.
///
/// # Errors
/// Returns the reason why the file can have no such setting.
pub fn set(doc: &mut DocumentMut, key: &str, value: &str) -> Result<(), String> {
    set_at(doc, &path(key)?, value)
}

fn set_at(doc: &mut DocumentMut, path: &[String], value: &str) -> Result<(), String> {
    let (last, tables) = path.split_last().ok_or("the key is empty")?;
    let table = table(doc.as_table_mut(), tables, true)?;
    let mut new = value_of(value);
    match table.get_mut(last) {
        Some(Item::Value(old)) => {
            // The comment behind the old value stays.
            new.decor_mut().clone_from(old.decor());
            *old = new;
        }
        Some(_) => return Err(format!("{} is a table: set one of its keys", path.join("."))),
        None => _ = table.insert(last, Item::Value(new)),
    }
    Ok(())
}

/// Removes `key`: a setting or a whole table.
///
/// # Errors
/// Returns a message if there is no such setting.
pub fn unset(doc: &mut DocumentMut, key: &str) -> Result<(), String> {
    unset_at(doc, &path(key)?).map_err(|()| format!("{key} is not set"))
}

fn unset_at(doc: &mut DocumentMut, path: &[String]) -> Result<(), ()> {
    let (last, tables) = path.split_last().ok_or(())?;
    if let Some((array, [])) = tables.split_last()
        && let Some(Item::ArrayOfTables(list)) = doc.get_mut(array)
    {
        list.remove(position(list, last).ok_or(())?);
        return Ok(());
    }
    let table = table(doc.as_table_mut(), tables, false).map_err(|_| ())?;
    table.remove(last).map(drop).ok_or(())
}

/// Adds a rule with these keys and values, before the rule `before` or at the end.
///
/// # Errors
/// Returns a message if there is a rule of this name, or no rule `before`.
pub fn add_rule(
    doc: &mut DocumentMut,
    name: &str,
    settings: &[(String, String)],
    before: Option<&str>,
) -> Result<(), String> {
    let mut rule = Table::new();
    rule.insert("name", Item::Value(name.into()));
    for (key, value) in settings {
        // Ports and protocols are text in the file, also where they look like numbers.
        let value = if NUMBERS.contains(&key.as_str()) { value_of(value) } else { value.as_str().into() };
        rule.insert(key, Item::Value(value));
    }
    rule.decor_mut().set_prefix("\n");
    let rules = rules(doc)?;
    if position(rules, name).is_some() {
        return Err(format!("there is a rule `{name}` already"));
    }
    rules.push(rule);
    place(rules, name, before)
}

/// Moves a rule before the rule `before`, or to the end.
///
/// # Errors
/// Returns a message if one of the rules does not exist.
pub fn move_rule(doc: &mut DocumentMut, name: &str, before: Option<&str>) -> Result<(), String> {
    place(rules(doc)?, name, before)
}

/// Removes a rule.
///
/// # Errors
/// Returns a message if there is no such rule.
pub fn remove_rule(doc: &mut DocumentMut, name: &str) -> Result<(), String> {
    let rules = rules(doc)?;
    let at = position(rules, name).ok_or_else(|| no_rule(rules, name))?;
    rules.remove(at);
    Ok(())
}

/// Sets keys of a class. A class that the file does not name yet is added.
///
/// # Errors
/// Returns the reason why the file can have no such setting.
pub fn set_class(doc: &mut DocumentMut, name: &str, settings: &[(String, String)]) -> Result<(), String> {
    settings.iter().try_for_each(|(key, value)| set_at(doc, &["class", name, key].map(str::to_owned), value))
}

/// Removes the table of a class.
///
/// # Errors
/// Returns a message if the file has no table for the class.
pub fn reset_class(doc: &mut DocumentMut, name: &str) -> Result<(), String> {
    unset_at(doc, &["class", name].map(str::to_owned)).map_err(|_| format!("the file does not change a class `{name}`"))
}

fn rules(doc: &mut DocumentMut) -> Result<&mut ArrayOfTables, String> {
    let item = doc.entry("rule").or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    item.as_array_of_tables_mut().ok_or_else(|| "the rules of this file do not stand in [[rule]] tables".to_owned())
}

/// Puts the rule `name` before another one, or at the end. The file's other tables stay where they are.
fn place(rules: &mut ArrayOfTables, name: &str, before: Option<&str>) -> Result<(), String> {
    let mut order: Vec<Table> = rules.iter().cloned().collect();
    let from = position(rules, name).ok_or_else(|| no_rule(rules, name))?;
    let places: Vec<Option<isize>> = order.iter().map(Table::position).collect();
    let rule = order.remove(from);
    let to = match before {
        Some(before) => order.iter().position(|table| is_called(table, before)).ok_or_else(|| {
            if before == name { format!("`{name}` cannot precede itself") } else { no_rule(rules, before) }
        })?,
        None => order.len(),
    };
    order.insert(to, rule);
    rules.clear();
    // A table is printed at its position in the file. The rules get the sorted positions in their new order.
    let mut sorted: Vec<isize> = places.into_iter().flatten().collect();
    sorted.sort_unstable();
    for (at, mut table) in order.into_iter().enumerate() {
        if let Some(place) = sorted.get(at).or(sorted.last()) {
            table.set_position(Some(*place));
        }
        rules.push(table);
    }
    Ok(())
}

fn no_rule(rules: &ArrayOfTables, name: &str) -> String {
    let names: Vec<&str> = rules.iter().filter_map(|rule| rule.get("name")?.as_str()).collect();
    match names[..] {
        [] => format!("there is no rule `{name}`: there are none"),
        _ => format!("there is no rule `{name}`: there are {}", names.join(", ")),
    }
}

/// Splits a dotted key. A part in quotation marks may contain dots.
fn path(key: &str) -> Result<Vec<String>, String> {
    let keys = Key::parse(key).map_err(|why| format!("`{key}` is no key: {}", why.message()))?;
    Ok(keys.into_iter().map(|key| key.get().to_owned()).collect())
}

/// Reads a value in TOML syntax. Any other text is a string.
fn value_of(text: &str) -> Value {
    text.trim().parse().unwrap_or_else(|_| text.into())
}

/// Returns the table with this path. Adds missing tables if `create` is true, and fails otherwise.
fn table<'a>(mut at: &'a mut dyn TableLike, path: &[String], create: bool) -> Result<&'a mut dyn TableLike, String> {
    let mut parts = path.iter();
    while let Some(part) = parts.next() {
        let exists = at.contains_key(part);
        if !exists && !create {
            return Err(format!("there is no {part}"));
        }
        let item = at.entry(part).or_insert_with(|| match NAMED.contains(&part.as_str()) {
            true => Item::ArrayOfTables(ArrayOfTables::new()),
            false => Item::Table(Table::new()),
        });
        at = match item {
            Item::ArrayOfTables(list) => {
                let name = parts.next().ok_or_else(|| format!("name one of the [[{part}]] tables: {part}.NAME.KEY"))?;
                element(list, name, create).ok_or_else(|| format!("there is no {part} `{name}`"))?
            }
            item => item.as_table_like_mut().ok_or_else(|| format!("{part} is a setting, not a table"))?,
        };
    }
    Ok(at)
}

/// Returns the table in `list` that has this name.
///
/// If there is none, adds it if `create` is true, and returns `None` otherwise.
fn element<'a>(list: &'a mut ArrayOfTables, name: &str, create: bool) -> Option<&'a mut dyn TableLike> {
    let at = match position(list, name) {
        Some(at) => at,
        None if create => {
            let mut table = Table::new();
            table.insert("name", Item::Value(name.into()));
            table.decor_mut().set_prefix("\n");
            list.push(table);
            list.len() - 1
        }
        None => return None,
    };
    list.get_mut(at).map(|table| table as &mut dyn TableLike)
}

fn position(list: &ArrayOfTables, name: &str) -> Option<usize> {
    list.iter().position(|table| is_called(table, name))
}

fn is_called(table: &Table, name: &str) -> bool {
    table.get("name").and_then(Item::as_str) == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "\
# The node.
[node]
key = \"weft.key\" # private

[[rule]] # first
name = \"calls\"
class = \"voice\"

# Hubs.
[[peer]]
name = \"hub\"
weight = 3 # thrice

# At night.
[[rule]]
name = \"backup\"
class = \"background\"
";

    fn edited(edit: impl FnOnce(&mut DocumentMut) -> Result<(), String>) -> String {
        let mut doc = parse(FILE).unwrap();
        edit(&mut doc).unwrap();
        doc.to_string()
    }

    #[test]
    fn a_value_is_replaced_and_comments_stay() {
        assert_eq!(edited(|doc| set(doc, "peer.hub.weight", "4")), FILE.replace("weight = 3", "weight = 4"));
        assert_eq!(edited(|doc| set(doc, "node.key", "a b")), FILE.replace("\"weft.key\"", "\"a b\""));
        let text = edited(|doc| set(doc, "link.lte.max-rate-up", "20 Mbit/s"));
        let added = "\n[[link]]\nname = \"lte\"\nmax-rate-up = \"20 Mbit/s\"\n";
        assert_eq!(text.replacen(added, "", 1), FILE);
        assert!(text.contains(added), "{text}");
        let text = edited(|doc| set(doc, "users.by", "host"));
        assert_eq!(text.replacen("\n[users]\nby = \"host\"\n", "", 1), FILE, "{text}");
    }

    #[test]
    fn only_the_removed_table_disappears() {
        assert_eq!(edited(|doc| unset(doc, "peer.hub.weight")), FILE.replace("weight = 3 # thrice\n", ""));
        let text = edited(|doc| unset(doc, "rule.calls"));
        assert!(!text.contains("calls") && text.contains("# At night.\n[[rule]]\nname = \"backup\""), "{text}");
        for key in ["peer.hub.cost", "peer.away.weight", "rule.none", "users.by", "a"] {
            let mut doc = parse(FILE).unwrap();
            assert!(unset(&mut doc, key).is_err_and(|why| why.contains("is not set")), "{key}");
            assert_eq!(doc.to_string(), FILE, "{key}");
        }
    }

    #[test]
    fn a_wrong_key_is_reported() {
        let said = |key: &str| set(&mut parse(FILE).unwrap(), key, "1").unwrap_err();
        assert_eq!(said("node.key.a"), "key is a setting, not a table");
        assert_eq!(said("node"), "node is a table: set one of its keys");
        assert_eq!(said("peer.hub"), "name one of the [[peer]] tables: peer.NAME.KEY");
        assert!(said("a..b").contains("is no key"));
    }

    #[test]
    fn a_rule_is_added_where_it_is_wanted() {
        let settings = [("class".to_owned(), "bulk".to_owned()), ("ports".to_owned(), "80-90".to_owned())];
        let last = edited(|doc| add_rule(doc, "web", &settings, None));
        assert!(
            last.starts_with(FILE)
                && last.ends_with("\n[[rule]]\nname = \"web\"\nclass = \"bulk\"\nports = \"80-90\"\n"),
            "{last}"
        );
        assert_eq!(names(&edited(|doc| add_rule(doc, "web", &settings, Some("calls")))), ["web", "calls", "backup"]);
        let again = add_rule(&mut parse(FILE).unwrap(), "calls", &settings, None);
        assert!(again.unwrap_err().contains("already"));
        let nowhere = move_rule(&mut parse(FILE).unwrap(), "calls", Some("none")).unwrap_err();
        assert_eq!(nowhere, "there is no rule `none`: there are calls, backup");
    }

    #[test]
    fn a_class_is_changed_added_and_as_it_came_again() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let settings = [pair("guaranteed", "100 kbit/s"), pair("precedence", "12"), pair("must-be-met", "true")];
        let text = edited(|doc| set_class(doc, "a.b", &settings));
        let added = "\n[[class]]\nname = \"a.b\"\nguaranteed = \"100 kbit/s\"\nprecedence = 12\nmust-be-met = true\n";
        assert_eq!(text.replacen(added, "", 1), FILE, "{text}");
        let mut doc = parse(&text).unwrap();
        set_class(&mut doc, "a.b", &[pair("precedence", "9")]).unwrap();
        assert_eq!(doc.to_string(), text.replace("= 12", "= 9"));
        assert!(reset_class(&mut doc, "voice").unwrap_err().contains("`voice`"));
        reset_class(&mut doc, "a.b").unwrap();
        assert_eq!(doc.to_string(), FILE);
    }

    fn names(text: &str) -> Vec<String> {
        let doc = parse(text).unwrap();
        let rules = doc["rule"].as_array_of_tables().unwrap();
        rules.iter().map(|rule| rule["name"].as_str().unwrap().to_owned()).collect()
    }

    proptest! {
        /// After any additions, moves and removals, the rules have the order of a model, and each keeps its comment.
        #[test]
        fn rules_are_a_list(steps in proptest::collection::vec((0..3u8, 0..8u8, proptest::option::of(0..8u8)), 1..20)) {
            let (mut text, mut model) = (FILE.to_owned(), vec!["calls".to_owned(), "backup".to_owned()]);
            let mut has_comment = true;
            for (step, name, before) in steps {
                let name = if name == 7 { "backup".to_owned() } else { format!("r{name}") };
                let before = before.map(|before| if before == 7 { "calls".to_owned() } else { format!("r{before}") });
                let mut doc = parse(&text).unwrap();
                let done = match step {
                    0 => add_rule(&mut doc, &name, &[("class".to_owned(), "bulk".to_owned())], before.as_deref()),
                    1 => move_rule(&mut doc, &name, before.as_deref()),
                    _ => remove_rule(&mut doc, &name),
                };
                let (at, mut expected) = (model.iter().position(|of| *of == name), model.clone());
                if let Some(at) = at { expected.remove(at); }
                let to = before.as_ref().map_or(Some(expected.len()), |before| expected.iter().position(|of| of == before));
                let is_possible = match step { 0 => at.is_none() && to.is_some(), 1 => at.is_some() && to.is_some(), _ => at.is_some() };
                prop_assert_eq!(done.is_ok(), is_possible, "{:?}", done);
                if is_possible {
                    if step < 2 { expected.insert(to.unwrap(), name); }
                    (text, model) = (doc.to_string(), expected);
                }
                prop_assert_eq!(if model.is_empty() { Vec::new() } else { names(&text) }, model.clone());
                // A rule that is removed and added again has lost its comment.
                has_comment &= model.contains(&"backup".to_owned());
                prop_assert_eq!(text.contains("# At night.\n[[rule]]\nname = \"backup\""), has_comment, "{}", text);
                prop_assert!(text.contains("# Hubs.\n[[peer]]\nname = \"hub\"\nweight = 3 # thrice"), "{}", text);
            }
        }
    }
}
