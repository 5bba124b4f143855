//! Tests that run themselves again in namespaces of their own, and take part in the network there.

use super::{Dir, PRELUDE, WEFT, stderr};
use std::fs;
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Environment variable of a test that runs within its namespaces.
pub const INSIDE: &str = "WEFT_TEST_INSIDE";

/// Runs `inside` if this is the test within its namespaces.
///
/// Otherwise it creates the namespaces and runs the test called `name` there.
pub fn or_again(name: &str, inside: fn()) {
    match std::env::var_os(INSIDE) {
        Some(_) => inside(),
        None => in_namespaces(name),
    }
}

fn in_namespaces(name: &str) {
    if let Err(why) = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        eprintln!("skipped: no TUN device here: {why}");
        return;
    }
    // Seconds after which the test has failed.
    let longest = if std::env::var_os("WEFT_CHECK").is_some() { "900" } else { "300" };
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", longest, "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "-nm"]);
    if !fs::read_to_string("/proc/self/status").unwrap().lines().any(|line| line.starts_with("Uid:\t0\t")) {
        command.arg("-Ur");
    }
    let prelude = format!("{PRELUDE}\nexec \"$@\"");
    let own = std::env::current_exe().unwrap();
    command.args(["bash", "-c", &prelude, "bash"]).arg(own).args(["--exact", name, "--nocapture"]);
    let status = command.env(INSIDE, "1").status().unwrap();
    assert!(status.success(), "inside the namespace: {status}");
}

/// A running node. Dropping it kills the node.
pub struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Daemon {
    pub fn start(dir: &Dir, node: &str) -> Daemon {
        let log = fs::File::create(dir.path(&format!("{node}.log"))).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", node, WEFT, "up", "-c"]).arg(dir.path(&format!("{node}.toml")));
        Daemon(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Processor time it has used so far.
    pub fn cpu(&self) -> Duration {
        process_time(&format!("/proc/{}/stat", self.0.id()))
    }

    pub fn rss_kib(&self) -> i64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let field = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a resident set");
        field.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Returns the bytes that wait in the node's sockets, and the number of dropped datagrams.
    ///
    /// The kernel dropped these datagrams because a socket was full.
    pub fn sockets(&self) -> (u64, u64) {
        let table = |name: &str| fs::read_to_string(format!("/proc/{}/net/{name}", self.0.id())).unwrap_or_default();
        let (mut waiting, mut dropped) = (0, 0);
        for line in ["udp", "udp6"].map(table).join("\n").lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let queued = fields.get(4).and_then(|queues| queues.split_once(':')).map(|(_, received)| received);
            waiting += queued.and_then(|bytes| u64::from_str_radix(bytes, 16).ok()).unwrap_or(0);
            dropped += fields.last().and_then(|drops| drops.parse::<u64>().ok()).unwrap_or(0);
        }
        (waiting, dropped)
    }

    /// Waits until at most `bytes` wait in the node's sockets.
    pub fn let_catch_up(&self, bytes: u64) {
        while self.sockets().0 > bytes {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Processor time of the process or thread with this `stat` file (proc_pid_stat(5), fields 14 and 15).
pub fn process_time(stat: &str) -> Duration {
    let stat = fs::read_to_string(stat).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    // USER_HZ is 100 on Linux.
    Duration::from_millis(ticks * 10)
}

pub fn run(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

pub fn status(dir: &Dir, node: &str) -> serde_json::Value {
    let socket = dir.path(&format!("{node}.sock"));
    let out = Command::new(WEFT).args(["status", "--json", "--control"]).arg(&socket).output().unwrap();
    serde_json::from_slice(&out.stdout).unwrap_or_else(|why| panic!("{why}: {}", stderr(&out)))
}

pub fn wait_for(what: &str, dir: &Dir, mut ready: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !ready() {
        let logs = || ["home.log", "hub.log"].map(|name| fs::read_to_string(dir.path(name)).unwrap_or_default());
        assert!(Instant::now() < until, "no {what}:\n{}", logs().join("\n"));
        thread::sleep(Duration::from_millis(100));
    }
}

/// Runs `work` in a thread within the network namespace of a node.
pub fn within<T: Send + 'static>(node: &str, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let namespace = fs::File::open(format!("/run/netns/{node}")).unwrap();
    thread::spawn(move || {
        // SAFETY: the call takes no pointers, and the descriptor is open.
        let entered = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
        assert_eq!(entered, 0, "{}", std::io::Error::last_os_error());
        work()
    })
}
