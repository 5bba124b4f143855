//! `[[allow]]`, `[[allow-test]]`, `groups` of peers, and `weft acl test`.

use crate::common::{Dir, stderr, stdout, weft};
use crate::{PEER, check, refused};

/// Returns a configuration; `rules` begin at line 11.
fn config(rules: &str) -> String {
    format!(
        "[node]\nkey = \"weft.key\"\nlisten = 51900\n[tun]\naddress = [\"10.9.0.1/24\", \"fd00::1/64\"]\n\
         [[peer]]\nname = \"laptop\"\npublic-key = \"{PEER}\"\nprefixes = [\"10.9.0.2/32\", \"fd00::2/128\"]\n\
         groups = [\"staff\"]\n{rules}"
    )
}

const WEB: &str =
    "[[allow]]\nname = \"web\"\nfrom = \"group:staff\"\nprotocol = \"tcp\"\nports = [\"80\", \"443-444\"]\n";

#[test]
fn good_ones_are_well() {
    for rules in [
        "[[allow]]\n",
        WEB,
        "[[allow]]\nfrom = [\"node:laptop\", \"10.9.0.0/24\", \"fd00::2\"]\nto = \"10.9.0.1\"\nprotocol = 47\n",
        "[[allow]]\nfrom = \"any\"\nprotocol = \"udp\"\nports = \"53\"\nvpn = \"default\"\n",
        "[[allow-test]]\nfrom = \"node:laptop\"\nto = \"10.9.0.1\"\nprotocol = \"tcp\"\nport = 22\nexpect = \"allow\"\n",
    ] {
        let (status, message) = check(&config(rules));
        assert_eq!((status, message.as_str()), (0, ""), "{rules}");
    }
    let tests = "[[allow-test]]\nfrom = \"node:laptop\"\nto = \"10.9.0.1\"\nprotocol = \"tcp\"\nport = 443\nexpect = \"allow\"\n\
        [[allow-test]]\nfrom = \"10.9.0.2\"\nto = \"10.9.0.1\"\nprotocol = \"tcp\"\nport = 443\nexpect = \"allow\"\n\
        [[allow-test]]\nfrom = \"group:staff\"\nto = \"10.9.0.1\"\nprotocol = \"tcp\"\nport = 80\nexpect = \"allow\"\n\
        [[allow-test]]\nfrom = \"10.9.0.3\"\nto = \"10.9.0.1\"\nprotocol = \"tcp\"\nport = 443\nexpect = \"deny\"\n\
        [[allow-test]]\nfrom = \"fd00::2\"\nto = \"fd00::1\"\nprotocol = \"udp\"\nport = 443\nexpect = \"deny\"\n";
    let (status, message) = check(&config(&[WEB, tests].concat()));
    assert_eq!((status, message.as_str()), (0, ""));
}

#[test]
fn wrong_rules_have_a_place_and_a_likely_fix() {
    for (rule, expected) in [
        ("from = \"staff\"", "weft.toml:12:8: error: `from` cannot be `staff`: expected one end of a flow"),
        (
            "from = \"group:two words\"",
            "weft.toml:12:8: error: `from` cannot be `group:two words`: the name of a group must have 1 to 31 bytes",
        ),
        (
            "from = \"10.9.0.1/24\"",
            "weft.toml:12:8: error: `from` cannot be `10.9.0.1/24`: the prefix `10.9.0.1/24` has host bits",
        ),
        ("to = []", "weft.toml:12:1: error: `to` is empty, so the [[allow]] rule"),
        ("to = 7", "weft.toml:12:6: error: `to` must be an array of strings"),
        ("protocol = \"tpc\"", "weft.toml:12:12: error: `protocol` cannot be `tpc`"),
        ("ports = \"80\"", "weft.toml:12:1: error: only TCP and UDP have ports"),
        (
            "protocol = \"tcp\"\nports = [\"80-70\"]",
            "weft.toml:13:10: error: `ports` cannot be `80-70`: the first port of the range is above",
        ),
        ("vpn = \"blue\"", "weft.toml:12:7: error: there is no VPN `blue`"),
        ("form = \"any\"", "weft.toml:12:1: error: unknown key `form` in [[allow]]"),
        ("name = \"a\"\n[[allow]]\nname = \"a\"", "weft.toml:14:8: error: two [[allow]] tables have the name `a`"),
        ("from = \"node:labtop\"", "weft.toml:12:8: warning: no peer has the name `labtop`"),
        ("from = \"group:stuff\"", "weft.toml:12:8: warning: no peer is in the group `stuff`"),
    ] {
        let text = config(&format!("[[allow]]\n{rule}\n"));
        if expected.contains("warning") {
            let (status, message) = check(&text);
            assert!(status == 0 && message.contains(expected), "{rule}: {message}");
        } else {
            refused(&text, &[expected]);
        }
    }
    let groups = config("").replace("[\"staff\"]", "[\"two words\"]");
    refused(&groups, &["weft.toml:10:11: error: `groups` cannot be `two words`"]);
}

#[test]
fn a_rule_with_one_mistake_has_one_message() {
    for rule in ["from = \"staff\"", "to = [\"10.9.0.300\"]", "from = []"] {
        let (status, message) = check(&config(&format!("[[allow]]\n{rule}\n")));
        assert_eq!((status, message.matches("error:").count()), (1, 1), "{rule}: {message}");
    }
}

#[test]
fn a_file_whose_tests_fail_is_refused() {
    let test = |rest: &str| config(&format!("{WEB}[[allow-test]]\n{rest}\n"));
    for (rest, expected) in [
        (
            "from = \"node:laptop\"\nto = \"10.9.0.1\"\nprotocol = \"tcp\"\nport = 22\nexpect = \"allow\"",
            "weft.toml:16:1: error: the [[allow-test]] in this line (expect = \"allow\") fails: no [[allow]] table",
        ),
        (
            "from = \"node:laptop\"\nto = \"10.9.0.1\"\nprotocol = \"tcp\"\nport = 444\nexpect = \"deny\"",
            "in this line (expect = \"deny\") fails: the [[allow]] rule `web` lets the tested flow in",
        ),
        (
            "from = \"any\"\nto = \"10.9.0.1\"\nprotocol = \"tcp\"\nport = 444\nexpect = \"deny\"",
            "(expect = \"deny\") fails: `from` of the tested flow needs a node, a group or an address, not `any`",
        ),
        (
            "from = [\"10.9.0.2\", \"10.9.0.3\"]\nto = \"10.9.0.1\"\nprotocol = \"icmp\"\nexpect = \"deny\"",
            "(expect = \"deny\") fails: `from` of the tested flow names two addresses",
        ),
        (
            "from = \"10.9.0.2\"\nto = \"fd00::1\"\nprotocol = \"icmp\"\nexpect = \"deny\"",
            "(expect = \"deny\") fails: the sender 10.9.0.2 and the destination fd00::1 are of two IP versions",
        ),
        (
            "from = \"10.9.0.2\"\nto = \"10.9.0.1\"\nprotocol = \"tcp\"\nexpect = \"drop\"",
            "20:10: error: `expect` cannot be `drop`",
        ),
        ("from = \"10.9.0.2\"\nprotocol = \"tcp\"\nexpect = \"deny\"", "[[allow-test]] needs `to`"),
    ] {
        refused(&test(rest), &[expected]);
    }
    let none =
        config("[[allow-test]]\nfrom = \"10.9.0.2\"\nto = \"10.9.0.1\"\nprotocol = \"icmp\"\nexpect = \"deny\"\n");
    refused(
        &none,
        &[
            "weft.toml:11:1: error: the [[allow-test]] in this line",
            "fails: the flow enters: there is no [[allow]] table",
        ],
    );
}

#[test]
fn a_flow_is_tested_from_the_command_line() {
    let dir = Dir::new();
    dir.key("weft.key");
    let file = dir.write("weft.toml", &config(WEB));
    let test = |arguments: &[&str]| {
        let out = weft(&[&["acl", "test"], arguments, &["-c", file.to_str().unwrap()]].concat());
        (out.status.code().unwrap(), stdout(&out) + &stderr(&out))
    };
    assert_eq!(test(&["laptop", "10.9.0.1", "tcp", "443"]), (0, "allowed by the [[allow]] rule web\n".to_owned()));
    assert_eq!(test(&["group:staff", "10.9.0.1", "tcp", "80"]).0, 0);
    assert_eq!(test(&["laptop", "10.9.0.1", "tcp", "22"]), (1, "denied: no [[allow]] table lets it in\n".to_owned()));
    assert_eq!(test(&["node:other,10.9.0.9", "10.9.0.1", "tcp", "443"]).0, 1);
    for (arguments, expected) in [
        (&["laptop", "10.9.0.1", "tcp"][..], "tcp needs the destination port, such as tcp 22"),
        (&["laptop", "10.9.0.1", "icmp", "7"], "icmp has no ports"),
        (&["laptop", "10.9.0.1", "tpc", "7"], "`tpc` is no IP protocol"),
        (&["group:", "10.9.0.1", "icmp"], "`group:`: the name of a group must have 1 to 31 bytes"),
        (&["laptop", "10.9.0.1", "icmp", "--vpn", "red"], "there is no VPN `red`"),
    ] {
        let (status, said) = test(arguments);
        assert!(status == 2 && said.contains(expected), "{arguments:?}: {status} {said}");
    }
}
