//! Datagrams in TCP connections, for links on which UDP does not pass.
//!
//! Each link has a second link in the engine, `NAME/tcp`, which leads to the peers that answered by TCP. A further
//! link, `tcp`, stands for the connections that this node has accepted. Two threads do the work (`weft-carrier`). The
//! packet loop (the thread of `datapath`) exchanges datagrams with these threads by a [`Port`] for each such link,
//! decides when to connect ([`fallback`]), and never waits.

mod certificate;
pub mod fallback;

use super::control::{Task, TaskSender};
use super::machine::kill_switch::TUNNEL_MARK;
use super::threads::Threads;
use crate::config::{Config, TcpDoor};
use crate::entropy;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;
use weft_carrier::carrier::{BundleView, CarrierEvent, CarrierLoop, CarrierOrder, Handle};
use weft_carrier::door::{DoorLoop, DoorSettings};
use weft_carrier::port::Port;
use weft_session::PublicKey;
use weft_units::LinkId;

/// Number of the link that stands for accepted TCP connections.
const ACCEPTED: LinkId = LinkId(0x3fff_ffff);
/// Bit that marks the number of a link's second link, over TCP. The kernel's interface numbers lack this bit.
const OVER_TCP: u32 = 0x4000_0000;
/// MTU of the links over TCP, in bytes.
///
/// TCP connections have no MTU. That of Ethernet leaves the inner MTU unchanged.
pub const MTU: u16 = 1_500;

/// Returns the number of the link that stands for TCP connections over a link.
pub fn over_tcp(link: LinkId) -> LinkId {
    LinkId(link.0 | OVER_TCP)
}

/// The threads that carry datagrams in TCP connections, and the ports to these threads.
pub struct Carriers {
    threads: Threads,
    sender: TaskSender,
    key: [u8; 32],
    handle: Option<Handle>,
    ports: BTreeMap<LinkId, Port>,
    /// Links whose ports the packet loop does not watch yet.
    opened: Vec<LinkId>,
    /// Number of datagrams dropped because the threads were too slow to take them.
    pub lost: u64,
}

impl Carriers {
    /// Starts the threads that the configuration needs.
    ///
    /// # Errors
    /// Returns the reason why the TCP port cannot be served, as text for a reader.
    pub fn start(config: &Config, key: PublicKey, sender: TaskSender, threads: &Threads) -> Result<Carriers, String> {
        let (handle, ports, opened) = (None, BTreeMap::new(), Vec::new());
        let mut carriers = Carriers { threads: threads.clone(), sender, key: key.0, handle, ports, opened, lost: 0 };
        if let Some(door) = &config.tcp {
            carriers
                .serve(door, &config.node.state)
                .map_err(|why| format!("cannot serve TCP port {} of [tcp]: {why}", door.port))?;
        }
        Ok(carriers)
    }

    /// True if this node accepts TCP connections.
    pub fn accepts(&self) -> bool {
        self.ports.contains_key(&ACCEPTED)
    }

    /// Returns the number of the link that stands for accepted TCP connections.
    pub fn accepted_link() -> LinkId {
        ACCEPTED
    }

    /// Returns the port of a link whose datagrams travel in TCP connections. `None` for any other link.
    pub fn port(&self, link: LinkId) -> Option<&Port> {
        self.ports.get(&link)
    }

    /// Returns the links whose ports were opened since the last call.
    pub fn take_opened(&mut self) -> Vec<LinkId> {
        std::mem::take(&mut self.opened)
    }

    /// Returns the state of the TCP connections in use, for status output.
    pub fn shown(&self) -> Vec<BundleView> {
        self.handle.as_ref().map(Handle::shown).unwrap_or_default()
    }

    /// Gives an order to the thread that serves TCP connections. Starts it and opens the link's port if necessary.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started, or if too many orders wait for it.
    pub fn order(&mut self, link: LinkId, order: CarrierOrder) -> io::Result<()> {
        let handle = self.handle()?;
        self.open(&handle, link)?;
        if handle.order(order) { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    fn open(&mut self, handle: &Handle, link: LinkId) -> io::Result<()> {
        if self.ports.contains_key(&link) {
            return Ok(());
        }
        let (own, theirs) = Port::pair()?;
        if !handle.order(CarrierOrder::Serve(link.0, theirs)) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.ports.insert(link, own);
        self.opened.push(link);
        Ok(())
    }

    /// Returns the handle of the thread that serves TCP connections, and starts the thread if necessary.
    fn handle(&mut self) -> io::Result<Handle> {
        if let Some(handle) = &self.handle {
            return Ok(handle.clone());
        }
        let sender = self.sender.clone();
        let report = move |report: CarrierEvent| {
            // Sending fails only after the packet loop has ended.
            let _ = sender.send(Task::Carried(report));
        };
        let random = || {
            let mut id = [0; 16];
            id.copy_from_slice(&entropy::seed()?[..16]);
            Ok(id)
        };
        let (mut carrier, handle) = CarrierLoop::new(random, Box::new(report))?;
        self.threads.spawn("weft-carrier", move |pulse| {
            loop {
                pulse.resting(|| carrier.wait()).and_then(|()| carrier.work()).map_err(|why| why.to_string())?;
            }
        })?;
        self.handle = Some(handle.clone());
        Ok(handle)
    }

    fn serve(&mut self, door: &TcpDoor, state: &Path) -> Result<(), String> {
        let tls = certificate::load(door, state)?;
        let listener = listen(door.port).map_err(|why| match why.kind() {
            io::ErrorKind::AddrInUse => {
                "another program uses the port: stop it, or move it to another port and set that port as `web`"
                    .to_owned()
            }
            _ => why.to_string(),
        })?;
        let started = self.handle().and_then(|handle| {
            self.open(&handle, ACCEPTED)?;
            let settings = DoorSettings { key: self.key, tls, web: door.web, mark: TUNNEL_MARK, link: ACCEPTED.0 };
            let mut door = DoorLoop::new(listener, settings, handle)?;
            self.threads.spawn("weft-door", move |pulse| {
                loop {
                    pulse.resting(|| door.wait()).map_err(|why| why.to_string())?;
                    door.work();
                }
            })
        });
        started.map(drop).map_err(|why| why.to_string())
    }
}

/// Listens for both families, or for IPv4 alone if the kernel has no IPv6.
fn listen(port: u16) -> io::Result<TcpListener> {
    let any = |address: SocketAddr| TcpListener::bind(address);
    any((Ipv6Addr::UNSPECIFIED, port).into()).or_else(|why| match why.kind() {
        io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(why),
        _ => any((Ipv4Addr::UNSPECIFIED, port).into()),
    })
}
