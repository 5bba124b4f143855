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
    refused_in(GOOD, from, to, culprit, expected);
}

/// As [`refused_at`], for the network in `correct`.
fn refused_in(correct: &str, from: &str, to: &str, culprit: &str, expected: &str) {
    assert!(correct.contains(from), "{from}");
    let text = correct.replacen(from, to, 1);
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
        (via, "via = [\"router\"]", "\"router\"]\n\n[[tunnel]]", "`router` needs `relay = true`"),
        (
            via,
            "via = [\"relay*\"]",
            "\"relay*\"]\n\n[[tunnel]]",
            "expected one node, but the pattern `relay*` matches 2",
        ),
        (via, "via = [\"relay0 > relay1 > relay0\"]", "\"relay0 > relay1 >", "contains the relay `relay0` twice"),
        (via, "via = []", "[]", "a tunnel needs routes over relays: via = [\"NAME\", \"NAME > NAME\"]"),
        (via, "via = \"relay0\"", "\"relay0\"\n\n[[tunnel]]", "expected a sequence"),
        (via, "over = [\"relay0\"]", "over =", "unknown setting `over`"),
        ("via = [\"relay1\"]", "via = [\"relay0 > \"]", "\"relay0 > \"", "there is no node ``"),
        ("[\"a\", \"relay*\"]\nvia", "[\"a\", \"router\"]\nvia", "[\"a\", \"router\"]", "`router` needs `weft = true`"),
        (
            "[\"a\", \"relay*\"]\nvia",
            "[\"a\", \"relay1\"]\nvia",
            "\"relay1\"]\n\n[[flow]]",
            "contains an end of its tunnel",
        ),
        ("[\"a\", \"relay*\"]\nvia", "[\"a\", \"a\"]\nvia", "\"a\"]\nvia", "both ends are node `a`"),
        ("relay = true", "relays = true", "relays =", "did you mean `relay`?"),
    ] {
        refused_at(from, to, culprit, expected);
    }
}

#[test]
fn settings_that_an_overlay_cannot_carry_are_refused_at_their_place() {
    let asks = "tcp = { congestion = \"explicit-rate\" }\noverlay = true";
    for (from, to, expected) in [
        ("to = \"b\"", "to = \"router\"", "flow `ftp` has an end at node `router`, which has no `weft = true`"),
        ("overlay = true", asks, "flow `ftp` requests its rate from routers"),
    ] {
        refused_at(from, to, "true\n# End", expected);
    }
    refused_at("overlay = true", "overlay = 1", "1\n# End", "expected a boolean");
}

/// Two hosts behind two nodes with weft and a relay between them.
const CLIENTS: &str = r#"name = "clients"
duration = "20 s"

[[node]]
name = "host"
count = 2

[[node]]
name = "left"
weft = true

[[node]]
name = "right"
weft = true

[[node]]
name = "relay"
relay = true

[[node]]
name = "src"
openvpn = "left"

[[node]]
name = "dst"
openvpn = "right"

[[link]]
name = "lan"
between = ["src", "left"]
rate = "10 Mbit/s"

[[link]]
name = "line"
between = ["left", "relay"]
rate = "10 Mbit/s"

[[link]]
name = "line2"
between = ["relay", "right"]
rate = "10 Mbit/s"

[[link]]
between = ["right", "dst"]
rate = "10 Mbit/s"

[[link]]
between = ["host*", "right"]
rate = "10 Mbit/s"

[[tunnel]]
name = "by-hand"
between = ["left", "right"]
via = ["relay"]

[[flow]]
app = "ftp"
from = "src"
to = "dst"
proxies = ["left", "right"]

[grid]
links = "line*"
window = [45, 724]
loss = ["0 %", "5 %"]

[[variant]]
name = "static"

[[variant]]
name = "found"
overlay = true
discover = true
proxy = { congestion = "explicit-rate" }
# End.
"#;

#[test]
fn clients_enter_at_their_gateways_and_a_grid_changes_links_and_windows() {
    let network = NetworkScenario::parse(CLIENTS, "clients.toml").unwrap_or_else(|e| panic!("{e}"));
    let [src, left, dst, right] = ["src", "left", "dst", "right"].map(|name| network.node(name).unwrap());
    assert_eq!([src, left, dst].map(|node| network.overlay.entry_of(node)), [Some(left), Some(left), Some(right)]);
    assert_eq!(network.overlay.entry_of(network.node("host0").unwrap()), None);
    let found = network.variant("found").unwrap();
    let used = found.overlay.as_ref().unwrap();
    assert!(used.discovers && network.overlay.tunnels_of(used).next().is_none());
    assert_eq!(found.proxy_tcp_of(&network.flows[0]).unwrap().0, [left, right]);
    let cells = network.cells();
    let names: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
    let expected = ["45 segments 0 %", "45 segments 5 %", "724 segments 0 %", "724 segments 5 %"];
    assert_eq!(names, expected.map(|name| format!("clients {name}")));
    let loss = |cell: usize, link: &str| cells[cell].link(link).unwrap().down.loss;
    assert_eq!((loss(3, "line"), loss(3, "line2"), loss(3, "lan")), (0.05, 0.05, 0.0));
    assert_eq!((cells[0].flows[0].tcp.window_segments, cells[2].flows[0].tcp.window_segments), (45, 724));
}

#[test]
fn a_lost_gateway_takes_its_clients_along() {
    let mut network = NetworkScenario::parse(CLIENTS, "clients.toml").unwrap();
    network.remove_nodes("left");
    let [client] = &network.overlay.clients[..] else { panic!("{:?}", network.overlay) };
    assert_eq!([client.node, client.gateway].map(|node| network.nodes[node].as_str()), ["dst", "right"]);
    assert_eq!(network.links[client.link].name, "right-dst");
}

#[test]
fn what_a_client_cannot_be_is_refused_at_its_place() {
    let (left, overlay) = ("openvpn = \"left\"", "overlay = true\ndiscover");
    for (from, to, culprit, expected) in [
        (left, "openvpn = \"lef\"", "\"lef\"", "there is no node `lef`: did you mean `left`?"),
        (left, "openvpn = \"host0\"", "\"host0\"", "`host0` needs `weft = true`"),
        (left, "openvpn = \"relay\"", "\"relay\"\n\n[[node]]\nname = \"dst\"", "client `src` and its gateway `relay`"),
        (left, "weft = true\nopenvpn = \"left\"", "\"left\"\n\n[[node]]\nname = \"dst\"", "`src` runs weft"),
        (
            left,
            "",
            "true\ndiscover",
            "flow `ftp` has an end at node `src`, which has no `weft = true` and no `openvpn`",
        ),
        ("to = \"dst\"", "to = \"left\"", "true\ndiscover", "both its ends are at or behind node `left`"),
        (
            "[\"left\", \"right\"]\n\n[grid]",
            "[\"left\", \"relay\"]\n\n[grid]",
            "true\ndiscover",
            "must be `left` and `right`",
        ),
        ("to = \"dst\"", "to = \"right\"", "true\ndiscover", "ends of the flow must be hosts with `openvpn`"),
        (overlay, "discover", "true\nproxy", "use this only in variants with `overlay = true`"),
        (overlay, "overlay = true\ntunnels = [\"by-hand\"]\ndiscover", "[\"by-hand\"]", "leave `tunnels` out"),
        ("\"line*\"\nwindow", "\"lime*\"\nwindow", "\"lime*\"", "no link matches the pattern `lime*`"),
        ("window = [45, 724]", "window = [0]", "0]\nloss", "expected a nonzero"),
        ("window = [45, 724]", "size = [\"1 kB\"]", "size", "unknown setting `size`"),
    ] {
        refused_in(CLIENTS, from, to, culprit, expected);
    }
}
