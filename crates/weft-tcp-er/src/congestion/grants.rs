//! What each flow toward a destination may send: the map that `weft_er` looks into for sockets without a rate of their own.

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{ErrorKind, Map, MapCore, MapFlags, MapHandle, Object};
use std::fmt;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsRawFd;

const MAP: &str = "weft_er_grants";
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

/// The rates by destination, of this thread's network namespace.
#[derive(Debug)]
pub struct Grants<'a> {
    map: Reached<'a>,
}

#[derive(Debug)]
enum Reached<'a> {
    Own(Option<Map<'a>>),
    Others(&'a MapHandle),
}

impl<'a> Grants<'a> {
    pub(super) fn of(object: &'a Object) -> Grants<'a> {
        Grants { map: Reached::Own(object.maps().find(|map| map.name() == MAP)) }
    }

    pub(super) fn at(map: &'a MapHandle) -> Grants<'a> {
        Grants { map: Reached::Others(map) }
    }

    /// The map of another process.
    pub(super) fn of_another() -> libbpf_rs::Result<MapHandle> {
        match MapInfoIter::default().find(|map| map.name == MAP) {
            Some(map) => MapHandle::from_map_id(map.id),
            None => Err(libbpf_rs::Error::from(io::Error::from(io::ErrorKind::NotFound))),
        }
    }

    /// Each flow toward the prefix may send so many bytes a second, IP headers included. It holds for four round trips of a flow, then
    /// it has to be renewed. `now_ns` is CLOCK_MONOTONIC's.
    ///
    /// # Errors
    /// The prefix is none, or the kernel refuses.
    pub fn set(&self, to: IpAddr, length: u8, bytes_per_s: u64, now_ns: u64) -> Result<(), GrantError> {
        let mut grant = [0; 16];
        grant[..8].copy_from_slice(&bytes_per_s.to_ne_bytes());
        grant[8..].copy_from_slice(&now_ns.to_ne_bytes());
        let key = key(to, length)?;
        self.with(|map| map.update(&key, &grant, MapFlags::ANY))
    }

    /// Nothing is granted toward the prefix.
    ///
    /// # Errors
    /// The prefix is none, or the kernel refuses.
    pub fn clear(&self, to: IpAddr, length: u8) -> Result<(), GrantError> {
        let key = key(to, length)?;
        match self.with(|map| map.delete(&key)) {
            Err(GrantError::Map(why)) if why.kind() == ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn with(&self, act: impl FnOnce(&dyn Writes) -> libbpf_rs::Result<()>) -> Result<(), GrantError> {
        match &self.map {
            Reached::Own(Some(map)) => act(map),
            Reached::Own(None) => Err(libbpf_rs::Error::from(io::Error::from(io::ErrorKind::NotFound))),
            Reached::Others(map) => act(*map),
        }
        .map_err(GrantError::Map)
    }
}

/// What of a map is used here, whoever made it.
trait Writes {
    fn update(&self, key: &[u8], value: &[u8], flags: MapFlags) -> libbpf_rs::Result<()>;
    fn delete(&self, key: &[u8]) -> libbpf_rs::Result<()>;
}

impl<M: MapCore> Writes for M {
    fn update(&self, key: &[u8], value: &[u8], flags: MapFlags) -> libbpf_rs::Result<()> {
        MapCore::update(self, key, value, flags)
    }

    fn delete(&self, key: &[u8]) -> libbpf_rs::Result<()> {
        MapCore::delete(self, key)
    }
}

/// `struct destination` of `bpf/weft_er.bpf.c`.
fn key(to: IpAddr, length: u8) -> Result<[u8; 28], GrantError> {
    let (address, before, most) = match to {
        IpAddr::V4(address) => (address.to_ipv6_mapped(), 96, 32),
        IpAddr::V6(address) => (address, 0, 128),
    };
    if length > most {
        return Err(GrantError::Prefix(length));
    }
    let bits = COOKIE_BITS + before + u32::from(length);
    let mut key = [0; 28];
    key[..4].copy_from_slice(&bits.to_ne_bytes());
    key[4..12].copy_from_slice(&namespace_cookie().map_err(GrantError::Namespace)?.to_ne_bytes());
    key[12..].copy_from_slice(&address.octets());
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
