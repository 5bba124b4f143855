//! `weft check` of `[signal]`.

use crate::common::{Dir, chmod, stderr, weft};

const PEER: &str = "8kYnFlnT0RtNq5oXcSbUqIhwkqQ5aJk0q2Yb0vXzq0M=";

/// Returns exit status and message for a configuration with this signalling, which begins at line 6.
fn check(dir: &Dir, signal: &str) -> (i32, String) {
    let text = format!(
        "[node]\nkey = \"weft.key\"\nlisten = 51900\n[tun]\naddress = [\"10.9.0.1/24\"]\n{signal}\n\
         [[peer]]\nname = \"hub\"\npublic-key = \"{PEER}\"\nprefixes = [\"10.9.0.2/32\"]\n"
    );
    let file = dir.write("weft.toml", &text);
    let out = weft(&["check", file.to_str().unwrap()]);
    (out.status.code().unwrap(), stderr(&out).replace(&format!("{}/", dir.0.display()), ""))
}

fn dir() -> Dir {
    let dir = Dir::new();
    dir.key("weft.key");
    dir.key("signal.key");
    dir
}

fn says(signal: &str, status: i32, expected: &[&str]) {
    let (found, message) = check(&dir(), signal);
    assert_eq!(found, status, "{message}");
    for part in expected {
        assert!(message.contains(part), "{part:?} is not in:\n{message}");
    }
}

#[test]
fn a_good_one_is_well() {
    let rules = "[[signal.rule]]\nname = \"web\"\nto = \"10.9.0.0/24\"\nports = \"443\"\navailable = \"50 Mbit/s\"\n\
                 [[signal.rule]]\nname = \"calls\"\nprotocol = \"udp\"\nports = \"5000-5010\"\ndscp = \"ef\"\n\
                 guaranteed = \"82 kbit/s\"\npriority = 5\nreverse = false";
    let signal = "[signal]\nkey = \"signal.key\"\ncontroller = \"erica\"\nreservable = \"30 %\"\nquick-start = false\n";
    let (status, message) = check(&dir(), &format!("{signal}{rules}"));
    assert_eq!((status, message.as_str()), (0, ""));
}

#[test]
fn shares_ports_and_names_have_bounds() {
    says("[signal]\nkey = \"signal.key\"\nreservable = \"120 %\"", 1, &["weft.toml:8:14: error", "100 %"]);
    says("[signal]\nkey = \"signal.key\"\nreservable = \"0.5\"", 1, &["weft.toml:8:14: error", "\"50 %\""]);
    says("[signal]\ncontroler = \"pi\"", 1, &["weft.toml:7:1: error", "did you mean `controller`?"]);
    says("[[signal.rule]]\nname = \"a\"\nports = \"90-80\"", 1, &["weft.toml:8:9: error", "above the last"]);
    says("[[signal.rule]]\nname = \"a\"\nports = \"70000\"", 1, &["weft.toml:8:9: error", "65535"]);
    says("[[signal.rule]]\nname = \"a\"\ndscp = \"copy\"", 1, &["weft.toml:8:8: error", "not a code point"]);
    says("[[signal.rule]]\nports = \"80\"", 1, &["[[signal.rule]] needs `name`"]);
    says("[[signal.rule]]\nname = \"a\"\nto = \"10.9.0.1/24\"", 1, &["weft.toml:8:6: error", "10.9.0.0/24"]);
}

#[test]
fn the_key_must_exist_and_be_private() {
    let dir = dir();
    let (status, message) = check(&dir, "[signal]\nkey = \"none.key\"");
    assert!(status == 1 && message.contains("weft.toml:7:7: error: there is no key file none.key"), "{message}");
    chmod(&dir.path("signal.key"), 0o644);
    let (status, message) = check(&dir, "[signal]\nkey = \"signal.key\"");
    assert!(status == 1 && message.contains("weft.toml:7:7: error") && message.contains("mode 0644"), "{message}");
    chmod(&dir.path("signal.key"), 0o600);
    dir.write("signal.key", "short\n");
    let (status, message) = check(&dir, "[signal]\nkey = \"signal.key\"");
    assert!(status == 1 && message.contains("contains no key"), "{message}");
    let (status, message) = check(&dir, "[signal]");
    assert!(status == 0 && message.contains("warning: without `key`"), "{message}");
}

#[test]
fn rates_above_what_the_links_carry_are_reported() {
    let links = "[links]\nuse = [\"lo\"]\n[[link]]\nname = \"lo\"\nmax-rate-up = \"10 Mbit/s\"\n[signal]\nkey = \"signal.key\"\n";
    let rule = |rate: &str| format!("{links}[[signal.rule]]\nname = \"a\"\n{rate}");
    says(
        &rule("guaranteed = \"6 Mbit/s\""),
        1,
        &["weft.toml:15:14: error", "only 5.0 Mbit/s of the links' total rate of 10.0 Mbit/s"],
    );
    says(
        &rule("available = \"20 Mbit/s\""),
        1,
        &["weft.toml:15:13: error", "`max-rate-up` lets the links together carry only 10.0 Mbit/s"],
    );
    let (status, message) = check(&dir(), &rule("guaranteed = \"5 Mbit/s\""));
    assert_eq!((status, message.as_str()), (0, ""));
}

#[test]
fn rules_that_overlap_are_reported() {
    let two = |second: &str| {
        format!(
            "[signal]\nkey = \"signal.key\"\n[[signal.rule]]\nname = \"a\"\nto = \"10.9.0.0/16\"\nports = \"80-90\"\n\
             [[signal.rule]]\nname = \"b\"\n{second}"
        )
    };
    let inside = two("to = \"10.9.1.0/24\"\nports = \"85\"");
    says(&inside, 1, &["weft.toml:13:8: error: [[signal.rule]] `b` never applies", "the earlier rule `a`"]);
    says(&two("to = \"10.9.0.0/16\"\nports = \"85-99\""), 0, &["weft.toml:13:8: warning", "overlap"]);
    says(&two("from = \"10.9.0.0/16\"\nports = \"85\""), 0, &["weft.toml:13:8: warning", "overlap"]);
    for apart in ["ports = \"91\"", "protocol = \"udp\"\nports = \"85\"", "to = \"10.8.0.0/16\"\nports = \"85\""] {
        let (status, message) = check(&dir(), &two(apart));
        assert_eq!((status, message.as_str()), (0, ""), "{apart}");
    }
    says(&two("protocol = \"udp\"").replace("\"b\"", "\"a\""), 1, &["two [[signal.rule]] tables have the name `a`"]);
}
