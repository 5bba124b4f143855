//! Open descriptors that outlive the process in the store of its service manager.
//!
//! A process sends a descriptor with a name (sd_pid_notify_with_fds(3)). The next process of the service inherits all
//! stored descriptors (sd_listen_fds(3)).

use crate::sys::check;
use std::env;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first inherited descriptor (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;
/// Maximum number of inherited descriptors that are taken.
const MOST: usize = 4_096;

/// Takes the inherited descriptors with their names. Later calls return none.
///
/// A service manager must have started this process, and no earlier code may own or close these descriptors.
#[must_use]
pub fn take() -> Vec<(String, OwnedFd)> {
    static ARE_TAKEN: AtomicBool = AtomicBool::new(false);
    let text = |name| env::var(name).unwrap_or_default();
    // A child inherits the variables of its parent, so they may be meant for another process.
    let is_ours = text("LISTEN_PID").parse() == Ok(process::id());
    if !is_ours || ARE_TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    let count = text("LISTEN_FDS").parse::<usize>().unwrap_or(0).min(MOST);
    let names = text("LISTEN_FDNAMES");
    let names = names.split(':').map(str::to_owned).chain(std::iter::repeat(String::new()));
    (FIRST..).take(count).zip(names).filter_map(|(fd, name)| own(fd).map(|fd| (name, fd))).collect()
}

/// Takes a descriptor if it is open, and keeps it from programs that this process starts.
fn own(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: the call takes no pointers, and fails for a closed descriptor.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) }).ok()?;
    // SAFETY: the descriptor is open. The service manager passed it to this process, and only the first call of `take`
    // gets here.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}
