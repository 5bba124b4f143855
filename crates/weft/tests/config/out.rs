//! `[out]`: the kill switch and the DNS servers of a node that reaches the Internet through a peer.

use crate::{PEER, check, refused};

/// Returns a configuration with a default route of these prefixes; `[out]` begins at line 6.
fn config(out: &str, prefixes: &str) -> String {
    format!(
        "[node]\nkey = \"weft.key\"\nlisten = 51900\n[tun]\naddress = [\"10.9.0.1/24\", \"fd00:9::1/64\"]\n[out]\n{out}\n\
         [[peer]]\nname = \"hub\"\npublic-key = \"{PEER}\"\nprefixes = [{prefixes}]\n"
    )
}

const BOTH: &str = "\"0.0.0.0/0\", \"::/0\"";
const GOOD: &str = "kill-switch = true\ndns = [\"10.9.0.2\"]";

#[test]
fn a_good_one_is_well() {
    let all = format!("{GOOD}\nsearch = [\"corp.example\", \"Example.ORG.\"]");
    for out in [
        GOOD,
        "lan = false\nkill-switch = true\ndns = [\"10.9.0.2\"]",
        "lan = true",
        "kill-switch = false",
        "dns = [\"10.9.0.2\", \"fd00:9::2\", \"9.9.9.9\"]",
        "",
        &all,
    ] {
        let (status, message) = check(&config(out, BOTH));
        assert_eq!((status, message.as_str()), (0, ""), "{out}");
    }
}

#[test]
fn a_kill_switch_needs_a_way_out_that_it_can_protect() {
    let help = "add \"0.0.0.0/0\" and \"::/0\" to the `prefixes`";
    refused(
        &config(GOOD, "\"10.9.0.2/32\""),
        &["weft.toml:7:1: error: `kill-switch` needs a default route to a peer", help],
    );
    for (more, expected) in [
        ("[exit]\n", "`kill-switch` rejects the packets that [exit] forwards"),
        (
            "[access]\nlisten = 51820\npool = \"10.9.128.0/24\"\nendpoint = \"192.0.2.1:51820\"\n",
            "`kill-switch` rejects the answers to clients of [access]",
        ),
    ] {
        refused(&(config(GOOD, BOTH) + more), &[&format!("weft.toml:7:1: error: {expected}")]);
    }
    let without_routes = config(GOOD, BOTH).replace("[tun]\n", "[tun]\nroutes = false\n");
    refused(&without_routes, &["weft.toml:8:1: error: `kill-switch` needs the tunnel's routes"]);
    let named = config(GOOD, BOTH).replace("[tun]\n", "[tun]\nname = \"a\\\"b\"\n");
    refused(&named, &["weft.toml:8:1: error: `kill-switch` needs a [tun] `name` of letters"]);
}

#[test]
fn a_kill_switch_that_rejects_a_family_or_a_resolver_is_reported() {
    for (prefixes, out, expected) in [
        ("\"0.0.0.0/0\"", GOOD, "weft.toml:7:1: warning: IPv6 has no default route to a peer"),
        ("\"::/0\", \"10.9.0.2/32\"", GOOD, "weft.toml:7:1: warning: IPv4 has no default route to a peer"),
        (BOTH, "kill-switch = true", "weft.toml:7:1: warning: `kill-switch` without `dns`"),
    ] {
        let (status, message) = check(&config(out, prefixes));
        assert!(status == 0 && message.contains(expected), "{expected}: {message}");
    }
}

#[test]
fn wrong_values_have_a_place_and_a_likely_fix() {
    for (out, expected) in [
        ("kill-switch = \"yes\"", "weft.toml:7:15: error: `kill-switch` must be true or false"),
        ("kill-swich = true", "weft.toml:7:1: error: unknown key `kill-swich` in [out]"),
        ("lan = 1", "weft.toml:7:7: error: `lan` must be true or false"),
        ("lan = false", "weft.toml:7:1: error: `lan` needs `kill-switch`"),
        ("dns = \"10.9.0.2\"", "weft.toml:7:7: error: `dns`"),
        ("dns = [\"10.9.0.2:53\"]", "weft.toml:7:8: error: `dns`"),
        ("dns = [\"127.0.0.1\"]", "weft.toml:7:8: error: `dns`"),
        ("dns = [\"224.0.0.251\"]", "weft.toml:7:8: error: `dns`"),
        ("dns = [\"::\"]", "weft.toml:7:8: error: `dns`"),
        (
            "dns = [\"10.0.0.1\", \"10.0.0.2\", \"10.0.0.3\", \"10.0.0.4\"]",
            "weft.toml:7:44: error: `dns` has more than 3",
        ),
        ("search = [\"corp.example\"]", "weft.toml:7:11: error: `search` needs `dns`"),
        ("dns = [\"10.9.0.2\"]\nsearch = [\"a b\"]", "weft.toml:8:11: error: `search`"),
        ("dns = [\"10.9.0.2\"]\nsearch = [\"a\\nnameserver 6.6.6.6\"]", "weft.toml:8:11: error: `search`"),
        (
            "dns = [\"10.9.0.2\"]\nsearch = [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\"]",
            "weft.toml:8:41: error: `search` has more than 6",
        ),
    ] {
        refused(&config(out, BOTH), &[expected]);
    }
    let expected = "weft.toml:7:8: error: the DNS server `9.9.9.9` is behind no peer";
    refused(&config("dns = [\"9.9.9.9\"]", "\"10.9.0.2/32\""), &[expected]);
}
