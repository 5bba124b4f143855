//! One connection: a leg to the client, a leg to the server.

use super::direction::{Direction, Pumped};
use super::pool::Pool;
use super::ruleset::Role;
use super::sys::{Happened, Socket, unless_blocked};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;

/// What of the client's first bytes may go with the first packet toward the server.
const EARLY_BYTES: usize = 1_360;
/// Ports for the second leg of a connection to a server on this machine. The first leg has the client's port and the same addresses, and
/// the kernel does not see that the two would be one; so they are ports that clients' systems do not choose by themselves.
const PORTS: (u16, u16) = (10_240, 32_767);
/// How many of them are tried.
const TRIES: usize = 64;

/// Those of worker `index` of `workers`: two would try the same ones at the same time.
pub fn port_range(index: usize, workers: usize) -> (u16, u16) {
    let (first, last) = PORTS;
    let width = usize::from(last - first + 1);
    let begin = |index: usize| first + (width * index / workers) as u16;
    (begin(index), begin(index + 1) - 1)
}

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The client may say something that can go with the first packet.
    Listening,
    /// The server has been called.
    Connecting,
    /// Both legs stand.
    Open,
}

/// How the legs toward servers are made.
pub struct Calling<'a> {
    /// The mark of the proxy's own packets.
    pub mark: u32,
    /// First and last of the ports for second legs on this machine that are this worker's.
    pub ports: (u16, u16),
    /// Where the search among them begins; another each time.
    pub start: usize,
    /// The congestion control, for a leg between proxies.
    pub congestion: Option<&'a str>,
    /// The rate granted to such a leg.
    pub rate: Option<u64>,
}

/// A connection that was taken in.
pub struct Connection {
    client: Socket,
    server: Option<Socket>,
    state: State,
    role: Role,
    from: SocketAddr,
    to: SocketAddr,
    up: Direction,
    down: Direction,
    /// The rate its leg toward the peer has, if it was given one.
    pub rate: Option<u64>,
    /// What that leg had been given when its use was last looked at.
    pub counted: u64,
    /// Whether its use is looked at.
    pub is_active: bool,
}

impl Connection {
    /// A client has connected.
    ///
    /// # Errors
    /// When it has gone already, or connected to the listening socket itself.
    pub fn new(client: Socket, listening: SocketAddr, role: Role) -> io::Result<Connection> {
        let (from, to) = (client.remote()?, client.local()?);
        if to == listening {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        if role.is_egress() {
            widen(&client);
        }
        let state = State::Listening;
        let (up, down) = (Direction::default(), Direction::default());
        Ok(Connection {
            client,
            server: None,
            state,
            role,
            from,
            to,
            up,
            down,
            rate: None,
            counted: 0,
            is_active: false,
        })
    }

    /// How far it has come.
    pub fn state(&self) -> State {
        self.state
    }

    /// The leg that the client made.
    pub fn client(&self) -> &Socket {
        &self.client
    }

    /// The leg that was made toward the server.
    pub fn server(&self) -> Option<&Socket> {
        self.server.as_ref()
    }

    /// The leg toward the peer.
    pub fn peer_leg(&self) -> Option<&Socket> {
        if self.role.is_egress() { Some(&self.client) } else { self.server.as_ref() }
    }

    /// The client and the server.
    pub fn ends(&self) -> (SocketAddr, SocketAddr) {
        (self.from, self.to)
    }

    /// The address behind the peer.
    pub fn peer_address(&self) -> IpAddr {
        if self.role.is_egress() { self.from.ip() } else { self.to.ip() }
    }

    /// Bytes given to the leg toward the peer.
    pub fn sent_to_peer(&self) -> u64 {
        if self.role.is_egress() { self.down.moved } else { self.up.moved }
    }

    /// Bytes from the client, and from the server.
    pub fn moved(&self) -> (u64, u64) {
        (self.up.moved, self.down.moved)
    }

    /// Calls the server in the client's name, with what the client has said already if nothing else says when the peer's proxy could
    /// begin.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub fn call(&mut self, calling: &Calling<'_>, pool: &mut Pool) -> io::Result<()> {
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
        self.state = State::Connecting;
        self.rate = calling.rate;
        Ok(())
    }

    /// Ports to call from, the best first; 0 is whichever the kernel chooses.
    fn ports(&self, (first, last): (u16, u16), start: usize) -> impl Iterator<Item = u16> + use<> {
        let width = usize::from(last - first) + 1;
        let (same, tries, any) = match self.role {
            Role::EgressLocal => (None, TRIES, None),
            Role::IngressLocal => (None, 0, Some(0)),
            Role::Ingress | Role::Egress => (Some(self.from.port()), 0, Some(0)),
        };
        let own = (0..tries).map(move |i| first + ((start + i) % width) as u16);
        same.into_iter().chain(own).chain(any)
    }

    fn call_from(&mut self, from: SocketAddr, calling: &Calling<'_>, pool: &mut Pool) -> io::Result<Socket> {
        let server = Socket::new(self.to, calling.mark)?;
        server.bind(from)?;
        if self.role.is_egress() {
            server.connect(self.to)?;
            return Ok(server);
        }
        server.hold_more();
        if let Some(congestion) = calling.congestion {
            // It was there when it was chosen; without it the leg has the system's.
            let _ = server.set_congestion(congestion);
        }
        if calling.rate.is_some() {
            server.set_rate(calling.rate)?;
        }
        self.connect_early(&server, pool)?;
        Ok(server)
    }

    fn connect_early(&mut self, server: &Socket, pool: &mut Pool) -> io::Result<()> {
        let buffer = pool.buffer().get_mut(..EARLY_BYTES).unwrap_or_default();
        let said = match self.up.readable && !self.up.urgent {
            true => unless_blocked(self.client.peek(buffer))?.unwrap_or(0),
            false => 0,
        };
        if said == 0 {
            return server.connect(self.to);
        }
        match server.connect_with(self.to, buffer.get(..said).unwrap_or_default()) {
            // Switched off in this namespace.
            Err(why) if why.raw_os_error() == Some(libc::EOPNOTSUPP) => server.connect(self.to),
            taken => self.client.skip(taken?).map(|taken| self.up.sent_early(taken)),
        }
    }

    /// Takes in what happened to the client's leg.
    ///
    /// # Errors
    /// When it is broken.
    pub fn on_client(&mut self, happened: &Happened) -> io::Result<()> {
        self.up.readable |= happened.readable;
        self.up.urgent |= happened.urgent;
        self.down.writable |= happened.writable;
        if happened.failed { self.client.take_error() } else { Ok(()) }
    }

    /// Takes in what happened to the server's leg.
    ///
    /// # Errors
    /// When it is broken, or the server cannot be reached.
    pub fn on_server(&mut self, happened: &Happened) -> io::Result<()> {
        self.down.readable |= happened.readable;
        self.down.urgent |= happened.urgent;
        self.up.writable |= happened.writable;
        let Some(server) = &self.server else { return Ok(()) };
        if happened.failed || self.state == State::Connecting {
            server.take_error()?;
        }
        if happened.writable && self.state == State::Connecting {
            self.state = State::Open;
            if !self.role.is_egress() {
                widen(server);
            }
        }
        Ok(())
    }

    /// Passes on what can be passed on, in both directions.
    ///
    /// # Errors
    /// When either leg is broken.
    pub fn pump(&mut self, pool: &mut Pool) -> io::Result<Pumped> {
        let Some(server) = self.server.as_ref().filter(|_| self.state == State::Open) else {
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

    /// Lets both legs end in order when they are closed.
    pub fn end(&self) {
        for leg in [Some(&self.client), self.server.as_ref()].into_iter().flatten() {
            // A leg that has gone needs no more.
            let _ = leg.reset_on_close(false);
        }
    }

    /// Gives up what is under way.
    pub fn abandon(&mut self, pool: &mut Pool) {
        self.up.abandon(pool);
        self.down.abandon(pool);
    }
}

/// Where the far end of a leg is a proxy it does not wait to be told so. Without that it is a round trip slower.
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
