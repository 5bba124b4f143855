//! A running program of the lab: signals, its end, and its output.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus, Output};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(2);

/// A running program of the lab. Dropping it kills the program and waits for its end.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    pub(super) fn new(child: Child) -> Process {
        Process { child }
    }

    /// Returns the program's process id, as the PID namespace of this process numbers it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the standard library's handle of the program, to access its pipes and to call `try_wait`.
    pub fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Sends a signal such as `libc::SIGTERM`. Does nothing if the program has ended.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses the signal.
    pub fn signal(&mut self, signal: i32) -> io::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        // SAFETY: The call takes no pointers. The child has not been waited for, so the id still belongs to
        // it.
        super::sys::check(unsafe { libc::kill(self.child.id() as libc::pid_t, signal) }).map(drop)
    }

    /// Waits for the program to end by itself.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::TimedOut`] if the program has not ended within `timeout`. The program
    /// continues to run.
    pub fn wait_within(&mut self, timeout: Duration) -> io::Result<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                return Err(timed_out(format!(
                    "a program that weft-lab started did not end within {timeout:?} and was left running: start the run again"
                )));
            }
            thread::sleep(POLL);
        }
    }

    /// Waits for the program to end, and returns its output.
    ///
    /// The output contains everything that the program and its children wrote to piped standard output and
    /// error.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::TimedOut`] if within `timeout` the program has not ended or its pipes are
    /// still open. The program is then killed.
    pub fn output_within(mut self, timeout: Duration) -> io::Result<Output> {
        let deadline = Instant::now() + timeout;
        let stdout = collect(self.child.stdout.take().map(OwnedFd::from));
        let stderr = collect(self.child.stderr.take().map(OwnedFd::from));
        let status = self.wait_within(timeout)?;
        let text = |collected: Receiver<Vec<u8>>| {
            let left = deadline.saturating_duration_since(Instant::now()).max(POLL);
            let open = |_| {
                timed_out(format!(
                    "the program has ended, but after {timeout:?} a program that it started still holds its output \
                     open: end that one"
                ))
            };
            collected.recv_timeout(left).map_err(open)
        };
        Ok(Output { status, stdout: text(stdout)?, stderr: text(stderr)? })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn timed_out(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

/// Starts a thread that reads `pipe` until it closes and then sends all bytes by the returned channel.
///
/// Without a pipe, it sends no bytes at once.
fn collect(pipe: Option<OwnedFd>) -> Receiver<Vec<u8>> {
    let (sender, collected) = channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(pipe) = pipe {
            let _ = File::from(pipe).read_to_end(&mut text);
        }
        let _ = sender.send(text);
    });
    collected
}
