//! Changes of the configuration at run time: saved, on trial, confirmed, undone, refused.

use crate::common::{on_two_nodes, part, stderr, stdout};
use std::fs;

/// Shell functions: `change ARGUMENT…` changes the node `home`, `in_force` prints its rules, `same` compares the file.
const SHELL: &str = r#"
    change() { run home "$@" -c home.toml >>said.txt 2>&1; }
    in_force() { run home qos rules --json | tr -d ' \n' | grep -o '"rules":\[[^]]*\]' | grep -o '"name":"[a-z]*"' | tr '\n' ' '; echo; }
    same() { cmp -s home.toml $1 && echo same || echo other; }
    { echo '# Mine.'; cat home.toml; echo; echo '[users]'; echo 'by = "host" # each'; } >with.toml; mv with.toml home.toml
    up hub; up home; logged home "session established"
    cp home.toml before.toml
"#;

#[test]
fn a_change_is_saved_with_the_comments_and_in_force() {
    let commands = r#"
        change qos rules add calls --class voice protocol=udp ports=5000-5010; echo "add: $?"
        change qos rules add web --class interactive protocol=tcp ports=443 --before calls; echo "before: $?"
        echo "== rules"; in_force; echo "== file"; cat home.toml
        echo "== test"; $WEFT qos rules test udp 10.9.0.1:9 10.9.0.2:5004 -c home.toml
        change qos rules remove web; change qos rules remove calls; change set users.by prefix; change set users.by host
        echo "== back"; in_force; same before.toml; ls home.toml.new 2>/dev/null"#;
    let Some((_, out)) = on_two_nodes(&[SHELL, commands].concat()) else { return };
    let text = stdout(&out);
    assert!(text.starts_with("add: 0\nbefore: 0\n"), "{text}\n{}", stderr(&out));
    assert_eq!(part(&text, "rules"), "\"name\":\"web\" \"name\":\"calls\"", "{text}");
    let file = part(&text, "file");
    assert!(file.starts_with("# Mine.") && file.contains("by = \"host\" # each"), "{file}");
    assert!(file.contains("ports = \"5000-5010\""), "{file}");
    assert!(part(&text, "test").starts_with("rule 2 (calls) matches: class voice"), "{text}");
    assert_eq!(part(&text, "back").split_whitespace().last(), Some("same"), "{text}");
}

#[test]
fn a_class_changes_at_run_time_and_is_as_it_came_without_its_table() {
    let commands = r#"
        voice() { run home qos classes --json | tr -d ' \n' | grep -o '"name":"voice"[^}]*' | grep -o '"guaranteed_bps":[0-9]*'; }
        echo "== before"; voice
        change qos classes set voice guaranteed='100 kbit/s' precedence=12; echo "set: $?"
        echo "== set"; voice; echo "== file"; cat home.toml
        change qos classes set control guaranteed='1 Mbit/s' delay-variance='20 ms'; echo "new: $?"
        change qos rules add ssh --class control protocol=tcp ports=22; echo "used: $?"
        change qos classes reset control; echo "in use: $?"
        change qos rules remove ssh; change qos classes reset control; echo "free: $?"
        change qos classes set voice guaranteed=much; echo "wrong: $?"
        change qos classes set voice precedence; echo "usage: $?"
        change qos classes reset voice; echo "reset: $?"
        echo "== back"; voice; same before.toml"#;
    let Some((dir, out)) = on_two_nodes(&[SHELL, commands].concat()) else { return };
    let text = stdout(&out);
    let show = || format!("{text}\n{}\n{}", stderr(&out), fs::read_to_string(dir.path("said.txt")).unwrap_or_default());
    assert!(part(&text, "before").starts_with("\"guaranteed_bps\":82000"), "{}", show());
    assert!(part(&text, "set").starts_with("\"guaranteed_bps\":100000"), "{}", show());
    let file = part(&text, "file");
    assert!(file.starts_with("# Mine.") && file.contains("by = \"host\" # each"), "{file}");
    assert!(file.contains("[[class]]\nname = \"voice\"\nguaranteed = \"100 kbit/s\"\nprecedence = 12"), "{file}");
    for line in ["set: 0", "new: 0", "used: 0", "in use: 1", "free: 0", "wrong: 1", "usage: 2", "reset: 0"] {
        assert!(text.lines().any(|of| of == line), "no {line}\n{}", show());
    }
    assert_eq!(part(&text, "back"), "\"guaranteed_bps\":82000\nsame", "{}", show());
}

#[test]
fn an_unconfirmed_change_leaves_no_trace_and_a_confirmed_one_stays() {
    let commands = r#"
        change qos rules add calls --class voice protocol=udp --confirm 3s; echo "tried: $?"
        echo "== trial"; in_force; same before.toml
        change qos rules add more --class voice protocol=tcp; echo "second: $?"
        for _ in $(seq 100); do grep -q "was not confirmed" home.log && break; sleep 0.1; done
        echo "== over"; in_force; same before.toml; run home confirm -c home.toml; echo "late: $?"
        change qos rules add calls --class voice protocol=udp --confirm 60s; run home undo; echo "undone: $?"
        echo "== undone"; in_force; same before.toml
        change qos rules add calls --class voice protocol=udp --confirm 60s; run home confirm -c home.toml; echo "confirmed: $?"
        echo "== confirmed"; in_force; same before.toml; stat -c %a home.toml before.toml | uniq | wc -l
        kill -9 $home; wait $home; up home; logged home "session established"
        echo "== again"; in_force"#;
    let Some((dir, out)) = on_two_nodes(&[SHELL, commands].concat()) else { return };
    let text = stdout(&out);
    let show = || format!("{text}\n{}\n{}", stderr(&out), fs::read_to_string(dir.path("said.txt")).unwrap_or_default());
    for line in ["tried: 0", "second: 1", "late: 1", "undone: 0", "confirmed: 0"] {
        assert!(text.lines().any(|of| of == line), "no {line}\n{}", show());
    }
    assert!(part(&text, "trial").starts_with("\"name\":\"calls\" \nsame"), "{}", show());
    for over in ["over", "undone"] {
        assert!(!part(&text, over).contains("calls") && part(&text, over).contains("same"), "{over}\n{}", show());
    }
    assert!(part(&text, "confirmed").starts_with("\"name\":\"calls\" \nother\n1"), "{}", show());
    assert!(part(&text, "again").contains("calls"), "{}", show());
}

#[test]
fn a_change_that_the_node_would_not_start_with_changes_nothing() {
    let commands = r#"
        for change in "set users.by nobody" "set node.cipher none" "set users.wieght 3" "unset peer.away" \
            "qos rules add a --class nothing" "qos rules remove a" "set node.key other.key" "set tun 3"; do
            change $change; echo "$change: $?"
        done
        echo "== after"; same before.toml; ls home.toml.new 2>/dev/null
        run home down; for _ in $(seq 50); do [ -e home.sock ] || break; sleep 0.1; done
        change set users.by prefix; echo "alone: $?"; grep -c 'by = "prefix" # each' home.toml
        change set users.by host --confirm 9s; echo "no node: $?"; grep -c 'by = "prefix"' home.toml"#;
    let Some((dir, out)) = on_two_nodes(&[SHELL, commands].concat()) else { return };
    let text = stdout(&out);
    let said = fs::read_to_string(dir.path("said.txt")).unwrap_or_default();
    let refused = text.split("== after").next().unwrap_or_default();
    assert!(refused.lines().all(|line| line.ends_with(": 1")) && refused.lines().count() == 8, "{text}\n{said}");
    assert_eq!(part(&text, "after"), "same\nalone: 0\n1\nno node: 4\n1", "{text}\n{said}");
    for reason in ["did you mean `weights`?", "there is no rule `a`", "peer.away is not set"] {
        assert!(said.contains(reason), "{reason}\n{said}");
    }
    assert!(said.contains("home.toml:") && !said.contains("home.toml.new:"), "places are in the user's file\n{said}");
}
