//! Detects that the hypervisor restored or copied this machine.
//!
//! A hypervisor gives such a machine a new generation ID. Since Linux 6.8 the `vmgenid` driver announces it to user
//! space (`NEW_VMGENID=1`).

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use netlink_sys::protocols::NETLINK_KOBJECT_UEVENT;
use netlink_sys::{Socket, SocketAddr};

use crate::sys::unless_blocked;

/// Multicast group to which the kernel sends events.
const KERNEL_GROUP: u32 = 1;
/// Netlink port of the kernel. Other senders are processes.
const KERNEL_PORT: u32 = 0;
/// Length of the receive buffer, in bytes.
///
/// An event of the kernel's UEVENT_BUFFER_SIZE and the device path before it fit into the buffer.
const RECEIVE_LEN: usize = 8 * 1024;
/// Setting of an event that announces a new generation ID.
const ANNOUNCEMENT: &[u8] = b"NEW_VMGENID=1";

/// Watches for a new generation of this machine.
pub struct GenerationWatch {
    socket: Socket,
    buffer: Vec<u8>,
}

impl GenerationWatch {
    /// Starts to watch. No privilege is needed.
    ///
    /// # Errors
    /// Fails if the kernel has no such events.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_KOBJECT_UEVENT)?;
        socket.bind(&SocketAddr::new(0, KERNEL_GROUP))?;
        socket.set_non_blocking(true)?;
        Ok(Self { socket, buffer: Vec::with_capacity(RECEIVE_LEN) })
    }

    /// Reads all new events. Returns true if this machine was restored or copied.
    pub fn is_new(&mut self) -> bool {
        let mut is_new = false;
        loop {
            self.buffer.clear();
            match unless_blocked(self.socket.recv_from(&mut self.buffer, 0)) {
                Ok(Some((_, sender))) => {
                    is_new |= sender.port_number() == KERNEL_PORT && announces(&self.buffer);
                }
                // The kernel lost an event (ENOBUFS), which may have announced a new generation.
                Err(why) if why.raw_os_error() == Some(libc::ENOBUFS) => is_new = true,
                _ => return is_new,
            }
        }
    }
}

impl AsRawFd for GenerationWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// True if one of an event's zero-terminated settings is the announcement.
fn announces(event: &[u8]) -> bool {
    event.split(|byte| *byte == 0).any(|setting| setting == ANNOUNCEMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_setting_announces_a_generation() {
        let event = |setting: &str| {
            format!("change@/devices/VMGENCTR:00\0ACTION=change\0SUBSYSTEM=acpi\0{setting}\0SEQNUM=7\0").into_bytes()
        };
        assert!(announces(&event("NEW_VMGENID=1")));
        for other in ["NEW_VMGENID=10", "NEW_VMGENID=0", "X_NEW_VMGENID=1", "SYNTH_ARG_NEW_VMGENID=1", ""] {
            assert!(!announces(&event(other)), "{other}");
        }
        assert!(!announces(b""));
    }

    #[test]
    fn a_process_cannot_announce_one() {
        let mut watch = GenerationWatch::open().unwrap();
        let mut own = SocketAddr::new(0, 0);
        watch.socket.get_address(&mut own).unwrap();
        let mut other = Socket::new(NETLINK_KOBJECT_UEVENT).unwrap();
        other.bind_auto().unwrap();
        // Without CAP_NET_ADMIN the kernel refuses this event. With it, the watch must ignore the event.
        let _ = other.send_to(b"change@/x\0NEW_VMGENID=1\0", &own, 0);
        assert!(!watch.is_new());
    }
}
