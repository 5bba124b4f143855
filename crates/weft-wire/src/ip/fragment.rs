//! Fragments: the packet to which a fragment belongs, and its position in the packet (RFC 791 §3.2, RFC 8200 §4.5).

use super::{AUTHENTICATION, DESTINATION, FRAGMENT, HOP_BY_HOP, IpVersion, IpView, MAX_EXTENSIONS, ROUTING, protocol};
use crate::bytes::{u8_at, u16_at, u32_at};

/// Identification of the packet to which a fragment belongs, and the fragment's position in that packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragmentPlace {
    /// Identification, the same in all fragments of a packet.
    pub id: u32,
    /// Offset of the fragment's data in the packet's data, in bytes.
    pub offset: u16,
}

impl IpView<'_> {
    /// Returns the fragment's identification and position, or `None` if the packet is not a fragment.
    pub fn fragment(&self) -> Option<FragmentPlace> {
        if !self.is_fragment {
            return None;
        }
        match self.version {
            IpVersion::V4 => {
                let offset = (u16_at(self.bytes, 6).ok()? & 0x1fff) * 8;
                Some(FragmentPlace { id: u16_at(self.bytes, 4).ok()?.into(), offset })
            }
            IpVersion::V6 => {
                let at = fragment_header(self.bytes)?;
                Some(FragmentPlace {
                    id: u32_at(self.bytes, at + 4).ok()?,
                    offset: u16_at(self.bytes, at + 2).ok()? & 0xfff8,
                })
            }
        }
    }

    /// Returns the ports that the first fragment of a TCP or UDP packet carries.
    ///
    /// Returns `None` for other protocols, and if the fragment is too short for the whole header that begins with the
    /// ports (RFC 1858 §3, RFC 7112 §5): 20 bytes for TCP, 8 bytes for UDP. The caller must check that the offset is
    /// zero.
    pub fn first_fragment_ports(&self) -> Option<(u16, u16)> {
        let l4 = self.payload();
        let least = match self.protocol {
            protocol::TCP => super::TcpView::MIN_HEADER_LEN,
            protocol::UDP => super::UDP_HEADER_LEN,
            _ => return None,
        };
        (l4.len() >= least).then(|| Some((u16_at(l4, 0).ok()?, u16_at(l4, 2).ok()?))).flatten()
    }
}

/// Returns the offset of the IPv6 fragment header in bytes, or `None` if the packet is whole.
fn fragment_header(packet: &[u8]) -> Option<usize> {
    let (mut next, mut at) = (u8_at(packet, 6).ok()?, 40);
    for _ in 0..MAX_EXTENSIONS {
        let len = match next {
            HOP_BY_HOP | ROUTING | DESTINATION => 8 * (usize::from(u8_at(packet, at + 1).ok()?) + 1),
            AUTHENTICATION => 4 * (usize::from(u8_at(packet, at + 1).ok()?) + 2),
            FRAGMENT if u16_at(packet, at + 2).ok()? & 0xfff9 != 0 => return Some(at),
            FRAGMENT => 8,
            _ => return None,
        };
        (next, at) = (u8_at(packet, at).ok()?, at + len);
    }
    None
}
