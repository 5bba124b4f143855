//! The links: interfaces that may carry datagrams, and one socket for each.
//!
//! Netlink events report interfaces, addresses and routes. This module decides which interfaces are links, opens and
//! closes their sockets, and returns the changes for the engine and the log.

mod route_cache;
mod usable;

use route_cache::{LinkRoute, RouteCache};
pub use usable::Demand;
use usable::{Unusable, Usable, judge};

use super::machine::kill_switch::TUNNEL_MARK;
use super::machine::owner;
use crate::config::LinkChoice;
use crate::status::UnusedLink;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use weft_engine::{LinkEvent, Prefix};
use weft_io::netlink::{Address, Link, NetlinkEvent};
use weft_io::udp::{UdpConfig, UdpLink};
use weft_units::LinkId;

/// A link in use.
pub struct Active {
    /// Id of the link: the interface index.
    pub id: LinkId,
    /// Name of the interface.
    pub name: String,
    /// MTU of the interface, in bytes.
    pub mtu: u16,
    /// Usable addresses of the interface.
    pub addresses: Vec<IpAddr>,
    /// Addresses of peers to which no route leads by this link.
    pub unreachable: Vec<IpAddr>,
    /// Socket bound to the interface. It serves both address families if the kernel has both.
    pub socket: UdpLink,
}

/// A change of a link, for the engine and the log.
pub enum LinkChange {
    /// The link is in use from now on, or has changed.
    Up(LinkEvent),
    /// The link is no longer in use.
    Down {
        /// Event for the engine.
        event: LinkEvent,
        /// Name of the link.
        name: String,
        /// Reason for the log.
        cause: &'static str,
    },
    /// A link that is down is no longer wanted, so its paths are forgotten.
    Forgotten(LinkId),
    /// The link is usable, but its socket could not be opened, for the reason in this message.
    Failed(String),
}

/// The interfaces that the configuration asks for.
#[derive(Clone, Default)]
pub struct WantedLinks {
    /// `[links]`: patterns of interfaces.
    pub choice: LinkChoice,
    /// Names of interfaces that have a `[[link]]` table and may send.
    pub configured: Vec<String>,
}

/// Decision about a datagram that is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// Send it, with this source address if there is one.
    With(Option<IpAddr>),
    /// Do not send it: no route leads to its destination by the link.
    Never {
        /// True if it was not known before that no route leads there.
        is_new: bool,
    },
}

#[derive(Default)]
struct KnownLink {
    link: Option<Link>,
    addresses: Vec<Address>,
    /// Reason why the interface was not a link at the last check.
    unusable: Option<Unusable>,
}

/// Reason why a link has no socket.
#[derive(PartialEq)]
struct Failed {
    kind: io::ErrorKind,
    why: String,
}

/// All known interfaces, and the links in use.
pub struct LinkTable {
    wanted: WantedLinks,
    demand: Demand,
    port: u16,
    own: Vec<u32>,
    known: BTreeMap<u32, KnownLink>,
    active: Vec<Active>,
    /// Interface indices of links that were in use and whose paths the engine still stores.
    remembered: BTreeSet<u32>,
    /// Interface indices of links without a socket, each with the reason.
    failed: BTreeMap<u32, Failed>,
    route_cache: RouteCache,
}

impl LinkTable {
    /// Creates the table without interfaces.
    ///
    /// Sockets are bound to `port` (0: any). The interfaces `own` are never used.
    pub fn new(wanted: WantedLinks, port: u16, own: Vec<u32>) -> LinkTable {
        let (known, active, remembered) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        let (failed, demand, route_cache) = (BTreeMap::new(), Demand::default(), RouteCache::default());
        LinkTable { wanted, demand, port, own, known, active, remembered, failed, route_cache }
    }

    /// Excludes further interfaces of this node.
    ///
    /// A closed interface stays excluded: netlink reports its end later, and the kernel gives its index to no other
    /// interface.
    pub fn add_own(&mut self, own: Vec<u32>) {
        self.own.extend(own);
        self.own.sort_unstable();
        self.own.dedup();
    }

    /// Returns the links in use.
    pub fn active(&self) -> &[Active] {
        &self.active
    }

    /// Returns the IP networks that an interface is in, from its addresses.
    pub fn subnets(&self, id: LinkId) -> Vec<Prefix> {
        let addresses = self.known.get(&id.0).map_or(&[][..], |known| &known.addresses);
        addresses.iter().map(|a| Prefix { address: a.address, length: a.prefix_len }).collect()
    }

    /// Returns the IP networks of all interfaces except this node's devices and the interfaces with these names.
    pub fn foreign_networks(&self, names: &[&str]) -> Vec<Prefix> {
        let is_foreign = |(index, known): &(&u32, &KnownLink)| {
            let name = known.link.as_ref().map_or("", |link| &link.name);
            !self.own.contains(index) && !names.contains(&name)
        };
        self.known.iter().filter(is_foreign).flat_map(|(index, _)| self.subnets(LinkId(*index))).collect()
    }

    /// Returns the name of an interface, in use or not.
    pub fn name(&self, id: LinkId) -> &str {
        let known = self.known.get(&id.0).and_then(|known| known.link.as_ref());
        known.map_or("removed link", |link| &link.name)
    }

    /// Returns the link in use with this id. `None` if no link in use has it.
    pub fn get_mut(&mut self, id: LinkId) -> Option<&mut Active> {
        self.active.iter_mut().find(|active| active.id == id)
    }

    /// Replaces the configured choice of interfaces.
    pub fn choose(&mut self, wanted: WantedLinks) {
        self.wanted = wanted;
    }

    /// Checks all interfaces again, because routes or the configuration may have changed. Adds changes to `changes`.
    ///
    /// `demand` has the addresses at which the node begins handshakes from now on.
    pub fn look_again(&mut self, demand: Demand, changes: &mut Vec<LinkChange>) {
        self.demand = demand;
        self.route_cache.forget();
        let indices: Vec<u32> = self.known.keys().copied().collect();
        indices.into_iter().for_each(|index| self.refresh(index, changes));
    }

    /// Decides if a datagram to `to` leaves by `link`, and with which source address.
    ///
    /// `from` is the source address that the engine has chosen, if it has.
    pub fn leave(&mut self, link: LinkId, to: IpAddr, from: Option<IpAddr>) -> Leave {
        let is_loopback =
            self.known.get(&link.0).and_then(|known| known.link.as_ref()).is_some_and(|of| of.is_loopback);
        if is_loopback {
            return Leave::With(from);
        }
        let own = self.active.iter().find(|active| active.id == link).map_or(&[][..], |active| &active.addresses);
        match self.route_cache.find(link.0, to, from, own) {
            (LinkRoute::Plain, _) => Leave::With(from),
            (LinkRoute::From(source), _) => Leave::With(Some(source)),
            (LinkRoute::None, is_new) => Leave::Never { is_new },
        }
    }

    /// Returns true if another program has the node's UDP port on a link.
    pub fn is_port_taken(&self) -> bool {
        self.failed.values().any(|failed| failed.kind == io::ErrorKind::AddrInUse)
    }

    /// Returns the links that the configuration names and that are not in use, with the reason.
    pub fn unused(&self) -> Vec<UnusedLink> {
        let interfaces: Vec<&Link> = self.known.values().filter_map(|known| known.link.as_ref()).collect();
        let names: Vec<&str> = interfaces.iter().map(|link| link.name.as_str()).collect();
        let patterns = self.wanted.choice.unmatched(&names).filter(|only| only.value.contains('*'));
        let patterns = patterns.map(|only| UnusedLink {
            name: only.value.clone(),
            why: "no interface matches".to_owned(),
            is_expected: false,
        });
        let exact = self.wanted.choice.only.iter().map(|only| &only.value).filter(|name| !name.contains('*'));
        let named: BTreeSet<&String> = exact.chain(&self.wanted.configured).collect();
        let named = named.into_iter().filter_map(|name| {
            let why = self.why_not(name)?;
            Some(UnusedLink { name: name.clone(), why, is_expected: true })
        });
        named.chain(patterns).collect()
    }

    /// Returns the interfaces from which no route leads to any endpoint.
    pub fn without_route(&self) -> Vec<String> {
        let is_it = |known: &&KnownLink| known.unusable == Some(Unusable::NoRoute);
        self.known
            .values()
            .filter(is_it)
            .filter_map(|known| known.link.as_ref())
            .map(|link| link.name.clone())
            .collect()
    }

    /// Returns the links that have no socket, with the reason.
    pub fn without_socket(&self) -> impl Iterator<Item = UnusedLink> {
        self.failed.iter().map(|(index, Failed { why, .. })| UnusedLink {
            name: self.name(LinkId(*index)).to_owned(),
            why: why.clone(),
            is_expected: true,
        })
    }

    fn why_not(&self, name: &str) -> Option<String> {
        let is_it = |known: &&KnownLink| known.link.as_ref().is_some_and(|link| link.name == name);
        let Some(known) = self.known.values().find(is_it) else { return Some("no such interface".to_owned()) };
        match known.unusable? {
            // The configuration itself excludes the interface, so it is not reported.
            Unusable::NotChosen => None,
            Unusable::NoRoute => {
                let endpoints: Vec<String> = self.demand.endpoints.iter().map(ToString::to_string).collect();
                Some(format!(
                    "no route over the link leads to a peer's address ({}): add one, or leave it out of [links] use",
                    endpoints.join(", ")
                ))
            }
            why => Some(why.text().to_owned()),
        }
    }

    /// Processes netlink events, and adds the changes of links that result to `changes`.
    pub fn apply(&mut self, events: &[NetlinkEvent], changes: &mut Vec<LinkChange>) {
        let mut touched = Vec::new();
        self.route_cache.forget();
        for event in events {
            let index = match event {
                NetlinkEvent::Link(link) => {
                    self.known.entry(link.index).or_default().link = Some(link.clone());
                    link.index
                }
                NetlinkEvent::LinkRemoved { index } => {
                    self.known.remove(index);
                    *index
                }
                NetlinkEvent::Address(address) => {
                    let addresses = &mut self.known.entry(address.index).or_default().addresses;
                    addresses.retain(|a| (a.address, a.prefix_len) != (address.address, address.prefix_len));
                    addresses.push(*address);
                    address.index
                }
                NetlinkEvent::AddressRemoved { index, address, prefix_len } => {
                    if let Some(known) = self.known.get_mut(index) {
                        known.addresses.retain(|a| (a.address, a.prefix_len) != (*address, *prefix_len));
                    }
                    *index
                }
                NetlinkEvent::DefaultRoute { .. } | NetlinkEvent::Routes => continue,
            };
            if !touched.contains(&index) {
                touched.push(index);
            }
        }
        touched.into_iter().for_each(|index| self.refresh(index, changes));
    }

    fn refresh(&mut self, index: u32, changes: &mut Vec<LinkChange>) {
        let verdict = self.verdict(index);
        let unusable = verdict.as_ref().err().copied();
        if let Some(known) = self.known.get_mut(&index) {
            known.unusable = unusable;
        }
        let position = self.active.iter().position(|active| active.id == LinkId(index));
        match (verdict, position) {
            (Err(cause), Some(position)) => changes.push(self.down(position, cause.text())),
            (Err(_), None) => _ = self.failed.remove(&index),
            (Ok(usable), Some(position)) => self.update(position, usable, changes),
            (Ok(usable), None) => self.up(index, usable, changes),
        }
        if unusable.is_some_and(Unusable::is_final) && self.remembered.remove(&index) {
            changes.push(LinkChange::Forgotten(LinkId(index)));
        }
    }

    /// Returns the properties of the interface as a link, or the reason why it is none.
    fn verdict(&mut self, index: u32) -> Result<Usable, Unusable> {
        let known = self.known.get(&index).ok_or(Unusable::Removed)?;
        let route_cache = &mut self.route_cache;
        judge(
            known.link.as_ref(),
            &known.addresses,
            self.own.contains(&index),
            &self.wanted.choice,
            &self.demand,
            |endpoint, own| route_cache.find(index, endpoint, None, own).0 != LinkRoute::None,
        )
    }

    fn down(&mut self, position: usize, cause: &'static str) -> LinkChange {
        let active = self.active.remove(position);
        LinkChange::Down { event: LinkEvent::Down { link: active.id, cause }, name: active.name, cause }
    }

    fn up(&mut self, index: u32, usable: Usable, changes: &mut Vec<LinkChange>) {
        match bind(&usable.name, self.port) {
            Ok(socket) => {
                let Usable { name, mtu, addresses, unreachable } = usable;
                let active = Active { id: LinkId(index), name, mtu, addresses, unreachable, socket };
                self.remembered.insert(index);
                self.failed.remove(&index);
                changes.push(LinkChange::Up(active.event()));
                self.active.push(active);
            }
            Err(why) => {
                let failed = Failed { kind: why.kind(), why: self.explain(&usable.name, &why) };
                // The socket is tried again at each check, because the port may become free.
                if self.failed.get(&index) != Some(&failed) {
                    changes.push(LinkChange::Failed(failed.why.clone()));
                }
                self.failed.insert(index, failed);
            }
        }
    }

    fn update(&mut self, position: usize, usable: Usable, changes: &mut Vec<LinkChange>) {
        let active = &mut self.active[position];
        let gone = active.addresses.iter().any(|address| !usable.addresses.contains(address));
        let Usable { name, mtu, addresses, unreachable } = usable;
        if (&active.name, active.mtu, &active.addresses, &active.unreachable) == (&name, mtu, &addresses, &unreachable)
        {
            return;
        }
        (active.name, active.mtu, active.addresses, active.unreachable) = (name, mtu, addresses, unreachable);
        if gone {
            // Paths may use a local address that is gone, so they must go down first.
            let cause = "address changed";
            let event = LinkEvent::Down { link: active.id, cause };
            changes.push(LinkChange::Down { event, name: active.name.clone(), cause });
        }
        changes.push(LinkChange::Up(active.event()));
    }

    fn explain(&self, name: &str, why: &io::Error) -> String {
        match why.kind() {
            io::ErrorKind::AddrInUse => {
                let by = owner::of_udp_port(self.port).map(|by| format!(" by {by}")).unwrap_or_default();
                let port = self.port;
                format!(
                    "UDP port {port} is in use on interface {name}{by}: choose another `listen` in [node], or stop the \
                     program that uses the port"
                )
            }
            io::ErrorKind::PermissionDenied => {
                format!(
                    "not permitted to bind a socket to interface {name}: run weft as root, or with CAP_NET_ADMIN as in \
                     weft.service"
                )
            }
            _ => format!(
                "cannot open a UDP socket on interface {name}: {why}: check this interface with: ip addr show {name}"
            ),
        }
    }
}

impl Active {
    /// Returns the event that makes the engine use the link.
    pub fn event(&self) -> LinkEvent {
        LinkEvent::Up {
            link: self.id,
            name: self.name.clone(),
            mtu: self.mtu,
            ipv4: self.addresses.iter().any(IpAddr::is_ipv4),
            ipv6: self.addresses.iter().any(IpAddr::is_ipv6),
        }
    }
}

/// Opens a socket for both families, or for IPv4 alone if the kernel has no IPv6.
fn bind(device: &str, port: u16) -> io::Result<UdpLink> {
    let config = UdpConfig { device: Some(device.to_owned()), local: None, port, v6only: false };
    let socket = UdpLink::bind(&config).or_else(|why| match why.kind() {
        io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(why),
        _ => UdpLink::bind(&UdpConfig { local: Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), ..config }),
    })?;
    // A failure is ignored: only the kill switch needs the mark, and a node that may not set the mark cannot set the
    // kill switch either.
    let _ = socket.set_mark(TUNNEL_MARK);
    // ICMP errors only improve the diagnosis of a silent peer, so their absence is no failure.
    let _ = socket.keep_bounces();
    Ok(socket)
}
