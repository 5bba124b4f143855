//! Tests that the parser accepts correct overlays and rejects wrong ones with a helpful error.

use weft_scenario::{NetworkScenario, OverlayNode, ScenarioError, TunnelSpec};

const GOOD: &str = r#"name = "three"
duration = "20 s"

[[node]]
name = "a"
weft = true

[[node]]
name = "b"
weft = true

[[node]]
name = "relay"
count = 2
relay = true

[[node]]
name = "router"

[[link]]
between = ["a", "relay*"]
rate = "10 Mbit/s"

[[link]]
between = ["b", "relay*"]
rate = "10 Mbit/s"

[[link]]
between = ["relay0", "relay1"]
rate = "10 Mbit/s"

[[link]]
between = ["router", "b"]
rate = "10 Mbit/s"

[[tunnel]]
between = ["a", "b"]
via = ["relay0", "relay1 > relay0"]

[[tunnel]]
between = ["a", "relay*"]
via = ["relay1"]

[[flow]]
app = "ftp"
from = "a"
to = "b"

[[variant]]
name = "static"

[[variant]]
name = "weft"
overlay = true
# End.
"#;

fn good() -> NetworkScenario {
    NetworkScenario::parse(GOOD, "three.toml").unwrap_or_else(|e| panic!("{e}"))
}

fn broken(text: &str) -> ScenarioError {
    NetworkScenario::parse(text, "three.toml").err().unwrap_or_else(|| panic!("accepted: {text}"))
}

/// Replaces `from` by `to` in the correct network and checks the error.
///
/// It must point to the first `culprit` in the text, and its message must contain `expected`.
fn refused_at(from: &str, to: &str, culprit: &str, expected: &str) {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    let error = broken(&text);
    assert!(error.message.contains(expected), "{to}: {error}");
    let before = &text[..text.find(culprit).unwrap_or_else(|| panic!("{culprit}"))];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let place = (before.matches('\n').count() + 1, before.len() - line_start + 1);
    assert_eq!((error.line, error.column), place, "{to}: {error}");
}

#[test]
fn relays_and_routes_are_read_and_a_relay_needs_no_route_over_itself() {
    let network = good();
    let has = |node, is_relay| OverlayNode { node, is_relay };
    assert_eq!(network.overlay.nodes, [has(0, false), has(1, false), has(2, true), has(3, true)]);
    let over = |ends, routes: &[&[usize]]| TunnelSpec {
        name: None,
        ends,
        routes: routes.iter().map(|r| r.to_vec()).collect(),
    };
    assert_eq!(network.overlay.tunnels, [over([0, 1], &[&[2], &[3, 2]]), over([0, 2], &[&[3]])]);
    assert_eq!(network.variants.iter().map(|variant| variant.overlay.is_some()).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_pair_that_loses_a_relay_loses_its_routes() {
    let mut network = good();
    network.remove_nodes("relay1");
    assert_eq!(network.nodes, ["a", "b", "relay0", "router"]);
    assert_eq!(network.overlay.tunnels, [TunnelSpec { name: None, ends: [0, 1], routes: vec![vec![2]] }]);
    assert_eq!(network.overlay.nodes.iter().map(|known| known.node).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn a_wrong_tunnel_is_refused_at_its_place() {
    let via = "via = [\"relay0\", \"relay1 > relay0\"]";
    for (from, to, culprit, expected) in [
        (via, "via = [\"relay7\"]", "\"relay7\"", "there is no node `relay7`: did you mean `relay0`?"),
        (via, "via = [\"relay0 > rely1\"]", "\"relay0 > rely1\"", "there is no node `rely1`: did you mean `relay1`?"),
        (via, "via = [\"router\"]", "\"router\"]\n\n[[tunnel]]", "`router` has no `relay = true`"),
        (via, "via = [\"relay*\"]", "\"relay*\"]\n\n[[tunnel]]", "expected one node, but `relay*` matches 2"),
        (via, "via = [\"relay0 > relay1 > relay0\"]", "\"relay0 > relay1 >", "is a loop: it contains `relay0` twice"),
        (via, "via = []", "[]", "a tunnel needs routes over relays: via = [\"NAME\", \"NAME > NAME\"]"),
        (via, "via = \"relay0\"", "\"relay0\"\n\n[[tunnel]]", "expected a sequence"),
        (via, "over = [\"relay0\"]", "over =", "unknown setting `over`"),
        ("via = [\"relay1\"]", "via = [\"relay0 > \"]", "\"relay0 > \"", "there is no node ``"),
        (
            "[\"a\", \"relay*\"]\nvia",
            "[\"a\", \"router\"]\nvia",
            "[\"a\", \"router\"]",
            "`router` has no `weft = true`",
        ),
        (
            "[\"a\", \"relay*\"]\nvia",
            "[\"a\", \"relay1\"]\nvia",
            "\"relay1\"]\n\n[[flow]]",
            "contains an end of its tunnel",
        ),
        ("[\"a\", \"relay*\"]\nvia", "[\"a\", \"a\"]\nvia", "\"a\"]\nvia", "both ends are `a`"),
        ("relay = true", "relays = true", "relays =", "did you mean `relay`?"),
    ] {
        refused_at(from, to, culprit, expected);
    }
}

#[test]
fn settings_that_an_overlay_cannot_carry_are_refused_at_their_place() {
    let asks = "tcp = { congestion = \"explicit-rate\" }\noverlay = true";
    for (from, to, expected) in [
        ("to = \"b\"", "to = \"router\"", "flow `ftp` has an end at `router`, which has no `weft = true`"),
        ("to = \"b\"", "to = \"b\"\nproxies = [\"relay0\", \"relay1\"]", "flow `ftp` has proxies"),
        ("overlay = true", asks, "flow `ftp` requests its rate from routers"),
    ] {
        refused_at(from, to, "true\n# End", expected);
    }
    refused_at("overlay = true", "overlay = 1", "1\n# End", "expected a boolean");
}
