//! Clients that are not nodes: WireGuard's sockets and device, on a thread of their own.
//!
//! The kernel routes between the clients' device and the tunnel, so the packet loop (`datapath`) does not deal with
//! clients. The control socket's requests about clients go to this thread.

use crate::access::clients;
use crate::access::gate::{Gate, GateOutput, Remote};
use crate::config::access::{Access, ClientOffer};
use crate::config::{AddressPool, Config};
use crate::daemon::log::Log;
use crate::daemon::machine::device::TUNNEL_ALIAS;
use crate::daemon::machine::isolation::Isolation;
use crate::daemon::machine::owner;
use crate::daemon::services::openvpn;
use crate::daemon::shown::attendance::{Attendance, Present};
use crate::daemon::threads::{Pulse, Threads};
use crate::outcome::Failure;
use std::io::{self, IoSlice};
use std::iter;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};
use weft_control::{AccessClient, ClientProgram, Request, Response};
use weft_engine::Prefix;
use weft_io::tun::{TunConfig, TunDevice};
use weft_io::udp::{MAX_SEGMENTS, Outgoing, ReceiveSlot, UdpConfig, UdpLink};
use weft_io::wait::{Poller, Ready, Waker};

/// MTU of the clients' device, in bytes: a link's usual 1500 less the 80 bytes of WireGuard over IPv6.
const MTU: u16 = 1_420;
/// Length of the device's transmit queue, in packets.
///
/// A TUN device gives no back-pressure: packets that do not fit are dropped.
const QUEUE_PACKETS: u32 = 2_000;
/// Maximum number of batches of datagrams that one receive call returns.
const SLOTS: usize = 8;
/// Maximum number of packets that are read from the device before the thread reads datagrams again.
const PACKETS: usize = 128;
/// Interval at which WireGuard's timers of all clients are checked.
const TICK: Duration = Duration::from_millis(250);
/// Maximum number of client names in a log line. A line about more clients states their number.
const NAMED: usize = 20;
/// Maximum number of requests that wait for this thread. A further one is refused.
const MAX_REQUESTS: usize = 16;
/// Maximum length of a batch, in bytes. One IP packet can contain it.
const MAX_BATCH_BYTES: usize = 65_000;

/// Poller token of the UDP socket.
const SOCKET: u64 = 0;
/// Poller token of the clients' device.
const DEVICE: u64 = 1;
/// Poller token of the waker, with which other threads end this thread's wait.
const WAKER: u64 = 2;

/// A request and the channel for its response.
type PendingRequest = (Request, SyncSender<Response>);

/// Handle of the thread that serves clients. Dropping it disconnects the clients.
pub struct AccessHandle {
    requests: SyncSender<PendingRequest>,
    waker: Arc<Waker>,
    device: u32,
    openvpn: Option<openvpn::OpenvpnHandle>,
    /// Declared last, so that the isolation ends after the clients are disconnected.
    _isolation: Isolation,
}

impl AccessHandle {
    /// Opens port and device if `config` has an `[access]`, and admits the clients in the table.
    ///
    /// # Errors
    /// Returns the reason why that fails, as text for a reader.
    pub fn start(config: &Config, threads: &Threads) -> Result<Option<AccessHandle>, Failure> {
        let log = threads.log();
        let Some(access) = &config.access else { return Ok(None) };
        let state = config.node.state.clone();
        let identity = match clients::edge_key(&state) {
            Ok(identity) => identity,
            Err(why) => {
                log.error(format_args!("[access]: no client is accepted: {why}; restart the node after the repair"));
                return Ok(None);
            }
        };
        let mut gate = Gate::new(&identity);
        match read_within(&state, &access.pool.value) {
            Ok(clients) => gate.set(&clients),
            Err(why) => log.error(format_args!(
                "[access]: no WireGuard client is accepted: {why}; restart the node after the repair"
            )),
        }
        let socket = bind(access.listen.value)?;
        let device = open(access)?;
        let failed = |why: io::Error| {
            Failure::new(format!(
                "[access]: cannot start to serve WireGuard clients: {why}: check the limits of open files and memory"
            ))
        };
        let waker = Arc::new(Waker::new().map_err(failed)?);
        let poller = Poller::new().map_err(failed)?;
        for (descriptor, token) in
            [(socket.as_raw_fd(), SOCKET), (device.as_raw_fd(), DEVICE), (waker.as_raw_fd(), WAKER)]
        {
            poller.add(descriptor, token).map_err(failed)?;
        }
        let (requests, inbox) = sync_channel(MAX_REQUESTS);
        // The isolation must be in place before the first client connects.
        let isolation = Isolation::start(access).map_err(failed)?;
        let offer = ClientOffer::of(config, access);
        let openvpn = access.openvpn.as_ref();
        let openvpn = openvpn.map(|openvpn| openvpn::OpenvpnHandle::start(&state, openvpn, &offer, threads));
        let openvpn = openvpn.transpose()?.flatten();
        let keeper = AccessHandle {
            requests,
            waker: Arc::clone(&waker),
            device: device.index(),
            openvpn,
            _isolation: isolation,
        };
        let pool = access.pool.value;
        log.info(format_args!(
            "[access]: clients of {pool} connect to port {}; public key {}",
            access.listen.value,
            identity.public_key()
        ));
        let server =
            AccessServer { gate, socket, device, pool, state, inbox, waker, attendance: Attendance::default(), log };
        threads.spawn("weft-access", move |pulse| server.run(poller, pulse)).map_err(failed)?;
        Ok(Some(keeper))
    }

    /// Returns the kernel's index of the clients' device.
    pub fn device(&self) -> u32 {
        self.device
    }

    /// Passes a request to the thread. Returns a response at once if the thread cannot take it.
    pub fn ask(&self, request: Request, reply: &SyncSender<Response>) -> Option<Response> {
        match (&self.openvpn, &request) {
            (Some(openvpn), Request::OpenvpnClients) => return openvpn.ask(reply),
            (None, Request::OpenvpnClients) => {
                let why = "the running node has no [access.openvpn]: restart it".to_owned();
                return Some(Response::Refused { why });
            }
            (Some(openvpn), Request::AccessChanged) => openvpn.has_changed(),
            _ => {}
        }
        match self.requests.try_send((request, reply.clone())).is_ok() && self.waker.wake().is_ok() {
            true => None,
            false => Some(Response::Refused { why: "the node is busy: try again".to_owned() }),
        }
    }
}

impl Drop for AccessHandle {
    fn drop(&mut self) {
        // Dropping the sender makes the thread end.
        let (nobody, _) = sync_channel(0);
        self.requests = nobody;
        let _ = self.waker.wake();
    }
}

/// Settings that OpenVPN clients receive: true if they send all traffic to this edge, and their name servers.
type OpenvpnOffer = (bool, Vec<Ipv4Addr>);

/// Settings that a reload cannot change.
///
/// They are the port, pool and device of each kind of client, isolation, and the settings that OpenVPN clients get.
type FixedSettings<'a> = (Vec<(u16, AddressPool, &'a str)>, bool, Option<OpenvpnOffer>);

/// Returns the settings of clients that a running node cannot change. `None` without `[access]`.
///
/// The result omits the positions of the settings in the file, so that a moved line is no change.
pub fn settings(config: &Config) -> Option<FixedSettings<'_>> {
    let access = config.access.as_ref()?;
    let openvpn =
        access.openvpn.iter().map(|openvpn| (openvpn.listen.value, openvpn.pool.value, openvpn.device.as_str()));
    let programs = iter::once((access.listen.value, access.pool.value, access.device.as_str())).chain(openvpn);
    // Only OpenVPN's server sends these settings to clients. WireGuard clients have them in their configuration.
    let offer = access.openvpn.as_ref().map(|_| ClientOffer::of(config, access));
    let openvpn_offer = offer.map(|offer| (offer.takes_all(), offer.dns));
    Some((programs.collect(), access.isolate, openvpn_offer))
}

fn bind(port: u16) -> Result<UdpLink, Failure> {
    UdpLink::bind(&UdpConfig { port, ..UdpConfig::default() }).map_err(|why| {
        let owner = owner::of_udp_port(port);
        let owner = owner.map_or_else(String::new, |owner| format!(", because the program {owner} uses it"));
        Failure::new(format!("[access]: cannot open UDP port {port} of `listen`{owner}: {why}: choose another port"))
    })
}

fn open(access: &Access) -> Result<TunDevice, Failure> {
    let Prefix { length, .. } = access.pool.value.prefix();
    let addresses = vec![(IpAddr::V4(access.pool.value.edge()), length)];
    let device = TunDevice::open_plain(&TunConfig {
        name: Some(access.device.clone()),
        mtu: MTU,
        addresses,
        alias: TUNNEL_ALIAS.to_owned(),
    })
    .map_err(|why| {
        Failure::new(format!(
            "[access]: cannot open the TUN device {}: {why}: run as root, or set another `device`",
            access.device
        ))
    })?;
    device.set_txqueuelen(QUEUE_PACKETS).map_err(|why| Failure::new(format!("{}: {why}", device.name())))?;
    Ok(device)
}

/// State of the thread that serves clients.
struct AccessServer {
    gate: Gate,
    socket: UdpLink,
    device: TunDevice,
    pool: AddressPool,
    state: PathBuf,
    inbox: Receiver<PendingRequest>,
    waker: Arc<Waker>,
    attendance: Attendance,
    log: Log,
}

impl AccessServer {
    fn run(mut self, mut poller: Poller, pulse: &Pulse) -> Result<(), String> {
        let mut ready: Vec<Ready> = Vec::new();
        let mut slots: Vec<ReceiveSlot> = (0..SLOTS).map(|_| ReceiveSlot::new()).collect();
        let mut packet = vec![0; usize::from(u16::MAX)];
        let mut next_tick = Instant::now();
        loop {
            let wait = next_tick.saturating_duration_since(Instant::now());
            pulse.resting(|| poller.wait(Some(wait), &mut ready)).map_err(|why| why.to_string())?;
            for token in ready.iter().map(|ready| ready.token) {
                match token {
                    SOCKET => self.take_datagrams(&mut slots),
                    DEVICE => self.take_packets(&mut packet),
                    // Reading the table of clients may block on a slow disk. The watchdog must not take that for a
                    // hang.
                    _ if pulse.resting(|| self.answer()) => {}
                    _ => return Ok(()),
                }
            }
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + TICK;
                let mut batch = ClientBatch::new(&self.socket);
                self.gate.tick(&mut |output| batch.take(output, &self.device));
                drop(batch);
                self.log_attendance();
            }
        }
    }

    /// Logs which clients have connected, have another address, or are gone.
    fn log_attendance(&mut self) {
        let seen: Vec<_> = self.gate.seen().collect();
        let present = seen.iter().filter_map(|seen| {
            Some(Present { name: &seen.client.name, remote: seen.remote?, handshake: seen.handshake? })
        });
        for line in self.attendance.note(Instant::now(), present) {
            self.log.info(line);
        }
    }

    fn take_datagrams(&mut self, slots: &mut [ReceiveSlot]) {
        // The kernel may report an error of a datagram that was sent earlier. It is ignored.
        let filled = self.socket.receive(slots).unwrap_or(0);
        let mut batch = ClientBatch::new(&self.socket);
        for slot in slots.iter_mut().take(filled) {
            let Some(received) = slot.received() else { continue };
            let from = Remote { address: received.source, local: received.destination };
            for datagram in slot.datagrams() {
                self.gate.receive(from, datagram, &mut |output| batch.take(output, &self.device));
            }
        }
    }

    fn take_packets(&mut self, packet: &mut [u8]) {
        let mut batch = ClientBatch::new(&self.socket);
        for _ in 0..PACKETS {
            let Ok(Some(length)) = self.device.read(packet) else { return };
            let packet = packet.get(..length).unwrap_or_default();
            self.gate.send(packet, &mut |output| batch.take(output, &self.device));
        }
    }

    /// Answers the waiting requests. Returns false if the handle was dropped.
    fn answer(&mut self) -> bool {
        let _ = self.waker.clear();
        loop {
            match self.inbox.try_recv() {
                Ok((Request::AccessChanged, reply)) => {
                    let _ = reply.try_send(self.reload_clients());
                }
                Ok((_, reply)) => {
                    let _ = reply.try_send(self.clients());
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn reload_clients(&mut self) -> Response {
        match read_within(&self.state, &self.pool) {
            Ok(clients) => {
                self.gate.set(&clients);
                let names: Vec<&str> = clients.iter().map(|client| client.name.as_str()).take(NAMED).collect();
                let more = if clients.len() > NAMED { ", …" } else { "" };
                let (count, names) = (clients.len(), names.join(", "));
                self.log.info(format_args!("[access]: {count} clients are accepted from now on: {names}{more}"));
                Response::Done
            }
            Err(why) => Response::Refused { why },
        }
    }

    fn clients(&self) -> Response {
        let mut clients: Vec<AccessClient> = self
            .gate
            .seen()
            .map(|seen| AccessClient {
                name: seen.client.name,
                address: seen.client.address,
                with: ClientProgram::Wireguard,
                key: seen.client.public_key.to_string(),
                handshake_s_ago: seen.handshake.map(|ago| ago.as_secs()),
                remote: seen.remote,
                received_bytes: seen.received_bytes,
                sent_bytes: seen.sent_bytes,
            })
            .collect();
        clients.sort_by_key(|client| client.address);
        Response::Clients { clients, refused: self.gate.refused }
    }
}

/// Collects datagrams of one size for one client into a batch. Dropping it sends the rest.
struct ClientBatch<'a> {
    socket: &'a UdpLink,
    to: Option<Remote>,
    contents: Vec<u8>,
    segment: usize,
}

impl<'a> ClientBatch<'a> {
    fn new(socket: &'a UdpLink) -> ClientBatch<'a> {
        ClientBatch { socket, to: None, contents: Vec::new(), segment: 0 }
    }

    fn take(&mut self, output: GateOutput<'_>, device: &TunDevice) {
        match output {
            // A full device drops the packet, as every link does.
            GateOutput::Packet(packet) => drop(device.write(&[IoSlice::new(packet)])),
            GateOutput::Datagram(to, datagram) => self.add(to, datagram),
        }
    }

    fn add(&mut self, to: Remote, datagram: &[u8]) {
        let is_full = !self.contents.len().is_multiple_of(self.segment.max(1))
            || self.contents.len() >= self.segment * MAX_SEGMENTS
            || self.contents.len() + datagram.len() > MAX_BATCH_BYTES;
        if self.to != Some(to) || is_full || datagram.len() > self.segment {
            self.leave();
            (self.to, self.segment) = (Some(to), datagram.len());
        }
        self.contents.extend_from_slice(datagram);
    }

    fn leave(&mut self) {
        if let Some(to) = self.to.take() {
            let segment_size = u16::try_from(self.segment).ok();
            let (destination, source) = (to.address, to.local);
            // A datagram that cannot be sent is lost, as on any network.
            let _ = self.socket.send(&Outgoing { destination, source, tos: 0, contents: &self.contents, segment_size });
        }
        self.contents.clear();
    }
}

impl Drop for ClientBatch<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Returns the admitted WireGuard clients whose addresses are in the pool.
///
/// The list of clients may also have addresses of a pool that was configured earlier.
fn read_within(state: &Path, pool: &AddressPool) -> Result<Vec<clients::Client>, String> {
    let mut clients = clients::read(state)?;
    clients.retain(|client| pool.prefix().contains(client.address.into()));
    Ok(clients)
}
