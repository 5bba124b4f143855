//! The connection of a stranger, which is passed to the web server: the stranger sees only an ordinary HTTPS server.

use crate::stream::{ReadOutcome, TlsStream};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd as _, RawFd};
use weft_io::stream::connect;

/// Maximum number of bytes that are read from one side before they are written to the other side.
const ROOM: usize = 32_768;
/// Answer to a stranger whose connection no web server takes.
const NOT_FOUND: &[u8] =
    b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 10\r\nConnection: close\r\n\r\nNot Found\n";

/// Bytes in one direction between a stranger and the web server that have been read and not yet written.
#[derive(Default)]
struct PendingBytes {
    bytes: Vec<u8>,
    is_over: bool,
}

/// The connection of a stranger, and the connection to the web server that belongs to it.
pub struct Visit {
    visitor: TlsStream,
    web: TcpStream,
    to_web: PendingBytes,
    to_visitor: PendingBytes,
    buffer: Box<[u8]>,
}

/// Answers a stranger with status 404, if no web server takes its connection.
pub fn turn_away(mut visitor: TlsStream) {
    // If the answer cannot be written at once, the stranger gets none.
    let _ = visitor.write(NOT_FOUND);
    visitor.end();
}

impl Visit {
    /// Connects to the web server, to pass a stranger's bytes to it. The bytes `first` have already arrived.
    ///
    /// # Errors
    /// Returns an error if no socket can be opened.
    pub fn begin(visitor: TlsStream, first: Vec<u8>, web: SocketAddr, mark: u32) -> io::Result<Visit> {
        let web = connect(web, None, mark)?;
        let (to_web, to_visitor) = (PendingBytes { bytes: first, is_over: false }, PendingBytes::default());
        Ok(Visit { visitor, web, to_web, to_visitor, buffer: vec![0; ROOM].into() })
    }

    /// Returns the descriptors of the visitor and of the web server.
    pub fn descriptors(&self) -> [RawFd; 2] {
        [self.visitor.as_raw_fd(), self.web.as_raw_fd()]
    }

    /// Returns true for each socket, the visitor's and the web server's, for which the visit waits to be writable.
    pub fn wants_room(&self) -> [bool; 2] {
        [self.visitor.tls().wants_write(), !self.to_web.bytes.is_empty()]
    }

    /// Passes as many bytes as possible now. Returns false once both directions are over.
    ///
    /// # Errors
    /// Returns an error if a side failed.
    pub fn go_on(&mut self) -> io::Result<bool> {
        self.visitor.flush()?;
        self.pass_to_web()?;
        self.pass_to_visitor()?;
        Ok(!(self.to_visitor.is_over && self.to_visitor.bytes.is_empty() && !self.visitor.tls().wants_write()))
    }

    fn pass_to_web(&mut self) -> io::Result<()> {
        loop {
            while !self.to_web.bytes.is_empty() {
                match self.web.write(&self.to_web.bytes) {
                    Ok(len) => drop(self.to_web.bytes.drain(..len)),
                    Err(why) if is_later(&why) => return Ok(()),
                    Err(why) => return Err(why),
                }
            }
            if self.to_web.is_over {
                return Ok(());
            }
            match self.visitor.read(&mut self.buffer)? {
                ReadOutcome::Bytes(len) => self.to_web.bytes.extend_from_slice(&self.buffer[..len]),
                ReadOutcome::Nothing => return Ok(()),
                ReadOutcome::End => {
                    self.to_web.is_over = true;
                    let _ = self.web.shutdown(Shutdown::Write);
                }
            }
        }
    }

    fn pass_to_visitor(&mut self) -> io::Result<()> {
        while !self.to_visitor.is_over {
            if !self.visitor.flush()? {
                return Ok(());
            }
            match self.web.read(&mut self.buffer) {
                Ok(0) => {
                    self.to_visitor.is_over = true;
                    self.visitor.end();
                }
                Ok(len) => drop(self.visitor.write(&self.buffer[..len])?),
                Err(why) if is_later(&why) => return Ok(()),
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }
}

/// True if the error means that the socket is not connected yet, or would block.
fn is_later(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
}
