//! Decision which interfaces are links, from netlink's data and the kernel's routes.

use crate::config::LinkChoice;
use crate::daemon::machine::device::TUNNEL_ALIAS;
use std::collections::BTreeSet;
use std::net::IpAddr;
use weft_io::netlink::{Address, Link, OperState, Scope};

/// Reason why an interface is not a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// The interface does not exist.
    Removed,
    /// `[links]` excludes the interface, or it is a device of this node.
    NotChosen,
    /// The interface is the tunnel of another weft.
    Tunnel,
    /// The user or a program has set the interface down.
    SetDown,
    /// The interface has no carrier.
    NoCarrier,
    /// The interface waits for authentication.
    NotAuthenticated,
    /// The interface has no address that is valid beyond its link.
    NoAddress,
    /// No route leads by the interface to any endpoint.
    NoRoute,
}

impl Unusable {
    /// Returns the reason in the log's words.
    pub fn text(self) -> &'static str {
        match self {
            Unusable::Removed => "removed",
            Unusable::NotChosen => "the configuration excludes the link",
            Unusable::Tunnel => "the link is the tunnel of another weft node",
            Unusable::SetDown => "set down",
            Unusable::NoCarrier => "no carrier",
            Unusable::NotAuthenticated => "not authenticated",
            Unusable::NoAddress => "no address",
            Unusable::NoRoute => "no route over the link leads to any peer's address",
        }
    }

    /// Returns true if the link is no longer wanted, so that its paths are forgotten.
    ///
    /// If false, its paths stay, in state down.
    pub fn is_final(self) -> bool {
        matches!(self, Unusable::Removed | Unusable::NotChosen | Unusable::Tunnel | Unusable::NoRoute)
    }
}

/// Addresses at which the node begins handshakes, and whether other nodes begin handshakes with it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Demand {
    /// Addresses of peers with which the node begins handshakes.
    pub endpoints: BTreeSet<IpAddr>,
    /// True if peers at unknown addresses may begin handshakes with this node.
    pub is_called: bool,
}

impl Demand {
    /// Returns true if a link needs a route to one of the endpoints.
    ///
    /// A node that waits for handshakes from unknown addresses receives them on every link, so no link needs a route.
    fn needs_route(&self) -> bool {
        !self.endpoints.is_empty() && !self.is_called
    }
}

/// Properties of an interface that is a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Usable {
    /// Name of the interface.
    pub name: String,
    /// MTU in bytes.
    pub mtu: u16,
    /// Addresses of the interface.
    pub addresses: Vec<IpAddr>,
    /// Endpoints to which no route leads by the interface.
    pub unreachable: Vec<IpAddr>,
}

/// Decides if an interface is a link.
///
/// `leads_to` returns whether the kernel has a route by the interface to an address, possibly from one of the given
/// source addresses. It is called last, and not for an interface that is excluded anyway.
///
/// # Errors
/// Returns the reason why the interface is not a link.
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
    // The loopback interface delivers to every address of this machine and to no other, so the kernel is not asked for
    // a route by it.
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

/// Returns the reason why an interface is not a link, if the reason is neither an address nor a route.
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
    // The kernel's operational state lags behind the carrier by up to a second, so the carrier itself is checked.
    if !link.has_carrier {
        return Some(Unusable::NoCarrier);
    }
    (link.state == OperState::Dormant).then_some(Unusable::NotAuthenticated)
}

#[cfg(test)]
#[path = "usable_tests.rs"]
mod tests;
