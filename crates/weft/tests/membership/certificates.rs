//! `weft ca`, and nodes that join by its certificates, on a real kernel.

use crate::common::{Dir, has_tun, mode, part, script, stderr, stdout, weft};
use std::process::Output;

/// A hub and two homes, each linked to the hub: h – a, h – b.
///
/// The homes' sites are 192.168.2.0/24 and 192.168.3.0/24.
const STAR: &str = r#"
    for node in h a b; do ip netns add $node; done
    join() {
        ip link add $1$2 netns $1 type veth peer name $2$1 netns $2
        ip -n $1 addr add 192.0.2.$(($3 * 16 + 1))/28 dev $1$2; ip -n $1 link set $1$2 up
        ip -n $2 addr add 192.0.2.$(($3 * 16 + 2))/28 dev $2$1; ip -n $2 link set $2$1 up
    }
    join h a 1; join h b 2
    run() { node=$1; shift; ip netns exec $node $WEFT "$@" --control $node.sock; }
    up() { ip netns exec $1 $WEFT up -c $1.toml 2>>$1.log & eval "$1=$!"; }
    pings() { ip netns exec $1 ping -c1 -W1 10.9.0.1 >/dev/null; }
    comes() { for _ in $(seq 100); do pings $1 && return; sleep 0.1; done; echo "$1 does not come"; }
    # Milliseconds until the hub shows no peer of that name.
    goes() { from=$(date +%s%3N); while run h status | grep -q "^$1 "; do sleep 0.02; done; echo $(($(date +%s%3N) - from)); }
    up h; up a; up b; comes a; comes b
"#;

fn done(out: Output) -> String {
    assert!(out.status.success(), "{}", stderr(&out));
    stdout(&out).trim().to_owned()
}

fn ca(dir: &Dir, args: &[&str]) -> Output {
    let in_dir = |arg: &&str| match arg.strip_prefix('@') {
        Some(name) => dir.path(name).to_str().unwrap().to_owned(),
        None => (*arg).to_owned(),
    };
    let args: Vec<String> = args.iter().map(in_dir).collect();
    weft(&[&["ca"], args.iter().map(String::as_str).collect::<Vec<_>>().as_slice()].concat())
}

fn sign(dir: &Dir, name: &str, key: &str, rest: &[&str], file: &str) {
    let args = ["sign", "--ca", "@ca", "--name", name, "--public-key", key, "--out", file];
    done(ca(dir, &[&args, rest].concat()));
}

/// Writes keys, certificates and configurations of the three nodes. Returns the homes' public keys.
fn star(dir: &Dir) -> [String; 2] {
    let root = done(ca(dir, &["init", "--out", "@ca"]));
    let hub = dir.key("h.key");
    let node = |name: &str, host: u8, rest: &str| {
        let text = format!(
            "[node]\nkey = \"{name}.key\"\nlisten = 51900\nstate = \"{name}.state\"\ncontrol = \"{name}.sock\"\n\
             [tun]\naddress = [\"10.9.0.{host}/24\"]\n[network]\nroot = \"{root}\"\n{rest}"
        );
        dir.write(&format!("{name}.toml"), &text)
    };
    node("h", 1, "");
    [("a", 2u8), ("b", 3)].map(|(name, host)| {
        let key = dir.key(&format!("{name}.key"));
        let (own, site) = (format!("10.9.0.{host}/32"), format!("192.168.{host}.0/24"));
        let group: &[&str] = if name == "a" { &["--group", "staff"] } else { &[] };
        let claims = [&["--prefix", &own, "--prefix", &site], group].concat();
        sign(dir, name, &key, &claims, &format!("@{name}.cert"));
        let peer = format!(
            "certificate = \"{name}.cert\"\n[[peer]]\nname = \"hub\"\npublic-key = \"{hub}\"\n\
             endpoints = [\"192.0.2.{}:51900\"]\nprefixes = [\"10.9.0.1/32\"]\n",
            (host - 1) * 16 + 1
        );
        node(name, host, &peer);
        key
    })
}

#[test]
fn homes_join_by_certificate_and_the_revoked_one_is_gone_within_two_seconds() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    let [a, _] = star(&dir);
    done(ca(&dir, &["revoke", "--ca", "@ca", "--public-key", &a, "--out", "@a.revoked"]));
    let text = format!(
        r#"{STAR}
        # Routes follow within ten times the time that the kernel takes for a change, so that many joins do not fill the node's time.
        routed() {{ for _ in $(seq 40); do [ "$(ip -n h route show table 51900 | grep -c 192.168)" = $1 ] && return; sleep 0.05; done; }}
        echo "== joined"; run h status
        echo "== routes"; routed 2; ip -n h route show table 51900
        echo "== revoked"; run h revoke a.revoked && goes a
        echo "== afterwards"; routed 1; run h status; ip -n h route show table 51900; pings b && echo "b stays"; pings a && echo "a is still there"
        kill $h; wait $h; up h; comes b
        echo "== restarted"; sleep 2; pings b && echo "b stays"; pings a && echo "a is back"
        kill $h $a $b; wait"#
    );
    let out = script(&dir, &text);
    let log = std::fs::read_to_string(dir.path("h.log")).unwrap_or_default();
    let text = stdout(&out);
    let part = |name: &str| text.split("== ").find_map(|part| part.strip_prefix(name)).unwrap_or_default();
    let all = format!("{text}\n{}\n{log}", stderr(&out));
    for home in ["a ", "b "] {
        let is_well = |line: &str| line.starts_with(home) && line.contains("good, by certificate");
        assert!(part("joined").lines().any(is_well), "{all}");
    }
    assert!(part("routes").contains("192.168.2.0/24") && part("routes").contains("192.168.3.0/24"), "{all}");
    let took_ms: u64 = part("revoked").trim().parse().unwrap_or(u64::MAX);
    eprintln!("gone after {took_ms} ms");
    assert!(took_ms <= 2_000, "{all}");
    let afterwards = part("afterwards");
    assert!(afterwards.contains("b stays") && !afterwards.contains("a is still there"), "{all}");
    assert!(!afterwards.contains("192.168.2.0/24") && afterwards.contains("192.168.3.0/24"), "{all}");
    assert!(part("restarted").contains("b stays") && !part("restarted").contains("a is back"), "{all}");
    assert!(log.contains("its certificate is revoked") && log.contains(&format!("key {a} was revoked")), "{all}");
}

#[test]
fn the_groups_of_certificates_decide_which_flows_enter() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    star(&dir);
    let hub = std::fs::read_to_string(dir.path("h.toml")).unwrap();
    let ssh = "[[allow]]\nname = \"ssh\"\nfrom = \"group:staff\"\nprotocol = \"tcp\"\nports = \"22\"\n";
    dir.write("h.toml", &(hub + ssh + "[[allow]]\nname = \"ping\"\nprotocol = \"icmp\"\n"));
    let commands = r#"
        explain() { echo "== $1"; shift; run h explain "$@" 2>&1 | head -5; }
        explain staff 192.168.2.9 10.9.0.1:22 tcp
        explain other 192.168.3.9 10.9.0.1:22 tcp
        explain between 192.168.2.9 192.168.3.9:22 tcp
        kill $h $a $b; wait
    "#;
    let out = script(&dir, &[STAR, commands].concat());
    let text = stdout(&out);
    let said = |name: &str| part(&text, name).to_owned();
    let staff = "access  flow from a to this node: allowed by the [[allow]] rule ssh";
    assert_eq!(said("staff"), staff, "{text}\n{}", stderr(&out));
    let other = "access  flow from b to this node: denied: none of the 2 [[allow]] rules";
    assert!(said("other").starts_with(other), "{text}");
    let between = "access  flow from a through this node to b: allowed by the [[allow]] rule ssh";
    assert!(said("between").contains(between), "{text}");
}

#[test]
fn a_certificate_is_shown_with_its_signer() {
    let dir = Dir::new();
    let root = done(ca(&dir, &["init", "--out", "@ca"]));
    assert_eq!((mode(&dir.path("ca")), mode(&dir.path("ca/root.key"))), (0o700, 0o600));
    assert!(!ca(&dir, &["init", "--out", "@ca"]).status.success(), "a root key is never written over");
    let key = dir.key("home.key");
    let of_site = ["--prefix", "10.9.0.5/32", "--prefix", "2001:db8::/48", "--relay", "--days", "90"];
    sign(&dir, "home", &key, &of_site, "@home.cert");
    let shown = done(ca(&dir, &["show", "@home.cert", "--root", &root]));
    for part in ["certificate of home", &key, "10.9.0.5/32 2001:db8::/48", "may relay", "from 2", "Z to 2"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let as_json = done(ca(&dir, &["show", "@home.cert", "--json"]));
    let value: serde_json::Value = serde_json::from_str(&as_json).unwrap();
    assert_eq!((&value["kind"], &value["name"]), (&"certificate".into(), &"home".into()));
    let (from, to) = (value["not_before_unix_s"].as_u64().unwrap(), value["not_after_unix_s"].as_u64().unwrap());
    assert_eq!(to - from, 90 * 86_400 + 600);

    done(ca(&dir, &["revoke", "--ca", "@ca", "--public-key", &key, "--out", "@home.revoked"]));
    let shown = done(ca(&dir, &["show", "@home.revoked", "--root", &root]));
    assert!(shown.contains(&format!("revocation of the public key {key}")), "{shown}");
    let other = done(ca(&dir, &["init", "--out", "@other"]));
    for file in ["@home.cert", "@home.revoked"] {
        let out = ca(&dir, &["show", file, "--root", &other]);
        assert_eq!(out.status.code(), Some(1));
        assert!(stderr(&out).contains("the root key given with --root did not sign the file"), "{}", stderr(&out));
    }
    assert!(!ca(&dir, &["show", "@home.key"]).status.success());
}

#[test]
fn invalid_certificates_are_not_signed() {
    let dir = Dir::new();
    let key = dir.key("home.key");
    let sign = |rest: &[&str]| {
        let out = ca(&dir, &[&["sign", "--ca", "@ca", "--name", "home", "--public-key", &key], rest].concat());
        (out.status.code(), stderr(&out))
    };
    assert!(sign(&[]).1.contains("make one with: weft ca init"));
    done(ca(&dir, &["init", "--out", "@ca"]));
    assert_eq!(sign(&[]).0, Some(0));
    for (args, why) in [
        (vec!["--prefix", "10.9.0.5/24"], "write 10.9.0.0/24"),
        (vec!["--prefix", "10.9.0.5"], "expected a prefix length"),
        (["--prefix", "10.9.0.5/32"].repeat(17), "at most 16 prefixes"),
        (vec!["--days", "0"], "0 is not in"),
        (vec!["--out", "@home.key"], "exists"),
    ] {
        let (code, text) = sign(&args);
        assert!(code != Some(0) && text.contains(why), "{args:?}: {code:?} {text}");
    }
    let named = |name: &str| ca(&dir, &["sign", "--ca", "@ca", "--name", name, "--public-key", &key]);
    assert_eq!(named("two words").status.code(), Some(2));
    let of_nobody = ca(&dir, &["sign", "--ca", "@ca", "--name", "x", "--public-key", "AAAA"]);
    assert!(stderr(&of_nobody).contains("44 characters"), "{}", stderr(&of_nobody));
}

#[test]
fn another_nodes_name_or_prefix_is_signed_only_after_its_revocation() {
    let dir = Dir::new();
    done(ca(&dir, &["init", "--out", "@ca"]));
    let [home, other] = ["home.key", "other.key"].map(|name| dir.key(name));
    let sign = |name: &str, key: &str, prefix: &str| {
        let out = ca(&dir, &["sign", "--ca", "@ca", "--name", name, "--public-key", key, "--prefix", prefix]);
        (out.status.code(), stderr(&out))
    };
    assert_eq!(sign("home", &home, "10.9.4.0/24").0, Some(0));
    assert_eq!(sign("home", &home, "10.9.4.0/24").0, Some(0), "anew for the same key");
    for (name, prefix, why) in [
        ("home", "10.9.5.0/24", "the name home already belongs to a node, whose certificate is valid until"),
        ("other", "10.9.4.0/24", "10.9.4.0/24 overlaps with one of node home, whose certificate is valid until"),
        ("other", "10.9.4.7/32", "10.9.4.7/32 overlaps with one of node home, whose certificate is valid until"),
        ("other", "10.9.0.0/16", "revoke that node's key: weft ca revoke"),
    ] {
        let (code, text) = sign(name, &other, prefix);
        assert!(code == Some(1) && text.contains(why), "{name} {prefix}: {code:?} {text}");
    }
    assert_eq!(sign("other", &other, "0.0.0.0/0").0, Some(0), "a default route lies around all others");
    let revoke = |name: &str| {
        let out = ca(&dir, &["revoke", "--ca", "@ca", "--name", name, "--out", "@home.revoked"]);
        (out.status.code(), stderr(&out))
    };
    let (code, text) = revoke("hom");
    let unknown = "no certificate was signed for node hom;";
    assert!(code == Some(1) && text.contains(unknown) && text.contains("home"), "{text}");
    let (code, text) = revoke("home");
    assert!(code == Some(0) && text.contains("weft revoke "), "{text}");
    let (code, text) = revoke("home");
    assert!(code == Some(1) && text.contains("the key of node home is revoked"), "{text}");
    for both in [&["--name", "other", "--public-key", &other][..], &[]] {
        assert_eq!(ca(&dir, &[&["revoke", "--ca", "@ca"], both].concat()).status.code(), Some(2));
    }
    assert_eq!(sign("home", &other, "10.9.4.0/24").0, Some(0));
}

#[test]
fn a_certificate_that_does_not_hold_is_reported_with_its_place_and_the_fix() {
    let dir = Dir::new();
    let [a, b] = star(&dir);
    let good = std::fs::read_to_string(dir.path("a.toml")).unwrap();
    let said = |text: &str| {
        let file = dir.write("bad.toml", text);
        let out = weft(&["check", file.to_str().unwrap()]);
        (out.status.code(), stdout(&out) + &stderr(&out))
    };
    let (code, text) = said(&good);
    assert!(code == Some(0) && !text.contains("warning"), "{text}");
    done(ca(&dir, &["init", "--out", "@other"]));
    sign(&dir, "a", &a, &["--days", "5"], "@soon.cert");
    let others = ["sign", "--ca", "@other", "--name", "a", "--public-key", &a, "--out", "@others.cert"];
    done(ca(&dir, &others));
    let with = |certificate: &str| good.replace("a.cert", certificate);
    let line = good.lines().position(|line| line.starts_with("certificate")).unwrap() + 1;
    for (text, code, severity, message) in [
        (with("b.cert"), 1, "error", format!("is for the key {b}, not for this node's key {a}")),
        (with("others.cert"), 1, "error", "is not signed by the root key".to_owned()),
        (
            with("none.cert"),
            1,
            "error",
            format!("sign a certificate for this node, with its name and prefixes: weft ca sign --public-key {a}"),
        ),
        (with("a.key"), 1, "error", "is neither a certificate nor a revocation".to_owned()),
        (with("soon.cert"), 0, "warning", "soon.cert expires in ".to_owned()),
        (good.replace("[node]", "[node]\nrelay = true"), 0, "warning", "does not let this node relay".to_owned()),
    ] {
        let (found, text_found) = said(&text);
        assert!(found == Some(code) && text_found.contains(&message), "{message}: {found:?} {text_found}");
        let line = if text.contains("relay") { line + 1 } else { line };
        assert!(text_found.contains(&format!("bad.toml:{line}:15: {severity}")), "{text_found}");
    }
    let (code, text) = said(&good.replace("root = \"", "root = \"x"));
    assert!(code == Some(1) && text.contains("a root key is 44 characters of base64"), "{text}");
    let (code, text) = said(&good.replace("root = ", "rot = "));
    assert!(
        code == Some(1) && text.contains("did you mean `root`") && !text.contains("needs `root`"),
        "one mistake, one message\n{text}"
    );
}
