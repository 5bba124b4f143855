//! What a set of flows goes through: each variant makes one lane, or one for each link.

use super::world::{EngineSettings, VpnSettings};
use weft_scenario::{Kind, Scenario, Variant};

/// A tunnel's cost: what it adds to a packet, and what it leaves of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Overhead {
    /// Bytes that a packet is longer on the link.
    pub bytes: u32,
    /// TCP payload bytes of a full packet.
    pub mss: u32,
}

/// IPv4 and TCP with timestamps in a packet of 1500 bytes.
const PLAIN: Overhead = Overhead { bytes: 0, mss: 1448 };
/// IPv4, UDP, opcode and peer, packet number, tag; `mssfix 1492` clamps what TCP announces as if it used no options.
const OPENVPN: Overhead = Overhead { bytes: 28 + 4 + 4 + 16, mss: 1492 - 52 - 40 - 12 };
/// IPv4, UDP, header, tag; the device's MTU is 1420.
const WIREGUARD: Overhead = Overhead { bytes: 28 + 16 + 16, mss: 1420 - 52 };

/// What carries the packets of a lane.
#[derive(Clone, Debug)]
pub(super) enum Carrier {
    /// One link, and hosts at its ends.
    Plain { link: usize, overhead: Overhead },
    /// Hosts that speak MPTCP over these links.
    Multipath { links: Vec<usize> },
    /// Pairs of engines over these links, mostly one.
    Engines { links: Vec<usize>, pairs: Vec<EngineSettings> },
}

/// One lane.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    /// The variant's name in the results.
    pub name: String,
    /// The variant it belongs to.
    pub variant: String,
    /// The only link used, by its position, where it is one.
    pub link: Option<usize>,
    pub carrier: Carrier,
    /// What is a model here.
    pub note: Option<&'static str>,
}

/// The lanes of a variant. `best` is the position of the best single link, for tunnels that use one.
pub(super) fn lanes(variant: &Variant, scenario: &Scenario, settings: EngineSettings, best: usize) -> Vec<Lane> {
    let chosen = chosen_links(variant, scenario);
    let link_name = |link: usize| scenario.links.get(link).map_or("", |link| link.name.as_str());
    let lane = |name: String, link, carrier, note| Lane { name, variant: variant.name.clone(), link, carrier, note };
    let tunnel = |overhead, note| {
        vec![lane(variant.name.clone(), Some(best), Carrier::Plain { link: best, overhead }, Some(note))]
    };
    match variant.kind {
        Kind::EachLink | Kind::BestLink => chosen
            .iter()
            .map(|&link| {
                let carrier = Carrier::Plain { link, overhead: PLAIN };
                lane(format!("link:{}", link_name(link)), Some(link), carrier, None)
            })
            .collect(),
        Kind::Link => chosen
            .iter()
            .take(1)
            .map(|&link| {
                let carrier = Carrier::Plain { link, overhead: PLAIN };
                lane(variant.name.clone(), Some(link), carrier, None)
            })
            .collect(),
        Kind::Openvpn => tunnel(OPENVPN, "a model: plain TCP over the best link with OpenVPN's 52 bytes a packet"),
        Kind::WireguardGo => {
            tunnel(WIREGUARD, "a model: plain TCP over the best link with WireGuard's 60 bytes a packet")
        }
        Kind::Weft => {
            let carrier = Carrier::Engines { links: chosen, pairs: vec![settings] };
            vec![lane(variant.name.clone(), None, carrier, None)]
        }
        Kind::WeftEachVpn => {
            let pair = |vpn: &VpnSettings| EngineSettings { vpns: vec![vpn.clone()], ..settings.clone() };
            let carrier = Carrier::Engines { links: chosen, pairs: settings.vpns.iter().map(pair).collect() };
            vec![lane(variant.name.clone(), None, carrier, None)]
        }
        Kind::WeftEachLink => {
            let prefix = if variant.name == variant.kind.word() { "weft" } else { &variant.name };
            chosen
                .iter()
                .map(|&link| {
                    let carrier = Carrier::Engines { links: vec![link], pairs: vec![settings.clone()] };
                    lane(format!("{prefix}:{}", link_name(link)), Some(link), carrier, None)
                })
                .collect()
        }
        Kind::Mptcp => {
            let note = "a model of the kernel's: CUBIC on each subflow, the minimum-RTT scheduler";
            vec![lane(variant.name.clone(), None, Carrier::Multipath { links: chosen }, Some(note))]
        }
    }
}

/// The positions of the links a variant uses.
fn chosen_links(variant: &Variant, scenario: &Scenario) -> Vec<usize> {
    let uses = |name: &String| variant.links.is_empty() || variant.links.contains(name);
    (0..).zip(&scenario.links).filter(|(_, link)| uses(&link.name)).map(|(position, _)| position).collect()
}
