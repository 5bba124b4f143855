//! Pipes for those who have bytes under way, and a buffer for all others.

use super::sys::Pipe;

/// Bytes a pipe is asked to hold.
pub const PIPE_BYTES: i32 = 256 << 10;
const BUFFER_BYTES: usize = 64 << 10;

/// Pipes that are empty, and the right to make more.
pub struct Pool {
    idle: Vec<Pipe>,
    lent: usize,
    most: usize,
    buffer: Box<[u8]>,
}

impl Pool {
    /// A pool of at most `most` pipes.
    pub fn new(most: usize) -> Pool {
        Pool { idle: Vec::new(), lent: 0, most, buffer: vec![0; BUFFER_BYTES].into() }
    }

    /// Lends at most so many from now on.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// An empty pipe, unless all are in use.
    pub fn take(&mut self) -> Option<Pipe> {
        let pipe = match self.idle.pop() {
            Some(pipe) => pipe,
            None if self.lent < self.most => Pipe::new(PIPE_BYTES).ok()?,
            None => return None,
        };
        self.lent += 1;
        Some(pipe)
    }

    /// Takes an empty pipe back.
    pub fn give_back(&mut self, pipe: Pipe) {
        self.lent -= 1;
        self.idle.push(pipe);
    }

    /// One that had bytes in it was closed.
    pub fn lost(&mut self) {
        self.lent -= 1;
    }

    /// Pipes with bytes in them.
    pub fn lent(&self) -> usize {
        self.lent
    }

    /// Memory for one copy at a time.
    pub fn buffer(&mut self) -> &mut [u8] {
        &mut self.buffer
    }
}
