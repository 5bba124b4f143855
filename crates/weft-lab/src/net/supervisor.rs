//! The thread that starts all programs of a lab in one PID namespace. No program thus outlives the lab.

use super::{context, sys};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Maximum time for which the supervisor, when it ends, waits until the PID namespace has no process.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(2);

struct SpawnRequest {
    command: Command,
    answer: SyncSender<io::Result<Child>>,
}

/// Starts programs in a separate PID namespace, from a separate thread.
///
/// The namespace's init process waits until a pipe closes. Only this process holds the other end of the pipe. When
/// init exits, the kernel kills all other processes of the namespace, grandchildren included. The thread is necessary
/// because the kernel sends a parent-death signal when the *thread* that forked ends.
#[derive(Debug)]
pub(super) struct NamespaceSupervisor {
    requests: Mutex<Option<Sender<SpawnRequest>>>,
    thread: Option<JoinHandle<()>>,
}

impl NamespaceSupervisor {
    pub(super) fn start() -> io::Result<NamespaceSupervisor> {
        let (requests, inbox) = channel();
        let (ready, started) = sync_channel(1);
        let thread = thread::Builder::new().name("lab-supervisor".into()).spawn(move || match start_init() {
            Ok(init) => {
                let _ = ready.send(Ok(()));
                serve(&inbox);
                init.end();
            }
            Err(error) => {
                let _ = ready.send(Err(context("cannot create a PID namespace", error)));
            }
        })?;
        started.recv().unwrap_or_else(|_| Err(gone()))?;
        Ok(NamespaceSupervisor { requests: Mutex::new(Some(requests)), thread: Some(thread) })
    }

    /// Starts `command` as a child of this process, inside the PID namespace.
    pub(super) fn spawn(&self, command: Command) -> io::Result<Child> {
        let (answer, child) = sync_channel(1);
        let requests = self.requests.lock().map_err(|_| gone())?;
        requests.as_ref().ok_or_else(gone)?.send(SpawnRequest { command, answer }).map_err(|_| gone())?;
        drop(requests);
        child.recv().map_err(|_| gone())?
    }
}

impl Drop for NamespaceSupervisor {
    fn drop(&mut self) {
        if let Ok(requests) = self.requests.get_mut() {
            *requests = None;
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the lab's supervisor ended")
}

fn serve(inbox: &Receiver<SpawnRequest>) {
    while let Ok(SpawnRequest { mut command, answer }) = inbox.recv() {
        let _ = answer.send(command.spawn());
    }
}

struct Init {
    pid: libc::pid_t,
    lifeline: OwnedFd,
}

/// Makes the calling thread's children start in a new PID namespace, and starts its init.
fn start_init() -> io::Result<Init> {
    let (reader, writer) = io::pipe()?;
    let lifeline = OwnedFd::from(writer);
    let reader = OwnedFd::from(reader);
    sys::unshare(libc::CLONE_NEWPID)?;
    // SAFETY: The child calls only async-signal-safe functions and never returns.
    let pid = sys::check(unsafe { libc::fork() })?;
    if pid == 0 {
        run_init(reader.as_raw_fd());
    }
    Ok(Init { pid, lifeline })
}

/// Runs as the init process: reaps orphans, and exits when the pipe `lifeline` closes.
fn run_init(lifeline: i32) -> ! {
    let mut byte = 0u8;
    // SAFETY: All calls are async-signal-safe. They use descriptors of this process and a one-byte buffer
    // that outlives them.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        libc::dup2(lifeline, 0);
        libc::syscall(libc::SYS_close_range, 1u32, u32::MAX, 0u32);
        while libc::read(0, (&raw mut byte).cast(), 1) < 0 && *libc::__errno_location() == libc::EINTR {}
        libc::_exit(0)
    }
}

impl Init {
    /// Ends every process of the namespace.
    ///
    /// Closing the pipe makes init exit, and the kernel kills the other processes. Init's exit completes only when the
    /// parent of each of them has waited for it. This process is the parent of the lab's programs.
    fn end(self) {
        drop(self.lifeline);
        let deadline = Instant::now() + CLEAR_TIMEOUT;
        // SAFETY: The call waits for a child of this process that no other code waits for. A null status is
        // allowed.
        while unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), libc::WNOHANG) } == 0 && Instant::now() < deadline
        {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
