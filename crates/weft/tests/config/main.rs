//! `keygen`, `pubkey` and `check` as users run them: exit status and message.

mod allow;
#[path = "../common/mod.rs"]
mod common;
mod hours;
mod out;
mod proxies;
mod signal;
mod signal_host;
mod tcp;
mod vpns;

use common::{Dir, chmod, mode, stderr, stdout, weft};

const PEER: &str = "8kYnFlnT0RtNq5oXcSbUqIhwkqQ5aJk0q2Yb0vXzq0M=";

/// Checks a configuration whose key file exists.
///
/// Returns the exit status, and standard error without the directory's name.
fn check(text: &str) -> (i32, String) {
    let dir = Dir::new();
    dir.key("weft.key");
    check_in(&dir, text)
}

fn check_in(dir: &Dir, text: &str) -> (i32, String) {
    let file = dir.write("weft.toml", text);
    let out = weft(&["check", file.to_str().unwrap()]);
    let place = format!("{}/", dir.0.display());
    (out.status.code().unwrap(), stderr(&out).replace(&place, ""))
}

fn refused(text: &str, expected: &[&str]) {
    let (status, message) = check(text);
    assert_eq!(status, 1, "{message}");
    for part in expected {
        assert!(message.contains(part), "{part:?} is not in:\n{message}");
    }
}

fn with_peer(rest: &str) -> String {
    format!(
        "[node]\nkey = \"weft.key\"\nlisten = 51900\n[tun]\naddress = [\"10.9.0.1/24\"]\n{rest}\n\
         [[peer]]\nname = \"hub\"\npublic-key = \"{PEER}\"\nprefixes = [\"10.9.0.2/32\"]\n"
    )
}

#[test]
fn a_value_of_the_wrong_type_is_told_with_an_example() {
    for (rest, expected) in [
        ("[[link]]\nname = \"eth0\"\nmax-rate-up = 30", "for example \"30 Mbit/s\""),
        ("[[link]]\nname = \"eth0\"\nquota = 5", "for example \"10 GB\""),
        ("[out]\ndns = \"10.9.0.2\"", "for example [\"10.9.0.2\"]"),
        ("[policy]\nschedule = 1", "for example schedule = \"earliest-delivery\""),
        ("[[links]]\nuse = [\"eth0\"]", "write [links]"),
    ] {
        refused(&with_peer(rest), &["error: `", expected]);
    }
}

#[test]
fn keys_are_made_once_and_kept_private() {
    let dir = Dir::new();
    let public = dir.key("weft.key");
    let file = dir.path("weft.key");
    assert_eq!(mode(&file), 0o600);
    assert_eq!(stdout(&weft(&["pubkey", file.to_str().unwrap()])).trim(), public);

    let again = weft(&["keygen", "--out", file.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("exists"), "{}", stderr(&again));
    assert_eq!(stdout(&weft(&["pubkey", file.to_str().unwrap()])).trim(), public);
}

#[test]
fn a_good_configuration_is_well() {
    let (status, message) = check(&with_peer("[policy]\nschedule = \"round-robin\""));
    assert_eq!((status, message.as_str()), (0, ""));
}

#[test]
fn unknown_keys_have_a_place_and_a_suggestion() {
    refused(
        "[node]\nkey = \"weft.key\"\n  listn = 51900\n[tun]\naddress = [\"10.9.0.1/24\"]\n",
        &[
            "weft.toml:3:3: error: unknown key `listn` in [node]",
            "    3 |   listn = 51900",
            "|   ^^^^^ did you mean `listen`?",
        ],
    );
    refused(&with_peer("[polcy]\n"), &["unknown key `polcy` in the file", "did you mean `policy`?"]);
}

#[test]
fn wrong_units_and_values_say_the_right_ones() {
    refused(
        &with_peer("[[link]]\nname = \"lo\"\nmax-rate-up = \"30 MB\""),
        &[
            "weft.toml:8:15: error",
            "the unit must be one of bit/s, kbit/s, Mbit/s, Gbit/s",
            "for example \"30 Mbit/s\"",
        ],
    );
    let link = |keys: &str| with_peer(&format!("[[link]]\nname = \"lo\"\n{keys}"));
    for (keys, words) in [
        ("tier = \"bakup\"", ["weft.toml:8:8: error", "did you mean `backup`?"]),
        ("quota = \"10 Gbit\"", ["weft.toml:8:9: error", "a number and a unit: B, kB, MB"]),
        ("quota = \"10 GB\"\nquota-per = \"week\"", ["weft.toml:9:13: error", "write one of day, month"]),
        ("quota = \"10 GB\"\nquota-first-day = 31", ["weft.toml:9:19: error", "from 1 to 28"]),
        ("quota = \"10 GB\"\nquota-reached = \"stop\"", ["weft.toml:9:17: error", "sparse, backup, never, go-on"]),
        ("quota-per = \"day\"", ["error", "to which `quota-per` applies"]),
        ("quota = \"1 GB\"\nquota-per = \"day\"\nquota-first-day = 2", ["error", "remove `quota-first-day`"]),
    ] {
        refused(&link(keys), &words);
    }
    refused(
        &with_peer("[links]\nuse = [\"lo\"]\n[[link]]\nname = \"lo\"\ntier = \"never\""),
        &["`use` lists the link `lo`, but this node can never use it: its `tier` is `never`", "choose another tier"],
    );
    refused(
        &with_peer("[policy]\nschedule = \"earliest\""),
        &["weft.toml:7:12: error", "write one of earliest-delivery", "did you mean `earliest-delivery`?"],
    );
    refused(
        "[node]\nkey = \"weft.key\"\nlisten = 70000\n[tun]\naddress = [\"10.9.0.1\"]\nmtu = 100\n",
        &[
            "weft.toml:3:10: error",
            "from 1 to 65535",
            "weft.toml:5:12: error",
            "prefix length",
            "weft.toml:6:7",
            "1280",
        ],
    );
    refused("[node]\nkey = weft.key\n", &["weft.toml:2:7: error"]);
    refused("[tun]\naddress = [\"10.9.0.1/24\"]\n", &["needs `[node]`", "key = \"weft.key\""]);
}

#[test]
fn key_files_must_exist_and_be_private() {
    let dir = Dir::new();
    let text = "[node]\nkey = \"weft.key\"\n[tun]\naddress = [\"10.9.0.1/24\"]\n";
    let (status, message) = check_in(&dir, text);
    assert_eq!(status, 1);
    assert!(
        message.contains("weft.toml:2:7: error: there is no key file") && message.contains("weft keygen --out"),
        "{message}"
    );

    dir.key("weft.key");
    chmod(&dir.path("weft.key"), 0o640);
    let (status, message) = check_in(&dir, text);
    assert_eq!(status, 1);
    assert!(message.contains("can be read by other users (mode 0640)") && message.contains("chmod 600"), "{message}");

    chmod(&dir.path("weft.key"), 0o600);
    dir.write("weft.key", "not a key\n");
    let (status, message) = check_in(&dir, text);
    assert_eq!(status, 1);
    assert!(message.contains("contains no key"), "{message}");
}

#[test]
fn contradictions_are_explained() {
    refused(
        &with_peer("[policy]\nack = \"condition\""),
        &["weft.toml:7:1: error", "contradict each other", "reorder = \"off\""],
    );
    refused(
        &format!("{}[[peer]]\nname = \"hub\"\npublic-key = \"{PEER}\"\nprefixes = [\"10.9.0.2/32\"]\n", with_peer("")),
        &["two peers have the name `hub`", "have the same public key", "`10.9.0.2/32` belongs to two peers, `hub` and"],
    );
    refused(
        &with_peer("").replace("10.9.0.2/32", "10.9.0.2/24").replace("listen = 51900", ""),
        &["write 10.9.0.0/24", "neither can call the other"],
    );
    refused(&with_peer("").replace("10.9.0.2/32", "10.9.0.1/32"), &["this node's own address"]);
    refused(
        &with_peer("[links]\nuse = [\"docker0\"]\nignore = [\"docker*\"]"),
        &["weft.toml:7:8: error", "in `ignore` excludes the link"],
    );
    refused(
        &with_peer("[policy]\nschedule = \"flow-hash\"\nweights = { lo = 0 }"),
        &["weft.toml:8:11: error", "all weights are 0"],
    );
}

#[test]
fn a_peer_with_our_own_key_is_refused() {
    let dir = Dir::new();
    let own = dir.key("weft.key");
    let (status, message) = check_in(&dir, &with_peer("").replace(PEER, &own));
    assert_eq!(status, 1);
    assert!(message.contains("the `public-key` of peer `hub` is this node's own key"), "{message}");
}

#[test]
fn doubtful_settings_are_warned_of() {
    let (status, message) = check(&with_peer("[policy]\nschedule = \"flow-hash\"\nweights = { nonesuch0 = 5 }"));
    assert_eq!(status, 0, "{message}");
    assert!(message.contains("weft.toml:8:13: warning: the file names the link `nonesuch0`, but"), "{message}");
    let (status, message) = check(&with_peer("[policy]\nweights = { lo = 5 }"));
    assert_eq!(status, 0, "{message}");
    assert!(message.contains("`weights` has no effect"), "{message}");
}

#[test]
fn metrics_are_only_for_this_machine() {
    for listen in ["127.0.0.1:9469", "[::1]:9469", "unix:metrics.sock", "unix:/run/weft/metrics.sock"] {
        let (status, message) = check(&with_peer(&format!("[metrics]\nlisten = \"{listen}\"")));
        assert_eq!((status, message.as_str()), (0, ""), "{listen}");
    }
    for (listen, why) in [
        ("0.0.0.0:9469", "only a loopback address is accepted"),
        ("192.0.2.1:9469", "only a loopback address is accepted"),
        ("[::]:9469", "only a loopback address is accepted"),
        ("127.0.0.1:0", "port 0"),
        ("unix:", "path is missing"),
        ("localhost", "an IP address and a port"),
    ] {
        refused(
            &with_peer(&format!("[metrics]\nlisten = \"{listen}\"")),
            &["weft.toml:7:10: error", why, "for example"],
        );
    }
    refused(&with_peer("[metrics]"), &["[metrics] needs `listen`"]);
}

#[test]
fn a_routing_daemon_gets_sensible_settings_only() {
    for good in [
        "",
        "accept = [\"ospf\", \"196\"]\ntables = [\"100\"]\nmost = 10\nhold = \"0 s\"\nmulticast = true",
        "bfd = \"unix:/run/frr/bfdd_dplane.sock\"",
        "bfd = \"[::1]:50700\"",
    ] {
        let (status, message) = check(&with_peer(&format!("[routing]\n{good}")));
        assert_eq!((status, message.as_str()), (0, ""), "{good}");
    }
    for (line, column, why, fix) in [
        ("accept = [\"osfp\"]", 11, "expected ospf, bgp", "for example"),
        ("accept = [\"119\"]", 11, "the kernel or weft itself", "for example"),
        ("accept = [\"256\"]", 11, "a number from 3 to 255", "for example"),
        ("accept = 188", 10, "must be an array of strings", ""),
        ("tables = [\"0\"]", 11, "a number above 0", "for example"),
        ("most = 0", 8, "a whole number from 1", ""),
        ("hold = \"11 min\"", 8, "at most 10 min", "for example"),
        ("hold = \"soon\"", 8, "expected a time", "for example"),
        ("bfd = \"192.0.2.1:50700\"", 7, "only a loopback address", "for example"),
        ("bfd = \"127.0.0.1:0\"", 7, "port 0", "for example"),
        ("bfd = \"unix:\"", 7, "path is missing", "for example"),
        ("multicats = true", 1, "unknown key", "multicast"),
    ] {
        refused(&with_peer(&format!("[routing]\n{line}")), &[&format!("weft.toml:7:{column}: error"), why, fix]);
    }
}

#[test]
fn grants_of_explicit_rates() {
    let (status, message) = check(&with_peer("[tcp-er]\n[[tcp-er.grant]]\nto = \"10.9.0.0/24\"\nrate = \"20 Mbit/s\""));
    assert_eq!((status, message.as_str()), (0, ""));
    let grant = |lines: &str| with_peer(&format!("[[tcp-er.grant]]\n{lines}"));
    refused(&grant("to = \"10.9.0.0/24\""), &["weft.toml:6:1: error", "needs `rate`"]);
    refused(&grant("to = \"10.9.0.0/33\"\nrate = \"1 Mbit/s\""), &["weft.toml:7:6: error", "`to`"]);
    refused(
        &grant("to = \"10.9.0.0/24\"\nrate = \"0 bit/s\""),
        &["weft.toml:8:8: error", "a granted rate of 0 would stop all traffic"],
    );
    refused(&grant("to = \"10.9.0.0/24\"\nrat = \"1 Mbit/s\""), &["did you mean `rate`?"]);
    let twice =
        "to = \"10.9.0.0/24\"\nrate = \"1 Mbit/s\"\n[[tcp-er.grant]]\nto = \"10.9.0.0/24\"\nrate = \"2 Mbit/s\"";
    refused(&grant(twice), &["this prefix already has a grant"]);
}

#[test]
fn a_code_point_has_a_name_or_a_number() {
    for dscp in ["\"af21\"", "\"EF\"", "\"copy\"", "18", "0"] {
        let (status, message) = check(&with_peer(&format!("[policy]\ndscp = {dscp}")));
        assert_eq!((status, message.as_str()), (0, ""), "{dscp}");
    }
    for (dscp, help) in
        [("\"af24\"", "did you mean `af"), ("64", "for example"), ("-1", "for example"), ("true", "for example")]
    {
        refused(&with_peer(&format!("[policy]\ndscp = {dscp}")), &["weft.toml:7:8: error: `dscp`", help]);
    }
}

#[test]
fn peers_can_override_the_policy() {
    let overrides = "[peer.policy]\nack = \"condition\"\nreorder = \"off\"\n";
    let (status, message) = check(&format!("{}{overrides}", with_peer("")));
    assert_eq!((status, message.as_str()), (0, ""));
    refused(
        &format!("{}[peer.policy]\nack = \"condition\"\n", with_peer("")),
        &["weft.toml:12:1: error", "contradict"],
    );
}

#[test]
fn exit_status_distinguishes_usage_errors_and_absence() {
    assert_eq!(weft(&["fly"]).status.code(), Some(2));
    let out = weft(&["status", "--control", "/nonexistent/control.sock"]);
    assert_eq!(out.status.code(), Some(4));
    let errors = stderr(&out);
    assert!(errors.contains("no node is running at the control socket /nonexistent/control.sock"), "{errors}");
    let out = weft(&["weights", "set", "eth0:5"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("LINK=WEIGHT"), "{}", stderr(&out));
}

#[test]
fn secrets_shared_with_peers_are_made_read_and_kept_private() {
    let dir = Dir::new();
    dir.key("weft.key");
    let text = with_peer("").replace("name = \"hub\"\n", "name = \"hub\"\npreshared-key = \"hub.psk\"\n");
    let (status, message) = check_in(&dir, &text);
    assert_eq!(status, 1);
    assert!(message.contains("weft.toml:9:17: error") && message.contains("weft genpsk --out"), "{message}");

    let file = dir.path("hub.psk");
    assert_eq!(weft(&["genpsk", "--out", file.to_str().unwrap()]).status.code(), Some(0));
    assert_eq!(mode(&file), 0o600);
    assert_eq!(check_in(&dir, &text).0, 0);
    assert_eq!(weft(&["genpsk", "--out", file.to_str().unwrap()]).status.code(), Some(1), "it is never overwritten");
    let [a, b] = [(), ()].map(|()| stdout(&weft(&["genpsk"])));
    assert!(a != b && a.trim().len() == 44, "{a} {b}");

    chmod(&file, 0o644);
    let (status, message) = check_in(&dir, &text);
    assert!(status == 1 && message.contains("can be read by other users (mode 0644)"), "{message}");
}
