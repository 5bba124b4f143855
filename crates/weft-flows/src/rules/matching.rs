//! Properties that a rule compares with a flow's first packet.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt;
use core::net::IpAddr;
use core::ops::RangeInclusive;
use weft_units::VpnId;
use weft_wire::ip::FlowKey;

/// Highest DSCP.
///
/// *Standard*: RFC 2474 §3, six bits.
pub const MAX_DSCP: u8 = 63;

/// A prefix of IPv4 or IPv6 addresses. Bits after its length are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowPrefix {
    /// An address in the prefix.
    pub address: IpAddr,
    /// Number of leading bits that are compared.
    pub length: u8,
}

impl FlowPrefix {
    /// Returns the first and the last address as numbers.
    ///
    /// A prefix length above the address's own length (32 or 128) counts as that length.
    pub fn range(&self) -> (u128, u128) {
        let (bits, width) = match self.address {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let free = width - u32::from(self.length).min(width);
        let hosts = if free == 0 { 0 } else { u128::MAX >> (128 - free) };
        (bits & !hosts, bits | hosts)
    }

    /// Returns true if the prefix contains `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (first, last) = self.range();
        address.is_ipv4() == self.address.is_ipv4() && (first..=last).contains(&number(address))
    }
}

impl fmt::Display for FlowPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// Returns the bits of an address as a number.
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Number of a user's or node's name among the names in the rules. Zero stands for every other name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NameId(pub u32);

/// Numbers of the names in the rules.
///
/// The caller looks a name up once for each user and each peer, not for each flow.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RuleNames {
    ids: BTreeMap<String, NameId>,
}

impl RuleNames {
    /// Returns the number of `name`, or zero if no rule contains it.
    pub fn id(&self, name: &str) -> NameId {
        self.ids.get(name).copied().unwrap_or_default()
    }

    /// Returns the name with this number, or `None` if no name in the rules has it.
    pub fn name(&self, id: NameId) -> Option<&str> {
        self.ids.iter().find(|(_, own)| **own == id).map(|(name, _)| name.as_str())
    }

    /// Gives each name in `matches` a number.
    pub fn learn(&mut self, matches: &RuleMatch) {
        for name in [&matches.user, &matches.near, &matches.far].into_iter().flatten() {
            if !self.ids.contains_key(name) {
                self.ids.insert(name.to_owned(), NameId(self.ids.len() as u32 + 1));
            }
        }
    }
}

/// Properties of a flow's first packet that rules compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstPacket {
    /// Addresses, protocol and ports.
    pub key: FlowKey,
    /// DSCP of the packet, 0 to 63.
    pub dscp: u8,
    /// VPN of the flow.
    pub vpn: VpnId,
    /// Number of the name of the user who sends the flow.
    pub user: NameId,
    /// Number of the name of the flow's ingress edge.
    pub near: NameId,
    /// Number of the name of the flow's egress edge.
    pub far: NameId,
}

/// A property that a rule can name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RuleKey {
    /// Prefix of the source address.
    From,
    /// Prefix of the destination address.
    To,
    /// Source ports.
    FromPorts,
    /// Destination ports.
    ToPorts,
    /// Protocol number (IANA).
    Protocol,
    /// DSCP of the flow's first packet.
    Dscp,
    /// VPN of the flow.
    Vpn,
    /// User that sends the flow.
    User,
    /// Ingress edge of the flow.
    Near,
    /// Egress edge of the flow.
    Far,
}

impl RuleKey {
    /// All properties.
    pub const ALL: [RuleKey; 10] = [
        RuleKey::From,
        RuleKey::To,
        RuleKey::FromPorts,
        RuleKey::ToPorts,
        RuleKey::Protocol,
        RuleKey::Dscp,
        RuleKey::Vpn,
        RuleKey::User,
        RuleKey::Near,
        RuleKey::Far,
    ];

    /// Returns the key's name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            RuleKey::From => "from",
            RuleKey::To => "to",
            RuleKey::FromPorts => "from-ports",
            RuleKey::ToPorts => "ports",
            RuleKey::Protocol => "protocol",
            RuleKey::Dscp => "dscp",
            RuleKey::Vpn => "vpn",
            RuleKey::User => "user",
            RuleKey::Near => "near",
            RuleKey::Far => "far",
        }
    }
}

impl fmt::Display for RuleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Properties that a flow's first packet must have. An absent one matches every packet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RuleMatch {
    /// Prefix of the source address.
    pub from: Option<FlowPrefix>,
    /// Prefix of the destination address.
    pub to: Option<FlowPrefix>,
    /// Source ports.
    pub from_ports: Option<RangeInclusive<u16>>,
    /// Destination ports.
    pub to_ports: Option<RangeInclusive<u16>>,
    /// Protocol number (IANA).
    pub protocol: Option<u8>,
    /// DSCP, 0 to 63.
    pub dscp: Option<u8>,
    /// VPN of the flow.
    pub vpn: Option<VpnId>,
    /// User: a host's address, a prefix, or the name in a certificate, as lists of users show it.
    pub user: Option<String>,
    /// Name in the certificate of the flow's ingress edge.
    pub near: Option<String>,
    /// Name in the certificate of the flow's egress edge.
    pub far: Option<String>,
}

impl RuleMatch {
    /// Returns true if the packet has every property that the rule names.
    pub fn matches(&self, packet: &FirstPacket, names: &RuleNames) -> bool {
        self.mismatches(packet, names).next().is_none()
    }

    /// Returns the properties in this condition that the packet does not have.
    pub fn mismatches<'a>(
        &'a self,
        packet: &'a FirstPacket,
        names: &'a RuleNames,
    ) -> impl Iterator<Item = RuleKey> + 'a {
        RuleKey::ALL.into_iter().filter(move |key| !self.accepts(*key, packet, names))
    }

    fn accepts(&self, key: RuleKey, packet: &FirstPacket, names: &RuleNames) -> bool {
        let FlowKey { src, dst, protocol, src_port, dst_port, .. } = packet.key;
        let named = |name: &Option<String>, id| name.as_ref().is_none_or(|name| names.id(name) == id);
        match key {
            RuleKey::From => self.from.is_none_or(|prefix| prefix.contains(src)),
            RuleKey::To => self.to.is_none_or(|prefix| prefix.contains(dst)),
            RuleKey::FromPorts => self.from_ports.as_ref().is_none_or(|ports| ports.contains(&src_port)),
            RuleKey::ToPorts => self.to_ports.as_ref().is_none_or(|ports| ports.contains(&dst_port)),
            RuleKey::Protocol => self.protocol.is_none_or(|number| number == protocol),
            RuleKey::Dscp => self.dscp.is_none_or(|dscp| dscp == packet.dscp & MAX_DSCP),
            RuleKey::Vpn => self.vpn.is_none_or(|vpn| vpn == packet.vpn),
            RuleKey::User => named(&self.user, packet.user),
            RuleKey::Near => named(&self.near, packet.near),
            RuleKey::Far => named(&self.far, packet.far),
        }
    }

    /// Returns the first and the last value that the rule accepts for `key`, for packets of IPv4 or of IPv6.
    ///
    /// It is `None` if the rule accepts no packet of that version.
    pub fn interval(&self, key: RuleKey, is_ipv6: bool, names: &RuleNames) -> Option<(u128, u128)> {
        let one = |value: Option<u32>, last: u32| match value {
            Some(value) => (value.into(), value.into()),
            None => (0, last.into()),
        };
        let prefix = |prefix: Option<FlowPrefix>| match prefix {
            Some(prefix) if prefix.address.is_ipv6() != is_ipv6 => None,
            Some(prefix) => Some(prefix.range()),
            None if is_ipv6 => Some((0, u128::MAX)),
            None => Some((0, u32::MAX.into())),
        };
        let ports = |ports: &Option<RangeInclusive<u16>>| match ports {
            Some(ports) => (u128::from(*ports.start()), u128::from(*ports.end())),
            None => (0, u16::MAX.into()),
        };
        let name = |name: &Option<String>| one(name.as_ref().map(|name| names.id(name).0), u32::MAX);
        Some(match key {
            RuleKey::From => prefix(self.from)?,
            RuleKey::To => prefix(self.to)?,
            RuleKey::FromPorts => ports(&self.from_ports),
            RuleKey::ToPorts => ports(&self.to_ports),
            RuleKey::Protocol => one(self.protocol.map(u32::from), u8::MAX.into()),
            RuleKey::Dscp => one(self.dscp.map(u32::from), MAX_DSCP.into()),
            RuleKey::Vpn => one(self.vpn.map(|vpn| vpn.0), u32::MAX),
            RuleKey::User => name(&self.user),
            RuleKey::Near => name(&self.near),
            RuleKey::Far => name(&self.far),
        })
    }
}
