//! The emulator's ends of links: TUN devices or packet sockets, with the kernel's drop counters.
//!
//! This module creates the interfaces of a link in its two nodes and configures their addresses. All ends
//! offer the same calls to receive and send a packet, whatever their backend.

use super::packet::{self, SocketDrops, WireSocket};
use super::spec::{EmulatedLinkSpec, EndSpec};
use super::tun;
use crate::net::NetNamespace;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// Length of the interface's transmit queue, in packets.
///
/// The kernel drops packets when the queue is full, and the node does not slow down. The queue must therefore have
/// space for all packets that the node sends between two reads of the emulator.
const TX_QUEUE_PACKETS: u32 = 4000;

/// The way in which the emulator exchanges packets with its nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    /// A TUN device in each node. It costs less and needs permission to open `/dev/net/tun`.
    Tun,
    /// A veth pair to each node, with a packet socket on the emulator's end.
    ///
    /// It works for ordinary users in a user namespace.
    Packet,
}

impl Backend {
    /// Returns the best backend that this process may use.
    pub fn best() -> Backend {
        if tun::is_available() { Backend::Tun } else { Backend::Packet }
    }
}

/// The emulator's access to one end of a link.
#[derive(Debug)]
pub(super) enum LinkDevice {
    Tun(File),
    Packet(WireSocket),
}

impl LinkDevice {
    /// Reads the next packet that the node sent.
    ///
    /// Returns [`io::ErrorKind::WouldBlock`] if there is none.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            LinkDevice::Tun(file) => file.read(buffer),
            LinkDevice::Packet(socket) => socket.receive(buffer),
        }
    }

    /// Sends a packet to the node.
    pub(super) fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        match self {
            LinkDevice::Tun(file) => file.write(packet).map(drop),
            LinkDevice::Packet(socket) => socket.send(packet),
        }
    }
}

impl AsFd for LinkDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            LinkDevice::Tun(file) => file.as_fd(),
            LinkDevice::Packet(socket) => socket.socket().as_fd(),
        }
    }
}

/// Reads the number of a node's packets that the kernel dropped because the emulator read too late.
#[derive(Debug)]
pub(super) enum DropCounter {
    Tun(tun::TunDropCounter),
    Packet(SocketDrops),
}

impl DropCounter {
    pub(super) fn read(&self) -> io::Result<u64> {
        match self {
            DropCounter::Tun(counter) => counter.read(),
            DropCounter::Packet(counter) => counter.read(),
        }
    }
}

/// The namespace of the emulator's ends of veth pairs. Dropping it removes the pairs.
#[derive(Debug)]
pub(super) struct Wires {
    node: NetNamespace,
    count: usize,
}

impl Drop for Wires {
    /// Removes the veth pairs at once. With the namespace the kernel would remove them only some time later.
    fn drop(&mut self) {
        for number in 0..self.count {
            let _ = self.node.ip(&format!("link delete dev {}", packet::wire_name(number)));
        }
    }
}

/// Creates the interfaces of links.
pub(super) struct Opener {
    /// The namespace of veth ends. `None` with TUN devices.
    wires: Option<Wires>,
}

impl Opener {
    pub(super) fn new(backend: Backend, links: &[EmulatedLinkSpec]) -> io::Result<Opener> {
        let wires = match (backend, links.first()) {
            (Backend::Packet, Some(EmulatedLinkSpec { ends: [first, _], .. })) => {
                Some(Wires { node: first.node.sibling("wires")?, count: 0 })
            }
            _ => None,
        };
        Ok(Opener { wires })
    }

    /// Creates both interfaces of a link and brings them up. Returns the first end first.
    pub(super) fn open(&mut self, link: &EmulatedLinkSpec) -> io::Result<[(LinkDevice, DropCounter); 2]> {
        let [first, second] = &link.ends;
        Ok([self.open_end(first, second, link.mtu)?, self.open_end(second, first, link.mtu)?])
    }

    fn open_end(&mut self, end: &EndSpec, peer: &EndSpec, mtu: u16) -> io::Result<(LinkDevice, DropCounter)> {
        let (node, name) = (&end.node, end.interface.as_str());
        if name.is_empty() || name.len() >= libc::IFNAMSIZ {
            let message =
                format!("the interface name {name:?} on node {node} must have 1 to 15 bytes: rename the link");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let opened = match &mut self.wires {
            Some(wires) => {
                let number = wires.count;
                wires.count += 1;
                let socket = WireSocket::open(&wires.node, number, node, name)?;
                let drops = socket.drop_counter()?;
                (LinkDevice::Packet(socket), DropCounter::Packet(drops))
            }
            None => {
                let device = tun::open(node, name)?;
                (LinkDevice::Tun(device), DropCounter::Tun(tun::TunDropCounter::open(node, name)?))
            }
        };
        configure(end, peer, mtu)?;
        Ok(opened)
    }

    /// Returns the namespace of veth ends, or `None` with TUN devices.
    ///
    /// The caller must keep it while the devices are in use.
    pub(super) fn into_wires(self) -> Option<Wires> {
        self.wires
    }
}

fn configure(end: &EndSpec, peer: &EndSpec, mtu: u16) -> io::Result<()> {
    let (node, name) = (&end.node, &end.interface);
    // Without an automatic link-local address, the kernel sends no router solicitations over the link.
    node.ip(&format!("link set dev {name} addrgenmode none mtu {mtu} txqueuelen {TX_QUEUE_PACKETS} up"))?;
    match (end.ipv4, peer.ipv4) {
        (Some(here), Some(there)) => node.add_address(name, &format!("{here} peer {there}"))?,
        (Some(here), None) => node.add_address(name, &here.to_string())?,
        _ => {}
    }
    end.ipv6.map_or(Ok(()), |here| node.add_ipv6_address(name, here, peer.ipv6))
}
