//! Codec of the legacy virtio_net_hdr, in host byte order.
//!
//! A TUN device with `IFF_VNET_HDR` puts this header before each packet.

use crate::WireError;
use crate::bytes::{ByteReader, put_at};

/// Length of the header, in bytes.
pub const VNET_HEADER_LEN: usize = 10;
/// Flag: the transport checksum is partial.
///
/// The checksum covers the packet from `csum_start` on, and is stored `csum_offset` bytes after `csum_start`.
pub const NEEDS_CSUM: u8 = 1;
/// Flag in the GSO type: the TCP packet carries CWR.
pub const GSO_ECN: u8 = 0x80;

/// The segmentation (GSO) by which a super-packet must still be cut.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum GsoType {
    /// No segmentation.
    #[default]
    None = 0,
    /// TCP over IPv4 (TSO).
    TcpV4 = 1,
    /// TCP over IPv6 (TSO).
    TcpV6 = 4,
    /// UDP datagrams of one size (USO).
    UdpL4 = 5,
}

/// The virtio_net_hdr of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct VnetHeader {
    /// [`NEEDS_CSUM`] and other flags, which are ignored.
    pub flags: u8,
    /// The segmentation by which the packet must still be cut.
    pub gso_type: GsoType,
    /// True if [`GSO_ECN`] is set.
    pub gso_ecn: bool,
    /// Length of all headers, in bytes. It is only a hint.
    pub hdr_len: u16,
    /// Payload of each segment into which the packet must be cut, in bytes.
    pub gso_size: u16,
    /// Offset in the packet at which the bytes begin that the checksum covers.
    pub csum_start: u16,
    /// Offset of the checksum field from `csum_start`, in bytes.
    pub csum_offset: u16,
}

impl VnetHeader {
    /// True if the transport checksum is partial.
    pub const fn needs_csum(&self) -> bool {
        self.flags & NEEDS_CSUM != 0
    }

    /// Parses the header before a packet from a TUN device, and returns the packet after it.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::UnknownType`] for a GSO type that the program did not enable.
    pub fn parse(bytes: &[u8]) -> Result<(VnetHeader, &[u8]), WireError> {
        let mut r = ByteReader::new(bytes);
        let [flags, gso_type] = *r.array()?;
        let mut native = || r.array().map(|field| u16::from_ne_bytes(*field));
        let header = VnetHeader {
            flags,
            gso_type: match gso_type & !GSO_ECN {
                0 => GsoType::None,
                1 => GsoType::TcpV4,
                4 => GsoType::TcpV6,
                5 => GsoType::UdpL4,
                _ => return Err(WireError::UnknownType),
            },
            gso_ecn: gso_type & GSO_ECN != 0,
            hdr_len: native()?,
            gso_size: native()?,
            csum_start: native()?,
            csum_offset: native()?,
        };
        Ok((header, r.rest()))
    }

    /// Writes the header at the start of `out` and returns its length.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let mut bytes = [0; VNET_HEADER_LEN];
        bytes[0] = self.flags;
        bytes[1] = self.gso_type as u8 | if self.gso_ecn { GSO_ECN } else { 0 };
        let fields = [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset];
        for (slot, field) in bytes[2..].chunks_exact_mut(2).zip(fields) {
            slot.copy_from_slice(&field.to_ne_bytes());
        }
        put_at(out, 0, &bytes)?;
        Ok(VNET_HEADER_LEN)
    }
}
