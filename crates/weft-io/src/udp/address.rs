//! Socket addresses in the kernel's byte layout (`sockaddr_in`, `sockaddr_in6`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Length of a `sockaddr_in`, in bytes.
const IPV4_LEN: usize = size_of::<libc::sockaddr_in>();
/// Length of a `sockaddr_in6`, in bytes.
const IPV6_LEN: usize = size_of::<libc::sockaddr_in6>();

/// A `sockaddr_in` or `sockaddr_in6`, in a buffer of the larger length.
#[repr(C, align(4))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawAddress {
    bytes: [u8; IPV6_LEN],
}

impl RawAddress {
    /// Length of the buffer for a socket address, in bytes, in the type of the system calls (`socklen_t`).
    pub(super) const CAPACITY: u32 = IPV6_LEN as u32;

    /// An empty buffer for the kernel to write to.
    pub(super) const EMPTY: Self = Self { bytes: [0; IPV6_LEN] };

    /// Copies an address that the kernel wrote elsewhere. Missing bytes become zero.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut raw = Self::EMPTY;
        raw.bytes.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        raw
    }

    /// Encodes an address for a socket, and returns its length in bytes.
    ///
    /// An IPv6 socket represents an IPv4 address as `::ffff:a.b.c.d`.
    pub(crate) fn encode(address: SocketAddr, ipv6_socket: bool) -> (Self, u32) {
        match address {
            SocketAddr::V4(v4) if !ipv6_socket => (Self::from_v4(v4), IPV4_LEN as u32),
            SocketAddr::V4(v4) => {
                (Self::from_v6(SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0)), IPV6_LEN as u32)
            }
            SocketAddr::V6(v6) => (Self::from_v6(v6), IPV6_LEN as u32),
        }
    }

    fn from_v4(address: SocketAddrV4) -> Self {
        let mut raw = Self::EMPTY;
        raw.bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        raw.bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        raw.bytes[4..8].copy_from_slice(&address.ip().octets());
        raw
    }

    fn from_v6(address: SocketAddrV6) -> Self {
        let mut raw = Self::EMPTY;
        raw.bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        raw.bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        raw.bytes[4..8].copy_from_slice(&address.flowinfo().to_be_bytes());
        raw.bytes[8..24].copy_from_slice(&address.ip().octets());
        raw.bytes[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
        raw
    }

    /// Decodes the address that the kernel wrote, or `None` for another family. IPv4-mapped addresses become IPv4.
    pub(super) fn decode(&self) -> Option<SocketAddr> {
        let bytes = &self.bytes;
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        match i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
            libc::AF_INET => {
                let address = Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]);
                Some(SocketAddr::new(address.into(), port))
            }
            libc::AF_INET6 => {
                let address = Ipv6Addr::from(*bytes[8..].first_chunk::<16>()?);
                let scope_id = u32::from_ne_bytes(*bytes[24..].first_chunk()?);
                Some(match IpAddr::V6(address).to_canonical() {
                    IpAddr::V4(v4) => SocketAddr::new(v4.into(), port),
                    IpAddr::V6(v6) => SocketAddrV6::new(v6, port, 0, scope_id).into(),
                })
            }
            _ => None,
        }
    }

    pub(crate) fn as_ptr(&self) -> *const Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::RawAddress;
    use std::net::SocketAddr;

    #[test]
    fn addresses_survive_the_kernels_form() {
        for text in ["192.0.2.1:5", "[2001:db8::1]:65535", "[fe80::1%7]:9"] {
            let address: SocketAddr = text.parse().unwrap();
            for ipv6_socket in [false, true] {
                assert_eq!(RawAddress::encode(address, ipv6_socket).0.decode(), Some(address), "{text}");
            }
        }
    }

    #[test]
    fn an_unwritten_address_is_none() {
        assert_eq!(RawAddress::EMPTY.decode(), None);
    }
}
