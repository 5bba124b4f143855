//! Property: with the kill switch no packet and no DNS query leaves in clear, whatever happens to the daemon and the links.
//!
//! The client has two links to a network with a hub and a far host. Datagrams, DNS queries and connections of both
//! families run all the time, also by sockets bound to a link, and from a machine behind the client. Events are drawn
//! from a seed: 6, or 100 with `WEFT_CHECK=1`. A capture at the far end of each link counts the packets that are
//! neither the tunnel's nor neighbour discovery. The same run without the switch shows that the capture counts.

use crate::common::inside::{self, Daemon, wait_for};
use crate::common::{Dir, WEFT, is_root, stdout};
use crate::rng;
use crate::traffic::{Seen, capture, count, send};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use weft_units::Rng;

/// The network: `home` with two links to the router `net`, which leads to the hub and to the far host.
///
/// `home` also forwards for a machine `guest` behind it, as for a container.
pub const NETWORK: &str = r#"set -e
    for node in home net hub world guest; do ip netns add $node; ip -n $node link set lo up
        ip netns exec $node sysctl -qw net.ipv6.conf.all.keep_addr_on_down=1 net.ipv6.conf.default.keep_addr_on_down=1; done
    for i in 1 2; do
        ip link add link$i netns home type veth peer name link$i netns net
        ip -n net addr add 192.0.2.$((i * 16 + 2))/28 dev link$i; ip -n net addr add 2001:db8:$i::2/64 dev link$i nodad; ip -n net link set link$i up
    done
    ip link add hub netns net type veth peer name net netns hub; ip link add world netns net type veth peer name net netns world
    ip -n net addr add 203.0.113.1/30 dev hub; ip -n net addr add 2001:db8:4::1/64 dev hub nodad; ip -n net link set hub up
    ip -n hub addr add 203.0.113.2/30 dev net; ip -n hub addr add 2001:db8:4::2/64 dev net nodad; ip -n hub link set net up
    ip -n net addr add 203.0.113.5/30 dev world; ip -n net addr add 2001:db8:5::1/64 dev world nodad; ip -n net link set world up
    ip -n world addr add 203.0.113.6/30 dev net; ip -n world addr add 2001:db8:5::2/64 dev net nodad; ip -n world link set net up
    for a in 198.51.100.9/32 198.51.100.53/32 2001:db8:9::9/128 2001:db8:9::53/128; do ip -n world addr add $a dev lo; done
    for n in "hub 203.0.113.1 2001:db8:4::1" "world 203.0.113.5 2001:db8:5::1"; do set -- $n
        ip -n $1 route add default via $2; ip -n $1 route add default via $3; done
    ip -n net route add 198.51.100.0/24 via 203.0.113.6; ip -n net route add 2001:db8:9::/64 via 2001:db8:5::2
    for node in home net hub; do ip netns exec $node sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1; done
    ip link add home netns guest type veth peer name guest netns home
    ip -n home addr add 192.168.7.1/24 dev guest; ip -n home addr add fd00:7::1/64 dev guest nodad; ip -n home link set guest up
    ip -n guest addr add 192.168.7.2/24 dev home; ip -n guest addr add fd00:7::2/64 dev home nodad; ip -n guest link set home up
    ip -n guest route add default via 192.168.7.1; ip -n guest route add default via fd00:7::1
    rm -f /etc/resolv.conf; echo 'nameserver 192.0.2.18 # mine' >/etc/resolv.conf
"#;

/// Gives link `i` of `home` the addresses with host part `host`, and its routes.
pub fn addresses(link: u64, host: u64) -> String {
    let v4 = link * 16 + host;
    format!(
        "for old in $(ip -n home -o addr show dev link{link} scope global | awk '{{print $4}}'); do ip -n home addr del $old dev link{link}; done
         ip -n home link set link{link} up
         ip -n home addr add 192.0.2.{v4}/28 dev link{link}; ip -n home addr add 2001:db8:{link}::{host}/64 dev link{link} nodad
         ip -n home route replace default via 192.0.2.{} dev link{link} metric {link}0
         ip -n home route replace default via 2001:db8:{link}::2 dev link{link} metric {link}0",
        link * 16 + 2
    )
}

pub fn shell(dir: &Dir, text: &str) -> String {
    let out = Command::new("bash").args(["-c", text]).current_dir(&dir.0).output().unwrap();
    assert!(out.status.success(), "{text}\n{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

pub fn configure(dir: &Dir) {
    let (home, hub) = (dir.key("home.key"), dir.key("hub.key"));
    let node = |name: &str, host: u8, rest: &str| {
        format!(
            "[node]\nkey = \"{name}.key\"\nstate = \"{name}.state\"\ncontrol = \"{name}.sock\"\n{rest}\n\
             [tun]\naddress = [\"10.9.0.{host}/24\", \"fd00:9::{host}/64\"]\n"
        )
    };
    let to_home = format!(
        "[[peer]]\nname = \"home\"\npublic-key = \"{home}\"\nprefixes = [\"10.9.0.1/32\", \"fd00:9::1/128\"]\n[exit]\n"
    );
    let to_hub = format!(
        "[[peer]]\nname = \"hub\"\npublic-key = \"{hub}\"\nendpoints = [\"203.0.113.2:51900\"]\nprefixes = [\"0.0.0.0/0\", \"::/0\"]\n"
    );
    dir.write("hub.toml", &(node("hub", 2, "listen = 51900") + &to_home));
    dir.write("plain.toml", &(node("home", 1, "") + &to_hub));
    let out = "[out]\nkill-switch = true\ndns = [\"198.51.100.53\", \"2001:db8:9::53\"]\nsearch = [\"corp.example\"]\n";
    dir.write("safe.toml", &(node("home", 1, "") + &to_hub + out));
    dir.write("strict.toml", &(node("home", 1, "") + &to_hub + out + "lan = false\n"));
}

fn weft(dir: &Dir, verb: &str) -> bool {
    let socket = dir.path("home.sock");
    Command::new("ip").args(["netns", "exec", "home", WEFT, verb, "--control"]).arg(socket).status().unwrap().success()
}

fn has_table() -> bool {
    inside::run(Command::new("ip").args(["netns", "exec", "home", "nft", "list", "table", "inet", "weft_kill_weft0"]))
}

fn resolv_conf() -> String {
    fs::read_to_string("/etc/resolv.conf").unwrap()
}

/// The client's daemon, which events kill and start again.
struct Client {
    dir: Dir,
    daemon: Option<Daemon>,
}

impl Client {
    fn start(&mut self) {
        self.daemon = Some(Daemon::start(&self.dir, "home"));
    }

    fn end(&mut self, signal: Signal) {
        if let Some(daemon) = self.daemon.take() {
            kill(Pid::from_raw(daemon.id() as i32), signal).unwrap();
            let until = Instant::now() + Duration::from_secs(5);
            let stat = format!("/proc/{}/stat", daemon.id());
            let runs = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
            while runs() && Instant::now() < until {
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

fn pause(rng: &mut Rng, most_ms: u64) {
    thread::sleep(Duration::from_millis(rng.below(most_ms)));
}

/// Makes something happen, and returns it in words.
fn event(client: &mut Client, rng: &mut Rng) -> String {
    let (link, host) = (1 + rng.below(2), [1, 3, 4, 5, 6][rng.below(5) as usize]);
    let signal = [Signal::SIGKILL, Signal::SIGSEGV, Signal::SIGTERM][rng.below(3) as usize];
    let down = format!("ip -n home link set link{link} down");
    match rng.below(4) {
        0 => {
            client.end(signal);
            pause(rng, 600);
            client.start();
            format!("{signal} and start")
        }
        1 => {
            shell(&client.dir, &down);
            pause(rng, 400);
            shell(&client.dir, &addresses(link, host));
            format!("link{link} down and up")
        }
        2 => {
            shell(&client.dir, &addresses(link, host));
            format!("link{link} has host part {host}")
        }
        _ => {
            client.end(signal);
            shell(&client.dir, &down);
            pause(rng, 200);
            shell(&client.dir, &addresses(link, host));
            pause(rng, 300);
            client.start();
            format!("{signal}, link{link} has host part {host}, start")
        }
    }
}

/// Waits until more datagrams of both families have reached the far host.
fn passes(dir: &Dir, counts: &[AtomicU64; 2]) {
    let before = [counts[0].load(Relaxed), counts[1].load(Relaxed)];
    wait_for("traffic at the far host", dir, || (0..2).all(|i| counts[i].load(Relaxed) > before[i] + 20));
}

#[test]
fn with_the_kill_switch_nothing_leaves_in_clear_whatever_happens() {
    inside::or_again("kill_switch::with_the_kill_switch_nothing_leaves_in_clear_whatever_happens", || {
        if is_root() { inside() } else { eprintln!("skipped: this takes root") }
    });
}

fn inside() {
    let mut rng = rng();
    let dir = Dir::new();
    shell(&dir, NETWORK);
    [1, 2].iter().for_each(|link| drop(shell(&dir, &addresses(*link, 1))));
    configure(&dir);
    fs::copy(dir.path("plain.toml"), dir.path("home.toml")).unwrap();
    let (seen, stop) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
    let mut threads: Vec<_> = ["link1", "link2"].map(|link| capture("net", link, &seen, &stop)).into();
    let (data, thread) = count("world", 9, &stop);
    threads.push(thread);
    let (queries, thread) = count("world", 53, &stop);
    threads.push(thread);
    let to: Vec<SocketAddr> = [
        "198.51.100.9:9",
        "[2001:db8:9::9]:9",
        "198.51.100.53:53",
        "[2001:db8:9::53]:53",
        "192.0.2.18:53",
        "192.0.2.34:53",
    ]
    .map(|to| to.parse().unwrap())
    .into();
    let sender = send("home", &to, &["link1", "link2"], &stop);
    let guest = send("guest", &to, &[], &stop);

    let _hub = Daemon::start(&dir, "hub");
    let mut client = Client { dir, daemon: None };
    client.start();
    passes(&client.dir, &data);
    // Without the switch the capture counts. Queries to the routers' own resolvers leave in clear all the time.
    seen.begin();
    client.end(Signal::SIGKILL);
    thread::sleep(Duration::from_millis(500));
    let control = seen.clear.load(Relaxed);
    assert!(control > 100, "without the switch {control} packets left in clear");
    assert!(!has_table());

    client.start();
    passes(&client.dir, &data);
    fs::copy(client.dir.path("safe.toml"), client.dir.path("home.toml")).unwrap();
    assert!(weft(&client.dir, "reload") && has_table());
    assert_eq!(inside::status(&client.dir, "home")["kill_switch"], true);
    let shown = Command::new(WEFT).args(["status", "--control"]).arg(client.dir.path("home.sock")).output().unwrap();
    assert!(stdout(&shown).contains("kill switch on: only the tunnel and local networks"), "{}", stdout(&shown));
    wait_for("servers of [out]", &client.dir, || resolv_conf().contains("nameserver 198.51.100.53\n"));
    seen.begin();
    let events = if std::env::var_os("WEFT_CHECK").is_some() { 100 } else { 6 };
    let mut said = Vec::new();
    for _ in 0..events {
        said.push(event(&mut client, &mut rng));
        if rng.chance(0.5) {
            passes(&client.dir, &data);
        } else {
            pause(&mut rng, 500);
        }
        let clear = seen.clear.load(Relaxed);
        assert_eq!(clear, 0, "{:?} after {said:#?}", seen.examples.lock().unwrap());
    }
    passes(&client.dir, &data);
    passes(&client.dir, &queries);
    // A busy machine sends fewer datagrams in the time of the events.
    wait_for("1,000 datagrams of the tunnel", &client.dir, || seen.tunnel.load(Relaxed) > 1000);
    client.end(Signal::SIGKILL);
    thread::sleep(Duration::from_millis(300));
    let (clear, tunnel) = (seen.clear.load(Relaxed), seen.tunnel.load(Relaxed));
    assert_eq!(clear, 0, "{:?} after {said:#?}", seen.examples.lock().unwrap());
    assert!(tunnel > 1000, "the capture saw {tunnel} datagrams of the tunnel");
    eprintln!("{events} events: 0 of {tunnel} packets in clear; {control} in half a second without the switch");

    lifts(&mut client, &data);
    stop.store(true, Relaxed);
    eprintln!("{} datagrams sent by programs, {} by the machine behind", sender.join().unwrap(), guest.join().unwrap());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// The switch stays after a signal, and ends by `weft down` or without its key, with resolv.conf as it was.
fn lifts(client: &mut Client, data: &[AtomicU64; 2]) {
    let own = "nameserver 192.0.2.18 # mine\n";
    let lan = || inside::run(Command::new("ip").args(["netns", "exec", "home", "ping", "-c1", "-W1", "192.0.2.18"]));
    assert!(has_table() && lan() && resolv_conf() != own, "the killed daemon leaves both, and the LAN is reachable");
    assert!(weft(&client.dir, "down") && !has_table(), "weft down lifts the switch of an ended node");
    client.start();
    passes(&client.dir, data);
    client.end(Signal::SIGTERM);
    assert!(has_table() && resolv_conf() == own, "a signal keeps the switch and restores resolv.conf");
    client.start();
    passes(&client.dir, data);
    assert!(weft(&client.dir, "down") && !has_table(), "weft down lifts the switch");
    wait_for("end of the node", &client.dir, || resolv_conf() == own);
    client.end(Signal::SIGKILL);
    client.start();
    let log = || fs::read_to_string(client.dir.path("home.log")).unwrap_or_default();
    // Before the switch is set, traffic passes in clear, and a flush removes nothing.
    wait_for("session with the switch set", &client.dir, || has_table() && log().contains("session established"));
    passes(&client.dir, data);
    // The node may follow an address just then, which restores the table too. It says so, and not that it was removed.
    let restores = || log().matches("kill switch: another program removed its nftables table").count();
    for _ in 0..3 {
        // Only a report of the kernel is faster than the look every ten seconds.
        let flushed = Instant::now();
        assert!(inside::run(Command::new("ip").args(["netns", "exec", "home", "nft", "flush", "ruleset"])));
        wait_for("restored table", &client.dir, has_table);
        let took = flushed.elapsed();
        assert!(took < Duration::from_secs(3), "restored {took:?} after a flush");
        thread::sleep(Duration::from_millis(500));
        if restores() > 0 {
            break;
        }
    }
    assert!(restores() > 0, "the log lacks the removed table:\n{}", log());
    fs::copy(client.dir.path("strict.toml"), client.dir.path("home.toml")).unwrap();
    assert!(lan() && weft(&client.dir, "reload") && !lan(), "without `lan` the LAN is out of reach");
    passes(&client.dir, data);
    fs::copy(client.dir.path("plain.toml"), client.dir.path("home.toml")).unwrap();
    assert!(weft(&client.dir, "reload") && !has_table(), "unsetting the key lifts the switch");
    wait_for("own resolv.conf", &client.dir, || resolv_conf() == own);
    client.end(Signal::SIGKILL);
    fs::copy(client.dir.path("safe.toml"), client.dir.path("home.toml")).unwrap();
    client.start();
    passes(&client.dir, data);
    client.end(Signal::SIGKILL);
    fs::copy(client.dir.path("plain.toml"), client.dir.path("home.toml")).unwrap();
    client.start();
    passes(&client.dir, data);
    assert!(!has_table() && resolv_conf() == own, "a start without the keys ends what a killed run left");
}
