//! The subset of HTTP/1.1 (RFC 9112) that a scrape needs.
//!
//! A connection carries one request, which is bounded in bytes and in time.

use super::hosts::Hosts;
use super::text::CONTENT_TYPE;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum length of a request with all its headers, in bytes.
const MAX_REQUEST: usize = 8 << 10;
/// Maximum time for a whole exchange, from the connection to the end of the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client's connection to the metrics endpoint.
pub trait Stream: Read + Write + Send {
    /// Sets the maximum time of each following read or write.
    fn set_timeout(&self, timeout: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout)).and_then(|()| self.set_write_timeout(Some(timeout)))
    }
}

impl Stream for UnixStream {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout)).and_then(|()| self.set_write_timeout(Some(timeout)))
    }
}

/// Answer to a request for the metrics.
pub enum MetricsAnswer {
    /// The metrics as text.
    Metrics(String),
    /// The reason why there are no metrics at present.
    Unavailable(String),
}

/// The parsed request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HttpRequest {
    Metrics { with_body: bool },
    Refused(&'static str),
}

/// Reads a request and answers it. `hosts` are the host names under which the endpoint answers.
///
/// # Errors
/// Returns an error if the client is too slow, or has disconnected.
pub fn exchange(mut stream: impl Stream, hosts: Hosts, metrics: impl FnOnce() -> Arc<MetricsAnswer>) -> io::Result<()> {
    let mut deadline = Deadline(Instant::now() + PATIENCE);
    let asked = match read_head(&mut stream, &deadline)? {
        Some(head) => parse(&head, hosts),
        None => HttpRequest::Refused("431 Request Header Fields Too Large"),
    };
    let (status, content_type, body, with_body) = match asked {
        HttpRequest::Refused(status) => (status, "text/plain", format!("{status}\n"), true),
        HttpRequest::Metrics { with_body } => match &*metrics() {
            MetricsAnswer::Metrics(text) => ("200 OK", CONTENT_TYPE, text.clone(), with_body),
            MetricsAnswer::Unavailable(why) => ("503 Service Unavailable", "text/plain", format!("{why}\n"), with_body),
        },
    };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        body.len()
    );
    if with_body {
        answer.push_str(&body);
    }
    deadline.0 = Instant::now() + PATIENCE;
    let mut rest = answer.as_bytes();
    while !rest.is_empty() {
        deadline.apply(&stream)?;
        match stream.write(rest)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => rest = rest.get(written..).unwrap_or_default(),
        }
    }
    Ok(())
}

struct Deadline(Instant);

impl Deadline {
    /// Limits the next read or write to the time until the deadline. Fails if the deadline is over.
    fn apply(&self, stream: &impl Stream) -> io::Result<()> {
        let left = self.0.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { stream.set_timeout(left) }
    }
}

/// Reads the head of a request, up to its empty line. Returns `None` if the head is too long.
fn read_head(stream: &mut impl Stream, deadline: &Deadline) -> io::Result<Option<Vec<u8>>> {
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() >= MAX_REQUEST {
            return Ok(None);
        }
        deadline.apply(stream)?;
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            len => head.extend_from_slice(buffer.get(..len).unwrap_or_default()),
        }
    }
    Ok(Some(head))
}

/// Parses the request line and checks the `Host` header. Other headers have no effect.
fn parse(head: &[u8], hosts: Hosts) -> HttpRequest {
    let line = head.split(|byte| *byte == b'\r').next().and_then(|line| str::from_utf8(line).ok()).unwrap_or("");
    let [method, target, version] = line.split(' ').collect::<Vec<_>>()[..] else {
        return HttpRequest::Refused("400 Bad Request");
    };
    if !version.starts_with("HTTP/1.") {
        return HttpRequest::Refused("505 HTTP Version Not Supported");
    }
    let path = target.split('?').next().unwrap_or(target);
    match (method, path) {
        ("GET" | "HEAD", "/metrics") => match hosts.check(head, version) {
            Ok(()) => HttpRequest::Metrics { with_body: method == "GET" },
            Err(status) => HttpRequest::Refused(status),
        },
        ("GET" | "HEAD", _) => HttpRequest::Refused("404 Not Found"),
        _ => HttpRequest::Refused("405 Method Not Allowed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Returns the answer to `request` from a client that keeps its sending side open.
    fn ask(request: &[u8]) -> String {
        let (mut client, server) = UnixStream::pair().unwrap();
        let answer = thread::spawn(move || {
            exchange(server, Hosts::Any, || Arc::new(MetricsAnswer::Metrics("weft_up 1\n".to_owned())))
        });
        client.write_all(request).unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        answer.join().unwrap().unwrap();
        text
    }

    #[test]
    fn a_scrape_gets_the_metrics_and_everything_else_a_reason() {
        let text = ask(b"GET /metrics?x=1 HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{text}");
        assert!(text.contains("Content-Length: 10\r\n") && text.ends_with("\r\n\r\nweft_up 1\n"), "{text}");
        let head = ask(b"HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 10\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"GET /metrics HTTP/2\r\n\r\n", "505"),
            (b"GET  /metrics HTTP/1.1\r\n\r\n", "400"),
            (b"\xff\xfe\r\n\r\n", "400"),
            (b"\r\n\r\n", "400"),
        ] {
            let text = ask(request);
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {text}");
        }
    }

    #[test]
    fn a_request_without_end_is_refused_and_one_that_breaks_off_is_dropped() {
        assert!(ask(&vec![b'x'; MAX_REQUEST]).starts_with("HTTP/1.1 431 "));
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(b"GET /metrics HT").unwrap();
        drop(client);
        let answer = exchange(server, Hosts::Any, || unreachable!("nothing was asked for"));
        assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn time_is_bounded_over_all_reads_together() {
        let (client, server) = UnixStream::pair().unwrap();
        let passed = Deadline(Instant::now());
        assert_eq!(passed.apply(&server).unwrap_err().kind(), io::ErrorKind::TimedOut);
        Deadline(Instant::now() + PATIENCE).apply(&server).unwrap();
        assert!(server.read_timeout().unwrap().is_some_and(|left| left <= PATIENCE));
        assert!(server.write_timeout().unwrap().is_some_and(|left| left <= PATIENCE));
        drop(client);
    }
}
