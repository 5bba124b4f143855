//! Explicit rates in a network: the routers that grant them, the flows that request them, and the guaranteed rates.

use super::build::node_id;
use super::node::NetworkNode;
use weft_scenario::{
    Capacity, CongestionControl, GrantLaw, Link, NetworkScenario, NetworkVariant, SignallingSpec, SubPath, TcpSpec,
    Traces,
};
use weft_sim::signalling::{
    LawKind, LinkController, LinkGrants, Meddler, NearSensor, RateDemand, RouterControllers, Wants,
};
use weft_sim::{LinkId, Simulator};
use weft_units::{Rate, Rng};

/// Returns what a TCP flow with these settings requests from the routers. `None` if it requests no rate.
pub(super) fn wants(tcp: &TcpSpec, signalling: &SignallingSpec) -> Option<Wants> {
    if signalling.law == GrantLaw::Off {
        return None;
    }
    if tcp.congestion == CongestionControl::ExplicitRate && tcp.explicit_rate == Rate::ZERO {
        let demand = RateDemand { guaranteed: tcp.guaranteed, path_takes_part: signalling.whole_path };
        return Some(Wants::Explicit(demand));
    }
    (tcp.quick_start > Rate::ZERO).then_some(Wants::QuickStart(tcp.quick_start))
}

/// Returns the mean rates of both directions of a link, first the direction up.
fn link_rates(link: &Link, traces: &Traces) -> [Rate; 2] {
    [&link.up, &link.down].map(|direction| match &direction.capacity {
        Capacity::Rate(rate) => *rate,
        Capacity::Trace(name) => traces.get(name).map_or(Rate::ZERO, |trace| trace.mean_rate()),
    })
}

/// Adds to each router that grants explicit rates a controller for each of its outgoing links.
///
/// If the scenario names a router that changes TTLs, that router does so.
pub(super) fn add_controllers(
    network: &NetworkScenario,
    variant: &NetworkVariant,
    links: &[[LinkId; 2]],
    simulator: &mut Simulator<NetworkNode>,
    traces: &Traces,
    seed: u64,
) {
    let spec = &variant.signalling;
    let law = match spec.law {
        GrantLaw::Off => return,
        GrantLaw::Capacity => LawKind::Capacity,
        GrantLaw::Pi => LawKind::Pi,
        GrantLaw::Erica => LawKind::Erica,
    };
    for (number, name) in network.nodes.iter().enumerate() {
        let mut controllers = RouterControllers::new(node_id(number));
        let outgoing = network.links.iter().zip(links).flat_map(|(link, ids)| {
            let rates = link_rates(link, traces);
            (0..2).map(move |way| (link, way, ids[way], rates[way]))
        });
        for (link, _, id, rate) in outgoing.filter(|(link, way, ..)| spec.has(name) && link.ends[*way] == number) {
            let seed = seed ^ u64::from(id.0);
            let below = spec.over.get(&link.name).filter(|below| below.to != *name);
            let rate = below.map_or(rate, |below| below.capacity);
            let far = |below: &SubPath| network.nodes.iter().position(|node| *node == below.to).map(node_id);
            let sensor = below.and_then(|below| Some(NearSensor::new(far(below)?, below.capacity, seed)));
            let grants = LinkGrants { law, capacity: rate, reservable: rate.scaled(spec.reservable), seed };
            let controller = LinkController::new(grants, spec.round_trip, spec.interval);
            controllers.add(id, controller, sensor);
        }
        simulator.with_node(node_id(number), |station, _, _| {
            let router = station.router_mut();
            router.set_controllers(controllers);
            if spec.meddler.as_ref() == Some(name) {
                router.set_meddler(Meddler::new(Rng::new(seed)));
            }
        });
    }
}

/// Returns the sum of the rates that are guaranteed to flows on each link, in bit/s, first the direction up.
pub(super) fn booked_bps(simulator: &Simulator<NetworkNode>, links: &[[LinkId; 2]]) -> Vec<[u64; 2]> {
    let booked = |link: LinkId| {
        let routers = simulator.nodes().iter().filter_map(|station| station.router().controllers());
        let own = routers.filter_map(|controllers| controllers.of(link)).next();
        own.map_or(0, |controller| controller.booked().bps())
    };
    links.iter().map(|pair| pair.map(booked)).collect()
}
