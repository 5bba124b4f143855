//! The hub and one real site, and a scraper of the hub's metrics.

use super::common::flow::TcpFlow;
use super::common::inside::{Daemon, run};
use super::common::{self, Dir};
use super::sites::{HUB, HUB_NUMBER, INSIDE, address, identity};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io};

/// Number of the real site.
const HOME_NUMBER: usize = 50_000;

/// Topology of the namespaces.
///
/// Sites have addresses of 10.64.0.0/16 in this namespace. The real site has its own link of 1 Gbit/s to the hub.
///
/// Without this limit the flow would take all processors, and the sites need theirs.
const TOPOLOGY: &str = "set -eu
    for node in home hub; do ip netns add $node; ip -n $node link set lo up; done
    ip link add to-hub type veth peer name wan netns hub
    ip addr add 192.0.2.33/28 dev to-hub; ip link set to-hub up; ip route add local 10.64.0.0/16 dev lo
    ip -n hub addr add 192.0.2.34/28 dev wan; ip -n hub link set wan up; ip -n hub route add 10.64.0.0/16 via 192.0.2.33
    ip link add lan netns home type veth peer name lan netns hub
    ip -n home addr add 198.51.100.1/30 dev lan; ip -n home link set lan up; ip -n home route add 192.0.2.34 via 198.51.100.2
    ip -n hub addr add 198.51.100.2/30 dev lan; ip -n hub link set lan up
    tc -n home qdisc add dev lan root tbf rate 1gbit burst 256k latency 20ms";

/// Creates the namespaces.
pub fn build() {
    assert!(run(Command::new("bash").args(["-c", TOPOLOGY])), "no namespaces");
    // Each site needs one descriptor for its socket.
    let most = 16_384;
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, most, most).unwrap();
}

pub struct Hub {
    dir: Dir,
    daemon: Option<Daemon>,
    _home: Daemon,
    scraper: Arc<Scraper>,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    /// Starts a hub that knows `count` sites and the real one.
    pub fn start(count: usize) -> Hub {
        let dir = Dir::new();
        let sites: Vec<usize> = (1..=count).chain([HOME_NUMBER]).collect();
        let metrics = dir.path("metrics.sock");
        let more = format!("listen = {}\nrelay = true\n", HUB.port());
        let scraped = format!("[metrics]\nlisten = \"unix:{}\"\n", metrics.display());
        configure(&dir, "hub", HUB_NUMBER, &more, &(peers(&sites, "") + &scraped));
        configure(&dir, "home", HOME_NUMBER, "", &peers(&[HUB_NUMBER], &format!("endpoints = [\"{HUB}\"]\n")));
        let daemon = Some(Daemon::start(&dir, "hub"));
        let home = Daemon::start(&dir, "home");
        let scraper = Arc::new(Scraper { socket: metrics, ..Scraper::default() });
        let own = Arc::clone(&scraper);
        let thread = Some(thread::spawn(move || own.run()));
        Hub { dir, daemon, _home: home, scraper, thread }
    }

    /// Kills the hub and starts it again.
    pub fn restart(&mut self) {
        self.daemon = None;
        self.scraper.forget();
        self.daemon = Some(Daemon::start(&self.dir, "hub"));
    }

    pub fn set_uplink(&self, up: bool) {
        let state = if up { "up" } else { "down" };
        assert!(run(Command::new("ip").args(["-n", "hub", "link", "set", "wan", state])));
        if up {
            // The kernel removed the route together with the link.
            assert!(run(Command::new("ip").args(["-n", "hub", "route", "add", "10.64.0.0/16", "via", "192.0.2.33"])));
        }
    }

    /// Returns the processor time that the hub has used since its start.
    pub fn cpu(&self) -> Duration {
        self.daemon.as_ref().map_or(Duration::ZERO, Daemon::cpu)
    }

    /// Returns the number of peers with a session, from the last scrape.
    pub fn up(&self) -> usize {
        self.scraper.seen.lock().unwrap().up
    }

    /// Returns the number of peers from which the hub received a datagram within the last `time`, by a scrape in that
    /// time.
    pub fn heard_within(&self, time: Duration) -> usize {
        let seen = self.scraper.seen.lock().unwrap();
        let ago = seen.at.map_or(Duration::MAX, |at| at.elapsed());
        seen.heard.iter().filter(|heard| **heard + ago <= time).count()
    }

    /// Returns the longest turn of the packet loop since the hub's start.
    pub fn longest_turn(&self) -> Duration {
        self.scraper.seen.lock().unwrap().longest_turn
    }

    /// Returns the longest duration of a scrape.
    pub fn longest_scrape(&self) -> Duration {
        Duration::from_micros(self.scraper.longest_us.load(Ordering::Relaxed))
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path("hub.log"))
            .unwrap_or_default()
            .lines()
            .rev()
            .take(40)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.scraper.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn peers(numbers: &[usize], more: &str) -> String {
    numbers.iter().fold(String::new(), |mut text, number| {
        let (key, inside) = (identity(*number).public_key(), address(INSIDE, *number));
        let _ = write!(
            text,
            "[[peer]]\nname = \"node{number}\"\npublic-key = \"{key}\"\nprefixes = [\"{inside}/32\"]\n{more}"
        );
        text
    })
}

fn configure(dir: &Dir, node: &str, number: usize, more: &str, rest: &str) {
    let key = dir.write(&format!("{node}.key"), &format!("{}\n", identity(number).secret_to_base64()));
    common::chmod(&key, 0o600);
    let path = |suffix: &str| dir.path(&format!("{node}.{suffix}")).display().to_string();
    let text = format!(
        "[node]\nkey = \"{}\"\nstate = \"{}\"\ncontrol = \"{}\"\n{more}[tun]\naddress = [\"{}/16\"]\n{rest}",
        path("key"),
        path("state"),
        path("sock"),
        address(INSIDE, number),
    );
    dir.write(&format!("{node}.toml"), &text);
}

/// Values from the last scrape of the hub's metrics.
#[derive(Default)]
struct Seen {
    at: Option<Instant>,
    up: usize,
    heard: Vec<Duration>,
    longest_turn: Duration,
}

/// Scrapes the metrics once a second.
#[derive(Default)]
struct Scraper {
    socket: PathBuf,
    seen: Mutex<Seen>,
    longest_us: AtomicU64,
    is_over: AtomicBool,
}

impl Scraper {
    fn run(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let began = Instant::now();
            if let Ok(text) = self.scrape() {
                self.longest_us.fetch_max(began.elapsed().as_micros() as u64, Ordering::Relaxed);
                self.take(began, &text);
            }
            thread::sleep(Duration::from_secs(1).saturating_sub(began.elapsed()));
        }
    }

    fn scrape(&self) -> io::Result<String> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }

    fn take(&self, at: Instant, text: &str) {
        let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0);
        let lines = |name: &'static str| text.lines().filter(move |line| line.starts_with(name));
        let time = |line: &str| Duration::from_secs_f64(value(line));
        let up = lines("weft_peer_up{").filter(|line| value(line) == 1.0).count();
        let heard = lines("weft_peer_last_heard_seconds{").map(time).collect();
        let longest_turn = lines("weft_longest_turn_seconds ").map(time).next().unwrap_or_default();
        *self.seen.lock().unwrap() = Seen { at: Some(at), up, heard, longest_turn };
    }

    fn forget(&self) {
        *self.seen.lock().unwrap() = Seen::default();
    }
}

/// Starts a TCP flow from the real site to the hub.
pub fn flow() -> TcpFlow {
    TcpFlow::start("home", "hub", address(INSIDE, HUB_NUMBER))
}
