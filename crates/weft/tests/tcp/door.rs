//! The hub's TCP port: peers, web clients, strangers that send random bytes, and callers through a proxy.

use crate::common::inside::{or_again, within};
use crate::common::line::{Line, LineSpec};
use crate::load;
use crate::nodes::{Nodes, answers, drop_tcp, drop_udp, shell};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Page of the hub's web server.
const PAGE: &str = "<h1>an ordinary page</h1>\n";
/// Address of the hub on the first link.
const DOOR: &str = "192.0.2.18:443";

/// Starts a web server in the hub's namespace, for as long as the test runs.
fn serve_web() {
    let listener = within("hub", || TcpListener::bind("127.0.0.1:8080").unwrap()).join().unwrap();
    thread::spawn(move || {
        for visitor in listener.incoming() {
            let mut visitor = visitor.unwrap();
            thread::spawn(move || {
                let _ = visitor.set_read_timeout(Some(Duration::from_secs(5)));
                let mut request = Vec::new();
                let mut byte = [0];
                while !request.ends_with(b"\r\n\r\n") && matches!(visitor.read(&mut byte), Ok(1)) {
                    request.push(byte[0]);
                }
                let ok = request.starts_with(b"GET / HTTP/1.1\r\n");
                let (status, page) = if ok { ("200 OK", PAGE) } else { ("400 Bad Request", "bad request\n") };
                let _ = write!(
                    visitor,
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
                    page.len()
                );
            });
        }
    });
}

/// Fetches the page as a browser would.
fn fetch() -> String {
    let args = ["netns", "exec", "home", "curl", "-sk", "--max-time", "5", "--tlsv1.3", "https://192.0.2.18/"];
    String::from_utf8(Command::new("ip").args(args).output().unwrap().stdout).unwrap()
}

/// Sends bytes in TLS, and returns the answer.
fn send_in_tls(bytes: &[u8]) -> Vec<u8> {
    let args = ["netns", "exec", "home", "openssl", "s_client", "-quiet", "-connect", DOOR];
    let mut command = Command::new("timeout");
    command.args(["5", "ip"]).args(args);
    let pipe = std::process::Stdio::piped;
    let mut child = command.stdin(pipe()).stdout(pipe()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let _ = input.write_all(bytes);
    let out = child.wait_with_output().unwrap();
    drop(input);
    out.stdout
}

fn connect() -> TcpStream {
    let stream = within("home", || TcpStream::connect(DOOR).unwrap()).join().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    stream
}

#[test]
fn peers_and_web_clients_share_the_port_and_strangers_get_the_page() {
    or_again("door::peers_and_web_clients_share_the_port_and_strangers_get_the_page", || {
        let (nodes, ()) = Nodes::start(1, "", "web = \"127.0.0.1:8080\"\n", || {
            drop_udp(1);
            serve_web();
        });
        nodes.wait_for_path("link1/tcp", "good");
        assert_eq!(fetch(), PAGE);
        assert!(answers());
        // A scanner that sends any data over TLS gets the web server's answer.
        for bytes in [&b"HELP\r\n\r\n"[..], b"\0\x10weft\r\n\r\n", b"SSH-2.0-scan\r\n\r\n"] {
            let answer = send_in_tls(bytes);
            assert!(answer.starts_with(b"HTTP/1.1 400 Bad Request"), "{}", answer.escape_ascii());
        }
        // Garbage instead of TLS ends in an alert (RFC 8446 §6).
        let mut stream = connect();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!((answer.first(), answer.len()), (Some(&21), 7), "{}", answer.escape_ascii());
        assert!(answers() && fetch() == PAGE);
    });
}

#[test]
fn silent_strangers_take_no_place_from_others_for_long() {
    or_again("door::silent_strangers_take_no_place_from_others_for_long", || {
        let (nodes, ()) = Nodes::start(1, "", "", || drop_udp(1));
        nodes.wait_for_path("link1/tcp", "good");
        let before = nodes.hub.rss_kib();
        let mut strangers: Vec<TcpStream> = (0..600).map(|_| connect()).collect();
        // Half of them begin a TLS record that never ends.
        for stranger in strangers.iter_mut().step_by(2) {
            let _ = stranger.write_all(&[22, 3, 1, 0x40, 0, 1]);
        }
        assert!(fetch().contains("Not Found"), "the last one is served");
        assert!(answers());
        let start = Instant::now();
        let mut last = strangers.pop().unwrap();
        assert_eq!(last.read(&mut [0]).unwrap_or(0), 0, "a silent stranger is dropped");
        assert!((5..15).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
        let grown = nodes.hub.rss_kib() - before;
        assert!(grown < 32_768, "{grown} KiB more");
        drop(strangers);
        assert!(answers());
    });
}

/// Starts an HTTP proxy in the hub's namespace that knows only CONNECT. Returns its requests.
fn serve_proxy() -> std::sync::mpsc::Receiver<String> {
    let listener = within("hub", || TcpListener::bind("192.0.2.18:3128").unwrap()).join().unwrap();
    let (sender, requests) = std::sync::mpsc::channel();
    let _ = within("hub", move || {
        for client in listener.incoming() {
            let (mut client, sender) = (client.unwrap(), sender.clone());
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && matches!(client.read(&mut byte), Ok(1)) {
                request.push(byte[0]);
            }
            let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
            let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
            let _ = sender.send(line);
            let mut server = TcpStream::connect(target).unwrap();
            client.write_all(b"HTTP/1.1 200 Connection established\r\nVia: 1.1 proxy\r\n\r\n").unwrap();
            let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
            thread::spawn(move || std::io::copy(&mut server, &mut client));
        }
    });
    requests
}

#[test]
fn a_proxy_makes_the_connections_where_one_is_required() {
    or_again("door::a_proxy_makes_the_connections_where_one_is_required", || {
        let link = "[[link]]\nname = \"link1\"\ntcp-fallback = \"always\"\nhttp-proxy = \"192.0.2.18:3128\"\n";
        let (nodes, requests) = Nodes::start(1, link, "", || {
            // Only the proxy can be reached.
            shell(
                "ip netns exec hub nft 'add table inet filter; add chain inet filter in { type filter hook prerouting priority -300; }; \
                 add rule inet filter in iifname link1 tcp dport != 3128 drop; add rule inet filter in iifname link1 meta l4proto udp drop'",
            );
            serve_proxy()
        });
        nodes.wait_for_path("link1/tcp", "good");
        assert!(answers());
        assert_eq!(requests.recv_timeout(Duration::from_secs(1)).unwrap(), "CONNECT 192.0.2.18:443 HTTP/1.1");
        assert_eq!(nodes.path("link1"), None, "never by UDP");
    });
}

#[test]
fn a_link_with_tcp_alone_joins_one_with_udp_and_slows_it_never() {
    or_again("door::a_link_with_tcp_alone_joins_one_with_udp_and_slows_it_never", || {
        let spec = |mbit, ms| LineSpec {
            bits_per_s: mbit * 1e6,
            delay: Duration::from_millis(ms),
            loss: 0.0,
            queue: Duration::from_millis(100),
        };
        let (nodes, _lines) = Nodes::start(0, "", "", || {
            let lines = [Line::start("link1", 16, spec(30.0, 10)), Line::start("link2", 32, spec(20.0, 20))];
            drop_tcp(1);
            drop_udp(2);
            lines
        });
        nodes.wait_for_path("link1", "good");
        nodes.wait_for_path("link2/tcp", "good");
        let both = load(6).0;
        shell("ip -n home link set link2 down");
        nodes.wait_for_end_of_path("link2/tcp");
        let alone = load(6).0;
        println!("UDP alone {alone:.1} Mbit/s, with TCP beside it {both:.1} Mbit/s");
        assert!(both >= alone && both >= 1.25 * alone, "{both} {alone}");
    });
}
