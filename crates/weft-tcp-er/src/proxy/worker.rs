//! A worker thread of the proxy, with its own connections, descriptors and listening sockets.

use super::connection::{Calling, Connection, ConnectionPhase, port_range};
use super::descriptors::{self, DescriptorEvents, Poll};
use super::direction::Pumped;
use super::granting::Granting;
use super::listeners::Listeners;
use super::pool::PipePool;
use super::repetition::ResetConnections;
use super::ruleset::DiversionRole;
use super::shared::{ProxySettings, ProxyState};
use super::status::{Counts, RefusedConnection};
use super::sys::Socket;
use super::table::{ConnectionTable, Id};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of connections that are accepted from one listening socket before other events are handled.
const ACCEPTS: usize = 64;
/// Time for which the proxy waits for a client's first bytes, which the SYN toward the server can carry.
const EARLY: Duration = Duration::from_millis(2);
/// Maximum time for which the worker waits for events.
const IDLE: Duration = Duration::from_secs(60);

/// Poll token of the worker's wake-up signal.
///
/// The token of a socket is the connection's id, doubled, plus one for the socket toward the server.
const BELL: u64 = u64::MAX;
/// Poll token of the first listening socket.
const FIRST_LISTENER: u64 = u64::MAX - 64;

/// A worker thread of the proxy, which accepts connections and forwards their bytes.
pub struct Worker<'a> {
    /// Number of the worker, from 0.
    index: usize,
    /// Firewall mark of the packets that the proxy sends.
    mark: u32,
    shared: &'a ProxyState,
    listeners: &'a Listeners,
    settings: Arc<ProxySettings>,
    poll: Poll,
    connections: ConnectionTable,
    pool: PipePool,
    granting: Granting,
    /// SYNs of connections from other proxies that were reset.
    were_reset: ResetConnections,
    /// Connections that wait for their client's first bytes, each with the end of its waiting time, the oldest first.
    listening: VecDeque<(Instant, Id)>,
    /// Connections that have more bytes to forward than one call of [`Connection::pump`] forwards.
    again: Vec<Id>,
    counts: Counts,
}

impl<'a> Worker<'a> {
    /// Creates worker `index` in the current thread, which gets its own descriptor table.
    ///
    /// # Errors
    /// Fails if the kernel refuses a descriptor.
    pub fn new(index: usize, mark: u32, shared: &'a ProxyState, listeners: &'a Listeners) -> io::Result<Worker<'a>> {
        descriptors::own_descriptors()?;
        let poll = Poll::new()?;
        shared.bell(index).map_or(Ok(()), |bell| poll.watch_input(bell.as_raw_fd(), BELL))?;
        for (token, listener) in (FIRST_LISTENER..).zip(listeners.of(index)) {
            poll.watch_input(listener.socket.as_raw_fd(), token)?;
        }
        Ok(Worker {
            index,
            mark,
            shared,
            listeners,
            settings: shared.settings(),
            poll,
            connections: ConnectionTable::default(),
            pool: PipePool::new(0),
            granting: Granting::new(Instant::now()),
            were_reset: ResetConnections::default(),
            listening: VecDeque::new(),
            again: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// Runs until a thread of the proxy ends.
    ///
    /// # Errors
    /// Fails if the kernel returns an error.
    pub fn run(&mut self) -> io::Result<()> {
        let mut happened = Vec::new();
        while !self.shared.is_over() {
            let wait = self.time_to_wait();
            self.poll.wait(wait, &mut happened)?;
            for event in &happened {
                match event.token {
                    BELL => self.on_bell()?,
                    token if token >= FIRST_LISTENER => self.accept((token - FIRST_LISTENER) as usize)?,
                    _ => self.on_leg(event),
                }
            }
            for id in std::mem::take(&mut self.again) {
                self.pump(id);
            }
            self.call_silent(Instant::now());
            if let Some(uses) = self.granting.uses(Instant::now(), &mut self.connections) {
                self.shared.share(self.index, uses);
                self.granting.renew(self.shared, &mut self.connections);
            }
            self.counts.connections = self.connections.len() as u64;
            self.counts.pipes = self.pool.lent() as u64;
            self.shared.count(self.index, self.counts);
        }
        Ok(())
    }

    fn time_to_wait(&self) -> Duration {
        if !self.again.is_empty() {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let early = self.listening.front().map(|(at, _)| at.saturating_duration_since(now));
        let granting = self.granting.due().map(|at| at.saturating_duration_since(now));
        [early, granting].into_iter().flatten().min().unwrap_or(IDLE).min(IDLE)
    }

    /// Reads the settings and rates that other threads have changed, after a wake-up.
    fn on_bell(&mut self) -> io::Result<()> {
        self.shared.bell(self.index).map_or(Ok(()), |bell| bell.clear())?;
        self.take_settings();
        self.granting.renew(self.shared, &mut self.connections);
        Ok(())
    }

    fn take_settings(&mut self) {
        self.settings = self.shared.settings();
        self.pool.set_most(self.settings.capacity.pipes);
    }

    fn accept(&mut self, listener: usize) -> io::Result<()> {
        self.take_settings();
        let capacity = self.settings.capacity;
        for _ in 0..ACCEPTS {
            let Some(listener) = self.listeners.of(self.index).get(listener) else { return Ok(()) };
            match listener.socket.accept() {
                Ok(None) => break,
                Ok(Some(client)) => {
                    if !capacity.is_crammed(self.connections.len(), self.shared.connections())
                        && let Ok(connection) = Connection::new(client, listener.address, listener.role)
                        && !self.is_repetition(&connection)
                    {
                        self.judge_and_take_in(connection, listener.role);
                    }
                }
                // The client had disconnected before its connection was accepted.
                Err(why) if why.raw_os_error() == Some(libc::ECONNABORTED) => {}
                Err(why) if !is_lack_of_capacity(&why) => return Err(why),
                Err(_) => {
                    self.shared.say_full();
                    return Ok(());
                }
            }
        }
        if capacity.is_full(self.connections.len(), self.shared.connections()) {
            self.shared.say_full();
        }
        Ok(())
    }

    /// Returns true if the connection's SYN repeats that of a connection that was reset.
    ///
    /// The caller then drops the connection, which resets it too.
    fn is_repetition(&mut self, connection: &Connection) -> bool {
        connection.syn().is_some_and(|syn| self.were_reset.contains(Instant::now(), &syn))
    }

    /// Forwards a new connection if the access rules allow it. Otherwise drops it, which resets it.
    fn judge_and_take_in(&mut self, connection: Connection, role: DiversionRole) {
        let (from, to) = connection.ends();
        match self.settings.access.judge(from.ip(), to) {
            Ok(()) => self.take_in(connection, role),
            Err(why) => {
                self.counts.refused += 1;
                self.shared.refuse(RefusedConnection { from, to, why: why.to_string() });
            }
        }
    }

    fn take_in(&mut self, connection: Connection, role: DiversionRole) {
        self.counts.taken += 1;
        self.shared.one_more();
        let id = self.connections.insert(connection);
        let Some(connection) = self.connections.get_mut(id) else { return };
        if self.poll.watch(connection.client(), leg(id, false)).is_err() {
            self.reset(id);
        } else if role.is_egress() {
            let rate = self.shared.granted(connection.peer_address());
            connection.rate = rate;
            if rate.is_some() {
                // An error is ignored, because the next renewal sets the rate.
                let _ = connection.client().set_rate(rate);
            }
            self.call(id);
        } else {
            self.listening.push_back((Instant::now() + EARLY, id));
        }
    }

    fn call(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.state() != ConnectionPhase::Listening {
            return;
        }
        let rate = self.shared.granted(connection.peer_address());
        let congestion = Some(self.settings.congestion.as_str()).filter(|name| !name.is_empty());
        let (ports, start) = (port_range(self.index, self.shared.workers()), self.counts.taken as usize);
        let called = connection.call(&Calling { mark: self.mark, ports, start, congestion, rate }, &mut self.pool);
        let watched = |server: &Socket| self.poll.watch(server, leg(id, true));
        let result = called.and_then(|()| connection.server().map_or(Ok(()), watched));
        if result.is_err() {
            self.fail(id);
        } else {
            self.counts.up_bytes += connection.moved().0;
            if rate.is_none() {
                self.granting.began_unlimited(id);
            }
            self.granting.used(id, connection);
        }
    }

    /// Connects to the servers of clients that have sent nothing within [`EARLY`].
    fn call_silent(&mut self, now: Instant) {
        while let Some((_, id)) = self.listening.pop_front_if(|(at, _)| *at <= now) {
            self.call(id);
        }
    }

    fn on_leg(&mut self, event: &DescriptorEvents) {
        let (id, is_server) = (Id::from_bits(event.token >> 1), event.token & 1 == 1);
        let Some(connection) = self.connections.get_mut(id) else { return };
        let before = connection.state();
        let result = if is_server { connection.on_server(event) } else { connection.on_client(event) };
        match (result, before) {
            (Ok(()), ConnectionPhase::Listening) if event.readable => self.call(id),
            (Ok(()), _) => self.pump(id),
            (Err(_), ConnectionPhase::Connecting) if is_server => self.fail(id),
            (Err(_), _) => self.reset(id),
        }
    }

    fn pump(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let before = connection.moved();
        let result = connection.pump(&mut self.pool);
        let after = connection.moved();
        self.counts.up_bytes += after.0 - before.0;
        self.counts.down_bytes += after.1 - before.1;
        if before != after {
            self.granting.used(id, connection);
        }
        match result {
            Ok(Pumped::Waiting) => {}
            Ok(Pumped::Again) => self.again.push(id),
            Ok(Pumped::Finished) => {
                connection.end();
                self.counts.ended += 1;
                self.drop_connection(id);
            }
            Err(_) => self.reset(id),
        }
    }

    /// Resets the client's connection, because the server cannot be reached.
    fn fail(&mut self, id: Id) {
        self.counts.unreachable += 1;
        self.abort(id);
    }

    fn reset(&mut self, id: Id) {
        self.counts.reset += 1;
        self.abort(id);
    }

    fn abort(&mut self, id: Id) {
        if let Some(syn) = self.connections.get_mut(id).and_then(|connection| connection.syn()) {
            self.were_reset.insert(Instant::now(), syn);
        }
        self.drop_connection(id);
    }

    fn drop_connection(&mut self, id: Id) {
        if let Some(mut connection) = self.connections.remove(id) {
            self.shared.one_less();
            connection.abandon(&mut self.pool);
        }
    }
}

fn leg(id: Id, is_server: bool) -> u64 {
    id.to_bits() << 1 | u64::from(is_server)
}

/// True if the error means that no more descriptors or memory are available.
fn is_lack_of_capacity(why: &io::Error) -> bool {
    matches!(why.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}
