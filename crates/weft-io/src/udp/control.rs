//! Control messages (cmsg(3)) in the kernel's layout.
//!
//! The layout is: length as `size_t`, level and type as `int`, data, padding to a word.

use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Alignment of control messages, in bytes.
const WORD: usize = size_of::<usize>();
/// Length of a control message header, in bytes.
const HEADER_LEN: usize = size_of::<libc::cmsghdr>();

/// Length of a [`ControlBuffer`], in bytes.
///
/// All messages of one datagram fit into it: TOS and packet info of both families, GRO segment size, drop count and
/// timestamp.
const CAPACITY: usize = 192;

/// A buffer of control messages with the alignment that the kernel requires.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct ControlBuffer {
    bytes: [u8; CAPACITY],
}

/// Information that the kernel supplies with a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReceiveInfo {
    /// Destination address of the datagram.
    pub destination: Option<IpAddr>,
    /// TOS or traffic class byte of the datagram.
    pub tos: u8,
    /// Length of each datagram of a GRO batch but the last, in bytes; `None` for a single datagram.
    pub segment_size: Option<usize>,
    /// Number of datagrams that the socket has dropped since it was opened, modulo 2^32.
    pub dropped_total: Option<u32>,
    /// Time at which the kernel received the datagram, in nanoseconds since 1970.
    pub received_unix_ns: Option<u64>,
}

impl ControlBuffer {
    pub(crate) const CAPACITY: usize = CAPACITY;
    pub(crate) const EMPTY: Self = Self { bytes: [0; CAPACITY] };

    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    /// Parses the first `len` bytes, as the kernel wrote them. Skips unknown messages.
    pub(super) fn read(&self, len: usize) -> ReceiveInfo {
        let mut info = ReceiveInfo::default();
        for (level, kind, data) in messages(self.bytes(len)) {
            info.take(level, kind, data);
        }
        info
    }

    /// Returns the first `len` bytes, or all bytes if `len` exceeds the buffer.
    pub(crate) fn bytes(&self, len: usize) -> &[u8] {
        self.bytes.get(..len).unwrap_or(&self.bytes)
    }
}

impl ReceiveInfo {
    fn take(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_TOS) => self.tos = data.first().copied().unwrap_or(0),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => self.tos = int(data).unwrap_or(0) as u8,
            // in_pktinfo: interface index, local address of the route, destination address of the header.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                self.destination = data.get(8..).and_then(<[u8]>::first_chunk::<4>).map(|b| Ipv4Addr::from(*b).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                self.destination = data.first_chunk::<16>().map(|b| IpAddr::V6(Ipv6Addr::from(*b)).to_canonical());
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                self.segment_size = int(data).and_then(|size| usize::try_from(size).ok()).filter(|&size| size > 0);
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => self.dropped_total = int(data).map(|count| count as u32),
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => self.received_unix_ns = timestamp(data),
            _ => {}
        }
    }
}

/// Parses a `struct timespec` of the real-time clock. Returns nanoseconds since 1970, or `None` if it is too short.
pub(crate) fn timestamp(data: &[u8]) -> Option<u64> {
    let seconds = u64::from_ne_bytes(*data.first_chunk()?);
    let nanos = u64::from_ne_bytes(*data.get(8..)?.first_chunk()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

fn int(data: &[u8]) -> Option<c_int> {
    data.first_chunk().map(|bytes| c_int::from_ne_bytes(*bytes))
}

/// Iterates over the messages in `rest` as level, type and data. Ends at the first invalid message.
pub(crate) fn messages(mut rest: &[u8]) -> impl Iterator<Item = (c_int, c_int, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from_ne_bytes(*rest.first_chunk()?);
        let message = rest.get(..len)?;
        let level = int(message.get(WORD..)?)?;
        let kind = int(message.get(WORD + size_of::<c_int>()..)?)?;
        let data = message.get(HEADER_LEN..)?;
        rest = rest.get(len.next_multiple_of(WORD)..).unwrap_or_default();
        Some((level, kind, data))
    })
}

/// Writes control messages one after another.
pub(super) struct ControlWriter {
    control: ControlBuffer,
    /// Number of bytes written.
    len: usize,
}

impl ControlWriter {
    pub(super) fn new() -> Self {
        Self { control: ControlBuffer::EMPTY, len: 0 }
    }

    /// Sets the TOS byte or traffic class of an outgoing packet.
    pub(super) fn tos(&mut self, ipv4: bool, tos: u8) {
        let (level, kind) =
            if ipv4 { (libc::IPPROTO_IP, libc::IP_TOS) } else { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) };
        self.push(level, kind, &c_int::from(tos).to_ne_bytes());
    }

    /// Sets the source address of an outgoing packet.
    pub(super) fn source(&mut self, source: IpAddr) {
        match source {
            IpAddr::V4(address) => {
                let mut info = [0; size_of::<libc::in_pktinfo>()];
                info[4..8].copy_from_slice(&address.octets());
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            IpAddr::V6(address) => {
                let mut info = [0; size_of::<libc::in6_pktinfo>()];
                info[..16].copy_from_slice(&address.octets());
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
        }
    }

    /// Sets the length of each datagram into which the kernel cuts the contents.
    pub(super) fn segment_size(&mut self, bytes: u16) {
        self.push(libc::SOL_UDP, libc::UDP_SEGMENT, &bytes.to_ne_bytes());
    }

    fn push(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        let len = HEADER_LEN + data.len();
        let Some(place) = self.control.bytes.get_mut(self.len..self.len + len.next_multiple_of(WORD)) else {
            debug_assert!(false, "CAPACITY holds all messages of a datagram");
            return;
        };
        place[..WORD].copy_from_slice(&len.to_ne_bytes());
        place[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
        place[WORD + 4..HEADER_LEN].copy_from_slice(&kind.to_ne_bytes());
        place[HEADER_LEN..len].copy_from_slice(data);
        self.len += len.next_multiple_of(WORD);
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.control.as_mut_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::{ControlBuffer, ControlWriter, ReceiveInfo};
    use std::net::IpAddr;

    fn written(write: impl FnOnce(&mut ControlWriter)) -> ReceiveInfo {
        let mut writer = ControlWriter::new();
        write(&mut writer);
        let len = writer.len();
        writer.control.read(len)
    }

    #[test]
    fn what_is_written_is_read() {
        let source: IpAddr = "2001:db8::7".parse().unwrap();
        let info = written(|writer| {
            writer.segment_size(1200);
            writer.tos(false, 0xb9);
            writer.source(source);
            writer.push(libc::SOL_UDP, libc::UDP_GRO, &1400_i32.to_ne_bytes());
            writer.push(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &u32::MAX.to_ne_bytes());
        });
        let expected = ReceiveInfo {
            received_unix_ns: None,
            destination: Some(source),
            tos: 0xb9,
            segment_size: Some(1400),
            dropped_total: Some(u32::MAX),
        };
        assert_eq!(info, expected);
    }

    #[test]
    fn the_layout_is_the_c_librarys() {
        // SAFETY: both calls only compute lengths.
        let (space, len) = unsafe { (libc::CMSG_SPACE(12), libc::CMSG_LEN(12)) };
        let mut writer = ControlWriter::new();
        writer.source("192.0.2.1".parse().unwrap());
        assert_eq!(writer.len(), space as usize);
        assert_eq!(usize::from_ne_bytes(*writer.control.bytes.first_chunk().unwrap()), len as usize);
    }

    #[test]
    fn broken_messages_end_the_reading() {
        for len in [0_usize, 1, 15, usize::MAX] {
            let mut control = ControlBuffer::EMPTY;
            control.bytes[..8].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(control.read(ControlBuffer::CAPACITY), ReceiveInfo::default());
        }
        assert_eq!(ControlBuffer::EMPTY.read(usize::MAX), ReceiveInfo::default());
    }
}
