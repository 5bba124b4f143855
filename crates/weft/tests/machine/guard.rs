//! `weft guard`: the kill switch from boot on, before an interface has an address and before the node runs.

use crate::common::{Dir, TWO_NODES, has_tun, is_root, part, script, stderr, stdout, two_nodes};

#[test]
fn nothing_leaves_before_the_node_runs_and_the_node_takes_the_switch_over() {
    if !has_tun() || !is_root() {
        eprintln!("skipped: this takes root and a TUN device");
        return;
    }
    let dir = Dir::new();
    two_nodes(&dir, None);
    let plain = std::fs::read_to_string(dir.path("home.toml")).unwrap();
    let plain = plain.replace("prefixes = [\"10.9.0.2/32\"]", "prefixes = [\"0.0.0.0/0\", \"::/0\"]");
    dir.write("plain.toml", &plain);
    dir.write("home.toml", &(plain + "[out]\nkill-switch = true\ndns = [\"10.9.0.2\"]\n"));
    let commands = r#"
        guard() { ip netns exec home $WEFT guard -c $1.toml; }
        has() { ip netns exec home nft list table inet weft_kill_weft0 >/dev/null 2>&1 && echo set || echo "not set"; }
        far() { ip netns exec home ping -c1 -W1 ${1:-} 198.51.100.9 >/dev/null 2>&1 && echo passes || echo rejected; }
        ip -n hub link set lo up; ip -n hub addr add 198.51.100.9/32 dev lo
        for i in 1 2; do ip -n home addr flush dev link$i; ip -n home link set link$i down; done
        echo "== plain"; guard plain; has
        echo "== boot"; guard home; guard home; has
        for i in 1 2; do ip -n home link set link$i up; ip -n home addr add 192.0.2.$((i * 16 + 1))/28 dev link$i; done
        ip -n home route add default via 192.0.2.18
        echo "== before"; far
        up hub; up home; logged home "session established"; settled
        echo "== beside"; far "-I link1"; run home status | grep -o "kill switch on"
        kill -9 $home; wait $home; echo "== after"; far
        echo "== lifted"; run home down; has; far
        echo "== again"; guard home; far; run home down; has
        kill $hub; wait
    "#;
    let out = script(&dir, &[TWO_NODES, commands].concat());
    let (text, log) = (stdout(&out), stderr(&out));
    for (name, expected) in [
        ("plain", "no kill switch is configured\nnot set"),
        ("boot", "kill switch set; weft down lifts it\nkill switch set; weft down lifts it\nset"),
        ("before", "rejected"),
        ("beside", "rejected\nkill switch on"),
        ("after", "rejected"),
        ("lifted", "no node is running; its kill switch is lifted\nnot set\npasses"),
        (
            "again",
            "kill switch set; weft down lifts it\nrejected\nno node is running; its kill switch is lifted\nnot set",
        ),
    ] {
        assert_eq!(part(&text, name), expected, "{name}\n{text}\n{log}");
    }
}
