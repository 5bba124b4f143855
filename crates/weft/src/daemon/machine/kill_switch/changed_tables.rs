//! Reports of the kernel that tables of nft have changed.

use crate::daemon::threads::Pulse;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket};
use std::io;
use std::os::fd::AsRawFd as _;

/// Group of the reports (*standard*: `NFNLGRP_NFTABLES`, linux/netfilter/nfnetlink.h), as a bit.
const GROUP: u32 = 1 << (7 - 1);

/// Calls `changed` after each change of a table, until an error.
///
/// # Errors
/// Returns the kernel's error.
pub fn watch(pulse: &Pulse, changed: impl Fn()) -> io::Result<()> {
    let protocol = SockProtocol::NetlinkNetFilter;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUP))?;
    let mut report = [0; 4_096];
    loop {
        match pulse.resting(|| recv(socket.as_raw_fd(), &mut report, MsgFlags::empty())) {
            // A lost report is a change, too.
            Ok(_) | Err(Errno::ENOBUFS | Errno::EINTR) => changed(),
            Err(why) => return Err(why.into()),
        }
    }
}
