//! Packets that wait for a verdict, through NFQUEUE (linux/netfilter/nfnetlink_queue.h).

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use super::socket::{NetfilterRequest, NetfilterTarget, Nfnetlink, each_message, find, number, send};
use crate::netlink::KernelSocket;

/// Number of the nfnetlink subsystem NFQUEUE (`NFNL_SUBSYS_QUEUE`).
const SUBSYSTEM: u8 = 3;
/// Message type of a queued packet (`NFQNL_MSG_PACKET`).
const PACKET: u8 = 0;
/// Message type of a verdict (`NFQNL_MSG_VERDICT`).
const VERDICT: u8 = 1;
/// Message type of a configuration (`NFQNL_MSG_CONFIG`).
const CONFIG: u8 = 2;

/// Attribute with a configuration command (`NFQA_CFG_CMD`).
const CONFIG_COMMAND: u16 = 1;
/// Attribute with the copy mode and length (`NFQA_CFG_PARAMS`).
const CONFIG_COPY: u16 = 2;
/// Attribute with the maximum queue length (`NFQA_CFG_QUEUE_MAXLEN`).
const CONFIG_MOST: u16 = 3;
/// Attribute with the mask of the flags to change (`NFQA_CFG_MASK`).
const CONFIG_MASK: u16 = 4;
/// Attribute with the new flags (`NFQA_CFG_FLAGS`).
const CONFIG_FLAGS: u16 = 5;
/// Command: bind to the queue (`NFQNL_CFG_CMD_BIND`).
const BIND: u8 = 1;
/// Copy mode: the bytes of each packet (`NFQNL_COPY_PACKET`).
const COPY_PACKET: u8 = 2;
/// Copy length: the whole packet.
const COPY_ALL: u32 = 0xffff;
/// Flag: packets pass without a verdict while the queue is full (`NFQA_CFG_F_FAIL_OPEN`).
const FAIL_OPEN: u32 = 1;

/// Attribute with a packet's id and hook (`NFQA_PACKET_HDR`).
const PACKET_HEADER: u16 = 1;
/// Attribute with a verdict (`NFQA_VERDICT_HDR`).
const VERDICT_HEADER: u16 = 2;
/// Attribute with a packet's mark (`NFQA_MARK`).
const MARK: u16 = 3;
/// Attribute with a packet's bytes (`NFQA_PAYLOAD`).
const PAYLOAD: u16 = 10;
/// Verdict: the packet continues.
const ACCEPT: u32 = libc::NF_ACCEPT as u32;

/// Direction in which a packet was going when a rule queued it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// The packet was received (hooks prerouting and input).
    Arriving,
    /// The packet is being sent (all other hooks).
    Leaving,
}

/// A packet that waits for a verdict. Its checksums are complete, and super-packets arrive as segments.
#[derive(Debug)]
pub struct Queued<'a> {
    /// Identifies the packet in its verdict.
    pub id: u32,
    /// Direction of the packet.
    pub hook: Hook,
    /// The packet's netfilter mark.
    pub mark: u32,
    /// The packet's bytes, from its IP header on.
    pub packet: &'a mut [u8],
}

impl<'a> Queued<'a> {
    /// Parses the attributes of a message about a queued packet. `None` if the packet or its id is missing.
    fn parse(attributes: &'a mut [u8]) -> Option<Queued<'a>> {
        let mark = number(attributes, MARK).unwrap_or_default();
        let header = find(attributes, PACKET_HEADER).and_then(|at| attributes.get(at)?.first_chunk::<7>().copied());
        let ([a, b, c, d, .., hook], payload) = (header?, find(attributes, PAYLOAD)?);
        let hook = match i32::from(hook) {
            libc::NF_INET_PRE_ROUTING | libc::NF_INET_LOCAL_IN => Hook::Arriving,
            _ => Hook::Leaving,
        };
        Some(Queued { id: u32::from_be_bytes([a, b, c, d]), hook, mark, packet: attributes.get_mut(payload)? })
    }

    /// Passes each packet in a netlink datagram to `handle`, as [`NetfilterQueue::receive`] does.
    pub fn each_in(datagram: &mut [u8], mut handle: impl FnMut(Queued<'_>)) {
        let target = NetfilterTarget { subsystem: SUBSYSTEM, resource: 0 };
        each_message(datagram, target, PACKET, |attributes| {
            if let Some(queued) = Queued::parse(attributes) {
                handle(queued);
            }
        });
    }
}

/// Sends verdicts to the kernel.
pub struct Verdicts<'a> {
    socket: &'a KernelSocket,
    /// Number of the queue.
    number: u16,
}

impl Verdicts<'_> {
    /// Lets a packet continue with this mark, unchanged or with the bytes `instead`.
    ///
    /// # Errors
    /// Fails if the kernel does not accept the verdict.
    pub fn accept(&self, id: u32, mark: u32, instead: Option<&[u8]>) -> io::Result<()> {
        let target = NetfilterTarget { subsystem: SUBSYSTEM, resource: self.number };
        let mut verdict = NetfilterRequest::new(target, VERDICT)
            .attribute(VERDICT_HEADER, &[&ACCEPT.to_be_bytes(), &id.to_be_bytes()])
            .attribute(MARK, &[&mark.to_be_bytes()]);
        if let Some(packet) = instead {
            verdict = verdict.attribute(PAYLOAD, &[packet]);
        }
        send(self.socket, verdict, 0)
    }
}

/// An NFQUEUE of the network namespace in which it was opened.
pub struct NetfilterQueue {
    socket: Nfnetlink,
    /// Number of the queue.
    number: u16,
}

impl NetfilterQueue {
    /// Receives the packets that rules send to the queue `number`.
    ///
    /// At most `most` packets wait for a verdict. Further packets continue without one.
    ///
    /// # Errors
    /// Fails if another program holds the queue, or without CAP_NET_ADMIN.
    pub fn open(number: u16, most: u32) -> io::Result<NetfilterQueue> {
        let target = NetfilterTarget { subsystem: SUBSYSTEM, resource: number };
        let mut socket = Nfnetlink::open()?;
        let config = |kind, pieces: &[&[u8]]| NetfilterRequest::new(target, CONFIG).attribute(kind, pieces);
        socket.ask(config(CONFIG_COMMAND, &[&[BIND, 0, 0, 0]]))?;
        socket.ask(config(CONFIG_MOST, &[&most.to_be_bytes()]))?;
        let flags = FAIL_OPEN.to_be_bytes();
        socket.ask(config(CONFIG_MASK, &[&flags]).attribute(CONFIG_FLAGS, &[&flags]))?;
        socket.ask(config(CONFIG_COPY, &[&COPY_ALL.to_be_bytes(), &[COPY_PACKET]]))?;
        Ok(NetfilterQueue { socket, number })
    }

    /// Receives one netlink datagram and passes each packet in it to `handle`. Each packet needs a verdict.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if none is waiting, and errors of the kernel.
    pub fn receive(&mut self, mut handle: impl FnMut(&Verdicts<'_>, Queued<'_>)) -> io::Result<()> {
        let target = NetfilterTarget { subsystem: SUBSYSTEM, resource: self.number };
        self.socket.receive(target, PACKET, |socket, attributes| {
            if let Some(queued) = Queued::parse(attributes) {
                handle(&Verdicts { socket, number: target.resource }, queued);
            }
        })
    }
}

impl AsRawFd for NetfilterQueue {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
