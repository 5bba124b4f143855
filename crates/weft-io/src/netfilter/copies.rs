//! Copies of packets through NFLOG (linux/netfilter/nfnetlink_log.h).

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use super::socket::{NetfilterRequest, NetfilterTarget, Nfnetlink, find};

/// Number of the nfnetlink subsystem NFLOG (`NFNL_SUBSYS_ULOG`).
const SUBSYSTEM: u8 = 4;
/// Message type of a logged packet (`NFULNL_MSG_PACKET`).
const PACKET: u8 = 0;
/// Message type of a configuration (`NFULNL_MSG_CONFIG`).
const CONFIG: u8 = 1;

/// Attribute with a configuration command (`NFULA_CFG_CMD`).
const CONFIG_COMMAND: u16 = 1;
/// Attribute with the copy mode and length (`NFULA_CFG_MODE`).
const CONFIG_COPY: u16 = 2;
/// Attribute with the number of packets after which the kernel sends their copies (`NFULA_CFG_QTHRESH`).
const CONFIG_AT_ONCE: u16 = 5;
/// Command: bind to the group (`NFULNL_CFG_CMD_BIND`).
const BIND: u8 = 1;
/// Copy mode: the first bytes of each packet (`NFULNL_COPY_PACKET`).
const COPY_PACKET: u8 = 2;

/// Attribute with the packet's bytes (`NFULA_PAYLOAD`).
const PAYLOAD: u16 = 9;

/// The first bytes of a packet that netfilter has copied to this process.
#[derive(Debug)]
pub struct Copied<'a> {
    /// The packet's first bytes, from its IP header on.
    ///
    /// Its transport checksum may be incomplete, and it may be a super-packet.
    pub head: &'a mut [u8],
}

/// An NFLOG group of the network namespace in which it was opened.
pub struct Copies {
    socket: Nfnetlink,
    /// The NFLOG group.
    target: NetfilterTarget,
}

impl Copies {
    /// Receives the packets that rules log to `group`: the first `len` bytes of each, without batching.
    ///
    /// # Errors
    /// Fails if another program holds the group, or without CAP_NET_ADMIN.
    pub fn open(group: u16, len: u32) -> io::Result<Copies> {
        let target = NetfilterTarget { subsystem: SUBSYSTEM, resource: group };
        let mut socket = Nfnetlink::open()?;
        let config = |kind, pieces: &[&[u8]]| NetfilterRequest::new(target, CONFIG).attribute(kind, pieces);
        socket.ask(config(CONFIG_COMMAND, &[&[BIND]]))?;
        socket.ask(config(CONFIG_COPY, &[&len.to_be_bytes(), &[COPY_PACKET, 0]]))?;
        socket.ask(config(CONFIG_AT_ONCE, &[&1_u32.to_be_bytes()]))?;
        Ok(Copies { socket, target })
    }

    /// Receives one netlink datagram and passes each copy in it to `handle`.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if none is waiting, and errors of the kernel.
    pub fn receive(&mut self, mut handle: impl FnMut(Copied<'_>)) -> io::Result<()> {
        self.socket.receive(self.target, PACKET, |_, attributes| {
            if let Some(head) = find(attributes, PAYLOAD).and_then(|at| attributes.get_mut(at)) {
                handle(Copied { head });
            }
        })
    }
}

impl AsRawFd for Copies {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
