//! Runs transfers one after another, each on its own connection.
//!
//! A transfer lasts from the call of connect until the receiver has the last byte.

use super::{FlowEndpoints, FlowReport};
use crate::LabError;
use crate::interrupt;
use std::io::{self, Read, Write};
use std::mem::size_of;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use weft_scenario::{Flow, FlowDirection, FlowResult, Series};
use weft_units::Rate;

const CHUNK: usize = 64 * 1024;
/// Maximum time that an end of a connection waits for a byte.
const IO_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause between two transfers, so that a transfer does not meet the queue of the previous one.
const PAUSE: Duration = Duration::from_millis(200);

/// One finished transfer: its beginning and its duration.
#[derive(Clone, Copy, Debug)]
struct FinishedTransfer {
    /// Time from the flow's start until the transfer began, in seconds.
    start_s: f64,
    seconds: f64,
}

pub(super) fn run(place: &FlowEndpoints) -> Result<FlowReport, LabError> {
    let FlowEndpoints { world, flow, port, .. } = place;
    let (sender, receiver, to) = match flow.direction {
        FlowDirection::Up => (&world.home, &world.hub, place.hub()),
        FlowDirection::Down => (&world.hub, &world.home, place.home()),
    };
    let listener = receiver.run(|| listen(flow, *port))??;
    let (arrived, arrivals) = mpsc::channel();
    let transfers = thread::scope(|scope| {
        scope.spawn(move || {
            for connection in listener.incoming() {
                match connection.and_then(drain) {
                    Ok((0, _)) => return,
                    all => arrived.send(all).ok(),
                };
            }
        });
        let transfers =
            transfer_until_stop(place, &arrivals, || sender.run(|| send(flow, place.host(), (to, *port)))?);
        // A connection without data makes the receiver end.
        let _ = sender.run(|| TcpStream::connect((to, *port)));
        transfers
    })?;
    Ok(report(place, &transfers))
}

fn transfer_until_stop(
    place: &FlowEndpoints,
    arrivals: &mpsc::Receiver<io::Result<(u64, Instant)>>,
    send: impl Fn() -> io::Result<Instant>,
) -> Result<Vec<FinishedTransfer>, LabError> {
    interrupt::sleep_until(place.starts_at())?;
    let mut transfers = Vec::new();
    while Instant::now() < place.stops_at() {
        let start_s = place.starts_at().elapsed().as_secs_f64();
        let began = send()?;
        let (bytes, ended) = arrivals.recv_timeout(IO_TIMEOUT).map_err(io::Error::other)??;
        if bytes != place.flow.size_bytes {
            return Err(io::Error::other("a transfer ended early").into());
        }
        transfers.push(FinishedTransfer { start_s, seconds: (ended - began).as_secs_f64() });
        interrupt::sleep_until(Instant::now() + PAUSE)?;
    }
    Ok(transfers)
}

fn listen(flow: &Flow, port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
    if let Some(bytes) = flow.receive_buffer_bytes {
        set_receive_buffer(&listener, u32::try_from(bytes).unwrap_or(u32::MAX))?;
    }
    Ok(listener)
}

/// Sends one transfer. Returns the time at which it called connect.
fn send(flow: &Flow, from: Option<Ipv4Addr>, (to, port): (Ipv4Addr, u16)) -> io::Result<Instant> {
    // SAFETY: The call takes no pointers. It makes a new descriptor that has no other owner.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: The descriptor was just made and has no other owner.
    let mut stream = unsafe { TcpStream::from_raw_fd(socket) };
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    set_congestion(&stream, &flow.congestion)?;
    if let Some(pacing) = flow.pacing {
        set_pacing(&stream, pacing)?;
    }
    if let Some(from) = from {
        with_address(libc::bind, &stream, SocketAddrV4::new(from, 0))?;
    }
    let began = Instant::now();
    with_address(libc::connect, &stream, SocketAddrV4::new(to, port))?;
    let chunk = vec![0x5a; CHUNK];
    let mut left = flow.size_bytes as usize;
    while left > 0 {
        left -= stream.write(&chunk[..left.min(CHUNK)])?;
    }
    Ok(began)
}

/// The type of the system calls `bind` and `connect`, which take a socket and an address.
type AddressCall = unsafe extern "C" fn(libc::c_int, *const libc::sockaddr, libc::socklen_t) -> libc::c_int;

/// Calls `bind` or `connect` for a socket.
fn with_address(call: AddressCall, stream: &TcpStream, at: SocketAddrV4) -> io::Result<()> {
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: at.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*at.ip()).to_be() },
        sin_zero: [0; 8],
    };
    let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: The kernel reads `length` bytes of `address`, which outlives the call.
    let result = unsafe { call(stream.as_raw_fd(), (&raw const address).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Selects the kernel's congestion control with this name for a socket.
pub(crate) fn set_congestion(stream: &TcpStream, name: &str) -> io::Result<()> {
    set_option(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())
}

/// Sets the rate at which a socket paces, in IP bytes.
pub(crate) fn set_pacing(stream: &TcpStream, rate: Rate) -> io::Result<()> {
    set_option(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &(rate.bps() / 8).to_ne_bytes())
}

/// Sets the receive window of the connections that a socket accepts, as `iperf3 -w` does.
///
/// The kernel doubles the value to account for its own overhead, so the window is about `bytes`.
pub(crate) fn set_receive_buffer(listener: &TcpListener, bytes: u32) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    set_option(listener.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes.to_ne_bytes())
}

fn set_option(socket: RawFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: The kernel reads `value.len()` bytes of `value`, which outlives the call.
    let result =
        unsafe { libc::setsockopt(socket, level, name, value.as_ptr().cast(), value.len() as libc::socklen_t) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads to the end of the stream.
///
/// Returns the number of bytes, and the time at which the last byte arrived.
fn drain(mut stream: TcpStream) -> io::Result<(u64, Instant)> {
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    let (mut chunk, mut all, mut last) = (vec![0; CHUNK], 0, Instant::now());
    loop {
        match stream.read(&mut chunk)? {
            0 => return Ok((all, last)),
            read => (all, last) = (all + read as u64, Instant::now()),
        }
    }
}

/// Returns the flow's result.
///
/// Goodput is the bytes of the transfers that began after the warm-up, divided by the sum of their durations.
fn report(place: &FlowEndpoints, transfers: &[FinishedTransfer]) -> FlowReport {
    let (warmup_s, bits) = (place.own_warmup().as_secs_f64(), place.flow.size_bytes as f64 * 8.0);
    let counted = || transfers.iter().filter(|t| t.start_s >= warmup_s).map(|t| t.seconds);
    let rate_bps = bits * counted().count() as f64 / counted().sum::<f64>();
    let result = FlowResult {
        name: place.flow.name.clone(),
        goodput_bps: Some(if rate_bps.is_finite() { rate_bps } else { 0.0 }),
        tcp_resets: Some(0.0),
        ..FlowResult::default()
    };
    let start_s = place.flow.start.as_secs_f64();
    let points = transfers.iter().map(|t| (start_s + t.start_s, bits / t.seconds)).collect();
    FlowReport { result, series: vec![Series { name: place.flow.name.clone(), unit: "bit/s", points }] }
}
