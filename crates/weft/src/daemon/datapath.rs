//! The packet loop: one thread owns the engine, the TUN devices and the sockets.
//!
//! A turn waits for a source, takes in packets, datagrams and tasks, runs the engine's timers, sends datagrams and
//! delivers packets. The loop must never block except in its wait, and never allocate or lock for a packet.

use super::clock::{Clock, Continuity};
use super::control::Task;
use super::links::Leave;
use super::node::DaemonNode;
use super::service::Watchdog;
use super::shown::bounces;
use super::threads::{Pulse, Threads};
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use weft_carrier::port::Batch;
use weft_core::pool::{BufId, LARGE_BYTES, Pool};
use weft_engine::{Departing, Forward, Received, Transmit};
use weft_io::netlink::{GenerationWatch, LinkWatch};
use weft_io::tun::MAX_READ_LEN;
use weft_io::udp::{Bounce, Outgoing, ReceiveSlot, SendError, SendOutcome};
use weft_io::wait::{Poller, Ready, Waker};
use weft_units::{Instant, LinkId, VpnId};

/// Maximum number of packets to read from a device in a turn, so that no source starves another.
const PACKETS_PER_TURN: usize = 64;
/// Maximum number of writes to the devices in a turn.
///
/// *Derived*: the maximum number of datagrams in the batches that one receive call returns.
///
/// Further packets are written in the next turn.
const WRITES_PER_TURN: usize = SLOTS * 64;
/// Maximum number of batches of datagrams that one receive call takes from a socket.
const SLOTS: usize = 16;
/// Size of the buffer in which datagrams are built, in bytes.
const TRANSMIT_BYTES: usize = 65_536;
/// Time of reception in a turn after which the packet loop sends ready datagrams before it receives more.
///
/// Otherwise answers would wait for the batches of all links, and one peer can make these batches costly.
const LONGEST_INTAKE: Duration = Duration::from_millis(5);
/// Maximum time for which one socket is read in a turn.
///
/// A batch holds datagrams of one peer. With many peers each batch may hold one datagram, so the packet loop repeats
/// the receive call for this time.
const INTAKE_OF_A_SOCKET: Duration = Duration::from_millis(1);
/// Maximum time for which one turn sends ready datagrams. The next turn sends the rest.
const LONGEST_OUTPUT: Duration = Duration::from_millis(4);
/// Maximum interval between two turns of the packet loop.
const IDLE: Duration = Duration::from_secs(10);
/// Maximum duration of one piece of work. After it the watchdog takes the packet loop for hung.
///
/// A turn takes milliseconds. A reload that opens devices may take seconds.
const LONGEST_WORK: Duration = Duration::from_secs(10);
/// Maximum time for sending the last datagrams when the node stops. The rest is not sent.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Poller token of the default VPN's device.
const TUN: u64 = 0;
/// Poller token of the waker, with which other threads end the packet loop's wait.
const WAKER: u64 = 1;
/// Poller token of the netlink socket.
const NETLINK: u64 = 2;
/// Poller token of the events that announce a restored or copied machine.
const GENERATION: u64 = 3;
/// Poller token of the first socket. The link id is added.
const FIRST_LINK: u64 = 16;
/// Poller token of the other devices, above every link. The VPN id is added.
const FIRST_DEVICE: u64 = 1 << 40;

/// State of the packet loop besides the node: poller, buffers and event sources.
pub struct Datapath {
    clock: Clock,
    poller: Poller,
    waker: Arc<Waker>,
    tasks: Receiver<Task>,
    watch: LinkWatch,
    /// Events that announce a restored or copied machine. `None` if the kernel has no such events.
    generation: Option<GenerationWatch>,
    watchdog: Watchdog,
    threads: Threads,
    pulse: Pulse,
    continuity: Continuity,
    slots: Vec<ReceiveSlot>,
    bounces: Vec<Bounce>,
    out: Box<[u8]>,
    watched: Vec<LinkId>,
    /// Interface indices of this node's devices. The netlink socket reports no events about routes over them.
    own_devices: Vec<u32>,
}

impl Datapath {
    /// Prepares to run `node`, and passes it the links of this machine.
    ///
    /// Returns the links that could not be used.
    ///
    /// # Errors
    /// Returns the error of the kernel.
    pub fn new(
        node: &mut DaemonNode,
        clock: Clock,
        waker: Arc<Waker>,
        tasks: Receiver<Task>,
    ) -> io::Result<(Self, Vec<String>)> {
        let poller = Poller::new()?;
        poller.add(node.devices.default().tun().as_raw_fd(), TUN)?;
        poller.add(waker.as_raw_fd(), WAKER)?;
        let watch = LinkWatch::open()?;
        poller.add(watch.as_raw_fd(), NETLINK)?;
        let generation = GenerationWatch::open().ok();
        if let Some(generation) = &generation {
            poller.add(generation.as_raw_fd(), GENERATION)?;
        }
        let mut datapath = Datapath {
            clock,
            poller,
            waker,
            tasks,
            watch,
            generation,
            watchdog: Watchdog::new(),
            threads: node.threads().clone(),
            pulse: node.threads().watch("weft", LONGEST_WORK),
            continuity: Continuity::start(),
            slots: (0..SLOTS).map(|_| ReceiveSlot::with_buffer(vec![0; LARGE_BYTES].into())).collect(),
            bounces: Vec::with_capacity(bounces::MOST),
            out: vec![0; TRANSMIT_BYTES].into(),
            watched: Vec::new(),
            own_devices: Vec::new(),
        };
        datapath.watch_devices(node)?;
        let failures = datapath.follow_links(node)?;
        Ok((datapath, failures))
    }

    /// Runs until the node stops.
    ///
    /// # Errors
    /// Returns an error if the TUN device or the poller fails, or if another thread died.
    pub fn run(&mut self, node: &mut DaemonNode) -> io::Result<()> {
        let mut ready = Vec::new();
        let mut is_behind = false;
        while !node.is_stopping() {
            let wait = if is_behind { Duration::ZERO } else { self.time_to_wait(node) };
            self.pulse.resting(|| self.poller.wait(Some(wait), &mut ready))?;
            let begin = self.clock.now();
            if let Some(why) = self.threads.fault().map(str::to_owned) {
                node.close(&why);
                self.close_sessions(node);
                return Err(io::Error::other(why));
            }
            if let Some(cause) = self.continuity.interruption() {
                node.renew_sessions(cause);
            }
            self.watch_generation(node, &ready);
            let mut began = begin;
            for source in &ready {
                self.receive_from(node, source)?;
                self.record_progress();
                if self.clock.now() - began >= LONGEST_INTAKE {
                    self.send_pending(node);
                    began = self.clock.now();
                }
            }
            is_behind = self.send_pending(node);
            self.watch_carriers(node)?;
            self.record_progress();
            node.turns.note(self.clock.now().since(begin));
        }
        self.close_sessions(node);
        Ok(())
    }

    /// Starts new sessions if the machine was restored or copied.
    ///
    /// A turn must call this before it sends anything.
    fn watch_generation(&mut self, node: &mut DaemonNode, ready: &[Ready]) {
        let is_notified = ready.iter().any(|source| source.token == GENERATION);
        if is_notified && self.generation.as_mut().is_some_and(GenerationWatch::is_new) {
            node.renew_sessions("the machine was restored or copied");
        }
    }

    /// Reports that a piece of work is done, so that the watchdog does not take a long turn for a hang.
    fn record_progress(&mut self) {
        self.pulse.beat();
        self.watchdog.pet(self.clock.now(), &self.threads);
    }

    fn time_to_wait(&self, node: &DaemonNode) -> Duration {
        let now = self.clock.now();
        let due = [node.engine.next_timeout(now), Some(node.next_upkeep()), self.watchdog.next()];
        due.into_iter().flatten().map(|due| due.since(now)).min().unwrap_or(IDLE).min(IDLE)
    }

    fn receive_from(&mut self, node: &mut DaemonNode, source: &Ready) -> io::Result<()> {
        match source.token {
            TUN => self.read_packets(node, VpnId::DEFAULT),
            WAKER => {
                self.waker.clear()?;
                while let Ok(task) = self.tasks.try_recv() {
                    let is_slice = matches!(task, Task::Learn(..));
                    node.on_task(task);
                    self.record_progress();
                    if is_slice {
                        // The next batch of learnt prefixes may arrive at once. It waits for the next turn, so that
                        // packets are processed first.
                        self.waker.wake()?;
                        break;
                    }
                }
                self.watch_devices(node)?;
                self.watch_sockets(node)
            }
            NETLINK => self.follow_links(node).map(drop),
            GENERATION => Ok(()),
            token if token >= FIRST_DEVICE => self.read_packets(node, VpnId((token - FIRST_DEVICE) as u32)),
            token => self.receive(node, LinkId((token - FIRST_LINK) as u32)),
        }
    }

    fn read_packets(&mut self, node: &mut DaemonNode, vpn: VpnId) -> io::Result<()> {
        let now = self.clock.now();
        let Some(device) = node.devices.get(vpn) else { return Ok(()) };
        for _ in 0..PACKETS_PER_TURN {
            let pool = node.engine.pool();
            let Some(buf) = pool.alloc_large() else {
                // The pool has no buffer, so the packet is read and dropped. If it stayed in the device, the device
                // would wake the loop again at once.
                match device.tun().read(&mut self.out[..MAX_READ_LEN.min(TRANSMIT_BYTES)])? {
                    Some(_) => node.drops.no_buffer += 1,
                    None => return Ok(()),
                }
                continue;
            };
            let memory = pool.bytes_mut(buf);
            let len = memory.len().min(MAX_READ_LEN);
            match device.tun().read(&mut memory[..len]) {
                Ok(Some(len)) => node.engine.handle_packet(now, vpn, buf, len),
                Ok(None) => {
                    pool.release(buf);
                    return Ok(());
                }
                Err(why) => {
                    pool.release(buf);
                    return Err(why);
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self, node: &mut DaemonNode, link: LinkId) -> io::Result<()> {
        let now = self.clock.now();
        if node.carriers.port(link).is_some() {
            self.receive_carried(node, link);
            return Ok(());
        }
        let Some(active) = node.links.get_mut(link) else { return Ok(()) };
        bounces::take(&active.socket, &mut self.bounces);
        for bounce in self.bounces.drain(..) {
            node.engine.handle_unreachable(
                now,
                (link, bounce.destination),
                bounces::unreachable(bounce.error),
                bounce.reporter,
            );
        }
        let began = self.clock.now();
        while self.receive_batches(node, link) == SLOTS && self.clock.now() - began < INTAKE_OF_A_SOCKET {}
        Ok(())
    }

    /// Receives datagrams that arrived over TCP connections.
    fn receive_carried(&mut self, node: &mut DaemonNode, link: LinkId) {
        for _ in 0..PACKETS_PER_TURN {
            let now = self.clock.now();
            let pool = node.engine.pool();
            let Some(buf) = pool.alloc_large() else {
                // The pool has no buffer, so the batch is read and dropped. If it stayed, the port would wake the loop
                // again at once.
                match node.carriers.port(link).and_then(|port| port.receive(&mut self.out)) {
                    Some(batch) => node.drops.no_buffer += datagrams(batch.len, batch.stride),
                    None => return,
                }
                continue;
            };
            let Some(batch) = node.carriers.port(link).and_then(|port| port.receive(pool.bytes_mut(buf))) else {
                return pool.release(buf);
            };
            let Batch { remote: source, stride, len } = batch;
            let received = Received { at: now, link, source, destination: None, tos: 0, buf, len, stride };
            node.engine.handle_datagrams(now, received);
            node.refresh_entropy();
        }
    }

    /// Receives batches of datagrams from a socket with one call, and returns the number of batches.
    fn receive_batches(&mut self, node: &mut DaemonNode, link: LinkId) -> usize {
        let Some(active) = node.links.get_mut(link) else { return 0 };
        let Ok(filled) = active.socket.receive(&mut self.slots) else { return 0 };
        let now = self.clock.now();
        for slot in self.slots.iter_mut().take(filled) {
            let Some(info) = slot.received().copied() else { continue };
            let Some(buf) = take_slot(node.engine.pool(), slot, info.len) else {
                node.drops.no_buffer += datagrams(info.len, info.segment_size);
                continue;
            };
            let received = Received {
                at: info.received_unix_ns.map_or(now, |at| self.clock.at(at)),
                link,
                source: info.source,
                destination: info.destination,
                tos: info.tos,
                buf,
                len: info.len,
                stride: info.segment_size,
            };
            node.engine.handle_datagrams(now, received);
            node.refresh_entropy();
        }
        filled
    }

    /// Processes all outputs of the engine. Returns true if more datagrams may be ready to send at once.
    fn send_pending(&mut self, node: &mut DaemonNode) -> bool {
        let now = self.clock.now();
        if node.engine.next_timeout(now).is_some_and(|due| due <= now) {
            node.engine.handle_timeout(now);
            node.refresh_entropy();
            self.record_progress();
        }
        let mut is_behind = self.transmit(node);
        self.record_progress();
        let devices = &node.devices;
        is_behind |= node.engine.deliver_some(now, WRITES_PER_TURN, |vpn, pieces| {
            if let Some(device) = devices.get(vpn) {
                // A packet that the device does not accept is lost, as on any interface.
                device.write(pieces);
            }
        });
        self.record_progress();
        while let Some(event) = node.engine.poll_event() {
            node.on_event(event);
            self.record_progress();
        }
        is_behind |= node.continue_listings(now);
        is_behind |= node.export_flows();
        node.upkeep(now);
        is_behind
    }

    fn transmit(&mut self, node: &mut DaemonNode) -> bool {
        let began = self.clock.now();
        loop {
            // The engine records this time as the departure, so it is read for each batch.
            let now = self.clock.now();
            if now - began >= LONGEST_OUTPUT {
                return true;
            }
            match node.engine.poll_departing(now, &mut self.out) {
                Some(Departing::Own(transmit)) => send(node, now, &transmit, &self.out),
                Some(Departing::Relayed(forward)) => forward_datagram(node, now, &forward),
                None => return false,
            }
        }
    }

    fn follow_links(&mut self, node: &mut DaemonNode) -> io::Result<Vec<String>> {
        let mut events = Vec::new();
        // After an error the next call makes a new dump of all links.
        if self.watch.poll(&mut events).is_err() {
            events.clear();
            self.watch.poll(&mut events)?;
        }
        let failures = node.on_netlink(&events);
        self.watch_sockets(node)?;
        Ok(failures)
    }

    /// Adds new devices to the poller. Closing a device removes it from the poller.
    fn watch_devices(&mut self, node: &mut DaemonNode) -> io::Result<()> {
        for vpn in node.devices.take_opened() {
            if let Some(device) = node.devices.get(vpn) {
                self.poller.add(device.tun().as_raw_fd(), FIRST_DEVICE + u64::from(vpn.0))?;
            }
        }
        self.ignore_routes(node);
        Ok(())
    }

    /// Makes the netlink socket drop events about routes over the node's own devices.
    ///
    /// A routing daemon may cause very many of these events.
    fn ignore_routes(&mut self, node: &DaemonNode) {
        let devices = node.devices.indices();
        if devices != self.own_devices {
            // If the filter cannot be set, the events only take time.
            let _ = self.watch.ignore_routes_by(&devices);
            self.own_devices = devices;
        }
    }

    /// Adds new sockets to the poller. Closing a socket removes it from the poller.
    fn watch_sockets(&mut self, node: &mut DaemonNode) -> io::Result<()> {
        self.watch_carriers(node)?;
        let active = node.links.active();
        for link in active.iter().filter(|link| !self.watched.contains(&link.id)) {
            self.poller.add(link.socket.as_raw_fd(), FIRST_LINK + u64::from(link.id.0))?;
        }
        self.watched.clear();
        self.watched.extend(active.iter().map(|link| link.id));
        Ok(())
    }

    /// Adds the ports of links over TCP to the poller.
    fn watch_carriers(&mut self, node: &mut DaemonNode) -> io::Result<()> {
        for link in node.carriers.take_opened() {
            if let Some(port) = node.carriers.port(link) {
                self.poller.add(port.as_raw_fd(), FIRST_LINK + u64::from(link.0))?;
            }
        }
        Ok(())
    }

    fn close_sessions(&mut self, node: &mut DaemonNode) {
        let until = self.clock.now() + LAST_WORDS;
        loop {
            let now = self.clock.now();
            node.engine.handle_timeout(now);
            if !self.transmit(node) || now >= until {
                return;
            }
        }
    }
}

/// Moves received data into a buffer of the pool. `None` if no buffer is free.
///
/// A batch is moved with its memory. A small datagram is copied, so that large buffers stay few.
fn take_slot(pool: &mut Pool, slot: &mut ReceiveSlot, len: usize) -> Option<BufId> {
    let buf = pool.alloc(len)?;
    if buf.is_large() {
        let memory = pool.take(buf);
        pool.put(buf, slot.swap_buffer(memory));
    } else {
        let mut rest = pool.bytes_mut(buf);
        for datagram in slot.datagrams() {
            let (to, after) = rest.split_at_mut(datagram.len());
            to.copy_from_slice(datagram);
            rest = after;
        }
    }
    Some(buf)
}

/// Sends a relayed datagram from the buffer in which it arrived.
fn forward_datagram(node: &mut DaemonNode, now: Instant, forward: &Forward) {
    let memory = node.engine.pool().take(forward.buf);
    send(node, now, &forward.transmit, memory.get(forward.start..).unwrap_or_default());
    let pool = node.engine.pool();
    pool.put(forward.buf, memory);
    pool.release(forward.buf);
}

fn send(node: &mut DaemonNode, now: Instant, transmit: &Transmit, out: &[u8]) {
    if let Some(port) = node.carriers.port(transmit.link) {
        let stride = transmit.segment_size.map_or(transmit.len, usize::from);
        if !port.send(transmit.destination, stride, out.get(..transmit.len).unwrap_or_default()) {
            node.carriers.lost += datagrams(transmit.len, stride);
        }
        return;
    }
    let Leave::With(source) = node.leave(transmit) else { return };
    let Some(active) = node.links.get_mut(transmit.link) else { return };
    let Some(contents) = out.get(..transmit.len) else { return };
    let outgoing = Outgoing {
        destination: transmit.destination,
        source,
        tos: transmit.tos,
        contents,
        segment_size: transmit.segment_size,
    };
    match active.socket.send(&outgoing) {
        Ok(SendOutcome::Sent) => {}
        // The rest of the batch is lost, as in a full queue of a router. Pacing and recovery treat both losses alike.
        Ok(SendOutcome::WouldBlock { sent_bytes }) => {
            let stride = transmit.segment_size.map_or(transmit.len, usize::from);
            node.drops.socket_full += datagrams(transmit.len.saturating_sub(sent_bytes), stride);
        }
        Err(SendError::TooBig) => node.engine.handle_send_error(now, transmit, true),
        Err(SendError::Unreachable(why)) => {
            let pair = (transmit.link, transmit.destination);
            node.engine.handle_unreachable(now, pair, bounces::unsent(&why), None);
        }
        Err(SendError::Failed(_)) => {}
    }
}

/// Returns the number of datagrams in a batch of `len` bytes.
///
/// Each has `stride` bytes, except for a shorter last one.
fn datagrams(len: usize, stride: usize) -> u64 {
    len.div_ceil(stride.max(1).min(len.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::datagrams;

    #[test]
    fn datagrams_of_a_batch() {
        assert_eq!([datagrams(3000, 1400), datagrams(1400, 1400), datagrams(0, 1400)], [3, 1, 0]);
        assert_eq!(datagrams(10, 1400), 1);
    }
}
