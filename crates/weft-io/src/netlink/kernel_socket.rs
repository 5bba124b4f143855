//! A netlink socket that exchanges datagrams with the kernel (netlink(7)).

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::sys::{bind, open_socket, receive_from, retry, set_option};

/// Netlink port of the kernel. Other senders are processes.
const KERNEL_PORT: u32 = 0;
/// Length of a `sockaddr_nl`, in bytes: family, padding, port and groups.
const ADDRESS_LEN: usize = size_of::<libc::sockaddr_nl>();

/// A netlink socket that never blocks.
#[derive(Debug)]
pub(crate) struct KernelSocket {
    /// The descriptor. Its type has safe calls to write.
    file: File,
}

impl KernelSocket {
    /// Opens a socket of a protocol (`NETLINK_*`). The kernel chooses its port.
    ///
    /// It receives what the kernel sends to `groups`, a mask of multicast groups.
    pub(crate) fn open(protocol: c_int, groups: u32) -> io::Result<KernelSocket> {
        let socket = open_socket(libc::AF_NETLINK, libc::SOCK_DGRAM, protocol)?;
        let mut address = [0; ADDRESS_LEN];
        address[..2].copy_from_slice(&(libc::AF_NETLINK as u16).to_ne_bytes());
        address[8..].copy_from_slice(&groups.to_ne_bytes());
        bind(socket.as_fd(), &address)?;
        Ok(KernelSocket { file: File::from(socket) })
    }

    /// Sets an option of netlink (level `SOL_NETLINK`).
    pub(crate) fn set(&self, option: c_int, value: c_int) -> io::Result<()> {
        set_option(self.as_fd(), libc::SOL_NETLINK, option, value)
    }

    /// Sends a datagram to the kernel, where a datagram without an address goes.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        retry(|| (&self.file).write(bytes)).map(drop)
    }

    /// Receives a datagram into `buffer`. A datagram that a process sent counts as empty.
    pub(crate) fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a mut [u8]> {
        let mut sender = [0; ADDRESS_LEN];
        let len = retry(|| receive_from(self.as_fd(), buffer, &mut sender))?;
        let is_from_kernel = sender[4..8] == KERNEL_PORT.to_ne_bytes();
        Ok(buffer.get_mut(..if is_from_kernel { len } else { 0 }).unwrap_or_default())
    }
}

impl AsFd for KernelSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for KernelSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Sends a datagram to `to` as another process would. Fails without CAP_NET_ADMIN.
    pub(crate) fn send_as_process(protocol: c_int, to: &KernelSocket, bytes: &[u8]) -> io::Result<()> {
        let (mut address, mut len) = ([0u8; ADDRESS_LEN], ADDRESS_LEN as libc::socklen_t);
        // SAFETY: the descriptor is open. The kernel writes at most `len` bytes to `address`.
        let named = unsafe { libc::getsockname(to.as_raw_fd(), address.as_mut_ptr().cast(), &raw mut len) };
        crate::sys::check(named)?;
        let process = KernelSocket::open(protocol, 0)?;
        // SAFETY: the descriptor is open. The kernel only reads `address`, which has `len` bytes.
        crate::sys::check(unsafe { libc::connect(process.as_raw_fd(), address.as_ptr().cast(), len) })?;
        process.send(bytes)
    }

    #[test]
    fn the_kernel_is_heard_and_a_process_is_not() {
        let socket = KernelSocket::open(libc::NETLINK_ROUTE, 0).unwrap();
        let mut buffer = [0; 256];
        let mut request = [0; 16];
        request[..4].copy_from_slice(&16u32.to_ne_bytes());
        request[4..6].copy_from_slice(&(libc::NLMSG_NOOP as u16).to_ne_bytes());
        request[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
        socket.send(&request).unwrap();
        let answer = socket.receive(&mut buffer).unwrap();
        assert_eq!(answer.get(4..6), Some((libc::NLMSG_ERROR as u16).to_ne_bytes().as_slice()));
        if send_as_process(libc::NETLINK_ROUTE, &socket, &request).is_ok() {
            assert!(socket.receive(&mut buffer).unwrap().is_empty());
        }
        assert_eq!(socket.receive(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
