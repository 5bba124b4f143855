//! Rules of access on a kernel: real connections, the log, and a change while the node runs.

use crate::common::has_tun;
use crate::common::{Dir, TWO_NODES, part, script, stderr, stdout, two_nodes, weft};

/// Programs of the hub that listen, and a client: `reach PORT` prints what a TCP port answers, or `nothing`.
const SERVERS: &str = r#"
    serve() { ip netns exec hub python3 -c "
import socket, sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), family=socket.AF_INET)
while True:
    client, _ = listener.accept()
    client.sendall(b'port ' + sys.argv[2].encode() + b'\n')
    client.close()" 10.9.0.2 $1 & servers="$servers $!"; }
    reach() { ip netns exec home timeout 20 python3 -c "
import socket, sys
try:
    print(socket.create_connection(('10.9.0.2', int(sys.argv[1])), 1).recv(100).decode().strip())
except OSError:
    print('nothing')" $1; }
    servers=
"#;

#[test]
fn only_allowed_connections_reach_the_hub_and_the_log_lists_the_others() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    two_nodes(&dir, None);
    let hub = std::fs::read_to_string(dir.path("hub.toml")).unwrap();
    let rules =
        "groups = [\"staff\"]\n[[allow]]\nname = \"web\"\nfrom = \"group:staff\"\nprotocol = \"tcp\"\nports = \"80\"\n";
    dir.write("hub.toml", &(hub.clone() + rules));
    dir.write("wider.toml", &(hub + rules + "[[allow]]\nfrom = \"node:home\"\nprotocol = \"tcp\"\nports = \"81\"\n"));
    let commands = r#"
        up hub; up home; settled; serve 80; serve 81
        for _ in $(seq 50); do [ "$(reach 80)" = "port 80" ] && break; sleep 0.1; done
        echo "== allowed"; reach 80
        echo "== denied"; reach 81; ip netns exec home ping -c 1 -W 1 10.9.0.2 >/dev/null && echo "ping passed"
        echo "== answers"; ip netns exec hub ping -c 1 -W 2 10.9.0.1 >/dev/null && echo "ping passed"
        logged hub "no \[\[allow\]\] rule matches"; echo "== log"; grep "dropped a packet" hub.log
        echo "== counters"; run hub acl; run hub acl --json | tail -c 400
        cp wider.toml hub.toml; run hub reload
        echo "== wider"; reach 81
        sed -i '/^\[\[allow/,$d' hub.toml; run hub reload; echo "== without"; run hub acl
        ip netns exec home ping -c 1 -W 2 10.9.0.2 >/dev/null && echo "ping passed"
        kill $servers $home $hub; wait
    "#;
    let out = script(&dir, &[TWO_NODES, SERVERS, commands].concat());
    let (text, log) = (stdout(&out), stderr(&out));
    assert_eq!(part(&text, "allowed"), "port 80", "{text}\n{log}");
    assert_eq!(part(&text, "denied"), "nothing", "{text}\n{log}");
    assert_eq!(part(&text, "answers"), "ping passed", "{text}\n{log}");
    let said = part(&text, "log");
    assert!(
        said.contains("peer home: the [[allow]] rules dropped a packet of the flow tcp 10.9.0.1:")
            && said.contains("10.9.0.2:81"),
        "{text}\n{log}"
    );
    assert!(part(&text, "counters").contains("1 rule;") && text.contains("\"denied_packets\":"), "{text}\n{log}");
    assert_eq!(part(&text, "wider"), "port 81", "{text}\n{log}");
    let without = part(&text, "without");
    assert!(
        without.contains("every flow of every peer may enter") && without.ends_with("ping passed"),
        "{text}\n{log}"
    );
}

#[test]
fn a_certificate_states_groups() {
    let dir = Dir::new();
    let at = |name: &str| dir.path(name).to_str().unwrap().to_owned();
    let (ca, cert, key) = (at("ca"), at("home.cert"), dir.key("home.key"));
    assert!(weft(&["ca", "init", "--out", &ca]).status.success());
    let sign = |groups: &[&str], out: &str| {
        let groups: Vec<&str> = groups.iter().flat_map(|group| ["--group", group]).collect();
        weft(
            &[&["ca", "sign", "--ca", &ca, "--name", "home", "--public-key", &key, "--out", out], &groups[..]].concat(),
        )
    };
    let signed = sign(&["staff", "admins", "staff"], &cert);
    assert!(signed.status.success(), "{}", stderr(&signed));
    let shown = stdout(&weft(&["ca", "show", &cert]));
    assert!(shown.contains("groups admins staff\n"), "{shown}");
    let renewed = at("renewed.cert");
    assert!(weft(&["ca", "renew", "--ca", &ca, "--name", "home", "--out", &renewed]).status.success());
    assert!(stdout(&weft(&["ca", "show", &renewed, "--json"])).contains("\"groups\":[\"admins\",\"staff\"]"));
    for bad in ["two words", "", "a-name-of-more-than-thirty-one-bytes"] {
        let refused = sign(&[bad], &at("bad.cert"));
        assert_eq!(refused.status.code(), Some(2), "{bad}");
        assert!(stderr(&refused).contains("the name of a group must have 1 to 31 bytes"), "{}", stderr(&refused));
    }
    let nine: Vec<String> = (0..9).map(|n| n.to_string()).collect();
    let nine: Vec<&str> = nine.iter().map(String::as_str).collect();
    assert_eq!(sign(&nine, &at("bad.cert")).status.code(), Some(2));
}
