//! The flow-state router in the configuration: accepted input, and the messages about bad input.
#![allow(missing_docs)]

use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_config::config::flows::{ExportProtocol, UserKind};
use weft_config::config::{Config, FlowSettings, Report, Severity, flows, parse, read_and_check};
use weft_flows::ipfix::Dialect;
use weft_flows::rules::RuleLimits;
use weft_flows::treatment::Service;
use weft_flows::{Classes, FlowClass};
use weft_units::{Duration, Rate, VpnId, parse_duration, parse_rate};

const PEER: &str = "8kYnFlnT0RtNq5oXcSbUqIhwkqQ5aJk0q2Yb0vXzq0M=";
/// Number of lines before the tables under test.
const FIRST: usize = 5;

/// A file that is removed at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns a whole file with these tables, behind [`FIRST`] lines.
fn whole(tables: &str) -> String {
    format!(
        "[node]\nkey = \"weft.key\"\nlisten = 51900\n[tun]\naddress = [\"10.9.0.1/24\"]\n{tables}\n\
         [[peer]]\nname = \"hub\"\npublic-key = \"{PEER}\"\nprefixes = [\"10.9.0.2/32\"]\n\
         [[vpn]]\nid = 7\nname = \"blue\"\nmembers = {{ hub = [\"10.1.1.0/24\"] }}\n"
    )
}

/// Returns the findings about these tables without those about the key file, which does not exist.
fn findings(tables: &str) -> Vec<(String, usize, String, Option<String>)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("weft-flow-state-{}-{}.toml", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let file = Scratch(std::env::temp_dir().join(name));
    std::fs::write(&file.0, whole(tables)).unwrap();
    let (_, report) = read_and_check(&file.0).unwrap();
    let findings = report.diagnostics().into_iter().filter(|finding| finding.line != 2);
    findings.map(|finding| (finding.severity.to_owned(), finding.line, finding.message, finding.help)).collect()
}

/// Asserts that there is exactly one error, at this line of the tables (from 1), with these words in message or help.
#[track_caller]
fn refuses(tables: &str, line: usize, words: &[&str]) {
    let found = findings(tables);
    let [(severity, at, message, help)] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!((severity.as_str(), *at), ("error", FIRST + line), "{message}");
    let text = format!("{message}; {}", help.as_deref().unwrap_or_default());
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[track_caller]
fn accepts(tables: &str) -> FlowSettings {
    let found = findings(tables);
    assert!(found.is_empty(), "{found:#?}");
    settings(tables).flows
}

fn settings(tables: &str) -> Config {
    let report = Report::new("weft.toml", whole(tables));
    let config = parse(&report, std::path::Path::new("/nowhere"));
    assert_eq!(report.count(Severity::Error), 0, "{report}");
    config.unwrap()
}

/// Returns the table of a second peer with these keys.
fn west(keys: &str) -> String {
    let key = PEER.replacen('8', "9", 1);
    format!("[[peer]]\nname = \"west\"\npublic-key = \"{key}\"\nprefixes = [\"10.9.0.3/32\"]\n{keys}\n")
}

#[test]
fn an_alternate_needs_exactly_the_prefix_of_another_peer() {
    let config = settings(&west("alternate-for = [\"10.9.0.2/32\"]"));
    let alternates = config.engine_alternates();
    assert_eq!(alternates.len(), 1);
    assert_eq!(
        (alternates[0].prefix, alternates[0].peer),
        (config.peers[1].prefixes[0].value, config.peers[0].public_key.value)
    );
    accepts(&west("alternate-for = [\"10.9.0.2/32\"]"));
    refuses(
        &west("alternate-for = [\"10.9.0.0/30\"]"),
        5,
        &["peer `west` is an alternate for the prefix `10.9.0.0/30`, but no other peer has it"],
    );
    refuses(
        &west("alternate-for = [\"10.9.0.3/32\"]"),
        5,
        &["both in `prefixes` and in `alternate-for` of peer `west`"],
    );
}

#[test]
fn a_file_without_the_tables_has_the_built_in_classes() {
    let flows = accepts("");
    assert_eq!(flows.classes().names().collect::<Vec<_>>(), ["bulk", "voice", "video", "interactive", "background"]);
    assert!(flows.rules(&[]).rules().is_empty() && flows.export.is_none());
    assert_eq!((flows.router.transit, flows.router.flows, flows.router.target_use), (false, 1_000_000, None));
    assert_eq!((flows.users.by, flows.users.weights.len()), (UserKind::Host, 0));
}

#[test]
fn every_key_is_read() {
    let tables = "[[class]]\nname = \"voice\"\nguaranteed = \"164 kbit/s\"\n\
        [[class]]\nname = \"backup\"\nservice = \"maximum\"\nmaximum = \"20 Mbit/s\"\nburst-bytes = 9000\n\
        delay-variance = \"100 ms\"\nprecedence = 1\ndelay-priority = 0\nmust-be-met = true\n\
        [[rule]]\nname = \"calls\"\nfrom = \"10.9.0.0/24\"\nto = \"10.8.0.0/16\"\nfrom-ports = \"5060\"\n\
        ports = \"5000-5010\"\nprotocol = \"udp\"\ndscp = \"ef\"\nvpn = \"blue\"\nuser = \"10.9.0.7\"\nnear = \"hub\"\n\
        far = \"hub\"\nclass = \"voice\"\nprecedence = 12\navailable = \"1 Mbit/s\"\n\
        [[rule]]\nname = \"rest\"\nprotocol = 89\n\
        [users]\nby = \"host\"\nweights = { \"10.9.0.7\" = 4 }\n\
        [export]\ncollector = \"192.0.2.9:4739\"\nprotocol = \"tcp\"\nformat = \"ipfix\"\ninterval = \"10 s\"\n\
        template-interval = \"5 s\"\ndomain = 3\n\
        [router]\ntransit = true\nflows = 2000\ntarget-use = \"92.5 %\"\n";
    let flows = accepts(tables);
    let (classes, config) = (flows.classes(), settings(tables));
    let class = |name: &str| classes.get(classes.find(name).unwrap()).unwrap().treatment;
    assert_eq!((class("voice").guaranteed, class("voice").burst_bytes), (Rate::from_bps(164_000), 405));
    let backup = class("backup");
    assert_eq!((backup.service, backup.maximum), (Service::Maximum, Some(Rate::from_mbps(20))));
    assert_eq!((backup.burst_bytes, backup.delay_variance), (9_000, Some(Duration::from_millis(100))));
    assert_eq!((backup.precedence, backup.delay_priority, backup.must_be_met), (1, 0, true));

    let rules = flows.rules(&config.vpns);
    let [calls, rest] = rules.rules() else { panic!() };
    assert_eq!((calls.name.as_str(), calls.class.as_str()), ("calls", "voice"));
    let matches = &calls.matches;
    assert_eq!(
        (matches.from.unwrap().to_string(), matches.to.unwrap().to_string()),
        ("10.9.0.0/24".into(), "10.8.0.0/16".into())
    );
    assert_eq!((matches.from_ports.clone(), matches.to_ports.clone()), (Some(5_060..=5_060), Some(5_000..=5_010)));
    assert_eq!((matches.protocol, matches.dscp, matches.vpn), (Some(17), Some(46), Some(VpnId(7))));
    let names = [&matches.user, &matches.near, &matches.far].map(|name| name.as_deref().unwrap());
    assert_eq!(names, ["10.9.0.7", "hub", "hub"]);
    assert_eq!((calls.overrides.precedence, calls.overrides.available), (Some(12), Some(Rate::from_mbps(1))));
    assert_eq!((rest.class.as_str(), rest.matches.protocol), ("bulk", Some(89)));
    assert!(rules.compile(&classes, &RuleLimits::default()).is_ok());

    assert_eq!(flows.users.weights[0].1, 4);
    let export = flows.export.unwrap();
    assert_eq!((export.collector.value.to_string(), export.protocol), ("192.0.2.9:4739".into(), ExportProtocol::Tcp));
    assert_eq!((export.interval, export.template_interval), (Duration::from_secs(10), Duration::from_secs(5)));
    let exporter = export.exporter();
    assert_eq!((exporter.dialect, exporter.is_stream, exporter.domain), (Dialect::Ipfix, true, 3));
    assert_eq!((flows.router.transit, flows.router.flows, flows.router.target_use), (true, 2_000, Some(0.925)));
}

#[test]
fn bad_rules_are_refused_at_their_place() {
    let rule = |rest: &str| format!("[[rule]]\nname = \"a\"\n{rest}");
    refuses(&rule("class = \"vioce\""), 3, &["rule `a`: there is no class `vioce`", "did you mean `voice`?"]);
    refuses(&rule("class = \"x\""), 3, &["known: bulk, voice, video"]);
    refuses(&rule("clas = \"voice\""), 3, &["unknown key `clas`", "did you mean `class`?"]);
    refuses("[[rule]]\nclass = \"voice\"", 1, &["[[rule]] needs `name`"]);
    refuses(&rule("ports = \"443\""), 3, &["only TCP and UDP have ports", "protocol = \"udp\""]);
    refuses(&rule("protocol = \"icmp\"\nports = \"443\""), 3, &["only TCP and UDP have ports"]);
    refuses(&rule("protocol = \"tcp\"\nports = \"90-80\""), 4, &["above the last"]);
    refuses(&rule("protocol = \"tcp\"\nfrom-ports = \"70000\""), 4, &["65535"]);
    refuses(&rule("protocol = \"tpc\""), 3, &["did you mean `tcp`?"]);
    refuses(&rule("protocol = 256"), 3, &["from 0 to 255"]);
    refuses(&rule("dscp = \"copy\""), 3, &["not a code point"]);
    refuses(&rule("dscp = 64"), 3, &["0 to 63"]);
    refuses(&rule("to = \"10.9.0.1/24\""), 3, &["10.9.0.0/24"]);
    refuses(&rule("to = \"10.9.0.0/33\""), 3, &["0 to 32"]);
    refuses(
        &rule("from = \"10.0.0.0/8\"\nto = \"fd00::/8\""),
        4,
        &["no flow is both", "one rule for IPv4 and one rule for IPv6"],
    );
    refuses(&rule("vpn = \"blu\""), 3, &["there is no VPN `blu`", "did you mean `blue`?"]);
    refuses(&rule("vpn = \"zzz\""), 3, &["known: blue, default"]);
    refuses(&rule("precedence = 16"), 3, &["from 0 to 15"]);
    refuses(&rule("guaranteed = \"1 MB\""), 3, &["kbit/s"]);
    refuses(&rule("maximum = \"0 bit/s\""), 3, &["greater than zero"]);
    refuses(&rule("delay-variance = \"0 ms\""), 3, &["greater than zero"]);
    refuses(&rule("service = \"guaranteed\""), 3, &["needs `guaranteed`"]);
    refuses(
        &rule("class = \"voice\"\nmaximum = \"50 kbit/s\""),
        4,
        &["82.0 kbit/s exceeds the maximum of 50.0 kbit/s"],
    );
    refuses(
        &rule("class = \"voice\"\nburst-bytes = 5000"),
        4,
        &["rule `a`: a delay variance of 10ms contradicts the burst", "lower `burst-bytes`"],
    );
    accepts(&rule("vpn = \"default\"\nprotocol = \"icmpv6\""));
}

#[test]
fn rules_that_never_apply_are_refused() {
    let two = |first: &str, second: &str| format!("[[rule]]\nname = \"a\"\n{first}\n[[rule]]\nname = \"b\"\n{second}");
    let wide = "to = \"10.9.0.0/16\"";
    refuses(
        &two(wide, "to = \"10.9.1.0/24\""),
        5,
        &[
            "rule `b` never applies: each of its flows already matches the earlier rule `a`",
            "put the later rule before",
        ],
    );
    refuses(&two(wide, "to = \"fd00::/8\"").replace("\"b\"", "\"a\""), 5, &["two [[rule]] tables have the name `a`"]);
    accepts(&two(wide, "to = \"10.0.0.0/8\""));
    accepts(&two("user = \"10.9.0.7\"", ""));
    let three = two("to = \"10.0.0.0/9\"", "to = \"10.128.0.0/9\"") + "\n[[rule]]\nname = \"c\"\nto = \"10.0.0.0/8\"";
    let expected = "rule `c` never applies: each of its flows already matches one of the earlier rules `a`, `b`";
    refuses(&three, 8, &[expected]);
}

#[test]
fn guarantees_above_what_the_links_carry_are_refused() {
    let links = "[links]\nuse = [\"lo\"]\n[[link]]\nname = \"lo\"\nmax-rate-up = \"10 Mbit/s\"\n";
    let rule = |rate: &str| format!("{links}[[rule]]\nname = \"a\"\nguaranteed = \"{rate}\"");
    refuses(&rule("11 Mbit/s"), 8, &["rule `a`: the guarantee of 11.0 Mbit/s exceeds 10.0 Mbit/s"]);
    accepts(&rule("10 Mbit/s"));
    let class = format!(
        "{links}[[class]]\nname = \"video\"\nguaranteed = \"11 Mbit/s\"\n[[rule]]\nname = \"a\"\nclass = \"video\""
    );
    refuses(&class, 8, &["class `video`: the guarantee of 11.0 Mbit/s exceeds 10.0 Mbit/s"]);
}

#[test]
fn bad_classes_are_refused_at_their_place() {
    refuses("[[class]]\nguaranteed = \"1 Mbit/s\"", 1, &["[[class]] needs `name`"]);
    refuses("[[class]]\nname = \"a\"\n[[class]]\nname = \"a\"", 4, &["class `a` has two [[class]] tables"]);
    refuses(
        "[[class]]\nname = \"voice\"\ndelay-variance = \"1 ms\"\nburst-bytes = 2000",
        3,
        &["class `voice`", "contradicts"],
    );
    refuses("[[class]]\nname = \"a\"\navailable = \"1 Mbit/s\"", 3, &["unknown key `available`"]);
    refuses("[[class]]\nname = \"a\"\nservice = \"gr\"", 3, &["write one of available, guaranteed, maximum, variable"]);
    let many: String = (0..252).map(|number| format!("[[class]]\nname = \"c{number}\"\n")).collect();
    refuses(&many, 2 * 252, &["there are 256 classes already"]);
}

#[test]
fn bad_users_are_refused_at_their_place() {
    refuses("[users]\nby = \"hosts\"", 2, &["host, prefix, certificate"]);
    refuses("[users]\nipv4-length = 33\nby = \"prefix\"", 2, &["from 1 to 32"]);
    refuses("[users]\nipv6-length = 56", 2, &["no effect unless users are prefixes"]);
    refuses("[users]\nweights = 4", 2, &["must be a table"]);
    refuses("[users]\nweights = { \"10.9.1.7\" = 0 }", 2, &["whole number from 1"]);
    refuses("[users]\nweights = { home = 4 }", 2, &["the user `home` does not fit", "write an address"]);
    refuses("[users]\nby = \"prefix\"\nweights = { \"10.9.1.0/25\" = 4 }", 3, &["length 24"]);
    refuses("[users]\nby = \"prefix\"\nweights = { \"10.9.1.7/24\" = 4 }", 3, &["write 10.9.1.0/24"]);
    refuses("[[rule]]\nname = \"a\"\nuser = \"home\"", 3, &["the user `home` does not fit", "write an address"]);
    accepts("[users]\nby = \"prefix\"\nipv4-length = 25\nweights = { \"10.9.1.0/25\" = 4, \"fd00::/64\" = 2 }");
    accepts("[users]\nby = \"certificate\"\nweights = { home = 4 }\n[[rule]]\nname = \"a\"\nuser = \"home\"");
}

#[test]
fn bad_exports_are_refused_at_their_place() {
    let export = |rest: &str| format!("[export]\ncollector = \"192.0.2.9:4739\"\n{rest}");
    refuses("[export]\nprotocol = \"udp\"", 1, &["[export] needs `collector`"]);
    for (address, why) in [
        ("192.0.2.9", "an IP address and a port"),
        ("collector.example.org:4739", "an IP address and a port"),
        ("192.0.2.9:0", "port 0"),
        ("0.0.0.0:4739", "one machine"),
        ("[ff02::1]:4739", "one machine"),
    ] {
        refuses(&format!("[export]\ncollector = \"{address}\""), 2, &[why, "192.0.2.9:4739"]);
    }
    refuses(&export("protocol = \"sctp\""), 3, &["udp, tcp"]);
    refuses(&export("protocol = \"tcp\"\nformat = \"netflow9\""), 3, &["does not run over TCP"]);
    refuses(&export("interval = \"0.5 s\""), 3, &["1s to 3600s"]);
    refuses(&export("template-interval = \"11 min\""), 3, &["1s to 600s"]);
    refuses(&export("domain = -1"), 3, &["whole number from 0"]);
    accepts("[export]\ncollector = \"[2001:db8::9]:2055\"\nformat = \"netflow9\"");
}

#[test]
fn bad_routers_are_refused_at_their_place() {
    refuses("[router]\ntransit = 1", 2, &["true or false"]);
    refuses("[router]\nflows = 1000", 2, &["from 1024 to 16777216"]);
    refuses("[router]\nflow = 2000", 2, &["did you mean `flows`?"]);
    refuses("[router]\ntarget-use = 0.9", 2, &["\"95 %\""]);
    refuses("[router]\ntarget-use = \"0.9\"", 2, &["in %"]);
    for share in ["0 %", "49.9 %", "100.1 %", "-95 %", "NaN %", "inf %"] {
        refuses(&format!("[router]\ntarget-use = \"{share}\""), 2, &["%"]);
    }
}

#[test]
fn a_node_that_is_no_peer_is_reported() {
    let found = findings("[[rule]]\nname = \"a\"\nfar = \"hbu\"");
    let [(severity, line, message, help)] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!((severity.as_str(), *line, help.as_deref()), ("warning", FIRST + 3, Some("did you mean `hub`?")));
    assert!(message.contains("no peer has the name `hbu`"), "{message}");
}

/// The settings on the page for operators are accepted, and its table of classes has the figures of the code.
#[test]
fn the_page_for_operators_is_right() {
    let page = include_str!("../../../docs/operate/flow-state.md");
    let blocks: Vec<String> = page
        .split("\n\n    [")
        .skip(1)
        .map(|rest| {
            let lines = format!("    [{rest}");
            let block = lines.lines().take_while(|line| line.starts_with("    ") || line.is_empty());
            block.map(|line| format!("{}\n", line.trim_start())).collect()
        })
        .collect();
    assert!(blocks.len() >= 5 && blocks.iter().all(|block| block.starts_with('[')), "{blocks:#?}");
    accepts(&blocks.concat());

    let classes = Classes::built_in();
    for (_, FlowClass { name, treatment }) in classes.iter() {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` | "))).unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let rate = if cells[3].is_empty() { Ok(Rate::ZERO) } else { parse_rate(cells[3]) };
        assert_eq!(rate, Ok(treatment.guaranteed), "{row}");
        assert_eq!(parse_duration(cells[4]).ok(), treatment.delay_variance, "{row}");
        let priorities = format!("{} {}", treatment.precedence, treatment.delay_priority);
        assert_eq!(format!("{} {}", cells[5], cells[6]), priorities, "{row}");
        assert_eq!(cells[2], format!("{:?}", treatment.service).to_lowercase(), "{row}");
    }
}

proptest! {
    /// For all values, the file is either accepted and compiles, or refused with a reason.
    #[test]
    fn every_text_is_accepted_or_refused_with_a_reason(
        keys in proptest::collection::vec((0usize..24, "[a-z0-9./: -]{0,12}"), 0..8), is_rule: bool, quoted: bool
    ) {
        const KEYS: [&str; 24] = [
            "name", "class", "from", "to", "from-ports", "ports", "protocol", "dscp", "vpn", "user", "near", "far", "service",
            "guaranteed", "available", "maximum", "burst-bytes", "delay-variance", "precedence", "delay-priority",
            "must-be-met", "by", "collector", "flows",
        ];
        let mut text = String::from(if is_rule { "[[rule]]\n" } else { "[[class]]\n" });
        let mut seen = std::collections::BTreeSet::new();
        for (key, value) in keys.iter().filter(|(key, _)| seen.insert(*key)) {
            let value = if quoted { format!("\"{value}\"") } else { value.clone() };
            text += &format!("{} = {value}\n", KEYS[*key]);
        }
        let report = Report::new("weft.toml", whole(&text));
        let config = parse(&report, std::path::Path::new("/nowhere"));
        if let Some(config) = config.filter(|_| report.count(Severity::Error) == 0) {
            flows::check(&config, &report);
            let compiled = config.flows.rules(&config.vpns).compile(&config.flows.classes(), &RuleLimits::default());
            prop_assert!(compiled.is_ok() || report.count(Severity::Error) > 0);
        } else {
            prop_assert!(report.count(Severity::Error) > 0);
        }
    }
}
