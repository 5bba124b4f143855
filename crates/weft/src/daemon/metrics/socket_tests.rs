//! Tests of the endpoint over TCP on loopback, with a stand-in for the packet loop (`datapath`) that counts queries.

use super::*;
use crate::daemon::control::Task;
use crate::daemon::log::{Level, Log};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weft_io::wait::Waker;

/// Starts an endpoint. Returns its address and the counter of snapshots.
fn endpoint() -> (SocketAddr, Arc<AtomicU64>) {
    let (tasks, asked) = TaskSender::channel(Arc::new(Waker::new().unwrap()));
    let snapshots = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&snapshots);
    thread::spawn(move || {
        for task in asked {
            let Task::Answer(Request::Status, reply) = task else { panic!("asked for something else") };
            let uptime_s = counter.fetch_add(1, Ordering::Relaxed);
            let status = serde_json::json!({
                "schema": 1, "version": "0", "public_key": "", "tun": "", "uptime_s": uptime_s, "inner_mtu": 1_400, "links": [],
                "peers": [], "vpns": [], "proxy": null, "rejected_datagrams": 0, "unroutable_packets": 0,
                "buffers_in_use": 0, "buffers_peak": 0, "no_buffer_drops": 0, "socket_full_drops": 0,
            });
            reply.send(Response::Status(Box::new(serde_json::from_value(status).unwrap()))).unwrap();
        }
    });
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let threads = Threads::start(Log::new(Level::Error), || ()).unwrap();
    let server = MetricsServer::start(&MetricsAddress::Loopback(port), tasks, &threads).unwrap();
    std::mem::forget(server);
    (port, snapshots)
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Returns all that the client receives, or empty if the server disconnects it.
fn answer(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    // A client that is disconnected may see a reset.
    let _ = stream.read_to_end(&mut text);
    String::from_utf8(text).unwrap()
}

fn ask(to: SocketAddr, request: &str) -> String {
    let mut stream = connect(to);
    let _ = stream.write_all(request.as_bytes());
    answer(stream)
}

/// Connects a client that sends nothing.
///
/// It tries again while the server has not yet noticed the end of an earlier client.
fn silent(to: SocketAddr) -> TcpStream {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        let stream = connect(to);
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let is_turned_away = stream.peek(&mut [0]).is_ok_and(|len| len == 0);
        if !is_turned_away {
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            return stream;
        }
    }
    panic!("nobody is let in");
}

fn scrape(to: SocketAddr) -> String {
    ask(to, "GET /metrics HTTP/1.1\r\nHost: localhost:9469\r\n\r\n")
}

/// Scrapes until an answer arrives: the server may not yet have noticed the end of an earlier client.
fn scrape_patiently(to: SocketAddr) -> String {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let text = scrape(to);
        if !text.is_empty() || Instant::now() > until {
            return text;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_foreign_host_name_gets_no_metrics() {
    let (at, snapshots) = endpoint();
    for host in ["evil.example", "evil.example:9469", "localhost.evil.example"] {
        let text = ask(at, &format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(text.starts_with("HTTP/1.1 421 ") && !text.contains("weft_"), "{host}: {text}");
    }
    let text = ask(at, "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
    assert_eq!(snapshots.load(Ordering::Relaxed), 0, "the datapath was not asked");
    assert!(scrape_patiently(at).starts_with("HTTP/1.1 200 "));
}

#[test]
fn however_often_it_is_scraped_one_snapshot_a_second_is_taken() {
    let (at, snapshots) = endpoint();
    let began = Instant::now();
    let scrapes = thread::scope(|scope| {
        let threads = [(); 3].map(|()| {
            scope.spawn(|| {
                let mut scrapes = Vec::new();
                while began.elapsed() < Duration::from_millis(1_400) {
                    scrapes.push(scrape(at));
                }
                scrapes
            })
        });
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    let most = 1 + began.elapsed().as_secs();
    let taken = snapshots.load(Ordering::Relaxed);
    assert!(scrapes.len() > 20 && (2..=most).contains(&taken), "{} scrapes, {taken} snapshots", scrapes.len());
    let mut different: Vec<_> = scrapes.iter().filter(|text| !text.is_empty()).collect();
    different.sort();
    different.dedup();
    assert_eq!(different.len() as u64, taken, "the same answer within a second");
}

#[test]
fn a_request_without_end_and_clients_beyond_the_fourth_are_turned_away() {
    let (at, snapshots) = endpoint();
    let long = ask(at, &format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(8 << 10)));
    assert!(long.is_empty() || long.starts_with("HTTP/1.1 431 "), "{long}");
    assert!(scrape_patiently(at).starts_with("HTTP/1.1 200 "));
    let began = Instant::now();
    let silent: Vec<_> = (0..MAX_CLIENTS).map(|_| silent(at)).collect();
    assert_eq!(scrape(at), "", "there is no fifth");
    assert!(began.elapsed() < Duration::from_secs(2), "it is turned away at once");
    // A silent client has five seconds in all.
    for stream in silent {
        assert_eq!(answer(stream), "");
    }
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert!(scrape_patiently(at).starts_with("HTTP/1.1 200 "));
    assert!(snapshots.load(Ordering::Relaxed) <= 2);
}
