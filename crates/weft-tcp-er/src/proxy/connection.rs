//! One proxied connection: it consists of two TCP connections (*legs*), one to the client and one to the server.

use super::descriptors::DescriptorEvents;
use super::direction::{ProxyDirection, Pumped};
use super::pool::PipePool;
use super::repetition::{SynIdentity, sequence_of};
use super::ruleset::DiversionRole;
use super::sys::{SYN_BYTES, Socket, unless_blocked};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;

/// Maximum number of the client's first bytes that the proxy sends in the SYN toward the server.
const EARLY_BYTES: usize = 1_360;
/// Range of the source ports of the proxy's TCP connections to servers on this machine.
///
/// Such a connection has the same addresses as the client's TCP connection to the proxy. With the client's port it
/// would have the same ports too, and the kernel would not detect the conflict. The range therefore contains no ports
/// that operating systems choose for client sockets.
const PORTS: (u16, u16) = (10_240, 32_767);
/// Maximum number of ports that are tried for one connection to a server on this machine.
const TRIES: usize = 64;

/// Returns the first and the last port that worker `index` of `workers` uses toward servers on this machine.
///
/// Each worker has its own range, because two workers would otherwise try the same ports at the same time.
pub fn port_range(index: usize, workers: usize) -> (u16, u16) {
    let (first, last) = PORTS;
    let width = usize::from(last - first + 1);
    let begin = |index: usize| first + (width * index / workers) as u16;
    (begin(index), begin(index + 1) - 1)
}

/// Progress in the establishment of a proxied connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionPhase {
    /// The proxy waits for bytes of the client that the SYN toward the server can carry.
    Listening,
    /// The TCP connection to the server was started.
    Connecting,
    /// The TCP connections to the client and to the server are established.
    Open,
}

/// Parameters of a TCP connection that the proxy opens to a server.
pub struct Calling<'a> {
    /// Firewall mark (`SO_MARK`) of the packets that the proxy sends.
    pub mark: u32,
    /// First and last port of this worker for TCP connections to servers on this machine.
    pub ports: (u16, u16),
    /// Position in the port range at which the search for a free port starts. It differs for each connection.
    pub start: usize,
    /// Name of the congestion control of a connection to the proxy of the other edge.
    ///
    /// `None`: the system's default.
    pub congestion: Option<&'a str>,
    /// Rate granted to a connection to the proxy of the other edge, in bytes per second. `None`: no limit.
    pub rate: Option<u64>,
}

/// A connection that the proxy has accepted.
pub struct Connection {
    /// Socket of the TCP connection to the client.
    client: Socket,
    /// Socket of the TCP connection to the server, once it was started.
    server: Option<Socket>,
    state: ConnectionPhase,
    role: DiversionRole,
    /// Address of the client.
    from: SocketAddr,
    /// Address of the server.
    to: SocketAddr,
    /// Sequence number of the SYN with which another proxy opened the connection.
    ///
    /// `None` if the client is not behind another proxy, or if the SYN could not be read.
    syn_sequence: Option<u32>,
    /// Direction from the client to the server.
    up: ProxyDirection,
    /// Direction from the server to the client.
    down: ProxyDirection,
    /// Maximum rate of the TCP connection toward the peer, in bytes per second. `None`: it has none yet.
    pub rate: Option<u64>,
    /// Value of [`Connection::sent_to_peer`] at the last measurement of the demand, in bytes.
    pub counted: u64,
    /// True if the connection has sent to the peer recently, so that its demand is measured.
    pub is_active: bool,
}

impl Connection {
    /// Returns the proxied connection of a client whose TCP connection was accepted.
    ///
    /// `listening` is the address of the socket that accepted it.
    ///
    /// # Errors
    /// Fails if the client has already disconnected, or connected to the listening socket itself.
    pub fn new(client: Socket, listening: SocketAddr, role: DiversionRole) -> io::Result<Connection> {
        let (from, to) = (client.remote()?, client.local()?);
        if to == listening {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let mut syn_sequence = None;
        if role.is_egress() {
            widen(&client);
            let mut syn = [0; SYN_BYTES];
            syn_sequence = client.take_syn(&mut syn).ok().and_then(sequence_of);
        }
        let state = ConnectionPhase::Listening;
        let (up, down) = (ProxyDirection::default(), ProxyDirection::default());
        Ok(Connection {
            client,
            server: None,
            state,
            role,
            from,
            to,
            syn_sequence,
            up,
            down,
            rate: None,
            counted: 0,
            is_active: false,
        })
    }

    /// Returns the phase of the connection.
    pub fn state(&self) -> ConnectionPhase {
        self.state
    }

    /// Returns the socket of the TCP connection to the client.
    pub fn client(&self) -> &Socket {
        &self.client
    }

    /// Returns the socket of the TCP connection to the server, or `None` before it was started.
    pub fn server(&self) -> Option<&Socket> {
        self.server.as_ref()
    }

    /// Returns the socket of the TCP connection that crosses the tunnel: that to the client or that to the server.
    pub fn peer_leg(&self) -> Option<&Socket> {
        if self.role.is_egress() { Some(&self.client) } else { self.server.as_ref() }
    }

    /// Returns the addresses of the client and the server.
    pub fn ends(&self) -> (SocketAddr, SocketAddr) {
        (self.from, self.to)
    }

    /// Returns the fields that identify the SYN with which another proxy opened the connection, otherwise `None`.
    pub fn syn(&self) -> Option<SynIdentity> {
        self.syn_sequence.map(|sequence| SynIdentity { from: self.from, to: self.to, sequence })
    }

    /// Returns the address of the client or server that is behind the peer.
    pub fn peer_address(&self) -> IpAddr {
        if self.role.is_egress() { self.from.ip() } else { self.to.ip() }
    }

    /// Returns the number of bytes sent so far on the TCP connection toward the peer.
    pub fn sent_to_peer(&self) -> u64 {
        if self.role.is_egress() { self.down.moved } else { self.up.moved }
    }

    /// Returns the number of bytes forwarded from the client, and from the server.
    pub fn moved(&self) -> (u64, u64) {
        (self.up.moved, self.down.moved)
    }

    /// Opens the TCP connection to the server, with the client's address as source.
    ///
    /// If the server is behind a peer, the SYN carries bytes that the client has already sent. The proxy of the peer
    /// then has the data one round trip earlier.
    ///
    /// # Errors
    /// Fails if the server cannot be reached.
    pub fn call(&mut self, calling: &Calling<'_>, pool: &mut PipePool) -> io::Result<()> {
        let is_taken =
            |why: &io::Error| matches!(why.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable);
        let mut ports = self.ports(calling.ports, calling.start);
        let server = loop {
            let port = ports.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
            match self.call_from(SocketAddr::new(self.from.ip(), port), calling, pool) {
                Err(why) if is_taken(&why) => {}
                result => break result?,
            }
        };
        self.server = Some(server);
        self.state = ConnectionPhase::Connecting;
        self.rate = calling.rate;
        Ok(())
    }

    /// Returns the source ports to try toward the server, the best first. With 0 the kernel chooses a port.
    ///
    /// `first`, `last` and `start` are [`Calling::ports`] and [`Calling::start`].
    fn ports(&self, (first, last): (u16, u16), start: usize) -> impl Iterator<Item = u16> + use<> {
        let width = usize::from(last - first) + 1;
        let (same, tries, any) = match self.role {
            DiversionRole::EgressLocal => (None, TRIES, None),
            DiversionRole::IngressLocal => (None, 0, Some(0)),
            DiversionRole::Ingress | DiversionRole::Egress => (Some(self.from.port()), 0, Some(0)),
        };
        let own = (0..tries).map(move |i| first + ((start + i) % width) as u16);
        same.into_iter().chain(own).chain(any)
    }

    fn call_from(&mut self, from: SocketAddr, calling: &Calling<'_>, pool: &mut PipePool) -> io::Result<Socket> {
        let server = Socket::new(self.to, calling.mark)?;
        server.bind(from)?;
        if self.role.is_egress() {
            server.connect(self.to)?;
            return Ok(server);
        }
        server.hold_more();
        if let Some(congestion) = calling.congestion {
            // The congestion control was available when it was chosen. If that has changed, the socket keeps the
            // system's default.
            let _ = server.set_congestion(congestion);
        }
        if calling.rate.is_some() {
            server.set_rate(calling.rate)?;
        }
        self.connect_early(&server, pool)?;
        Ok(server)
    }

    fn connect_early(&mut self, server: &Socket, pool: &mut PipePool) -> io::Result<()> {
        let buffer = pool.buffer().get_mut(..EARLY_BYTES).unwrap_or_default();
        let said = match self.up.readable && !self.up.urgent {
            true => unless_blocked(self.client.peek(buffer))?.unwrap_or(0),
            false => 0,
        };
        if said == 0 {
            return server.connect(self.to);
        }
        match server.connect_with(self.to, buffer.get(..said).unwrap_or_default()) {
            // TCP Fast Open is disabled in this namespace.
            Err(why) if why.raw_os_error() == Some(libc::EOPNOTSUPP) => server.connect(self.to),
            taken => self.client.skip(taken?).map(|taken| self.up.sent_early(taken)),
        }
    }

    /// Processes events of the TCP connection to the client.
    ///
    /// # Errors
    /// Fails if the TCP connection to the client is broken.
    pub fn on_client(&mut self, happened: &DescriptorEvents) -> io::Result<()> {
        self.up.readable |= happened.readable;
        self.up.urgent |= happened.urgent;
        self.down.writable |= happened.writable;
        if happened.failed { self.client.take_error() } else { Ok(()) }
    }

    /// Processes events of the TCP connection to the server.
    ///
    /// # Errors
    /// Fails if the TCP connection to the server is broken or the server cannot be reached.
    pub fn on_server(&mut self, happened: &DescriptorEvents) -> io::Result<()> {
        self.down.readable |= happened.readable;
        self.down.urgent |= happened.urgent;
        self.up.writable |= happened.writable;
        let Some(server) = &self.server else { return Ok(()) };
        if happened.failed || self.state == ConnectionPhase::Connecting {
            server.take_error()?;
        }
        if happened.writable && self.state == ConnectionPhase::Connecting {
            self.state = ConnectionPhase::Open;
            if !self.role.is_egress() {
                widen(server);
            }
        }
        Ok(())
    }

    /// Forwards all available bytes in both directions.
    ///
    /// # Errors
    /// Fails if one of the two TCP connections is broken.
    pub fn pump(&mut self, pool: &mut PipePool) -> io::Result<Pumped> {
        let Some(server) = self.server.as_ref().filter(|_| self.state == ConnectionPhase::Open) else {
            return Ok(Pumped::Waiting);
        };
        let up = self.up.pump(&self.client, server, pool)?;
        let down = self.down.pump(server, &self.client, pool)?;
        match (up, down) {
            (Pumped::Finished, Pumped::Finished) => Ok(Pumped::Finished),
            (Pumped::Again, _) | (_, Pumped::Again) => Ok(Pumped::Again),
            _ => Ok(Pumped::Waiting),
        }
    }

    /// Makes the TCP connections to the client and to the server end with FIN, not RST, when they are closed.
    pub fn end(&self) {
        for leg in [Some(&self.client), self.server.as_ref()].into_iter().flatten() {
            // A TCP connection that is already gone needs no change.
            let _ = leg.reset_on_close(false);
        }
    }

    /// Drops all bytes that were received and not forwarded.
    pub fn abandon(&mut self, pool: &mut PipePool) {
        self.up.abandon(pool);
        self.down.abandon(pool);
    }
}

/// Enlarges the window with which a socket begins to send, if its far end is a proxy.
///
/// Otherwise the far end's SYN would limit it, and data beyond that small window would wait for one round trip.
fn widen(leg: &Socket) {
    if leg.spoke_early() {
        let _ = leg.assume_window();
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} → {} ({:?}, descriptor {})", self.from, self.to, self.state, self.client.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::{PORTS, port_range};

    #[test]
    fn workers_have_ports_of_their_own() {
        for workers in 1..=16 {
            let ranges: Vec<_> = (0..workers).map(|index| port_range(index, workers)).collect();
            assert_eq!((ranges[0].0, ranges[workers - 1].1), PORTS);
            assert!(ranges.windows(2).all(|two| two[0].1 + 1 == two[1].0));
        }
    }
}
