//! `[tcp]`, and the keys of links and peers for TCP.

use crate::{PEER, check, refused};

/// Returns a configuration; `link` begins at line 6, `peer` at line 9 with an empty `link`, and `tcp` follows.
fn config(link: &str, peer: &str, tcp: &str) -> String {
    format!(
        "[node]\nkey = \"weft.key\"\nlisten = 51900\n[tun]\naddress = [\"10.9.0.1/24\"]\n{link}\
         [[peer]]\nname = \"hub\"\npublic-key = \"{PEER}\"\n{peer}prefixes = [\"10.9.0.2/32\"]\n{tcp}"
    )
}

const ENDPOINT: &str = "endpoints = [\"192.0.2.1:51900\"]\n";

#[test]
fn good_ones_are_well() {
    for link in [
        "",
        "[[link]]\nname = \"lo\"\ntcp-fallback = \"auto\"\n",
        "[[link]]\nname = \"lo\"\ntcp-fallback = \"always\"\nhttp-proxy = \"[2001:db8::1]:3128\"\n",
        "[[link]]\nname = \"lo\"\ntcp-fallback = \"off\"\n",
    ] {
        for peer in ["", "tcp = 443\n", "tcp = 8443\ntcp-name = \"www.Example.org\"\n"] {
            for tcp in ["", "[tcp]\nlisten = 443\n", "[tcp]\nlisten = 443\nweb = \"127.0.0.1:8080\"\n"] {
                let text = config(link, &[ENDPOINT, peer].concat(), tcp);
                let (status, message) = check(&text);
                assert_eq!((status, message.as_str()), (0, ""), "{text}");
            }
        }
    }
}

#[test]
fn wrong_links_have_a_place_and_a_likely_fix() {
    for (link, expected) in [
        ("tcp-fallback = \"allways\"", "weft.toml:8:16: error: `tcp-fallback` cannot be `allways`"),
        ("tcp-fallback = true", "weft.toml:8:16: error: `tcp-fallback` must be a string"),
        ("tcp-falback = \"off\"", "weft.toml:8:1: error: unknown key `tcp-falback` in [[link]]"),
        ("http-proxy = \"192.0.2.1\"", "weft.toml:8:14: error: `http-proxy` cannot be `192.0.2.1`"),
        ("http-proxy = \"192.0.2.1:0\"", "weft.toml:8:14: error: `http-proxy` cannot be `192.0.2.1:0`"),
        ("http-proxy = \"224.0.0.1:80\"", "weft.toml:8:14: error: `http-proxy` cannot be `224.0.0.1:80`"),
        (
            "http-proxy = \"192.0.2.1:3128\"\ntcp-fallback = \"off\"",
            "weft.toml:8:14: error: `http-proxy` has no use with `tcp-fallback = \"off\"`",
        ),
    ] {
        refused(&config(&format!("[[link]]\nname = \"wan0\"\n{link}\n"), ENDPOINT, ""), &[expected]);
    }
}

#[test]
fn wrong_peers_have_a_place_and_a_likely_fix() {
    for (peer, expected) in [
        ("tcp = 443\n", "weft.toml:9:1: error: `tcp` needs `endpoints`"),
        ("tcp = 0\nendpoints = [\"192.0.2.1:51900\"]\n", "weft.toml:9:7: error: `tcp` must be a whole number from 1"),
        ("tcp = \"443\"\nendpoints = [\"192.0.2.1:51900\"]\n", "weft.toml:9:7: error: `tcp` must be a whole number"),
        ("tcp-name = \"a.example\"\n", "weft.toml:9:12: error: `tcp-name` needs `tcp`"),
        (
            "endpoints = [\"192.0.2.1:51900\"]\ntcp = 443\ntcp-name = \"192.0.2.1\"\n",
            "weft.toml:11:12: error: `tcp-name` cannot be `192.0.2.1`",
        ),
        (
            "endpoints = [\"192.0.2.1:51900\"]\ntcp = 443\ntcp-name = \"a_b.example\"\n",
            "weft.toml:11:12: error: `tcp-name` cannot be `a_b.example`",
        ),
    ] {
        refused(&config("", peer, ""), &[expected]);
    }
}

#[test]
fn wrong_doors_have_a_place_and_a_likely_fix() {
    for (tcp, expected) in [
        ("web = \"127.0.0.1:80\"\n", "[tcp] needs `listen`"),
        ("listen = 65536\n", "weft.toml:11:10: error: `listen` must be a whole number from 1 to 65535"),
        ("listen = 443\nweb = \"localhost:80\"\n", "weft.toml:12:7: error: `web` cannot be `localhost:80`"),
        ("listen = 443\nweb = \"127.0.0.1:443\"\n", "weft.toml:12:7: error: `web` is this node's own `listen`"),
        ("listen = 443\ncertificate = \"a.pem\"\n", "weft.toml:12:15: error: `certificate` needs `key`"),
        ("listen = 443\nkey = \"a.key\"\n", "weft.toml:12:7: error: `key` needs `certificate`"),
        ("listen = 443\nsni = \"a\"\n", "weft.toml:12:1: error: unknown key `sni` in [tcp]"),
    ] {
        refused(&config("", "", &format!("[tcp]\n{tcp}")), &[expected]);
    }
}
