//! A hub and a site on one network segment with this process, so that the hub has one socket for both.

use super::inside::{self, Daemon, run, wait_for};
use super::{Dir, chmod};
use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;
use weft_session::Identity;

/// Address at which the hub listens.
pub const HUB: &str = "192.0.2.34:51900";
/// Address of this process on the segment, with any port.
pub const HERE: &str = "192.0.2.33:0";
/// Topology: the site has an access link of 40 Mbit/s.
const TOPOLOGY: &str = "set -eu
    ip link add br0 type bridge; ip addr add 192.0.2.33/28 dev br0; ip link set br0 up
    for node in home hub; do
        ip netns add $node; ip -n $node link set lo up
        ip link add to-$node type veth peer name link1 netns $node
        ip link set to-$node master br0 up
    done
    ip -n home addr add 192.0.2.35/28 dev link1; ip -n home link set link1 up
    ip -n hub addr add 192.0.2.34/28 dev link1; ip -n hub link set link1 up
    tc -n home qdisc add dev link1 root tbf rate 40mbit burst 32k latency 40ms";

/// Names of the nodes by number: the site, the hub, and a third one that this process may play.
const NAMES: [&str; 3] = ["home", "hub", "third"];
pub const HOME: usize = 0;
pub const CENTRE: usize = 1;
pub const THIRD: usize = 2;

pub fn identity(node: usize) -> Identity {
    Identity::from_secret([node as u8 + 1; 32])
}

/// Returns a node's address in the tunnel.
pub fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, node as u8 + 1)
}

/// The two running nodes.
pub struct Segment {
    pub dir: Dir,
    pub hub: Daemon,
    pub home: Daemon,
}

impl Segment {
    /// Creates the segment and starts the nodes. Returns when the tunnel carries packets.
    pub fn start() -> Segment {
        assert!(run(Command::new("bash").args(["-c", TOPOLOGY])), "no namespaces");
        let dir = Dir::new();
        configure(&dir, HOME, "", &peer(CENTRE, &format!("endpoints = [\"{HUB}\"]\n")));
        configure(&dir, CENTRE, "listen = 51900\nrelay = true\n", &(peer(HOME, "") + &peer(THIRD, "")));
        let hub = Daemon::start(&dir, "hub");
        wait_for("hub", &dir, || dir.path("hub.sock").exists());
        let home = Daemon::start(&dir, "home");
        let to_hub = address(CENTRE).to_string();
        let ping = || run(Command::new("ip").args(["netns", "exec", "home", "ping", "-q", "-c1", "-W1", &to_hub]));
        wait_for("way through the tunnel", &dir, ping);
        Segment { dir, hub, home }
    }

    /// Returns the hub's status of the peer of this name.
    pub fn seen_by_hub(&self, name: &str) -> serde_json::Value {
        let status = inside::status(&self.dir, "hub");
        status["peers"].as_array().unwrap().iter().find(|peer| peer["name"] == name).unwrap().clone()
    }

    pub fn hub_log(&self) -> String {
        fs::read_to_string(self.dir.path("hub.log")).unwrap()
    }
}

fn peer(node: usize, more: &str) -> String {
    let (name, key, address) = (NAMES[node], identity(node).public_key(), address(node));
    format!("[[peer]]\nname = \"{name}\"\npublic-key = \"{key}\"\nprefixes = [\"{address}/32\"]\n{more}")
}

fn configure(dir: &Dir, node: usize, more: &str, peers: &str) {
    let name = NAMES[node];
    let key = dir.write(&format!("{name}.key"), &format!("{}\n", identity(node).secret_to_base64()));
    chmod(&key, 0o600);
    let path = |suffix: &str| dir.path(&format!("{name}.{suffix}")).display().to_string();
    let text = format!(
        "[node]\nkey = \"{}\"\nstate = \"{}\"\ncontrol = \"{}\"\n{more}[tun]\naddress = [\"{}/24\"]\n{peers}",
        path("key"),
        path("state"),
        path("sock"),
        address(node),
    );
    dir.write(&format!("{name}.toml"), &text);
}
