//! Two nodes with two links, flows through their tunnel, and what restarts cost these flows.

use crate::common::inside::{run, within};
use crate::common::{Dir, two_nodes};
use crate::flows::{End, Flow, Kind, Silence};
use crate::service::Service;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Names of the nodes by number.
pub const NAMES: [&str; 2] = ["home", "hub"];
/// Topology: two links of 20 Mbit/s.
const TOPOLOGY: &str = "set -eu
    for node in home hub; do ip netns add $node; ip -n $node link set lo up; done
    for i in 1 2; do
        ip link add link$i netns home type veth peer name link$i netns hub
        for node in home hub; do
            host=1; [ $node = home ] || host=2
            ip -n $node addr add 192.0.2.$((i * 16 + host))/28 dev link$i; ip -n $node link set link$i up
            tc -n $node qdisc add dev link$i root tbf rate 20mbit burst 32k latency 40ms
        done
    done";
/// Maximum time in which all flows have data again before the test fails.
const FLOWS_WITHIN: Duration = Duration::from_secs(20);
/// A flow has data again if none was missing for this time.
const STEADY: Duration = Duration::from_millis(100);

/// Longest time without data of any flow.
#[derive(Clone, Debug, Default)]
pub struct Worst {
    pub gap: Duration,
    /// The same for datagrams alone, which nothing retransmits.
    pub call: Duration,
    /// Part of the longest wait after the last start of a process.
    pub after_start: Duration,
    pub flow: String,
}

/// Running nodes and flows.
pub struct Network {
    pub nodes: [Service; 2],
    flows: Vec<Flow>,
    /// Times at which processes were started.
    starts: Vec<Instant>,
    dir: Dir,
}

fn end(node: usize) -> End {
    (NAMES[node], Ipv4Addr::new(10, 9, 0, node as u8 + 1))
}

/// True if data of this flow was missing neither now nor shortly before.
fn is_steady(flow: &Flow) -> bool {
    let long = |silence: &Silence| silence.end - silence.begin > STEADY && silence.end.elapsed() <= STEADY;
    !flow.silences().iter().any(long)
}

/// Starts two bulk connections, a session and a call in each direction.
fn flows() -> Vec<Flow> {
    let kinds = [Kind::Bulk, Kind::Bulk, Kind::Session, Kind::Call];
    let ports = (5_001..).zip(kinds);
    ports
        .flat_map(|(port, kind)| [(0, 1), (1, 0)].map(|(from, to)| Flow::start(kind, end(from), end(to), port)))
        .collect()
}

impl Network {
    /// Creates the links, and starts nodes with this program and all flows.
    pub fn start(program: &Path) -> Network {
        assert!(run(Command::new("bash").args(["-c", TOPOLOGY])), "no namespaces");
        let dir = Dir::new();
        two_nodes(&dir, None);
        let nodes = NAMES.map(|name| Service::start(&dir, name, program));
        let ping = || run(Command::new("ip").args(["netns", "exec", "home", "ping", "-q", "-c1", "-W1", "10.9.0.2"]));
        let until = Instant::now() + FLOWS_WITHIN;
        while !ping() {
            assert!(Instant::now() < until, "no tunnel");
            thread::sleep(Duration::from_millis(50));
        }
        let network = Network { nodes, flows: flows(), starts: Vec::new(), dir };
        network.wait_until_all_flow();
        thread::sleep(Duration::from_secs(1));
        network
    }

    /// Starts a node again.
    pub fn start_again(&mut self, node: usize) {
        self.nodes[node].run();
        self.note_starts(&[node]);
    }

    /// Records that these nodes were started.
    pub fn note_starts(&mut self, nodes: &[usize]) {
        self.starts.extend(nodes.iter().map(|node| self.nodes[*node].started));
        self.starts.sort();
    }

    /// Sets a link at home `up` or `down`.
    pub fn set_link(&self, link: u64, state: &str) {
        assert!(run(Command::new("ip").args(["-n", "home", "link", "set", &format!("link{link}"), state])));
    }

    /// Waits until all flows have data without a pause.
    pub fn wait_until_all_flow(&self) {
        let began = Instant::now();
        thread::sleep(STEADY * 2);
        while !self.flows.iter().all(is_steady) {
            let faults: Vec<_> = self.flows.iter().filter_map(|flow| Some((&flow.name, flow.fault()?))).collect();
            assert!(faults.is_empty(), "{faults:?}\n{}", self.logs());
            let is_silent = |flow: &&Flow| !is_steady(flow);
            let silent: Vec<_> = self.flows.iter().filter(is_silent).map(|flow| &flow.name).collect();
            assert!(began.elapsed() < FLOWS_WITHIN, "no data: {silent:?}\n{}", self.logs());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Forgets what happened until now.
    pub fn forget(&mut self) {
        self.flows.iter().for_each(Flow::forget);
        self.starts.clear();
    }

    /// Returns the longest waits since the last call. Panics if a socket failed.
    pub fn judge(&mut self) -> Worst {
        let mut worst = Worst::default();
        for flow in &self.flows {
            assert_eq!(flow.fault(), None, "{}\n{}", flow.name, self.logs());
            for silence in flow.silences() {
                let start = self.starts.iter().rfind(|start| **start <= silence.end);
                let after = silence.end - start.copied().unwrap_or(silence.begin).max(silence.begin);
                let gap = silence.end - silence.begin;
                worst.gap = worst.gap.max(gap);
                if flow.kind == Kind::Call {
                    worst.call = worst.call.max(gap);
                }
                if after > worst.after_start {
                    (worst.after_start, worst.flow) = (after, flow.name.clone());
                }
            }
        }
        self.forget();
        worst
    }

    /// Returns the number of resets that the TCP of both namespaces has sent or received.
    pub fn resets(&self) -> u64 {
        let table = |node| within(node, || fs::read_to_string("/proc/thread-self/net/snmp").unwrap()).join().unwrap();
        NAMES.iter().map(|node| resets(&table(node))).sum()
    }

    /// Returns the last lines of the logs.
    pub fn logs(&self) -> String {
        let last = |node: &str| {
            let log = fs::read_to_string(self.dir.path(&format!("{node}.log"))).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            format!("{node}:\n{}\n", lines[lines.len().saturating_sub(60)..].join("\n"))
        };
        NAMES.map(last).concat()
    }
}

/// Sums EstabResets and OutRsts (RFC 4022) of a table in /proc/net/snmp.
fn resets(table: &str) -> u64 {
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("Tcp: ")).map(str::split_whitespace);
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { panic!("{table}") };
    let counted = names.zip(values).filter(|(name, _)| ["EstabResets", "OutRsts"].contains(name));
    counted.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
}
