//! The accept thread's loop: it accepts TCP connections, checks their first bytes, and passes strangers to a web
//! server.
//!
//! A connection whose greeting is valid goes to the carrier thread. Every other one is a web client's. The number of
//! strangers is limited, and none may stay silent for long. At the limit, the loop drops the oldest stranger of the
//! address with most connections.

use crate::carrier::{Accepted, CarrierOrder, Handle};
use crate::greeting::{self, GreetingVerdict};
use crate::stream::{ReadOutcome, TlsStream};
use crate::tls::TlsAcceptor;
use crate::web::{Visit, turn_away};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};
use weft_io::wait::{Poller, Ready};

/// Maximum number of connections that have not yet proved to be of a node or of a web client.
pub const MAX_UNKNOWN: usize = 128;
/// Maximum number of web clients.
pub const MAX_VISITS: usize = 256;
/// Maximum time from the acceptance of a connection until its greeting is complete.
const LONGEST_UNKNOWN: Duration = Duration::from_secs(10);
/// Maximum time in which neither a web client nor the web server sends anything.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Interval at which connections that were silent for too long are dropped.
const UPKEEP: Duration = Duration::from_millis(500);
/// Maximum number of connections accepted in one turn of the thread's loop.
const ACCEPTS_PER_TURN: usize = 32;
/// Pause after a failure to accept, such as too many open files.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

const LISTENER: u64 = 0;
/// Poller token of the first connection. Each connection has two tokens, the second for the web server's socket.
const FIRST: u64 = 16;

/// Settings of the listening port.
pub struct DoorSettings {
    /// Public key of this node.
    pub key: [u8; 32],
    /// Accepts TLS connections with this node's certificate.
    pub tls: TlsAcceptor,
    /// Address of the web server, which receives the strangers' bytes decrypted.
    pub web: Option<SocketAddr>,
    /// Firewall mark (`SO_MARK`) of the packets that this node sends to the web server.
    pub mark: u32,
    /// Number of the link to which the datagrams of accepted connections belong.
    pub link: u32,
}

enum Guest {
    Unknown { stream: Box<TlsStream>, first: Vec<u8>, from: SocketAddr, since: Instant },
    Visit { visit: Box<Visit>, heard: Instant },
}

/// State of the accept thread.
pub struct DoorLoop {
    settings: DoorSettings,
    listener: TcpListener,
    carrier: Handle,
    poller: Poller,
    guests: BTreeMap<u64, Guest>,
    next: u64,
    next_upkeep: Instant,
    ready: Vec<Ready>,
    buffer: Box<[u8]>,
}

impl DoorLoop {
    /// Returns the state of the accept thread for a bound listener.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn new(listener: TcpListener, settings: DoorSettings, carrier: Handle) -> io::Result<DoorLoop> {
        let poller = Poller::new()?;
        listener.set_nonblocking(true)?;
        poller.add(listener.as_raw_fd(), LISTENER)?;
        Ok(DoorLoop {
            settings,
            listener,
            carrier,
            poller,
            guests: BTreeMap::new(),
            next: FIRST,
            next_upkeep: Instant::now(),
            ready: Vec::new(),
            buffer: vec![0; 16_384].into(),
        })
    }

    /// Waits until there is work.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn wait(&mut self) -> io::Result<()> {
        let wait = (!self.guests.is_empty()).then(|| self.next_upkeep.saturating_duration_since(Instant::now()));
        self.poller.wait(wait, &mut self.ready)
    }

    /// Does the work that [`DoorLoop::wait`] found.
    pub fn work(&mut self) {
        let ready = std::mem::take(&mut self.ready);
        for source in &ready {
            match source.token {
                LISTENER => self.accept(),
                token => self.serve(token - (token - FIRST) % 2),
            }
        }
        self.ready = ready;
        let now = Instant::now();
        if now >= self.next_upkeep {
            self.next_upkeep = now + UPKEEP;
            self.guests.retain(|_, guest| match guest {
                Guest::Unknown { since, .. } => now - *since < LONGEST_UNKNOWN,
                Guest::Visit { heard, .. } => now - *heard < LONGEST_PAUSE,
            });
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_TURN {
            let (socket, from) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return std::thread::sleep(AFTER_FAILURE),
            };
            let from = SocketAddr::new(from.ip().to_canonical(), from.port());
            let is_ready = socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true)).is_ok();
            let Ok(tls) = self.settings.tls.answer() else { continue };
            self.make_room();
            let token = self.next;
            self.next += 2;
            if is_ready && self.poller.add(socket.as_raw_fd(), token).is_ok() {
                let (stream, first) = (Box::new(TlsStream::new(socket, tls)), Vec::new());
                self.guests.insert(token, Guest::Unknown { stream, first, from, since: Instant::now() });
            }
        }
    }

    /// Drops one connection that has not yet sent its greeting, if there are [`MAX_UNKNOWN`] of them.
    fn make_room(&mut self) {
        let unknown = self.guests.iter().filter_map(|(token, guest)| match guest {
            Guest::Unknown { from, .. } => Some((*token, from.ip())),
            Guest::Visit { .. } => None,
        });
        let unknown: Vec<(u64, IpAddr)> = unknown.collect();
        if unknown.len() >= MAX_UNKNOWN
            && let Some(token) = least_welcome(&unknown)
        {
            self.guests.remove(&token);
        }
    }

    fn serve(&mut self, token: u64) {
        match self.guests.get_mut(&token) {
            Some(Guest::Unknown { .. }) => self.judge(token),
            Some(Guest::Visit { visit, heard }) => {
                *heard = Instant::now();
                let is_on = visit.go_on().unwrap_or(false);
                if is_on {
                    let (fds, wants) = (visit.descriptors(), visit.wants_room());
                    for side in 0..2 {
                        let _ = self.poller.watch_writable(fds[side], token + side as u64, wants[side]);
                    }
                } else {
                    self.guests.remove(&token);
                }
            }
            None => {}
        }
    }

    /// Reads the first bytes of a connection until they show whether it is of a node or of a web client.
    fn judge(&mut self, token: u64) {
        loop {
            let Some(Guest::Unknown { stream, first, .. }) = self.guests.get_mut(&token) else { return };
            match stream.read(&mut self.buffer) {
                Ok(ReadOutcome::Bytes(len)) => first.extend_from_slice(&self.buffer[..len]),
                Ok(ReadOutcome::Nothing) => {
                    let wants_room = stream.tls().wants_write();
                    let _ = self.poller.watch_writable(stream.as_raw_fd(), token, wants_room);
                    return;
                }
                Ok(ReadOutcome::End) | Err(_) => return drop(self.guests.remove(&token)),
            }
            let Some(proof) = greeting::proof(stream.tls(), &self.settings.key) else { return };
            let verdict = greeting::judge(&proof, first);
            if verdict != GreetingVerdict::Unfinished {
                return self.let_in(token, verdict);
            }
        }
    }

    fn let_in(&mut self, token: u64, verdict: GreetingVerdict) {
        let Some(Guest::Unknown { stream, mut first, from, .. }) = self.guests.remove(&token) else { return };
        let GreetingVerdict::Valid(greeting) = verdict else { return self.visit(token, *stream, first) };
        let rest = first.split_off(greeting::LEN);
        if self.poller.remove(stream.as_raw_fd()).is_ok() {
            let accepted = Accepted { stream: *stream, greeting, rest, from };
            self.carrier.order(CarrierOrder::Adopt(self.settings.link, Box::new(accepted)));
        }
    }

    fn visit(&mut self, token: u64, stream: TlsStream, first: Vec<u8>) {
        let visits = self.guests.values().filter(|guest| matches!(guest, Guest::Visit { .. })).count();
        let Some(web) = self.settings.web.filter(|_| visits < MAX_VISITS) else { return turn_away(stream) };
        let Ok(visit) = Visit::begin(stream, first, web, self.settings.mark) else { return };
        let web = visit.descriptors()[1];
        let watched = self.poller.add(web, token + 1).and_then(|()| self.poller.watch_writable(web, token + 1, true));
        if watched.is_ok() {
            self.guests.insert(token, Guest::Visit { visit: Box::new(visit), heard: Instant::now() });
        }
    }
}

/// Returns the oldest connection in `unknown` among those of the address with the most connections in it.
fn least_welcome(unknown: &[(u64, IpAddr)]) -> Option<u64> {
    let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
    unknown.iter().for_each(|(_, from)| *counts.entry(*from).or_default() += 1);
    let most = counts.values().max()?;
    unknown.iter().filter(|(_, from)| counts.get(from) == Some(most)).map(|(token, _)| *token).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_from_one_address_costs_that_address() {
        let (many, one) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        assert_eq!(least_welcome(&[(16, one), (18, many), (20, many)]), Some(18));
        assert_eq!(least_welcome(&[(16, one), (18, many)]), Some(16));
        assert_eq!(least_welcome(&[]), None);
    }
}
