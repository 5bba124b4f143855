//! The two ends of connections, as processes in namespaces: this test program, started again.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use std::{env, thread};

/// Environment variable with the role of this process.
pub const ROLE: &str = "WEFT_SIGNAL_TEST_END";
/// Maximum time to wait for the other end.
const PATIENCE: Duration = Duration::from_secs(30);
/// Size of the buffer for sending and reception, in bytes.
const CHUNK: usize = 64 << 10;
/// Time at the start of a connection that the goodput does not count.
const START: Duration = Duration::from_millis(300);

/// Runs the end that the environment names, if it names one.
pub fn run() {
    let Ok(role) = env::var(ROLE) else { return };
    let words: Vec<&str> = role.split_whitespace().collect();
    match words[..] {
        ["sink", at] => sink(at.parse().unwrap()),
        ["send", to, ms] => send(to.parse().unwrap(), Some(b"weft_er"), Duration::from_millis(ms.parse().unwrap())),
        ["flood", to, ms] => send(to.parse().unwrap(), None, Duration::from_millis(ms.parse().unwrap())),
        ["connect", to, count] => connect(to.parse().unwrap(), count.parse().unwrap()),
        _ => panic!("no such end: {role}"),
    }
}

/// Receives all data, and prints the bytes and the goodput of each connection.
///
/// The goodput leaves out the start of the connection.
fn sink(at: SocketAddr) {
    let listener = TcpListener::bind(at).unwrap();
    println!("listening");
    for stream in listener.incoming() {
        thread::spawn(|| receive(stream.unwrap()));
    }
}

fn receive(mut stream: TcpStream) {
    let (mut chunk, began) = (vec![0; CHUNK], Instant::now());
    let (mut bytes, mut counted, mut first, mut last) = (0, 0, None, began);
    loop {
        let read = stream.read(&mut chunk).unwrap();
        if read == 0 {
            break;
        }
        bytes += read;
        if began.elapsed() > START {
            last = Instant::now();
            counted += if first.is_some() { read } else { 0 };
            first.get_or_insert(last);
        }
    }
    let time = first.map_or(0.0, |first| (last - first).as_secs_f64());
    println!("received {bytes} {:.2}", counted as f64 * 8e-6 / time);
    // The sender waits for this byte.
    let _ = stream.write_all(b"!");
}

/// Sends for a while with a congestion control, if the kernel has it.
///
/// Prints the connection time and the number of bytes.
fn send(to: SocketAddr, congestion: Option<&[u8]>, time: Duration) {
    let began = Instant::now();
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE).unwrap();
    let connected = began.elapsed();
    let chosen = congestion.map_or(-1, |name| {
        // SAFETY: pointer and length describe `name`, which outlives the call.
        unsafe {
            let (value, len) = (name.as_ptr().cast(), name.len() as libc::socklen_t);
            libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, value, len)
        }
    });
    let (chunk, mut bytes) = (vec![7; CHUNK], 0);
    let end = Instant::now() + time;
    while Instant::now() < end {
        bytes += write(&mut stream, &chunk).unwrap();
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let heard = stream.read(&mut [0; 1]).unwrap();
    println!("sent {bytes} connect {} weft_er {} end {heard}", connected.as_millis(), chosen == 0);
}

/// Connects a number of times in sequence, and prints the duration of each connection.
///
/// A connection lasts until the other end has closed it.
fn connect(to: SocketAddr, count: u32) {
    let began = Instant::now();
    for _ in 0..count {
        let mut stream = TcpStream::connect_timeout(&to, PATIENCE).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 1);
    }
    println!("connected {count} in {:.1} µs each", began.elapsed().as_secs_f64() * 1e6 / f64::from(count));
}

fn write(stream: &mut TcpStream, chunk: &[u8]) -> io::Result<usize> {
    stream.write_all(chunk).map(|()| chunk.len())
}
