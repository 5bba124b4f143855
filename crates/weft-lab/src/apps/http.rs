//! Runs curl against a small HTTP server. Transfers follow one another.

use super::{FlowEndpoints, FlowReport, failed, need};
use crate::LabError;
use crate::interrupt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weft_scenario::{FlowDirection, FlowResult, Series};

const CHUNK: usize = 64 * 1024;
const IO_TIMEOUT: Duration = Duration::from_secs(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(5);
/// Maximum total length of a request's header lines, in bytes.
const HEADER_BYTES: u64 = 16 * 1024;

/// One transfer. It is incomplete if the flow's stop interrupted it.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Transfer {
    /// Time from the flow's start until the transfer began, in seconds.
    start_s: f64,
    bytes: f64,
    seconds: f64,
    complete: bool,
}

pub(super) fn run(place: &FlowEndpoints) -> Result<FlowReport, LabError> {
    need("curl", "curl")?;
    let listener = place.world.hub.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, place.port)))??;
    listener.set_nonblocking(true)?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let server = scope.spawn(|| serve(&listener, &over));
        let transfers = transfer_until_stop(place);
        over.store(true, Ordering::Relaxed);
        let _ = server.join();
        Ok(report(place, &transfers?))
    })
}

fn transfer_until_stop(place: &FlowEndpoints) -> Result<Vec<Transfer>, LabError> {
    interrupt::sleep_until(place.starts_at())?;
    let upload = place.world.scratch.path().join(format!("upload-{}", place.port));
    std::fs::File::create(&upload)?.set_len(place.flow.size_bytes)?;
    let url = format!("http://{}:{}/{}", place.hub(), place.port, place.flow.size_bytes);
    let mut transfers = Vec::new();
    loop {
        let left = place.stops_at().saturating_duration_since(Instant::now());
        if left < Duration::from_millis(50) {
            return Ok(transfers);
        }
        interrupt::check()?;
        let start_s = place.starts_at().elapsed().as_secs_f64();
        let mut curl = place.lane.tcp_command(&place.world.home, "curl");
        curl.args(["-s", "-o", "/dev/null", "-w", "%{size_download} %{size_upload} %{time_total}"]);
        curl.args(["--max-time", &format!("{:.3}", left.as_secs_f64())]);
        if let Some(host) = place.host() {
            curl.args(["--interface", &host.to_string()]);
        }
        if place.flow.direction == FlowDirection::Up {
            curl.arg("-T").arg(&upload);
        }
        curl.arg(&url);
        let output = place.world.home.output(curl, left + IO_TIMEOUT)?;
        let said = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [down, up, seconds] = numbers[..] else { return Err(failed("curl", &output.stderr)) };
        transfers.push(Transfer { start_s, bytes: down.max(up), seconds, complete: output.status.success() });
    }
}

fn report(place: &FlowEndpoints, transfers: &[Transfer]) -> FlowReport {
    let warmup_s = place.own_warmup().as_secs_f64();
    let counted = || transfers.iter().filter(|t| t.start_s >= warmup_s);
    let (bytes, seconds): (f64, f64) = (counted().map(|t| t.bytes).sum(), counted().map(|t| t.seconds).sum());
    let result = FlowResult {
        name: place.flow.name.clone(),
        goodput_bps: Some(if seconds > 0.0 { bytes * 8.0 / seconds } else { 0.0 }),
        lost: Some(counted().rev().skip(1).filter(|t| !t.complete).count() as f64),
        ..FlowResult::default()
    };
    let start_s = place.flow.start.as_secs_f64();
    let points = transfers.iter().map(|t| (start_s + t.start_s, t.bytes * 8.0 / t.seconds.max(1e-3))).collect();
    FlowReport { result, series: vec![Series { name: place.flow.name.clone(), unit: "bit/s", points }] }
}

fn serve(listener: &TcpListener, over: &AtomicBool) {
    thread::scope(|scope| {
        while !over.load(Ordering::Relaxed) {
            match listener.accept() {
                // If a client aborts, only its own connection ends.
                Ok((stream, _)) => drop(scope.spawn(move || answer(&stream))),
                Err(_) => thread::sleep(ACCEPT_PAUSE),
            }
        }
    });
}

/// Answers `GET /N` with N zero bytes, and reads and discards the body of a `PUT`.
fn answer(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    let mut reader = BufReader::new(stream);
    let (mut request, mut body_bytes) = (String::new(), 0u64);
    let mut header = (&mut reader).take(HEADER_BYTES);
    header.read_line(&mut request)?;
    let mut expects_continue = false;
    let mut line = String::new();
    while header.read_line(&mut line)? > 2 {
        let lower = line.to_ascii_lowercase();
        if let Some(length) = lower.strip_prefix("content-length:") {
            body_bytes = length.trim().parse().unwrap_or(0);
        }
        expects_continue |= lower.starts_with("expect: 100-continue");
        line.clear();
    }
    let mut writer = stream;
    if expects_continue {
        writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    io::copy(&mut reader.take(body_bytes), &mut io::sink())?;
    let wanted = request
        .strip_prefix("GET /")
        .and_then(|rest| rest.split(' ').next())
        .and_then(|n| n.parse().ok())
        .unwrap_or(0u64);
    write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: {wanted}\r\nConnection: close\r\n\r\n")?;
    let zeros = [0u8; CHUNK];
    let mut left = wanted;
    while left > 0 {
        let now = left.min(CHUNK as u64);
        writer.write_all(zeros.get(..now as usize).unwrap_or(&zeros))?;
        left -= now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_gives_as_many_bytes_as_asked_for_and_takes_a_body() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| serve(&listener, &over));
            let ask = |request: &[u8]| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(IO_TIMEOUT)).unwrap();
                stream.write_all(request).unwrap();
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).unwrap();
                answer
            };
            let got = ask(b"GET /100000 HTTP/1.1\r\nHost: x\r\n\r\n");
            let put = ask(b"PUT /5 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello");
            over.store(true, Ordering::Relaxed);
            assert!(got.starts_with(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n"));
            assert!(got.len() > 100_000 && got.ends_with(&[0; 1000]));
            assert!(put.starts_with(b"HTTP/1.1 200 OK"));
        });
    }
}
