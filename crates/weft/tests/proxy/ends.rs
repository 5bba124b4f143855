//! The two ends of transfers, as processes in namespaces: this test program, started again.

use crate::plan::{End, Plan, fill};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, thread};

/// Environment variable with the role of this process.
pub const ROLE: &str = "WEFT_PROXY_TEST_END";
/// Maximum time to wait for the other end.
///
/// *Derived*: TCP never retransmits a reset. If the tunnel of a busy machine drops one, the first keepalive probe of the
/// idle leg, after 120 s, is answered with another.
const PATIENCE: Duration = Duration::from_secs(150);
/// Duration of a receiver's pause.
const REST: Duration = Duration::from_millis(250);
/// Size of the buffer for sending and reception, in bytes.
const CHUNK: usize = 16 << 10;

/// Runs the end that the environment names. Returns false if there is none.
pub fn run() -> bool {
    let Ok(role) = env::var(ROLE) else { return false };
    let words: Vec<&str> = role.split_whitespace().collect();
    let number = |i: usize| words[i].parse::<u64>().unwrap();
    match words[0] {
        "serve" => serve(words[1].parse().unwrap(), number(2)),
        "transfer" => transfer(words[1].parse().unwrap(), number(2), number(3), number(4)),
        "echo" => echo(words[1].parse().unwrap()),
        "hold" => hold(words[1].parse().unwrap(), number(2) as usize, number(3)),
        "ask" => println!("{}", ask(words[1].parse().unwrap())),
        "drain" => drain(words[1].parse().unwrap()),
        "pour" => pour(words[1].parse().unwrap(), number(2), number(3)),
        "pace" => pace(words[1].parse().unwrap(), number(2), number(3)),
        other => panic!("no such end: {other}"),
    }
    true
}

/// Plays one end of a planned transfer after the greeting.
///
/// Returns an error if something differs from the plan.
fn play(stream: &TcpStream, plan: &Plan, me: End) -> Result<(), String> {
    let you = if me == End::Client { End::Server } else { End::Client };
    let resets = plan.reset.filter(|(who, _)| *who == me).map(|(_, after)| after);
    let is_reset = plan.resets(you);
    let ((sent, received), first) = thread::scope(|scope| {
        if me == End::Server && plan.answers {
            let received = receive(stream, plan, you);
            return ((send(stream, plan, me, resets), received), "receive");
        }
        let receiver = scope.spawn(|| receive(stream, plan, you));
        let sent = send(stream, plan, me, resets);
        ((sent, receiver.join().unwrap()), "both")
    });
    if resets.is_some() {
        // This end did its part. The other end judges.
        return Ok(());
    }
    match (is_reset, &sent, &received) {
        (false, Ok(()), Ok(())) => Ok(()),
        (true, _, Err(Trouble::Reset)) => Ok(()),
        // The kernel reports the reset to the first call alone. Later calls see the end of the stream.
        (true, Err(Trouble::Reset), Ok(()) | Err(Trouble::Eof)) => Ok(()),
        _ => Err(format!("{me:?}: sent {sent:?}, received {received:?} ({first}), {plan:?}")),
    }
}

#[derive(Debug)]
enum Trouble {
    Reset,
    /// The stream ended in order although a reset was planned.
    Eof,
    #[expect(dead_code, reason = "shown with the failure")]
    Wrong(String),
}

fn trouble(why: &io::Error) -> Trouble {
    match why.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Trouble::Reset,
        _ => Trouble::Wrong(why.to_string()),
    }
}

fn send(stream: &TcpStream, plan: &Plan, me: End, resets: Option<usize>) -> Result<(), Trouble> {
    let sending = plan.sending(me);
    let until = resets.unwrap_or(sending.len);
    let (mut at, mut buffer) = (0, vec![0; CHUNK]);
    while at < until {
        let urgent = sending.urgent.filter(|urgent| *urgent >= at);
        let stop = urgent.map_or(until, |urgent| if urgent == at { at + 1 } else { urgent.min(until) });
        let chunk = &mut buffer[..(stop - at).min(CHUNK)];
        fill(plan.seed, me, at, chunk);
        let flags = libc::MSG_NOSIGNAL | if urgent == Some(at) { libc::MSG_OOB } else { 0 };
        // SAFETY: the descriptor is open; pointer and length describe `chunk`.
        let sent = unsafe { libc::send(stream.as_raw_fd(), chunk.as_ptr().cast(), chunk.len(), flags) };
        match usize::try_from(sent) {
            Ok(sent) => at += sent,
            Err(_) => return Err(trouble(&io::Error::last_os_error())),
        }
    }
    match resets {
        None => stream.shutdown(std::net::Shutdown::Write).map_err(|why| trouble(&why)),
        Some(_) => {
            let linger = libc::linger { l_onoff: 1, l_linger: 0 };
            let len = size_of::<libc::linger>() as libc::socklen_t;
            let value = (&raw const linger).cast();
            // SAFETY: the descriptor is open; pointer and length describe `linger`.
            unsafe { libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, value, len) };
            // Disconnecting resets at once, even while another thread reads.
            let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as _, sa_data: [0; 14] };
            let len = size_of::<libc::sockaddr>() as libc::socklen_t;
            // SAFETY: the descriptor is open; pointer and length describe `nowhere`.
            unsafe { libc::connect(stream.as_raw_fd(), &raw const nowhere, len) };
            Ok(())
        }
    }
}

/// Reads to the end, and checks every byte and the place of the urgent byte.
fn receive(stream: &TcpStream, plan: &Plan, from: End) -> Result<(), Trouble> {
    let sending = plan.sending(from);
    let (mut at, mut marks) = (0, Vec::new());
    let (mut buffer, mut expected) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut stall = sending.stall;
    loop {
        if stall.take_if(|stall| at >= *stall).is_some() {
            thread::sleep(REST);
        }
        if is_at_mark(stream)? {
            marks.push(at);
        }
        let len = { stream }.read(&mut buffer).map_err(|why| trouble(&why))?;
        if len == 0 {
            break;
        }
        let expected = &mut expected[..len];
        fill(plan.seed, from, at, expected);
        if at + len > sending.len || buffer[..len] != *expected {
            return Err(Trouble::Wrong(format!("other bytes than were sent, between {at} and {}", at + len)));
        }
        at += len;
    }
    let urgent: Vec<usize> = sending.urgent.into_iter().collect();
    match at == sending.len && marks == urgent {
        true => Ok(()),
        false if plan.reset.is_some() => Err(Trouble::Eof),
        false => Err(Trouble::Wrong(format!("ended after {at} of {} with marks {marks:?}", sending.len))),
    }
}

/// Returns true at the urgent mark.
///
/// Waits for data first, because the mark is known only when its byte arrives.
fn is_at_mark(stream: &TcpStream) -> Result<bool, Trouble> {
    let mut poll = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: `poll` is one entry that lives until the call returns.
    if unsafe { libc::poll(&raw mut poll, 1, PATIENCE.as_millis() as i32) } == 0 {
        return Err(Trouble::Wrong("nothing came".to_owned()));
    }
    let mut is_at: libc::c_int = 0;
    // SAFETY: SIOCATMARK writes one int.
    unsafe { libc::ioctl(stream.as_raw_fd(), 0x8905, &raw mut is_at) };
    Ok(is_at != 0)
}

fn set_up(stream: &TcpStream) {
    let one: libc::c_int = 1;
    let value = (&raw const one).cast();
    // SAFETY: the descriptor is open; pointer and length describe `one`.
    unsafe { libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_OOBINLINE, value, 4) };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
}

/// Plays the server in `count` transfers.
fn serve(at: SocketAddr, count: u64) {
    let listener = TcpListener::bind(at).unwrap();
    println!("ready");
    let bad = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..count {
            let (mut stream, _) = listener.accept().unwrap();
            let bad = &bad;
            scope.spawn(move || {
                set_up(&stream);
                let mut seed = [0; 8];
                let greeted = stream.read_exact(&mut seed).and_then(|()| stream.write_all(b"!"));
                let result = match greeted {
                    Ok(()) => play(&stream, &Plan::of(u64::from_le_bytes(seed)), End::Server),
                    Err(why) => Err(format!("no greeting: {why}")),
                };
                if let Err(why) = result {
                    bad.fetch_add(1, Ordering::Relaxed);
                    println!("bad: {why}");
                }
            });
        }
    });
    println!("served {count}, bad {}", bad.into_inner());
}

/// Plays the client in `count` transfers with seeds from `seed` on, `at_once` of them at the same time.
fn transfer(to: SocketAddr, count: u64, seed: u64, at_once: u64) {
    let (next, bad) = (AtomicU64::new(0), AtomicU64::new(0));
    let one = |seed: u64| -> Result<(), String> {
        let mut stream = TcpStream::connect(to).map_err(|why| format!("connect: {why}"))?;
        set_up(&stream);
        let mut greeting = [0];
        let greeted = stream.write_all(&seed.to_le_bytes()).and_then(|()| stream.read_exact(&mut greeting));
        let plan = Plan::of(seed);
        match greeted {
            // A reset may overtake the data sent before it.
            Err(why) if why.kind() == ErrorKind::ConnectionReset && plan.resets(End::Server) => return Ok(()),
            greeted => greeted.map_err(|why| format!("no greeting: {why}, {plan:?}"))?,
        }
        play(&stream, &plan, End::Client)
    };
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= count {
                        return;
                    }
                    if let Err(why) = one(seed + i) {
                        bad.fetch_add(1, Ordering::Relaxed);
                        println!("bad: {why}");
                    }
                }
            });
        }
    });
    println!("made {count}, bad {}", bad.into_inner());
}

/// Sends every client the port that it appears to have, then echoes its data.
fn echo(at: SocketAddr) {
    let listener = TcpListener::bind(at).unwrap();
    raise_descriptors();
    println!("ready");
    // SAFETY: the call takes no pointers.
    let epoll = unsafe { libc::epoll_create1(0) };
    let add = |fd: i32| {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: fd as u64 };
        // SAFETY: `event` lives until the call returns.
        unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    };
    listener.set_nonblocking(true).unwrap();
    add(listener.as_raw_fd());
    let mut clients = std::collections::HashMap::new();
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; 256];
    let mut buffer = [0; 4_096];
    loop {
        // SAFETY: `events` has space for the given number of entries.
        let ready = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), 256, -1) };
        for event in events.iter().take(usize::try_from(ready).unwrap_or(0)).map(|event| event.u64 as i32) {
            if event == listener.as_raw_fd() {
                while let Ok((mut stream, from)) = listener.accept() {
                    if stream.write_all(format!("{:5}", from.port()).as_bytes()).is_ok() {
                        add(stream.as_raw_fd());
                        clients.insert(stream.as_raw_fd(), stream);
                    }
                }
            } else if let Some(stream) = clients.get_mut(&event) {
                let is_over = match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => true,
                    Ok(len) => stream.write_all(&buffer[..len]).is_err(),
                };
                if is_over {
                    clients.remove(&event);
                }
            }
        }
    }
}

/// Connects and prints whether the server sees this process's port: `plain`, `proxied`, or an error.
fn ask(to: SocketAddr) -> String {
    let asked = || -> io::Result<&'static str> {
        let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut port = [0; 5];
        stream.read_exact(&mut port)?;
        let same = String::from_utf8_lossy(&port).trim() == stream.local_addr()?.port().to_string();
        Ok(if same { "plain" } else { "proxied" })
    };
    asked().map_or_else(|why| format!("{:?}", why.kind()), str::to_owned)
}

/// Holds `count` connections open for `ms`, and prints when the last of them was reset, if they were.
fn hold(to: SocketAddr, count: usize, ms: u64) {
    raise_descriptors();
    let mut held = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.read_exact(&mut [0; 5]).unwrap();
        held.push(stream);
    }
    println!("held {count}");
    let reset = AtomicUsize::new(0);
    let last = AtomicU64::new(0);
    let until = SystemTime::now() + Duration::from_millis(ms);
    while SystemTime::now() < until && reset.load(Ordering::Relaxed) < count {
        for stream in &mut held {
            stream.set_nonblocking(true).unwrap();
            match stream.read(&mut [0; 16]) {
                Err(why) if why.kind() == ErrorKind::WouldBlock => {}
                Err(why) if why.kind() == ErrorKind::ConnectionReset => {
                    reset.fetch_add(1, Ordering::Relaxed);
                    last.store(
                        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64,
                        Ordering::Relaxed,
                    );
                }
                _ => {}
            }
        }
        thread::sleep(Duration::from_micros(5 * count as u64));
    }
    println!("reset {} by {}", reset.into_inner(), last.into_inner());
}

/// Makes `count` connections evenly over `ms`, and prints the answer times.
///
/// It exchanges a byte on each connection and closes it.
fn pace(to: SocketAddr, count: u64, ms: u64) {
    let began = std::time::Instant::now();
    let each = Duration::from_millis(ms) / count as u32;
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut took: Vec<Duration> = thread::scope(|scope| {
        let workers: Vec<_> = (0..32)
            .map(|_| {
                scope.spawn(|| {
                    let mut took = Vec::new();
                    loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        if i >= count {
                            return took;
                        }
                        let due = began + each * i as u32;
                        thread::sleep(due.saturating_duration_since(std::time::Instant::now()));
                        let start = std::time::Instant::now();
                        let exchange = || -> io::Result<()> {
                            let mut stream = TcpStream::connect(to)?;
                            stream.set_read_timeout(Some(PATIENCE))?;
                            stream.write_all(b"?")?;
                            stream.read_exact(&mut [0; 6])
                        };
                        match exchange() {
                            Ok(()) => took.push(start.elapsed()),
                            Err(_) => drop(failed.fetch_add(1, Ordering::Relaxed)),
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    took.sort_unstable();
    let at = |part: usize| took.get(took.len() * part / 100).copied().unwrap_or_default();
    let rate = took.len() as f64 / began.elapsed().as_secs_f64();
    println!(
        "connected {} failed {} at {rate:.0}/s, median {:?}, p99 {:?}",
        took.len(),
        failed.into_inner(),
        at(50),
        at(99)
    );
}

/// Reads and discards all data.
fn drain(at: SocketAddr) {
    let listener = TcpListener::bind(at).unwrap();
    println!("ready");
    for mut stream in listener.incoming().flatten() {
        thread::spawn(move || io::copy(&mut stream, &mut io::sink()));
    }
}

/// Sends as fast as possible on each of `count` connections for `ms`.
fn pour(to: SocketAddr, count: u64, ms: u64) {
    let until = SystemTime::now() + Duration::from_millis(ms);
    let streams: Vec<TcpStream> = (0..count).map(|_| TcpStream::connect(to).unwrap()).collect();
    println!("poured on {count}");
    thread::scope(|scope| {
        for mut stream in streams {
            scope.spawn(move || {
                set_up(&stream);
                while SystemTime::now() < until && stream.write_all(&[0; CHUNK]).is_ok() {}
            });
        }
    });
}

fn raise_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives until the call returns.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` lives until the call returns.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
}
