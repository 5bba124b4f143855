//! Checks of the TCP proxies and their rules.

use crate::{check, refused, with_peer};

/// Returns a configuration with proxies. The peer's endpoint is 192.0.2.9.
fn with_proxies(proxies: &str) -> String {
    with_peer("") + "endpoints = [\"192.0.2.9:51900\"]\n" + proxies
}

/// Returns true if nft is installed; without it the check must refuse proxies.
fn has_nft() -> bool {
    let (_, message) = check(&with_proxies("[[proxy]]\n"));
    let has = !message.contains("proxies need nft");
    if !has {
        eprintln!("skipped: no nft here");
    }
    has
}

#[test]
fn proxies_are_well() {
    let good = "[proxies]\ncapacity = 100\ncongestion = [\"bbr\"]\n\
                [[proxy]]\nto = [\"10.9.0.2/32\"]\nports = [80, \"5201-5210\"]\n[[proxy]]\nports = [81]\nside = \"egress\"\n";
    if has_nft() {
        assert_eq!(check(&with_proxies(good)), (0, String::new()));
    }
}

#[test]
fn proxies_that_catch_the_tunnel_are_refused() {
    if !has_nft() {
        return;
    }
    let base = with_proxies("").lines().count();
    let text = with_proxies("[[proxy]]\nto = [\"10.9.0.2/32\", \"192.0.2.0/24\"]\n");
    let place = format!("weft.toml:{}:22: error: this [[proxy]] applies to the prefix `192.0.2.0/24`, which", base + 2);
    refused(
        &text,
        &[&place, "the endpoint 192.0.2.9:51900 of peer `hub`", "list in `to` only prefixes behind the peers"],
    );
    let everything = text
        .replace("\"10.9.0.2/32\"]\nend", "\"0.0.0.0/0\"]\nend")
        .replace("to = [\"10.9.0.2/32\", \"192.0.2.0/24\"]", "");
    refused(&everything, &["`0.0.0.0/0`, which contains the endpoint"]);
    refused(&with_proxies("[[proxy]]\nto = [\"10.9.0.1/32\"]\n"), &["`10.9.0.1/32`, which is this node's own address"]);
    refused(&with_proxies("[[proxy]]\nto = [\"10.8.0.0/16\"]\n"), &["`10.8.0.0/16`, which is behind no peer"]);
    // In a network with certificates the peer with this prefix may join later.
    let root = "y9n0grslnFUgNT23Z5r7Xj53NbWRKXQ7b8WE+ednlDA=";
    let network = format!("[network]\nroot = \"{root}\"\n[[proxy]]\nto = [\"10.8.0.0/16\"]\n");
    assert_eq!(check(&with_proxies(&network)), (0, String::new()));
}

#[test]
fn proxies_that_contradict_themselves_are_refused() {
    if !has_nft() {
        return;
    }
    refused(
        &with_proxies("[[proxy]]\nports = [\"1-100\"]\n[[proxy]]\nports = [80]\nside = \"ingress\"\n"),
        &["[[proxy]] number 1 and number 2 accept the same connections: change `to`, `ports` or `side` of one"],
    );
    refused(
        &with_proxies("[[proxy]]\nports = [0, \"9-3\", true]\nport = 3\n"),
        &[
            "`0`: expected a port from 1 to 65535",
            "`9-3`: the first port is above the last",
            "``:",
            "unknown key `port` in [[proxy]]",
        ],
    );
    refused(&with_proxies("[proxies]\ncapacity = 0\n"), &["`capacity` must be a whole number from 1"]);
    refused(
        &with_proxies("[[proxy]]\nside = \"left\"\n"),
        &["`side` cannot be `left`: write one of both, ingress, egress"],
    );
}

#[test]
fn rules_for_proxies_are_well() {
    let good = "[proxies]\n[[proxies.rule]]\ndeny = [\"10.6.0.0/16\", \"fd00::/8\"]\nports = [22, \"8000-8010\"]\n\
                [[proxies.rule]]\nfrom = [\"10.5.0.7/32\"]\nallow = [\"10.6.0.0/16\"]\n\
                [[proxies.rule]]\ndeny = [\"0.0.0.0/0\", \"::/0\"]\n[[proxy]]\n";
    if has_nft() {
        assert_eq!(check(&with_proxies(good)), (0, String::new()));
    }
}

#[test]
fn rules_for_proxies_that_cannot_be_meant_are_refused_with_the_likely_fix() {
    let first = with_proxies("").lines().count() + 1;
    let rules = |text: &str| with_proxies(&format!("[[proxies.rule]]\n{text}\n[[proxy]]\n"));
    let place =
        |line: usize, column: usize, message: &str| format!("weft.toml:{}:{column}: error: {message}", first + line);
    refused(&rules("deny = [\"10.6.0.0/33\"]"), &[&place(1, 9, "`deny` cannot be `10.6.0.0/33`"), "for example"]);
    refused(
        &rules("deny = [\"::ffff:10.6.0.0/112\"]"),
        &[&place(1, 9, "`deny` cannot be"), "an IPv4-mapped prefix as IPv4: write 10.6.0.0/16"],
    );
    refused(
        &rules("deny = [\"10.6.0.7/16\"]"),
        &[&place(1, 9, "the prefix `10.6.0.7/16` has host bits set"), "write 10.6.0.0/16"],
    );
    refused(&rules("from = []\ndeny = []"), &[&place(1, 1, "`from` is empty"), &place(2, 1, "`deny` is empty")]);
    refused(&rules("ports = [22]"), &["a rule needs `allow` or `deny`", "deny = [\"10.6.0.0/16\"]"]);
    refused(&rules("allow = [\"10.6.0.0/16\"]\ndeny = [\"10.6.0.0/16\"]"), &["a rule cannot `allow` and `deny`"]);
    refused(&rules("deny = [\"10.6.0.0/16\"]\nports = [0]"), &[&place(2, 10, "`0`: expected a port from 1 to 65535")]);
    refused(&rules("deny = [\"10.6.0.0/16\"]\nport = [1]"), &[&place(2, 1, "unknown key `port`"), "ports"]);
    refused(
        &rules("deny = [\"127.0.0.0/8\", \"fe80::1/128\"]"),
        &["[[proxies.rule]] number 1 never applies: a proxy never connects"],
    );
    refused(
        &rules("from = [\"fd00::/8\"]\ndeny = [\"10.6.0.0/16\"]"),
        &["[[proxies.rule]] number 1 never applies: `from` and the servers have no address family in common"],
    );
    let shadowed = "deny = [\"10.0.0.0/8\"]\n[[proxies.rule]]\nallow = [\"10.6.0.0/16\"]\nports = [80]";
    refused(
        &rules(shadowed),
        &[
            &place(2, 1, "[[proxies.rule]] number 2 never applies: the earlier [[proxies.rule]] number 1 matches all"),
            "move the narrower one up",
        ],
    );
    let halves = "deny = [\"10.6.0.0/17\"]\n[[proxies.rule]]\ndeny = [\"10.6.128.0/17\"]\n\
                  [[proxies.rule]]\nallow = [\"10.6.0.0/16\"]";
    refused(
        &rules(halves),
        &["[[proxies.rule]] number 3 never applies: the earlier [[proxies.rule]] numbers 1 and 2 together match all"],
    );
    let (status, message) = check(&with_proxies("[[proxies.rule]]\ndeny = [\"10.6.0.0/16\"]\n"));
    assert!(status == 0 && message.contains("have no effect without a [[proxy]]"), "{message}");
}
