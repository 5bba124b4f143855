//! One direction of a connection: bytes, the urgent one at its place, and the end.

use super::pool::{PIPE_BYTES, Pool};
use super::sys::{Pipe, Socket, unless_blocked};
use std::io;

/// Bytes moved in a turn, so that nobody waits long for his.
const TURN_BYTES: usize = 1 << 20;

/// How far a turn came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pumped {
    /// Until one of the two has to do something.
    Waiting,
    /// As far as one turn may.
    Again,
    /// To the end, which has been passed on.
    Finished,
}

/// One direction. It reads only while the other side takes, so that a slow receiver slows its sender.
#[derive(Default)]
pub struct Direction {
    /// A pipe, while there is something in it.
    held: Option<(Pipe, usize)>,
    /// Something may have come.
    pub readable: bool,
    /// There may be room.
    pub writable: bool,
    /// An urgent byte is on its way.
    pub urgent: bool,
    /// The end has come.
    ended: bool,
    /// The end has been passed on.
    finished: bool,
    /// Bytes passed on.
    pub moved: u64,
}

impl Direction {
    /// Passes on what can be passed on now.
    ///
    /// # Errors
    /// When either connection is broken.
    pub fn pump(&mut self, from: &Socket, to: &Socket, pool: &mut Pool) -> io::Result<Pumped> {
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

    /// Counts what went with the connection's first packet.
    pub fn sent_early(&mut self, bytes: usize) {
        self.moved += bytes as u64;
    }

    /// Gives the pipe up, with what is in it.
    pub fn abandon(&mut self, pool: &mut Pool) {
        if self.held.take().is_some() {
            pool.lost();
        }
    }

    fn fill(&mut self, from: &Socket, to: &Socket, pool: &mut Pool) -> io::Result<()> {
        let Some(pipe) = pool.take() else { return self.copy(from, to, pool) };
        match unless_blocked(pipe.fill(from, PIPE_BYTES as usize)) {
            Ok(Some(bytes)) if bytes > 0 => self.held = Some((pipe, bytes)),
            result => {
                pool.give_back(pipe);
                match result? {
                    // It stops before the mark, which looks like the end where that has come too.
                    Some(_) if from.is_at_mark() => self.urgent = true,
                    Some(_) => self.ended = true,
                    None => self.readable = false,
                }
            }
        }
        Ok(())
    }

    /// False when there is no room.
    fn drain(&mut self, to: &Socket, pool: &mut Pool) -> io::Result<bool> {
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

    /// Without a pipe: looked at, sent, and taken as far as it was sent, so that nothing has to be kept.
    fn copy(&mut self, from: &Socket, to: &Socket, pool: &mut Pool) -> io::Result<()> {
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
            // The mark comes before its byte.
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
