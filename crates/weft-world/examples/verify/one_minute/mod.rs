//! Topic `one-minute`: installing weft and building a VPN within a minute.
//!
//! Each check runs existing tests of the project. A full run builds the packages and tries them in a clean Debian root.

use crate::check::{Bound, Check};
use crate::claim::{LIB, claim, run};
use crate::topic::{Context, Part, Topic};
use std::process::{Command, Stdio};

/// The topic `one-minute` with its parts.
pub const TOPIC: Topic = Topic {
    name: "one-minute",
    parts: &[
        Part { name: "join", run: join },
        Part { name: "exit", run: exit },
        Part { name: "links", run: links },
        Part { name: "out", run: out },
        Part { name: "tcp", run: tcp },
        Part { name: "allow", run: allow },
        Part { name: "doctor", run: doctor },
        Part { name: "restarts", run: restarts },
        Part { name: "page", run: page },
        Part { name: "plan", run: plan },
        Part { name: "controller", run: controller },
        Part { name: "packages", run: packages },
    ],
};

fn join(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim(
                "three commands make a network, with two links, in 30 s",
                "weft",
                &["--test", "membership"],
                "three_commands",
            ),
            claim("a code belongs to the first node that shows it", "weft", &["--test", "membership"], "a_code"),
            claim(
                "a name is looked up until it has an address, and followed",
                "weft",
                &["--test", "membership"],
                "a_name",
            ),
            claim("any text is an endpoint, a name or an error", "weft-config", LIB, "host_name"),
            claim("any text is a code or an error; frames of any bytes", "weft", &["--bin", "weft"], "join::"),
            claim("without the secret an enrolment opens nothing", "weft-session", LIB, "enrolment"),
        ],
    )
}

fn exit(context: &Context) -> Vec<Check> {
    let what = "a member reaches the Internet through the hub and nowhere else";
    run(context, &[claim(what, "weft", &["--test", "membership"], "internet")])
}

fn links(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim(
                "a backup link carries 50 kB in 10 min and is warm in 100 ms",
                "weft-engine",
                &["--test", "paths"],
                "tiers",
            ),
            claim("quotas count over restarts, boots and wrong clocks", "weft", &["--bin", "weft"], "quota"),
            claim("limits by the time of day, over changes of the clocks", "weft-config", LIB, "cap_hours"),
            claim("local time over changes of the clocks", "weft-io", LIB, "local_time"),
            claim("tiers, quotas and limits on a kernel, within 1 %", "weft", &["--test", "daemon"], "quotas"),
        ],
    )
}

/// The kernel test draws 6 events, or 100 with `FULL=1`.
fn out(context: &Context) -> Vec<Check> {
    let machine = &["--test", "machine"];
    run(
        context,
        &[
            claim("kill switch: no packet leaves in clear, no DNS query", "weft", machine, "kill_switch::"),
            claim("the hub is looked up past the switch, resolved gets its servers", "weft", machine, "dns::"),
            claim("resolv.conf comes back byte for byte, also as a link", "weft", &["--bin", "weft"], "resolv_conf::"),
            claim("any bytes are a DNS answer or none", "weft", &["--bin", "weft"], "names::direct"),
            claim("bad input for each key of [out] has a place", "weft", &["--test", "config"], "out::"),
        ],
    )
}

/// The kernel tests measure UDP and TCP in one run.
fn tcp(context: &Context) -> Vec<Check> {
    let kernel = &["--test", "tcp"];
    run(
        context,
        &[
            claim("no UDP: a session by TCP within 300 ms, and UDP again", "weft", kernel, "a_link_without"),
            claim("1 % loss: at least half of UDP's goodput, 0.8 with FULL=1", "weft", kernel, "nearly"),
            claim("TCP beside UDP is never slower than UDP", "weft", kernel, "slows_it_never"),
            claim("port 443 shared with a web server, strangers see it", "weft", kernel, "share_the_port"),
            claim("600 silent strangers take no place from others", "weft", kernel, "silent_strangers"),
            claim("by an HTTP proxy", "weft", kernel, "a_proxy_makes"),
            claim("any bytes are frames and greetings, or an error", "weft-carrier", LIB, ""),
            claim("when a link calls by TCP and returns to UDP", "weft", &["--bin", "weft"], "fallback::"),
            claim("bad input for each key of TCP has a place", "weft", &["--test", "config"], "tcp::"),
        ],
    )
}

/// Checks that `weft doctor` finds each planted fault, and that the printed remedy repairs it.
fn doctor(context: &Context) -> Vec<Check> {
    let what = "15 faults of a machine are planted, named and mended";
    let peers = "what keeps a peer away is named: firewalls, clocks, MTU, keys, NATs";
    run(
        context,
        &[
            claim(what, "weft", &["--test", "machine"], "doctor::"),
            claim(peers, "weft", &["--test", "views"], "connecting::"),
        ],
    )
}

/// The test draws 6 kills, or 1,000 with `FULL=1`.
fn restarts(context: &Context) -> Vec<Check> {
    let kernel = &["--test", "restarts"];
    run(
        context,
        &[
            claim("kill -9: no TCP reset, data within 1 s", "weft", kernel, "connections_survive"),
            claim("upgrades of one end or both: gap of 300 ms at most", "weft", kernel, "upgrades"),
        ],
    )
}

/// The browser is Debian's Chromium. If it is not installed, its tests report this and are skipped.
fn page(context: &Context) -> Vec<Check> {
    let browser = "the page in a browser: live, 1,000 paths, changes on trial";
    run(
        context,
        &[
            claim("no token, host or origin: no answer; slow clients", "weft-web", &["--test", "refusals"], ""),
            claim("a token is itself only; a reader that stops is left", "weft-web", LIB, ""),
            claim(browser, "weft-web", &["--test", "page"], ""),
        ],
    )
}

/// The controller is killed some dozen times, or 10,000 times for each store with `FULL=1`.
///
/// If etcd is not installed, its tests report this and are skipped; with `FULL=1` they fail.
fn controller(context: &Context) -> Vec<Check> {
    let node = "a node follows on trial, and keeps what it has without the controller";
    run(
        context,
        &[
            claim("killed under writes: nothing acknowledged is lost", "weft-controller", &["--test", "crashes"], ""),
            claim("redb and etcd do what a model does", "weft-controller", &["--test", "stores"], ""),
            claim("bad input for each operation; OpenAPI", "weft-controller", &["--test", "interface"], ""),
            claim(node, "weft-controller", &["--test", "follow"], ""),
            claim("OpenID login: codes for owners, wrong tokens refused", "weft-controller", &["--test", "login"], ""),
            claim("a change that cuts the way is undone, on a kernel", "weft-controller", &["--test", "real"], ""),
            claim("outages of 60 days; any text is an address", "weft-controller", LIB, ""),
        ],
    )
}

/// The kernel test draws the links, and compares the rates of a plan with the rates that two nodes carry.
fn plan(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("random networks become scenarios with the same links", "weft", &["--bin", "weft"], "plan::"),
            claim("a plan is within 25 % of what two nodes carry", "weft", &["--test", "plan"], ""),
        ],
    )
}

/// The model judges 15,000 packets, or more than 100,000 with `FULL=1`.
fn allow(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("random packets are judged as by the model", "weft-flows", &["--test", "allow_model"], ""),
            claim("what enters at a node and at a hub", "weft-engine", &["--test", "access"], ""),
            claim("judging costs no allocation", "weft-engine", &["--test", "allocations"], "no_judged"),
            claim("connections on a kernel, the log, groups", "weft", &["--test", "membership"], "allow::"),
            claim("bad input for each key has a place, tests must pass", "weft", &["--test", "config"], "allow::"),
            claim("certificates with groups have one encoding", "weft-wire", &["--test", "certificate"], ""),
        ],
    )
}

/// Builds the packages, and installs, upgrades and purges them in a clean root.
fn packages(context: &Context) -> Vec<Check> {
    if !context.full {
        let what = "every command has a manual page, every shell its completions";
        return run(context, &[claim(what, "weft", &["--example", "pages"], "")]);
    }
    let status = Command::new("make").args(["packages", "TRY=1"]).stdin(Stdio::null()).stdout(Stdio::null()).status();
    let failures = status.map_or(1.0, |status| f64::from(u8::from(!status.success())));
    vec![Check::new(
        "packages: installed, upgraded, purged without a trace",
        Some(failures),
        Bound::AtMost(0.0),
        "failures",
    )]
}
