//! Two nodes with two links, each with a routing daemon of its own.
//!
//! This process stands between the nodes: each link is a bridge here. A bridge that is down drops every frame, and the
//! nodes' interfaces keep their carrier, so the cut is silent.

use crate::common::inside::{Daemon, run, status, wait_for};
use crate::common::{Dir, WEFT, chmod, stderr};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Directory of FRR's programs (Debian).
const PROGRAMS: &str = "/usr/lib/frr";
/// Priority of all daemons, FRR's and weft's. Standard: `Nice=` of Debian's `frr.service`.
const PRIORITY: i32 = -5;
/// Topology: `home` and `hub` have a network of their own, 10.1.0.0/24 and 10.2.0.0/24.
const TOPOLOGY: &str = "set -eu
    for node in home hub; do ip netns add $node; ip -n $node link set lo up; mkdir -p /run/frr/$node; done
    chown -R frr:frr /run/frr; chmod 755 /run/frr /run/frr/*
    mount -t tmpfs tmpfs /var/tmp # FRR leaves directories there.
    for i in 1 2; do
        ip link add br$i type bridge; ip link set br$i up
        for node in home hub; do
            ip link add $node$i type veth peer name link$i netns $node
            ip link set $node$i master br$i up
            host=$([ $node = home ] && echo 1 || echo 2)
            ip -n $node addr add 192.0.2.$((i * 16 + host))/28 dev link$i; ip -n $node link set link$i up
        done
    done
    for node in home hub; do ip -n $node link add lan0 type veth peer name host0; ip -n $node link set host0 up; done
    ip -n home addr add 10.1.0.1/24 dev lan0; ip -n home link set lan0 up
    ip -n hub addr add 10.2.0.1/24 dev lan0; ip -n hub link set lan0 up
    for node in home hub; do ip netns exec $node sysctl -qw net.ipv4.ip_forward=1; done";

/// Returns true if the tests are possible here; prints the missing requirements.
pub fn is_possible() -> bool {
    let is_root = crate::common::is_root();
    let has_frr = Path::new(PROGRAMS).join("zebra").exists();
    if !is_root || !has_frr {
        eprintln!("skipped: needs root ({is_root}) and FRR in {PROGRAMS} ({has_frr}); Debian: apt-get install frr");
    }
    is_root && has_frr
}

/// Returns true if the long runs are wanted.
pub fn is_long() -> bool {
    std::env::var_os("WEFT_CHECK").is_some()
}

/// A running daemon of FRR. Dropping it kills the daemon without a farewell.
pub struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Program {
    /// Ends the daemon as its service would.
    pub fn stop(mut self) {
        assert!(run(Command::new("kill").arg(self.0.id().to_string())));
        let until = Instant::now() + Duration::from_secs(10);
        while self.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "the daemon does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

pub struct Lab {
    pub dir: Dir,
    pub home: Daemon,
    _hub: Daemon,
}

impl Lab {
    /// Starts both nodes with these texts in their `[routing]` tables, and waits for their session.
    pub fn start(home: &str, hub: &str) -> Lab {
        // SAFETY: the call takes no pointers.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, PRIORITY) };
        let topology = Command::new("bash").args(["-c", TOPOLOGY]).output().unwrap();
        assert!(topology.status.success(), "{}", stderr(&topology));
        let dir = Dir::new();
        crate::common::two_nodes(&dir, None);
        for (node, text) in [("home", home), ("hub", hub)] {
            let path = dir.path(&format!("{node}.toml"));
            let before = fs::read_to_string(&path).unwrap();
            fs::write(path, format!("{before}\n[routing]\n{text}\n")).unwrap();
        }
        // FRR's daemons run as a user of their own.
        fs::create_dir(dir.path("frr")).unwrap();
        chmod(&dir.path("frr"), 0o777);
        let [home, hub] = ["home", "hub"].map(|node| Daemon::start(&dir, node));
        let lab = Lab { dir, home, _hub: hub };
        for node in ["home", "hub"] {
            wait_for("session", &lab.dir, || {
                lab.dir.path(&format!("{node}.sock")).exists()
                    && status(&lab.dir, node)["peers"][0]["paths"]
                        .as_array()
                        .is_some_and(|paths| paths.iter().filter(|path| path["state"] == "good").count() >= 2)
            });
        }
        lab
    }

    /// Starts a daemon of FRR at a node with this configuration.
    pub fn frr(&self, node: &str, program: &str, config: &str, arguments: &[&str]) -> Program {
        let log = self.dir.path(&format!("frr/{node}-{program}.log"));
        let text = format!("log file {}\nlog timestamp precision 6\n{config}\n", log.display());
        let file = self.dir.write(&format!("{node}-{program}.conf"), &text);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", node]).arg(Path::new(PROGRAMS).join(program)).env("TZ", "UTC");
        command.args(["-N", node, "-P", "0", "-f"]).arg(file).args(arguments);
        let errors = fs::File::create(self.dir.path(&format!("{node}-{program}.err"))).unwrap();
        Program(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().unwrap())
    }

    /// Returns the output of FRR's shell.
    pub fn show(&self, node: &str, command: &str) -> String {
        let shell = ["netns", "exec", node, "vtysh", "-N", node, "-c", command];
        let out = Command::new("timeout").args(["5", "ip"]).args(shell).output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Returns the log of a daemon.
    pub fn log(&self, node: &str, program: &str) -> String {
        fs::read_to_string(self.dir.path(&format!("frr/{node}-{program}.log"))).unwrap_or_default()
    }

    /// Returns the answer to `weft prefixes`.
    pub fn prefixes(&self, node: &str) -> serde_json::Value {
        let socket = self.dir.path(&format!("{node}.sock"));
        let out = Command::new(WEFT).args(["prefixes", "--json", "--control"]).arg(&socket).output().unwrap();
        serde_json::from_slice(&out.stdout).unwrap_or_else(|why| panic!("{why}: {}", stderr(&out)))
    }

    /// True if `node` has learnt `prefix` from this protocol.
    pub fn has_learnt(&self, node: &str, prefix: &str, protocol: &str) -> bool {
        let of = |of: &serde_json::Value| of["prefix"] == prefix && of["learnt"] == protocol;
        self.prefixes(node)["prefixes"].as_array().unwrap().iter().any(of)
    }

    pub fn wait(&self, what: &str, seconds: u64, mut ready: impl FnMut() -> bool) {
        let until = Instant::now() + Duration::from_secs(seconds);
        while !ready() {
            assert!(Instant::now() < until, "no {what}: {}", self.story());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the last lines of all logs.
    fn story(&self) -> String {
        let mut story = String::new();
        let directories = [self.dir.0.clone(), self.dir.path("frr")];
        for entry in directories.iter().flat_map(|directory| fs::read_dir(directory).unwrap().flatten()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".log") || name.ends_with(".err") {
                let text = fs::read_to_string(entry.path()).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let last = lines.iter().rev().take(15).rev().copied().collect::<Vec<_>>().join("\n");
                story += &format!("\n== {name}\n{last}");
            }
        }
        for node in ["home", "hub"] {
            let routes = Command::new("ip").args(["-n", node, "route", "show", "table", "all"]).output().unwrap();
            let text = String::from_utf8_lossy(&routes.stdout).into_owned();
            story += &format!("\n== routes of {node}\n{}", text.lines().take(20).collect::<Vec<_>>().join("\n"));
        }
        story
    }

    /// Pings an address behind the hub `count` times, `interval` apart. Returns the number of lost pings.
    pub fn lost_pings(&self, source: &str, to: &str, count: u32, interval: Duration) -> u32 {
        let interval = format!("{}", interval.as_secs_f64());
        let count_text = count.to_string();
        let ping =
            ["netns", "exec", "home", "ping", "-q", "-I", source, "-c", &count_text, "-i", &interval, "-W", "2", to];
        let out = Command::new("timeout").args(["600", "ip"]).args(ping).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let received = text.lines().find_map(|line| {
            let (head, _) = line.split_once(" received")?;
            head.rsplit(' ').next()?.parse::<u32>().ok()
        });
        count - received.unwrap_or_else(|| panic!("ping: {text}{}", stderr(&out)))
    }

    /// Adds a rule of nft that drops this share of the datagrams that arrive at a node.
    pub fn lose(&self, node: &str, percent: u32) {
        let rules = format!(
            "table inet loss {{ chain c {{ type filter hook input priority 0; iifname \"link*\" numgen random mod 100 < {percent} drop; }}; }}"
        );
        let mut nft = Command::new("ip");
        nft.args(["netns", "exec", node, "nft", "-f", "-"]).stdin(Stdio::piped());
        let mut nft = nft.spawn().unwrap();
        nft.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
        assert!(nft.wait().unwrap().success());
    }
}

/// Sets both links' bridges up or down, within microseconds. Returns the wall clock before that.
pub fn set_links(up: bool) -> Duration {
    // SAFETY: the calls get a valid socket, and a request that outlives them.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    assert!(socket >= 0);
    let now = wall_clock();
    for name in ["br1", "br2"] {
        // SAFETY: an all-zero request is a valid one.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from as libc::c_char);
        request.ifr_ifru.ifru_flags = if up { libc::IFF_UP as libc::c_short } else { 0 };
        // SAFETY: as above.
        assert_eq!(unsafe { libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request) }, 0);
    }
    // SAFETY: the descriptor is open and not used again.
    unsafe { libc::close(socket) };
    now
}

/// Returns the time since 1970.
pub fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Returns the time of day that a line of FRR's log begins with, such as `2026/11/27 04:13:47.123456`.
pub fn time_of_day(line: &str) -> Option<Duration> {
    let clock = line.split(' ').nth(1)?;
    let mut fields = clock.split(':');
    let (hours, minutes): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let seconds: f64 = fields.next()?.parse().ok()?;
    Some(Duration::from_secs(hours * 3_600 + minutes * 60) + Duration::from_secs_f64(seconds))
}
