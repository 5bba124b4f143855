//! Checks of the configuration of `weft signal`.

use crate::common::{Dir, stderr, stdout, weft};

fn says(text: &str, status: i32, expected: &[&str]) {
    let dir = Dir::new();
    dir.key("signal.key");
    let file = dir.write("signal.toml", text);
    let out = weft(&["signal", "--check", "-c", file.to_str().unwrap()]);
    let message = format!("{}{}", stderr(&out), stdout(&out));
    assert_eq!(out.status.code(), Some(status), "{message}");
    for part in expected {
        assert!(message.contains(part), "{part:?} is not in:\n{message}");
    }
}

#[test]
fn a_good_one_is_well() {
    let text = "[signal]\ninterface = \"eth0\"\nrate = \"100 Mbit/s\"\nrate-down = \"1 Gbit/s\"\nkey = \"signal.key\"\n\
                plain-routers = true\ncontroller = \"erica\"\n[[signal.rule]]\nname = \"bulk\"\nports = \"873\"\n\
                [tcp-er]\n[[tcp-er.grant]]\nto = \"10.0.0.0/8\"\nrate = \"1 Mbit/s\"\n";
    says(text, 0, &["signal.toml: valid (1 rule)\n"]);
}

#[test]
fn missing_and_unknown_keys_are_reported_with_their_place() {
    says("", 1, &["signal.toml:1:1: error", "needs `[signal]`"]);
    says(
        "[signal]\nkey = \"signal.key\"\n",
        1,
        &["signal.toml:1:1: error: [signal] needs `interface`", "needs `rate`"],
    );
    let good = "[signal]\nkey = \"signal.key\"\ninterface = \"eth0\"\n";
    says(
        &format!("{good}rate = \"0 bit/s\"\n"),
        1,
        &["signal.toml:4:8: error", "the rate of the interface must be greater than zero"],
    );
    says(&format!("{good}rat = \"1 Mbit/s\"\n"), 1, &["signal.toml:4:1: error", "did you mean `rate`?"]);
    says(&format!("{good}rate = \"1 Mbit/s\"\n[node]\n"), 1, &["signal.toml:5:2: error", "unknown key `node`"]);
    says("[signal]\ninterface = \"eth\\\"0\"\nrate = \"1 Mbit/s\"\n", 1, &["signal.toml:2:13: error"]);
}

#[test]
fn rates_above_what_the_interface_carries_are_reported() {
    let good =
        "[signal]\nkey = \"signal.key\"\ninterface = \"eth0\"\nrate = \"10 Mbit/s\"\n[[signal.rule]]\nname = \"a\"\n";
    let available = format!("{good}available = \"20 Mbit/s\"\n");
    says(&available, 1, &["signal.toml:7:13: error", "`rate` lets the interface carry only 10.0 Mbit/s"]);
    let guaranteed = format!("{good}guaranteed = \"6 Mbit/s\"\n");
    says(&guaranteed, 1, &["signal.toml:7:14: error", "only 5.0 Mbit/s of the interface's rate of 10.0 Mbit/s"]);
}
