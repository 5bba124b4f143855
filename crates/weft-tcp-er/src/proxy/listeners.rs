//! The listening sockets to which the kernel diverts connections.

use super::ruleset::{DiversionRole, Listening};
use super::sys::Socket;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// One listening socket of a worker.
pub struct Listener {
    /// Kind of the connections that are diverted to this socket.
    pub role: DiversionRole,
    /// Address on which it listens.
    pub address: SocketAddr,
    /// Listening socket.
    pub socket: Socket,
}

/// The listening sockets of all workers. The index is the number of the worker.
///
/// Each worker has one socket for each role and address family. The workers' sockets for one role and family share
/// their port, and the kernel distributes connections among them at random (`SO_REUSEPORT`).
pub struct Listeners(Vec<Vec<Listener>>);

impl Listeners {
    /// Opens the listening sockets of all workers.
    ///
    /// `mark` is the firewall mark of the proxy's own packets. IPv6 sockets are omitted if this machine lacks IPv6.
    ///
    /// # Errors
    /// Fails if the kernel refuses a socket.
    pub fn open(mark: u32, workers: usize) -> io::Result<Listeners> {
        let mut first = Vec::new();
        for role in DiversionRole::ALL {
            first.push(open(role, (Ipv4Addr::LOCALHOST, 0).into(), mark)?);
            first.extend(open(role, (Ipv6Addr::LOCALHOST, 0).into(), mark).ok());
        }
        let another = |_| first.iter().map(|like| open(like.role, like.address, mark)).collect();
        let others: Vec<Vec<Listener>> = (1..workers).map(another).collect::<io::Result<_>>()?;
        Ok(Listeners(std::iter::once(first).chain(others).collect()))
    }

    /// Returns the sockets of one worker.
    pub fn of(&self, worker: usize) -> &[Listener] {
        self.0.get(worker).map_or(&[], Vec::as_slice)
    }

    /// Returns the ports of the listening sockets, which are the same for all workers.
    pub fn ports(&self) -> Listening {
        let mut listening = Listening::default();
        for Listener { role, address, .. } in self.of(0) {
            let ports = listening.ports.get_mut(*role as usize);
            if let Some(port) = ports.and_then(|ports| ports.get_mut(usize::from(address.is_ipv6()))) {
                *port = Some(address.port());
            }
        }
        listening
    }

    /// Sets the first available congestion control of `names` on the sockets for connections from peers' proxies.
    ///
    /// Returns its name, or empty if none is available.
    pub fn choose_congestion(&self, names: &[String]) -> String {
        let from_peers = || self.0.iter().flatten().filter(|listener| listener.role.is_egress());
        let is_there = |name: &&String| from_peers().all(|listener| listener.socket.set_congestion(name).is_ok());
        names.iter().find(is_there).cloned().unwrap_or_default()
    }
}

fn open(role: DiversionRole, at: SocketAddr, mark: u32) -> io::Result<Listener> {
    let socket = Socket::listen(at, mark)?;
    if role.is_egress() {
        socket.take_early_data()?;
        socket.keep_syns()?;
        socket.hold_more();
    }
    Ok(Listener { role, address: socket.local()?, socket })
}
