//! Detects that the hypervisor restored or copied this machine.
//!
//! A hypervisor gives such a machine a new generation ID. Since Linux 6.8 the `vmgenid` driver announces it to user
//! space (`NEW_VMGENID=1`).

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use super::kernel_socket::KernelSocket;
use crate::sys::unless_blocked;

/// Multicast group to which the kernel sends events.
const KERNEL_GROUP: u32 = 1;
/// Length of the receive buffer, in bytes.
///
/// An event of the kernel's UEVENT_BUFFER_SIZE and the device path before it fit into the buffer.
const RECEIVE_LEN: usize = 8 * 1024;
/// Setting of an event that announces a new generation ID.
const ANNOUNCEMENT: &[u8] = b"NEW_VMGENID=1";

/// Watches for a new generation of this machine.
pub struct GenerationWatch {
    socket: KernelSocket,
    buffer: Box<[u8]>,
}

impl GenerationWatch {
    /// Starts to watch. No privilege is needed.
    ///
    /// # Errors
    /// Fails if the kernel has no such events.
    pub fn open() -> io::Result<Self> {
        let socket = KernelSocket::open(libc::NETLINK_KOBJECT_UEVENT, KERNEL_GROUP)?;
        Ok(Self { socket, buffer: vec![0; RECEIVE_LEN].into() })
    }

    /// Reads all new events. Returns true if this machine was restored or copied.
    pub fn is_new(&mut self) -> bool {
        let mut is_new = false;
        loop {
            match unless_blocked(self.socket.receive(&mut self.buffer)) {
                Ok(Some(event)) => is_new |= announces(event),
                // After a lost event (ENOBUFS) a new generation is assumed.
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
    use super::super::kernel_socket::tests::send_as_process;
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
        // Without CAP_NET_ADMIN the kernel refuses this event. With it, the watch must ignore the event.
        let _ = send_as_process(libc::NETLINK_KOBJECT_UEVENT, &watch.socket, b"change@/x\0NEW_VMGENID=1\0");
        assert!(!watch.is_new());
    }
}
