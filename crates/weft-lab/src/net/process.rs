use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus, Output};
use std::thread::{self, JoinHandle};
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
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("still running after {timeout:?}")));
            }
            thread::sleep(POLL);
        }
    }

    /// Waits for the program to end and returns what it wrote to those of standard output and error that are piped.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] when it has not ended within `timeout`; it is killed then.
    pub fn output_within(mut self, timeout: Duration) -> io::Result<Output> {
        let stdout = self.child.stdout.take().map(|pipe| collect(pipe.into()));
        let stderr = self.child.stderr.take().map(|pipe| collect(pipe.into()));
        let status = self.wait_within(timeout);
        let _ = self.child.kill();
        let _ = self.child.wait();
        let join = |reader: Option<JoinHandle<Vec<u8>>>| reader.and_then(|r| r.join().ok()).unwrap_or_default();
        let (stdout, stderr) = (join(stdout), join(stderr));
        Ok(Output { status: status?, stdout, stderr })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(pipe: OwnedFd) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut text = Vec::new();
        let _ = std::fs::File::from(pipe).read_to_end(&mut text);
        text
    })
}
