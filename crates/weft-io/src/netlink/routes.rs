//! Watches the routes with a gateway out of chosen devices.

use super::channel::NetlinkSocket;
use super::route::{self, RouteEvent};
use crate::sys::unless_blocked;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// Maximum number of datagrams read per [`RouteWatch::poll`].
const DATAGRAMS_PER_POLL: usize = 256;
/// Length of the kernel's queue of events, in bytes.
///
/// *Tuned* by hand: it holds some 30,000 events, and 100,000 routes arrive within seconds. A loss of events causes a
/// dump of all routes, so no route is lost.
const QUEUE_BYTES: i32 = 32 << 20;

/// Watches routes with a gateway.
pub struct RouteWatch {
    events: NetlinkSocket,
    /// Separate socket for dumps, so that a dump does not consume events.
    dumps: NetlinkSocket,
}

/// The result of [`RouteWatch::poll`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Polled {
    /// All events were read.
    All,
    /// More events may wait.
    Some,
    /// Events were lost: the caller must call [`RouteWatch::dump`].
    Lost,
}

impl RouteWatch {
    /// Starts to watch. No privilege is needed.
    ///
    /// # Errors
    /// Fails if the kernel refuses a socket.
    pub fn open() -> io::Result<RouteWatch> {
        let events = NetlinkSocket::open(&[libc::RTNLGRP_IPV4_ROUTE, libc::RTNLGRP_IPV6_ROUTE])?;
        events.set_receive_buffer(QUEUE_BYTES)?;
        Ok(RouteWatch { events, dumps: NetlinkSocket::open(&[])? })
    }

    /// Passes the changes since the last call to `handle`, for routes out of these devices.
    ///
    /// # Errors
    /// Returns the error of the kernel.
    pub fn poll(&mut self, devices: &[u32], mut handle: impl FnMut(RouteEvent)) -> io::Result<Polled> {
        for _ in 0..DATAGRAMS_PER_POLL {
            let received =
                self.events.receive_raw(|bytes| route::read(bytes, devices).into_iter().for_each(&mut handle));
            match unless_blocked(received) {
                Ok(Some(())) => {}
                Ok(None) => return Ok(Polled::All),
                Err(why) if why.raw_os_error() == Some(libc::ENOBUFS) => return Ok(Polled::Lost),
                Err(why) => return Err(why),
            }
        }
        Ok(Polled::Some)
    }

    /// Passes all present routes out of these devices to `handle`, as if they were added.
    ///
    /// # Errors
    /// Returns the error of the kernel.
    pub fn dump(&mut self, devices: &[u32], mut handle: impl FnMut(RouteEvent)) -> io::Result<()> {
        self.dumps.dump_routes(|bytes| route::read(bytes, devices).into_iter().for_each(&mut handle))
    }
}

impl AsRawFd for RouteWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.events.as_raw_fd()
    }
}
