//! Tests of the edits, with a model of their effect on the content.

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

fn edited(edit: impl FnOnce(&mut Document) -> Result<(), String>) -> String {
    let mut doc = Document::parse(FILE).unwrap();
    edit(&mut doc).unwrap();
    doc.text().to_owned()
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
        let mut doc = Document::parse(FILE).unwrap();
        assert!(unset(&mut doc, key).is_err_and(|why| why.contains("is not set")), "{key}");
        assert_eq!(doc.text().to_owned(), FILE, "{key}");
    }
}

#[test]
fn a_wrong_key_is_reported() {
    let said = |key: &str| set(&mut Document::parse(FILE).unwrap(), key, "1").unwrap_err();
    assert_eq!(said("node.key.a"), "`key` is a setting, not a table, so no key can follow it: shorten the key");
    assert_eq!(said("node"), "`node` is a table, not a setting: set a key in it, node.KEY");
    assert_eq!(said("peer.hub"), "a key of a [[peer]] table needs the name of that table: write peer.NAME.KEY");
    assert!(said("a..b").contains("is not the key"));
}

#[test]
fn a_rule_is_added_where_it_is_wanted() {
    let settings = [("class".to_owned(), "bulk".to_owned()), ("ports".to_owned(), "80-90".to_owned())];
    let last = edited(|doc| add_rule(doc, "web", &settings, None));
    assert!(
        last.starts_with(FILE) && last.ends_with("\n[[rule]]\nname = \"web\"\nclass = \"bulk\"\nports = \"80-90\"\n"),
        "{last}"
    );
    assert_eq!(names(&edited(|doc| add_rule(doc, "web", &settings, Some("calls")))), ["web", "calls", "backup"]);
    let again = add_rule(&mut Document::parse(FILE).unwrap(), "calls", &settings, None);
    assert!(again.unwrap_err().contains("already"));
    let nowhere = move_rule(&mut Document::parse(FILE).unwrap(), "calls", Some("none")).unwrap_err();
    assert_eq!(nowhere, "there is no rule `none`: the rules of the configuration are calls, backup");
}

#[test]
fn a_class_is_changed_added_and_as_it_came_again() {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let settings = [pair("guaranteed", "100 kbit/s"), pair("precedence", "12"), pair("must-be-met", "true")];
    let text = edited(|doc| set_class(doc, "a.b", &settings));
    let added = "\n[[class]]\nname = \"a.b\"\nguaranteed = \"100 kbit/s\"\nprecedence = 12\nmust-be-met = true\n";
    assert_eq!(text.replacen(added, "", 1), FILE, "{text}");
    let mut doc = Document::parse(&text).unwrap();
    set_class(&mut doc, "a.b", &[pair("precedence", "9")]).unwrap();
    assert_eq!(doc.text().to_owned(), text.replace("= 12", "= 9"));
    assert!(reset_class(&mut doc, "voice").unwrap_err().contains("`voice`"));
    reset_class(&mut doc, "a.b").unwrap();
    assert_eq!(doc.text().to_owned(), FILE);
}

/// Texts with every way to write a setting, a key in them, and the text after the key is set to 7.
const WAYS: [(&str, &str, &str); 15] = [
    ("a = 1\n[t] # c\nb = 2\n", "d", "a = 1\nd = 7\n[t] # c\nb = 2\n"),
    ("# c\n[t]\n", "d", "d = 7\n# c\n[t]\n"),
    ("", "d", "d = 7\n"),
    (
        "[t]\na = \"\"\"\n[u]\n# c\n\"\"\" # d\n\n# e\n[u]",
        "t.d",
        "[t]\na = \"\"\"\n[u]\n# c\n\"\"\" # d\nd = 7\n\n# e\n[u]\n",
    ),
    ("[t]\na = [ # c\n  1,\n]\n# e\n", "t.a", "[t]\na = 7\n# e\n"),
    ("t = { a = 1, b.c = 2 } # c\n", "t.d", "t = { a = 1, b.c = 2, d = 7 } # c\n"),
    ("t = { a = 1, b.c = 2 } # c\n", "t.b.d", "t = { a = 1, b.c = 2, b.d = 7 } # c\n"),
    ("t = {}\n", "t.d", "t = { d = 7 }\n"),
    ("t = {a = {b = 1}}\n", "t.a.d", "t = {a = {b = 1, d = 7}}\n"),
    ("[t]\na.b = 1\na.c = 2 # c\n[u]\n", "t.a.d", "[t]\na.b = 1\na.c = 2 # c\na.d = 7\n[u]\n"),
    ("[t.a]\nb = 1\n[u]\n", "t.d", "[t.a]\nb = 1\n\n[t]\nd = 7\n[u]\n"),
    ("[t]\n[u]\n", "t.\"x y\".d", "[t]\n\n[t.\"x y\"]\nd = 7\n[u]\n"),
    (
        "[[peer]]\nname = \"a\"\n[u]\n[[peer]]\nname = \"b\"\n",
        "peer.a.p.d",
        "[[peer]]\nname = \"a\"\n\n[peer.p]\nd = 7\n[u]\n[[peer]]\nname = \"b\"\n",
    ),
    (
        "[[peer]]\nname = \"a\"\n[peer.p]\n[u]\n",
        "peer.b.p.d",
        "[[peer]]\nname = \"a\"\n[peer.p]\n\n[[peer]]\nname = \"b\"\n\n[peer.p]\nd = 7\n[u]\n",
    ),
    (
        "[[peer]]\nname = \"a\"\n[peer.p]\nb = 1\n[u]\n",
        "peer.a.d",
        "[[peer]]\nname = \"a\"\nd = 7\n[peer.p]\nb = 1\n[u]\n",
    ),
];

#[test]
fn a_setting_is_added_as_the_file_is_written_and_removed_again() {
    for (before, key, after) in WAYS {
        let mut doc = Document::parse(before).unwrap();
        set(&mut doc, key, "7").unwrap();
        assert_eq!(doc.text(), after, "{key} in {before}");
        unset(&mut doc, key).unwrap();
        let left = format!("{:?}", doc.text().parse::<toml::Table>().unwrap());
        assert!(!left.contains('7'), "{key} in {before}");
    }
}

#[test]
fn a_removed_table_takes_its_lines_alone() {
    for (before, key, after) in [
        ("# c\n[t]\na = 1\n\n# d\n[u] # e\n[t.b]\n", "t", "\n# d\n[u] # e\n"),
        ("[u]\nt.a = 1\nb = 2\n# c\nt.c = 3\n", "u.t", "[u]\nb = 2\n"),
        ("[[t]]\nname = \"a\"\n[[t.x]]\n[u]\n[[t]]\nname = \"b\"\n", "t.a", "[u]\n[[t]]\nname = \"b\"\n"),
        ("[[t]]\nname = \"a\"\n[u]\n[[t]]\nname = \"b\"\n", "t", "[u]\n"),
        ("t = { a = 1, b = 2, c = 3 }\n", "t.a", "t = { b = 2, c = 3 }\n"),
        ("t = { a = 1, b = 2, c = 3 }\n", "t.b", "t = { a = 1, c = 3 }\n"),
        ("t = { a = 1, b.x = 2, c = 3 }\n", "t.b.x", "t = { a = 1, c = 3 }\n"),
        ("t = { a.x = 1, b = 2 } # c\n", "t.b", "t = { a.x = 1 } # c\n"),
    ] {
        let mut doc = Document::parse(before).unwrap();
        unset(&mut doc, key).unwrap();
        assert_eq!(doc.text(), after, "{key} in {before}");
    }
}

#[test]
fn a_key_is_one_key() {
    let keys = |key: &str| path(key).unwrap_or_default();
    assert_eq!(keys(" a . \"b.c\".'d' "), ["a", "b.c", "d"]);
    for key in ["", "a.", "a]\n[b", "a] #", "[a]", "a = 1", "a b"] {
        assert!(path(key).is_err_and(|why| why.contains("is not the key of a setting")), "{key}");
    }
}

fn names(text: &str) -> Vec<String> {
    let data: toml::Table = text.parse().unwrap();
    let rules = data["rule"].as_array().unwrap();
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
            let mut doc = Document::parse(&text).unwrap();
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
                (text, model) = (doc.text().to_owned(), expected);
            }
            prop_assert_eq!(if model.is_empty() { Vec::new() } else { names(&text) }, model.clone());
            // A rule that is removed and added again has lost its comment.
            has_comment &= model.contains(&"backup".to_owned());
            prop_assert_eq!(text.contains("# At night.\n[[rule]]\nname = \"backup\""), has_comment, "{}", text);
            prop_assert!(text.contains("# Hubs.\n[[peer]]\nname = \"hub\"\nweight = 3 # thrice"), "{}", text);
        }
    }
}

/// Parts of a file that stand in any order.
const PARTS: [&str; 9] = [
    "# The node.\n[node] # its key\nkey = \"k\" # c\n\n",
    "[tun]\n  # first\naddress = [\n  \"a\", # c\n]\nx.y = 1\n# inline\nx.z = { a = 1, b.c = 2 } # d\n",
    "[[peer]]\nname = \"a\"\nweight = 3 # thrice\n",
    "\n# b\n[[peer]]\nname = \"b\"\n[peer.policy]\ncost = 2\n[peer.policy.deep]\nq = 1\n\n# end of b\n",
    "[vpns.red]\nid = 1\n",
    "[vpns.\"a b\"]\nid = \"\"\"\n# no comment\n[x]\n\"\"\"\n",
    "\n# alone\n\n",
    "[[rule]]\nname = \"r\"\n",
    "[[list]]\nn = 1\n[list.t]\n",
];

/// Keys that the file has or could have.
const KEYS: [&str; 26] = [
    "node.key",
    "node.new",
    "node",
    "tun",
    "tun.x",
    "tun.x.y",
    "tun.x.new",
    "tun.x.z",
    "tun.x.z.a",
    "tun.x.z.b",
    "tun.x.z.b.c",
    "tun.x.z.b.d",
    "tun.x.z.new",
    "tun.address",
    "peer.a",
    "peer.a.weight",
    "peer.a.policy.cost",
    "peer.b",
    "peer.b.policy.cost",
    "peer.b.policy.deep",
    "peer.b.policy.deep.q",
    "peer.c.weight",
    "vpns",
    "vpns.red.id",
    "vpns.new.id",
    "top",
];

fn data(text: &str) -> toml::Table {
    text.parse().unwrap()
}

/// Removes tables without settings. Some ways to write a table end with its last setting.
fn pruned(table: toml::Table) -> toml::Table {
    fn prune(value: toml::Value) -> toml::Value {
        match value {
            toml::Value::Table(table) => toml::Value::Table(pruned(table)),
            toml::Value::Array(list) => toml::Value::Array(list.into_iter().map(prune).collect()),
            other => other,
        }
    }
    let pruned = table.into_iter().map(|(key, value)| (key, prune(value)));
    pruned.filter(|(_, value)| value.as_table().is_none_or(|table| !table.is_empty())).collect()
}

/// Sets a key of the content to 7, or removes it. Returns `None` if that is impossible.
fn model(table: &mut toml::Table, path: &[&str], is_set: bool) -> Option<()> {
    use toml::Value;
    let (part, rest) = path.split_first()?;
    if let (true, [name, inner @ ..]) = (NAMED.contains(part), rest) {
        if !table.contains_key(*part) && is_set {
            table.insert((*part).to_owned(), Value::Array(Vec::new()));
        }
        let list = table.get_mut(*part)?.as_array_mut()?;
        let at = list.iter().position(|of| of.get("name").and_then(Value::as_str) == Some(name));
        if !is_set && inner.is_empty() {
            list.remove(at?);
            if list.is_empty() {
                table.remove(*part);
            }
            return Some(());
        }
        let at = at.or_else(|| {
            list.push(Value::Table(toml::Table::from_iter([("name".to_owned(), Value::from(*name))])));
            is_set.then(|| list.len() - 1)
        });
        return model(list.get_mut(at?)?.as_table_mut()?, inner, is_set);
    }
    match (rest, is_set) {
        ([], true) if table.get(*part).is_some_and(Value::is_table) => return None,
        ([], true) => _ = table.insert((*part).to_owned(), Value::from(7)),
        ([], false) => _ = table.remove(*part)?,
        (rest, true) => {
            let inner = table.entry(*part).or_insert_with(|| Value::Table(toml::Table::new()));
            model(inner.as_table_mut()?, rest, is_set)?;
        }
        (rest, false) => model(table.get_mut(*part)?.as_table_mut()?, rest, is_set)?,
    };
    Some(())
}

/// Returns the lines of `fewer` that `more` does not have in the same order.
fn lost<'a>(fewer: &'a str, more: &str) -> Vec<&'a str> {
    let mut rest = more.lines();
    let is_lost = |line: &&str| {
        let found = rest.clone().position(|of| of == *line);
        found.map(|at| rest.nth(at)).is_none()
    };
    fewer.lines().filter(is_lost).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// An edit changes the content as the model says, and keeps all other lines in their order.
    #[test]
    fn an_edit_changes_its_key_alone(
        parts in Just(PARTS.to_vec()).prop_shuffle(),
        count in 0..=PARTS.len(),
        edits in proptest::collection::vec((any::<bool>(), proptest::sample::select(KEYS.to_vec())), 1..6),
    ) {
        let mut doc = Document::parse(&parts[..count].concat()).unwrap();
        for (is_set, key) in edits {
            if is_set && key == "tun.x.z" {
                // An inline table is replaced, other tables are not. The model does not know the difference.
                continue;
            }
            let before = doc.text().to_owned();
            let mut expected = data(&before);
            let keys: Vec<&str> = key.split('.').collect();
            let is_possible = model(&mut expected, &keys, is_set).is_some();
            let done = if is_set { set(&mut doc, key, "7") } else { unset(&mut doc, key) };
            if done.is_err() {
                prop_assert_eq!(doc.text(), &before);
                // A part of an inline table that dotted keys make is not removed at once.
                prop_assert!(!is_possible || key == "tun.x.z.b", "{}: {:?}\n{}", key, done, before);
                continue;
            }
            prop_assert!(is_possible, "{} is impossible:\n{}\n{}", key, before, doc.text());
            let found = pruned(data(doc.text()));
            prop_assert_eq!(found, pruned(expected), "{} {}:\n{}\n{}", is_set, key, before, doc.text());
            let (fewer, more) = if is_set { (before.as_str(), doc.text()) } else { (doc.text(), before.as_str()) };
            let lost = lost(fewer, more);
            prop_assert!(lost.len() <= 1 || key == "tun.address", "{:?} {}\n{}\n{}", lost, key, before, doc.text());
        }
    }
}
