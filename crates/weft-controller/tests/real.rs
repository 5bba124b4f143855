//! A real node follows a controller that it reaches through its own tunnel, in namespaces with a link between them.
//!
//! The test needs a network namespace with a TUN device, and curl. Without them, it says so and passes.

mod common;
#[path = "../../weft-web/tests/common/weft_program.rs"]
mod weft_program;

use base64ct::{Base64, Encoding as _};
use common::Dir;
use serde_json::json;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The nodes, the controller at the hub's inner address, and three configurations one after the other.
const SCRIPT: &str = r#"
    set -eu; export PATH=$PATH:/usr/sbin:/sbin
    mount --make-rprivate / && mount -t tmpfs none /run && mkdir -p /run/netns && ip link set lo up
    cd "$1"; weft=$2 controller=$3
    for node in home hub; do ip netns add $node; ip -n $node link set lo up; done
    ip link add lan netns home type veth peer name lan netns hub
    ip -n home addr add 192.0.2.1/28 dev lan; ip -n home link set lan up
    ip -n hub addr add 192.0.2.2/28 dev lan; ip -n hub link set lan up
    for node in home hub; do ip netns exec $node $weft up -c $node.toml 2>$node.log & done
    reach() { ip netns exec home ping -c 1 -W 1 10.9.0.2 >/dev/null; }
    until reach; do sleep 0.1; done
    ip netns exec hub $controller serve --listen 10.9.0.2:8443 --dir served --certificate hub.pem --key hub.tls >address &
    until [ -s address ]; do sleep 0.1; done
    ask() { # METHOD PATH CONDITION [FILE]
        ip netns exec hub curl -sSf -m 10 --cacert hub.pem -X "$1" -H "Authorization: Bearer $(cat served/admin.token)" -H "$3" \
            ${4:+--data-binary "@$4"} "https://10.9.0.2:8443$2"
    }
    follow() { ip netns exec home $controller follow --once --trial 10s --dir member -c home.toml --control home.sock 2>&1; }
    ask PUT /v1/nodes/home 'If-None-Match: *' node.json >/dev/null
    ask PUT /v1/nodes/home/configuration 'If-None-Match: *' first.json
    code=$(ask POST /v1/invitations 'X: y' invitation.json | sed 's/.*"code":"\([^"]*\)".*/\1/')
    echo "$code" | ip netns exec home $controller join https://10.9.0.2:8443 --ca hub.pem --key home.key --dir member
    follow; sed 's/^/first: /' home.toml | head -1
    revision=$(ip netns exec hub curl -sS -m 10 --cacert hub.pem -H "Authorization: Bearer $(cat served/admin.token)" -o /dev/null -D - \
        https://10.9.0.2:8443/v1/nodes/home/configuration | sed -n 's/^etag: \(.*\)\r/\1/p')
    ask PUT /v1/nodes/home/configuration "If-Match: $revision" second.json
    follow || echo "second: not in effect"
    sed 's/^/second: /' home.toml | head -1
    until reach; do sleep 0.1; done
    echo "the hub is in reach"
"#;

fn pem(kind: &str, bytes: &[u8]) -> String {
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", Base64::encode_string(bytes))
}

#[test]
fn a_configuration_that_cuts_the_way_to_the_controller_is_undone() {
    let tun = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    let flags = if fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) { "-nm" } else { "-nmUr" };
    let namespace = Command::new("unshare").args([flags, "true"]).status();
    let curl = Command::new("curl").arg("--version").output();
    if tun.is_err() || curl.is_err() || !namespace.as_ref().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no curl, or no network namespace with a TUN device here ({tun:?}, {namespace:?})");
        return;
    }
    let dir = Dir::new();
    let weft = weft_program::built_beside(Path::new(env!("CARGO_BIN_EXE_weft-controller"))).expect("weft is built");
    let key = |name: &str| {
        let made =
            Command::new(&weft).args(["keygen", "--out"]).arg(dir.path(&format!("{name}.key"))).output().unwrap();
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    };
    let (home, hub) = (key("home"), key("hub"));
    let text = |name: &str, own: u8, peer: &str, key: &str, other: u8, rest: &str| {
        format!(
            "# by hand\n[node]\nkey = \"{name}.key\"\nlisten = 51900\nstate = \"{name}.state\"\ncontrol = \"{name}.sock\"\n\
             [tun]\naddress = [\"10.9.0.{own}/32\"]\n[[peer]]\nname = \"{peer}\"\npublic-key = \"{key}\"\n\
             prefixes = [\"10.9.0.{other}/32\"]\n{rest}\n"
        )
    };
    let of_home = |other| text("home", 1, "hub", &hub, other, "endpoints = [\"192.0.2.2:51900\"]");
    fs::write(dir.path("home.toml"), of_home(2)).unwrap();
    fs::write(dir.path("hub.toml"), text("hub", 2, "home", &home, 1, "")).unwrap();
    let write = |name: &str, value: serde_json::Value| fs::write(dir.path(name), value.to_string()).unwrap();
    write("node.json", json!({ "addresses": ["10.9.0.1/32"] }));
    write("invitation.json", json!({ "node": "home", "minutes": 5 }));
    write("first.json", json!({ "toml": of_home(2).replace("by hand", "by the controller") }));
    // With this configuration, the hub's address is no longer behind the hub, so the controller is unreachable.
    write("second.json", json!({ "toml": of_home(3).replace("by hand", "by mistake") }));
    let made = rcgen::generate_simple_self_signed(["10.9.0.2".to_owned()]).unwrap();
    fs::write(dir.path("hub.pem"), pem("CERTIFICATE", made.cert.der())).unwrap();
    fs::write(dir.path("hub.tls"), pem("PRIVATE KEY", &made.signing_key.serialize_der())).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", flags, "timeout", "--kill-after=5", "120"]);
    command.args(["bash", "-c", SCRIPT, "bash"]).arg(&dir.0).arg(&weft).arg(env!("CARGO_BIN_EXE_weft-controller"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let logs = ["home.log", "hub.log"].map(|name| fs::read_to_string(dir.path(name)).unwrap_or_default());
    for expected in [
        "this machine is node home now",
        "is in effect",
        "first: # by the controller",
        "was undone, because",
        "second: not in effect",
        "second: # by the controller",
        "the hub is in reach",
    ] {
        assert!(said.contains(expected), "no `{expected}` in {said}\n{}", logs.join("\n"));
    }
}
