//! The lanes of a scenario.
//!
//! A lane is a set of links and a way to carry packets over them, for one run of all flows. Most variants make one
//! lane; some make one lane for each link.

use super::world::{EngineSettings, VpnSettings};
use weft_scenario::{Scenario, Variant, VariantKind};

/// The number of bytes that a tunnel adds to each packet, and the payload that it leaves in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TunnelOverhead {
    /// Number of bytes that the tunnel adds to a packet on the link.
    pub bytes: u32,
    /// TCP payload of a full packet inside the tunnel, in bytes.
    pub mss: u32,
}

/// Overhead without a tunnel: none. The TCP payload is that of a packet of 1500 bytes with IPv4, TCP and timestamps.
const PLAIN: TunnelOverhead = TunnelOverhead { bytes: 0, mss: 1448 };
/// Overhead of OpenVPN in bytes: IPv4 and UDP, opcode and peer, packet number, tag.
///
/// `mssfix 1492` clamps the announced MSS as if TCP used no options.
const OPENVPN: TunnelOverhead = TunnelOverhead { bytes: 28 + 4 + 4 + 16, mss: 1492 - 52 - 40 - 12 };
/// Overhead of WireGuard in bytes: IPv4 and UDP, header, tag. The MTU of its device is 1420 bytes.
const WIREGUARD: TunnelOverhead = TunnelOverhead { bytes: 28 + 16 + 16, mss: 1420 - 52 };

/// How the packets of a lane are carried.
#[derive(Clone, Debug)]
pub(super) enum LaneCarrier {
    /// Over one link with hosts at its ends, with the overhead of a tunnel.
    Plain { link: usize, overhead: TunnelOverhead },
    /// By MPTCP between the hosts, over these links.
    Multipath { links: Vec<usize> },
    /// By pairs of engines over these links. Most lanes have one pair.
    Engines { links: Vec<usize>, pairs: Vec<EngineSettings> },
}

/// One lane of a variant.
#[derive(Clone, Debug)]
pub(super) struct SimLane {
    /// The lane's name in the results.
    pub name: String,
    /// The name of the variant that the lane belongs to.
    pub variant: String,
    /// Position in the scenario of the lane's only link. `None` if the lane has several links.
    pub link: Option<usize>,
    pub carrier: LaneCarrier,
    /// Text for the reader, if a part of the lane is a model instead of real code.
    pub note: Option<&'static str>,
}

/// Returns the lanes of a variant.
///
/// `best` is the index of the best single link in the scenario, for tunnels that use one link.
pub(super) fn lanes(variant: &Variant, scenario: &Scenario, settings: EngineSettings, best: usize) -> Vec<SimLane> {
    let chosen = chosen_links(variant, scenario);
    let link_name = |link: usize| scenario.links.get(link).map_or("", |link| link.name.as_str());
    let lane = |name: String, link, carrier, note| SimLane { name, variant: variant.name.clone(), link, carrier, note };
    let tunnel = |overhead, note| {
        vec![lane(variant.name.clone(), Some(best), LaneCarrier::Plain { link: best, overhead }, Some(note))]
    };
    match variant.kind {
        VariantKind::EachLink | VariantKind::BestLink => chosen
            .iter()
            .map(|&link| {
                let carrier = LaneCarrier::Plain { link, overhead: PLAIN };
                lane(format!("link:{}", link_name(link)), Some(link), carrier, None)
            })
            .collect(),
        VariantKind::Link => chosen
            .iter()
            .take(1)
            .map(|&link| {
                let carrier = LaneCarrier::Plain { link, overhead: PLAIN };
                lane(variant.name.clone(), Some(link), carrier, None)
            })
            .collect(),
        VariantKind::Openvpn => {
            tunnel(OPENVPN, "a model: plain TCP over the best link with OpenVPN's 52 bytes a packet")
        }
        VariantKind::WireguardGo => {
            tunnel(WIREGUARD, "a model: plain TCP over the best link with WireGuard's 60 bytes a packet")
        }
        VariantKind::Weft => {
            let carrier = LaneCarrier::Engines { links: chosen, pairs: vec![settings] };
            vec![lane(variant.name.clone(), None, carrier, None)]
        }
        VariantKind::WeftEachVpn => {
            let pair = |vpn: &VpnSettings| EngineSettings { vpns: vec![vpn.clone()], ..settings.clone() };
            let carrier = LaneCarrier::Engines { links: chosen, pairs: settings.vpns.iter().map(pair).collect() };
            vec![lane(variant.name.clone(), None, carrier, None)]
        }
        VariantKind::WeftEachLink => {
            let prefix = if variant.name == variant.kind.word() { "weft" } else { &variant.name };
            chosen
                .iter()
                .map(|&link| {
                    let carrier = LaneCarrier::Engines { links: vec![link], pairs: vec![settings.clone()] };
                    lane(format!("{prefix}:{}", link_name(link)), Some(link), carrier, None)
                })
                .collect()
        }
        // The simulator skips this variant, see `lacking`.
        VariantKind::Ospf => Vec::new(),
        VariantKind::Mptcp => {
            let note = "a model of the kernel's: CUBIC on each subflow, the minimum-RTT scheduler";
            vec![lane(variant.name.clone(), None, LaneCarrier::Multipath { links: chosen }, Some(note))]
        }
    }
}

/// Returns the positions in the scenario of the links that a variant uses.
fn chosen_links(variant: &Variant, scenario: &Scenario) -> Vec<usize> {
    let uses = |name: &String| variant.links.is_empty() || variant.links.contains(name);
    (0..).zip(&scenario.links).filter(|(_, link)| uses(&link.name)).map(|(position, _)| position).collect()
}
