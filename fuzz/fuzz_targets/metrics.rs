//! A metrics request gets one complete answer. It gets the metrics only if it names a host name of this machine.
#![no_main]

#[path = "../../crates/weft/src/daemon/metrics/hosts.rs"]
mod hosts;
#[path = "../../crates/weft/src/daemon/metrics/http.rs"]
mod http;
mod text {
    pub const CONTENT_TYPE: &str = "text/plain";
}

use hosts::Hosts;
use http::{MetricsAnswer, Stream, exchange};
use libfuzzer_sys::fuzz_target;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

const METRICS: &str = "weft_up 1\n";

/// A client that sends its request in pieces and reads the answer in pieces.
struct Client<'a> {
    request: &'a [u8],
    answer: &'a mut Vec<u8>,
    most: usize,
}

impl Read for Client<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = self.most.min(out.len());
        self.request.read(&mut out[..most])
    }
}

impl Write for Client<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.answer.write(&bytes[..self.most.min(bytes.len())])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Client<'_> {
    fn set_timeout(&self, _: Duration) -> io::Result<()> {
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((how, request)) = bytes.split_first() else { return };
    let own = ([127, 0, 0, 1], 9_100).into();
    let hosts = if how & 1 == 0 { Hosts::Any } else { Hosts::Loopback(own) };
    let mut answer = Vec::new();
    let client = Client { request, answer: &mut answer, most: 1 + usize::from(*how) };
    let outcome = exchange(client, hosts, || Arc::new(MetricsAnswer::Metrics(METRICS.into())));
    assert_eq!(outcome.is_ok(), !answer.is_empty(), "an answer, or none");
    if answer.is_empty() {
        return;
    }
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let is_ok = head.starts_with("HTTP/1.1 200 OK\r\n");
    assert!(is_ok || head.starts_with("HTTP/1.1 4") || head.starts_with("HTTP/1.1 505"), "{head}");
    assert_eq!(body == METRICS, is_ok && request.starts_with(b"GET "), "{answer}");
    let foreign = request.windows(16).any(|line| line.eq_ignore_ascii_case(b"\nhost: evil.test"));
    assert!(!(is_ok && foreign && hosts != Hosts::Any), "a name of somebody else leads here");
});
