//! NFLOG (linux/netfilter/nfnetlink_log.h).

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use super::socket::{Nfnetlink, Request, Target, find};

const SUBSYSTEM: u8 = 4;
const PACKET: u8 = 0;
const CONFIG: u8 = 1;

const CONFIG_COMMAND: u16 = 1;
const CONFIG_COPY: u16 = 2;
const CONFIG_AT_ONCE: u16 = 5;
const BIND: u8 = 1;
const COPY_PACKET: u8 = 2;

const PAYLOAD: u16 = 9;

/// How a packet that went on began.
#[derive(Debug)]
pub struct Copied<'a> {
    /// From its IP header on, cut off. Its transport checksum may not be complete, and it may be a super-packet.
    pub head: &'a mut [u8],
}

/// A group of the network namespace it was opened in.
pub struct Copies {
    socket: Nfnetlink,
    target: Target,
}

impl Copies {
    /// Hears of what rules log to the group of that number, each packet's first `len` bytes at once.
    ///
    /// # Errors
    /// When the kernel refuses: another program has it, or CAP_NET_ADMIN is missing.
    pub fn open(group: u16, len: u32) -> io::Result<Copies> {
        let target = Target { subsystem: SUBSYSTEM, resource: group };
        let mut socket = Nfnetlink::open()?;
        let config = |kind, pieces: &[&[u8]]| Request::new(target, CONFIG).attribute(kind, pieces);
        socket.ask(config(CONFIG_COMMAND, &[&[BIND]]))?;
        socket.ask(config(CONFIG_COPY, &[&len.to_be_bytes(), &[COPY_PACKET, 0]]))?;
        socket.ask(config(CONFIG_AT_ONCE, &[&1_u32.to_be_bytes()]))?;
        Ok(Copies { socket, target })
    }

    /// Hands over the copies of one datagram.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is none, and whatever the kernel says.
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
