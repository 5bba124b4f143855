//! Property: `weft explain` decides about a flow as the running node does, at the node where the rules are.

use crate::common::{on_two_nodes, part, stderr, stdout};

#[test]
fn a_denied_flow_is_explained_where_it_is_denied() {
    let commands = r#"
        printf '%s\n' '[[allow]]' 'name = "web"' 'from = "node:home"' 'protocol = "tcp"' 'ports = "80"' >>hub.toml
        up hub; up home; settled
        explain() { name=$1; node=$2; shift 2; echo "== $name"; run $node explain "$@" 2>&1; echo "status $?"; }
        explain allowed hub 10.9.0.1 10.9.0.2:80 tcp
        explain denied hub home 10.9.0.2:81 tcp
        explain stranger hub 10.9.0.99 10.9.0.2:80 tcp
        explain vague hub 10.9.0.2:80 tcp
        explain away home 10.9.0.1:4000 10.9.0.2:81 tcp
        ip netns exec home timeout 5 bash -c 'echo >/dev/tcp/10.9.0.2/81' 2>/dev/null &
        logged hub "no \[\[allow\]\] rule matches"
        explain dropped hub 10.9.0.1 10.9.0.2:81 tcp
        explain other hub 10.9.0.1 10.9.0.2:82 tcp
        echo "== json"; run hub explain 10.9.0.1 10.9.0.2:81 tcp --json
        sed -i '/^\[\[allow/,$d' hub.toml; run hub reload
        explain free hub 10.9.0.1 10.9.0.2:81 tcp
        kill $home $hub; wait
    "#;
    let Some((_dir, out)) = on_two_nodes(commands) else { return };
    let text = stdout(&out);
    let told = format!("{text}\n{}", stderr(&out));
    let said = |name: &str| part(&text, name).to_owned();
    let allowed = "access  flow from home to this node: allowed by the [[allow]] rule web\nstatus 0";
    assert_eq!(said("allowed"), allowed, "{told}");
    let denied = said("denied");
    let start = "access  flow from home to this node: denied: the only [[allow]] rule of this node does not";
    assert!(denied.starts_with(start), "{told}");
    assert!(denied.ends_with("status 1") && !denied.contains("dropped"), "{told}");
    assert!(said("stranger").contains("no peer has this source") && said("stranger").ends_with("status 1"), "{told}");
    assert!(said("vague").contains("depends on source, protocol and port"), "{told}");
    let away = said("away");
    assert!(away.contains("route   VPN default, prefix 10.9.0.2/32 → peer hub"), "{told}");
    let ask = "access  the flow leaves unchecked by this node: hub decides by its own rules; to see how, run on hub: \
               weft explain 10.9.0.1:4000 10.9.0.2:81 tcp";
    assert!(away.replace("\n        ", " ").contains(ask) && away.ends_with("status 0"), "{told}");
    let dropped = said("dropped");
    assert!(
        dropped.contains(" packets, counted over all flows that no rule allows; the last one was of this flow"),
        "{told}"
    );
    assert!(said("other").contains("that no rule allows\nstatus 1"), "{told}");
    let json: serde_json::Value = serde_json::from_str(&said("json")).unwrap_or_else(|why| panic!("{why}: {told}"));
    assert_eq!((&json["way"], &json["decision"]), (&"entering".into(), &"denied".into()), "{json}");
    assert!(json["denied_packets"].as_u64() > Some(0) && json["denied_last"] == true, "{json}");
    assert_eq!(
        said("free"),
        "access  flow from home to this node: allowed: this node has no [[allow]] rules\nstatus 0",
        "{told}"
    );
}
