//! TUN devices in nodes, and the kernel's counter of the packets that these devices dropped.

use crate::net::{NetNamespace, context, sys};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

const DEVICE: &str = "/dev/net/tun";

/// True if this process may open TUN devices.
pub(super) fn is_available() -> bool {
    open_device().is_ok()
}

fn open_device() -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(DEVICE)
        .map_err(|e| context(format_args!("cannot open the TUN driver's device {DEVICE}"), e))
}

/// Creates a TUN device in `node`. Each read returns one IP packet without an offload header.
///
/// Closing the file removes the device.
pub(super) fn open(node: &NetNamespace, name: &str) -> io::Result<File> {
    let opened = node.run(|| {
        let tun = open_device()?;
        // SAFETY: An all-zero ifreq is valid, because it contains only integers and byte arrays.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one ifreq, which outlives the call.
        sys::check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
        Ok(tun)
    })?;
    opened.map_err(|e| context(format_args!("cannot create the TUN device {name} on node {node}"), e))
}

/// Reads the number of packets that the kernel dropped because an interface's transmit queue was full.
#[derive(Debug)]
pub(super) struct TunDropCounter {
    table: File,
    interface: String,
}

impl TunDropCounter {
    pub(super) fn open(node: &NetNamespace, interface: &str) -> io::Result<TunDropCounter> {
        let table = node.run(|| File::open("/proc/thread-self/net/dev"))??;
        Ok(TunDropCounter { table, interface: interface.to_owned() })
    }

    pub(super) fn read(&self) -> io::Result<u64> {
        let mut text = vec![0; 65_536];
        let mut length = 0;
        while let Some(room) = text.get_mut(length..).filter(|room| !room.is_empty()) {
            match self.table.read_at(room, length as u64)? {
                0 => break,
                n => length += n,
            }
        }
        let text = String::from_utf8_lossy(text.get(..length).unwrap_or_default());
        transmit_drops(&text, &self.interface).ok_or_else(|| {
            io::Error::other(format!(
                "the lab's device {} no longer exists (/proc/net/dev does not list it): start the run again",
                self.interface
            ))
        })
    }
}

/// Reads the interface's "drop" column in the transmit half of `/proc/net/dev`. `None` if the interface is missing.
fn transmit_drops(table: &str, interface: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'))?;
    line.split_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_transmit_drops() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes …\n\
            \x20   lo:  1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  wan1: 1 2 3 4 5 6 7 8 9 10 11 77 13 14 15 16\n";
        assert_eq!(transmit_drops(table, "wan1"), Some(77));
        assert_eq!(transmit_drops(table, "wan"), None);
    }
}
