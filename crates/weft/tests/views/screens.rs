//! Property: the views of a running node show everything that they promise, on a real kernel.

use crate::common::{Dir, TWO_NODES, has_tun, script, stderr, stdout, two_nodes, weft};
use serde_json::Value;
use std::fs;
use std::process::Output;

/// The two nodes, running and settled. The hub's links have other names than home's.
const UP: &str = r#"
    for i in 1 2; do
        ip -n hub link set link$i down; ip -n hub link set link$i name wan$i; ip -n hub link set wan$i up
    done
    up hub; up home; logged home "session established"; settled
"#;

fn on_nodes(more_at_home: &str, commands: &str) -> Option<(Dir, Output)> {
    if !has_tun() {
        return None;
    }
    let dir = Dir::new();
    two_nodes(&dir, None);
    let file = dir.path("home.toml");
    fs::write(&file, fs::read_to_string(&file).unwrap() + more_at_home).unwrap();
    let out = script(&dir, &[TWO_NODES, UP, commands].concat());
    Some((dir, out))
}

fn read(dir: &Dir, name: &str) -> String {
    fs::read_to_string(dir.path(name)).unwrap()
}

fn json(dir: &Dir, name: &str) -> Value {
    serde_json::from_str(&read(dir, name)).unwrap_or_else(|why| panic!("{name}: {why}: {}", read(dir, name)))
}

#[test]
fn links_rates_and_prefixes_are_shown() {
    let Some((dir, out)) = on_nodes(
        "",
        r#"
            ip netns exec home ping -i 0.01 -s 1000 -c 400 -q 10.9.0.2 >/dev/null & ping=$!
            sleep 3
            for node in home hub; do run $node status --json >$node.json; run $node paths >$node.paths; run $node flows >$node.flows; done
            wait $ping
            run hub prefixes --json >prefixes.json; run hub prefixes; run hub prefixes --peer nobody
            run home explain hub --json >explain.json; echo "explain hub: $?"
            run home top --once >top; run home top 2>&1
            run home explain hbu; echo "explain hbu: $?""#,
    ) else {
        return;
    };
    let (text, errors) = (stdout(&out), stderr(&out));
    let hub = json(&dir, "hub.json");
    let paths = hub["peers"][0]["paths"].as_array().unwrap();
    for path in paths.iter().filter(|path| path["state"] == "good") {
        let (here, there) = (path["link"].as_str().unwrap(), path["remote_link"].as_str().unwrap_or("not told"));
        assert_eq!(here.replace("wan", "link"), there, "{path}\n{text}{errors}");
    }
    assert!(read(&dir, "hub.paths").contains("wan1 → link1 192.0.2."), "{}", read(&dir, "hub.paths"));
    let sum = |node: &str, key: &str| -> u64 {
        let status = json(&dir, node);
        status["peers"][0]["paths"].as_array().unwrap().iter().filter_map(|path| path[key].as_u64()).sum()
    };
    // A hundred packets a second of 1,028 bytes, both ways, are 0.82 Mbit/s, plus weft's overhead.
    for (node, key) in [("hub.json", "receiving_bps"), ("home.json", "receiving_bps"), ("home.json", "sending_bps")] {
        let bps = sum(node, key);
        assert!((200_000..1_400_000).contains(&bps), "{node} {key}: {bps}");
    }
    let flow = json(&dir, "home.json")["peers"][0]["flows"][0]["rate_bps"].as_u64().unwrap();
    assert!((200_000..1_200_000).contains(&flow), "{flow}: {}", read(&dir, "home.flows"));
    assert!(read(&dir, "home.flows").contains("kbit/s"), "{}", read(&dir, "home.flows"));
    let top = read(&dir, "top");
    let head = ": session with 1 of 1 peers, 2 of 2 paths usable; sending ";
    assert!(top.starts_with("weft0 up ") && top.contains(head), "{top}");
    for words in ["link1    1/1", "hub   link2  good", "icmp"] {
        assert!(top.contains(words), "no {words}: {top}");
    }
    assert!(text.contains("without one, run: weft top --once"), "{text}{errors}");
    let prefixes = json(&dir, "prefixes.json");
    let shown: Vec<_> =
        prefixes["prefixes"].as_array().unwrap().iter().map(|of| (&of["prefix"], &of["peer"])).collect();
    assert_eq!(shown, [(&"10.9.0.2/32".into(), &Value::Null), (&"10.9.0.1/32".into(), &"home".into())], "{prefixes}");
    assert!(text.contains("10.9.0.1/32  home       default  configured"), "{text}");
    assert!(
        text.contains("no prefixes") && text.contains("explain hub: 0") && text.contains("explain hbu: 1"),
        "{text}"
    );
    assert_eq!(json(&dir, "explain.json")["prefixes"][0]["prefix"], "10.9.0.2/32");
    assert!(errors.contains("found no node `hbu` that has a prefix"), "{errors}");
}

#[test]
fn explain_sees_proxies_and_grants() {
    let Some((dir, out)) = on_nodes(
        "[[proxy]]\nto = [\"10.9.0.2/32\"]\nports = [8080]\n[[tcp-er.grant]]\nto = \"10.9.0.0/28\"\nrate = \"7 Mbit/s\"\n",
        "run home explain 10.9.0.2:8080 tcp --json >proxied.json; run home explain 10.9.0.2:80 tcp --json >plain.json
         run home explain 10.9.0.2:8080 udp --json >udp.json",
    ) else {
        return;
    };
    let show = || format!("{}{}", stderr(&out), read(&dir, "home.log"));
    let [proxied, plain, udp] = ["proxied.json", "plain.json", "udp.json"].map(|name| json(&dir, name));
    assert!(
        proxied["proxy"].as_str().is_some_and(|text| text.contains("this node's proxy terminates")),
        "{proxied}\n{}",
        show()
    );
    assert_eq!(
        (proxied["grant"]["rate_bps"].as_u64(), plain["grant"]["rate_bps"].as_u64()),
        (Some(7_000_000), Some(7_000_000))
    );
    assert_eq!((&plain["proxy"], &udp["proxy"], &udp["grant"]), (&Value::Null, &Value::Null, &Value::Null));
}

#[test]
fn weights_of_other_links_stay_and_a_schedule_that_ignores_them_is_named() {
    let Some((dir, out)) = on_nodes(
        "",
        r#"
            run home weights set link1=7 2>ignored.txt; echo "first: $?"
            run home weights set link2=9; echo "second: $?"
            run home status --json >weights.json; run home weights
            sed -i -e '/^\[node\]/i [policy]\nschedule = "weighted-round-robin"' home.toml
            kill -HUP $home; logged home "reloaded"
            run home weights set link1=5 2>heeded.txt; run home status --json >later.json
            run home weights set link1=0 link2=0; echo "nothing: $?""#,
    ) else {
        return;
    };
    let text = stdout(&out);
    let weights = |name: &str| -> Vec<(String, u64)> {
        let status = json(&dir, name);
        let paths = status["peers"][0]["paths"].as_array().unwrap().clone();
        let mut weights: Vec<_> = paths
            .iter()
            .map(|path| (path["link"].as_str().unwrap().to_owned(), path["weight"].as_u64().unwrap()))
            .collect();
        weights.sort();
        weights.dedup();
        weights
    };
    assert_eq!(weights("weights.json"), [("link1".to_owned(), 7), ("link2".to_owned(), 9)], "{text}{}", stderr(&out));
    assert!(read(&dir, "ignored.txt").contains("the schedule ignores them toward hub (earliest-delivery)"));
    assert!(text.contains("the schedule earliest-delivery toward peer hub ignores weights"), "{text}");
    assert_eq!(read(&dir, "heeded.txt"), "");
    assert_eq!(weights("later.json")[0], ("link1".to_owned(), 5));
    assert!(weights("later.json")[1].1 > 0, "the other keeps what it has");
    assert!(text.contains("nothing: 1"), "{text}");
}

#[test]
fn no_command_hangs_on_a_node_that_is_stopped() {
    let Some((dir, out)) = on_nodes(
        "",
        r#"
            kill -STOP $home; asked=
            for command in status paths flows vpns weights sense prefixes "ping hub" "explain 10.9.0.2" "weights set measured"; do
                (timeout 20 ip netns exec home $WEFT $command --control home.sock >/dev/null 2>"said.$command"; echo "$command: $?") &
                asked+=" $!"
            done
            wait $asked; cat said.* >said.txt; kill -CONT $home; run home status >/dev/null; echo "afterwards: $?""#,
    ) else {
        return;
    };
    let (text, said) = (stdout(&out), read(&dir, "said.txt"));
    assert_eq!(text.lines().filter(|line| line.ends_with(": 1")).count(), 10, "{text}{said}");
    assert_eq!(said.lines().filter(|line| line.contains("stopped or hangs")).count(), 10, "{said}");
    assert!(text.contains("afterwards: 0") || text.contains("afterwards: 3"), "{text}");
}

#[test]
fn watching_ends_with_q_and_with_control_c_and_leaves_the_terminal_as_it_was() {
    let Some((dir, out)) = on_nodes(
        "",
        r#"
            for key in q '\003'; do
                (sleep 1.5; printf "$key"; sleep 0.5; printf 'exit\n') | timeout 20 ip netns exec home script -qec "
                    stty cols 80 rows 12; before=\$(stty -g)
                    $WEFT paths --watch --control home.sock; echo; echo ended \$?
                    [ \"\$before\" = \"\$(stty -g)\" ] && echo restored" /dev/null | tr -d '\r' >screen.txt
                grep -a -c -e '^ended 0' -e '^restored' screen.txt
                cat -A screen.txt >&2
            done"#,
    ) else {
        return;
    };
    assert_eq!(stdout(&out).lines().collect::<Vec<_>>(), ["2", "2"], "{}", stderr(&out));
    let screen = read(&dir, "screen.txt");
    let longest = screen.replace("\u{1b}[H", "\n").lines().map(|line| plain(line).chars().count()).max();
    assert!(longest <= Some(80), "{longest:?}: {screen}");
    assert!(screen.contains("\u{1b}[1mPATH\u{1b}[0m") && screen.contains("q: end"), "{screen:?}");
}

#[test]
fn the_whole_screen_shows_a_view_for_each_key_and_gives_the_terminal_back() {
    let Some((dir, out)) = on_nodes(
        "[users]\nby = \"host\"\n",
        r#"
            (sleep 1.5; printf p; sleep 0.7; printf c; sleep 0.7; printf r; sleep 0.7; printf q; sleep 0.5; printf 'exit\n') |
                timeout 20 ip netns exec home script -qec "
                    stty cols 80 rows 20; before=\$(stty -g)
                    $WEFT qos --control home.sock; echo; echo ended \$?
                    [ \"\$before\" = \"\$(stty -g)\" ] && echo restored" /dev/null | tr -d '\r' >screen.txt
            grep -a -c -e '^ended 0' -e '^restored' screen.txt
            cat -A screen.txt >&2
            run home qos --control home.sock </dev/null; echo "no terminal: $?""#,
    ) else {
        return;
    };
    assert_eq!(stdout(&out).lines().collect::<Vec<_>>(), ["2", "no terminal: 2"], "{}", stderr(&out));
    let screen = read(&dir, "screen.txt");
    let shown = screen.split_once("\u{1b}[?1049h").and_then(|(_, rest)| rest.split_once("\u{1b}[?1049l"));
    let (shown, _) = shown.unwrap_or_else(|| panic!("not the whole screen: {screen:?}"));
    let longest = shown.replace("\u{1b}[H", "\n").lines().map(|line| plain(line).chars().count()).max();
    assert!(longest <= Some(80), "{longest:?}: {shown}");
    for view in ["flows now;", "TOWARD", "interactive", "no rules"] {
        assert!(shown.contains(view), "no {view}: {shown:?}");
    }
}

/// Returns a line without colours and other control sequences.
fn plain(line: &str) -> String {
    let mut is_code = false;
    let shown = |c: &char| {
        let hidden = is_code || *c == '\u{1b}';
        is_code = if is_code { !c.is_ascii_alphabetic() } else { *c == '\u{1b}' };
        !hidden
    };
    line.chars().filter(shown).collect()
}

#[test]
fn colours_follow_the_environment_and_the_option() {
    let dir = Dir::new();
    let ca = dir.path("ca");
    let ca = ca.to_str().unwrap();
    assert!(weft(&["ca", "init", "--out", ca]).status.success());
    let key = dir.key("a.key");
    assert!(weft(&["ca", "sign", "--ca", ca, "--name", "a", "--public-key", &key]).status.success());
    let has_color = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = std::process::Command::new(crate::common::WEFT);
        command.env_clear().envs(variables.iter().copied()).args(["ca", "list", "--ca", ca]).args(arguments);
        stdout(&command.output().unwrap()).contains("\u{1b}[32mvalid")
    };
    let (force, none) = (("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1"));
    assert!(!has_color(&[], &[]) && has_color(&[force], &[]) && has_color(&[], &["--color", "always"]));
    assert!(has_color(&[none], &["--color=always"]) && !has_color(&[force], &["--color", "never"]));
    assert!(!has_color(&[none], &[]));
}

#[test]
fn check_reports_the_same_to_programs_and_people() {
    let dir = Dir::new();
    dir.key("weft.key");
    let file =
        dir.write("weft.toml", "[node]\nkey = \"weft.key\"\nlisten = 70000\n[tun]\naddres = [\"10.9.0.1/24\"]\n");
    let out = weft(&["check", file.to_str().unwrap(), "--json"]);
    let told: Value = serde_json::from_str(&stdout(&out)).unwrap();
    assert_eq!((out.status.code(), &told["is_usable"]), (Some(1), &Value::Bool(false)), "{told}");
    let people = stderr(&weft(&["check", file.to_str().unwrap()]));
    let findings = told["findings"].as_array().unwrap();
    assert!(!findings.is_empty());
    for finding in findings {
        let place =
            format!("weft.toml:{}:{}: {}: ", finding["line"], finding["column"], finding["severity"].as_str().unwrap());
        assert!(people.contains(&(place + finding["message"].as_str().unwrap())), "{finding}\n{people}");
    }
    let missing = weft(&["check", "/nowhere/weft.toml", "--json"]);
    assert!(stdout(&missing).contains("unreadable"), "{}", stdout(&missing));
    assert_eq!(stdout(&weft(&["version"])), format!("weft {}\n", env!("CARGO_PKG_VERSION")));
}
