//! Requests that the server refuses, and clients that waste its time.

mod common;

use common::node::FakeNode;
use common::{Server, status_of};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use weft_web::{BODY_PATIENCE, HEAD_PATIENCE, MAX_BODY};

/// Headers that each answer has, whether it is a refusal or not.
const EVERY_ANSWER: [&str; 4] =
    ["content-security-policy: default-src 'none'", "cache-control: no-store", "nosniff", "frame-ancestors 'none'"];
const CHANGES: [&str; 5] = ["/api/set", "/api/confirm", "/api/undo", "/api/invite", "/api/withdraw"];

#[test]
fn what_lacks_the_token_host_or_origin_gets_nothing_of_the_node() {
    let node = FakeNode::start(4);
    let server = Server::start(&node.control, &["--allow-changes"]);
    let right = server.token.clone();
    let wrong_token = {
        let right = right.clone();
        prop_oneof![
            Just(String::new()),
            "Authorization: Bearer [A-Za-z0-9_-]{1,60}\r\n",
            "Authorization: (Basic|Digest|Token) [A-Za-z0-9=]{1,60}\r\n",
            // A cookie or a query is no token.
            Just(format!("Cookie: token={right}\r\n")),
            (0usize..42).prop_map(move |at| format!("Authorization: Bearer {}\r\n", &right[..at])),
        ]
    };
    let wrong_host = prop_oneof![
        Just(String::new()),
        "Host: [a-z]{1,8}\\.example(:[0-9]{2,4})?\r\n",
        "Host: 127\\.0\\.0\\.1\\.[a-z]{2,6}\r\n",
        "Host: (192\\.0\\.2\\.[1-9]|\\[2001:db8::[1-9]\\])\r\n",
        Just(format!("Host: {host}\r\nHost: {host}\r\n", host = server.host)),
    ];
    let wrong_origin = prop_oneof![
        "Origin: https?://[a-z]{1,8}\\.example\r\n",
        Just("Origin: null\r\n".to_owned()),
        Just("Origin: http://127.0.0.1:1\r\n".to_owned()),
        Just(format!("Origin: https://{}\r\n", server.host)),
    ];
    let method = prop_oneof!["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "HEAD", "[A-Z]{3,8}"]
        .prop_filter("answered", |method| method != "GET" && method != "POST");
    let drawn = (wrong_token, wrong_host, wrong_origin, method, 0usize..4, prop::sample::select(CHANGES.to_vec()));
    let mut runner = TestRunner::new(Config { cases: 200, ..Config::default() });
    let asked = node.asked.load(Ordering::Relaxed);
    let result = runner.run(&drawn, |(token, host, origin, method, which, change)| {
        let right_host = format!("Host: {}\r\n", server.host);
        let right_origin = format!("Origin: http://{}\r\n", server.host);
        let right_token = format!("Authorization: Bearer {}\r\n", server.token);
        for (verb, path) in [("GET", "/api/live"), ("POST", change)] {
            let (verb, host, origin, token) = match which {
                0 => (verb, &right_host, &right_origin, &token),
                1 => (verb, &host, &right_origin, &right_token),
                2 => (verb, &right_host, &origin, &right_token),
                _ => (method.as_str(), &right_host, &right_origin, &right_token),
            };
            let request = format!(
                "{verb} {path} HTTP/1.1\r\n{host}{origin}{token}Connection: close\r\nContent-Length: 2\r\n\r\n{{}}"
            );
            let answer = server.exchange(&request);
            let expected: &[u16] = [&[401][..], &[400, 403], &[403], &[405]][which];
            prop_assert!(expected.contains(&status_of(&answer)), "{request}: {answer}");
            prop_assert!(!answer.contains("event-stream") && !answer.contains("weft0"), "{request}: {answer}");
        }
        Ok(())
    });
    result.unwrap();
    assert_eq!(node.asked.load(Ordering::Relaxed), asked, "nothing was asked of the node");
}

#[test]
fn each_answer_forbids_foreign_content_and_storage() {
    let node = FakeNode::start(1);
    let server = Server::start(&node.control, &[]);
    for path in ["/", "/page.js", "/page.css", "/views.js", "/table.js", "/map.js", "/changes.js", "/icon.svg"] {
        let (status, answer) = server.request("GET", path, "");
        assert_eq!(status, 200, "{path}");
        assert!(EVERY_ANSWER.iter().all(|text| answer.contains(text)), "{path}: {answer}");
        assert!(!answer.contains("set-cookie") && !answer.contains("access-control"), "{path}");
        // A script or style within the document would need an exception of the policy.
        let active = [" onclick=", " onload=", " style=", "<style", "javascript:", "://cdn"];
        assert!(path != "/" || !active.iter().any(|text| answer.contains(text)), "{path}");
    }
    for (method, path) in
        [("GET", "/api/nothing"), ("POST", "/"), ("GET", "/../Cargo.toml"), ("GET", "/page/index.html")]
    {
        let (status, answer) = server.request(method, path, "");
        assert!(status == 404 || status == 405, "{path}: {answer}");
        assert!(EVERY_ANSWER.iter().all(|text| answer.contains(text)), "{path}: {answer}");
    }
}

#[test]
fn a_page_that_only_shows_changes_nothing() {
    let node = FakeNode::start(1);
    let server = Server::start(&node.control, &[]);
    for path in CHANGES {
        let (status, answer) = server.request("POST", path, "{}");
        assert!(status == 403 && answer.contains("--allow-changes"), "{answer}");
    }
}

#[test]
fn a_body_that_is_too_long_or_no_request_is_refused() {
    let node = FakeNode::start(1);
    let server = Server::start(&node.control, &["--allow-changes"]);
    let long = format!("{{\"key\":\"{}\"}}", "a".repeat(MAX_BODY));
    assert_eq!(server.request("POST", "/api/set", &long).0, 413);
    // Without its length in the head, the same body is cut off while it arrives.
    let head = format!(
        "POST /api/set HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
        server.token,
        host = server.host
    );
    let chunks = "400\r\n".to_owned() + &"a".repeat(0x400) + "\r\n";
    assert_eq!(status_of(&server.exchange(&(head + &chunks.repeat(20) + "0\r\n\r\n"))), 413);
    let head = format!("GET / HTTP/1.1\r\nHost: {}\r\nX: {}\r\n\r\n", server.host, "a".repeat(200_000));
    assert!(matches!(status_of(&server.exchange(&head)), 0 | 431), "a head without end");
    let mut runner = TestRunner::new(Config { cases: 64, ..Config::default() });
    let bodies = prop_oneof![
        "[ -~]{0,80}",
        "\\{\"(key|value|file)\":[0-9]{1,3}\\}",
        "\\[\\]",
        "\\{\"key\":\"a\",\"command\":\"down\"\\}"
    ];
    let result = runner.run(&bodies, |body| {
        let (status, answer) = server.request("POST", "/api/set", &body);
        prop_assert_eq!(status, 400, "{}: {}", body, answer);
        Ok(())
    });
    result.unwrap();
}

#[test]
fn clients_that_send_slowly_make_room_for_others() {
    let node = FakeNode::start(1);
    let server = Server::start(&node.control, &["--allow-changes"]);
    let begin = Instant::now();
    // More clients than the server accepts at once. Some send nothing, some stop within the head, some within the
    // body.
    let slow: Vec<_> = (0..96)
        .map(|number| {
            let mut stream = server.connect();
            let head = format!(
                "POST /api/set HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nAuthorization: Bearer {}\r\n\
                 Content-Length: 9\r\n\r\n{{",
                server.token,
                host = server.host
            );
            let text = ["", "GET / HTTP/1.1\r\nHost: ", &head][number % 3];
            let _ = stream.write_all(text.as_bytes());
            stream
        })
        .collect();
    assert_eq!(server.request("GET", "/", "").0, 200);
    let waited = begin.elapsed();
    // The server must first disconnect two rounds of the slow clients.
    let longest = 2 * HEAD_PATIENCE.max(BODY_PATIENCE) + Duration::from_secs(8);
    assert!(waited >= HEAD_PATIENCE && waited < longest, "{waited:?}");
    for mut stream in slow {
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

/// Returns the resident memory of a process, in KiB.
fn resident(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let field = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    field.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_browser_that_does_not_read_holds_up_no_other_and_takes_no_memory() {
    let node = FakeNode::start(1_000);
    let server = Server::start(&node.control, &[]);
    let subscribe = |host: &str, token: &str| {
        format!("GET /api/live HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n")
    };
    let request = subscribe(&server.host, &server.token);
    let mut idle: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for stream in &mut idle {
        stream.write_all(request.as_bytes()).unwrap();
    }
    let mut reader = server.connect();
    reader.write_all(request.as_bytes()).unwrap();
    let count = |reader: &mut std::net::TcpStream, events: usize| {
        let (mut seen, mut buffer, mut last) = (0, vec![0; 1 << 20], [0; 1]);
        while seen < events {
            let length = reader.read(&mut buffer).unwrap();
            assert!(length > 0, "the server has closed");
            let text = [&last[..], &buffer[..length]].concat();
            seen += text.windows(2).filter(|pair| pair == b"\n\n").count();
            last = [buffer[length - 1]];
        }
    };
    count(&mut reader, 3);
    let (before, asked) = (resident(server.id()), node.asked.load(Ordering::Relaxed));
    let begin = Instant::now();
    count(&mut reader, 8);
    assert!(begin.elapsed() < Duration::from_secs(16), "{:?}", begin.elapsed());
    let polls = node.asked.load(Ordering::Relaxed) - asked;
    assert!(polls <= 12, "one poll serves all browsers: {polls}");
    let grown = resident(server.id()).saturating_sub(before);
    // An event has half a megabyte. Twenty browsers that queued eight events each would take 80 MB.
    assert!(grown < 24 << 10, "{grown} KiB more");
    for stream in &idle {
        let _ = stream.shutdown(Shutdown::Both);
    }
    drop(reader);
    // Without a browser the node is left alone.
    thread::sleep(Duration::from_secs(3));
    let asked = node.asked.load(Ordering::Relaxed);
    thread::sleep(Duration::from_secs(3));
    assert_eq!(node.asked.load(Ordering::Relaxed), asked);
}

#[test]
fn a_socket_file_serves_the_same_page_and_goes_with_the_program() {
    let node = FakeNode::start(1);
    let dir = common::Dir::new();
    let path = dir.path("web.sock");
    // A socket that a killed program left is replaced.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let mut server = common::socket_server(&node.control, &path);
    let ask = |request: &str| {
        let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        status_of(&answer)
    };
    assert_eq!(ask("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 200);
    assert_eq!(ask("GET /api/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 401);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    std::process::Command::new("kill").arg(server.id().to_string()).status().unwrap();
    assert!(server.wait().unwrap().success());
    assert!(!path.exists());
}
