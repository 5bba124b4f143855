//! A netlink socket and the framing of its messages.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::RouteMessage;

use super::kernel_socket::KernelSocket;
use crate::sys::set_option;

/// Length of the receive buffer, in bytes.
///
/// The largest datagram of a dump that the kernel sends fits into it (NLMSG_GOODSIZE is at most this).
const RECEIVE_LEN: usize = 32 * 1024;
/// Length of a netlink header, in bytes.
const HEADER_LEN: usize = 16;
/// Maximum number of times that a dump is started if changes interrupt it.
const DUMP_ATTEMPTS: usize = 5;
/// Byte range of the sequence number in a header.
const SEQUENCE: Range<usize> = 8..12;
/// Type of the message that ends a dump (`linux/netlink.h`).
const NLMSG_DONE: u16 = 3;
/// Type of an error message (`linux/netlink.h`).
const NLMSG_ERROR: u16 = 2;

/// An rtnetlink socket that never blocks: the kernel has answered a request when `send` returns.
pub(crate) struct NetlinkSocket {
    socket: KernelSocket,
    /// Sequence number of the last request.
    sequence: u32,
    buffer: Box<[u8]>,
}

impl NetlinkSocket {
    /// Opens a socket that receives the messages of these multicast groups (`RTNLGRP_*`).
    pub(crate) fn open(groups: &[u32]) -> io::Result<Self> {
        let socket = KernelSocket::open(libc::NETLINK_ROUTE, 0)?;
        for &group in groups {
            socket.set(libc::NETLINK_ADD_MEMBERSHIP, group.cast_signed())?;
        }
        Ok(Self { socket, sequence: 0, buffer: vec![0; RECEIVE_LEN].into() })
    }

    /// Sends a request and waits for the kernel's acknowledgment.
    pub(crate) fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.exchange(message, flags, |_| {})
    }

    /// Requests one object. `handle` gets each message before the kernel's acknowledgment.
    pub(crate) fn get(
        &mut self,
        message: RouteNetlinkMessage,
        handle: impl FnMut(NetlinkPayload<RouteNetlinkMessage>),
    ) -> io::Result<()> {
        self.exchange(message, 0, handle)
    }

    fn exchange(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
        mut handle: impl FnMut(NetlinkPayload<RouteNetlinkMessage>),
    ) -> io::Result<()> {
        self.send(message, NLM_F_REQUEST | NLM_F_ACK | flags)?;
        let sequence = self.sequence;
        let mut answer = None;
        while answer.is_none() {
            self.receive(|header, payload| match payload {
                _ if header.sequence_number != sequence => {}
                NetlinkPayload::Error(ack) => answer = Some(if ack.code.is_none() { Ok(()) } else { Err(ack.to_io()) }),
                payload => handle(payload),
            })?;
        }
        answer.unwrap_or(Ok(()))
    }

    /// Requests all objects of a kind and returns them as of one moment.
    ///
    /// If a change interrupts the dump, it starts again.
    pub(crate) fn dump(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        for _ in 0..DUMP_ATTEMPTS {
            if let Some(objects) = self.dump_once(message.clone())? {
                return Ok(objects);
            }
        }
        Err(io::Error::other("netlink: the tables change too fast for a dump"))
    }

    fn dump_once(&mut self, message: RouteNetlinkMessage) -> io::Result<Option<Vec<RouteNetlinkMessage>>> {
        self.send(message, NLM_F_REQUEST | NLM_F_DUMP)?;
        let sequence = self.sequence;
        let mut objects = Vec::new();
        let mut end = None;
        let mut interrupted = false;
        while end.is_none() {
            self.receive(|header, payload| {
                if header.sequence_number != sequence {
                    return;
                }
                interrupted |= header.flags & NLM_F_DUMP_INTR != 0;
                match payload {
                    NetlinkPayload::InnerMessage(object) => objects.push(object),
                    NetlinkPayload::Done(_) => end = Some(Ok(())),
                    NetlinkPayload::Error(error) => end = Some(Err(error.to_io())),
                    _ => {}
                }
            })?;
        }
        end.unwrap_or(Ok(()))?;
        Ok((!interrupted).then_some(objects))
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes)
    }

    /// Receives one datagram and passes its messages to `handle`. Skips messages that it cannot parse.
    pub(crate) fn receive(
        &mut self,
        mut handle: impl FnMut(&NetlinkHeader, NetlinkPayload<RouteNetlinkMessage>),
    ) -> io::Result<()> {
        self.receive_raw(|bytes| {
            if let Ok(message) = NetlinkMessage::deserialize(bytes) {
                let (header, payload) = message.into_parts();
                handle(&header, payload);
            }
        })
    }

    /// Receives one datagram and passes the bytes of its messages to `handle`.
    pub(crate) fn receive_raw(&mut self, mut handle: impl FnMut(&[u8])) -> io::Result<()> {
        messages(self.socket.receive(&mut self.buffer)?).for_each(&mut handle);
        Ok(())
    }

    /// Requests all routes and passes the bytes of each message to `handle`.
    ///
    /// Parsing a message costs several times as much as reading it, so a caller that needs few routes parses only
    /// those. Changes during the dump may be missing from it. They arrive as events.
    pub(crate) fn dump_routes(&mut self, mut handle: impl FnMut(&[u8])) -> io::Result<()> {
        self.send(RouteNetlinkMessage::GetRoute(RouteMessage::default()), NLM_F_REQUEST | NLM_F_DUMP)?;
        let sequence = self.sequence.to_ne_bytes();
        let mut end = None;
        while end.is_none() {
            self.receive_raw(|bytes| {
                if bytes.get(SEQUENCE) != Some(&sequence) {
                    return;
                }
                match bytes.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes) {
                    Some(NLMSG_DONE) => end = Some(Ok(())),
                    Some(NLMSG_ERROR) => end = Some(Err(io::Error::other("the kernel refuses to list its routes"))),
                    _ => handle(bytes),
                }
            })?;
        }
        end.unwrap_or(Ok(()))
    }

    /// Enlarges the receive buffer to `bytes`, or without CAP_NET_ADMIN to the administrator's limit at most.
    pub(crate) fn set_receive_buffer(&self, bytes: i32) -> io::Result<()> {
        let socket = self.socket.as_fd();
        set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes)
            .or_else(|_| set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes))
    }
}

impl AsRawFd for NetlinkSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Splits a datagram into messages by their length fields. Ends at the first invalid length.
pub(crate) fn messages(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
        let message = rest.get(..length).filter(|message| message.len() >= HEADER_LEN)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

#[cfg(test)]
mod tests {
    use super::messages;

    fn message(length: u32, actual: usize) -> Vec<u8> {
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.resize(actual, 0);
        bytes
    }

    #[test]
    fn messages_are_cut_at_four_byte_boundaries() {
        let bytes = [message(17, 20), message(16, 16)].concat();
        assert_eq!(messages(&bytes).map(<[u8]>::len).collect::<Vec<_>>(), [17, 16]);
    }

    #[test]
    fn lying_lengths_end_the_datagram() {
        for length in [0, 15, 21, u32::MAX] {
            assert_eq!(messages(&message(length, 20)).count(), 0, "length {length}");
        }
        assert_eq!(messages(&[1, 2]).count(), 0);
    }
}
