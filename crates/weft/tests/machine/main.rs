//! Property: the daemon takes nothing from the machine on which it runs, and leaves nothing behind.
//!
//! The test runs on a real kernel.

#[path = "../common/mod.rs"]
mod common;
mod dns;
mod doctor;
mod guard;
mod kill_switch;
mod traffic;

use common::{Dir, has_tun, is_root, part, script, stderr, stdout, weft};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::time::SystemTime;
use weft_units::Rng;

/// `home` and `hub` with a link between them.
///
/// `shot FILE` writes all routes, rules, addresses, tables and settings of `home`. It omits counters, values that the
/// kernel changes itself, and `weft_er`, which nodes of other tests load for the whole machine.
const HOME_AND_HUB: &str = r#"
    for node in home hub; do ip netns add $node; ip -n $node link set lo up; done
    ip link add link0 netns home type veth peer name link0 netns hub
    for node in "home 1" "hub 2"; do
        set -- $node
        ip -n $1 addr add 192.0.2.$2/24 dev link0; ip -n $1 addr add 2001:db8::$2/64 dev link0 nodad; ip -n $1 link set link0 up
    done
    for _ in $(seq 50); do ip -n home -6 addr | grep -q tentative || break; sleep 0.1; done
    in_home() { ip netns exec home "$@"; }
    run() { node=$1; shift; ip netns exec $node $WEFT "$@" --control $node.sock; }
    up() { ip netns exec $1 $WEFT up -c $2.toml 2>>$1.log & eval "$1=$!"; }
    logged() { for _ in $(seq 150); do grep -q "$2" $1.log && return; sleep 0.1; done; echo "not logged: $2"; cat $1.log; }
    shot() {
        { for of in "-4 route" "-6 route"; do ip -n home $of show table all; done
          for of in "-4 rule" "-6 rule"; do ip -n home $of; done
          ip -n home -o addr | sed 's/ valid_lft.*//'; in_home nft list ruleset
          in_home sysctl -a 2>/dev/null | grep -vE '^(fs\.(dentry|inode|file|aio|quota)|kernel\.(random|ns_last_pid|pty\.nr)|net\.netfilter\.nf_conntrack_count|kernel\.(cad_pid|perf_event_max_sample_rate|sched_domain))|\.stable_secret'
        } | sed -E 's/ expires [0-9]*sec//; /^net.ipv4.tcp_(allowed|available)_congestion_control/s/ weft_er//' >$1
    }
    ends() { for _ in $(seq 100); do [ -z "$(ip netns pids home)" ] && return; sleep 0.1; done; echo "left: $(ip netns pids home)"; }
"#;

fn done(args: &[&str]) -> String {
    let out = weft(args);
    assert!(out.status.success(), "{args:?}: {}", stderr(&out));
    stdout(&out).trim().to_owned()
}

/// Returns a random generator; `WEFT_TEST_SEED` repeats an earlier run.
fn rng() -> Rng {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("WEFT_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(now);
    eprintln!("WEFT_TEST_SEED={seed}");
    Rng::new(seed)
}

fn node(name: &str, host: u8, rest: &str) -> String {
    format!(
        "[node]\nkey = \"{name}.key\"\nlisten = 51900\nstate = \"{name}.state\"\ncontrol = \"{name}.sock\"\n\
         [tun]\naddress = [\"10.9.0.{host}/24\", \"fd00:9::{host}/64\"]\n{rest}\n"
    )
}

fn peer(name: &str, key: &str, host: u8, prefixes: &str) -> String {
    format!(
        "[[peer]]\nname = \"{name}\"\npublic-key = \"{key}\"\nendpoints = [\"192.0.2.{host}:51900\"]\nprefixes = [{prefixes}]\n"
    )
}

/// Writes the configurations `hub.toml`, `home.toml` and `plain.toml`.
///
/// `home.toml` has `rest` and these prefixes behind the hub. `plain.toml` is a home without them.
fn home_and_hub(dir: &Dir, prefixes: &str, rest: &str) {
    let (home, hub) = (dir.key("home.key"), dir.key("hub.key"));
    dir.write("hub.toml", &node("hub", 2, &peer("home", &home, 1, "\"10.9.0.1/32\"")));
    dir.write("home.toml", &node("home", 1, &(peer("hub", &hub, 2, prefixes) + rest)));
    dir.write("plain.toml", &node("home", 1, &peer("hub", &hub, 2, "\"10.9.0.2/32\"")));
}

/// Returns a configuration that makes the daemon change every part of a machine that it can change.
fn everything() -> String {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let mut text = "[[vpn]]\nid = 1\nname = \"red\"\ndevice = \"red0\"\ntable = 1001\naddress = [\"10.1.0.1/32\", \"fd00:a::1/128\"]\n\
                    members = { hub = [\"10.1.0.0/24\", \"fd00:a::/64\"] }\n\
                    [[vpn]]\nid = 2\nname = \"blue\"\ndevice = \"blue0\"\naddress = [\"10.2.0.1/32\"]\n\
                    members = { hub = [\"10.2.0.0/24\"] }\n\
                    [access]\nlisten = 51820\npool = \"10.9.128.0/24\"\nendpoint = \"192.0.2.1:51820\"\n"
        .to_owned();
    if has("openvpn") {
        text += "[access.openvpn]\nlisten = 1194\npool = \"10.9.129.0/24\"\nendpoint = \"192.0.2.1:1194\"\n";
    }
    if is_root() && has("nft") {
        text += "[[proxy]]\nto = [\"10.64.0.0/16\"]\nports = [80, \"8000-8010\"]\n";
    }
    text
}

#[test]
fn the_machine_is_as_before_after_down_a_signal_and_a_kill_with_another_start() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    let everything = everything();
    home_and_hub(&dir, r#""10.9.0.2/32", "fd00:9::2/128", "10.64.0.0/16", "0.0.0.0/0", "::/0""#, &everything);
    let wait = if everything.contains("[[proxy]]") { "connections between" } else { "session established" };
    let text = format!(
        r#"{HOME_AND_HUB}
        in_home sysctl -qw net.ipv4.tcp_fastopen=1
        ip -n home route add default via 192.0.2.2; ip -n home route add 10.64.0.0/16 via 192.0.2.2
        ip -n home rule add priority 32765 from 192.0.2.1 table 7; ip -n home -6 rule add priority 31000 table 8
        # What only comes with a module that the first rule loads.
        in_home nft -f - <<EOF
table inet warm {{ chain c {{ type filter hook prerouting priority 0; ct state established accept; }}; }}
delete table inet warm
EOF
        starts() {{ >home.log; up home ${{1:-home}}; logged home "session established"; [ -n "${{1:-}}" ] || logged home "{wait}"; sleep 0.3; }}
        up hub hub; starts; run home down >/dev/null; wait $home; ends
        shot before
        starts; shot during
        echo "== changed"; diff before during | grep -c '^[<>]'; grep -E 'tcp_fastopen =|lookup 51900|lookup 1001|fwmark' during
        echo "== on record"; grep -o '"rule"' home.sock.changes | wc -l
        run home down >/dev/null; wait $home; ends; shot down; echo "== down"; diff before down
        starts; kill $home; wait $home; ends; shot term; echo "== term"; diff before term; ls home.sock.changes 2>/dev/null
        starts; kill -9 $home; wait $home; ends; shot killed; echo "== killed"; diff before killed | grep -c '^[<>]'
        starts plain; run home down >/dev/null; wait $home; ends; shot again; echo "== again"; diff before again
        echo "== said"; grep -c "the last run of this node was killed" home.log
        starts; kill -9 $home; wait $home; ends
        starts; run home down >/dev/null; wait $home; ends; shot same; echo "== same"; diff before same
        echo "== end"; kill $hub; wait $hub"#
    );
    let out = script(&dir, &text);
    let log = std::fs::read_to_string(dir.path("home.log")).unwrap_or_default();
    let text = stdout(&out);
    let all = format!("{text}\n{}\n{log}", stderr(&out));
    let changed: u32 = part(&text, "changed").lines().next().and_then(|count| count.parse().ok()).unwrap_or(0);
    assert!(changed > 20 && part(&text, "changed").contains("lookup 51900"), "{all}");
    if everything.contains("[[proxy]]") {
        assert!(
            part(&text, "changed").contains("tcp_fastopen = 3") && part(&text, "changed").contains("fwmark"),
            "{all}"
        );
    }
    for (name, expected) in [("down", ""), ("term", ""), ("again", ""), ("said", "1"), ("same", ""), ("end", "")] {
        assert_eq!(part(&text, &format!("{name}\n")), expected, "{name}: {all}");
    }
    let left: u32 = part(&text, "killed").parse().unwrap_or(0);
    eprintln!("{changed} lines differ during a run, {left} after a kill, none after its end");
    assert!(left > 0, "a killed run leaves rules, which the next one finds on record: {all}");
    assert!(text.contains("== end") && !text.contains("not logged"), "{all}");
}

/// Draws a prefix of this family and length; few bits vary, so that drawn prefixes overlap.
fn draw(rng: &mut Rng, ipv6: bool, length: u8) -> (IpAddr, u8) {
    let bits = rng.next_u64() as u32 & 0x00ff_ffff;
    let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
    let bits = (0x0a00_0000 | bits & 0x0007_0707) & mask;
    match ipv6 {
        false => (Ipv4Addr::from_bits(bits).into(), length),
        true => (Ipv6Addr::from_bits(u128::from(bits | 0xf000_0000) << 96).into(), length),
    }
}

/// Returns the first 32 bits of an address.
fn bits(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => (address.to_bits() >> 96) as u32,
    }
}

fn written((address, length): (IpAddr, u8)) -> String {
    format!("{address}/{length}")
}

/// Returns the device of the longest prefix that contains an address.
///
/// Between equals the machine's own wins.
fn longest(address: IpAddr, machine: &[(IpAddr, u8)], tunnel: &[(IpAddr, u8)]) -> &'static str {
    let holds = |(network, length): &&(IpAddr, u8)| {
        let apart = bits(*network) ^ bits(address);
        network.is_ipv4() == address.is_ipv4() && (*length == 0 || apart >> (32 - u32::from(*length)) == 0)
    };
    let of = |prefixes: &[(IpAddr, u8)]| prefixes.iter().filter(holds).map(|(_, length)| *length).max();
    match (of(machine), of(tunnel)) {
        // A default route in the tunnel wins against the machine's.
        (Some(0) | None, Some(_)) => "weft0",
        (machine, Some(tunnel)) if machine < Some(tunnel) => "weft0",
        _ => "link0",
    }
}

#[test]
fn the_longest_prefix_wins_wherever_it_is_and_the_machines_own_between_equals() {
    if !has_tun() {
        return;
    }
    let (dir, mut rng) = (Dir::new(), rng());
    let mut all: BTreeMap<bool, [Vec<(IpAddr, u8)>; 2]> = BTreeMap::new();
    for ipv6 in [false, true] {
        for side in 0..2 {
            let mut prefixes: Vec<_> = (0..12)
                .map(|_| {
                    let length = 9 + rng.below(16) as u8;
                    draw(&mut rng, ipv6, length)
                })
                .collect();
            let default = if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
            prefixes.extend(rng.chance(0.7).then_some((default, 0)));
            // Some prefixes are on both sides.
            if let Some([machine, _]) = all.get(&ipv6) {
                prefixes.extend(machine.iter().take(3));
            }
            prefixes.sort_unstable();
            prefixes.dedup();
            all.entry(ipv6).or_default()[side] = prefixes;
        }
    }
    let tunnel: Vec<String> =
        all.values().flat_map(|[_, tunnel]| tunnel).map(|of| format!("\"{}\"", written(*of))).collect();
    home_and_hub(&dir, &tunnel.join(", "), "");
    let route = |of: &(IpAddr, u8)| {
        let (family, via) = if of.0.is_ipv6() { ("-6", "2001:db8::2") } else { ("-4", "192.0.2.2") };
        format!("ip -n home {family} route add {} via {via}\n", written(*of))
    };
    let machine: String = all.values().flat_map(|[machine, _]| machine).map(route).collect();
    let asked: Vec<(IpAddr, &str)> = (0..400)
        .map(|_| {
            let ipv6 = rng.chance(0.5);
            let (address, _) = draw(&mut rng, ipv6, 24);
            let [machine, tunnel] = &all[&ipv6];
            (address, longest(address, machine, tunnel))
        })
        .collect();
    let gets: String = asked.iter().map(|(address, _)| format!("ip -n home route get {address} | head -1\n")).collect();
    let text = format!(
        "{HOME_AND_HUB}\n{machine}\nup hub hub; up home home; logged home 'session established'\n\
         in_home ping -c1 -W2 192.0.2.2 >/dev/null && echo '== link'\n\
         {{ ip -n home route show table all | grep -c 'table 51900'; ip -n home -6 route show table all | grep -c 'table 51900'; }} | paste -s\n\
         echo '== gets'; {{ {gets} }} 2>&1\necho '== end'; kill $home $hub; wait"
    );
    let out = script(&dir, &text);
    let (text, log) = (stdout(&out), std::fs::read_to_string(dir.path("home.log")).unwrap_or_default());
    let state = format!("{text}\n{}\n{log}\n{all:?}", stderr(&out));
    assert!(text.contains("== link") && text.contains("== end"), "{state}");
    let gets: Vec<&str> = part(&text, "gets").lines().collect();
    assert_eq!(gets.len(), asked.len(), "{state}");
    for ((address, expected), got) in asked.iter().zip(gets) {
        let device = got.split_whitespace().skip_while(|word| *word != "dev").nth(1);
        // If neither side has a route, the lookup fails.
        let is_none = got.contains("unreachable") && *expected == "link0";
        assert!(device == Some(*expected) || is_none, "{address}: {got}, expected {expected}\n{state}");
    }
}

#[test]
fn routes_of_others_stay_and_are_reported() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    home_and_hub(&dir, r#""10.9.0.2/32", "10.65.0.0/16", "10.66.0.0/16""#, "");
    let table = std::fs::read_to_string(dir.path("home.toml")).unwrap().replace("[tun]\n", "[tun]\ntable = 777\n");
    dir.write("home.toml", &table);
    let text = format!(
        r#"{HOME_AND_HUB}
        ip -n home route add 10.65.0.0/16 via 192.0.2.2 table 777; ip -n home route add 10.66.0.0/16 via 192.0.2.2
        up hub hub; up home home; logged home "session established"
        echo "== table"; ip -n home route show table 777; echo "== main"; ip -n home route show table main
        run home down; wait $home
        echo "== left"; ip -n home route show table 777; ip -n home route show table main; ip -n home rule | wc -l
        kill $hub; wait $hub"#
    );
    let out = script(&dir, &text);
    let (text, log) = (stdout(&out), std::fs::read_to_string(dir.path("home.log")).unwrap_or_default());
    let all = format!("{text}\n{}\n{log}", stderr(&out));
    let foreign = "10.65.0.0/16 via 192.0.2.2 dev link0";
    for shown in [foreign, "10.66.0.0/16 dev weft0", "10.9.0.2 dev weft0"] {
        assert!(part(&text, "table").contains(shown), "{shown}: {all}");
    }
    assert!(!part(&text, "table").contains("10.65.0.0/16 dev weft0"), "{all}");
    assert!(part(&text, "main").contains("10.66.0.0/16 via 192.0.2.2"), "{all}");
    assert!(part(&text, "left").contains(foreign) && part(&text, "left").ends_with("\n3"), "{all}");
    assert!(log.contains("routing table 777 has another program's route to 10.65.0.0/16"), "{all}");
}

/// The hub h has a LAN, and sites join it by certificate.
///
/// `lost` prints the number of unanswered pings from the hub to a LAN host.
fn sites(names: &[String], lan: [(IpAddr, u8); 2]) -> String {
    // Hosts are in the upper half of the LAN, so that a claim inside the LAN does not contain them.
    let host = |(network, length): (IpAddr, u8), host: u32| match network {
        IpAddr::V4(network) => {
            format!("{}/{length}", Ipv4Addr::from_bits(network.to_bits() + (1 << (31 - length)) + host))
        }
        IpAddr::V6(network) => {
            format!("{}/{length}", Ipv6Addr::from_bits(network.to_bits() + (1 << (127 - length)) + u128::from(host)))
        }
    };
    let [own, other] = [1, 2].map(|n| lan.map(|network| host(network, n)));
    let plain = |address: &str| address.split('/').next().unwrap_or_default().to_owned();
    format!(
        r#"
    for node in s h lan {names}; do ip netns add $node; ip -n $node link set lo up; done
    ip -n s link add br0 type bridge; ip -n s link set br0 up; n=0
    for node in h {names}; do
        n=$((n + 1)); ip link add eth0 netns $node type veth peer name $node netns s
        ip -n s link set dev $node master br0 up
        ip -n $node addr add 192.0.2.$n/24 dev eth0; ip -n $node link set eth0 up
    done
    ip link add lan0 netns h type veth peer name lan0 netns lan
    for a in {} {}; do ip -n h addr add $a dev lan0 nodad; done; ip -n h link set lan0 up
    for a in {} {}; do ip -n lan addr add $a dev lan0 nodad; done; ip -n lan link set lan0 up
    run() {{ node=$1; shift; ip netns exec $node $WEFT "$@" --control $node.sock; }}
    up() {{ ip netns exec $1 $WEFT up -c $1.toml 2>>$1.log & eval "$1=$!"; }}
    logged() {{ for _ in $(seq 150); do grep -q "$2" $1.log && return; sleep 0.1; done; echo "not logged: $2"; }}
    watch() {{ for to in {} {}; do ip netns exec h ping -i 0.05 -W 1 $to >ping.$to & pings="$pings $!"; done; }}
    lost() {{ kill -INT $pings; wait $pings; grep -h 'packet loss' ping.*; }}
    pings=; sleep 0.3
"#,
        own[0],
        own[1],
        other[0],
        other[1],
        plain(&other[0]),
        plain(&other[1]),
        names = names.join(" "),
    )
}

#[test]
fn a_site_that_claims_the_hubs_lan_is_refused_and_the_lan_stays_reachable() {
    if !has_tun() {
        return;
    }
    let (dir, mut rng) = (Dir::new(), rng());
    // One LAN per family, and claims that equal it, cover it, lie inside it or lie apart from it.
    let lan = [false, true].map(|ipv6| {
        let length = 16 + rng.below(8) as u8;
        draw(&mut rng, ipv6, length)
    });
    let root = done(&["ca", "init", "--out", dir.path("ca").to_str().unwrap()]);
    let hub = dir.key("h.key");
    dir.write("h.toml", &node("h", 1, &format!("[network]\nroot = \"{root}\"\noverlay = false\n")));
    let mut expected = BTreeMap::new();
    for (n, kind) in ["equal", "cover", "inside", "apart", "node"].into_iter().enumerate() {
        let (network, length) = lan[rng.below(2) as usize];
        let claim = match kind {
            "equal" => (network, length),
            "cover" => trimmed(network, 13 + rng.below(u64::from(length) - 13) as u8),
            "inside" => (network, length + 1 + rng.below(8) as u8),
            "apart" => flipped(network, length, 14 + rng.below(u64::from(length) - 13) as u8),
            // This claim covers the network through which all sites reach the hub.
            _ => trimmed(IpAddr::from([192, 0, 2, 0]), 20 + rng.below(5) as u8),
        };
        let (host, key) = (n as u8 + 2, dir.key(&format!("{kind}.key")));
        // Each certificate comes from a copy of the root key's directory without the other claims, so that `weft ca`
        // signs them all.
        let (ca, cert) = (dir.path(&format!("ca-{kind}")), dir.path(&format!("{kind}.cert")));
        assert!(Command::new("cp").arg("-a").args([dir.path("ca"), ca.clone()]).status().unwrap().success());
        let (ca, cert, own) = (ca.to_str().unwrap(), cert.to_str().unwrap(), format!("10.9.0.{host}/32"));
        let names = ["--name", kind, "--public-key", &key, "--prefix", &own, "--prefix", &written(claim)];
        done(&[&["ca", "sign", "--ca", ca, "--out", cert], &names[..]].concat());
        let network = format!("[network]\nroot = \"{root}\"\ncertificate = \"{kind}.cert\"\noverlay = false\n");
        dir.write(&format!("{kind}.toml"), &node(kind, host, &(network + &peer("hub", &hub, 1, "\"10.9.0.1/32\""))));
        expected.insert(kind.to_owned(), (written(claim), matches!(kind, "equal" | "cover" | "node")));
    }
    let names: Vec<String> = expected.keys().cloned().collect();
    let mut text = sites(&names, lan) + "up h; logged h 'in use'; watch\n";
    for (name, (_, is_refused)) in &expected {
        text += &match is_refused {
            true => format!("up {name}; logged h 'peer {name} (.*) is refused'\n"),
            false => format!("up {name}; logged h 'peer {name} joined'\n"),
        };
        text += &format!(
            "ip netns exec {name} ping -c1 -W1 10.9.0.1 >/dev/null; code=$?; echo \"== {name} ping\"; echo $code\n"
        );
    }
    text += "sleep 0.5; echo '== lost'; lost; echo '== routes'; ip -n h route show table 51900; ip -n h -6 route show table 51900\n\
             echo '== status'; run h status; echo '== json'; run h status --json; kill -9 $(ip netns pids h); exit";
    let out = script(&dir, &text);
    let (text, log) = (stdout(&out), std::fs::read_to_string(dir.path("h.log")).unwrap_or_default());
    let all = format!("{text}\n{}\n{log}\nLAN {lan:?}, {expected:?}", stderr(&out));
    assert!(!text.contains("not logged"), "{all}");
    assert_eq!(part(&text, "lost").matches(" 0% packet loss").count(), 2, "{all}");
    let json: serde_json::Value = serde_json::from_str(part(&text, "json")).unwrap_or_default();
    let refused = json["refused_prefixes"].as_array().cloned().unwrap_or_default();
    for (name, (claim, is_refused)) in &expected {
        let is_shown = part(&text, "status").contains(&format!("prefix {claim} of peer {name} is refused: it "));
        assert_eq!(is_shown, *is_refused, "{name}: {all}");
        assert_eq!(refused.iter().any(|of| of["name"] == **name), *is_refused, "{name}: {all}");
        assert_eq!(part(&text, "routes").contains(&format!("{claim} dev weft0")), !is_refused, "{name}: {all}");
        assert_eq!(part(&text, &format!("{name} ping")).starts_with('0'), !is_refused, "{name}: {all}");
        let start = format!("peer {name} (");
        let lines = log.lines().filter(|line| line.contains(&start) && line.contains(") is refused: "));
        assert!(!is_refused || lines.count() == 1, "once: {all}");
    }
}

fn mask(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
}

fn trimmed(network: IpAddr, length: u8) -> (IpAddr, u8) {
    (of_bits(network, bits(network) & mask(length)), length)
}

/// Returns a network of the same length that differs in one bit.
fn flipped(network: IpAddr, length: u8, bit: u8) -> (IpAddr, u8) {
    (of_bits(network, bits(network) ^ 1 << (32 - u32::from(bit))), length)
}

fn of_bits(like: IpAddr, bits: u32) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::from_bits(bits).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(u128::from(bits) << 96).into(),
    }
}

#[test]
fn a_configured_prefix_that_is_a_network_of_the_machine_is_not_routed_and_any_other_is() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    home_and_hub(
        &dir,
        r#""10.9.0.2/32", "10.71.3.0/24", "10.70.0.0/15", "10.80.1.128/25", "192.0.0.0/16", "0.0.0.0/0""#,
        "",
    );
    let text = format!(
        r#"{HOME_AND_HUB}
        ip -n home link add lan0 type veth peer name lan1; ip -n home link set lan0 up; ip -n home addr add 10.80.1.1/24 dev lan0
        up hub hub; up home home; logged home "session established"
        echo "== first"; ip -n home route show table 51900; run home status
        ip -n home addr add 10.71.3.1/24 dev lan0; logged home "10.71.3.0/24 of peer hub is not routed"
        echo "== second"; ip -n home route show table 51900; run home status
        ip -n home route get 10.71.3.9; ip -n home route get 10.70.0.9; ip -n home route get 192.0.0.9
        ip -n home addr del 10.71.3.1/24 dev lan0
        for _ in $(seq 100); do ip -n home route show table 51900 | grep -q 10.71.3.0 && break; sleep 0.1; done
        echo "== third"; ip -n home route show table 51900; run home status
        kill $home $hub; wait"#
    );
    let out = script(&dir, &text);
    let (text, log) = (stdout(&out), std::fs::read_to_string(dir.path("home.log")).unwrap_or_default());
    let all = format!("{text}\n{}\n{log}", stderr(&out));
    for (part_name, is_routed) in [("first", true), ("second", false), ("third", true)] {
        let part = part(&text, part_name);
        assert_eq!(part.contains("10.71.3.0/24 dev weft0"), is_routed, "{part_name}: {all}");
        assert!(
            ["10.80.1.128/25", "10.70.0.0/15", "192.0.0.0/16", "0.0.0.0/1"]
                .iter()
                .all(|of| part.contains(&format!("{of} dev weft0"))),
            "{part_name}: {all}"
        );
        let line = "prefix 10.71.3.0/24 of peer hub is refused: it covers the local network of 10.71.3.1/24";
        assert_eq!(part.contains(line), !is_routed, "{part_name}: {all}");
    }
    assert!(part(&text, "second").contains("10.71.3.9 dev lan0"), "{all}");
    assert_eq!(log.matches("prefix 10.71.3.0/24 of peer hub is not routed").count(), 1, "once: {all}");
}

#[test]
fn a_node_with_proxies_runs_with_one_capability_as_an_ordinary_user() {
    if !has_tun() || !is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        return eprintln!("skipped: needs root, a TUN device and setpriv");
    }
    let dir = Dir::new();
    home_and_hub(&dir, r#""10.9.0.2/32""#, "[[proxy]]\nports = [80]\n");
    let text = format!(
        r#"{HOME_AND_HUB}
        mkdir /run/net && mknod -m 666 /run/net/tun c 10 200 && mount --bind /run/net /dev/net
        chown -R 65534:65534 .; in_home sysctl -qw net.ipv4.tcp_fastopen=0
        up hub hub
        ip netns exec home setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --inh-caps=-all,+net_admin --ambient-caps=-all,+net_admin \
            --bounding-set=-all,+net_admin $WEFT up -c home.toml 2>home.log & home=$!
        logged home "session established"; logged home "connections between"
        echo "== has"; grep -E 'CapEff|Uid' /proc/$home/status
        echo "== ping"; in_home ping -c1 -W2 10.9.0.2 >/dev/null; echo $?
        echo "== during"; in_home sysctl -n net.ipv4.tcp_fastopen; in_home nft list tables
        kill $home; wait $home; ends
        echo "== after"; in_home sysctl -n net.ipv4.tcp_fastopen; in_home nft list tables; ip -n home rule | wc -l
        kill $hub; wait $hub"#
    );
    let out = script(&dir, &text);
    let (text, log) = (stdout(&out), std::fs::read_to_string(dir.path("home.log")).unwrap_or_default());
    let all = format!("{text}\n{}\n{log}", stderr(&out));
    let has = part(&text, "has");
    assert!(has.contains("65534") && has.ends_with("0000000000001000"), "CAP_NET_ADMIN alone: {all}");
    assert_eq!(part(&text, "ping"), "0", "{all}");
    assert!(part(&text, "during").starts_with("3\n") && part(&text, "during").contains("weft_proxy"), "{all}");
    assert_eq!(part(&text, "after"), "0\n3", "{all}");
}
