//! TCP flows: one connection without a rate limit, or transfers one after another.

use super::check::congestion;
use super::traffic::{FlowSetting, LOOK};
use crate::LabError;
use crate::apps::{set_congestion, set_pacing, set_receive_buffer};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;
use weft_scenario::{CongestionControl, TcpSpec};

const CHUNK: usize = 64 * 1024;
/// Time after which a connection attempt is aborted and repeated. The kernel sends four SYNs in this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Accepts connections, and reads and discards the data of all of them in parallel, until the run is over.
///
/// It sends by `ready` once it can accept connections.
pub(super) fn receive(place: &FlowSetting<'_>, ready: &SyncSender<()>) -> Result<(), LabError> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, place.port))?;
    if place.tcp.window_segments != TcpSpec::default().window_segments {
        set_receive_buffer(&listener, place.tcp.window_segments.saturating_mul(place.tcp.mss_bytes))?;
    }
    listener.set_nonblocking(true)?;
    let _ = ready.send(());
    thread::scope(|scope| {
        while !place.is_over() {
            match listener.accept() {
                Ok((stream, _)) => drop(scope.spawn(|| drain(place, stream))),
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
        Ok(())
    })
}

fn drain(place: &FlowSetting<'_>, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(LOOK))?;
    let mut chunk = vec![0; CHUNK];
    while !place.is_over() {
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(read) => place.sink.came(read as u64, None),
            Err(error) if is_early(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sends `bytes`, or data without end if `bytes` is `None`.
///
/// With a `pause`, it transfers `bytes` again after each pause.
pub(super) fn send(place: &FlowSetting<'_>, bytes: Option<u64>, pause: Option<Duration>) -> Result<(), LabError> {
    while place.left().is_some() {
        if transfer(place, bytes).is_err() && place.left().is_some() {
            place.sink.broke();
        }
        let (Some(pause), Some(left)) = (pause, place.left()) else { break };
        thread::sleep(pause.min(left));
    }
    Ok(())
}

fn transfer(place: &FlowSetting<'_>, bytes: Option<u64>) -> io::Result<()> {
    let Some(mut stream) = connect(place)? else { return Ok(()) };
    if let Some(name) = congestion(&place.tcp) {
        set_congestion(&stream, name)?;
    }
    if place.tcp.congestion == CongestionControl::ExplicitRate {
        set_pacing(&stream, place.tcp.explicit_rate)?;
    }
    stream.set_write_timeout(Some(LOOK))?;
    stream.set_read_timeout(Some(LOOK))?;
    let chunk = vec![0x5a; CHUNK];
    let mut rest = bytes.unwrap_or(u64::MAX);
    while rest > 0 {
        if place.left().is_none() {
            return Ok(());
        }
        let part = chunk.get(..rest.min(CHUNK as u64) as usize).unwrap_or(&chunk);
        match stream.write(part) {
            Ok(sent) => rest -= sent as u64,
            Err(error) if is_early(&error) => {}
            Err(error) => return Err(error),
        }
    }
    stream.shutdown(Shutdown::Write)?;
    // The other end closes the connection once it has received all data, and the read then returns.
    while place.left().is_some() {
        match stream.read(&mut [0]) {
            Ok(_) => return Ok(()),
            Err(error) if is_early(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Tries to connect until it succeeds. Returns `None` if the flow stops before the connection is open.
fn connect(place: &FlowSetting<'_>) -> io::Result<Option<TcpStream>> {
    let there = SocketAddr::new(place.address.into(), place.port);
    while let Some(left) = place.left() {
        match TcpStream::connect_timeout(&there, left.min(CONNECT_TIMEOUT)) {
            Ok(stream) => return Ok(Some(stream)),
            Err(error) if is_early(&error) || is_cut_off(&error) => thread::sleep(LOOK),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// True if `error` shows that there is currently no route to the destination.
fn is_cut_off(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable)
}

/// True if `error` shows only that the socket's timeout expired before anything happened.
fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
