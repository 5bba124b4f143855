//! A packet socket on one interface.

use super::filter::{OUTGOING, PacketFilter};
use crate::kernel;
use crate::sys::{attach_filter, check, open_socket, retry, set_option, unless_blocked};
use crate::udp::{ControlBuffer, control_messages, timestamp};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Longest packet that is received, in bytes: a super-packet of 64 KiB and a link-layer header.
const LONGEST: usize = 65_536 + 256;
/// Length of a virtio_net_hdr, in bytes.
const SEGMENTATION_LEN: usize = 10;
/// Requested size of the receive buffer, in bytes: 64 ms of traffic at 4 Gbit/s.
const BUFFER_BYTES: c_int = 32 << 20;
/// First kernel version (major, minor) whose virtio_net_hdr can describe a batch of UDP datagrams.
///
/// With that header, an older kernel does not deliver such a batch at all.
const DESCRIBES_UDP: (u32, u32) = (6, 2);

/// Copies the packets of one interface.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    /// True if the kernel puts a virtio_net_hdr before each packet.
    describes: bool,
    buffer: Box<[u8]>,
    segmentation: [u8; SEGMENTATION_LEN],
}

/// A copy of a packet that the interface sent or received.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// The packet from its IP header on. The filter may have cut it.
    pub packet: &'a [u8],
    /// Length of the whole packet from its IP header on, in bytes.
    pub len: usize,
    /// Length of the link-layer header before the packet, in bytes.
    pub link_len: usize,
    /// Time at which the kernel received or sent the packet, in nanoseconds since 1970; 0: unknown.
    pub unix_ns: u64,
    /// True if this machine sends the packet.
    pub is_outgoing: bool,
    /// The virtio_net_hdr: how the kernel or the card still cuts the packet. `None` on kernels before 6.2.
    pub segmentation: Option<&'a [u8; SEGMENTATION_LEN]>,
}

impl PacketSocket {
    /// Opens a socket that copies the packets of an interface that `filter` accepts.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW; `ENODEV` or `ENXIO` if the interface does not exist.
    pub fn open(index: u32, filter: &PacketFilter) -> io::Result<PacketSocket> {
        // Without a protocol, the socket receives nothing before it has its filter and its interface.
        let socket = open_socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        let describes = kernel::version().is_some_and(|version| version >= DESCRIBES_UDP);
        let fd = socket.as_fd();
        set_option(fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
        set_option(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, describes.into())?;
        set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER_BYTES)
            .or_else(|_| set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER_BYTES))?;
        let socket =
            PacketSocket { socket, describes, buffer: vec![0; LONGEST].into(), segmentation: [0; SEGMENTATION_LEN] };
        socket.set_filter(filter)?;
        socket.bind(index)?;
        Ok(socket)
    }

    /// Replaces the filter. Exactly one of the two filters decides about each packet.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn set_filter(&self, filter: &PacketFilter) -> io::Result<()> {
        attach_filter(self.socket.as_raw_fd(), &filter.program())
    }

    fn bind(&self, index: u32) -> io::Result<()> {
        // SAFETY: all-zero bytes are a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index.cast_signed();
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the descriptor is open, and the kernel only reads `address`, which has `len` bytes.
        check(unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), len) }).map(drop)
    }

    /// Receives the next packet, if one waits. An interface that goes down is no error.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn receive(&mut self) -> io::Result<Option<Captured<'_>>> {
        let received = match unless_blocked(self.receive_message()) {
            Err(why) if matches!(why.raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO)) => return Ok(None),
            received => received?,
        };
        let Some(ReceivedPacket { len, info, is_outgoing }) = received else { return Ok(None) };
        let packet = self.buffer.get(info.link_len..len).unwrap_or_default();
        Ok(Some(Captured {
            packet,
            len: info.len.saturating_sub(info.link_len).max(packet.len()),
            link_len: info.link_len,
            unix_ns: info.unix_ns,
            is_outgoing,
            segmentation: self.describes.then_some(&self.segmentation),
        }))
    }

    fn receive_message(&mut self) -> io::Result<ReceivedPacket> {
        // SAFETY: all-zero bytes are a valid sockaddr_ll and a valid, empty msghdr.
        let (mut from, mut message): (libc::sockaddr_ll, libc::msghdr) = unsafe { std::mem::zeroed() };
        let mut control = ControlBuffer::EMPTY;
        let skipped = if self.describes { 0 } else { 1 };
        let mut parts = [
            libc::iovec { iov_base: self.segmentation.as_mut_ptr().cast(), iov_len: SEGMENTATION_LEN },
            libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: self.buffer.len() },
        ];
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
        message.msg_iov = parts[skipped..].as_mut_ptr();
        message.msg_iovlen = (parts.len() - skipped) as _;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = ControlBuffer::CAPACITY as _;
        // SAFETY: this object owns the descriptor. All pointers in `message` lead to buffers of the given lengths,
        // which live until the call returns and which nothing else accesses.
        let mut receive = || unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
        let len = retry(|| check(receive() as c_int))? as usize;
        let len = len.saturating_sub(if self.describes { SEGMENTATION_LEN } else { 0 });
        let is_outgoing = u32::from(from.sll_pkttype) == OUTGOING;
        let info = PacketInfo::read(control.bytes(message.msg_controllen as _), len);
        Ok(ReceivedPacket { len, info, is_outgoing })
    }

    /// True if the kernel reports how it cuts a packet into datagrams.
    pub fn describes_batches(&self) -> bool {
        self.describes
    }

    /// Returns the number of packets that the kernel has dropped since the last call, because the buffer was full.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn take_drops(&self) -> io::Result<u32> {
        let mut counters = [0u32; 2];
        let mut len = size_of_val(&counters) as libc::socklen_t;
        // SAFETY: this object owns the descriptor. The kernel writes at most `len` bytes to `counters`.
        check(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                counters.as_mut_ptr().cast(),
                &raw mut len,
            )
        })?;
        Ok(counters[1])
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

struct ReceivedPacket {
    len: usize,
    info: PacketInfo,
    is_outgoing: bool,
}

/// Control messages that come with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PacketInfo {
    /// Length of the whole packet with its link-layer header, in bytes.
    len: usize,
    link_len: usize,
    unix_ns: u64,
}

impl PacketInfo {
    /// Parses control messages. `received` is the number of bytes that were received.
    fn read(control: &[u8], received: usize) -> PacketInfo {
        let mut info = PacketInfo { len: received, link_len: 0, unix_ns: 0 };
        for (level, kind, data) in control_messages(control) {
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => info.unix_ns = timestamp(data).unwrap_or(0),
                // tpacket_auxdata: status, length, captured length, offsets of link-layer and network header.
                (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                    let number = |at: usize| data.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
                    let offset = |at: usize| data.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
                    info.len = number(4).map_or(received, |len| len as usize);
                    info.link_len = offset(14).map_or(0, usize::from);
                }
                _ => {}
            }
        }
        info
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_control_bytes_are_read(bytes in vec(any::<u8>(), 0..200), received in 0..70_000usize) {
            PacketInfo::read(&bytes, received);
        }
    }
}
