//! An nfnetlink socket, its messages and their attributes (linux/netfilter/nfnetlink.h).

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};

use crate::netlink::{KernelSocket, messages};
use crate::sys::set_option;

/// Length of a netlink header, in bytes.
const HEADER_LEN: usize = 16;
/// Length of the netlink and nfnetlink headers, in bytes. The latter holds family, version and resource.
const HEADERS_LEN: usize = HEADER_LEN + 4;
/// Message flag: this is a request.
const REQUEST: u16 = libc::NLM_F_REQUEST as u16;
/// Message flag: the kernel must acknowledge the request.
const ACK: u16 = libc::NLM_F_ACK as u16;
/// Message type of an acknowledgment or an error.
const ERROR: u16 = libc::NLMSG_ERROR as u16;
/// Bits of an attribute's type that are not part of its number.
const FLAGS: u16 = 0xc000;
/// Length of the receive buffer, in bytes. The longest packet and its netlink headers fit.
const RECEIVE_LEN: usize = 68 * 1024;
/// Size of the socket's receive buffer, in bytes.
const SOCKET_LEN: i32 = 1 << 20;

/// Names an nfnetlink subsystem and one of its queues or groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct NetfilterTarget {
    /// Number of the subsystem, the high byte of a message's type.
    pub(super) subsystem: u8,
    /// Number of the queue or group.
    pub(super) resource: u16,
}

/// A message to the kernel.
pub(super) struct NetfilterRequest(Vec<u8>);

impl NetfilterRequest {
    pub(super) fn new(target: NetfilterTarget, kind: u8) -> NetfilterRequest {
        let mut bytes = vec![0; HEADERS_LEN];
        put(&mut bytes, 4, &(u16::from(target.subsystem) << 8 | u16::from(kind)).to_ne_bytes());
        put(&mut bytes, HEADER_LEN + 2, &target.resource.to_be_bytes());
        NetfilterRequest(bytes)
    }

    pub(super) fn attribute(mut self, kind: u16, pieces: &[&[u8]]) -> NetfilterRequest {
        let len = pieces.iter().map(|piece| piece.len()).sum::<usize>() + 4;
        self.0.extend((len as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        pieces.iter().for_each(|piece| self.0.extend_from_slice(piece));
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}

/// An nfnetlink socket, which never blocks.
pub(super) struct Nfnetlink {
    socket: KernelSocket,
    buffer: Box<[u8]>,
}

impl Nfnetlink {
    pub(super) fn open() -> io::Result<Nfnetlink> {
        let socket = KernelSocket::open(libc::NETLINK_NETFILTER, 0)?;
        // Without this option the kernel would report lost messages. Their packets pass or are dropped like any other.
        socket.set(libc::NETLINK_NO_ENOBUFS, 1)?;
        set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, SOCKET_LEN)?;
        Ok(Nfnetlink { socket, buffer: vec![0; RECEIVE_LEN].into() })
    }

    /// Sends a request and reads the kernel's answer, which is available when `send` returns.
    pub(super) fn ask(&mut self, request: NetfilterRequest) -> io::Result<()> {
        send(&self.socket, request, ACK)?;
        loop {
            let answer = self.socket.receive(&mut self.buffer)?;
            if let Some(message) = messages(answer).find(|message| kind(message) == ERROR) {
                let code =
                    message.get(HEADER_LEN..).and_then(<[u8]>::first_chunk).map_or(0, |code| i32::from_ne_bytes(*code));
                return if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) };
            }
        }
    }

    /// Receives a datagram and passes the attributes of its messages of type `wanted` to `handle`.
    pub(super) fn receive(
        &mut self,
        target: NetfilterTarget,
        wanted: u8,
        mut handle: impl FnMut(&KernelSocket, &mut [u8]),
    ) -> io::Result<()> {
        let datagram = self.socket.receive(&mut self.buffer)?;
        each_message(datagram, target, wanted, |attributes| handle(&self.socket, attributes));
        Ok(())
    }
}

impl AsRawFd for Nfnetlink {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Passes the attributes of a datagram's messages of type `wanted` to `handle`.
pub(super) fn each_message(
    datagram: &mut [u8],
    target: NetfilterTarget,
    wanted: u8,
    mut handle: impl FnMut(&mut [u8]),
) {
    let wanted = u16::from(target.subsystem) << 8 | u16::from(wanted);
    let mut rest = datagram;
    while let Some(len) = first_len(rest) {
        let (message, after) = rest.split_at_mut(len);
        if kind(message) == wanted
            && let Some(attributes) = message.get_mut(HEADERS_LEN..)
        {
            handle(attributes);
        }
        let padding = len.next_multiple_of(4) - len;
        rest = after.get_mut(padding..).unwrap_or_default();
    }
}

/// Sends a request without waiting for the kernel's answer.
pub(super) fn send(socket: &KernelSocket, NetfilterRequest(mut bytes): NetfilterRequest, flags: u16) -> io::Result<()> {
    let len = bytes.len() as u32;
    put(&mut bytes, 0, &len.to_ne_bytes());
    put(&mut bytes, 6, &(REQUEST | flags).to_ne_bytes());
    socket.send(&bytes)
}

/// Returns the position of the value of the attribute `wanted` within `attributes`, or `None`.
pub(super) fn find(attributes: &[u8], wanted: u16) -> Option<std::ops::Range<usize>> {
    let mut at = 0;
    loop {
        let header = attributes.get(at..)?.first_chunk::<4>()?;
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        if len < 4 || at + len > attributes.len() {
            return None;
        }
        if u16::from_ne_bytes([header[2], header[3]]) & !FLAGS == wanted {
            return Some(at + 4..at + len);
        }
        at += len.next_multiple_of(4);
    }
}

/// Returns the first four bytes of the attribute `wanted` as a number in network byte order, or `None`.
pub(super) fn number(attributes: &[u8], wanted: u16) -> Option<u32> {
    let value = attributes.get(find(attributes, wanted)?)?;
    value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn first_len(datagram: &[u8]) -> Option<usize> {
    messages(datagram).next().map(<[u8]>::len)
}

fn kind(message: &[u8]) -> u16 {
    message.get(4..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u16::from_ne_bytes(*bytes))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_lying_lengths_end_the_search() {
        let target = NetfilterTarget { subsystem: 3, resource: 7 };
        let NetfilterRequest(bytes) =
            NetfilterRequest::new(target, 2).attribute(1, &[&[9]]).attribute(0x8005, &[&[1, 2], &[3, 4, 5]]);
        let attributes = &bytes[HEADERS_LEN..];
        assert_eq!(bytes[4..6], 0x0302_u16.to_ne_bytes());
        assert_eq!(find(attributes, 1), Some(4..5));
        assert_eq!((find(attributes, 5), number(attributes, 5)), (Some(12..17), Some(0x0102_0304)));
        assert_eq!((find(attributes, 2), number(attributes, 1)), (None, None));
        for lie in [0, 3, 200] {
            let mut broken = attributes.to_vec();
            broken[0] = lie;
            assert_eq!(find(&broken, 5), None, "{lie}");
        }
    }
}
