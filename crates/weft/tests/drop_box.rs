//! Property: a text stored in the network outlives the nodes that stored it.
//!
//! The program is `examples/drop_box.rs`, on the overlay and a real kernel.

mod common;
#[path = "../examples/drop_box.rs"]
mod drop_box;

use common::{Dir, has_tun, script, stderr, stdout, weft};
use std::env;

const NODES: u8 = 7;

/// Not a test: the program that the other test starts in a namespace.
#[test]
fn a_program() {
    if let Ok(args) = env::var("WEFT_DROP_BOX") {
        let args: Vec<&str> = args.split_whitespace().collect();
        println!("said {:?}", drop_box::run(&args));
    }
}

/// Writes a node's key, certificate and configuration. Returns its public key.
fn node(dir: &Dir, root: &str, host: u8, contacts: &str) -> String {
    let (name, key) = (format!("n{host}"), dir.key(&format!("n{host}.key")));
    let (ca, cert) = (dir.path("ca"), dir.path(&format!("{name}.cert")));
    let prefix = format!("10.9.0.{host}/32");
    let sign = ["ca", "sign", "--ca", ca.to_str().unwrap(), "--name", &name, "--public-key", &key];
    let out = weft(&[&sign[..], &["--prefix", &prefix, "--out", cert.to_str().unwrap()]].concat());
    assert!(out.status.success(), "{}", stderr(&out));
    let text = format!(
        "[node]\nkey = \"{name}.key\"\nlisten = 51900\nstate = \"{name}.state\"\ncontrol = \"{name}.sock\"\n\
         [tun]\naddress = [\"10.9.0.{host}/24\"]\n\
         [network]\nroot = \"{root}\"\ncertificate = \"{name}.cert\"\n{contacts}"
    );
    dir.write(&format!("{name}.toml"), &text);
    key
}

#[test]
fn a_stored_text_outlives_the_nodes_that_store_it() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    let out = weft(&["ca", "init", "--out", dir.path("ca").to_str().unwrap()]);
    let root = stdout(&out).trim().to_owned();
    let first = node(&dir, &root, 1, "");
    for host in 2..=NODES {
        node(&dir, &root, host, &format!("contacts = [\"{first}@192.0.2.1:51900\"]\n"));
    }
    let program = env::current_exe().unwrap();
    let text = format!(
        r#"PROGRAM={}
        ip netns add s; ip -n s link add br0 type bridge; ip -n s link set br0 up
        for n in $(seq {NODES}); do
            ip netns add n$n; ip link add eth0 netns n$n type veth peer name n$n netns s
            ip -n s link set dev n$n master br0 up
            ip -n n$n addr add 192.0.2.$n/24 dev eth0; ip -n n$n link set lo up; ip -n n$n link set eth0 up
            ip netns exec n$n $WEFT up -c n$n.toml 2>n$n.log & eval "n$n=$!"
        done
        box() {{ n=$1; shift; WEFT_DROP_BOX="n$n.sock $*" ip netns exec n$n $PROGRAM --exact a_program --nocapture; }}
        all() {{ [ "$(ip netns exec n$1 $WEFT status --control n$1.sock 2>/dev/null | grep -c "member, leaf")" = $2 ]; }}
        for n in $(seq {NODES}); do for _ in $(seq 100); do all $n 6 && break; sleep 0.1; done; done
        for n in $(seq {NODES}); do box $n serve >/dev/null 2>&1 & done
        sleep 0.5
        echo "== put"; for thing in 1 2 3 4 5; do
            for _ in $(seq 10); do box 1 put thing$thing text-$thing | grep "kept by 3" && break; sleep 0.5; done
        done
        # The nodes have just met, so they may not yet agree on the root of a key. The next round of storing mends that.
        echo "== get"; for thing in 1 2 3 4 5; do
            for _ in $(seq 14); do box 6 get thing$thing | grep "text-" && break; sleep 0.5; done
        done
        for n in 2 3 4; do
            eval kill -9 \$n$n; sleep 7
            echo "== after n$n"; for thing in 1 2 3 4 5; do box 6 get thing$thing; done
        done
        echo "== nothing"; box 6 get other
        kill $n1 $n5 $n6 $n7"#,
        program.display()
    );
    let out = script(&dir, &text);
    let text = stdout(&out);
    let all = format!("{text}\n{}", stderr(&out));
    let part = |name: &str| text.split("== ").find_map(|part| part.strip_prefix(name)).unwrap_or_default();
    assert_eq!(text.matches("kept by 3 nodes").count(), 5, "{all}");
    for when in ["get", "after n2", "after n3", "after n4"] {
        for thing in 1..=5 {
            assert!(part(when).contains(&format!("text-{thing}\n")), "thing {thing} {when}: {all}");
        }
    }
    assert!(!part("nothing").contains("text-"), "{all}");
}
