//! Checks of VPNs, their members, and the addresses and routes that they use.

use crate::common::{stderr, weft};
use crate::{check, refused, with_peer};

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
        for law in ["none", "aimd-window", "i2vfc", "accumulation", "explicit-rate"] {
            for promise in ["", "assured = \"4 Mbit/s\"", "leased = \"1 Mbit/s\""] {
                let (id, device) = (100 + all.len(), all.len());
                all.push(format!(
                    "[[vpn]]\nid = {id}\nname = \"n{id}\"\ndevice = \"d{device}\"\nqueue = \"{queue}\"\nloop = \"{law}\"\n\
                     {promise}\n{keys}\nroutes = false\nmembers = {{ hub = [\"10.1.1.0/24\"] }}"
                ));
            }
        }
    }
    // The sum of the leased lines is exactly the leasable 25 Mbit/s.
    let (status, message) = check(&with_peer(&format!("[policy]\nleasable = \"25 Mbit/s\"\n{}", all.join("\n"))));
    assert_eq!((status, message.as_str()), (0, ""));
}

#[test]
fn queues_and_loops_that_are_unknown_or_out_of_bounds_are_refused() {
    let members = "members = { hub = [] }";
    for (line, expected) in [
        (
            "loop = \"aimd\"",
            "weft.toml:9:8: error: `loop` cannot be `aimd`: write one of none, aimd-window, accumulation",
        ),
        ("loop = 3", "weft.toml:9:8: error: `loop` must be a string, not integer"),
        (
            "queue = \"drop-tail\"",
            "weft.toml:9:9: error: `queue` cannot be `drop-tail`: write one of fq-codel, fifo, codel",
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
            &[&place, &format!("the rate `{key}` of a VPN must be greater than zero")],
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
            "weft.toml:9:10: error: VPN `n1` has a `leased` rate of 5.0 Mbit/s toward peer `hub`",
            "leasable = \"90 Mbit/s\"",
        ],
    );
    let two =
        |leasable: &str| with_peer(&format!("[policy]\nleasable = \"{leasable}\"\n{}\n{}", line(1, 5), line(2, 4)));
    refused(
        &two("8 Mbit/s"),
        &[
            "weft.toml:16:10: error: the `leased` rates of VPNs toward peer `hub` add up to 9.0 Mbit/s, but",
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
        &["weft.toml:9:35: error: in VPN `blue`, the prefixes `10.1.1.0/24` and `10.1.0.0/16` of hub overlap"],
    );
    refused(
        &with_vpn("prefixes = [\"10.1.0.0/24\", \"10.1.0.0/24\"]\nmembers = { hub = [] }"),
        &["weft.toml:9:28: error", "of this node overlap", "only 0.0.0.0/0 and ::/0 may contain other prefixes"],
    );
    refused(
        &with_vpn("members = { hub = [\"10.1.1.7/24\"] }"),
        &["weft.toml:9:20: error: the prefix `10.1.1.7/24` has host bits set", "write 10.1.1.0/24"],
    );
}

#[test]
fn a_member_that_claims_anothers_prefix_is_refused() {
    refused(
        &with_vpn("prefixes = [\"10.1.0.0/24\"]\nmembers = { hub = [\"10.1.0.128/25\"] }"),
        &[
            "weft.toml:10:20: error: in VPN `blue`, the prefix `10.1.0.128/25` of hub overlaps with",
            "the prefix `10.1.0.0/24` of this node",
        ],
    );
    refused(
        &with_vpn("address = [\"10.1.0.1/24\"]\nmembers = { hub = [\"10.1.0.1/32\"] }"),
        &[
            "weft.toml:10:20: error: VPN `blue` gives the member `hub` this node's own address `10.1.0.1/24`:",
            "give the member another one",
        ],
    );
}

#[test]
fn unknown_members_and_missing_keys_are_reported() {
    refused(
        &with_vpn("members = { hubb = [\"10.1.1.0/24\"] }"),
        &["weft.toml:9:13: error: `hubb` is a member of VPN `blue`, but no peer has this name", "did you mean `hub`?"],
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
fn a_routing_table_belongs_to_one_vpn() {
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
    refused(&with_table("1007"), &["VPN `blue` cannot use the routing table 1007: this table has the routes of [tun]"]);
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
        &["weft.toml:13:10: error: two VPNs have the tunnel device `weft7`: `blue` and `red`"],
    );
    refused(&second("id = 0\nname = \"red\""), &["weft.toml:11:6: error: `id` must be a whole number from 1"]);
    refused(
        &second("id = 8\nname = \"red\"\ndevice = \"weft0\""),
        &["two VPNs have the tunnel device `weft0`: `[tun]`"],
    );
}

#[test]
fn one_table_has_one_route_for_a_prefix() {
    let red = "[[vpn]]\nid = 8\nname = \"red\"\nmembers = { hub = [\"10.1.1.0/24\"] }";
    refused(
        &with_vpn(&format!("members = {{ hub = [\"10.1.1.0/24\"] }}\n{red}")),
        &[
            "weft.toml:13:20: error: the prefix `10.1.1.0/24` is in two VPNs, `red` and `blue`, but one routing table",
            "table = 1007",
        ],
    );
    refused(
        &with_vpn("members = { hub = [\"10.9.0.2/32\"] }"),
        &["the prefix `10.9.0.2/32` is in two VPNs, `blue` and `[tun]`, but one routing table can have only one route"],
    );
}

#[test]
fn the_machines_own_addresses_must_differ() {
    refused(
        &with_vpn("table = 1007\naddress = [\"10.9.0.1/32\"]\nmembers = {}"),
        &["weft.toml:10:12: error: this node has the address 10.9.0.1 in VPN `blue` and also in `[tun]`"],
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
