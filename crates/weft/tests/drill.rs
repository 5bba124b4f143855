//! Drills and explanations on a real kernel: two nodes with two links between them.

mod common;

use common::{Dir, has_tun, part, script, stderr, stdout};

/// Two namespaces a and b, joined by link0 and link1.
const PAIR: &str = r#"
    ip netns add a; ip netns add b
    for n in 0 1; do
        ip link add link$n netns a type veth peer name link$n netns b
        ip -n a addr add 192.0.2.$((n * 16 + 1))/28 dev link$n; ip -n a link set link$n up
        ip -n b addr add 192.0.2.$((n * 16 + 2))/28 dev link$n; ip -n b link set link$n up
    done
    run() { node=$1; shift; ip netns exec $node $WEFT "$@" --control $node.sock; }
    for node in a b; do ip netns exec $node $WEFT up -c $node.toml 2>$node.log & eval "$node=$!"; done
    for _ in $(seq 100); do [ "$(run a paths 2>/dev/null | grep -c " good ")" -ge 2 ] && break; sleep 0.1; done
"#;

fn pair(dir: &Dir) {
    let (a, b) = (dir.key("a.key"), dir.key("b.key"));
    for (name, host, peer, key, other, endpoints) in
        [("a", 1, "b", &b, 2, "endpoints = [\"192.0.2.2:51900\", \"192.0.2.18:51900\"]"), ("b", 2, "a", &a, 1, "")]
    {
        let text = format!(
            "[node]\nkey = \"{name}.key\"\nlisten = 51900\nstate = \"{name}.state\"\ncontrol = \"{name}.sock\"\n\
             [tun]\naddress = [\"10.9.0.{host}/24\"]\n\
             [[peer]]\nname = \"{peer}\"\npublic-key = \"{key}\"\nprefixes = [\"10.9.0.{other}/32\"]\n{endpoints}\n"
        );
        dir.write(&format!("{name}.toml"), &text);
    }
}

#[test]
fn a_drill_cuts_a_link_safely_and_reports_the_effect_on_traffic() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    pair(&dir);
    let text = format!(
        r#"{PAIR}
        echo "== explained"; run a explain 10.9.0.1:5000 10.9.0.2:53 udp
        echo "== stranger"; run a explain 10.8.0.1 2>&1; echo "exit $?"
        ip netns exec a ping -i 0.01 -c 400 10.9.0.2 > ping.log & ping=$!
        echo "== drill"; run a drill link link0 --for 1s; echo "exit $?"
        wait $ping; echo "== ping"; tail -2 ping.log
        for _ in $(seq 100); do [ "$(run a paths | grep -c " good ")" -ge 2 ] && break; sleep 0.1; done
        echo "== json"; run a drill node b --for 200ms --force --json; echo
        echo "== refused"; run a drill node b --for 1s 2>&1; echo "exit $?"
        run a drill link eth9 2>&1; run a drill link link0 --for 6m 2>&1
        kill $a $b; wait"#
    );
    let out = script(&dir, &text);
    let text = stdout(&out);
    let all = format!("{text}\n{}", stderr(&out));
    let explained = part(&text, "explained");
    assert!(explained.contains("10.9.0.2/32") && explained.contains("link0"), "{all}");
    assert!(part(&text, "stranger").contains("exit 1"), "{all}");
    let drill = part(&text, "drill");
    assert!(drill.contains("link0 was cut for 1 s") && drill.contains("exit 0"), "{all}");
    assert!(drill.contains("detected after") && drill.contains("cut"), "{all}");
    let received = part(&text, "ping").split(',').find_map(|part| part.trim().strip_suffix(" received"));
    let received: u32 = received.and_then(|count| count.parse().ok()).unwrap_or(0);
    assert!(received >= 380, "traffic went on by the other link: {all}");
    let json: serde_json::Value = serde_json::from_str(part(&text, "json")).unwrap_or_default();
    assert_eq!(json["phase"], "over", "{all}");
    let refused = part(&text, "refused");
    assert!(refused.contains("--force") && refused.contains("exit 1"), "{all}");
    assert!(refused.contains("no link `eth9`") || refused.contains("eth9"), "{all}");
    assert!(refused.contains("a drill must last between 1 ms and 300 s"), "{all}");
    println!("{text}");
}
