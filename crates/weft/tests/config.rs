//! `keygen`, `pubkey` and `check` as users run them: exit status and message.

mod common;

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
    refused(
        &with_peer("[policy]\nschedule = \"earliest\""),
        &["weft.toml:7:12: error", "it is one of earliest-delivery", "did you mean `earliest-delivery`?"],
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
        &["two peers have the name `hub`", "have the same key", "`10.9.0.2/32` is behind `hub`"],
    );
    refused(
        &with_peer("").replace("10.9.0.2/32", "10.9.0.2/24").replace("listen = 51900", ""),
        &["write 10.9.0.0/24", "neither can initiate"],
    );
    refused(&with_peer("").replace("10.9.0.2/32", "10.9.0.1/32"), &["this node's own address"]);
    refused(
        &with_peer("[links]\nuse = [\"docker0\"]\nignore = [\"docker*\"]"),
        &["weft.toml:7:8: error", "ignores it"],
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
    assert!(message.contains("peer `hub` has this node's own key"), "{message}");
}

#[test]
fn doubtful_settings_are_warned_of() {
    let (status, message) = check(&with_peer("[policy]\nschedule = \"flow-hash\"\nweights = { nonesuch0 = 5 }"));
    assert_eq!(status, 0, "{message}");
    assert!(message.contains("weft.toml:8:13: warning: no link `nonesuch0` is on this machine"), "{message}");
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
        ("accept = [\"osfp\"]", 11, "it is ospf, bgp", "for example"),
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
        &["weft.toml:8:8: error", "a grant of 0 would stop all traffic"],
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

/// Returns a configuration with a peer `hub` and this VPN.
fn with_vpn(vpn: &str) -> String {
    with_peer(&format!("[[vpn]]\nid = 7\nname = \"blue\"\n{vpn}\n"))
}

#[test]
fn vpns_with_the_same_addresses_are_well() {
    let blue = "table = 1007\naddress = [\"10.1.0.1/24\"]\nprefixes = [\"10.1.0.0/24\"]\nmembers = { hub = [\"10.1.1.0/24\", \"0.0.0.0/0\"] }";
    let red = blue.replace("1007", "1008").replace("10.1.0.1/24", "10.1.0.2/24");
    let (status, message) = check(&with_vpn(&format!("{blue}\n[[vpn]]\nid = 8\nname = \"red\"\nweight = 3\n{red}")));
    assert_eq!((status, message.as_str()), (0, ""));
}

#[test]
fn a_weight_that_is_no_share_is_refused() {
    for weight in ["0", "-1", "nan", "inf", "1.5", "1000001", "99999999999999999999", "\"3\""] {
        refused(
            &with_vpn(&format!("weight = {weight}\nmembers = {{ hub = [\"10.1.1.0/24\"] }}")),
            &["weft.toml:9:10: error: `weight` must be a whole number from 1 to 1000000"],
        );
    }
}

#[test]
fn every_queue_loop_and_promise_has_its_key() {
    let keys = "queue-packets = 2\nqueue-bytes = 3000\nweight = 1000000";
    let mut all = Vec::new();
    for queue in ["fq-codel", "fifo", "codel", "red", "fred"] {
        for law in ["none", "aimd-window", "accumulation", "explicit-rate"] {
            for promise in ["", "assured = \"4 Mbit/s\"", "leased = \"1 Mbit/s\""] {
                let (id, device) = (100 + all.len(), all.len());
                all.push(format!(
                    "[[vpn]]\nid = {id}\nname = \"n{id}\"\ndevice = \"d{device}\"\nqueue = \"{queue}\"\nloop = \"{law}\"\n\
                     {promise}\n{keys}\nroutes = false\nmembers = {{ hub = [\"10.1.1.0/24\"] }}"
                ));
            }
        }
    }
    // The sum of the leased lines is exactly the leasable 20 Mbit/s.
    let (status, message) = check(&with_peer(&format!("[policy]\nleasable = \"20 Mbit/s\"\n{}", all.join("\n"))));
    assert_eq!((status, message.as_str()), (0, ""));
}

#[test]
fn queues_and_loops_that_are_unknown_or_out_of_bounds_are_refused() {
    let members = "members = { hub = [] }";
    for (line, expected) in [
        (
            "loop = \"aimd\"",
            "weft.toml:9:8: error: `loop` cannot be `aimd`; it is one of none, aimd-window, accumulation, explicit-rate",
        ),
        ("loop = 3", "weft.toml:9:8: error: `loop` must be a string, not integer"),
        (
            "queue = \"drop-tail\"",
            "weft.toml:9:9: error: `queue` cannot be `drop-tail`; it is one of fq-codel, fifo, codel",
        ),
        ("queue-packets = 1", "weft.toml:9:17: error: `queue-packets` must be a whole number from 2 to 1000000"),
        ("queue-packets = 1000001", "weft.toml:9:17: error: `queue-packets` must be a whole number from 2"),
        ("queue-bytes = 2999", "weft.toml:9:15: error: `queue-bytes` must be a whole number from 3000"),
        ("queue-bytes = -1", "weft.toml:9:15: error: `queue-bytes` must be a whole number from 3000"),
    ] {
        refused(&with_vpn(&format!("{line}\n{members}")), &[expected]);
    }
    refused(&with_vpn(&format!("loop = \"acumulation\"\n{members}")), &["did you mean `accumulation`?"]);
    refused(
        &with_vpn(&format!("loop = \"explicit-rates\"\n{members}")),
        &["weft.toml:9:8: error:", "did you mean `explicit-rate`?"],
    );
    refused(&with_vpn(&format!("queue = \"codl\"\n{members}")), &["did you mean `codel`?"]);
    refused(&with_vpn(&format!("quue = \"fifo\"\n{members}")), &["unknown key `quue`", "did you mean `queue`?"]);
}

#[test]
fn promises_that_make_no_sense_are_refused() {
    let members = "members = { hub = [] }";
    refused(
        &with_vpn(&format!("assured = \"4 Mbit/s\"\nleased = \"5 Mbit/s\"\n{members}")),
        &["weft.toml:10:10: error: a VPN is `assured` or `leased`, not both", "leave one of them out"],
    );
    for key in ["assured", "leased"] {
        let place = format!("weft.toml:9:{}: error", key.len() + 4);
        refused(
            &with_vpn(&format!("{key} = \"0 Mbit/s\"\n{members}")),
            &[&place, "the rate must be greater than zero"],
        );
        refused(&with_vpn(&format!("{key} = \"4 MB\"\n{members}")), &[&place, "the unit must be one of bit/s"]);
        refused(&with_vpn(&format!("{key} = \"-4 Mbit/s\"\n{members}")), &[&place]);
        refused(&with_vpn(&format!("{key} = 4\n{members}")), &[&place, "must be a string, not integer"]);
    }
}

#[test]
fn leased_lines_over_what_may_be_leased_are_refused() {
    let line = |id: u32, mbps: u32| {
        format!("[[vpn]]\nid = {id}\nname = \"n{id}\"\nleased = \"{mbps} Mbit/s\"\nmembers = {{ hub = [] }}")
    };
    refused(
        &with_peer(&line(1, 5)),
        &[
            "weft.toml:9:10: error: VPN `n1` leases 5.0 Mbit/s toward `hub`, but nothing may be leased there",
            "leasable = \"90 Mbit/s\"",
        ],
    );
    let two =
        |leasable: &str| with_peer(&format!("[policy]\nleasable = \"{leasable}\"\n{}\n{}", line(1, 5), line(2, 4)));
    refused(
        &two("8 Mbit/s"),
        &[
            "weft.toml:16:10: error: leased lines take 9.0 Mbit/s toward `hub`, but only 8.0 Mbit/s may be leased",
            "lease less, or use `assured`",
        ],
    );
    assert_eq!(check(&two("9 Mbit/s")), (0, String::new()));
    refused(&two("nine"), &["weft.toml:7:12: error"]);
}

#[test]
fn overlapping_prefixes_of_a_vpn_are_refused() {
    refused(
        &with_vpn("members = { hub = [\"10.1.0.0/16\", \"10.1.1.0/24\"] }"),
        &["weft.toml:9:35: error: `10.1.1.0/24` and `10.1.0.0/16` of hub overlap in VPN `blue`"],
    );
    refused(
        &with_vpn("prefixes = [\"10.1.0.0/24\", \"10.1.0.0/24\"]\nmembers = { hub = [] }"),
        &[
            "weft.toml:9:28: error",
            "of this node overlap in VPN `blue`",
            "only 0.0.0.0/0 and ::/0 may contain other prefixes",
        ],
    );
    refused(
        &with_vpn("members = { hub = [\"10.1.1.7/24\"] }"),
        &["weft.toml:9:20: error: `10.1.1.7/24` has bits set after its prefix length", "write 10.1.1.0/24"],
    );
}

#[test]
fn a_member_that_claims_anothers_prefix_is_refused() {
    refused(
        &with_vpn("prefixes = [\"10.1.0.0/24\"]\nmembers = { hub = [\"10.1.0.128/25\"] }"),
        &[
            "weft.toml:10:20: error: hub claims `10.1.0.128/25`, which overlaps with `10.1.0.0/24` of this node in VPN `blue`",
        ],
    );
    refused(
        &with_vpn("address = [\"10.1.0.1/24\"]\nmembers = { hub = [\"10.1.0.1/32\"] }"),
        &["weft.toml:10:20: error: `10.1.0.1/24` is this node's own address", "put the member's address here"],
    );
}

#[test]
fn unknown_members_and_missing_keys_are_told() {
    refused(
        &with_vpn("members = { hubb = [\"10.1.1.0/24\"] }"),
        &["weft.toml:9:13: error: `hubb` is a member of VPN `blue`, but not a peer", "did you mean `hub`?"],
    );
    refused(&with_vpn(""), &["[[vpn]] needs `members`", "members = { hub ="]);
    refused(&with_vpn("members = [\"hub\"]"), &["weft.toml:9:11: error: `members` must be a table, not array"]);
    refused(&with_vpn("members = { hub = 5 }"), &["`members` must be an array of strings, not integer"]);
    refused(
        &with_vpn("members = {}\nwieght = 2"),
        &["weft.toml:10:1: error: unknown key `wieght`", "did you mean `weight`?"],
    );
    refused(&with_vpn("members = {}\ntable = 254"), &["weft.toml:10:9: error: tables 253 to 255 belong to the kernel"]);
}

#[test]
fn the_table_of_routes_is_nobody_elses() {
    let with_table =
        |table: &str| with_vpn("members = {}\ntable = 1007").replace("[tun]\n", &format!("[tun]\ntable = {table}\n"));
    assert_eq!(check(&with_table("51901")), (0, String::new()));
    for table in ["253", "255"] {
        refused(
            &with_table(table),
            &["weft.toml:5:9: error: tables 253 to 255 belong to the kernel", "for example table = 1007"],
        );
    }
    refused(&with_table("0"), &["weft.toml:5:9: error: `table`"]);
    refused(&with_table("\"main\""), &["weft.toml:5:9: error: `table` must be"]);
    refused(&with_table("1007"), &["table 1007 contains the routes of [tun], which packets of all VPNs use"]);
}

#[test]
fn vpns_must_differ_in_number_name_and_device() {
    let second = |head: &str| with_vpn(&format!("members = {{}}\n[[vpn]]\n{head}\nmembers = {{}}"));
    refused(
        &second("id = 7\nname = \"red\"\ndevice = \"red0\""),
        &["weft.toml:11:6: error: VPNs `blue` and `red` have the same id 7"],
    );
    refused(&second("id = 8\nname = \"blue\""), &["weft.toml:12:8: error: two VPNs have the name `blue`"]);
    refused(
        &second("id = 8\nname = \"red\"\ndevice = \"weft7\""),
        &["weft.toml:13:10: error: `blue` and `red` have the same device `weft7`"],
    );
    refused(&second("id = 0\nname = \"red\""), &["weft.toml:11:6: error: `id` must be a whole number from 1"]);
    refused(&second("id = 8\nname = \"red\"\ndevice = \"weft0\""), &["`[tun]` and `red` have the same device `weft0`"]);
}

#[test]
fn one_table_has_one_route_for_a_prefix() {
    let red = "[[vpn]]\nid = 8\nname = \"red\"\nmembers = { hub = [\"10.1.1.0/24\"] }";
    refused(
        &with_vpn(&format!("members = {{ hub = [\"10.1.1.0/24\"] }}\n{red}")),
        &[
            "weft.toml:13:20: error: `10.1.1.0/24` is in VPN `red` and in `blue`, but one table can have only one route to it",
            "table = 1007",
        ],
    );
    refused(
        &with_vpn("members = { hub = [\"10.9.0.2/32\"] }"),
        &["`10.9.0.2/32` is in VPN `blue` and in `[tun]`, but one table can have only one route to it"],
    );
}

#[test]
fn the_machines_own_addresses_must_differ() {
    refused(
        &with_vpn("table = 1007\naddress = [\"10.9.0.1/32\"]\nmembers = {}"),
        &["weft.toml:10:12: error: 10.9.0.1 is this node's address in `blue` and in `[tun]`"],
    );
}

#[test]
fn a_weight_of_a_vpn_is_a_number_above_zero() {
    for setting in ["weight=0", "weight=-1", "weight=x", "3"] {
        let out = weft(&["vpns", "set", "blue", setting]);
        assert_eq!(out.status.code(), Some(2), "{setting}");
        assert!(stderr(&out).contains("weight=N"), "{}", stderr(&out));
    }
}

#[test]
fn exit_status_tells_usage_and_absence() {
    assert_eq!(weft(&["fly"]).status.code(), Some(2));
    let out = weft(&["status", "--control", "/nonexistent/control.sock"]);
    assert_eq!(out.status.code(), Some(4));
    assert!(stderr(&out).contains("no node is running at /nonexistent/control.sock"), "{}", stderr(&out));
    let out = weft(&["weights", "set", "eth0:5"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("LINK=WEIGHT"), "{}", stderr(&out));
}

/// Returns a configuration with proxies; the peer's endpoint is 192.0.2.9.
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
    let place =
        format!("weft.toml:{}:22: error: `192.0.2.0/24` contains the endpoint 192.0.2.9:51900 of peer `hub`", base + 2);
    refused(&text, &[&place, "list in `to` only prefixes behind the peers"]);
    let everything = text
        .replace("\"10.9.0.2/32\"]\nend", "\"0.0.0.0/0\"]\nend")
        .replace("to = [\"10.9.0.2/32\", \"192.0.2.0/24\"]", "");
    refused(&everything, &["`0.0.0.0/0` contains the endpoint"]);
    refused(&with_proxies("[[proxy]]\nto = [\"10.9.0.1/32\"]\n"), &["`10.9.0.1/32` is this node's own address"]);
    refused(&with_proxies("[[proxy]]\nto = [\"10.8.0.0/16\"]\n"), &["`10.8.0.0/16` is behind no peer"]);
}

#[test]
fn proxies_that_contradict_themselves_are_refused() {
    if !has_nft() {
        return;
    }
    refused(
        &with_proxies("[[proxy]]\nports = [\"1-100\"]\n[[proxy]]\nports = [80]\nside = \"ingress\"\n"),
        &["[[proxy]] 1 and 2 would accept the same connections", "make them differ in `to`, `ports` or `side`"],
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
        &["`side` cannot be `left`; it is one of both, ingress, egress"],
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
        &[&place(1, 9, "`deny` cannot be"), "rules treat it as IPv4: write 10.6.0.0/16"],
    );
    refused(
        &rules("deny = [\"10.6.0.7/16\"]"),
        &[&place(1, 9, "`10.6.0.7/16` has bits set after"), "write 10.6.0.0/16"],
    );
    refused(&rules("from = []\ndeny = []"), &[&place(1, 1, "`from` is empty"), &place(2, 1, "`deny` is empty")]);
    refused(&rules("ports = [22]"), &["a rule needs `allow` or `deny`", "deny = [\"10.6.0.0/16\"]"]);
    refused(&rules("allow = [\"10.6.0.0/16\"]\ndeny = [\"10.6.0.0/16\"]"), &["a rule cannot `allow` and `deny`"]);
    refused(&rules("deny = [\"10.6.0.0/16\"]\nports = [0]"), &[&place(2, 10, "`0`: expected a port from 1 to 65535")]);
    refused(&rules("deny = [\"10.6.0.0/16\"]\nport = [1]"), &[&place(2, 1, "unknown key `port`"), "ports"]);
    refused(
        &rules("deny = [\"127.0.0.0/8\", \"fe80::1/128\"]"),
        &["[[proxies.rule]] 1 never applies: a proxy never connects"],
    );
    refused(
        &rules("from = [\"fd00::/8\"]\ndeny = [\"10.6.0.0/16\"]"),
        &["[[proxies.rule]] 1 never applies: `from` and the servers have no address family in common"],
    );
    let shadowed = "deny = [\"10.0.0.0/8\"]\n[[proxies.rule]]\nallow = [\"10.6.0.0/16\"]\nports = [80]";
    refused(
        &rules(shadowed),
        &[
            &place(2, 1, "[[proxies.rule]] 2 never applies: [[proxies.rule]] 1 matches all of it first"),
            "move the narrower one up",
        ],
    );
    let halves = "deny = [\"10.6.0.0/17\"]\n[[proxies.rule]]\ndeny = [\"10.6.128.0/17\"]\n\
                  [[proxies.rule]]\nallow = [\"10.6.0.0/16\"]";
    refused(&rules(halves), &["[[proxies.rule]] 3 never applies: [[proxies.rule]] 1 and 2 match all of it first"]);
    let (status, message) = check(&with_proxies("[[proxies.rule]]\ndeny = [\"10.6.0.0/16\"]\n"));
    assert!(status == 0 && message.contains("have no effect without a [[proxy]]"), "{message}");
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
