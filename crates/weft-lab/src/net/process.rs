use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus, Output};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(2);

/// A running program of the lab. It is killed and waited for when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    pub(super) fn new(child: Child) -> Process {
        Process { child }
    }

    /// The process id, as this process sees it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The standard library's handle, for its pipes and `try_wait`.
    pub fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Sends a signal such as `libc::SIGTERM`. Does nothing once the program has been waited for.
    ///
    /// # Errors
    /// When the kernel refuses the signal.
    pub fn signal(&mut self, signal: i32) -> io::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        // SAFETY: takes no pointers; the child has not been waited for, so the id is still its own.
        super::sys::check(unsafe { libc::kill(self.child.id() as libc::pid_t, signal) }).map(drop)
    }

    /// Waits for the program to end by itself.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] when it has not ended within `timeout`; it goes on running.
    pub fn wait_within(&mut self, timeout: Duration) -> io::Result<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                return Err(timed_out("it is still running", timeout));
            }
            thread::sleep(POLL);
        }
    }

    /// Waits for the program to end and returns what it, and what it started, wrote to those of standard output and error that
    /// are piped.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] when it has not ended, or somebody still holds its pipes, within `timeout`; it is killed then.
    pub fn output_within(mut self, timeout: Duration) -> io::Result<Output> {
        let deadline = Instant::now() + timeout;
        let stdout = collect(self.child.stdout.take().map(OwnedFd::from));
        let stderr = collect(self.child.stderr.take().map(OwnedFd::from));
        let status = self.wait_within(timeout)?;
        let text = |collected: Receiver<Vec<u8>>| {
            let left = deadline.saturating_duration_since(Instant::now()).max(POLL);
            collected.recv_timeout(left).map_err(|_| timed_out("its output is still open", timeout))
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

fn timed_out(what: &str, timeout: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("{what} after {timeout:?}"))
}

/// Everything that comes from `pipe`, once it ends; nothing without a pipe.
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
