//! The causes, and the texts of each.

use weft_engine::Unreachable;

/// Cause why a peer cannot be reached.
///
/// If links have different causes, the first one in this order is reported: handshakes with that cause got furthest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// No process at the peer's address has bound the port.
    NotRunning,
    /// A firewall rejects the handshakes.
    Rejected,
    /// No reaction arrived.
    Silent,
    /// Handshakes are too long for the path.
    TooBig,
    /// The last router does not reach the host.
    HostUnreachable,
    /// A router has no route to the network.
    NetworkUnreachable,
    /// Another ICMP error arrived.
    Unreachable,
    /// This machine's firewall drops the handshakes.
    Filtered,
    /// This machine has no route to the peer.
    NoRoute,
    /// The link that would carry the handshakes is down.
    LinkDown,
    /// This node has no link in use.
    NoLink,
    /// The peer must begin the handshake and does not.
    NoCall,
    /// The peer must begin the handshake and does not, and the addresses of this node are private.
    NoCallBehindNat,
    /// A handshake arrived from a key that is configured for no peer.
    UnknownKey,
    /// A handshake arrived for another key than this node's.
    OtherKey,
    /// This node received a handshake for its key that it cannot decrypt.
    Unreadable,
    /// The preshared keys of this node and the peer differ.
    PresharedKey,
    /// This node's answer does not arrive, or the peer cannot decrypt it.
    AnswerLost,
    /// The stamp of a handshake is below the last stamp that the receiver accepted.
    StampBehind,
    /// The stamp of a handshake is too far in the future.
    ClockAhead,
    /// Only packets shorter than the minimum MTU of IPv6 pass.
    SmallMtu,
    /// The root revoked the peer's key.
    Revoked,
}

/// Texts about a cause. In messages they follow the description of the reaction to the handshakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words {
    /// The likely cause.
    pub likely: &'static str,
    /// Advice for the reader.
    pub advice: &'static str,
}

/// For each cause: its name in JSON, the likely cause, and the advice.
const NAMES: [(Cause, &str, &str, &str); 22] = [
    (
        Cause::NotRunning,
        "not-running",
        "weft is not running there, listens on another port, or a NAT there does not forward the port",
        "start it there, and compare `listen` there with `endpoints` here",
    ),
    (
        Cause::Rejected,
        "rejected",
        "a firewall rejects UDP to this port",
        "allow UDP to the port in the firewall that sent the error",
    ),
    (
        Cause::Silent,
        "silent",
        "a firewall drops UDP to this port, the host is off, the peer does not know this node's key, or `public-key` of the \
         peer here is wrong",
        "run `weft status` on the peer, which lists the handshakes that it rejects; if it lists none, open the port \
         there",
    ),
    (
        Cause::TooBig,
        "too-big",
        "the path takes only packets shorter than a handshake",
        "raise the MTU of the path, or leave the link out of [links] use",
    ),
    (
        Cause::HostUnreachable,
        "host-unreachable",
        "the host is off, or its address is wrong",
        "start the host, or correct `endpoints`",
    ),
    (
        Cause::NetworkUnreachable,
        "network-unreachable",
        "a router has no route to the address",
        "correct `endpoints`, or the routes of the router that sent the error",
    ),
    (
        Cause::Unreachable,
        "unreachable",
        "the network does not deliver to the address",
        "weft doctor --peer NAME tries each link",
    ),
    (
        Cause::Filtered,
        "filtered",
        "this machine's own firewall blocks it",
        "allow outgoing UDP from weft in this machine's firewall",
    ),
    (
        Cause::NoRoute,
        "no-route",
        "this machine has no route to it over the link",
        "add a route over the link, or leave the link out of [links] use",
    ),
    (Cause::LinkDown, "link-down", "the link cannot send now", "check the link: ip link"),
    (
        Cause::NoLink,
        "no-link",
        "every interface is down, has no address, or is excluded by [links]",
        "set an interface up with an address, and compare its name with [links] use",
    ),
    (
        Cause::NoCall,
        "no-call",
        "the peer is not running, has a wrong endpoint for this node, or a firewall here or on the path drops UDP",
        "run `weft status` on the peer, which shows what it tries; open this node's UDP port, or give the peer an \
         endpoint",
    ),
    (
        Cause::NoCallBehindNat,
        "no-call-behind-nat",
        "this node has private addresses only: each NAT in front of it drops calls unless it forwards them",
        "forward this node's UDP port in each NAT in front of it, or give the peer an endpoint so that this node calls",
    ),
    (
        Cause::UnknownKey,
        "unknown-key",
        "the peer's key is not the one configured here, or the node was never added here",
        "compare with `weft status` there; if it is the peer, set its `public-key` here to this key",
    ),
    (
        Cause::OtherKey,
        "other-key",
        "the sender has a wrong `public-key` for this node, or calls another node",
        "set `public-key` of this node in the sender's configuration",
    ),
    (
        Cause::Unreadable,
        "unreadable",
        "the sender runs another version, or the datagram was damaged",
        "compare the versions: weft --version",
    ),
    (
        Cause::PresharedKey,
        "preshared-key",
        "the preshared keys of the two nodes differ",
        "give both nodes the same `preshared-key`: weft genpsk",
    ),
    (
        Cause::AnswerLost,
        "answer-lost",
        "the answers do not arrive at the peer, or the preshared keys of the two nodes differ",
        "compare `preshared-key` on both nodes, and allow UDP from this node's port to the peer",
    ),
    (
        Cause::StampBehind,
        "stamp-behind",
        "the calling node's state was lost or restored, its clock was set back, or this is a recording",
        "set the clocks of both nodes; the caller continues with the next stamp; if no session follows: weft peer \
         reset NAME on the node that refused",
    ),
    (
        Cause::ClockAhead,
        "clock-ahead",
        "the clock of one of the two nodes is wrong",
        "set the clocks of both nodes; if no session follows: weft peer reset NAME on the node that refused",
    ),
    (
        Cause::SmallMtu,
        "small-mtu",
        "a tunnel or a firewall on the path drops longer packets without an error",
        "raise the MTU of the path, or let ICMP `too big` pass; until then weft sends full packets in parts",
    ),
    (
        Cause::Revoked,
        "revoked",
        "the peer was removed from the network, or got a new key since",
        "set the peer's new `public-key`, or remove its [[peer]]",
    ),
];

impl Cause {
    /// Returns the cause that an ICMP reaction to a handshake indicates, or the absence of a reaction (`None`).
    pub fn of(came_back: Option<Unreachable>) -> Cause {
        match came_back {
            None => Cause::Silent,
            Some(Unreachable::Port) => Cause::NotRunning,
            Some(Unreachable::Prohibited) => Cause::Rejected,
            Some(Unreachable::Host) => Cause::HostUnreachable,
            Some(Unreachable::Network) => Cause::NetworkUnreachable,
            Some(Unreachable::TooBig) => Cause::TooBig,
            Some(Unreachable::Filtered) => Cause::Filtered,
            Some(Unreachable::NoRoute) => Cause::NoRoute,
            Some(Unreachable::LinkDown) => Cause::LinkDown,
            Some(Unreachable::Other) => Cause::Unreachable,
        }
    }

    fn row(self) -> &'static (Cause, &'static str, &'static str, &'static str) {
        NAMES.iter().find(|(cause, ..)| *cause == self).unwrap_or(&NAMES[0])
    }

    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the texts about the cause.
    pub fn words(self) -> Words {
        let (_, _, likely, advice) = *self.row();
        Words { likely, advice }
    }

    /// Returns all causes.
    #[cfg(test)]
    pub fn all() -> impl Iterator<Item = Cause> {
        NAMES.iter().map(|(cause, ..)| *cause)
    }
}
