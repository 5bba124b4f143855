//! A TLS connection over a TCP stream that never blocks.

use rustls::Connection;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// Result of [`TlsStream::read`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadOutcome {
    /// Number of bytes that were read.
    Bytes(usize),
    /// Nothing has arrived yet.
    Nothing,
    /// The other side has ended the connection.
    End,
}

/// A TLS connection and its socket.
#[derive(Debug)]
pub struct TlsStream {
    socket: TcpStream,
    tls: Connection,
}

impl TlsStream {
    /// Returns the TLS connection over a connected, non-blocking socket.
    pub fn new(socket: TcpStream, mut tls: Connection) -> TlsStream {
        // The TLS library need not limit its send buffer: the caller limits the bytes that it writes.
        tls.set_buffer_limit(None);
        TlsStream { socket, tls }
    }

    /// Returns the TLS connection.
    pub fn tls(&self) -> &Connection {
        &self.tls
    }

    /// Returns the socket.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// True until both sides have agreed on keys.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Reads the bytes that have arrived, and continues the handshake.
    ///
    /// # Errors
    /// Returns an error if the socket failed or the other side breaks the protocol.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<ReadOutcome> {
        loop {
            match self.tls.reader().read(buffer) {
                Ok(0) => return Ok(ReadOutcome::End),
                Ok(len) => return Ok(ReadOutcome::Bytes(len)),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok(ReadOutcome::End),
                Err(why) => return Err(why),
            }
            match self.tls.read_tls(&mut self.socket) {
                Ok(0) => return Ok(ReadOutcome::End),
                Ok(_) => {
                    let result = self.tls.process_new_packets();
                    // If the other side broke the protocol, this also sends the TLS alert that reports the error to it.
                    self.flush()?;
                    result.map_err(io::Error::other)?;
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(ReadOutcome::Nothing),
                Err(why) => return Err(why),
            }
        }
    }

    /// Encrypts bytes and sends as many as the socket accepts. Returns true if no encrypted bytes are left to send.
    ///
    /// # Errors
    /// Returns an error if the socket failed.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<bool> {
        self.tls.writer().write_all(bytes)?;
        self.flush()
    }

    /// Sends the encrypted bytes that the socket has not accepted so far. Returns true if none remain.
    ///
    /// # Errors
    /// Returns an error if the socket failed.
    pub fn flush(&mut self) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(why) => return Err(why),
            }
        }
        Ok(true)
    }

    /// Announces to the other side that no more data follows.
    pub fn end(&mut self) {
        self.tls.send_close_notify();
        let _ = self.flush();
    }
}

impl AsRawFd for TlsStream {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
