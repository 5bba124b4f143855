use super::spec::{EndSpec, LinkSpec};
use crate::net::{Node, context, sys};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// TUN gives no back-pressure, so its queue must hold what comes between two looks.
const TX_QUEUE_PACKETS: u32 = 4000;

/// The emulator's side of one end of a link: a TUN device in the end's namespace, one IP packet a read, no offload header.
#[derive(Debug)]
pub(super) struct Device {
    tun: File,
}

impl Device {
    /// Creates the interface of `end` and brings it up; `peer` is the other end.
    pub(super) fn open(end: &EndSpec, peer: &EndSpec, mtu: u16) -> io::Result<Device> {
        let (node, name) = (&end.node, end.interface.as_str());
        let tun = node.run(|| open_tun(name))?.map_err(|e| context(format_args!("TUN device {name} on {node}"), e))?;
        configure(end, peer, mtu)?;
        Ok(Device { tun })
    }

    /// The next packet the node sent, or [`io::ErrorKind::WouldBlock`].
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.tun.read(buffer)
    }

    /// Hands a packet to the node.
    pub(super) fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        self.tun.write(packet).map(drop)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }
}

/// Creates a TUN device in the calling thread's namespace; it vanishes when the file is closed.
fn open_tun(name: &str) -> io::Result<File> {
    let tun = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .map_err(|e| context("/dev/net/tun", e))?;
    // SAFETY: an all-zero ifreq is valid: integers and byte arrays only.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "an interface name has 1 to 15 bytes"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which outlives the call.
    sys::check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    Ok(tun)
}

fn configure(end: &EndSpec, peer: &EndSpec, mtu: u16) -> io::Result<()> {
    let (node, name) = (&end.node, &end.interface);
    // Without a link-local address the kernel solicits no routers.
    node.ip(&format!("link set dev {name} addrgenmode none mtu {mtu} txqueuelen {TX_QUEUE_PACKETS} up"))?;
    match (end.ipv4, peer.ipv4) {
        (Some(here), Some(there)) => node.add_address(name, &format!("{here} peer {there}"))?,
        (Some(here), None) => node.add_address(name, &here.to_string())?,
        _ => {}
    }
    match (end.ipv6, peer.ipv6) {
        (Some(here), Some(there)) => node.add_address(name, &format!("{here} peer {there} nodad")),
        (Some(here), None) => node.add_address(name, &format!("{here} nodad")),
        _ => Ok(()),
    }
}

/// Reads how many packets the kernel dropped because an interface's transmit queue was full.
#[derive(Debug)]
pub(super) struct DropCounter {
    table: File,
    interface: String,
}

impl DropCounter {
    pub(super) fn open(node: &Node, interface: &str) -> io::Result<DropCounter> {
        let table = node.run(|| File::open("/proc/thread-self/net/dev"))??;
        Ok(DropCounter { table, interface: interface.to_owned() })
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
        transmit_drops(&text, &self.interface)
            .ok_or_else(|| io::Error::other(format!("/proc/net/dev does not list {}", self.interface)))
    }
}

/// The "drop" column of the transmit half of `/proc/net/dev`.
fn transmit_drops(table: &str, interface: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'))?;
    line.split_whitespace().nth(11)?.parse().ok()
}

/// Both devices of a link, first end first, and their drop counters.
pub(super) fn open_link(link: &LinkSpec) -> io::Result<[(Device, DropCounter); 2]> {
    let [first, second] = &link.ends;
    let open = |end: &EndSpec, peer: &EndSpec| -> io::Result<(Device, DropCounter)> {
        let device = Device::open(end, peer, link.mtu)?;
        Ok((device, DropCounter::open(&end.node, &end.interface)?))
    };
    Ok([open(first, second)?, open(second, first)?])
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
