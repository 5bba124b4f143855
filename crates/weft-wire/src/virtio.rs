//! The header a TUN device puts before each packet with `IFF_VNET_HDR`: the legacy virtio_net_hdr, in the machine's byte order.

use crate::WireError;
use crate::bytes::{Reader, put_at};

/// Bytes of the header.
pub const VNET_HEADER_LEN: usize = 10;
/// The transport checksum is partial: finish it from `csum_start` on, and store it at `csum_offset` from there.
pub const NEEDS_CSUM: u8 = 1;
/// Set beside a TCP GSO type when the packet carries CWR.
pub const GSO_ECN: u8 = 0x80;

/// Which segmentation the packet still needs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum GsoType {
    /// None.
    #[default]
    None = 0,
    /// TCP over IPv4.
    TcpV4 = 1,
    /// TCP over IPv6.
    TcpV6 = 4,
    /// UDP datagrams of one size.
    UdpL4 = 5,
}

/// The virtio_net_hdr.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct VnetHeader {
    /// [`NEEDS_CSUM`] and others, which are ignored.
    pub flags: u8,
    /// Which segmentation.
    pub gso_type: GsoType,
    /// [`GSO_ECN`] was set.
    pub gso_ecn: bool,
    /// Bytes of all headers; a hint.
    pub hdr_len: u16,
    /// Payload bytes of each segment.
    pub gso_size: u16,
    /// Where the checksum begins to cover.
    pub csum_start: u16,
    /// Where the checksum is, from `csum_start`.
    pub csum_offset: u16,
}

impl VnetHeader {
    /// The transport checksum is partial.
    pub const fn needs_csum(&self) -> bool {
        self.flags & NEEDS_CSUM != 0
    }

    /// Reads the header at the start of what a TUN device gave; gives the packet after it too.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::UnknownType`] for a GSO type that was not asked for.
    pub fn parse(bytes: &[u8]) -> Result<(VnetHeader, &[u8]), WireError> {
        let mut r = Reader::new(bytes);
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

    /// Writes the header at the start of `out`; gives its length.
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
