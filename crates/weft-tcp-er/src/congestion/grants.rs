//! What a connection, or each toward a destination, may send: the maps that `weft_er` looks into for sockets without a rate of their own.

use super::fit;
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfo, MapInfoIter};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, MapType, Object};
use std::cell::OnceCell;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

const BY_DESTINATION: &str = "weft_er_grants";
const BY_FLOW: &str = "weft_er_flows";
/// Bits of the key before the address: the network namespace's cookie.
const COOKIE_BITS: u32 = 64;

/// Why a grant was not written.
#[derive(Debug)]
pub enum GrantError {
    /// The prefix is longer than its address.
    Prefix(u8),
    /// The network namespace would not say who it is.
    Namespace(io::Error),
    /// The kernel refused.
    Map(libbpf_rs::Error),
}

impl fmt::Display for GrantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GrantError::Prefix(length) => write!(f, "no address has {length} bits"),
            GrantError::Namespace(why) => write!(f, "SO_NETNS_COOKIE: {why}"),
            GrantError::Map(why) => write!(f, "the map of grants: {why:#}"),
        }
    }
}

impl std::error::Error for GrantError {}

/// A connection of this machine, as its sender sees it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Connection {
    /// The port here.
    pub local_port: u16,
    /// The other end.
    pub remote: SocketAddr,
}

/// The maps of the program that new connections get, and of those that connections which stand may have been left with when another
/// process ended.
#[derive(Debug)]
pub(super) struct Maps {
    by_destination: Vec<MapHandle>,
    by_flow: Vec<MapHandle>,
}

/// The map of the `weft_er` that sockets get now, whoever holds it: the one that a link holds, or else the newest.
pub(super) fn holder() -> Option<u32> {
    let is_ours = |map: &MapInfo| map.ty == MapType::StructOps && map.name.to_str().is_some_and(fit::is_ours);
    let ours: Vec<u32> = MapInfoIter::default().filter(is_ours).map(|map| map.id).collect();
    let held = LinkInfoIter::default().filter_map(|link| match link.info {
        LinkTypeInfo::StructOps(link) => Some(link.map_id),
        _ => None,
    });
    held.into_iter().find(|map| ours.contains(map)).or_else(|| ours.iter().max().copied())
}

impl Maps {
    /// Those of `object`, if it is ours, and all that there are besides, as far as we may look for them (CAP_SYS_ADMIN).
    pub(super) fn find(object: Option<&Object>) -> libbpf_rs::Result<Maps> {
        let found = |name: &str| {
            let own = object.into_iter().flat_map(Object::maps).filter(|map| map.name() == name);
            let mut maps = own.map(|map| MapHandle::try_from(&map)).collect::<libbpf_rs::Result<Vec<_>>>()?;
            let ids: Vec<_> = maps.iter().map(|map| map.info().map(|info| info.info.id)).collect::<Result<_, _>>()?;
            let others = MapInfoIter::default().filter(|map| map.name == name && !ids.contains(&map.id));
            // One that went in between is no loss.
            maps.extend(others.filter_map(|map| MapHandle::from_map_id(map.id).ok()));
            let none = || libbpf_rs::Error::from(io::Error::from(io::ErrorKind::NotFound));
            Some(maps).filter(|maps| !maps.is_empty()).ok_or_else(none)
        };
        Ok(Maps { by_destination: found(BY_DESTINATION)?, by_flow: found(BY_FLOW)? })
    }
}

/// What may be sent, in the network namespace of the thread that first sets or clears something by it.
#[derive(Debug)]
pub struct Grants<'a> {
    maps: &'a Maps,
    cookie: OnceCell<u64>,
}

impl<'a> Grants<'a> {
    pub(super) fn of(maps: &'a Maps) -> Grants<'a> {
        Grants { maps, cookie: OnceCell::new() }
    }

    fn cookie(&self) -> Result<u64, GrantError> {
        match self.cookie.get() {
            Some(cookie) => Ok(*cookie),
            None => {
                let cookie = namespace_cookie().map_err(GrantError::Namespace)?;
                Ok(*self.cookie.get_or_init(|| cookie))
            }
        }
    }

    /// Each flow toward the prefix may send so many bytes a second, IP headers included. It holds for four round trips of a flow, then
    /// it has to be renewed. `now_ns` is CLOCK_MONOTONIC's.
    ///
    /// # Errors
    /// The prefix is none, or the kernel refuses.
    pub fn set(&self, to: IpAddr, length: u8, bytes_per_s: u64, now_ns: u64) -> Result<(), GrantError> {
        let key = key(self.cookie()?, to, length)?;
        write(&self.maps.by_destination, &key, bytes_per_s, now_ns)
    }

    /// The same for one connection; it goes before its destination's.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_flow(&self, flow: Connection, bytes_per_s: u64, now_ns: u64) -> Result<(), GrantError> {
        let key = flow_key(self.cookie()?, flow);
        write(&self.maps.by_flow, &key, bytes_per_s, now_ns)
    }

    /// Nothing is granted to the connection.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn clear_flow(&self, flow: Connection) -> Result<(), GrantError> {
        erase(&self.maps.by_flow, &flow_key(self.cookie()?, flow))
    }

    /// Nothing is granted toward the prefix.
    ///
    /// # Errors
    /// The prefix is none, or the kernel refuses.
    pub fn clear(&self, to: IpAddr, length: u8) -> Result<(), GrantError> {
        erase(&self.maps.by_destination, &key(self.cookie()?, to, length)?)
    }
}

fn write(maps: &[MapHandle], key: &[u8], bytes_per_s: u64, now_ns: u64) -> Result<(), GrantError> {
    let value = value(bytes_per_s, now_ns);
    maps.iter().try_for_each(|map| map.update(key, &value, MapFlags::ANY)).map_err(GrantError::Map)
}

fn erase(maps: &[MapHandle], key: &[u8]) -> Result<(), GrantError> {
    maps.iter().try_for_each(|map| match map.delete(key) {
        // What was not there is gone.
        Err(why) if why.kind() != ErrorKind::NotFound => Err(GrantError::Map(why)),
        _ => Ok(()),
    })
}

/// `struct grant` of `bpf/weft_er.bpf.c`.
fn value(bytes_per_s: u64, now_ns: u64) -> [u8; 16] {
    let mut grant = [0; 16];
    grant[..8].copy_from_slice(&bytes_per_s.to_ne_bytes());
    grant[8..].copy_from_slice(&now_ns.to_ne_bytes());
    grant
}

/// `struct flow` of `bpf/weft_er.bpf.c`.
fn flow_key(cookie: u64, flow: Connection) -> [u8; 32] {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&cookie.to_ne_bytes());
    key[8..24].copy_from_slice(&mapped(flow.remote.ip()).octets());
    key[24..26].copy_from_slice(&flow.remote.port().to_be_bytes());
    key[26..28].copy_from_slice(&flow.local_port.to_ne_bytes());
    key
}

/// IPv4 as IPv6.
fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// `struct destination` of `bpf/weft_er.bpf.c`.
fn key(cookie: u64, to: IpAddr, length: u8) -> Result<[u8; 28], GrantError> {
    let (before, most) = if to.is_ipv4() { (96, 32) } else { (0, 128) };
    if length > most {
        return Err(GrantError::Prefix(length));
    }
    let bits = COOKIE_BITS + before + u32::from(length);
    let mut key = [0; 28];
    key[..4].copy_from_slice(&bits.to_ne_bytes());
    key[4..12].copy_from_slice(&cookie.to_ne_bytes());
    key[12..].copy_from_slice(&mapped(to).octets());
    Ok(key)
}

fn namespace_cookie() -> io::Result<u64> {
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    let (mut cookie, mut length) = (0u64, size_of::<u64>() as libc::socklen_t);
    // SAFETY: the kernel writes at most `length` bytes to `cookie`, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}
