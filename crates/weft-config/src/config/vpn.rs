//! Parsing of `[[vpn]]`: a VPN, which is a private network with some of the peers as members.

use super::parse::{interface_name, peer_name, table};
use super::policy::MAX_WEIGHT;
use super::read::{At, Section, names};
use super::{Tun, prefix, vpn_loop};
use weft_core::queue::QueueKind;
use weft_core::service::{DEFAULT_GAMMA, Service};
use weft_engine::{Entry, Prefix};
use weft_units::Rate;
use weft_units::parse_rate;

/// Algorithm with which a VPN's loops control the rate of its traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoopLaw {
    /// No loop: the VPN's packets leave as fast as the paths take them.
    None,
    /// AIMD window of paper 003.
    AimdWindow,
    /// Rate control by accumulation (the loop's bytes in queues along the route), as in paper 004.
    Accumulation,
    /// The AIMD window of paper 003 (I2VFC), with the parameters of that paper.
    I2vfc,
    /// Explicit rate: the loop sends at the rate that this node grants it, and that follows the paths' capacity.
    ExplicitRate,
}

names!(LoopLaw {
    None = "none",
    AimdWindow = "aimd-window",
    Accumulation = "accumulation",
    ExplicitRate = "explicit-rate",
    I2vfc = "i2vfc",
});
names!(QueueKind {
    FqCodel = "fq-codel",
    DropTail = "fifo",
    Codel = "codel",
    Red = "red",
    Fred = "fred",
});

/// Exclusive upper bound of the setting `queue-packets`, in packets.
const MAX_QUEUE: i64 = 1_000_001;

/// A `[[vpn]]` table.
#[derive(Clone, Debug)]
pub struct Vpn {
    /// Id of the VPN, the same at all members.
    pub id: At<u32>,
    /// Name of the VPN, for readers of output.
    pub name: At<String>,
    /// Weight of the VPN in the sharing of capacity between VPNs.
    pub weight: u32,
    /// Promised service; absent: best effort.
    pub promise: Option<At<Service>>,
    /// Queue and loop of the VPN at this node toward each member.
    pub entry: Entry,
    /// Name of the VPN's device.
    pub device: At<String>,
    /// Addresses of the device.
    pub addresses: Vec<At<Prefix>>,
    /// Inner prefixes of the VPN behind this node.
    pub prefixes: Vec<At<Prefix>>,
    /// Peers that are members of the VPN.
    pub members: Vec<Member>,
    /// True if weft installs routes for the members' prefixes.
    pub routes: bool,
    /// Routing table for the members' prefixes, which only packets of this VPN's device use.
    ///
    /// Absent: the table of `[tun]` ([`Tun`]).
    pub table: Option<u32>,
}

/// Membership of a peer in a VPN.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    /// Name of the peer.
    pub peer: At<String>,
    /// Inner prefixes of the VPN behind the peer.
    pub prefixes: Vec<At<Prefix>>,
}

impl Vpn {
    /// Returns the promised service.
    pub fn service(&self) -> Service {
        self.promise.as_ref().map_or(Service::BestEffort, |at| at.value)
    }

    /// Returns true if the peer of this name is a member.
    pub fn has_member(&self, peer: &str) -> bool {
        self.members.iter().any(|member| member.peer.value == peer)
    }

    /// Returns true if one of `others` uses the device with another id, addresses or table.
    ///
    /// An open device cannot change these, so the node must restart.
    pub fn needs_restart(&self, others: &[Vpn]) -> bool {
        let like = |vpn: &Vpn| (vpn.table, vpn.addresses.iter().map(|at| at.value).collect::<Vec<_>>());
        others.iter().any(|vpn| {
            vpn.device.value == self.device.value && (vpn.id.value != self.id.value || like(vpn) != like(self))
        })
    }

    /// Returns the settings of the VPN's device. The VPN's table does not set the MTU, so it is that of `like`.
    ///
    /// If the VPN sets no routing table, that of `like` is used as well.
    pub fn tun(&self, like: &Tun) -> Tun {
        Tun {
            name: self.device.value.clone(),
            addresses: self.addresses.iter().map(|at| at.value).collect(),
            mtu: like.mtu,
            routes: self.routes,
            table: self.table.unwrap_or(like.table),
        }
    }
}

/// Parses a `[[vpn]]` table.
pub fn read(mut section: Section<'_, '_>) -> Option<Vpn> {
    let id = section.integer("id", 1..1 << 32);
    let name = section.parsed("name", "\"blue\"", peer_name);
    let weight = section.integer("weight", 1..MAX_WEIGHT + 1).map_or(1, |at| at.value as u32);
    let (promise, entry) = (promise(&mut section), entry(&mut section));
    let device = section.parsed("device", "\"blue0\"", interface_name);
    let addresses = section.list("address", "[\"10.1.0.1/24\"]", prefix::parse).unwrap_or_default();
    let prefixes = section.list("prefixes", "[\"10.1.0.0/24\"]", prefix::parse).unwrap_or_default();
    let members = section.lists("members", "{ hub = [\"10.1.1.0/24\"] }", prefix::parse);
    let routes = section.flag("routes").unwrap_or(true);
    let table = table(&mut section);
    for (key, help) in [
        ("id", "a number above 0, the same at all its members"),
        ("name", "a name for tables and logs"),
        ("members", "the peers that are members: members = { hub = [\"10.1.1.0/24\"] }"),
    ] {
        if !section.has(key) {
            section.missing(key, help);
        }
    }
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
    Some(Vpn {
        id: id?,
        name: name?,
        weight,
        promise,
        entry,
        device: device?,
        addresses,
        prefixes,
        members,
        routes,
        table,
    })
}

fn promise(section: &mut Section<'_, '_>) -> Option<At<Service>> {
    let assured = section.parsed("assured", "\"4 Mbit/s\"", |text| promised_rate("assured", text));
    let leased = section.parsed("leased", "\"50 Mbit/s\"", |text| promised_rate("leased", text));
    if let (Some(_), Some(leased)) = (&assured, &leased) {
        section.complain(leased.span.clone(), "a VPN is `assured` or `leased`, not both", "leave one of them out");
    }
    let assured = assured.map(|at| at.map(|rate| Service::Assured { rate, gamma: DEFAULT_GAMMA }));
    assured.or(leased.map(|at| at.map(|rate| Service::LeasedLine { rate })))
}

fn promised_rate(key: &str, text: &str) -> Result<Rate, String> {
    match parse_rate(text) {
        Ok(Rate::ZERO) => {
            Err(format!("the rate `{key}` of a VPN must be greater than zero: to promise no rate, remove `{key}`"))
        }
        Ok(rate) => Ok(rate),
        Err(why) => Err(why.to_string()),
    }
}

fn entry(section: &mut Section<'_, '_>) -> Entry {
    let queue = section.choice("queue");
    let packets = section.integer("queue-packets", 2..MAX_QUEUE).map(|at| at.value as usize);
    let bytes = section.integer("queue-bytes", 3_000..1 << 40).map(|at| at.value as u64);
    Entry { control: vpn_loop::read(section), ..ingress_entry(queue, LoopLaw::None, packets, bytes) }
}

/// Returns the queue and the loop of a VPN. Where an argument is `None`, the default applies.
pub fn ingress_entry(queue: Option<QueueKind>, law: LoopLaw, packets: Option<usize>, bytes: Option<u64>) -> Entry {
    let default = Entry::default();
    let queue = queue.unwrap_or(default.queue);
    let most_packets = match queue {
        QueueKind::FqCodel => default.limit_packets,
        QueueKind::Codel => 1_000,
        _ => 128,
    };
    let limit_packets = packets.unwrap_or(most_packets);
    let limit_bytes = bytes.unwrap_or(default.limit_bytes);
    Entry { queue, limit_packets, limit_bytes, control: vpn_loop::plain(law) }
}
