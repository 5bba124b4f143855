//! Watches the machine's devices, addresses and routes: reports their initial state, and then each change.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;

use super::channel::NetlinkSocket;
use super::snapshot::{IpFamily, NetlinkEvent, NetlinkSnapshot};
use super::{decode, route};
use crate::sys::{attach_filter, unless_blocked};

/// Multicast groups of the events that the watch receives.
const GROUPS: [u32; 7] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
    libc::RTNLGRP_IPV4_RULE,
    libc::RTNLGRP_IPV6_RULE,
];

/// Maximum number of datagrams read per [`LinkWatch::poll`].
///
/// The limit keeps a burst of changes from delaying the caller.
const DATAGRAMS_PER_POLL: usize = 64;

/// Watches devices, addresses and default routes. It also reports that other routes or rules changed.
pub struct LinkWatch {
    /// Socket that receives the kernel's events.
    events: NetlinkSocket,
    /// Separate socket for dumps, so that a dump does not consume events.
    dumps: NetlinkSocket,
    /// State that was reported to the caller.
    known: NetlinkSnapshot,
    /// True if an event was lost, so that the next poll must dump the whole state.
    is_stale: bool,
}

impl LinkWatch {
    /// Starts to watch. No privilege is needed.
    pub fn open() -> io::Result<Self> {
        Ok(Self {
            events: NetlinkSocket::open(&GROUPS)?,
            dumps: NetlinkSocket::open(&[])?,
            known: NetlinkSnapshot::default(),
            is_stale: true,
        })
    }

    /// Discards events about routes out of these devices before they wake the caller.
    ///
    /// A routing protocol may send very many of them. Beyond 32 devices nothing is discarded.
    pub fn ignore_routes_by(&self, devices: &[u32]) -> io::Result<()> {
        let program = if devices.len() <= route::MOST_FILTERED { route::filter(devices) } else { route::filter(&[]) };
        attach_filter(self.events.as_raw_fd(), &program)
    }

    /// Appends all changes since the last call. The first call reports the whole state.
    ///
    /// The caller must call it once after opening, and whenever the descriptor is readable. After a lost message or an
    /// error, the next dump restores the state.
    pub fn poll(&mut self, events: &mut Vec<NetlinkEvent>) -> io::Result<()> {
        let (mut routes_are_stale, mut routes_changed) = (false, self.is_stale);
        for _ in 0..DATAGRAMS_PER_POLL {
            match unless_blocked(self.receive(events, &mut routes_are_stale, &mut routes_changed)) {
                Ok(Some(())) => {}
                Ok(None) => break,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => self.is_stale = true,
                Err(error) => {
                    self.is_stale = true;
                    return Err(error);
                }
            }
        }
        routes_changed |= self.is_stale;
        if self.is_stale {
            let now = self.dump()?;
            self.known.replace(&now, events);
            self.is_stale = false;
        } else if routes_are_stale {
            self.is_stale = true;
            let routes = self.dump_default_routes()?;
            self.known.set_default_routes(&routes, events);
            self.is_stale = false;
        }
        events.extend(routes_changed.then_some(NetlinkEvent::Routes));
        Ok(())
    }

    fn receive(
        &mut self,
        events: &mut Vec<NetlinkEvent>,
        routes_are_stale: &mut bool,
        routes_changed: &mut bool,
    ) -> io::Result<()> {
        let known = &mut self.known;
        self.events.receive(|_, payload| {
            if let NetlinkPayload::InnerMessage(message) = payload {
                *routes_are_stale |= may_change_routes(&message);
                *routes_changed |= is_of_routing(&message);
                apply(&message, known, events);
            }
        })
    }

    fn dump(&mut self) -> io::Result<NetlinkSnapshot> {
        let mut now = NetlinkSnapshot::default();
        let mut events = Vec::new();
        let requests = [
            RouteNetlinkMessage::GetLink(LinkMessage::default()),
            RouteNetlinkMessage::GetAddress(AddressMessage::default()),
        ];
        for request in requests {
            for message in self.dumps.dump(request)? {
                apply(&message, &mut now, &mut events);
            }
        }
        now.set_default_routes(&self.dump_default_routes()?, &mut events);
        Ok(now)
    }

    fn dump_default_routes(&mut self) -> io::Result<BTreeSet<(u32, IpFamily)>> {
        let mut devices = BTreeSet::new();
        self.dumps.dump_routes(|bytes| {
            if route::is_default(bytes)
                && let Ok(message) = NetlinkMessage::deserialize(bytes)
                && let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) = message.payload
                && decode::is_default_route(&route)
            {
                devices.extend(decode::route_devices(&route));
            }
        })?;
        Ok(devices)
    }
}

impl AsRawFd for LinkWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.events.as_raw_fd()
    }
}

/// True if default routes may have changed.
///
/// The kernel removes routes silently when their device goes down or their address is removed.
fn may_change_routes(message: &RouteNetlinkMessage) -> bool {
    match message {
        RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route) => decode::is_default_route(route),
        RouteNetlinkMessage::NewLink(_) | RouteNetlinkMessage::DelAddress(_) => true,
        _ => false,
    }
}

/// True if a route or a rule was added or removed.
fn is_of_routing(message: &RouteNetlinkMessage) -> bool {
    matches!(
        message,
        RouteNetlinkMessage::NewRoute(_)
            | RouteNetlinkMessage::DelRoute(_)
            | RouteNetlinkMessage::NewRule(_)
            | RouteNetlinkMessage::DelRule(_)
    )
}

fn apply(message: &RouteNetlinkMessage, known: &mut NetlinkSnapshot, events: &mut Vec<NetlinkEvent>) {
    match message {
        RouteNetlinkMessage::NewLink(message) => {
            if let Some(link) = decode::link(message) {
                known.set_link(link, events);
            }
        }
        RouteNetlinkMessage::DelLink(message) if decode::is_about_device(message) => {
            known.remove_link(message.header.index, events);
        }
        RouteNetlinkMessage::NewAddress(message) => {
            if let Some(address) = decode::address(message) {
                known.set_address(address, events);
            }
        }
        RouteNetlinkMessage::DelAddress(message) => {
            if let Some(address) = decode::address(message) {
                known.remove_address((address.index, address.address, address.prefix_len), events);
            }
        }
        _ => {}
    }
}
