//! The carrier thread: it moves datagrams between the daemon's event loop and the TCP connections of all bundles.

use crate::bundle::{ConnectionBundle, ConnectionState, MOST, choose, lane_of, part_of};
use crate::frame;
use crate::greeting::{BundleId, Greeting, Lane};
use crate::member::{Call, CallTarget, OpenConnection};
use crate::port::Port;
use crate::stream::{ReadOutcome, TlsStream};
use crate::tls::Caller;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weft_io::stream::{info, unacknowledged_bytes, unsent_bytes};
use weft_io::wait::{Poller, Ready, Waker};

/// Maximum number of orders that wait for the carrier thread.
const MAX_ORDERS: usize = 256;
/// Maximum number of accepted bundles.
const MAX_ACCEPTED: usize = 1_024;
/// Maximum number of messages read from one [`Port`] in one turn of the thread's loop.
const MESSAGES_PER_TURN: usize = 32;
/// Maximum number of reads of one connection in one turn of the thread's loop.
const READS_PER_TURN: usize = 8;
/// Size of the buffer for one message of a [`Port`], in bytes: the largest batch of the daemon's event loop.
const MESSAGE: usize = 65_536;
/// Maximum number of bytes of datagrams that are passed to the daemon's event loop in one batch.
const LONGEST_BATCH: usize = 49_152;
/// Maximum time to open a connection, including a proxy and the TLS handshake.
const LONGEST_CALL: Duration = Duration::from_secs(4);
/// Time without data after which an accepted bundle ends. A node that is up sends probes on its paths more often.
const LONGEST_SILENCE: Duration = Duration::from_secs(120);
/// Interval at which connections without an answer are ended and the state for [`Handle::shown`] is renewed.
const UPKEEP: Duration = Duration::from_millis(250);

const WAKER: u64 = 0;
const FIRST_MEMBER: u64 = 16;
/// Poller token of the [`Port`] of link 0. The token of another link's port is this plus the link's number.
const FIRST_PORT: u64 = 1 << 40;

/// An order to the carrier thread.
pub enum CarrierOrder {
    /// Exchange the datagrams of the link of this number with the event loop by this port.
    Serve(u32, Port),
    /// Open a bundle of connections to a node.
    Open(CallTarget),
    /// End the bundle of this link and remote address.
    Close(u32, SocketAddr),
    /// Take over an accepted connection. Its datagrams belong to the link of this number.
    Adopt(u32, Box<Accepted>),
}

/// An accepted connection whose greeting is valid.
pub struct Accepted {
    /// TLS stream of the connection.
    pub stream: TlsStream,
    /// Greeting that the remote node sent.
    pub greeting: Greeting,
    /// Bytes that followed the greeting.
    pub rest: Vec<u8>,
    /// Address of the remote node.
    pub from: SocketAddr,
}

/// An event that the carrier thread reports to the daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CarrierEvent {
    /// The first connection of a bundle that this node opens is established.
    Up(u32, SocketAddr),
    /// The last connection of a bundle that this node opened is closed, or none could be opened, for this reason.
    Down(u32, SocketAddr, String),
}

/// A bundle as shown to users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BundleView {
    /// Number of the local link.
    pub link: u32,
    /// Address of the remote node.
    pub remote: SocketAddr,
    /// Number of open connections.
    pub connections: usize,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams dropped because no connection could send them in time.
    pub dropped: u64,
}

/// Sends commands to the carrier thread, and reads its state.
#[derive(Clone)]
pub struct Handle {
    orders: SyncSender<CarrierOrder>,
    waker: Arc<Waker>,
    shown: Arc<Mutex<Vec<BundleView>>>,
}

impl Handle {
    /// Gives an order. Returns false if the thread has ended, or if too many orders wait for it. Never blocks.
    pub fn order(&self, order: CarrierOrder) -> bool {
        self.orders.try_send(order).is_ok() && self.waker.wake().is_ok()
    }

    /// Returns the state of all bundles. It is at most about a quarter of a second old.
    pub fn shown(&self) -> Vec<BundleView> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Link and remote address of a bundle.
type Key = (u32, SocketAddr);

enum BundleConnection {
    Calling(Box<Call>, Key),
    Open(Box<OpenConnection>, Key),
}

/// State of the carrier thread.
pub struct CarrierLoop {
    poller: Poller,
    waker: Arc<Waker>,
    orders: Receiver<CarrierOrder>,
    report: Box<dyn FnMut(CarrierEvent) + Send>,
    random: fn() -> io::Result<BundleId>,
    caller: Caller,
    ports: BTreeMap<u32, Port>,
    entries: BTreeMap<u64, BundleConnection>,
    bundles: BTreeMap<Key, ConnectionBundle>,
    /// Link and remote address of each accepted bundle, by the bundle's id.
    accepted: BTreeMap<BundleId, Key>,
    next_token: u64,
    next_upkeep: Instant,
    ready: Vec<Ready>,
    message: Box<[u8]>,
    framed: Vec<u8>,
    states: Vec<ConnectionState>,
    shown: Arc<Mutex<Vec<BundleView>>>,
}

impl CarrierLoop {
    /// Returns the thread's state and a handle to it.
    ///
    /// `random` returns fresh random bytes. `report` gets each event and must not block for long.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn new(
        random: fn() -> io::Result<BundleId>,
        report: Box<dyn FnMut(CarrierEvent) + Send>,
    ) -> io::Result<(CarrierLoop, Handle)> {
        let (poller, waker) = (Poller::new()?, Arc::new(Waker::new()?));
        poller.add(waker.as_raw_fd(), WAKER)?;
        let (orders, receiver) = sync_channel(MAX_ORDERS);
        let shown = Arc::new(Mutex::new(Vec::new()));
        let handle = Handle { orders, waker: Arc::clone(&waker), shown: Arc::clone(&shown) };
        let carrier = CarrierLoop {
            poller,
            waker,
            orders: receiver,
            report,
            random,
            caller: Caller::new().map_err(io::Error::other)?,
            ports: BTreeMap::new(),
            entries: BTreeMap::new(),
            bundles: BTreeMap::new(),
            accepted: BTreeMap::new(),
            next_token: FIRST_MEMBER,
            next_upkeep: Instant::now(),
            ready: Vec::new(),
            message: vec![0; MESSAGE].into(),
            framed: Vec::with_capacity(MESSAGE),
            states: Vec::with_capacity(MOST),
            shown,
        };
        Ok((carrier, handle))
    }

    /// Waits until there is work.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn wait(&mut self) -> io::Result<()> {
        let wait = (!self.bundles.is_empty()).then(|| self.next_upkeep.saturating_duration_since(Instant::now()));
        self.poller.wait(wait, &mut self.ready)
    }

    /// Does the work that [`CarrierLoop::wait`] found.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn work(&mut self) -> io::Result<()> {
        let ready = std::mem::take(&mut self.ready);
        for source in &ready {
            match source.token {
                WAKER => {
                    self.waker.clear()?;
                    while let Ok(order) = self.orders.try_recv() {
                        self.obey(order)?;
                    }
                }
                token if token >= FIRST_PORT => self.send_from((token - FIRST_PORT) as u32),
                token => self.serve(token, source),
            }
        }
        self.ready = ready;
        let now = Instant::now();
        if now >= self.next_upkeep {
            self.next_upkeep = now + UPKEEP;
            self.end_stale(now);
            self.show();
        }
        Ok(())
    }

    fn obey(&mut self, order: CarrierOrder) -> io::Result<()> {
        let now = Instant::now();
        match order {
            CarrierOrder::Serve(link, port) => {
                self.poller.add(port.as_raw_fd(), FIRST_PORT + u64::from(link))?;
                self.ports.insert(link, port);
            }
            CarrierOrder::Open(way) => {
                let key = (way.link, way.remote);
                self.close(&key);
                let id = (self.random)()?;
                self.bundles.insert(key, ConnectionBundle::new(id, Some(way), now));
                self.call(&key, Lane::Short);
            }
            CarrierOrder::Close(link, remote) => self.close(&(link, remote)),
            CarrierOrder::Adopt(link, accepted) => self.adopt(link, *accepted, now),
        }
        Ok(())
    }

    /// Opens one more connection, for short or for long datagrams, of a bundle that this node opened.
    fn call(&mut self, key: &Key, lane: Lane) {
        let Some(bundle) = self.bundles.get_mut(key) else { return };
        let Some(way) = &bundle.way else { return };
        let greeting = Greeting { bundle: bundle.id, lane };
        match Call::begin(&self.caller, way, greeting) {
            Ok(call) => {
                let (token, fd) = (self.next_token, call.as_raw_fd());
                self.next_token += 1;
                bundle.opening += 1;
                bundle.add(token, lane);
                self.entries.insert(token, BundleConnection::Calling(Box::new(call), *key));
                let watched = self.poller.add(fd, token).and_then(|()| self.poller.watch_writable(fd, token, true));
                if let Err(why) = watched {
                    self.remove(token, &why.to_string());
                }
            }
            Err(why) if bundle.members.is_empty() => self.end(key, &why.to_string()),
            Err(_) => {}
        }
    }

    fn adopt(&mut self, link: u32, accepted: Accepted, now: Instant) {
        let Accepted { stream, greeting, rest, from } = accepted;
        let key = match self.accepted.get(&greeting.bundle) {
            Some(key) => *key,
            None if self.accepted.len() >= MAX_ACCEPTED => return,
            None => {
                let key = (link, from);
                // A bundle from the same address and port exists. The remote node has thus ended that bundle.
                self.close(&key);
                self.bundles.insert(key, ConnectionBundle::new(greeting.bundle, None, now));
                self.accepted.insert(greeting.bundle, key);
                key
            }
        };
        let Some(bundle) = self.bundles.get_mut(&key).filter(|bundle| bundle.members.len() < MOST) else { return };
        let token = self.next_token;
        self.next_token += 1;
        if self.poller.add(stream.as_raw_fd(), token).is_err() {
            return;
        }
        bundle.add(token, greeting.lane);
        let member = Box::new(OpenConnection::accepted(stream, greeting.lane, &rest));
        self.entries.insert(token, BundleConnection::Open(member, key));
        // TLS may already have decrypted data behind the greeting. The poller does not report data that left the
        // socket.
        self.receive(token);
    }

    fn serve(&mut self, token: u64, source: &Ready) {
        match self.entries.get_mut(&token) {
            Some(BundleConnection::Calling(..)) => self.go_on(token),
            Some(BundleConnection::Open(member, _)) => {
                if source.writable && member.is_blocked {
                    let flushed = member.stream.flush();
                    self.after_write(token, flushed);
                }
                if source.readable {
                    self.receive(token);
                }
            }
            None => {}
        }
    }

    fn go_on(&mut self, token: u64) {
        let Some(BundleConnection::Calling(call, key)) = self.entries.get_mut(&token) else { return };
        let (key, lane, fd) = (*key, call.lane(), call.as_raw_fd());
        match call.go_on() {
            Ok(None) => _ = self.poller.watch_writable(fd, token, call.wants_room()),
            Ok(Some(stream)) => {
                let mut member = Box::new(OpenConnection::new(stream, lane));
                member.is_blocked = member.stream.tls().wants_write();
                let _ = self.poller.watch_writable(fd, token, member.is_blocked);
                self.entries.insert(token, BundleConnection::Open(member, key));
                let Some(bundle) = self.bundles.get_mut(&key) else { return };
                bundle.opening -= 1;
                if !std::mem::replace(&mut bundle.is_up, true) {
                    (self.report)(CarrierEvent::Up(key.0, key.1));
                    self.call(&key, Lane::Bulk);
                }
                self.receive(token);
            }
            Err(why) => self.remove(token, &why.to_string()),
        }
    }

    /// Sends the datagrams of a link that the daemon's event loop has written to the link's [`Port`].
    fn send_from(&mut self, link: u32) {
        for _ in 0..MESSAGES_PER_TURN {
            let Some(batch) = self.ports.get(&link).and_then(|port| port.receive(&mut self.message)) else { return };
            let (key, stride, len) = ((link, batch.remote), batch.stride.max(1), batch.len.min(MESSAGE));
            let first = part_of(len, stride);
            self.send(&key, stride, 0..first);
            if first < len {
                self.send(&key, stride, first..len);
            }
        }
    }

    /// Sends the datagrams in the bytes `part` of the last message that was read from a [`Port`].
    ///
    /// All of them are short, or all are long. Each has `stride` bytes, but the last one may be shorter.
    fn send(&mut self, key: &Key, stride: usize, part: Range<usize>) {
        let Some(bundle) = self.bundles.get_mut(key) else { return };
        let datagrams = part.len().div_ceil(stride) as u64;
        let lane = lane_of(stride.min(part.len()));
        look_at(&bundle.members, &self.entries, &mut self.states);
        let now = Instant::now();
        if bundle.wants_look(now) {
            measure(bundle, &self.entries, now);
        }
        let choice = choose(&self.states, lane, bundle.allowed(lane));
        let (grows, is_lossy) = (choice.is_crowded && bundle.can_grow(lane), bundle.is_lossy);
        self.framed.clear();
        self.message[part].chunks(stride).for_each(|datagram| frame::append(&mut self.framed, datagram));
        match choice.token {
            Some(token) => {
                bundle.sent += datagrams;
                bundle.on_sent(now, self.framed.len());
                self.write(token);
                // The copy leaves on another connection: one lost segment cannot delay both.
                if let Some(copy) = choice.copy.filter(|_| is_lossy && lane == Lane::Short) {
                    self.write(copy);
                }
            }
            None => bundle.dropped += datagrams,
        }
        if grows {
            self.call(key, lane);
        }
    }

    /// Writes the datagrams in `framed` to a connection.
    fn write(&mut self, token: u64) {
        if let Some(BundleConnection::Open(member, _)) = self.entries.get_mut(&token) {
            let written = member.stream.write(&self.framed);
            self.after_write(token, written);
        }
    }

    /// Handles the result of a write: it records whether data remains, or removes a connection that failed.
    fn after_write(&mut self, token: u64, written: io::Result<bool>) {
        let Some(BundleConnection::Open(member, _)) = self.entries.get_mut(&token) else { return };
        match written {
            Ok(is_done) if member.is_blocked == is_done => {
                member.is_blocked = !is_done;
                let _ = self.poller.watch_writable(member.stream.as_raw_fd(), token, !is_done);
            }
            Ok(_) => {}
            Err(why) => self.remove(token, &why.to_string()),
        }
    }

    /// Receives from a connection, and passes its datagrams to the daemon's event loop.
    fn receive(&mut self, token: u64) {
        for _ in 0..READS_PER_TURN {
            let Some(BundleConnection::Open(member, key)) = self.entries.get_mut(&token) else { return };
            let key = *key;
            let (Some(port), Some(bundle)) = (self.ports.get(&key.0), self.bundles.get_mut(&key)) else { return };
            let passed = pass(member, bundle, port, key.1, &mut self.framed);
            let arrived = passed.and_then(|()| member.stream.read(member.frames.room()));
            match arrived {
                Ok(ReadOutcome::Bytes(len)) => {
                    member.frames.fill(len);
                    let lane = member.lane;
                    let bundle = self.bundles.get_mut(&key);
                    if bundle.is_some_and(|bundle| bundle.on_received(Instant::now(), lane, len)) {
                        self.call(&key, lane);
                    }
                }
                Ok(ReadOutcome::Nothing) => return,
                Ok(ReadOutcome::End) => return self.remove(token, "the other side ended the connection"),
                Err(why) => return self.remove(token, &why.to_string()),
            }
        }
        if let Some(BundleConnection::Open(member, key)) = self.entries.get_mut(&token)
            && let (Some(port), Some(bundle)) = (self.ports.get(&key.0), self.bundles.get_mut(key))
            && let Err(why) = pass(member, bundle, port, key.1, &mut self.framed)
        {
            self.remove(token, &why.to_string());
        }
    }

    /// Removes a connection. A bundle without connections ends.
    fn remove(&mut self, token: u64, why: &str) {
        let Some(entry) = self.entries.remove(&token) else { return };
        let (key, lane, was_calling) = match &entry {
            BundleConnection::Calling(call, key) => (*key, call.lane(), true),
            BundleConnection::Open(member, key) => (*key, member.lane, false),
        };
        let Some(bundle) = self.bundles.get_mut(&key) else { return };
        bundle.remove(token, lane);
        bundle.opening -= usize::from(was_calling);
        if bundle.members.is_empty() {
            self.end(&key, why);
        }
    }

    /// Ends a bundle and reports it.
    fn end(&mut self, key: &Key, why: &str) {
        if self.bundles.get(key).is_some_and(|bundle| bundle.way.is_some()) {
            (self.report)(CarrierEvent::Down(key.0, key.1, why.to_owned()));
        }
        self.close(key);
    }

    /// Ends a bundle.
    fn close(&mut self, key: &Key) {
        let Some(bundle) = self.bundles.remove(key) else { return };
        self.accepted.remove(&bundle.id);
        for token in bundle.members {
            if let Some(BundleConnection::Open(mut member, _)) = self.entries.remove(&token) {
                member.stream.end();
            }
        }
    }

    fn end_stale(&mut self, now: Instant) {
        let is_late = |(token, entry): (&u64, &BundleConnection)| match entry {
            BundleConnection::Calling(call, _) if now - call.began >= LONGEST_CALL => Some(*token),
            _ => None,
        };
        let late: Vec<u64> = self.entries.iter().filter_map(is_late).collect();
        late.into_iter().for_each(|token| self.remove(token, "no answer"));
        let is_silent = |bundle: &ConnectionBundle| bundle.way.is_none() && now - bundle.heard >= LONGEST_SILENCE;
        let silent: Vec<Key> = self.bundles.iter().filter(|(_, of)| is_silent(of)).map(|(key, _)| *key).collect();
        silent.iter().for_each(|key| self.close(key));
    }

    fn show(&mut self) {
        let is_open = |token: &&u64| matches!(self.entries.get(token), Some(BundleConnection::Open(..)));
        let view = |(key, bundle): (&Key, &ConnectionBundle)| BundleView {
            link: key.0,
            remote: key.1,
            connections: bundle.members.iter().filter(is_open).count(),
            sent: bundle.sent,
            dropped: bundle.dropped,
        };
        let shown = self.bundles.iter().map(view).collect();
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }
}

/// Replaces the content of `states` by the states of a bundle's open connections.
///
/// A connection of which the kernel no longer returns the state is about to end. Nothing is sent on it.
fn look_at(members: &[u64], entries: &BTreeMap<u64, BundleConnection>, states: &mut Vec<ConnectionState>) {
    states.clear();
    for token in members {
        if let Some(BundleConnection::Open(member, _)) = entries.get(token) {
            let socket = member.stream.as_fd();
            let (Ok(unsent), Ok(unacknowledged)) = (unsent_bytes(socket), unacknowledged_bytes(socket)) else {
                continue;
            };
            let (token, lane, is_blocked) = (*token, member.lane, member.is_blocked);
            states.push(ConnectionState { token, lane, unsent, unacknowledged, is_blocked });
        }
    }
}

/// Records in a bundle the bytes acknowledged and the segments retransmitted on its connections.
fn measure(bundle: &mut ConnectionBundle, entries: &BTreeMap<u64, BundleConnection>, now: Instant) {
    let (mut acknowledged, mut again, mut least_rtt) = (0, 0, Duration::MAX);
    for token in &bundle.members {
        if let Some(BundleConnection::Open(member, _)) = entries.get(token)
            && let Ok(known) = info(member.stream.as_fd())
        {
            acknowledged += known.acknowledged;
            again += u64::from(known.retransmitted);
            least_rtt = least_rtt.min(known.least_rtt);
        }
    }
    // The longer the round-trip time, the more data may be in flight. It counts up to one second.
    bundle.on_delivered(now, acknowledged, least_rtt.min(Duration::from_secs(1)));
    bundle.on_retransmitted(again);
}

/// Passes the complete datagrams of a connection to the daemon's event loop.
///
/// Successive datagrams of equal length form one batch.
fn pass(
    member: &mut OpenConnection,
    bundle: &mut ConnectionBundle,
    port: &Port,
    remote: SocketAddr,
    batch: &mut Vec<u8>,
) -> io::Result<()> {
    let mut stride = 0;
    batch.clear();
    let (frames, lane) = (&mut member.frames, member.lane);
    while let Some(datagram) = frames.take().map_err(|why| io::Error::other(why.to_string()))? {
        if lane == Lane::Short && lane_of(datagram.len()) == Lane::Short && bundle.has_arrived(datagram) {
            continue;
        }
        if datagram.len() != stride || batch.len() + stride > LONGEST_BATCH {
            flush(port, remote, stride, batch);
            stride = datagram.len();
        }
        batch.extend_from_slice(datagram);
    }
    flush(port, remote, stride, batch);
    Ok(())
}

/// Sends a batch to the daemon's event loop. If the [`Port`] is full, the datagrams are lost, as in UDP.
fn flush(port: &Port, remote: SocketAddr, stride: usize, batch: &mut Vec<u8>) {
    if !batch.is_empty() {
        port.send(remote, stride, batch);
        batch.clear();
    }
}
