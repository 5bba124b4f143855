//! One direction of a proxied connection.
//!
//! It forwards bytes, the urgent byte at its position, and the end of the stream (FIN).

use super::pool::{PIPE_BYTES, PipePool};
use super::sys::{Pipe, Socket, unless_blocked};
use std::io;

/// Maximum number of bytes that one call of `pump` forwards, so that no other connection waits long.
const TURN_BYTES: usize = 1 << 20;

/// Result of one call of [`ProxyDirection::pump`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pumped {
    /// Nothing more can be forwarded until one of the sockets becomes ready.
    Waiting,
    /// The maximum number of bytes for one call was forwarded, and more can be forwarded.
    Again,
    /// The end of the stream was forwarded.
    Finished,
}

/// One direction of a proxied connection: from a source socket to a destination socket.
///
/// It reads only while the receiver accepts data, so that a slow receiver slows its sender.
#[derive(Default)]
pub struct ProxyDirection {
    /// A pipe with bytes that the source sent and the destination has not accepted, and their number.
    held: Option<(Pipe, usize)>,
    /// True if reading from the source may succeed.
    pub readable: bool,
    /// True if writing to the destination may succeed.
    pub writable: bool,
    /// True if an urgent byte is in the data from the source.
    pub urgent: bool,
    /// True if the source has sent the end of the stream.
    ended: bool,
    /// True if the end of the stream was forwarded.
    finished: bool,
    /// Number of bytes forwarded in this direction since the connection began.
    pub moved: u64,
}

impl ProxyDirection {
    /// Forwards all bytes that can be forwarded now.
    ///
    /// # Errors
    /// Fails if the TCP connection of one of the two sockets is broken.
    pub fn pump(&mut self, from: &Socket, to: &Socket, pool: &mut PipePool) -> io::Result<Pumped> {
        let until = self.moved + TURN_BYTES as u64;
        loop {
            if self.held.is_some() {
                if !self.drain(to, pool)? {
                    return Ok(Pumped::Waiting);
                }
            } else if self.ended {
                if !self.finished {
                    to.finish()?;
                    self.finished = true;
                }
                return Ok(Pumped::Finished);
            } else if !self.readable || !self.writable {
                return Ok(Pumped::Waiting);
            } else if self.moved >= until {
                return Ok(Pumped::Again);
            } else if self.urgent && from.is_at_mark() {
                self.pass_urgent(from, to)?;
            } else {
                self.fill(from, to, pool)?;
            }
        }
    }

    /// Counts `bytes` bytes as forwarded, because the SYN toward the server carried them.
    pub fn sent_early(&mut self, bytes: usize) {
        self.moved += bytes as u64;
    }

    /// Drops the pipe and the bytes in it, because the connection ends.
    pub fn abandon(&mut self, pool: &mut PipePool) {
        if self.held.take().is_some() {
            pool.lost();
        }
    }

    fn fill(&mut self, from: &Socket, to: &Socket, pool: &mut PipePool) -> io::Result<()> {
        let Some(pipe) = pool.take() else { return self.copy(from, to, pool) };
        match unless_blocked(pipe.fill(from, PIPE_BYTES as usize)) {
            Ok(Some(bytes)) if bytes > 0 => self.held = Some((pipe, bytes)),
            result => {
                pool.give_back(pipe);
                match result? {
                    // The splice returned no bytes. It does so at the end of the stream. It also does so before an
                    // urgent byte, if the end of the stream has already arrived.
                    Some(_) if from.is_at_mark() => self.urgent = true,
                    Some(_) => self.ended = true,
                    None => self.readable = false,
                }
            }
        }
        Ok(())
    }

    /// Moves the bytes in the pipe to the socket `to`. Returns false if the socket's buffer is full.
    fn drain(&mut self, to: &Socket, pool: &mut PipePool) -> io::Result<bool> {
        let Some((pipe, bytes)) = &mut self.held else { return Ok(true) };
        if !self.writable {
            return Ok(false);
        }
        match unless_blocked(pipe.drain(to, *bytes))? {
            None => self.writable = false,
            Some(drained) => {
                *bytes -= drained;
                self.moved += drained as u64;
                if *bytes == 0
                    && let Some((pipe, _)) = self.held.take()
                {
                    pool.give_back(pipe);
                }
            }
        }
        Ok(self.writable)
    }

    /// Forwards bytes without a pipe, by a buffer.
    ///
    /// It peeks at the bytes, sends them, and then consumes only those that were sent. Thus no unsent byte has to be
    /// stored.
    fn copy(&mut self, from: &Socket, to: &Socket, pool: &mut PipePool) -> io::Result<()> {
        if from.is_at_mark() {
            self.urgent = true;
            return Ok(());
        }
        let buffer = pool.buffer();
        match unless_blocked(from.peek(buffer))? {
            None => self.readable = false,
            Some(0) => self.ended = true,
            Some(bytes) => {
                let sent = unless_blocked(to.send(buffer.get(..bytes).unwrap_or_default(), false))?;
                self.take_sent(from, sent)?;
            }
        }
        Ok(())
    }

    fn pass_urgent(&mut self, from: &Socket, to: &Socket) -> io::Result<()> {
        let mut byte = [0];
        match unless_blocked(from.peek(&mut byte))? {
            // The urgent pointer can arrive before the urgent byte.
            None => self.readable = false,
            Some(0) => self.ended = true,
            Some(_) => {
                let sent = unless_blocked(to.send(&byte, true))?;
                self.urgent = sent.is_none();
                self.take_sent(from, sent)?;
            }
        }
        Ok(())
    }

    fn take_sent(&mut self, from: &Socket, sent: Option<usize>) -> io::Result<()> {
        match sent {
            None => self.writable = false,
            Some(sent) => {
                self.moved += from.skip(sent)? as u64;
            }
        }
        Ok(())
    }
}
