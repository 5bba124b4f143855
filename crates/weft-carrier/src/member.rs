//! A connection of a bundle: how it is opened, over a proxy where one is required, and the frames that it carries.

use crate::frame::FrameReader;
use crate::greeting::{self, Greeting, Lane};
use crate::stream::{ReadOutcome, TlsStream};
use crate::tls::Caller;
use rustls::Connection;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::time::{Duration, Instant};
use weft_io::stream::{connect, tune};

/// Number of unsent bytes below which the kernel reports that a socket takes more data.
///
/// *Tuned*: a batch of 1 ms at 100 Mbit/s.
const LOW_WATER: u32 = 16_384;
/// Time after which TCP ends a connection whose data stays unacknowledged.
///
/// *Tuned*: mobile links resume after outages of this length.
const LONGEST_SILENCE: Duration = Duration::from_secs(6);
/// Maximum length of a proxy's answer in bytes.
const LONGEST_ANSWER: usize = 8_192;

/// Parameters for opening a connection to a remote node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallTarget {
    /// Number of the local link in the daemon's event loop.
    pub link: u32,
    /// Address by which the daemon's event loop names the remote node.
    pub remote: SocketAddr,
    /// Address and TCP port of the remote node.
    pub to: SocketAddr,
    /// Name of the interface to which the connections are bound.
    pub device: Option<String>,
    /// Firewall mark (`SO_MARK`) of the packets of the connections.
    pub mark: u32,
    /// Public key of the remote node.
    pub key: [u8; 32],
    /// Host name of the remote node, which TLS sends as SNI; `None`: TLS sends no name.
    pub name: Option<String>,
    /// Address of the HTTP proxy through which connections are opened; `None`: they are opened directly.
    pub proxy: Option<SocketAddr>,
}

enum CallStage {
    Connecting(TcpStream, Connection),
    Proxy(TcpStream, Connection, ProxyTalk),
    Handshake(TlsStream),
    Over,
}

struct ProxyTalk {
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// A connection that is being opened.
pub struct Call {
    stage: CallStage,
    key: [u8; 32],
    greeting: Greeting,
    target: Option<String>,
    fd: RawFd,
    /// Time at which [`Call::begin`] was called.
    pub began: Instant,
}

impl Call {
    /// Begins to open a connection that is to join a bundle.
    ///
    /// # Errors
    /// Returns an error if no socket can be opened, or the host name is invalid.
    pub fn begin(caller: &Caller, way: &CallTarget, greeting: Greeting) -> io::Result<Call> {
        let socket = connect(way.proxy.unwrap_or(way.to), way.device.as_deref(), way.mark)?;
        tune(socket.as_fd(), LOW_WATER, LONGEST_SILENCE)?;
        let tls = caller.call(way.name.as_deref(), way.to.ip()).map_err(io::Error::other)?;
        let target = way.proxy.map(|_| match &way.name {
            Some(name) => format!("{name}:{}", way.to.port()),
            None => way.to.to_string(),
        });
        let fd = socket.as_raw_fd();
        Ok(Call {
            stage: CallStage::Connecting(socket, tls),
            key: way.key,
            greeting,
            target,
            fd,
            began: Instant::now(),
        })
    }

    /// Returns the kind of the datagrams that the connection will carry.
    pub fn lane(&self) -> Lane {
        self.greeting.lane
    }

    /// True if [`Call::go_on`] must be called when the socket becomes writable, and not only when data arrives.
    pub fn wants_room(&self) -> bool {
        match &self.stage {
            CallStage::Connecting(..) => true,
            CallStage::Proxy(_, _, talk) => !talk.request.is_empty(),
            CallStage::Handshake(stream) => stream.tls().wants_write(),
            CallStage::Over => false,
        }
    }

    /// Continues to open the connection. Returns the stream once the greeting is sent, and `None` until then.
    ///
    /// # Errors
    /// Returns the reason why the connection failed.
    pub fn go_on(&mut self) -> io::Result<Option<TlsStream>> {
        loop {
            match std::mem::replace(&mut self.stage, CallStage::Over) {
                CallStage::Connecting(socket, tls) => {
                    if let Some(why) = socket.take_error()? {
                        return Err(why);
                    }
                    if socket.peer_addr().is_err() {
                        self.stage = CallStage::Connecting(socket, tls);
                        return Ok(None);
                    }
                    self.stage = match &self.target {
                        Some(target) => CallStage::Proxy(socket, tls, ProxyTalk::to(target)),
                        None => CallStage::Handshake(TlsStream::new(socket, tls)),
                    };
                }
                CallStage::Proxy(mut socket, tls, mut talk) => {
                    if !talk.go_on(&mut socket)? {
                        self.stage = CallStage::Proxy(socket, tls, talk);
                        return Ok(None);
                    }
                    self.stage = CallStage::Handshake(TlsStream::new(socket, tls));
                }
                CallStage::Handshake(mut stream) => {
                    stream.flush()?;
                    // The server sends no data before it has the greeting, so a read can only continue the handshake.
                    if stream.is_handshaking() && stream.read(&mut [0])? != ReadOutcome::Nothing {
                        return Err(io::Error::other("the server ended the TLS handshake"));
                    }
                    let Some(proof) = greeting::proof(stream.tls(), &self.key).filter(|_| !stream.is_handshaking())
                    else {
                        self.stage = CallStage::Handshake(stream);
                        return Ok(None);
                    };
                    stream.write(&greeting::encode(&proof, &self.greeting))?;
                    return Ok(Some(stream));
                }
                CallStage::Over => return Err(io::ErrorKind::NotConnected.into()),
            }
        }
    }
}

impl AsRawFd for Call {
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

impl ProxyTalk {
    fn to(target: &str) -> ProxyTalk {
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        ProxyTalk { request: request.into_bytes(), answer: Vec::new() }
    }

    /// Continues the exchange with the proxy. Returns true once the proxy has made the connection (RFC 9110 §9.3.6).
    ///
    /// It reads one byte at a time, so that it takes no byte of TLS, which follows the proxy's answer.
    fn go_on(&mut self, socket: &mut TcpStream) -> io::Result<bool> {
        while !self.request.is_empty() {
            match socket.write(&self.request) {
                Ok(len) => drop(self.request.drain(..len)),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(why) => return Err(why),
            }
        }
        let mut byte = [0];
        while !self.answer.ends_with(b"\r\n\r\n") {
            match socket.read(&mut byte) {
                Ok(0) => return Err(io::Error::other("the proxy ended the connection")),
                Ok(_) if self.answer.len() >= LONGEST_ANSWER => {
                    return Err(io::Error::other("the proxy's answer is too long"));
                }
                Ok(_) => self.answer.push(byte[0]),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(why) => return Err(why),
            }
        }
        accepted(&self.answer).map(|()| true)
    }
}

/// Returns an error unless the status line of a proxy's answer reports success (2xx).
fn accepted(answer: &[u8]) -> io::Result<()> {
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let is_http = words.next().is_some_and(|version| version.starts_with(b"HTTP/1."));
    match words.next() {
        Some([b'2', _, _]) if is_http => Ok(()),
        _ => Err(io::Error::other(format!("the proxy refuses: {}", line.escape_ascii()))),
    }
}

/// An open connection of a bundle.
pub struct OpenConnection {
    /// TLS stream of the connection.
    pub stream: TlsStream,
    /// Splits the arriving byte stream into datagrams.
    pub frames: FrameReader,
    /// Kind of the datagrams that the connection carries.
    pub lane: Lane,
    /// True while the program holds data that the kernel has not accepted.
    pub is_blocked: bool,
}

impl OpenConnection {
    /// Returns a connection over a stream that this node has opened.
    pub fn new(stream: TlsStream, lane: Lane) -> OpenConnection {
        OpenConnection { stream, frames: FrameReader::default(), lane, is_blocked: false }
    }

    /// Returns a connection over an accepted stream. `rest` are the bytes that have arrived behind the greeting.
    pub fn accepted(stream: TlsStream, lane: Lane, rest: &[u8]) -> OpenConnection {
        let mut member = OpenConnection::new(stream, lane);
        // The connection also works without these socket options, only with more delay.
        let _ = tune(member.stream.as_fd(), LOW_WATER, LONGEST_SILENCE);
        let room = member.frames.room();
        let len = rest.len().min(room.len());
        room[..len].copy_from_slice(&rest[..len]);
        member.frames.fill(len);
        member
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_a_success_is_taken_for_one() {
        for good in
            ["HTTP/1.1 200 Connection established\r\n\r\n", "HTTP/1.0 200\r\nVia: x\r\n\r\n", "HTTP/1.1 204 x\r\n\r\n"]
        {
            assert!(accepted(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in
            ["HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "HTTP/2 200\r\n\r\n", "SSH-2.0 200\r\n\r\n", ""]
        {
            assert!(accepted(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_of_a_proxy_panics(answer: Vec<u8>) {
            let _ = accepted(&answer);
        }
    }
}
