//! Runs each test in its own network namespaces, which the kernel removes with their last descriptor.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::{Duration, Instant};

/// Maximum time that a test waits for something that should happen at once.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A network namespace with the loopback device up.
pub struct Namespace {
    handle: File,
}

impl Namespace {
    /// Creates a namespace and moves this thread into it.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; only this thread moves.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
            return Err(io::Error::last_os_error());
        }
        ip("link set lo up");
        Ok(Self { handle: File::open("/proc/thread-self/ns/net")? })
    }

    /// Moves this thread into the namespace.
    #[allow(dead_code, reason = "not every test has two")]
    pub fn enter(&self) {
        // SAFETY: the descriptor is open; only this thread moves.
        let result = unsafe { libc::setns(self.handle.as_raw_fd(), libc::CLONE_NEWNET) };
        assert_eq!(result, 0);
    }

    /// Returns a path through which other processes can open the namespace.
    #[allow(dead_code, reason = "not every test has two")]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.handle.as_raw_fd())
    }
}

/// Runs a test on its own thread in a new namespace, or prints why it cannot.
pub fn in_namespace(test: impl FnOnce(Namespace) + Send + 'static) {
    let run = move || match Namespace::new() {
        Ok(namespace) => test(namespace),
        Err(error) => tell(format_args!("skipped: no network namespace may be made: {error}\n")),
    };
    if let Err(panic) = std::thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

/// Prints text to standard error past the test harness, which hides the output of passing tests.
fn tell(text: std::fmt::Arguments) {
    let _ = io::stderr().write_fmt(text);
}

/// Runs ip(8) in this thread's namespace and returns its output.
pub fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().expect("ip(8) is needed");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Repeats `attempt` until it returns a value, for at most [`PATIENCE`].
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

/// Waits until the kernel accepts IPv6 packets for a new address, shortly after the address is added.
#[allow(dead_code, reason = "not every test has IPv6")]
pub fn wait_for_local_route(address: &str) {
    wait_for("a local route", || ip("-6 route show table local").contains(address).then_some(()));
}
