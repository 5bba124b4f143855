//! Output of a capture: a new file, or a pipe whose reader may be slow.

use crate::files::Directory;
use crate::outcome::{Failure, Outcome};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Number of bytes that are collected before they are written to the file or the pipe.
const BUFFER: usize = 256 << 10;
/// Number of bytes that a writable pipe accepts without blocking. Standard: `PIPE_BUF` of pipe(7).
const PIPE_BUF: usize = 4_096;
/// Maximum time for a pipe's reader to take the remaining bytes after the user has ended the capture.
///
/// After it the capture ends without these bytes.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// Mode of a new capture file: only its owner may read it, because packets are private.
const MODE: u32 = 0o600;

/// The signals that end a capture.
pub struct EndSignals {
    signals: SignalFd,
}

impl EndSignals {
    /// Blocks the signals, so that they no longer kill the process.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn listen() -> io::Result<EndSignals> {
        let ending: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT].into_iter().collect();
        ending.thread_block()?;
        Ok(EndSignals { signals: SignalFd::new(&ending)? })
    }
}

impl AsFd for EndSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }
}

/// Destination of a capture.
pub enum CaptureOutput {
    /// A new file.
    File(BufWriter<File>),
    /// Standard output, which is no terminal.
    Pipe(OutputPipe),
}

impl CaptureOutput {
    /// Creates the file, or checks standard output if `path` is `-`.
    ///
    /// # Errors
    /// Fails if the file exists, is a symbolic link or cannot be created, or if standard output is a terminal.
    pub fn create(path: &Path, signals: &Rc<EndSignals>) -> Result<CaptureOutput, Failure> {
        if path == Path::new("-") {
            if io::stdout().is_terminal() {
                let text =
                    "standard output is a terminal: use -w FILE, or a pipe: weft capture -w - | wireshark -k -i -";
                return Err(Failure::with(Outcome::Usage, text));
            }
            return Ok(CaptureOutput::Pipe(OutputPipe { signals: Rc::clone(signals), buffer: Vec::new() }));
        }
        let file = create(path).map_err(|why| {
            let shown = path.display();
            Failure::new(match why.kind() {
                io::ErrorKind::AlreadyExists => {
                    format!("{shown}: the file exists already: choose another name, or remove it")
                }
                io::ErrorKind::NotFound => {
                    format!("the directory of the file {shown} does not exist: create it, or choose another one")
                }
                _ => format!("{shown}: {why}"),
            })
        })?;
        Ok(CaptureOutput::File(BufWriter::with_capacity(BUFFER, file)))
    }

    /// True if the output is a pipe, whose reader may show packets as they arrive.
    pub fn is_live(&self) -> bool {
        matches!(self, CaptureOutput::Pipe(_))
    }
}

/// Creates a new file.
///
/// A symbolic link in its place is an error. So is one in its path that another user may have planted.
fn create(path: &Path) -> io::Result<File> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let directory = Directory::open(path.parent().unwrap_or(Path::new("")))?;
    directory.create(name, MODE, &[])
}

impl Write for CaptureOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            CaptureOutput::File(file) => file.write(bytes),
            CaptureOutput::Pipe(pipe) => pipe.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            CaptureOutput::File(file) => file.flush(),
            CaptureOutput::Pipe(pipe) => pipe.flush(),
        }
    }
}

/// A pipe to a reader. A signal of the user ends the wait for a slow reader.
pub struct OutputPipe {
    signals: Rc<EndSignals>,
    buffer: Vec<u8>,
}

impl Write for OutputPipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let out = io::stdout();
        for piece in self.buffer.chunks(PIPE_BUF) {
            wait_for_reader(out.as_fd(), self.signals.as_fd())?;
            // The bytes are written to the descriptor directly: Rust's buffer of standard output would hold back the
            // bytes after the last line end.
            let mut rest = piece;
            while !rest.is_empty() {
                match nix::unistd::write(out.as_fd(), rest) {
                    Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                    Err(nix::errno::Errno::EINTR) => {}
                    Err(why) => return Err(why.into()),
                }
            }
        }
        self.buffer.clear();
        Ok(())
    }
}

/// Waits until the pipe is writable.
///
/// After a signal it waits at most `LAST_WAIT`. If the pipe is still full then, it fails, and the rest of the capture
/// is not written.
fn wait_for_reader(out: BorrowedFd<'_>, signals: BorrowedFd<'_>) -> io::Result<()> {
    let mut fds = [PollFd::new(out, PollFlags::POLLOUT), PollFd::new(signals, PollFlags::POLLIN)];
    let is_ready = |fds: &[PollFd<'_>], at: usize| fds.get(at).is_some_and(|fd| fd.any().unwrap_or(false));
    loop {
        match poll(&mut fds, PollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => {}
            result => {
                result?;
                break;
            }
        }
    }
    if is_ready(&fds, 0) {
        return Ok(());
    }
    let last = PollTimeout::try_from(LAST_WAIT).unwrap_or(PollTimeout::ZERO);
    match poll(&mut fds[..1], last) {
        Ok(1..) => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::TimedOut, "its reader takes no more data: the capture is cut")),
    }
}
