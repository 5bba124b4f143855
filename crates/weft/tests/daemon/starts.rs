//! Properties of starts, reloads and checks.
//!
//! Each reports a port in use or a refused configuration, with one message per mistake.

use crate::common::{Dir, WEFT, has_tun, on_two_nodes, script, stderr, stdout, two_nodes, weft};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that holds a UDP port on one device until it is killed.
const HOLDER: &str = "import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'link2')
s.bind(('0.0.0.0', 51900))
print('bound', flush=True)
time.sleep(60)
";

#[test]
fn a_hub_whose_port_is_taken_on_one_of_its_links_exits_and_names_the_owner() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    two_nodes(&dir, None);
    dir.write("holder.py", HOLDER);
    let out = script(
        &dir,
        &[
            crate::common::TWO_NODES,
            r#"
            ip netns exec hub python3 holder.py >holder.log & holder=$!
            until grep -qs bound holder.log; do sleep 0.05; done
            up hub; wait $hub; echo "hub: $?"
            grep -q "UDP port 51900 is in use on interface link2 by process python3 (pid " hub.log; echo "named: $?"
            kill $holder; wait $holder 2>/dev/null
            up hub; logged hub "up, public key"; kill $hub; wait $hub; echo "afterwards: $?""#,
        ]
        .concat(),
    );
    assert_eq!(stdout(&out), "hub: 1\nnamed: 0\nafterwards: 0\n", "{}", stderr(&out));
}

#[test]
fn a_port_that_is_taken_later_is_reported_and_used_once_it_is_free() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    two_nodes(&dir, None);
    dir.write("holder.py", HOLDER);
    let out = script(
        &dir,
        &[
            crate::common::TWO_NODES,
            r#"
            ip -n hub link set link2 down
            up hub; logged hub "up, public key"
            ip -n hub link set link2 up; logged hub "link link2 in use"
            ip -n hub link set link2 down; logged hub "link link2 out of use"
            ip netns exec hub python3 holder.py >holder.log & holder=$!
            until grep -qs bound holder.log; do sleep 0.05; done
            ip -n hub link set link2 up; logged hub "in use on interface link2"
            run hub status >shown
            grep -c "link link2 not used: UDP port 51900 is in use on interface link2 by process python3" shown || cat shown hub.log
            run hub status >/dev/null; echo "taken: $?"
            kill $holder; wait $holder 2>/dev/null
            for _ in $(seq 150); do run hub status | grep -q "not used" || break; sleep 0.1; done
            run hub status | grep -c "not used"
            kill $hub; wait $hub"#,
        ]
        .concat(),
    );
    assert_eq!(stdout(&out), "1\ntaken: 3\n0\n", "{}", stderr(&out));
}

#[test]
fn a_node_that_peers_call_says_when_nothing_behind_it_is_reached() {
    let Some((_dir, out)) = on_two_nodes(
        r#"
            starts() { # NODE, SWITCH
                ip netns exec $1 sysctl -qw net.ipv4.ip_forward=$2
                up $1; logged $1 "up, public key"; eval "kill \$$1; wait \$$1"
                echo "$1 $2: $(grep -c "IPv4 forwarding is off.*sysctl -w net.ipv4.ip_forward=1" $1.log)"
            }
            starts hub 0; starts hub 1; starts home 0"#,
    ) else {
        return;
    };
    assert_eq!(stdout(&out), "hub 0: 1\nhub 1: 0\nhome 0: 0\n", "{}", stderr(&out));
}

#[test]
fn a_reload_fails_with_the_mistake_when_the_configuration_is_refused() {
    let Some((_dir, out)) = on_two_nodes(
        r#"
            run home reload; echo "no node: $?"
            up hub; up home; logged home "session established"
            run home reload; echo "same: $?"
            cp home.toml good.toml; echo 'typo = 1' >>home.toml
            run home reload; echo "typo: $?"
            sed -e '/^\[node\]/a cipher = "chacha20-poly1305"' good.toml >home.toml
            run home reload; echo "cipher: $?"
            (cat good.toml; echo '[links]'; echo 'use = ["link1"]') >home.toml
            run home reload; echo "links: $?"; run home status | grep -c "^link"
            kill $home $hub; wait $home $hub"#,
    ) else {
        return;
    };
    let (text, errors) = (stdout(&out), stderr(&out));
    assert_eq!(text, "no node: 4\nsame: 0\ntypo: 1\ncipher: 1\nlinks: 0\n1\n", "{errors}");
    assert!(
        errors.contains("unknown key `typo`")
            && errors.contains("a change of [node] cipher in the configuration needs a restart"),
        "{errors}"
    );
}

fn unit() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/weft.service");
    fs::read_to_string(file).unwrap()
}

#[test]
fn the_unit_reloads_by_weft_and_is_accepted_by_systemd() {
    let unit = unit();
    assert!(unit.contains("\nExecReload=/usr/local/bin/weft reload\n") && !unit.contains("/bin/kill"), "{unit}");
    assert!(unit.contains("\nDocumentation="), "{unit}");
    let dir = Dir::new();
    let file: PathBuf = dir.write(
        "weft.service",
        &unit
            .replace("/usr/local/bin/weft", WEFT)
            .replace("User=weft", "User=nobody")
            .replace("Group=weft", "Group=nogroup"),
    );
    match Command::new("systemd-analyze").arg("verify").arg("--man=no").arg(&file).output() {
        Ok(out) => assert!(out.status.success(), "{}", stderr(&out)),
        Err(why) => eprintln!("not verified: systemd-analyze: {why}"),
    }
}

/// Returns the findings of `weft check`, without the lines that show their place.
fn findings(dir: &Dir, text: &str) -> Vec<String> {
    let file = dir.write("weft.toml", text);
    let out = weft(&["check", file.to_str().unwrap()]);
    let found = stderr(&out);
    found.lines().filter(|line| line.contains(": error: ") || line.contains(": warning: ")).map(str::to_owned).collect()
}

#[test]
fn one_mistake_has_one_message() {
    let dir = Dir::new();
    dir.key("weft.key");
    let peer = dir.key("peer.key");
    let good = format!(
        "[node]\nkey = \"weft.key\"\nlisten = 51900\n[tun]\naddress = [\"10.9.0.1/24\"]\n[[peer]]\nname = \"hub\"\n\
         public-key = \"{peer}\"\nprefixes = [\"10.9.0.2/32\"]\nendpoints = [\"192.0.2.1:51900\"]\n\
         [[peer]]\nname = \"far\"\npublic-key = \"{}\"\nprefixes = [\"10.9.0.3/32\"]\nvia = [\"hub\"]\n\
         [[vpn]]\nid = 1\nname = \"red\"\ndevice = \"red0\"\naddress = [\"10.1.0.1/24\"]\nprefixes = [\"10.2.0.0/24\"]\n\
         members = {{ hub = [\"10.1.0.2/32\"] }}\n",
        dir.key("far.key")
    );
    assert_eq!(findings(&dir, &good), Vec::<String>::new());
    let mistakes = [
        ("key = \"weft.key\"", "kye = \"weft.key\""),
        ("key = \"weft.key\"", "private = \"weft.key\""),
        ("listen = 51900", "listen = 70000"),
        ("listen = 51900", "listn = 51900"),
        ("address = [\"10.9.0.1/24\"]", "address = [\"10.9.0.1/33\"]"),
        ("address = [\"10.9.0.1/24\"]", "adress = [\"10.9.0.1/24\"]"),
        ("address = [\"10.9.0.1/24\"]", "address = \"10.9.0.1/24\""),
        ("name = \"hub\"", "name = \"the hub\""),
        ("name = \"hub\"", "nmae = \"hub\""),
        ("prefixes = [\"10.9.0.2/32\"]", "prefix = [\"10.9.0.2/32\"]"),
        ("prefixes = [\"10.9.0.2/32\"]", "prefixes = [\"10.9.0.2/64\"]"),
        ("endpoints = [\"192.0.2.1:51900\"]", "endpoints = [\"hub..example:51900\"]"),
        ("endpoints = [\"192.0.2.1:51900\"]", "endpoint = [\"192.0.2.1:51900\"]"),
        (&*format!("public-key = \"{peer}\""), "public-key = \"short\""),
        (&*format!("public-key = \"{peer}\""), &*format!("publickey = \"{peer}\"")),
        ("via = [\"hub\"]", "via = [\"hbu\"]"),
        ("members = { hub", "members = { hbu"),
        ("[tun]", "[tnu]"),
        ("name = \"red\"", "nam = \"red\""),
    ];
    for listens in [true, false] {
        for (right, wrong) in mistakes {
            // Without `listen`, a peer without endpoints is unreachable, which would be a second mistake.
            let base = if listens || right.starts_with("listen") {
                good.clone()
            } else {
                good.replace("listen = 51900\n", "")
            };
            let found = findings(&dir, &base.replacen(right, wrong, 1));
            assert_eq!(found.len(), 1, "{wrong}: {found:#?}");
        }
    }
}

#[test]
fn prefixes_of_a_family_that_the_tunnel_lacks_are_warned_of() {
    let dir = Dir::new();
    dir.key("weft.key");
    let text = |address: &str, prefix: &str| {
        format!(
            "[node]\nkey = \"weft.key\"\n[tun]\naddress = [{address}]\n[[peer]]\nname = \"hub\"\npublic-key = \"{}\"\n\
             endpoints = [\"192.0.2.1:51900\"]\nprefixes = [\"{prefix}\"]\n",
            dir.key(&format!("{}.key", prefix.len() * 100 + address.len() + usize::from(prefix.contains(':'))))
        )
    };
    for (address, prefix, lacks) in [
        ("\"10.9.0.2/24\"", "::/0", Some("IPv6")),
        ("\"10.9.0.2/24\"", "2001:db8::/32", Some("IPv6")),
        ("\"fd00:9::2/64\"", "0.0.0.0/0", Some("IPv4")),
        ("\"fd00:9::2/64\"", "192.0.2.0/24", Some("IPv4")),
        ("\"10.9.0.2/24\", \"fd00:9::2/64\"", "::/0", None),
        ("\"10.9.0.2/24\"", "0.0.0.0/0", None),
    ] {
        let found = findings(&dir, &text(address, prefix));
        let expected =
            lacks.map(|family| format!("`{prefix}` is behind peer `hub`, but [tun] has no {family} address"));
        assert_eq!(found.len(), usize::from(lacks.is_some()), "{address} {prefix}: {found:?}");
        assert!(expected.is_none_or(|expected| found[0].contains(&expected)), "{found:?}");
        let (file, everything) = (dir.path("weft.toml"), prefix.ends_with("/0"));
        let said = stdout(&weft(&["check", file.to_str().unwrap()]));
        assert_eq!(said.contains("hub must forward"), everything, "{said}");
        let doctor = stdout(&weft(&["doctor", "-c", file.to_str().unwrap()]));
        assert_eq!(doctor.contains("this node cannot see whether the peer hub forwards"), everything, "{doctor}");
    }
}
