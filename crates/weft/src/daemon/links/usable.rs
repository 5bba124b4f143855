//! Which interfaces are links: a decision from what netlink tells of them and where the kernel's routes lead.

use crate::config::LinkChoice;
use crate::daemon::device::TUNNEL_ALIAS;
use std::collections::BTreeSet;
use std::net::IpAddr;
use weft_io::netlink::{Address, Link, OperState, Scope};

/// Why an interface is no link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// There is no such interface.
    Removed,
    /// `[links]` excludes it, or it is a device of this node.
    NotChosen,
    /// It is the tunnel of another weft.
    Tunnel,
    /// It is set down.
    SetDown,
    /// It has no carrier.
    NoCarrier,
    /// It waits for an authentication.
    NotAuthenticated,
    /// It has no address beyond its link.
    NoAddress,
    /// No route leads by it to any endpoint.
    NoRoute,
}

impl Unusable {
    /// The reason in the log's words.
    pub fn text(self) -> &'static str {
        match self {
            Unusable::Removed => "removed",
            Unusable::NotChosen => "not to be used",
            Unusable::Tunnel => "tunnel of another weft",
            Unusable::SetDown => "set down",
            Unusable::NoCarrier => "no carrier",
            Unusable::NotAuthenticated => "not authenticated",
            Unusable::NoAddress => "no address",
            Unusable::NoRoute => "no route to an endpoint",
        }
    }

    /// Whether nobody asks for the link any more, so that its paths are forgotten. Else it should work, and its paths are down.
    pub fn is_final(self) -> bool {
        matches!(self, Unusable::Removed | Unusable::NotChosen | Unusable::Tunnel | Unusable::NoRoute)
    }
}

/// Whom the node calls, and whether it is called.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Demand {
    /// The addresses it calls peers at.
    pub endpoints: BTreeSet<IpAddr>,
    /// Peers whose addresses it does not know may call it.
    pub is_called: bool,
}

impl Demand {
    /// Whether a link must lead to one of the endpoints. A node that waits for calls takes them on every link.
    fn needs_route(&self) -> bool {
        !self.endpoints.is_empty() && !self.is_called
    }
}

/// What a link has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Usable {
    /// Name of the interface.
    pub name: String,
    /// MTU in bytes.
    pub mtu: u16,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Endpoints to which no route leads by it.
    pub unreachable: Vec<IpAddr>,
}

/// Decides whether an interface is a link. `leads_to` says whether the kernel has a route by it to an address, from one of these addresses
/// if need be. It is asked last, and not of an interface that can be no link.
///
/// # Errors
/// Why it is none.
pub fn judge(
    link: Option<&Link>,
    addresses: &[Address],
    is_own: bool,
    choice: &LinkChoice,
    demand: &Demand,
    mut leads_to: impl FnMut(IpAddr, &[IpAddr]) -> bool,
) -> Result<Usable, Unusable> {
    let link = link.ok_or(Unusable::Removed)?;
    if let Some(why) = exclusion(link, is_own, choice) {
        return Err(why);
    }
    let usable = |a: &&Address| !a.is_tentative && (a.scope == Scope::Global || link.is_loopback);
    let mut addresses: Vec<IpAddr> = addresses.iter().filter(usable).map(|a| a.address).collect();
    addresses.sort();
    if addresses.is_empty() {
        return Err(Unusable::NoAddress);
    }
    // Loopback leads to every address of this machine, and what it does not deliver goes nowhere.
    let is_far = |endpoint: &IpAddr| {
        let has_family = addresses.iter().any(|address| address.is_ipv4() == endpoint.is_ipv4());
        !has_family || !(link.is_loopback || leads_to(*endpoint, &addresses))
    };
    let unreachable: Vec<IpAddr> = demand.endpoints.iter().copied().filter(is_far).collect();
    if demand.needs_route() && unreachable.len() == demand.endpoints.len() {
        return Err(Unusable::NoRoute);
    }
    Ok(Usable { name: link.name.clone(), mtu: link.mtu.min(u16::MAX.into()) as u16, addresses, unreachable })
}

/// What speaks against an interface whatever addresses and routes it has.
fn exclusion(link: &Link, is_own: bool, choice: &LinkChoice) -> Option<Unusable> {
    if is_own || !choice.allows(&link.name) || (link.is_loopback && !choice.names(&link.name)) {
        return Some(Unusable::NotChosen);
    }
    if link.alias == TUNNEL_ALIAS {
        return Some(Unusable::Tunnel);
    }
    if !link.is_up {
        return Some(Unusable::SetDown);
    }
    // The operational state lags behind the carrier by up to a second.
    if !link.has_carrier {
        return Some(Unusable::NoCarrier);
    }
    (link.state == OperState::Dormant).then_some(Unusable::NotAuthenticated)
}

#[cfg(test)]
#[path = "usable_tests.rs"]
mod tests;
