//! `[[vpn]]`: a network of its own among some of the peers.

use super::parse::{interface_name, peer_name};
use super::policy::MAX_WEIGHT;
use super::read::{At, Section};
use super::{Tun, prefix};
use weft_engine::Prefix;

/// The kernel's routing tables that people may number: 253 to 255 are its own.
const MAX_TABLE: i64 = 1 << 32;

/// A VPN.
#[derive(Clone, Debug)]
pub struct Vpn {
    /// Its number, the same at all members.
    pub id: At<u32>,
    /// Name for people.
    pub name: At<String>,
    /// Its share beside other VPNs.
    pub weight: u32,
    /// Name of its device.
    pub device: At<String>,
    /// The device's addresses.
    pub addresses: Vec<At<Prefix>>,
    /// Inner addresses behind this node.
    pub prefixes: Vec<At<Prefix>>,
    /// The peers that have part in it.
    pub members: Vec<Member>,
    /// Whether routes for the members' prefixes are installed.
    pub routes: bool,
    /// The routing table they are in; absent: the main one.
    pub table: Option<u32>,
}

/// A peer's part in a VPN.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    /// The peer's name.
    pub peer: At<String>,
    /// Inner addresses behind it.
    pub prefixes: Vec<At<Prefix>>,
}

impl Vpn {
    /// Whether the peer of this name has part in it.
    pub fn has_member(&self, peer: &str) -> bool {
        self.members.iter().any(|member| member.peer.value == peer)
    }

    /// Whether one of `others` wants its open device with other addresses or another table.
    pub fn needs_restart(&self, others: &[Vpn]) -> bool {
        let like = |vpn: &Vpn| (vpn.table, vpn.addresses.iter().map(|at| at.value).collect::<Vec<_>>());
        others.iter().any(|vpn| {
            vpn.device.value == self.device.value && (vpn.id.value != self.id.value || like(vpn) != like(self))
        })
    }

    /// What its device shall be like.
    pub fn tun(&self, like: &Tun) -> Tun {
        Tun {
            name: self.device.value.clone(),
            addresses: self.addresses.iter().map(|at| at.value).collect(),
            mtu: like.mtu,
            routes: self.routes,
        }
    }
}

/// Reads a `[[vpn]]` table.
pub fn read(mut section: Section<'_, '_>) -> Option<Vpn> {
    let id = section.integer("id", 1..1 << 32);
    let name = section.parsed("name", "\"blue\"", peer_name);
    let weight = section.integer("weight", 1..MAX_WEIGHT + 1).map_or(1, |at| at.value as u32);
    let device = section.parsed("device", "\"blue0\"", interface_name);
    let addresses = section.list("address", "[\"10.1.0.1/24\"]", prefix::parse).unwrap_or_default();
    let prefixes = section.list("prefixes", "[\"10.1.0.0/24\"]", prefix::parse).unwrap_or_default();
    let members = section.lists("members", "{ hub = [\"10.1.1.0/24\"] }", prefix::parse);
    let routes = section.flag("routes").unwrap_or(true);
    let table = section.integer("table", 1..MAX_TABLE);
    for (key, help) in [
        ("id", "a number above 0, the same at all its members"),
        ("name", "a name for tables and logs"),
        ("members", "the peers that have part in it: members = { hub = [\"10.1.1.0/24\"] }"),
    ] {
        if !section.has(key) {
            section.missing(key, help);
        }
    }
    let table = table.filter(|at| {
        let is_free = !(253..256).contains(&at.value);
        if !is_free {
            section.complain(at.span.clone(), "tables 253 to 255 are the kernel's own", "for example table = 1007");
        }
        is_free
    });
    let (id, name) = (id.map(|at| At { value: at.value as u32, span: at.span }), name);
    let device = match (device, &id) {
        (Some(device), _) => Some(device),
        (None, Some(id)) if !section.has("device") => {
            Some(At { value: format!("weft{}", id.value), span: id.span.clone() })
        }
        _ => None,
    };
    section.finish();
    let members = members.into_iter().map(|(peer, prefixes)| Member { peer, prefixes }).collect();
    let table = table.map(|at| at.value as u32);
    Some(Vpn { id: id?, name: name?, weight, device: device?, addresses, prefixes, members, routes, table })
}
