//! A node as a service manager runs it: restarted with the delay of its unit, and with the descriptors that it stored.

use crate::common::Dir;
use nix::cmsg_space;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::unistd::Pid;
use std::fs;
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The unit of the package.
const UNIT: &str = include_str!("../../../../packaging/weft.service");
/// Maximum time in which a node ends after SIGTERM.
const END_WITHIN: Duration = Duration::from_secs(5);

fn setting(key: &str) -> Option<&'static str> {
    UNIT.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
}

/// Returns the delay after which the unit's node restarts.
pub fn restart_delay() -> Duration {
    let text = setting("RestartSec").unwrap();
    match text.strip_suffix("ms") {
        Some(ms) => Duration::from_millis(ms.parse().unwrap()),
        None => Duration::from_secs(text.parse().unwrap()),
    }
}

/// Returns the number of descriptors that the unit allows the node to store.
fn store_max() -> usize {
    setting("FileDescriptorStoreMax").map_or(0, |text| text.parse().unwrap())
}

/// A node that is started and ended by the test.
pub struct Service {
    node: &'static str,
    program: PathBuf,
    dir: PathBuf,
    child: Option<Child>,
    notified: UnixDatagram,
    /// Stored descriptors by name (sd_pid_notify_with_fds(3)).
    stored: Vec<(String, OwnedFd)>,
    /// Maximum number of stored descriptors, as in the unit of `program`.
    store_max: usize,
    pub started: Instant,
}

impl Service {
    pub fn start(dir: &Dir, node: &'static str, program: &Path) -> Service {
        let notified = UnixDatagram::bind(dir.path(&format!("{node}.notify"))).unwrap();
        notified.set_nonblocking(true).unwrap();
        let (dir, program) = (dir.0.clone(), program.to_owned());
        let (child, stored, started) = (None, Vec::new(), Instant::now());
        let store_max = store_max();
        let mut service = Service { node, program, dir, child, notified, stored, store_max, started };
        service.run();
        service
    }

    /// Uses another program from its next start on.
    ///
    /// The unit of an older package stores no descriptors.
    pub fn replace(&mut self, program: &Path, is_older: bool) {
        self.program = program.to_owned();
        self.store_max = if is_older { 0 } else { store_max() };
    }

    /// Starts the process with the stored descriptors.
    pub fn run(&mut self) {
        assert!(self.child.is_none());
        self.store();
        let log = fs::OpenOptions::new().create(true).append(true).open(self.dir.join(format!("{}.log", self.node)));
        let descriptors: Vec<RawFd> = self.stored.iter().map(|(_, fd)| fd.as_raw_fd()).collect();
        let names: Vec<&str> = self.stored.iter().map(|(name, _)| name.as_str()).collect();
        let moves: String = (3..).zip(&descriptors).map(|(to, from)| format!(" {to}<&{from}-")).collect();
        // The process id of the shell becomes that of the node.
        let script = format!("export LISTEN_PID=$$; exec ip netns exec \"$@\"{moves}");
        let mut command = Command::new("bash");
        command.args(["-c", &script, "bash", self.node]).arg(&self.program).args(["up", "-v", "-c"]);
        command.arg(self.dir.join(format!("{}.toml", self.node)));
        command.env("NOTIFY_SOCKET", self.dir.join(format!("{}.notify", self.node)));
        command.env("LISTEN_FDS", descriptors.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
        let inherit = move || {
            for fd in &descriptors {
                // SAFETY: the call takes no pointers, and the descriptors are open in the child.
                unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) };
            }
            Ok(())
        };
        // SAFETY: the closure only makes system calls that are safe after fork.
        unsafe { command.pre_exec(inherit) };
        self.started = Instant::now();
        self.child = Some(command.stdout(Stdio::null()).stderr(log.unwrap()).spawn().unwrap());
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Ends the process with SIGTERM, as `systemctl restart` does.
    pub fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        let until = Instant::now() + END_WITHIN;
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "{}: still runs after SIGTERM", self.node);
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Reads the notifications of the process, and stores the descriptors that came with them.
    fn store(&mut self) {
        let mut text = [0; 4_096];
        loop {
            let mut space = cmsg_space!([RawFd; 16]);
            let mut parts = [IoSliceMut::new(&mut text)];
            let flags = MsgFlags::MSG_CMSG_CLOEXEC;
            let Ok(message) = recvmsg::<()>(self.notified.as_raw_fd(), &mut parts, Some(&mut space), flags) else {
                break;
            };
            let (len, mut fds) = (message.bytes, Vec::new());
            for part in message.cmsgs().unwrap() {
                if let ControlMessageOwned::ScmRights(received) = part {
                    fds.extend(received.into_iter().map(own));
                }
            }
            self.apply(&String::from_utf8_lossy(&text[..len]), fds);
        }
        self.stored.truncate(self.store_max);
    }

    fn apply(&mut self, text: &str, fds: Vec<OwnedFd>) {
        let has = |line: &str| text.lines().any(|found| found == line);
        let name = text.lines().find_map(|line| line.strip_prefix("FDNAME=")).unwrap_or("stored").to_owned();
        if has("FDSTORE=1") {
            self.stored.extend(fds.into_iter().map(|fd| (name.clone(), fd)));
        } else if has("FDSTOREREMOVE=1") {
            self.stored.retain(|(of, _)| *of != name);
        }
    }
}

/// Takes a received descriptor, and gives it a number above those that a start assigns.
fn own(received: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just created this descriptor for this process, and nothing else owns it.
    let received = unsafe { OwnedFd::from_raw_fd(received) };
    // SAFETY: the call takes no pointers, and creates a descriptor that nothing else owns.
    unsafe { OwnedFd::from_raw_fd(libc::fcntl(received.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 100)) }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}
