//! The links in use: which interfaces may carry datagrams, followed by netlink, and one socket for each.

use super::owner;
use crate::config::LinkChoice;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use weft_engine::{LinkEvent, Prefix};
use weft_io::netlink::{Address, Event, Link, OperState, Scope};
use weft_io::udp::{UdpConfig, UdpLink};
use weft_units::LinkId;

/// An interface in use.
pub struct Active {
    /// Its id: the interface index.
    pub id: LinkId,
    /// Its name.
    pub name: String,
    /// Its MTU in bytes.
    pub mtu: u16,
    /// Its usable addresses.
    pub addresses: Vec<IpAddr>,
    /// Bound to it; serves both families where the kernel has both.
    pub socket: UdpLink,
}

/// What happened to a link, for the engine and the log.
pub enum Change {
    /// It is used from now on, or differs from before.
    Up(LinkEvent),
    /// It is used no more.
    Down {
        /// For the engine.
        event: LinkEvent,
        /// Its name.
        name: String,
        /// Why.
        cause: &'static str,
    },
    /// It could be used, but for this.
    Failed(String),
}

#[derive(Default)]
struct Known {
    link: Option<Link>,
    addresses: Vec<Address>,
}

/// All interfaces known, and those in use.
pub struct Links {
    choice: LinkChoice,
    port: u16,
    own: Vec<u32>,
    known: BTreeMap<u32, Known>,
    active: Vec<Active>,
}

/// What makes an interface usable: name, MTU, addresses.
struct Usable {
    name: String,
    mtu: u16,
    addresses: Vec<IpAddr>,
}

impl Links {
    /// No interface yet. Sockets are bound to `port` (0: any); the interfaces `own` are never used.
    pub fn new(choice: LinkChoice, port: u16, own: Vec<u32>) -> Links {
        Links { choice, port, own, known: BTreeMap::new(), active: Vec::new() }
    }

    /// These interfaces are never used either. One that was closed stays on the list: the news of its end comes later, and the kernel
    /// gives its index to no other.
    pub fn add_own(&mut self, own: Vec<u32>) {
        self.own.extend(own);
        self.own.sort_unstable();
        self.own.dedup();
    }

    /// The interfaces in use.
    pub fn active(&self) -> &[Active] {
        &self.active
    }

    /// The networks an interface is in, by its addresses.
    pub fn subnets(&self, id: LinkId) -> Vec<Prefix> {
        let addresses = self.known.get(&id.0).map_or(&[][..], |known| &known.addresses);
        addresses.iter().map(|a| Prefix { address: a.address, length: a.prefix_len }).collect()
    }

    /// The networks of all interfaces but this node's and those with these names.
    pub fn foreign_networks(&self, names: &[&str]) -> Vec<Prefix> {
        let is_foreign = |(index, known): &(&u32, &Known)| {
            let name = known.link.as_ref().map_or("", |link| &link.name);
            !self.own.contains(index) && !names.contains(&name)
        };
        self.known.iter().filter(is_foreign).flat_map(|(index, _)| self.subnets(LinkId(*index))).collect()
    }

    /// The name of an interface, in use or not.
    pub fn name(&self, id: LinkId) -> &str {
        let known = self.known.get(&id.0).and_then(|known| known.link.as_ref());
        known.map_or("removed link", |link| &link.name)
    }

    /// The interface in use with this id.
    pub fn get_mut(&mut self, id: LinkId) -> Option<&mut Active> {
        self.active.iter_mut().find(|active| active.id == id)
    }

    /// Other interfaces may be used from now on.
    pub fn choose(&mut self, choice: LinkChoice, changes: &mut Vec<Change>) {
        self.choice = choice;
        let indices: Vec<u32> = self.known.keys().copied().collect();
        indices.into_iter().for_each(|index| self.refresh(index, changes));
    }

    /// Takes in what netlink tells.
    pub fn apply(&mut self, events: &[Event], changes: &mut Vec<Change>) {
        let mut touched = Vec::new();
        for event in events {
            let index = match event {
                Event::Link(link) => {
                    self.known.entry(link.index).or_default().link = Some(link.clone());
                    link.index
                }
                Event::LinkRemoved { index } => {
                    self.known.remove(index);
                    *index
                }
                Event::Address(address) => {
                    let addresses = &mut self.known.entry(address.index).or_default().addresses;
                    addresses.retain(|a| (a.address, a.prefix_len) != (address.address, address.prefix_len));
                    addresses.push(*address);
                    address.index
                }
                Event::AddressRemoved { index, address, prefix_len } => {
                    if let Some(known) = self.known.get_mut(index) {
                        known.addresses.retain(|a| (a.address, a.prefix_len) != (*address, *prefix_len));
                    }
                    *index
                }
                Event::DefaultRoute { .. } => continue,
            };
            if !touched.contains(&index) {
                touched.push(index);
            }
        }
        touched.into_iter().for_each(|index| self.refresh(index, changes));
    }

    fn refresh(&mut self, index: u32, changes: &mut Vec<Change>) {
        let usable = self.usable(index);
        let position = self.active.iter().position(|active| active.id == LinkId(index));
        match (usable, position) {
            (Err(cause), Some(position)) => changes.push(self.down(position, cause)),
            (Err(_), None) => {}
            (Ok(usable), Some(position)) => self.update(position, usable, changes),
            (Ok(usable), None) => self.up(index, usable, changes),
        }
    }

    /// What the interface has, or why it cannot be used.
    fn usable(&self, index: u32) -> Result<Usable, &'static str> {
        let known = self.known.get(&index).ok_or("removed")?;
        let link = known.link.as_ref().ok_or("removed")?;
        let listed = self.choice.only.iter().any(|only| only.value == link.name);
        if self.own.contains(&index) || !self.choice.allows(&link.name) || (link.is_loopback && !listed) {
            return Err("not to be used");
        }
        if !link.is_up {
            return Err("set down");
        }
        // The operational state lags behind the carrier by up to a second.
        if !link.has_carrier {
            return Err("no carrier");
        }
        if link.state == OperState::Dormant {
            return Err("not authenticated");
        }
        let usable = |a: &&Address| !a.is_tentative && (a.scope == Scope::Global || link.is_loopback);
        let mut addresses: Vec<IpAddr> = known.addresses.iter().filter(usable).map(|a| a.address).collect();
        addresses.sort();
        match addresses.is_empty() {
            true => Err("no address"),
            false => Ok(Usable { name: link.name.clone(), mtu: link.mtu.min(u16::MAX.into()) as u16, addresses }),
        }
    }

    fn down(&mut self, position: usize, cause: &'static str) -> Change {
        let active = self.active.remove(position);
        Change::Down { event: LinkEvent::Down { link: active.id, cause }, name: active.name, cause }
    }

    fn up(&mut self, index: u32, usable: Usable, changes: &mut Vec<Change>) {
        match bind(&usable.name, self.port) {
            Ok(socket) => {
                let Usable { name, mtu, addresses } = usable;
                let active = Active { id: LinkId(index), name, mtu, addresses, socket };
                changes.push(Change::Up(active.event()));
                self.active.push(active);
            }
            Err(why) => changes.push(Change::Failed(self.explain(&usable.name, &why))),
        }
    }

    fn update(&mut self, position: usize, usable: Usable, changes: &mut Vec<Change>) {
        let active = &mut self.active[position];
        let gone = active.addresses.iter().any(|address| !usable.addresses.contains(address));
        let same = active.addresses == usable.addresses && active.mtu == usable.mtu && active.name == usable.name;
        if same {
            return;
        }
        (active.name, active.mtu, active.addresses) = (usable.name, usable.mtu, usable.addresses);
        if gone {
            // The paths' local addresses may be among those that are gone.
            let cause = "address changed";
            let event = LinkEvent::Down { link: active.id, cause };
            changes.push(Change::Down { event, name: active.name.clone(), cause });
        }
        changes.push(Change::Up(active.event()));
    }

    fn explain(&self, name: &str, why: &io::Error) -> String {
        match why.kind() {
            io::ErrorKind::AddrInUse => {
                let by = owner::of_udp_port(self.port).map(|by| format!(" by {by}")).unwrap_or_default();
                let port = self.port;
                format!("UDP port {port} is in use on {name}{by}; choose another `listen` in [node], or stop its owner")
            }
            io::ErrorKind::PermissionDenied => {
                format!(
                    "not allowed to bind a socket to {name}: run as root, or grant CAP_NET_ADMIN as the service does"
                )
            }
            _ => format!("no socket on {name}: {why}"),
        }
    }
}

impl Active {
    /// The event that makes the engine use it.
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

/// A socket for both families, or for IPv4 alone where the kernel has no IPv6.
fn bind(device: &str, port: u16) -> io::Result<UdpLink> {
    let config = UdpConfig { device: Some(device.to_owned()), local: None, port, v6only: false };
    let socket = UdpLink::bind(&config).or_else(|why| match why.kind() {
        io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(why),
        _ => UdpLink::bind(&UdpConfig { local: Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), ..config }),
    })?;
    // Without them a peer that does not answer only has fewer words.
    let _ = socket.keep_bounces();
    Ok(socket)
}
