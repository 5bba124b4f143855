//! `home` and `hub` with up to two links between them, on which UDP can be dropped.

use crate::common::inside::{Daemon, run, status, wait_for};
use crate::common::{Dir, two_nodes};
use std::fs;
use std::process::Command;
use std::time::Duration;

/// A running hub and home.
pub struct Nodes {
    pub dir: Dir,
    pub hub: Daemon,
    /// Held so that it runs.
    _home: Daemon,
}

/// Runs a shell script; panics if it fails.
pub fn shell(script: &str) {
    assert!(run(Command::new("bash").args(["-euc", script])), "{script}");
}

/// Table and chain of the packets that the hub drops.
const FILTER: &str = "add table inet filter; add chain inet filter in { type filter hook prerouting priority -300; };";

/// Makes the hub drop all UDP of a link.
pub fn drop_udp(link: u8) {
    shell(&format!(
        "ip netns exec hub nft '{FILTER} add rule inet filter in iifname link{link} meta l4proto udp drop'"
    ));
}

/// Makes the hub drop all TCP of a link.
pub fn drop_tcp(link: u8) {
    shell(&format!(
        "ip netns exec hub nft '{FILTER} add rule inet filter in iifname link{link} meta l4proto tcp drop'"
    ));
}

/// Makes the hub drop nothing more.
pub fn pass_udp() {
    shell("ip netns exec hub nft 'delete table inet filter'");
}

/// Returns true if the hub answers a ping through the tunnel.
pub fn answers() -> bool {
    run(Command::new("ip").args(["netns", "exec", "home", "ping", "-q", "-c3", "-i0.05", "-W1", "10.9.0.2"]))
}

/// Returns the time of the first line of a log that contains `text`.
pub fn logged_at(log: &str, text: &str) -> Duration {
    let line = log.lines().find(|line| line.contains(text)).unwrap_or_else(|| panic!("no `{text}` in:\n{log}"));
    let time = line.split_whitespace().next().unwrap_or_default();
    let seconds = time.split(':').fold(0.0, |sum, part| {
        sum * 60.0 + part.trim_end_matches('Z').rsplit('T').next().unwrap().parse::<f64>().unwrap_or(0.0)
    });
    Duration::from_secs_f64(seconds)
}

impl Nodes {
    /// Starts the nodes with `links` Ethernet links, and lines that the configurations of home and hub have more.
    ///
    /// `before` runs between the links' start and the nodes'.
    pub fn start<T>(links: u8, home: &str, hub: &str, before: impl FnOnce() -> T) -> (Nodes, T) {
        shell(&format!(
            "for node in home hub; do ip netns add $node; ip -n $node link set lo up; done
             for i in $(seq {links}); do
                 ip link add link$i netns home type veth peer name link$i netns hub
                 ip -n home addr add 192.0.2.$((i * 16 + 1))/28 dev link$i; ip -n home link set link$i up
                 ip -n hub addr add 192.0.2.$((i * 16 + 2))/28 dev link$i; ip -n hub link set link$i up
             done"
        ));
        let made = before();
        let dir = Dir::new();
        two_nodes(&dir, None);
        for (name, more) in [("home", ["tcp = 443\n", home]), ("hub", ["[tcp]\nlisten = 443\n", hub])] {
            let path = dir.path(&format!("{name}.toml"));
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text + &more.concat()).unwrap();
        }
        let hub = Daemon::start(&dir, "hub");
        wait_for("hub", &dir, || dir.path("hub.sock").exists());
        let home = Daemon::start(&dir, "home");
        wait_for("home", &dir, || dir.path("home.sock").exists());
        (Nodes { dir, hub, _home: home }, made)
    }

    /// Returns a node's log.
    pub fn log(&self, node: &str) -> String {
        fs::read_to_string(self.dir.path(&format!("{node}.log"))).unwrap()
    }

    /// Returns the state of home's path by a link.
    pub fn path(&self, link: &str) -> Option<String> {
        let status = status(&self.dir, "home");
        let paths = status["peers"][0]["paths"].as_array()?.clone();
        let path = paths.iter().find(|path| path["link"] == link)?;
        path["state"].as_str().map(str::to_owned)
    }

    /// Waits until home's path by a link has a state.
    pub fn wait_for_path(&self, link: &str, state: &str) {
        wait_for(&format!("path by {link} that is {state}"), &self.dir, || self.path(link).as_deref() == Some(state));
    }

    /// Waits until home has no path by a link.
    pub fn wait_for_end_of_path(&self, link: &str) {
        wait_for(&format!("end of the path by {link}"), &self.dir, || self.path(link).is_none());
    }
}

/// Pings the hub through the tunnel, 20 times a second. Returns the sorted round-trip times in milliseconds.
pub fn ping_for(seconds: u32) -> Vec<f64> {
    let count = (seconds * 20).to_string();
    let args = ["netns", "exec", "home", "ping", "-c", &count, "-i0.05", "-W2", "10.9.0.2"];
    let out = Command::new("ip").args(args).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let times = text.lines().filter_map(|line| line.split_once("time=")?.1.split_whitespace().next()?.parse().ok());
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    times
}
