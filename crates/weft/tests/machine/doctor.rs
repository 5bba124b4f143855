//! `weft doctor` on a kernel: each fault is planted, named, and mended by the words that it printed.

use crate::common::{Dir, TWO_NODES, has_tun, is_root, script, stderr, stdout};
use serde_json::Value;

/// A fault: its cause, the doctor's message, and its repair.
struct Planted {
    what: &'static str,
    /// Shell commands that plant the fault.
    plant: &'static str,
    /// Node whose doctor is asked.
    node: &'static str,
    /// Beginning of the check's name.
    check: &'static str,
    /// Words of the finding.
    found: &'static str,
    mend: Mend,
}

/// Method by which a fault is repaired.
enum Mend {
    /// By the command that the advice consists of.
    AsPrinted,
    /// By these commands, which the advice describes with these words.
    AsDescribed(&'static str, &'static str),
}

use Mend::{AsDescribed, AsPrinted};

const FAULTS: [Planted; 15] = [
    Planted {
        what: "a link without carrier",
        plant: "ip -n hub link set link1 down",
        node: "home",
        check: "carrier of link link1",
        found: "none",
        mend: AsDescribed("connect its cable", "ip -n hub link set link1 up; sleep 0.2"),
    },
    Planted {
        what: "no route by a link",
        plant: "sed -i 's/192.0.2.[0-9]*:51900/203.0.113.9:51900/g' home.toml; ip -n home route add default via 192.0.2.34",
        node: "home",
        check: "route over link link1",
        found: "no route over this link to 203.0.113.9",
        mend: AsDescribed(
            "ip route add default via ROUTER dev link1 metric 1000",
            "ip -n home route add default via 192.0.2.18 dev link1 metric 1000",
        ),
    },
    Planted {
        what: "two links in one subnet",
        plant: "ip -n home addr add 192.0.2.20/28 dev link2",
        node: "home",
        check: "subnet of link link1",
        found: "the links link1 and link2 both have an address in the subnet 192.0.2.16/28",
        mend: AsPrinted,
    },
    Planted {
        what: "both links on one modem",
        plant: "for i in 1 2; do ip -n hub link set link$i address 02:00:00:00:00:01; ip -n home neigh flush dev link$i; done
            ip -n home route add default via 192.0.2.18
            for i in 18 34; do ip netns exec home ping -c1 -W2 192.0.2.$i >/dev/null; done",
        node: "home",
        check: "ways out",
        found: "link1 and link2 lead to one router or modem (MAC 02:00:00:00:00:01)",
        mend: AsDescribed("use only one of them", "sed -i '1i [links]\\nuse = [\"link1\"]' home.toml"),
    },
    Planted {
        what: "IPv6 switched off",
        plant: "sed -i 's#address = \\[\"10.9.0.1/24\"#&, \"fd00:9::1/64\"#' home.toml
            ip netns exec home sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1",
        node: "home",
        check: "IPv6",
        found: "switched off on this machine, but the tunnel has an IPv6 address in [tun]",
        mend: AsPrinted,
    },
    Planted {
        what: "a strict reverse-path filter",
        plant: "ip netns exec home sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.link2.rp_filter=1",
        node: "home",
        check: "rp_filter of link link2",
        found: "1, strict",
        mend: AsPrinted,
    },
    Planted {
        what: "a hub that does not forward",
        plant: "ip netns exec hub sysctl -qw net.ipv4.ip_forward=0",
        node: "hub",
        check: "IPv4 forwarding",
        found: "off: peers reach only this machine",
        mend: AsPrinted,
    },
    Planted {
        what: "a firewall that drops what is forwarded",
        plant: "ip netns exec hub nft 'table ip filter { chain FORWARD { type filter hook forward priority 0; policy drop; }; }'",
        node: "hub",
        check: "firewall",
        found: "chain `ip filter FORWARD` drops packets that it does not accept",
        mend: AsPrinted,
    },
    Planted {
        what: "a port that another process has",
        plant: "ip netns exec hub python3 -c 'import socket,time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((\"0.0.0.0\", 51900)); print(\"bound\", flush=True); time.sleep(50)' >taken & other=$!
            for _ in $(seq 50); do grep -q bound taken && break; sleep 0.1; done",
        node: "hub",
        check: "UDP port 51900",
        found: "taken by the program python3, process",
        mend: AsPrinted,
    },
    Planted {
        what: "a state that cannot be written",
        plant: "mkdir -p home.state; mount -t tmpfs none home.state; mount -o remount,ro $PWD/home.state",
        node: "home",
        check: "state directory ",
        found: "the file system takes no writes",
        mend: AsPrinted,
    },
    Planted {
        what: "a full disk",
        plant: "mkdir -p home.state; mount -t tmpfs -o size=64m none home.state; head -c 64m /dev/zero >home.state/log 2>/dev/null",
        node: "home",
        check: "state directory ",
        found: "only 0 B are free",
        mend: AsDescribed("delete files that are not needed", "rm home.state/log"),
    },
    Planted {
        what: "a name without an address",
        plant: "echo nameserver 127.9.9.9 >resolv; echo 127.0.0.1 localhost >hosts
            mount --bind resolv /etc/resolv.conf; mount --bind hosts /etc/hosts
            sed -i 's/192.0.2.18:51900/hub.example.org:51900/' home.toml",
        node: "home",
        check: "name hub.example.org",
        found: "DNS: ",
        mend: AsDescribed("write the address into /etc/hosts", "echo 192.0.2.18 hub.example.org >>hosts"),
    },
    Planted {
        what: "a quota that is used up",
        plant: "printf '[[link]]\\nname = \"link1\"\\nquota = \"2 kB\"\\nquota-reached = \"go-on\"\\n' >>home.toml
            up hub; up home; logged home 'session established'; ip netns exec home ping -q -c 5 -i 0.1 -s 1000 10.9.0.2 >/dev/null
            logged home 'link link1: .*quota is used up'",
        node: "home",
        check: "quota of link link1",
        found: "data quota of 2.0 kB are used",
        mend: AsDescribed("raise `quota` of the link and run weft reload", "sed -i 's/2 kB/2 GB/' home.toml; run home reload"),
    },
    Planted {
        what: "a kill switch that was left behind",
        plant: "sed -i 's#^prefixes = .*#prefixes = [\"10.9.0.2/32\", \"0.0.0.0/0\", \"::/0\"]#' home.toml; printf '[out]\\nkill-switch = true\\ndns = [\"10.9.0.2\"]\\n' >>home.toml; up home; logged home 'kill switch'; kill -9 $home; wait $home
            sed -i '/^.out.$/,$d' home.toml",
        node: "home",
        check: "kill switch",
        found: "but is not configured",
        mend: AsDescribed("weft down lifts it", "run home down"),
    },
    Planted {
        what: "a key that was revoked",
        plant: "$WEFT ca init --out ca >root; $WEFT ca revoke --ca ca --public-key \"$($WEFT pubkey home.key)\" --out home.revoked
            mkdir -p home.state; cat home.revoked >home.state/revoked",
        node: "home",
        check: "own key",
        found: "revoked: other nodes end their sessions",
        mend: AsDescribed("make a new key", "rm home.key; $WEFT keygen --out home.key >/dev/null"),
    },
];

/// Returns the check of a report whose name begins with these words, if it is not good.
fn finding<'a>(report: &'a Value, name: &str) -> Option<&'a Value> {
    let mut checks = report["checks"].as_array()?.iter();
    checks.find(|check| check["name"].as_str().is_some_and(|own| own.starts_with(name)) && check["verdict"] != "good")
}

fn text<'a>(check: &'a Value, key: &str) -> &'a str {
    check[key].as_str().unwrap_or_default()
}

/// Causes a fault and runs the doctor. Repairs it as the doctor advises, and runs the doctor again.
fn treat(fault: &Planted) {
    let dir = Dir::new();
    crate::common::two_nodes(&dir, None);
    let Planted { what, plant, node, check, found, mend } = fault;
    let mend = match mend {
        AsPrinted => "$(python3 -c 'import json,sys
print(next(c[\"help\"] for c in json.load(open(\"before\"))[\"checks\"] if c[\"name\"].startswith(sys.argv[1]) and c[\"verdict\"] != \"good\"))' \"$CHECK\")",
        AsDescribed(_, commands) => commands,
    };
    let mend = match fault.mend {
        AsPrinted => format!(
            "mend=\"{mend}\"; in_node=\"ip netns exec {node}\"; case $mend in mount*) in_node=;; esac
            $in_node bash -c \"$mend\" 2>&1 | sed 's/^/mend: /'"
        ),
        AsDescribed(..) => mend.to_owned(),
    };
    let commands = format!(
        "CHECK='{check}'\nexamine() {{ ip netns exec {node} $WEFT doctor -c {node}.toml --json >$1; }}\n\
         {plant}\nexamine before\n{mend}\nexamine after\n\
         kill ${{home:-}} ${{hub:-}} ${{other:-}} 2>/dev/null; wait; for at in home.state; do umount $at 2>/dev/null; done; true\n"
    );
    let out = script(&dir, &[TWO_NODES, &commands].concat());
    let said = format!("{what}\n{}\n{}", stdout(&out), stderr(&out));
    let report = |name: &str| -> Value {
        let text = std::fs::read_to_string(dir.path(name)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{name}: {why}: {text}\n{said}"))
    };
    let (before, after) = (report("before"), report("after"));
    let named = finding(&before, check).unwrap_or_else(|| panic!("not found: {said}\n{before:#}"));
    assert!(text(named, "found").contains(found), "{said}\n{named:#}");
    if let AsDescribed(words, _) = &fault.mend {
        assert!(text(named, "help").contains(words), "{said}\n{named:#}");
    }
    assert_eq!(finding(&after, check), None, "not mended: {said}\n{named:#}");
}

fn some(of: impl Fn(usize) -> bool) {
    if !has_tun() || !is_root() {
        eprintln!("skipped: this takes root and a TUN device");
        return;
    }
    FAULTS.iter().enumerate().filter(|(at, _)| of(*at)).for_each(|(_, fault)| treat(fault));
}

#[test]
fn each_planted_fault_is_named_and_mended_1() {
    some(|at| at % 3 == 0);
}

#[test]
fn each_planted_fault_is_named_and_mended_2() {
    some(|at| at % 3 == 1);
}

#[test]
fn each_planted_fault_is_named_and_mended_3() {
    some(|at| at % 3 == 2);
}
