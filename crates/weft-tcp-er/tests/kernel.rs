//! Tests `weft_er` in this machine's kernel.
//!
//! `weft_er` exists while a process holds it, and obeys grants by destination and by connection.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weft_lab::net::{Lab, NetNamespace};
use weft_tcp_er::congestion::{Available, Congestion, KernelConnection, NAME, choose, is_available};

const BYTES: usize = 1_000_000;
const BYTES_PER_S: u64 = 2_000_000;
/// Minimum duration of a transfer at the granted rate. The first burst and the socket's buffers pass at once.
const AT_LEAST: Duration = Duration::from_millis(250);

#[test]
fn it_is_there_while_held_and_obeys() {
    let lab = match Lab::new() {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: no namespaces here: {why}"),
    };
    let node = lab.node("alone").unwrap();
    let first = match Congestion::load() {
        Ok(congestion) => congestion,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    assert!(is_available(NAME));
    assert_eq!(choose(None).available, Available::ExplicitRate);

    let of_socket = node.run(|| transfer(IpAddr::V4(Ipv4Addr::LOCALHOST), Some(BYTES_PER_S))).unwrap().unwrap();
    assert!(of_socket >= AT_LEAST, "SO_MAX_PACING_RATE: {of_socket:?}");
    for to in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let of_map = granted(&node, &first, to);
        assert!(of_map >= AT_LEAST, "granted toward {to}: {of_map:?}");
    }
    let of_flow = node.run(|| transfer_by_flow(&first)).unwrap().unwrap();
    assert!(of_flow >= AT_LEAST, "granted to the connection: {of_flow:?}");
    let elsewhere = lab.node("elsewhere").unwrap();
    let free = node.run(|| {
        elsewhere
            .run(|| first.grants().set(IpAddr::V4(Ipv4Addr::LOCALHOST), 32, 1_000, monotonic_ns()).unwrap())
            .unwrap();
        transfer(IpAddr::V4(Ipv4Addr::LOCALHOST), None)
    });
    assert!(free.unwrap().unwrap() < Duration::from_secs(100), "another namespace's grant is not ours");

    // A second holder finds it, and is its only holder once the first is gone.
    let mut second = Congestion::load().unwrap();
    assert!(first.is_own() && !second.is_own());
    let of_map = granted(&node, &second, IpAddr::V4(Ipv4Addr::LOCALHOST));
    assert!(of_map >= AT_LEAST, "granted by the second: {of_map:?}");
    let stands = node.run(|| {
        transfer_told(IpAddr::V4(Ipv4Addr::LOCALHOST), None, |connection| {
            drop(first);
            assert!(!is_available(NAME));
            let because = choose(Some("gone")).because;
            assert_eq!(because.split_once(": "), Some((NAME, "gone")).filter(|_| is_available("bbr")));
            second.keep().unwrap();
            assert!(second.is_own() && is_available(NAME));
            second.grants().set_flow(connection, BYTES_PER_S, u64::MAX).map_err(io::Error::other)
        })
    });
    let stands = stands.unwrap().unwrap();
    assert!(stands >= AT_LEAST, "granted by the second to a connection that the first left: {stands:?}");
    drop(second);
    assert!(!is_available(NAME), "nothing stays behind");
}

/// Measures a transfer while the grant toward `to` is renewed.
fn granted(node: &NetNamespace, congestion: &Congestion, to: IpAddr) -> Duration {
    let over = AtomicBool::new(false);
    let length = if to.is_ipv4() { 8 } else { 128 };
    let renew = || congestion.grants().set(to, length, BYTES_PER_S, monotonic_ns()).unwrap();
    thread::scope(|scope| {
        node.run(renew).unwrap();
        let (over, renew) = (&over, &renew);
        scope.spawn(move || {
            node.run(|| {
                while !over.load(Ordering::Relaxed) {
                    renew();
                    thread::sleep(Duration::from_micros(50));
                }
                congestion.grants().clear(to, length).unwrap();
            })
        });
        let lasted = node.run(|| transfer(to, None));
        over.store(true, Ordering::Relaxed);
        lasted.unwrap().unwrap()
    })
}

/// Grants the connection itself a rate, and its destination a thousandth of it.
fn transfer_by_flow(congestion: &Congestion) -> io::Result<Duration> {
    let grants = congestion.grants();
    let to = IpAddr::V4(Ipv4Addr::LOCALHOST);
    grants.set(to, 32, BYTES_PER_S / 1_000, u64::MAX).map_err(io::Error::other)?;
    let lasted = transfer_told(to, None, |connection| {
        // The time of the grant is in the future, so that the grant does not expire.
        grants.set_flow(connection, BYTES_PER_S, u64::MAX).map_err(io::Error::other)
    });
    grants.clear(to, 32).map_err(io::Error::other)?;
    lasted
}

fn transfer(to: IpAddr, bytes_per_s: Option<u64>) -> io::Result<Duration> {
    transfer_told(to, bytes_per_s, |_| Ok(()))
}

/// Sends over loopback. Returns the time from the end of the setup until all bytes have arrived.
fn transfer_told(
    to: IpAddr,
    bytes_per_s: Option<u64>,
    tell: impl FnOnce(KernelConnection) -> io::Result<()>,
) -> io::Result<Duration> {
    let listener = TcpListener::bind(SocketAddr::new(to, 0))?;
    option(&listener, libc::IPPROTO_TCP, libc::TCP_CONGESTION, NAME.as_bytes())?;
    if let Some(bytes_per_s) = bytes_per_s {
        option(&listener, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_s.to_ne_bytes())?;
    }
    let mut receiver = TcpStream::connect(listener.local_addr()?)?;
    receiver.set_read_timeout(Some(Duration::from_secs(20)))?;
    // An accepted socket inherits the options of its listener.
    let (mut sender, remote) = listener.accept()?;
    tell(KernelConnection { local_port: listener.local_addr()?.port(), remote })?;
    let began = Instant::now();
    let sending = thread::spawn(move || sender.write_all(&vec![7; BYTES]));
    let mut all = Vec::new();
    receiver.read_to_end(&mut all)?;
    sending.join().map_err(|_| io::Error::other("the sender died"))??;
    assert_eq!(all.len(), BYTES);
    Ok(began.elapsed())
}

fn option(socket: &impl AsRawFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as `value` has, and `value` outlives the call.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), value.len() as libc::socklen_t)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) }, 0);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
