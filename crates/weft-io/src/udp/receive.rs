//! Receives several batches of datagrams in one system call, into the caller's buffers.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::ptr;

use super::address::RawAddress;
use super::control::ControlBuffer;
use super::socket::UdpLink;
use crate::sys::{check, past_old_errors, unless_blocked};

/// Maximum number of slots (batches of datagrams) that one receive call fills.
const MAX_SLOTS: usize = 16;

/// Length of the largest batch that the kernel joins, in bytes.
const SLOT_BYTES: usize = 65_536;

/// A reusable buffer for one batch of datagrams from one address.
pub struct ReceiveSlot {
    buffer: Box<[u8]>,
    /// Properties of the batch in the buffer, if there is one.
    received: Option<ReceivedBatch>,
}

/// Properties of a received batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedBatch {
    /// Address of the sender.
    pub source: SocketAddr,
    /// The local address to which the batch was sent.
    pub destination: Option<IpAddr>,
    /// The TOS byte, equal for all datagrams of the batch: DSCP (high 6 bits) and ECN (RFC 3168).
    pub tos: u8,
    /// Time at which the kernel received the batch, in nanoseconds since 1970. A busy receiver does not delay it.
    pub received_unix_ns: Option<u64>,
    /// Length of all payloads together, in bytes.
    pub len: usize,
    /// Length of each payload but the last, in bytes. The last one may be shorter.
    pub segment_size: usize,
}

impl ReceiveSlot {
    /// Creates an empty slot with a buffer of 64 KiB.
    pub fn new() -> Self {
        Self { buffer: vec![0; SLOT_BYTES].into(), received: None }
    }

    /// Creates an empty slot that receives into `buffer`.
    pub fn with_buffer(buffer: Box<[u8]>) -> Self {
        Self { buffer, received: None }
    }

    /// Returns the filled buffer and receives into `buffer` from now on.
    pub fn swap_buffer(&mut self, buffer: Box<[u8]>) -> Box<[u8]> {
        self.received = None;
        std::mem::replace(&mut self.buffer, buffer)
    }

    /// Returns the properties of the batch that the last [`UdpLink::receive`] put into this slot.
    pub fn received(&self) -> Option<&ReceivedBatch> {
        self.received.as_ref()
    }

    /// Returns the UDP payloads, which can be decrypted in place.
    pub fn datagrams(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let (len, segment_size) = self.received.map_or((0, 1), |received| (received.len, received.segment_size.max(1)));
        self.buffer.get_mut(..len).unwrap_or_default().chunks_mut(segment_size)
    }
}

impl Default for ReceiveSlot {
    fn default() -> Self {
        Self::new()
    }
}

impl UdpLink {
    /// Receives waiting batches into at most 16 slots and returns the number of filled slots. Never blocks.
    ///
    /// If [`ReceiveSlot::received`] of a filled slot is `None`, its source address could not be parsed.
    pub fn receive(&mut self, slots: &mut [ReceiveSlot]) -> io::Result<usize> {
        let count = slots.len().min(MAX_SLOTS);
        let mut addresses = [RawAddress::EMPTY; MAX_SLOTS];
        let mut controls = [ControlBuffer::EMPTY; MAX_SLOTS];
        let mut parts = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; MAX_SLOTS];
        // SAFETY: all-zero bytes are a valid, empty mmsghdr.
        let mut messages: [libc::mmsghdr; MAX_SLOTS] = unsafe { std::mem::zeroed() };
        for (index, slot) in slots.iter_mut().take(count).enumerate() {
            slot.received = None;
            parts[index] = libc::iovec { iov_base: slot.buffer.as_mut_ptr().cast(), iov_len: slot.buffer.len() };
            let message = &mut messages[index].msg_hdr;
            message.msg_name = (&raw mut addresses[index]).cast();
            message.msg_namelen = RawAddress::CAPACITY;
            message.msg_iov = &raw mut parts[index];
            message.msg_iovlen = 1;
            message.msg_control = controls[index].as_mut_ptr().cast();
            message.msg_controllen = ControlBuffer::CAPACITY as _;
        }
        let filled = unless_blocked(past_old_errors(|| {
            // SAFETY: this object owns the descriptor. The first `count` headers point to buffers of the given lengths.
            // These live on this stack or in `slots`, and nothing else accesses them until the call returns.
            check(unsafe {
                libc::recvmmsg(
                    self.socket.as_raw_fd(),
                    messages.as_mut_ptr(),
                    count as _,
                    libc::MSG_DONTWAIT as _,
                    ptr::null_mut(),
                )
            })
        }))?
        .map_or(0, |filled| filled as usize);
        for (index, slot) in slots.iter_mut().take(filled).enumerate() {
            let info = controls[index].read(messages[index].msg_hdr.msg_controllen as _);
            let len = messages[index].msg_len as usize;
            self.dropped_total = info.dropped_total.unwrap_or(self.dropped_total);
            slot.received = addresses[index].decode().map(|source| ReceivedBatch {
                source,
                destination: info.destination,
                tos: info.tos,
                received_unix_ns: info.received_unix_ns,
                len,
                segment_size: info.segment_size.unwrap_or(len),
            });
        }
        Ok(filled)
    }
}
