//! Granted rates of connections and destinations.
//!
//! They are entries of BPF maps. `weft_er` reads the maps for sockets without a rate of their own.

use super::fit;
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfo, MapInfoIter};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, MapType, Object};
use std::cell::OnceCell;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Name of the BPF map of grants by destination prefix.
const BY_DESTINATION: &str = "weft_er_grants";
/// Name of the BPF map of grants by connection.
const BY_FLOW: &str = "weft_er_flows";
/// Number of bits in a key of [`BY_DESTINATION`] before the address: the cookie of the network namespace.
const COOKIE_BITS: u32 = 64;

/// Reason why a grant was not written.
#[derive(Debug)]
pub enum GrantError {
    /// The prefix length exceeds the address width.
    Prefix(u8),
    /// The cookie of the network namespace could not be read.
    Namespace(io::Error),
    /// The kernel rejected the change.
    Map(libbpf_rs::Error),
}

impl fmt::Display for GrantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GrantError::Prefix(length) => {
                write!(f, "the prefix length {length} exceeds the length of its address: 32 for IPv4, 128 for IPv6")
            }
            GrantError::Namespace(why) => {
                write!(f, "cannot read the cookie of the network namespace (SO_NETNS_COOKIE): {why}")
            }
            GrantError::Map(why) => {
                write!(f, "the kernel rejected a change of granted rates in the BPF map of weft_er: {why:#}")
            }
        }
    }
}

impl std::error::Error for GrantError {}

/// A TCP connection of this machine whose sending rate can be granted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KernelConnection {
    /// The local port.
    pub local_port: u16,
    /// Address and port of the other end.
    pub remote: SocketAddr,
}

/// The maps of grants of all loaded `weft_er` programs.
///
/// New connections use the program that is loaded now. Existing connections may still use an earlier one, whose process
/// has ended.
#[derive(Debug)]
pub(super) struct Maps {
    /// Maps of grants by destination prefix.
    by_destination: Vec<MapHandle>,
    /// Maps of grants by connection.
    by_flow: Vec<MapHandle>,
}

/// Returns the id of the BPF map of the `weft_er` that new sockets use, regardless of the process that loaded it.
///
/// It is the map that a BPF link holds, or else the newest one. `None`: no `weft_er` is loaded.
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
    /// Finds the maps of grants of `object`, if this process loaded `weft_er`, and those of all other processes.
    ///
    /// To find those of other processes, the process needs CAP_SYS_ADMIN.
    pub(super) fn find(object: Option<&Object>) -> libbpf_rs::Result<Maps> {
        let found = |name: &str| {
            let own = object.into_iter().flat_map(Object::maps).filter(|map| map.name() == name);
            let mut maps = own.map(|map| MapHandle::try_from(&map)).collect::<libbpf_rs::Result<Vec<_>>>()?;
            let ids: Vec<_> = maps.iter().map(|map| map.info().map(|info| info.info.id)).collect::<Result<_, _>>()?;
            let others = MapInfoIter::default().filter(|map| map.name == name && !ids.contains(&map.id));
            // A map that was removed since the listing is skipped.
            maps.extend(others.filter_map(|map| MapHandle::from_map_id(map.id).ok()));
            let none = || libbpf_rs::Error::from(io::Error::from(io::ErrorKind::NotFound));
            Some(maps).filter(|maps| !maps.is_empty()).ok_or_else(none)
        };
        Ok(Maps { by_destination: found(BY_DESTINATION)?, by_flow: found(BY_FLOW)? })
    }
}

/// The granted rates of connections in one network namespace.
///
/// It is the namespace of the thread that first changes a grant through this object.
#[derive(Debug)]
pub struct GrantTable<'a> {
    maps: &'a Maps,
    /// Cookie of the network namespace, read on first use.
    cookie: OnceCell<u64>,
}

impl<'a> GrantTable<'a> {
    pub(super) fn of(maps: &'a Maps) -> GrantTable<'a> {
        GrantTable { maps, cookie: OnceCell::new() }
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

    /// Grants each flow toward a prefix a rate in bytes per second, which includes the IP headers.
    ///
    /// `length` is the prefix length. The grant expires after four round trips of a flow unless it is renewed. `now_ns`
    /// is the time of CLOCK_MONOTONIC in nanoseconds.
    ///
    /// # Errors
    /// Fails if the prefix is invalid or the kernel rejects the change.
    pub fn set(&self, to: IpAddr, length: u8, bytes_per_s: u64, now_ns: u64) -> Result<(), GrantError> {
        let key = key(self.cookie()?, to, length)?;
        write(&self.maps.by_destination, &key, bytes_per_s, now_ns)
    }

    /// Grants one connection a rate, as [`GrantTable::set`] does for a prefix.
    ///
    /// It takes precedence over the grant of the connection's destination.
    ///
    /// # Errors
    /// Fails if the kernel rejects the change.
    pub fn set_flow(&self, flow: KernelConnection, bytes_per_s: u64, now_ns: u64) -> Result<(), GrantError> {
        let key = flow_key(self.cookie()?, flow);
        write(&self.maps.by_flow, &key, bytes_per_s, now_ns)
    }

    /// Removes the grant of a connection.
    ///
    /// # Errors
    /// Fails if the kernel rejects the change.
    pub fn clear_flow(&self, flow: KernelConnection) -> Result<(), GrantError> {
        erase(&self.maps.by_flow, &flow_key(self.cookie()?, flow))
    }

    /// Removes the grant of a prefix.
    ///
    /// # Errors
    /// Fails if the prefix is invalid or the kernel rejects the change.
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
        // Removing a missing entry succeeds.
        Err(why) if why.kind() != ErrorKind::NotFound => Err(GrantError::Map(why)),
        _ => Ok(()),
    })
}

/// Returns a granted rate and its time as bytes: `struct grant` of `bpf/weft_er.bpf.c`.
fn value(bytes_per_s: u64, now_ns: u64) -> [u8; 16] {
    let mut grant = [0; 16];
    grant[..8].copy_from_slice(&bytes_per_s.to_ne_bytes());
    grant[8..].copy_from_slice(&now_ns.to_ne_bytes());
    grant
}

/// Returns the map key of a connection as bytes: `struct flow` of `bpf/weft_er.bpf.c`.
fn flow_key(cookie: u64, flow: KernelConnection) -> [u8; 32] {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&cookie.to_ne_bytes());
    key[8..24].copy_from_slice(&mapped(flow.remote.ip()).octets());
    key[24..26].copy_from_slice(&flow.remote.port().to_be_bytes());
    key[26..28].copy_from_slice(&flow.local_port.to_ne_bytes());
    key
}

/// Returns an IPv4 address as an IPv4-mapped IPv6 address.
fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Returns the map key of a prefix as bytes: `struct destination` of `bpf/weft_er.bpf.c`.
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
