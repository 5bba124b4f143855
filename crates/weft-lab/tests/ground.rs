//! The lab's namespaces and links on the real kernel.
//!
//! The tests check rates, delays and losses. They also check that no process or namespace remains. They need root.
//! Otherwise they are skipped with a reason.

use std::ffi::c_int;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use weft_lab::emulator::{
    Backend, EmulatedDirection, EmulatedLinkSpec, Emulator, EmulatorSnapshot, EndSpec, LinkCapacity, LinkSide,
};
use weft_lab::net::{Lab, NetNamespace};
use weft_scenario::trace::Trace;
use weft_units::Rate;

const HOME: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const HUB: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const PORT: u16 = 9000;
/// IP bytes of a full packet.
const PACKET: usize = 1500;
/// UDP payload of a full packet, without IPv4 and UDP headers, in bytes.
const PAYLOAD: usize = PACKET - 28;

/// Two nodes and one link. Forward is the direction from `home` to `hub`.
///
/// Only one instance exists at a time, because a measurement needs the whole machine.
struct Ground {
    home: NetNamespace,
    hub: NetNamespace,
    emulator: Emulator,
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

fn lab() -> Option<Lab> {
    Lab::new().inspect_err(|error| eprintln!("skipped: {error}")).ok()
}

fn end(node: &NetNamespace, ipv4: Ipv4Addr, ipv6: Option<Ipv6Addr>) -> EndSpec {
    EndSpec { node: node.clone(), interface: "wan".into(), ipv4: Some(ipv4), ipv6 }
}

fn ground(forward: EmulatedDirection, backward: EmulatedDirection) -> Option<Ground> {
    ground_with(Backend::best(), forward, backward)
}

fn ground_with(backend: Backend, forward: EmulatedDirection, backward: EmulatedDirection) -> Option<Ground> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = lab()?;
    let (home, hub) = (lab.node("home").unwrap(), lab.node("hub").unwrap());
    for node in [&home, &hub] {
        // IPv6 is off. Otherwise multicast listener reports would be included in the counted packets.
        let _ = node.sysctl("net.ipv6.conf.default.disable_ipv6", "1");
    }
    let link = EmulatedLinkSpec {
        ends: [end(&home, HOME, None), end(&hub, HUB, None)],
        mtu: PACKET as u16,
        forward,
        backward,
    };
    let emulator = Emulator::start_with(backend, vec![link], 1).unwrap();
    Some(Ground { home, hub, emulator, _alone: alone })
}

/// The sending times of numbered UDP packets, and the arrival times of those that arrived.
struct Stream {
    sent: Vec<SystemTime>,
    came: Vec<Option<SystemTime>>,
}

impl Stream {
    fn arrivals(&self) -> Vec<SystemTime> {
        self.came.iter().flatten().copied().collect()
    }

    /// Returns the rate between the first and the last arrival, as IP bits per second.
    fn rate_bps(&self) -> f64 {
        let arrivals = self.arrivals();
        let time = arrivals.last().unwrap().duration_since(*arrivals.first().unwrap()).unwrap();
        ((arrivals.len() - 1) * PACKET * 8) as f64 / time.as_secs_f64()
    }

    fn median_delay(&self) -> Duration {
        let pairs = self.sent.iter().zip(&self.came);
        let mut delays: Vec<Duration> = pairs.filter_map(|(sent, came)| (*came)?.duration_since(*sent).ok()).collect();
        delays.sort();
        delays[delays.len() / 2]
    }
}

/// Makes the kernel timestamp each packet and buffer the whole stream.
///
/// The thread that reads the packets may then be late.
fn note_arrivals(receiver: &UdpSocket) {
    let set = |option, value: c_int| {
        let (fd, length) = (receiver.as_raw_fd(), size_of::<c_int>() as libc::socklen_t);
        // SAFETY: The kernel reads one integer, which outlives the call.
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const value).cast(), length) }
    };
    assert_eq!((set(libc::SO_RCVBUFFORCE, 16 << 20), set(libc::SO_TIMESTAMPNS, 1)), (0, 0));
}

/// Reads a packet. Returns the time at which the kernel received it.
fn receive(receiver: &UdpSocket, packet: &mut [u8]) -> io::Result<SystemTime> {
    let (mut part, mut control) =
        (libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: packet.len() }, [0u64; 8]);
    // SAFETY: All zeros is a valid message header without parts.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control));
    // SAFETY: The header describes `packet` and `control`, which outlive the call.
    if unsafe { libc::recvmsg(receiver.as_raw_fd(), &raw mut message, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: The kernel filled in the header, and the timestamp is the only ancillary data that the socket
    // requested.
    let time =
        unsafe { libc::CMSG_DATA(libc::CMSG_FIRSTHDR(&raw const message)).cast::<libc::timespec>().read_unaligned() };
    Ok(SystemTime::UNIX_EPOCH + Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Sends `count` packets in bursts of `burst` packets, one burst in each interval `every`.
fn stream(
    from: &NetNamespace,
    to: &NetNamespace,
    address: Ipv4Addr,
    count: usize,
    burst: usize,
    every: Duration,
) -> Stream {
    let bind =
        |node: &NetNamespace, port| node.run(move || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))).unwrap().unwrap();
    let (sender, receiver) = (bind(from, 0), bind(to, PORT));
    receiver.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
    note_arrivals(&receiver);
    sender.connect((address, PORT)).unwrap();
    let collector = thread::spawn(move || {
        let (mut came, mut packet) = (vec![None; count], [0; PAYLOAD]);
        while let Ok(time) = receive(&receiver, &mut packet) {
            let number = u32::from_be_bytes([packet[0], packet[1], packet[2], packet[3]]);
            came[number as usize] = Some(time);
        }
        came
    });
    let (start, mut packet, mut sent) = (Instant::now(), [0; PAYLOAD], Vec::with_capacity(count));
    for number in 0..count {
        if number % burst == 0 {
            let due = start + every * (number / burst) as u32;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        packet[..4].copy_from_slice(&(number as u32).to_be_bytes());
        sent.push(SystemTime::now());
        sender.send(&packet).unwrap();
    }
    Stream { sent, came: collector.join().unwrap() }
}

/// Repeats a measurement while the machine is too busy for the emulator to be on time.
///
/// Returns `None` after five attempts, so that the test ends without a verdict.
fn on_time<R>(ground: &Ground, mut measure: impl FnMut() -> R) -> Option<(R, EmulatorSnapshot)> {
    for _ in 0..5 {
        ground.emulator.handle().mark().unwrap();
        let result = measure();
        let snapshot = ground.emulator.handle().snapshot().unwrap();
        if snapshot.lateness.p99 < Duration::from_micros(300) && snapshot.links[0].device_drops == [0, 0] {
            return Some((result, snapshot));
        }
    }
    eprintln!("skipped: the machine is too busy to measure on");
    None
}

fn limited(rate: Rate) -> EmulatedDirection {
    EmulatedDirection { capacity: Some(LinkCapacity::Rate(rate)), ..EmulatedDirection::default() }
}

fn check_rate(backend: Backend) {
    let Some(g) = ground_with(backend, limited(Rate::from_mbps(50)), EmulatedDirection::default()) else { return };
    // The sender sends 100 Mbit/s for 0.6 s.
    let measured = on_time(&g, || stream(&g.home, &g.hub, HUB, 5_000, 25, Duration::from_millis(3)));
    let Some((stream, snapshot)) = measured else { return };
    let link = snapshot.links[0].forward;
    assert!((stream.rate_bps() / 50e6 - 1.0).abs() < 0.01, "{}", stream.rate_bps());
    assert_eq!(link.sent_packets, stream.arrivals().len() as u64);
    assert_eq!(link.sent_packets + link.dropped_packets, 5_000);
    assert!(link.dropped_packets > 1_000, "{link:?}");
    // A queue of 1 MB holds 666 packets, including the packet in transmission.
    assert!(link.queue_delay.max.abs_diff(Duration::from_millis(160)) < Duration::from_millis(3), "{link:?}");
}

#[test]
fn the_rate_is_exact() {
    check_rate(Backend::best());
}

#[test]
fn packet_sockets_do_as_well() {
    check_rate(Backend::Packet);
}

#[test]
fn interfaces_vanish_with_the_emulator() {
    for backend in [Backend::best(), Backend::Packet] {
        let Some(g) = ground_with(backend, EmulatedDirection::default(), EmulatedDirection::default()) else { return };
        assert!(g.home.ip("link show dev wan").is_ok());
        drop(g.emulator);
        // A child process that another test forks at this time has a copy of the device's descriptor until it runs
        // its program.
        let until = Instant::now() + Duration::from_secs(2);
        while g.home.ip("link show dev wan").is_ok() {
            assert!(Instant::now() < until, "{backend:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn the_delay_is_exact_and_each_way_its_own() {
    let delay = |ms| EmulatedDirection { delay: Duration::from_millis(ms), ..EmulatedDirection::default() };
    let Some(g) = ground(delay(5), delay(12)) else { return };
    let every = Duration::from_millis(2);
    let there = on_time(&g, || stream(&g.home, &g.hub, HUB, 300, 1, every).median_delay());
    let back = on_time(&g, || stream(&g.hub, &g.home, HOME, 300, 1, every).median_delay());
    for (measured, ms) in [(there, 5), (back, 12)] {
        let Some((median, _)) = measured else { return };
        let over = median.saturating_sub(Duration::from_millis(ms));
        assert!(
            median >= Duration::from_millis(ms) && over < Duration::from_micros(300),
            "{median:?} instead of {ms} ms"
        );
    }
}

#[test]
fn loss_is_within_statistical_bounds() {
    let lossy = EmulatedDirection { loss: 0.05, ..EmulatedDirection::default() };
    let Some(g) = ground(lossy, EmulatedDirection::default()) else { return };
    let stream = stream(&g.home, &g.hub, HUB, 4_000, 20, Duration::from_millis(2));
    let link = &g.emulator.handle().snapshot().unwrap().links[0];
    let (link, missed) = (link.forward, link.device_drops[0]);
    assert_eq!(
        (link.lost_packets + missed) as usize,
        4_000 - stream.arrivals().len(),
        "{missed} missed by the emulator"
    );
    assert!(link.lost_packets.abs_diff(200) < 56, "{link:?}"); // four standard deviations
}

#[test]
fn a_cut_works_each_way_and_a_change_at_once() {
    let Some(g) = ground(EmulatedDirection::default(), EmulatedDirection::default()) else { return };
    let handle = g.emulator.handle();
    let count = |from, to, address| stream(from, to, address, 20, 1, Duration::from_millis(1)).arrivals().len();
    let (there, back) = (|| count(&g.home, &g.hub, HUB), || count(&g.hub, &g.home, HOME));
    assert_eq!((there(), back()), (20, 20));
    handle.cut(0, &[LinkSide::Forward], true).unwrap();
    assert_eq!((there(), back()), (0, 20));
    handle.cut(0, &LinkSide::BOTH, true).unwrap();
    assert_eq!((there(), back()), (0, 0));
    handle.cut(0, &LinkSide::BOTH, false).unwrap();
    assert_eq!((there(), back()), (20, 20));
    let stats = &handle.snapshot().unwrap().links[0];
    assert_eq!((stats.forward.cut_packets, stats.backward.cut_packets), (40, 20));
    assert!(handle.cut(1, &LinkSide::BOTH, true).is_err());

    handle.set(0, LinkSide::Forward, limited(Rate::from_mbps(12))).unwrap();
    let measured = on_time(&g, || stream(&g.home, &g.hub, HUB, 300, 300, Duration::ZERO));
    let Some((stream, _)) = measured else { return };
    assert!((stream.rate_bps() / 12e6 - 1.0).abs() < 0.01, "{}", stream.rate_bps());
}

#[test]
fn a_trace_is_used_to_the_last_opportunity() {
    let trace = Trace::synthetic_lte(3, Rate::from_mbps(20), Duration::from_secs(2));
    let spec = EmulatedDirection {
        capacity: Some(LinkCapacity::Trace(trace)),
        queue_bytes: 150_000,
        ..EmulatedDirection::default()
    };
    let Some(g) = ground(spec, EmulatedDirection::default()) else { return };
    // A load of 60 Mbit/s for 1 s keeps the queue full while the statistics are read.
    let measured = on_time(&g, || {
        thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                thread::sleep(Duration::from_millis(200));
                g.emulator.handle().mark().unwrap();
                thread::sleep(Duration::from_millis(600));
                g.emulator.handle().snapshot().unwrap()
            });
            stream(&g.home, &g.hub, HUB, 5_000, 10, Duration::from_millis(2));
            watcher.join().unwrap()
        })
    });
    let Some((watched, _)) = measured else { return };
    let link = watched.links[0].forward;
    let utilisation = link.utilisation().unwrap();
    assert!(link.sent_packets > 300 && link.dropped_packets > 300, "{link:?}");
    assert!((0.99..=1.01).contains(&utilisation), "{utilisation}, {link:?}");
}

#[test]
fn ipv6_crosses_and_programs_run_in_their_node() {
    let Some(lab) = lab() else { return };
    let (home, hub) = (lab.node("home").unwrap(), lab.node("hub").unwrap());
    let [here, there] = [1, 2].map(|n| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n));
    let ends = [end(&home, HOME, Some(here)), end(&hub, HUB, Some(there))];
    let (forward, backward) = (EmulatedDirection::default(), EmulatedDirection::default());
    let _emulator = Emulator::start(vec![EmulatedLinkSpec { ends, mtu: 1280, forward, backward }], 1).unwrap();
    let bind =
        |node: &NetNamespace, port| node.run(move || UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port))).unwrap().unwrap();
    let (sender, receiver) = (bind(&home, 0), bind(&hub, PORT));
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    sender.send_to(b"hello", (there, PORT)).unwrap();
    let (length, from) = receiver.recv_from(&mut [0; 16]).unwrap();
    assert_eq!((length, from.ip()), (5, here.into()));
    assert!(home.ip("-o link show").unwrap().contains("wan"));
    let error = home.ip("link show dev nothing").unwrap_err().to_string();
    assert!(error.contains("home") && error.contains("nothing"), "{error}");
    assert!(home.spawn(home.command("/no/such/program")).is_err());
    let mut sleep = home.command("sleep");
    sleep.arg("1000");
    let error = home.output(sleep, Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    let mut orphan = home.command("sh");
    orphan.args(["-c", "echo said; sleep 1000 &"]);
    let error = home.output(orphan, Duration::from_millis(200)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    let mut echo = home.command("sh");
    echo.args(["-c", "echo said; echo cried >&2; exit 3"]);
    let output = home.output(echo, Duration::from_secs(5)).unwrap();
    assert_eq!((output.status.code(), &*output.stdout, &*output.stderr), (Some(3), &b"said\n"[..], &b"cried\n"[..]));
}

/// Returns the number of processes with `text` in their command line.
fn processes_with(text: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|p| std::fs::read(p.path().join("cmdline")).is_ok_and(|c| String::from_utf8_lossy(&c).contains(text)))
        .count()
}

/// Returns the number of processes in the network namespace `netns`, written as in /proc.
fn processes_in(netns: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|p| std::fs::read_link(p.path().join("ns/net")).is_ok_and(|n| n == Path::new(netns))).count()
}

fn eventually(condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !condition() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
    condition()
}

/// Starts a shell, which starts a child process, in the node. `mark` is part of the child's command line.
fn start_family(node: &NetNamespace, mark: &str) -> weft_lab::net::Process {
    let mut shell = node.command("sh");
    shell.arg("-c").arg(format!("sleep {mark} & wait"));
    let shell = node.spawn(shell).unwrap();
    let in_sleep = format!("sleep\0{mark}");
    assert!(eventually(|| processes_with(&in_sleep) == 1));
    shell
}

#[test]
fn dropping_the_lab_ends_grandchildren_too() {
    let Some(g) = ground(EmulatedDirection::default(), EmulatedDirection::default()) else { return };
    let mark = format!("{}.25", 1_000_000 + std::process::id());
    let shell = start_family(&g.home, &mark);
    let netns = g.home.run(|| std::fs::read_link("/proc/thread-self/ns/net")).unwrap().unwrap();
    assert_eq!(processes_in(netns.to_str().unwrap()), 2);
    drop(shell);
    assert_eq!(processes_with(&mark), 1, "the shell's child is still there, as it would be without a lab");
    drop(g);
    assert!(eventually(|| processes_with(&mark) == 0));
    assert_eq!(processes_in(netns.to_str().unwrap()), 0);
}

/// Not a test: this process runs a lab, and the next test kills the process.
#[test]
#[ignore = "run by killed_lab_leaves_nothing_behind"]
fn victim() {
    let g = ground(EmulatedDirection::default(), EmulatedDirection::default()).unwrap();
    let _shell = start_family(&g.home, &std::env::var("VICTIM_MARK").unwrap());
    let netns = g.home.run(|| std::fs::read_link("/proc/thread-self/ns/net")).unwrap().unwrap();
    println!("\nready {}", netns.display());
    thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_lab_leaves_nothing_behind() {
    if lab().is_none() {
        return;
    }
    let named = || std::fs::read_dir("/run/netns").map_or(0, Iterator::count);
    let (mark, named_before) = (format!("{}.75", 1_000_000 + std::process::id()), named());
    let mut victim = Command::new(std::env::current_exe().unwrap());
    victim.args(["--exact", "victim", "--ignored", "--nocapture"]).env("VICTIM_MARK", &mark);
    let mut victim = victim.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let netns = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("ready ").map(str::to_owned)).unwrap();
    assert_eq!(processes_in(&netns), 2);
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(eventually(|| processes_with(&mark) == 0), "the victim's grandchild lives");
    assert!(eventually(|| processes_in(&netns) == 0), "somebody is in the victim's namespace");
    assert_eq!(named(), named_before);
}
