//! The pipes of a worker for bytes in transit, and its one buffer for connections without a pipe.

use super::sys::Pipe;

/// Requested capacity of a pipe, in bytes.
pub const PIPE_BYTES: i32 = 256 << 10;
/// Size of the copy buffer, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// The idle pipes of a worker, and the limit on the number of pipes in use.
pub struct PipePool {
    idle: Vec<Pipe>,
    /// Number of pipes in use.
    lent: usize,
    /// Maximum number of pipes in use.
    most: usize,
    /// Buffer for connections without a pipe.
    buffer: Box<[u8]>,
}

impl PipePool {
    /// Creates a pool that lends at most `most` pipes.
    pub fn new(most: usize) -> PipePool {
        PipePool { idle: Vec::new(), lent: 0, most, buffer: vec![0; BUFFER_BYTES].into() }
    }

    /// Changes the maximum number of pipes in use.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Returns an empty pipe, or `None` if the maximum number is in use or the kernel refuses a pipe.
    pub fn take(&mut self) -> Option<Pipe> {
        let pipe = match self.idle.pop() {
            Some(pipe) => pipe,
            None if self.lent < self.most => Pipe::new(PIPE_BYTES).ok()?,
            None => return None,
        };
        self.lent += 1;
        Some(pipe)
    }

    /// Takes back an empty pipe that is no longer in use.
    pub fn give_back(&mut self, pipe: Pipe) {
        self.lent -= 1;
        self.idle.push(pipe);
    }

    /// Records that a pipe in use was closed, because it still contained bytes.
    pub fn lost(&mut self) {
        self.lent -= 1;
    }

    /// Number of pipes in use.
    pub fn lent(&self) -> usize {
        self.lent
    }

    /// Returns the buffer by which bytes are copied for a connection without a pipe.
    pub fn buffer(&mut self) -> &mut [u8] {
        &mut self.buffer
    }
}
