//! Each test in network namespaces of its own, which vanish with the last descriptor: nothing to clean up.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a test waits for something that should come at once.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A network namespace with loopback up.
pub struct Namespace {
    handle: File,
}

impl Namespace {
    /// Makes a namespace and takes this thread there.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; only this thread moves.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
            return Err(io::Error::last_os_error());
        }
        ip("link set lo up");
        Ok(Self { handle: File::open("/proc/thread-self/ns/net")? })
    }

    /// Takes this thread there.
    #[allow(dead_code, reason = "not every test has two")]
    pub fn enter(&self) {
        // SAFETY: the descriptor is open; only this thread moves.
        let result = unsafe { libc::setns(self.handle.as_raw_fd(), libc::CLONE_NEWNET) };
        assert_eq!(result, 0);
    }

    /// A path by which other processes find it.
    #[allow(dead_code, reason = "not every test has two")]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.handle.as_raw_fd())
    }
}

/// Runs a test on a thread of its own in a new namespace, or says why it cannot.
pub fn in_namespace(test: impl FnOnce(Namespace) + Send + 'static) {
    let run = move || match Namespace::new() {
        Ok(namespace) => test(namespace),
        Err(error) => tell(format_args!("skipped: no network namespace may be made: {error}\n")),
    };
    if let Err(panic) = std::thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

/// Past the test harness, which keeps to itself what a passing test prints.
fn tell(text: std::fmt::Arguments) {
    let _ = io::stderr().write_fmt(text);
}

/// Runs ip(8) in this thread's namespace and returns what it prints.
pub fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().expect("ip(8) is needed");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Tries again until there is something, for at most [`PATIENCE`].
#[allow(dead_code, reason = "not every test waits")]
pub fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(found) = attempt() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{what}: not within {PATIENCE:?}");
}

/// The kernel takes IPv6 packets for a new address a moment after the address is there: waits until then.
#[allow(dead_code, reason = "not every test has IPv6")]
pub fn wait_for_local_route(address: &str) {
    wait_for("a local route", || ip("-6 route show table local").contains(address).then_some(()));
}
