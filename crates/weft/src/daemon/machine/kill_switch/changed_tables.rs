//! Reports of the kernel that tables of nft have changed.

use crate::daemon::threads::Pulse;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket};
use std::io;
use std::os::fd::AsRawFd as _;

/// Group of the reports (*standard*: `NFNLGRP_NFTABLES`, linux/netfilter/nfnetlink.h), as a bit.
const GROUP: u32 = 1 << (7 - 1);

/// Calls `changed` once at the start and after each change of a table, until an error.
///
/// The first call covers the changes before the kernel's reports begin.
///
/// # Errors
/// Returns the kernel's error.
pub fn watch(pulse: &Pulse, changed: impl Fn()) -> io::Result<()> {
    let protocol = SockProtocol::NetlinkNetFilter;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUP))?;
    changed();
    let mut report = [0; 4_096];
    loop {
        match pulse.resting(|| recv(socket.as_raw_fd(), &mut report, MsgFlags::empty())) {
            // If the kernel dropped a report, a table may have changed.
            Ok(_) | Err(Errno::ENOBUFS | Errno::EINTR) => changed(),
            Err(why) => return Err(why.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::log::{Level, Log};
    use crate::daemon::threads::Threads;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn the_first_call_needs_no_report() {
        let threads = Threads::start(Log::new(Level::Error), || ()).unwrap();
        let pulse = threads.watch("watch", Duration::from_secs(600));
        let (calls, called) = channel();
        let end = thread::spawn(move || watch(&pulse, || _ = calls.send(())));
        if called.recv_timeout(Duration::from_secs(10)).is_err() {
            // The kernel permits these reports to root only.
            assert!(end.is_finished(), "no call before the first report");
            assert!(end.join().unwrap().is_err());
        }
    }
}
