//! Passes datagrams between the daemon's event loop and the carrier thread.
//!
//! A message is a batch of datagrams to or from one remote address. The kernel limits the number of messages that wait
//! in a port. A full port drops new messages.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use weft_io::stream::packet_pair;

/// Length in bytes of a message's header: address family, remote port and address, and the length of each datagram.
const HEADER: usize = 21;

/// A batch of datagrams to or from one remote address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The remote address.
    pub remote: SocketAddr,
    /// Length of each datagram, in bytes. The last one may be shorter.
    pub stride: usize,
    /// Length of all datagrams together, in bytes.
    pub len: usize,
}

/// One of the two ends of a channel for batches of datagrams.
#[derive(Debug)]
pub struct Port(File);

impl Port {
    /// Returns the two connected ends of a channel.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn pair() -> io::Result<(Port, Port)> {
        packet_pair().map(|(one, other)| (Port(one.into()), Port(other.into())))
    }

    /// Sends datagrams of `stride` bytes each. Returns false if they are lost because the port is full or closed.
    pub fn send(&self, remote: SocketAddr, stride: usize, datagrams: &[u8]) -> bool {
        let header = encode(remote, stride);
        let mut file = &self.0;
        file.write_vectored(&[IoSlice::new(&header), IoSlice::new(datagrams)]).is_ok()
    }

    /// Receives the datagrams of one message into `buffer`. `None`: no message waits, or the other end is closed.
    pub fn receive(&self, buffer: &mut [u8]) -> Option<Batch> {
        let mut header = [0; HEADER];
        let mut file = &self.0;
        let len = file.read_vectored(&mut [IoSliceMut::new(&mut header), IoSliceMut::new(buffer)]).ok()?;
        let (remote, stride) = decode(&header)?;
        Some(Batch { remote, stride, len: len.checked_sub(HEADER)? })
    }
}

impl AsRawFd for Port {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn encode(remote: SocketAddr, stride: usize) -> [u8; HEADER] {
    let mut out = [0; HEADER];
    let address = match remote.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    out[0] = u8::from(remote.is_ipv6());
    out[1..3].copy_from_slice(&remote.port().to_be_bytes());
    out[3..19].copy_from_slice(&address.octets());
    out[19..].copy_from_slice(&u16::try_from(stride).unwrap_or(u16::MAX).to_be_bytes());
    out
}

fn decode(header: &[u8; HEADER]) -> Option<(SocketAddr, usize)> {
    let mut octets = [0; 16];
    octets.copy_from_slice(&header[3..19]);
    let address = Ipv6Addr::from(octets);
    let address = if header[0] == 1 { IpAddr::V6(address) } else { IpAddr::V4(address.to_ipv4_mapped()?) };
    let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    Some((SocketAddr::new(address, number(1)), usize::from(number(19))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_batch_arrives_as_it_left(ip: IpAddr, port: u16, stride in 1usize..9_000, bytes in vec(any::<u8>(), 1..60_000)) {
            let (one, other) = Port::pair().unwrap();
            let (remote, mut buffer) = (SocketAddr::new(ip, port), vec![0; 65_536]);
            prop_assert!(one.send(remote, stride, &bytes));
            let batch = other.receive(&mut buffer);
            prop_assert_eq!(batch, Some(Batch { remote, stride, len: bytes.len() }));
            prop_assert_eq!(&buffer[..bytes.len()], &bytes);
            prop_assert_eq!(other.receive(&mut buffer), None);
        }
    }

    #[test]
    fn a_full_port_drops() {
        let (one, _other) = Port::pair().unwrap();
        let remote = "192.0.2.1:9".parse().unwrap();
        assert!((0..10_000).any(|_| !one.send(remote, 1_400, &[0; 14_000])));
    }
}
