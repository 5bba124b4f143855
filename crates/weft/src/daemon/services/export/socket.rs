//! The socket to the collector. It reports to the exporter which messages were refused, acknowledged or lost.

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, SockaddrStorage, recv, recvmsg, setsockopt, sockopt};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;
use weft_flows::ipfix::{ExportMessage, Exporter, HOLD, PROBE_MAX};
use weft_io::stream::unacknowledged_bytes;
use weft_io::wait::Poller;
use weft_units::Instant;

/// Maximum time to connect, and to write one message. Tuned: three retransmissions of TCP.
const PATIENCE: Duration = Duration::from_secs(3);
/// Interval at which the kernel is asked for the number of bytes that TCP has acknowledged.
///
/// Tuned: the records of one interval fit the exporter's queue.
const ACKNOWLEDGED_EVERY: Duration = Duration::from_millis(100);
/// Number of bytes of a refused datagram that are read. They contain the header of a message.
const QUOTED_BYTES: usize = 64;
/// Maximum number of consecutive read calls on a socket. Tuned: the thread's other work waits meanwhile.
const MOST_READS: usize = 256;

/// Returns the sequence number in a message of IPFIX (RFC 7011 §3.1) or NetFlow version 9 (RFC 3954 §5.1).
///
/// Returns `None` for any other bytes.
fn sequence_of(message: &[u8]) -> Option<u32> {
    let at = match message.first_chunk().map(|version| u16::from_be_bytes(*version))? {
        10 => 8,
        9 => 12,
        _ => return None,
    };
    message.get(at..)?.first_chunk().map(|sequence| u32::from_be_bytes(*sequence))
}

/// The transport to a collector.
pub enum CollectorSocket {
    /// Datagrams.
    Udp(UdpCollector),
    /// A stream.
    Tcp(TcpCollector),
}

impl CollectorSocket {
    /// Returns the transport that a configuration asks for. Its socket is opened by [`CollectorSocket::look`].
    pub fn new(collector: SocketAddr, is_stream: bool) -> CollectorSocket {
        match is_stream {
            false => CollectorSocket::Udp(UdpCollector { collector, socket: None }),
            true => {
                CollectorSocket::Tcp(TcpCollector { collector, stream: None, try_at: Instant::ZERO, interval: HOLD })
            }
        }
    }

    /// Opens the socket if it is due, and reports the fate of earlier messages to the exporter.
    pub fn look(&mut self, now: Instant, exporter: &mut Exporter, poller: &Poller, token: u64) -> io::Result<()> {
        match self {
            CollectorSocket::Udp(of) => of.look(now, exporter, poller, token),
            CollectorSocket::Tcp(of) => of.look(now, exporter, poller, token),
        }
    }

    /// Sends a message to the collector. Reports to the exporter if that fails.
    pub fn send(&mut self, now: Instant, exporter: &mut Exporter, message: ExportMessage, bytes: &[u8]) {
        match self {
            CollectorSocket::Udp(of) => of.send(now, exporter, bytes),
            CollectorSocket::Tcp(of) => of.send(exporter, message, bytes),
        }
    }

    /// Returns the time at which [`CollectorSocket::look`] has work to do, if nothing arrives before.
    pub fn next_timeout(&self, now: Instant) -> Instant {
        match self {
            CollectorSocket::Udp(_) => Instant::FAR_FUTURE,
            CollectorSocket::Tcp(of) => of.next_timeout(now),
        }
    }
}

/// A connected UDP socket.
pub struct UdpCollector {
    collector: SocketAddr,
    /// The socket. `None` before the first message, and after a send error that is no refusal by the collector.
    socket: Option<UdpSocket>,
}

impl UdpCollector {
    fn look(&mut self, now: Instant, exporter: &mut Exporter, poller: &Poller, token: u64) -> io::Result<()> {
        if self.socket.is_none()
            && let Ok(socket) = open(self.collector)
        {
            poller.add(socket.as_raw_fd(), token)?;
            self.socket = Some(socket);
        }
        self.take_refusals(now, exporter);
        if let Some(socket) = &self.socket {
            let mut unasked = [0; QUOTED_BYTES];
            let read = || recv(socket.as_raw_fd(), &mut unasked, MsgFlags::MSG_DONTWAIT);
            repeat(read);
        }
        Ok(())
    }

    /// Reports to the exporter which messages were refused. Returns true if one was.
    fn take_refusals(&self, now: Instant, exporter: &mut Exporter) -> bool {
        let Some(socket) = &self.socket else { return false };
        let mut is_refused = false;
        for _ in 0..MOST_READS {
            let mut quoted = [0; QUOTED_BYTES];
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let mut parts = [IoSliceMut::new(&mut quoted)];
            let Ok(len) = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, None, flags).map(|of| of.bytes)
            else {
                break;
            };
            exporter.on_refused(now, quoted.get(..len).and_then(sequence_of));
            is_refused = true;
        }
        // Without this call the kernel would also return the last error from the next call.
        let _ = socket.take_error();
        is_refused
    }

    fn send(&mut self, now: Instant, exporter: &mut Exporter, bytes: &[u8]) {
        let sent = match &self.socket {
            Some(socket) => socket.send(bytes),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        let Err(why) = sent else { return };
        // The error belongs to this message or an earlier one. This message was not sent in either case.
        self.take_refusals(now, exporter);
        exporter.on_refused(now, sequence_of(bytes));
        if why.kind() != io::ErrorKind::ConnectionRefused {
            self.socket = None;
        }
    }
}

fn open(collector: SocketAddr) -> io::Result<UdpSocket> {
    let socket = match collector {
        SocketAddr::V4(_) => {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
            socket
        }
        SocketAddr::V6(_) => {
            let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
            setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?;
            socket
        }
    };
    socket.connect(collector)?;
    Ok(socket)
}

/// Reads until no data waits, at most [`MOST_READS`] times. Returns false if the stream has ended or failed.
fn repeat(mut read: impl FnMut() -> nix::Result<usize>) -> bool {
    for _ in 0..MOST_READS {
        match read() {
            Ok(1..) | Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return true,
            Ok(0) | Err(_) => return false,
        }
    }
    true
}

/// A TCP connection that is opened again whenever it ends.
pub struct TcpCollector {
    collector: SocketAddr,
    stream: Option<CollectorStream>,
    /// Time of the next attempt to connect.
    try_at: Instant,
    interval: Duration,
}

struct CollectorStream {
    stream: TcpStream,
    /// Number of bytes written to the stream.
    written: u64,
    /// Messages that TCP has not acknowledged, each with the position in the stream at which it ends.
    unacknowledged: VecDeque<(u64, u64)>,
}

impl TcpCollector {
    fn look(&mut self, now: Instant, exporter: &mut Exporter, poller: &Poller, token: u64) -> io::Result<()> {
        if let Some(connection) = &mut self.stream {
            if !connection.look(exporter) {
                self.close(now, exporter);
            }
        } else if now >= self.try_at {
            self.interval = (2 * self.interval).min(PROBE_MAX);
            self.try_at = now + self.interval;
            if let Ok(stream) = connect(self.collector) {
                poller.add(stream.as_raw_fd(), token)?;
                self.stream = Some(CollectorStream { stream, written: 0, unacknowledged: VecDeque::new() });
                exporter.on_connected(now);
            }
        }
        Ok(())
    }

    fn send(&mut self, exporter: &mut Exporter, message: ExportMessage, bytes: &[u8]) {
        let Some(connection) = &mut self.stream else { return };
        if connection.stream.write_all(bytes).is_err() {
            // A part of the message may have been sent, so no further message can follow on this stream.
            self.stream = None;
            return exporter.on_closed();
        }
        // The collector takes messages, so it is tried again soon after it closes the stream.
        self.interval = HOLD;
        connection.written += bytes.len() as u64;
        connection.unacknowledged.push_back((message.number, connection.written));
    }

    fn close(&mut self, now: Instant, exporter: &mut Exporter) {
        self.stream = None;
        self.try_at = now + self.interval;
        exporter.on_closed();
    }

    fn next_timeout(&self, now: Instant) -> Instant {
        match &self.stream {
            None => self.try_at,
            Some(of) if of.unacknowledged.is_empty() => Instant::FAR_FUTURE,
            Some(_) => now + ACKNOWLEDGED_EVERY,
        }
    }
}

fn connect(collector: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&collector, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl CollectorStream {
    /// Reports acknowledged messages to the exporter. Returns false if the stream has ended.
    fn look(&mut self, exporter: &mut Exporter) -> bool {
        if let Ok(waiting) = unacknowledged_bytes(self.stream.as_fd()) {
            let received = self.written.saturating_sub(waiting);
            while let Some((number, _)) = self.unacknowledged.pop_front_if(|(_, end)| *end <= received) {
                exporter.on_acknowledged(number);
            }
        }
        let mut unasked = [0; QUOTED_BYTES];
        repeat(|| recv(self.stream.as_raw_fd(), &mut unasked, MsgFlags::MSG_DONTWAIT))
    }
}

#[cfg(test)]
mod tests {
    use super::sequence_of;

    #[test]
    fn the_sequence_number_is_found_in_whole_headers_only() {
        let mut message = [0, 10, 0, 16, 1, 1, 1, 1, 0xa, 0xb, 0xc, 0xd, 7, 7, 7, 7, 7, 7, 7, 7];
        assert_eq!(sequence_of(&message), Some(0x0a0b_0c0d));
        assert_eq!(sequence_of(&message[..11]), None);
        message[1] = 9;
        assert_eq!(sequence_of(&message), Some(0x0707_0707));
        message[1] = 5;
        assert_eq!(sequence_of(&message), None);
        assert_eq!(sequence_of(&[]), None);
    }
}
