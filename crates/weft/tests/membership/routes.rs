//! Property: nodes that share no link find routes over several relays by themselves, on a real kernel.

use crate::common::{Dir, has_tun, part, script, stderr, stdout, weft};

/// Two rows of two relays join the ends a and f. Each link is a network of its own, and no kernel forwards.
///
/// Every node knows one neighbour only, and f cannot be called by a.
const LADDER: &str = r#"
    for node in a b c d e f; do ip netns add $node; ip -n $node link set lo up; done
    join() {
        ip link add name to-$2 netns $1 type veth peer name to-$1 netns $2
        ip -n $1 addr add 198.18.$3.1/24 dev to-$2; ip -n $1 link set dev to-$2 up
        ip -n $2 addr add 198.18.$3.2/24 dev to-$1; ip -n $2 link set dev to-$1 up
    }
    join a b 1; join b c 2; join c f 3; join a d 4; join d e 5; join e f 6
    run() { node=$1; shift; ip netns exec $node $WEFT "$@" --control $node.sock; }
    up() { ip netns exec $1 $WEFT up -c $1.toml 2>>$1.log & eval "$1=$!"; }
    pings() { ip netns exec $1 ping -c1 -W0.2 $2 >/dev/null 2>&1; }
    now() { date +%s%3N; }
"#;

fn done(args: &[&str]) -> String {
    let out = weft(args);
    assert!(out.status.success(), "{args:?}: {}", stderr(&out));
    stdout(&out).trim().to_owned()
}

/// Writes a relay's key, certificate and configuration. Returns its public key.
fn node(dir: &Dir, root: &str, (name, host): (&str, u8), contacts: &[String]) -> String {
    let key = dir.key(&format!("{name}.key"));
    let (ca, cert) = (dir.path("ca"), dir.path(&format!("{name}.cert")));
    let (ca, cert) = (ca.to_str().unwrap(), cert.to_str().unwrap());
    let prefix = format!("10.9.0.{host}/32");
    let claims = ["--name", name, "--public-key", &key, "--prefix", &prefix, "--relay", "--out", cert];
    done(&[&["ca", "sign", "--ca", ca], &claims[..]].concat());
    let contacts: Vec<String> = contacts.iter().map(|contact| format!("{contact:?}")).collect();
    let text = format!(
        "[node]\nkey = \"{name}.key\"\nlisten = 51900\nrelay = true\nstate = \"{name}.state\"\n\
         control = \"{name}.sock\"\n[tun]\naddress = [\"10.9.0.{host}/24\"]\n\
         [network]\nroot = \"{root}\"\ncertificate = \"{name}.cert\"\ncontacts = [{}]\n",
        contacts.join(", ")
    );
    dir.write(&format!("{name}.toml"), &text);
    key
}

/// Writes the files of all nodes. Each later node calls its neighbours toward a.
fn network(dir: &Dir) {
    let root = done(&["ca", "init", "--out", dir.path("ca").to_str().unwrap()]);
    let a = node(dir, &root, ("a", 1), &[]);
    let to = |key: &str, place: &str| format!("{key}@198.18.{place}:51900");
    let b = node(dir, &root, ("b", 2), &[to(&a, "1.1")]);
    let c = node(dir, &root, ("c", 3), &[to(&b, "2.1")]);
    let d = node(dir, &root, ("d", 4), &[to(&a, "4.1")]);
    let e = node(dir, &root, ("e", 5), &[to(&d, "5.1")]);
    node(dir, &root, ("f", 6), &[to(&c, "3.1"), to(&e, "6.1")]);
}

#[test]
fn two_routes_over_two_relays_each_are_found_and_one_replaces_the_other() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    network(&dir);
    let text = format!(
        r#"{LADDER}
        for node in a b c d e f; do up $node; done
        from=$(now); for _ in $(seq 400); do pings a 10.9.0.6 && break; sleep 0.05; done
        echo "== met"; echo $(($(now) - from))
        found() {{ run a sense --matrix | grep -A20 "routes from" | grep -c "^f .*$1"; }}
        for _ in $(seq 300); do [ "$(found "in use")" = 2 ] && break; sleep 0.1; done
        echo "== matrix"; run a sense --matrix
        ip netns exec a ping -c 150 -i 0.02 -W 1 10.9.0.6 >pings.txt & pings=$!
        sleep 1; kill -9 $b; wait $pings
        echo "== alone"; grep received pings.txt
        kill $a $c $d $e $f; wait"#
    );
    let out = script(&dir, &text);
    let logs: String = ["a", "b", "c", "d", "e", "f"]
        .map(|n| std::fs::read_to_string(dir.path(&format!("{n}.log"))).unwrap_or_default())
        .join("\n");
    let text = stdout(&out);
    let all = format!("{text}\n{}\n{logs}", stderr(&out));
    let took_ms: u64 = part(&text, "met").parse().unwrap_or(u64::MAX);
    eprintln!("a ping over two relays was answered {took_ms} ms after the start");
    assert!(took_ms <= 20_000, "{all}");
    let matrix = part(&text, "matrix");
    for over in ["b > c", "d > e"] {
        assert!(matrix.contains(over), "{over}: {all}");
    }
    assert!(matrix.contains("6 members, 6 of them relays"), "{all}");
    let received = part(&text, "alone").split_whitespace().nth(3).and_then(|count| count.parse::<u32>().ok());
    eprintln!("{received:?} of 150 pings, 20 ms apart, were answered while a relay was killed");
    assert!(received.is_some_and(|received| received >= 140), "{all}");
}
