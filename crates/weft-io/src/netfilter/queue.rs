//! NFQUEUE (linux/netfilter/nfnetlink_queue.h).

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use netlink_sys::Socket;

use super::socket::{Nfnetlink, Request, Target, each_message, find, number, send};

const SUBSYSTEM: u8 = 3;
const PACKET: u8 = 0;
const VERDICT: u8 = 1;
const CONFIG: u8 = 2;

const CONFIG_COMMAND: u16 = 1;
const CONFIG_COPY: u16 = 2;
const CONFIG_MOST: u16 = 3;
const CONFIG_MASK: u16 = 4;
const CONFIG_FLAGS: u16 = 5;
const BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const COPY_ALL: u32 = 0xffff;
/// What finds no room in the queue goes on as if there were none.
const FAIL_OPEN: u32 = 1;

const PACKET_HEADER: u16 = 1;
const VERDICT_HEADER: u16 = 2;
const MARK: u16 = 3;
const PAYLOAD: u16 = 10;
const ACCEPT: u32 = libc::NF_ACCEPT as u32;

/// Where on its way a packet was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// It has arrived.
    Arriving,
    /// It leaves.
    Leaving,
}

/// A packet that waits for a verdict. Its checksums are complete, and a super-packet comes in segments.
#[derive(Debug)]
pub struct Queued<'a> {
    /// Names it in the verdict.
    pub id: u32,
    /// Where it was taken.
    pub hook: Hook,
    /// Its mark.
    pub mark: u32,
    /// The packet from its IP header on.
    pub packet: &'a mut [u8],
}

impl<'a> Queued<'a> {
    /// From the attributes of a message.
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

    /// Hands over the packets in a datagram of the kernel's, as [`Queue::receive`] does.
    pub fn each_in(datagram: &mut [u8], mut handle: impl FnMut(Queued<'_>)) {
        let target = Target { subsystem: SUBSYSTEM, resource: 0 };
        each_message(datagram, target, PACKET, |attributes| {
            if let Some(queued) = Queued::parse(attributes) {
                handle(queued);
            }
        });
    }
}

/// Where verdicts go.
pub struct Verdicts<'a> {
    socket: &'a Socket,
    number: u16,
}

impl Verdicts<'_> {
    /// Lets a packet go on with this mark, as it came or with other bytes.
    ///
    /// # Errors
    /// When the kernel does not take it.
    pub fn accept(&self, id: u32, mark: u32, instead: Option<&[u8]>) -> io::Result<()> {
        let target = Target { subsystem: SUBSYSTEM, resource: self.number };
        let mut verdict = Request::new(target, VERDICT)
            .attribute(VERDICT_HEADER, &[&ACCEPT.to_be_bytes(), &id.to_be_bytes()])
            .attribute(MARK, &[&mark.to_be_bytes()]);
        if let Some(packet) = instead {
            verdict = verdict.attribute(PAYLOAD, &[packet]);
        }
        send(self.socket, verdict, 0)
    }
}

/// A queue of the network namespace it was opened in.
pub struct Queue {
    socket: Nfnetlink,
    number: u16,
}

impl Queue {
    /// Takes what rules send to the queue of that number; at most `most` packets wait, others go on.
    ///
    /// # Errors
    /// When the kernel refuses: another program has it, or CAP_NET_ADMIN is missing.
    pub fn open(number: u16, most: u32) -> io::Result<Queue> {
        let target = Target { subsystem: SUBSYSTEM, resource: number };
        let mut socket = Nfnetlink::open()?;
        let config = |kind, pieces: &[&[u8]]| Request::new(target, CONFIG).attribute(kind, pieces);
        socket.ask(config(CONFIG_COMMAND, &[&[BIND, 0, 0, 0]]))?;
        socket.ask(config(CONFIG_MOST, &[&most.to_be_bytes()]))?;
        let flags = FAIL_OPEN.to_be_bytes();
        socket.ask(config(CONFIG_MASK, &[&flags]).attribute(CONFIG_FLAGS, &[&flags]))?;
        socket.ask(config(CONFIG_COPY, &[&COPY_ALL.to_be_bytes(), &[COPY_PACKET]]))?;
        Ok(Queue { socket, number })
    }

    /// Hands over the packets of one datagram. Each needs a verdict.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is none, and whatever the kernel says.
    pub fn receive(&mut self, mut handle: impl FnMut(&Verdicts<'_>, Queued<'_>)) -> io::Result<()> {
        let target = Target { subsystem: SUBSYSTEM, resource: self.number };
        self.socket.receive(target, PACKET, |socket, attributes| {
            if let Some(queued) = Queued::parse(attributes) {
                handle(&Verdicts { socket, number: target.resource }, queued);
            }
        })
    }
}

impl AsRawFd for Queue {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
