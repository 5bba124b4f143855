//! The loop: one thread, edge-triggered, with everything the proxy holds.

use super::connection::{Calling, Connection, State};
use super::direction::Pumped;
use super::granting::Granting;
use super::listeners::Listeners;
use super::nft;
use super::orders::{Order, Orders};
use super::policy::Policy;
use super::pool::Pool;
use super::ruleset::{Names, Role};
use super::status::Status;
use super::sys::{Happened, Poll, Socket};
use super::table::{Id, Table};
use super::{Room, room};
use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

/// Connections accepted from one socket in a turn.
const ACCEPTS: usize = 64;
/// How long a client may take to say something that goes with the first packet.
const EARLY: Duration = Duration::from_millis(2);
/// How often the status is told, if it has changed.
const TELL: Duration = Duration::from_secs(1);
/// The longest wait.
const IDLE: Duration = Duration::from_secs(1);
/// Full, it takes connections in again when it is this full.
const REOPEN: (usize, usize) = (9, 10);

/// Names of descriptors that are no legs; legs have theirs doubled, and one more for the server's.
const ORDERS: u64 = u64::MAX;
const FIRST_LISTENER: u64 = u64::MAX - 64;

/// Everything.
pub struct Relay {
    names: Names,
    poll: Poll,
    orders: Orders,
    listeners: Listeners,
    nft: nft::Table,
    policy: Policy,
    room: Room,
    is_open: bool,
    connections: Table,
    pool: Pool,
    granting: Granting,
    /// Connections that wait for their client's first bytes, the oldest first.
    listening: VecDeque<(Instant, Id)>,
    /// Connections with more to do than a turn.
    again: Vec<Id>,
    status: Status,
    told: (Instant, Status),
}

impl Relay {
    /// Opens the listening sockets and makes the table, which takes nothing in before a policy comes.
    ///
    /// # Errors
    /// When the kernel or nft refuse.
    pub fn new(names: Names) -> io::Result<Relay> {
        let poll = Poll::new()?;
        let orders = Orders::new()?;
        poll.watch_input(orders.as_raw_fd(), ORDERS)?;
        let listeners = Listeners::open(names.own)?;
        for (index, listener) in listeners.all().iter().enumerate() {
            poll.watch_input(listener.socket.as_raw_fd(), FIRST_LISTENER + index as u64)?;
        }
        let nft = nft::Table::create(&names)?;
        let room = room(0)?;
        Ok(Relay {
            names,
            poll,
            orders,
            listeners,
            nft,
            policy: Policy::default(),
            pool: Pool::new(room.pipes),
            room,
            is_open: false,
            connections: Table::default(),
            granting: Granting::new(Instant::now()),
            listening: VecDeque::new(),
            again: Vec::new(),
            status: Status::default(),
            told: (Instant::now(), Status::default()),
        })
    }

    /// Runs until nobody gives orders any more.
    ///
    /// # Errors
    /// When the kernel or nft fail.
    pub fn run(&mut self) -> io::Result<()> {
        let mut happened = Vec::new();
        loop {
            let wait = self.time_to_wait();
            self.poll.wait(wait, &mut happened)?;
            for event in &happened {
                match event.token {
                    ORDERS => {
                        if !self.take_orders()? {
                            return Ok(());
                        }
                    }
                    token if token >= FIRST_LISTENER => self.accept((token - FIRST_LISTENER) as usize)?,
                    _ => self.on_leg(event),
                }
            }
            for id in std::mem::take(&mut self.again) {
                self.pump(id);
            }
            self.call_silent(Instant::now());
            self.granting.renew(Instant::now(), &mut self.connections);
            self.reopen()?;
            self.tell(Instant::now())?;
        }
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

    /// False when they have come to an end.
    fn take_orders(&mut self) -> io::Result<bool> {
        while let Some(order) = self.orders.next()? {
            match order {
                Order::Policy(policy) => self.set_policy(policy)?,
                Order::Totals(totals) => self.granting.set(&totals),
                Order::End => return Ok(false),
            }
        }
        Ok(true)
    }

    fn set_policy(&mut self, policy: Policy) -> io::Result<()> {
        self.room = room(policy.capacity)?;
        self.pool.set_most(self.room.pipes);
        self.status.congestion = self.listeners.choose_congestion(&policy.congestion);
        self.policy = policy;
        self.set_open(self.connections.len() < self.room.connections)?;
        self.told.0 -= TELL;
        Ok(())
    }

    fn set_open(&mut self, open: bool) -> io::Result<()> {
        self.is_open = open;
        match open {
            true => self.nft.open(&self.policy, &self.listeners.ports()),
            false => self.nft.shut(),
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        let (of, whole) = REOPEN;
        if !self.is_open && self.connections.len() <= self.room.connections * of / whole && self.room.connections > 0 {
            self.set_open(true)?;
        }
        Ok(())
    }

    fn accept(&mut self, index: usize) -> io::Result<()> {
        for _ in 0..ACCEPTS {
            let Some(listener) = self.listeners.all().get(index) else { return Ok(()) };
            let (role, at) = (listener.role, listener.address);
            match listener.socket.accept() {
                Ok(None) => break,
                Ok(Some(client)) => {
                    if self.connections.len() < self.room.connections + self.room.spare
                        && let Ok(connection) = Connection::new(client, at, role)
                    {
                        self.take_in(connection, role);
                    }
                }
                // Of one that has gone before it was accepted.
                Err(why) if why.raw_os_error() == Some(libc::ECONNABORTED) => {}
                Err(why) if !is_want_of_room(&why) => return Err(why),
                Err(_) => return if self.is_open { self.set_open(false) } else { Ok(()) },
            }
        }
        if self.is_open && self.connections.len() >= self.room.connections {
            self.set_open(false)?;
        }
        Ok(())
    }

    fn take_in(&mut self, connection: Connection, role: Role) {
        self.status.taken += 1;
        let id = self.connections.insert(connection);
        let Some(connection) = self.connections.get_mut(id) else { return };
        if self.poll.watch(connection.client(), leg(id, false)).is_err() {
            self.reset(id);
        } else if role.is_egress() {
            let rate = self.granting.granted(connection.peer_address());
            connection.rate = rate;
            if rate.is_some() {
                // The next renewal makes up for it.
                let _ = connection.client().set_rate(rate);
            }
            self.call(id);
        } else {
            self.listening.push_back((Instant::now() + EARLY, id));
        }
    }

    fn call(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.state() != State::Listening {
            return;
        }
        let rate = self.granting.granted(connection.peer_address());
        let congestion = Some(self.status.congestion.as_str()).filter(|name| !name.is_empty());
        let called = connection
            .call(&Calling { mark: self.names.own, port: self.status.taken as u16, congestion, rate }, &mut self.pool);
        let watched = |server: &Socket| self.poll.watch(server, leg(id, true));
        let result = called.and_then(|()| connection.server().map_or(Ok(()), watched));
        if result.is_err() {
            self.status.unreachable += 1;
            self.drop_connection(id);
        } else {
            self.status.up_bytes += connection.moved().0;
            self.granting.used(id, connection);
        }
    }

    /// Calls the servers of clients that wait to be spoken to.
    fn call_silent(&mut self, now: Instant) {
        while let Some((_, id)) = self.listening.pop_front_if(|(at, _)| *at <= now) {
            self.call(id);
        }
    }

    fn on_leg(&mut self, event: &Happened) {
        let (id, is_server) = (Id::from_bits(event.token >> 1), event.token & 1 == 1);
        let Some(connection) = self.connections.get_mut(id) else { return };
        let before = connection.state();
        let result = if is_server { connection.on_server(event) } else { connection.on_client(event) };
        match (result, before) {
            (Ok(()), State::Listening) if event.readable => self.call(id),
            (Ok(()), _) => self.pump(id),
            (Err(_), State::Connecting) if is_server => {
                self.status.unreachable += 1;
                self.drop_connection(id);
            }
            (Err(_), _) => self.reset(id),
        }
    }

    fn pump(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let before = connection.moved();
        let result = connection.pump(&mut self.pool);
        let after = connection.moved();
        self.status.up_bytes += after.0 - before.0;
        self.status.down_bytes += after.1 - before.1;
        if before != after {
            self.granting.used(id, connection);
        }
        match result {
            Ok(Pumped::Waiting) => {}
            Ok(Pumped::Again) => self.again.push(id),
            Ok(Pumped::Finished) => {
                connection.end();
                self.status.ended += 1;
                self.drop_connection(id);
            }
            Err(_) => self.reset(id),
        }
    }

    fn reset(&mut self, id: Id) {
        self.status.reset += 1;
        self.drop_connection(id);
    }

    fn drop_connection(&mut self, id: Id) {
        if let Some(mut connection) = self.connections.remove(id) {
            connection.abandon(&mut self.pool);
        }
    }

    fn tell(&mut self, now: Instant) -> io::Result<()> {
        if now.saturating_duration_since(self.told.0) < TELL {
            return Ok(());
        }
        self.status.connections = self.connections.len() as u64;
        self.status.capacity = self.room.connections as u64;
        self.status.is_open = self.is_open;
        self.status.pipes = self.pool.lent() as u64;
        if self.status != self.told.1 {
            let mut out = io::stdout().lock();
            writeln!(out, "{}", self.status).and_then(|()| out.flush())?;
            self.told = (now, self.status.clone());
        }
        Ok(())
    }
}

fn leg(id: Id, is_server: bool) -> u64 {
    id.to_bits() << 1 | u64::from(is_server)
}

/// Whether descriptors or memory have run out.
fn is_want_of_room(why: &io::Error) -> bool {
    matches!(why.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}
