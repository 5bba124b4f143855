//! Sends a batch of datagrams to one address in one system call.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use super::address::RawAddress;
use super::control::ControlWriter;
use super::socket::UdpLink;
use crate::sys::past_old_errors;

/// Maximum number of datagrams in one batch (the kernel's `UDP_MAX_SEGMENTS` before Linux 6.9).
pub const MAX_SEGMENTS: usize = 64;

/// One datagram, or a batch of datagrams to the same address.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Address of the receiver.
    pub destination: SocketAddr,
    /// Local source address; `None` lets the kernel choose.
    pub source: Option<IpAddr>,
    /// The TOS byte: DSCP (high 6 bits) and ECN (RFC 3168).
    pub tos: u8,
    /// The UDP payloads, one after another.
    pub contents: &'a [u8],
    /// Length of each payload but the last, in bytes. The last one may be shorter. `None` for a single payload.
    pub segment_size: Option<u16>,
}

/// Result of sending a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The kernel accepted the whole batch.
    Sent,
    /// The socket buffer is full. The kernel accepted only the first `sent_bytes` of the contents.
    WouldBlock {
        /// Length of the accepted datagrams, in bytes. They must not be sent again.
        sent_bytes: usize,
    },
}

/// Reason why a batch was not sent.
#[derive(Debug)]
pub enum SendError {
    /// A datagram exceeds the device's MTU, or the batch exceeds the kernel's limit.
    TooBig,
    /// The destination is unreachable at present.
    ///
    /// The cause is a device that is down or gone, a missing route, a removed local address, a firewall, or a closed
    /// port at the host. The kernel's error distinguishes these cases.
    Unreachable(io::Error),
    /// Any other error.
    Failed(io::Error),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::TooBig => write!(f, "the datagram is longer than the MTU of the network device"),
            Self::Unreachable(error) => write!(f, "the destination of the datagram is unreachable: {error}"),
            Self::Failed(error) => write!(f, "cannot send the datagram: {error}"),
        }
    }
}

impl std::error::Error for SendError {}

impl SendError {
    fn new(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EMSGSIZE) => Self::TooBig,
            Some(
                libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::ENETDOWN
                | libc::ENODEV
                | libc::ENXIO
                | libc::EADDRNOTAVAIL
                | libc::EPERM
                | libc::EACCES
                | libc::ECONNREFUSED
                // EINVAL: the kernel's error for a source address that this machine does not have.
                | libc::EINVAL,
            ) => Self::Unreachable(error),
            _ => Self::Failed(error),
        }
    }
}

impl UdpLink {
    /// Sends a batch of at most [`MAX_SEGMENTS`] datagrams.
    ///
    /// If the kernel or the device cannot cut a batch into datagrams, each datagram takes one system call.
    pub fn send(&self, outgoing: &Outgoing) -> Result<SendOutcome, SendError> {
        let total = outgoing.contents.len();
        match outgoing.segment_size.filter(|&size| size > 0 && usize::from(size) < total) {
            None => self.send_one(outgoing, outgoing.contents, None),
            Some(size) if total.div_ceil(size.into()) > MAX_SEGMENTS => Err(SendError::TooBig),
            Some(size) if self.has_gso.get() => self.send_batch(outgoing, size),
            Some(size) => self.send_singly(outgoing, size),
        }
    }

    fn send_batch(&self, outgoing: &Outgoing, segment_size: u16) -> Result<SendOutcome, SendError> {
        match self.send_one(outgoing, outgoing.contents, Some(segment_size)) {
            // EIO: the device does not support GSO, which will not change. The kernel sent no packet of the batch.
            Err(SendError::Failed(error)) if error.raw_os_error() == Some(libc::EIO) => {
                self.has_gso.set(false);
                self.send_singly(outgoing, segment_size)
            }
            // EINVAL: older kernels return it for a segment above the MTU as well as for a wrong source. A single
            // datagram distinguishes them.
            Err(SendError::Unreachable(error)) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.send_singly(outgoing, segment_size)
            }
            result => result,
        }
    }

    fn send_singly(&self, outgoing: &Outgoing, segment_size: u16) -> Result<SendOutcome, SendError> {
        let mut sent_bytes = 0;
        for datagram in outgoing.contents.chunks(segment_size.into()) {
            match self.send_one(outgoing, datagram, None)? {
                SendOutcome::Sent => sent_bytes += datagram.len(),
                SendOutcome::WouldBlock { .. } => {
                    return Ok(SendOutcome::WouldBlock { sent_bytes });
                }
            }
        }
        Ok(SendOutcome::Sent)
    }

    fn send_one(
        &self,
        outgoing: &Outgoing,
        contents: &[u8],
        segment_size: Option<u16>,
    ) -> Result<SendOutcome, SendError> {
        let mut control = ControlWriter::new();
        control.tos(outgoing.destination.ip().to_canonical().is_ipv4(), outgoing.tos);
        if let Some(source) = outgoing.source {
            control.source(source);
        }
        if let Some(size) = segment_size {
            control.segment_size(size);
        }
        match past_old_errors(|| self.send_message(outgoing.destination, contents, &mut control)) {
            Ok(()) => Ok(SendOutcome::Sent),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(SendOutcome::WouldBlock { sent_bytes: 0 }),
            Err(error) => Err(SendError::new(error)),
        }
    }

    fn send_message(&self, destination: SocketAddr, contents: &[u8], control: &mut ControlWriter) -> io::Result<()> {
        let (mut address, address_len) = RawAddress::encode(destination, self.is_ipv6);
        let mut part = libc::iovec { iov_base: contents.as_ptr().cast_mut().cast(), iov_len: contents.len() };
        // SAFETY: all-zero bytes are a valid, empty msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = (&raw mut address).cast();
        message.msg_namelen = address_len;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = control.len() as _;
        // SAFETY: this object owns the descriptor. Everything that `message` points to has the given length and lives
        // until the call returns, and sendmsg only reads it.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Outgoing, SendOutcome};
    use crate::udp::{ReceiveSlot, UdpConfig, UdpLink};

    #[test]
    fn without_gso_a_batch_is_sent_one_by_one() {
        let local = Some([127, 0, 0, 1].into());
        let mut link = UdpLink::bind(&UdpConfig { local, ..UdpConfig::default() }).unwrap();
        link.has_gso.set(false);
        let batch = Outgoing {
            destination: link.local_address(),
            source: None,
            tos: 0,
            contents: b"aabbc",
            segment_size: Some(2),
        };
        assert_eq!(link.send(&batch).unwrap(), SendOutcome::Sent);
        let mut slots: Vec<_> = (0..4).map(|_| ReceiveSlot::new()).collect();
        let filled = link.receive(&mut slots).unwrap();
        let datagrams: Vec<_> = slots[..filled].iter_mut().flat_map(ReceiveSlot::datagrams).collect();
        assert_eq!(datagrams, [&b"aa"[..], b"bb", b"c"]);
    }
}
