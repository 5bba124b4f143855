//! Reports path states to FRR's `bfdd` (distributed BFD), so that its sessions to peers follow weft's paths.
//!
//! A thread connects to the socket at which `bfdd --dplaneaddr` listens. It passes the addresses that `bfdd` watches
//! to the packet loop (`datapath`), and changes of their states to `bfdd` at once. All queues are bounded. A `bfdd`
//! that reads too slowly or violates the protocol is disconnected. It then detects failures with its own BFD packets.

use crate::config::BfdAddress;
use crate::daemon::control::{Task, TaskSender};
use crate::daemon::log::Log;
use crate::daemon::threads::{Pulse, Threads};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;
use weft_io::wait::{Poller, Ready, Waker};
use weft_wire::bfd_dataplane::{
    DataplaneReply, DataplaneRequest, DataplaneSession, DataplaneState, MAX_MESSAGE, message_len,
};

/// Longest interval between probes of paths to a peer that `bfdd` watches.
///
/// *Derived*: a path is taken for silent 30 ms after its first unanswered probe, which is sent at most one interval
/// after the cut. Of 50 ms for the whole reaction, 15 ms remain for `bfdd`, `zebra` and `ospfd`. At this interval
/// each path carries 200 kbit/s in each direction.
pub const PROBE_PACE: Duration = Duration::from_millis(5);
/// Pause between two attempts to connect to `bfdd`.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of sessions of `bfdd`. If it adds more, it is disconnected.
const MOST_SESSIONS: usize = 1_024;
/// Maximum number of path states that wait for this thread. The packet loop passes further ones later.
const MOST_STATES: usize = 1_024;
/// Poller token of the connection to `bfdd`.
const CONNECTION: u64 = 0;
/// Poller token of the waker, with which the packet loop ends this thread's wait.
const WAKER: u64 = 1;

/// A peer's address for whose path state `bfdd` asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SensedAddress {
    /// The tunnel address of a peer.
    pub address: IpAddr,
    /// The kernel's index of the interface that the BFD session names; 0 if it names none.
    pub interface: u32,
}

/// The packet loop's handle of the thread that talks to `bfdd`. The thread ends when the handle is dropped.
pub struct BfdLink {
    states: SyncSender<(SensedAddress, bool)>,
    waker: Arc<Waker>,
}

impl BfdLink {
    /// Starts the thread.
    ///
    /// # Errors
    /// Returns the error of the kernel.
    pub fn start(address: &BfdAddress, sender: TaskSender, threads: &Threads) -> io::Result<BfdLink> {
        let (states, receiver) = sync_channel(MOST_STATES);
        let waker = Arc::new(Waker::new()?);
        let client = BfdClient {
            address: address.clone(),
            sender,
            states: receiver,
            waker: Arc::clone(&waker),
            sessions: BTreeMap::new(),
            known: BTreeMap::new(),
            log: threads.log(),
        };
        threads.spawn("weft-bfd", move |pulse| client.run(pulse))?;
        Ok(BfdLink { states, waker })
    }

    /// Passes a path state to the thread. Returns false if its queue is full. Then the caller must try again.
    pub fn tell(&self, sensed: SensedAddress, is_up: bool) -> bool {
        self.states.try_send((sensed, is_up)).is_ok() && self.waker.wake().is_ok()
    }
}

impl Drop for BfdLink {
    fn drop(&mut self) {
        // The woken thread finds the channel disconnected, and ends.
        let _ = self.waker.wake();
    }
}

struct BfdClient {
    address: BfdAddress,
    sender: TaskSender,
    states: Receiver<(SensedAddress, bool)>,
    waker: Arc<Waker>,
    /// Sessions of `bfdd` by their discriminators.
    sessions: BTreeMap<u32, DataplaneSession>,
    /// Path states that the packet loop has reported: true for up.
    known: BTreeMap<SensedAddress, bool>,
    log: Log,
}

/// The reason why a connection ends.
enum Ended {
    /// The node ends.
    Node,
    /// The connection to `bfdd` failed, or `bfdd` violated the protocol.
    Connection(io::Error),
}

impl From<io::Error> for Ended {
    fn from(why: io::Error) -> Ended {
        Ended::Connection(why)
    }
}

fn refused(why: impl std::fmt::Display) -> Ended {
    Ended::Connection(io::Error::new(io::ErrorKind::InvalidData, why.to_string()))
}

fn sensed(session: &DataplaneSession) -> SensedAddress {
    SensedAddress { address: session.destination, interface: session.interface }
}

impl BfdClient {
    fn run(mut self, pulse: &Pulse) -> Result<(), String> {
        let mut failed: Option<String> = None;
        loop {
            let why = match pulse.resting(|| self.connect()) {
                Ok(connection) => {
                    failed = None;
                    self.log.info("bfd: connected to bfdd: it uses weft's path states");
                    match self.serve(connection, pulse) {
                        Ended::Node => return Ok(()),
                        Ended::Connection(why) => why,
                    }
                }
                Err(why) => why,
            };
            if !self.sessions.is_empty() {
                self.sessions.clear();
                self.watch();
            }
            let why = why.to_string();
            if failed.as_ref() != Some(&why) {
                self.log.error(format_args!(
                    "bfd: no connection to bfdd of FRR: {why}; bfdd sends its own probes meanwhile; weft tries again every \
                     second"
                ));
                failed = Some(why);
            }
            if pulse.resting(|| self.rest()) {
                return Ok(());
            }
        }
    }

    /// Waits before the next attempt to connect. Returns true if the node ends.
    fn rest(&mut self) -> bool {
        let until = std::time::Instant::now() + AGAIN_AFTER;
        loop {
            match self.states.recv_timeout(until.saturating_duration_since(std::time::Instant::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
    }

    fn connect(&self) -> io::Result<File> {
        let describe = |at: &dyn std::fmt::Display, why: io::Error| io::Error::new(why.kind(), format!("{at}: {why}"));
        let descriptor = match &self.address {
            BfdAddress::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(|why| describe(&path.display(), why))?;
                stream.set_nonblocking(true)?;
                OwnedFd::from(stream)
            }
            BfdAddress::Loopback(address) => {
                let stream = TcpStream::connect(address).map_err(|why| describe(address, why))?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                OwnedFd::from(stream)
            }
        };
        Ok(File::from(descriptor))
    }

    /// Serves `bfdd` until the connection or the node ends.
    fn serve(&mut self, mut connection: File, pulse: &Pulse) -> Ended {
        match self.try_serve(&mut connection, pulse) {
            Ok(never) => match never {},
            Err(why) => why,
        }
    }

    fn try_serve(&mut self, connection: &mut File, pulse: &Pulse) -> Result<std::convert::Infallible, Ended> {
        let mut poller = Poller::new()?;
        poller.add(connection.as_raw_fd(), CONNECTION)?;
        poller.add(self.waker.as_raw_fd(), WAKER)?;
        let mut ready: Vec<Ready> = Vec::new();
        let mut input = Input { bytes: [0; 4 * MAX_MESSAGE], len: 0 };
        loop {
            pulse.resting(|| poller.wait(None, &mut ready))?;
            if ready.iter().any(|ready| ready.token == WAKER) {
                self.waker.clear()?;
                self.pass_states(connection)?;
            }
            if ready.iter().any(|ready| ready.token == CONNECTION) {
                self.take_requests(connection, &mut input)?;
            }
        }
    }

    /// Passes the new path states from the packet loop to `bfdd`.
    fn pass_states(&mut self, connection: &mut File) -> Result<(), Ended> {
        loop {
            match self.states.try_recv() {
                Ok((address, is_up)) => {
                    self.known.insert(address, is_up);
                    let of_address = self.sessions.values().filter(|session| sensed(session) == address);
                    for session in of_address {
                        tell(connection, session, is_up)?;
                    }
                }
                Err(std::sync::mpsc::TryRecvError::Empty) => return Ok(()),
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return Err(Ended::Node),
            }
        }
    }

    fn take_requests(&mut self, connection: &mut File, input: &mut Input) -> Result<(), Ended> {
        let mut have_changed = false;
        loop {
            let room = input.bytes.get_mut(input.len..).unwrap_or_default();
            match connection.read(room) {
                Ok(0) => {
                    return Err(Ended::Connection(io::Error::new(io::ErrorKind::BrokenPipe, "bfdd has disconnected")));
                }
                Ok(count) => input.len += count,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => break,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                Err(why) => return Err(why.into()),
            }
            while let Some(request) = input
                .next()
                .map_err(|why| refused(format_args!("bfdd sent a message that does not follow its protocol: {why}")))?
            {
                have_changed |= self.handle(connection, request)?;
            }
        }
        if have_changed {
            self.watch();
        }
        Ok(())
    }

    /// Handles a request. Returns true if it changed the sessions.
    fn handle(&mut self, connection: &mut File, request: DataplaneRequest) -> Result<bool, Ended> {
        match request {
            DataplaneRequest::Add(session) => {
                if self.sessions.len() >= MOST_SESSIONS && !self.sessions.contains_key(&session.id) {
                    let why = format!(
                        "bfdd has more than {MOST_SESSIONS} BFD sessions, and weft serves no more than that: remove \
                         some from the configuration of bfdd"
                    );
                    return Err(refused(why));
                }
                let before = self.sessions.insert(session.id, session);
                // If the path state of the address is known, this thread reports it at once. If not, the packet loop
                // reports it later.
                if let Some(is_up) = self.known.get(&sensed(&session)).copied() {
                    tell(connection, &session, is_up)?;
                }
                Ok(before.map(|before| sensed(&before)) != Some(sensed(&session)))
            }
            DataplaneRequest::Delete(session) => Ok(self.sessions.remove(&session.id).is_some()),
            DataplaneRequest::Echo { request, times } => {
                send(connection, &DataplaneReply::Echo { request, times }).map(|()| false)
            }
            DataplaneRequest::Counters { request, id } => {
                send(connection, &DataplaneReply::Counters { request, id }).map(|()| false)
            }
            DataplaneRequest::EchoReply => Ok(false),
        }
    }

    /// Sends the packet loop the addresses whose path states `bfdd` needs.
    fn watch(&mut self) {
        let wanted: BTreeSet<SensedAddress> = self.sessions.values().map(sensed).collect();
        self.known.retain(|address, _| wanted.contains(address));
        // Sending fails only after the packet loop has ended. Then there are no more states.
        let _ = self.sender.send(Task::Sense(wanted.into_iter().collect()));
    }
}

/// Reports a session's state to `bfdd`, unless an administrator has shut the session down.
fn tell(connection: &mut File, session: &DataplaneSession, is_up: bool) -> Result<(), Ended> {
    if session.is_shut_down {
        return Ok(());
    }
    let state = if is_up { DataplaneState::Up } else { DataplaneState::Down };
    let interval_us = u32::try_from(PROBE_PACE.as_micros()).unwrap_or(u32::MAX);
    send(connection, &DataplaneReply::State { id: session.id, state, interval_us })
}

fn send(connection: &mut File, reply: &DataplaneReply) -> Result<(), Ended> {
    let mut out = [0; MAX_MESSAGE];
    let len = reply.encode(&mut out).map_err(refused)?;
    // A full socket means that `bfdd` hangs. `bfdd` gets all states again when it is connected again.
    Ok(connection.write_all(out.get(..len).unwrap_or_default())?)
}

/// Bytes received from `bfdd` that are not yet parsed.
struct Input {
    bytes: [u8; 4 * MAX_MESSAGE],
    len: usize,
}

impl Input {
    /// Removes and returns the first message. Returns `None` if it has not arrived completely.
    fn next(&mut self) -> Result<Option<DataplaneRequest>, weft_wire::WireError> {
        let held = self.bytes.get(..self.len).unwrap_or_default();
        let Some(len) = message_len(held)? else { return Ok(None) };
        let Some(message) = held.get(..len) else { return Ok(None) };
        let request = DataplaneRequest::decode(message)?;
        self.bytes.copy_within(len..self.len, 0);
        self.len -= len;
        Ok(Some(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However the socket splits a stream, the decoder returns the same messages.
        #[test]
        fn a_stream_in_any_pieces_gives_its_messages(
            echoes in prop::collection::vec((any::<u16>(), any::<[u64; 2]>()), 1..40),
            pieces in prop::collection::vec(1usize..90, 1..60),
        ) {
            let mut stream = Vec::new();
            for (request, times) in &echoes {
                let mut out = [0; MAX_MESSAGE];
                let len = DataplaneReply::Echo { request: *request, times: *times }.encode(&mut out).unwrap();
                // The request differs from the reply only in its type.
                out[3] = 0;
                stream.extend(&out[..len]);
            }
            let (mut input, mut rest, mut met) = (Input { bytes: [0; 4 * MAX_MESSAGE], len: 0 }, &stream[..], Vec::new());
            for piece in pieces.iter().cycle() {
                let (now, later) = rest.split_at(rest.len().min(*piece));
                input.bytes[input.len..input.len + now.len()].copy_from_slice(now);
                input.len += now.len();
                while let Some(DataplaneRequest::Echo { request, times }) = input.next().unwrap() {
                    met.push((request, times));
                }
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(met, echoes);
        }
    }
}
