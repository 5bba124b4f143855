//! Receiving: many batches in one system call, into the caller's buffers.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::ptr;

use super::address::RawAddress;
use super::control::Control;
use super::socket::UdpLink;
use crate::sys::{check, past_old_errors, unless_blocked};

/// The most slots filled by one call.
const MAX_SLOTS: usize = 16;

/// The largest batch the kernel joins.
const SLOT_BYTES: usize = 65_536;

/// Room for one batch of datagrams from one address; made once and used again and again.
pub struct ReceiveSlot {
    buffer: Box<[u8]>,
    received: Option<Received>,
}

/// What is known of a received batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Sender.
    pub source: SocketAddr,
    /// The local address it was sent to.
    pub destination: Option<IpAddr>,
    /// The whole byte: DSCP (high 6 bits) and ECN (RFC 3168), the same for all datagrams of the batch.
    pub tos: u8,
    /// When the kernel took it in, in nanoseconds since 1970: a busy receiver does not change it.
    pub received_unix_ns: Option<u64>,
    /// Bytes of all payloads.
    pub len: usize,
    /// Bytes of each payload but the last, which may be shorter.
    pub segment_size: usize,
}

impl ReceiveSlot {
    /// An empty slot with its 64 KiB.
    pub fn new() -> Self {
        Self { buffer: vec![0; SLOT_BYTES].into(), received: None }
    }

    /// An empty slot that receives into `buffer`.
    pub fn with_buffer(buffer: Box<[u8]>) -> Self {
        Self { buffer, received: None }
    }

    /// Takes what was received as it is, and receives into `buffer` from now on.
    pub fn swap_buffer(&mut self, buffer: Box<[u8]>) -> Box<[u8]> {
        self.received = None;
        std::mem::replace(&mut self.buffer, buffer)
    }

    /// What the last call that filled this slot received.
    pub fn received(&self) -> Option<&Received> {
        self.received.as_ref()
    }

    /// The UDP payloads, to be opened in place.
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
    /// Receives what waits, in at most 16 slots, and returns how many are filled: 0 when nothing waits.
    ///
    /// A filled slot whose [`ReceiveSlot::received`] is `None` held something unintelligible.
    pub fn receive(&mut self, slots: &mut [ReceiveSlot]) -> io::Result<usize> {
        let count = slots.len().min(MAX_SLOTS);
        let mut addresses = [RawAddress::EMPTY; MAX_SLOTS];
        let mut controls = [Control::EMPTY; MAX_SLOTS];
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
            message.msg_controllen = Control::CAPACITY as _;
        }
        let filled = unless_blocked(past_old_errors(|| {
            // SAFETY: the descriptor is ours; the first `count` headers point to buffers of the given lengths that live on this
            // stack or in `slots` and are touched by nobody else until the call returns.
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
            slot.received = addresses[index].decode().map(|source| Received {
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
