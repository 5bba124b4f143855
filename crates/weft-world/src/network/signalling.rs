//! Explicit rates in a network: who takes part, what a scenario grants by itself, and what came of it.

use super::build::node_id;
use weft_scenario::{
    BundleWeights, Capacity, CongestionControl, ExplicitPath, Grant, GrantLaw, Network, NetworkFlow, NetworkLink,
    NetworkVariant, PATHS_SLACK, Routes, SignallingSpec, TcpSpec, Traces,
};
use weft_sim::signalling::{Controller, Controllers, Demand, LawKind};
use weft_sim::{LinkId, Simulator, Station};
use weft_units::Rate;

/// What a flow asks of the routers, if it asks.
pub(super) fn demand(tcp: &TcpSpec, signalling: &SignallingSpec) -> Option<Demand> {
    let asks = tcp.congestion == CongestionControl::ExplicitRate
        && tcp.grant == Grant::Signalled
        && signalling.law != GrantLaw::Off;
    asks.then_some(Demand { guaranteed: tcp.guaranteed, path_takes_part: signalling.whole_path })
}

/// A flow's TCP with what its paths carry as a fixed grant, where the scenario says so.
///
/// # Errors
/// When no explicit path leads from one end to the other.
pub(super) fn with_paths_granted(
    network: &Network,
    variant: &NetworkVariant,
    flow: &NetworkFlow,
    tcp: TcpSpec,
    traces: &Traces,
) -> Result<TcpSpec, String> {
    if tcp.grant != Grant::Paths {
        return Ok(tcp);
    }
    let used: &[usize] = match &variant.routing.routes {
        Routes::Explicit { paths } => paths,
        _ => &[],
    };
    let paths = used.iter().filter_map(|number| network.paths.get(*number));
    let ends = [Some(&flow.from), Some(&flow.to)];
    let own: Vec<&ExplicitPath> = paths.filter(|path| [path.nodes.first(), path.nodes.last()] == ends).collect();
    let sum: f64 = own.iter().map(|path| f64::from(path.weight)).sum();
    let rates = own.iter().map(|path| slowest_bps(network, path, traces) * sum / f64::from(path.weight));
    let least = rates.fold(f64::INFINITY, f64::min);
    if !least.is_finite() {
        return Err(format!("flow `{}` has no explicit path to grant the rate of", flow.name));
    }
    Ok(TcpSpec { grant: Grant::Fixed(Rate::from_bps((least * (1.0 - PATHS_SLACK)) as u64)), ..tcp })
}

fn slowest_bps(network: &Network, path: &ExplicitPath, traces: &Traces) -> f64 {
    let hops = path.nodes.iter().zip(&path.links);
    let rate = |(from, link): (&usize, &usize)| {
        let link = network.links.get(*link)?;
        Some(link_rates(link, traces)[usize::from(link.ends[0] != *from)].bps() as f64)
    };
    hops.filter_map(rate).fold(f64::INFINITY, f64::min)
}

/// The mean rates of a link, up first.
fn link_rates(link: &NetworkLink, traces: &Traces) -> [Rate; 2] {
    [&link.up, &link.down].map(|direction| match &direction.spec.capacity {
        Capacity::Rate(rate) => *rate,
        Capacity::Trace(name) => traces.get(name).map_or(Rate::ZERO, |trace| trace.mean_rate()),
    })
}

/// Gives each router that takes part its controllers, and the others what they do to TTLs.
pub(super) fn seat_controllers(
    network: &Network,
    variant: &NetworkVariant,
    links: &[[LinkId; 2]],
    simulator: &mut Simulator<Station>,
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
    let legacy = |name: &str| {
        let below = spec.over.get(name)?;
        network.links.iter().position(|link| link.name == *below)
    };
    for (number, name) in network.nodes.iter().enumerate() {
        let mut controllers = Controllers::new(number as u16 + 1, spec.weights == BundleWeights::Granted);
        let outgoing = network.links.iter().zip(links).flat_map(|(link, ids)| {
            let rates = link_rates(link, traces);
            (0..2).map(move |way| (link, way, ids[way], rates[way]))
        });
        for (link, way, id, rate) in outgoing.filter(|(link, way, ..)| spec.has(name) && link.ends[*way] == number) {
            let reservable = rate.scaled(spec.reservable);
            let seed = seed ^ u64::from(id.0);
            let controller = Controller::new(law, rate, spec.round_trip, spec.interval, reservable, seed);
            let below = legacy(&link.name).and_then(|below| links.get(below)).map(|ids| ids[way]);
            controllers.add(id, match below {
                Some(below) => controller.over(below),
                None => controller,
            });
        }
        simulator.with_node(node_id(number), |station, _, _| station.router_mut().set_controllers(controllers));
    }
}

/// What is guaranteed to flows on each link, up first.
pub(super) fn booked_bps(simulator: &Simulator<Station>, links: &[[LinkId; 2]]) -> Vec<[u64; 2]> {
    let booked = |link: LinkId| {
        let routers = simulator.nodes().iter().filter_map(|station| station.router().controllers());
        let own = routers.flat_map(Controllers::by_link).find(|(own, _)| *own == link);
        own.map_or(0, |(_, controller)| controller.booked().bps())
    };
    links.iter().map(|pair| pair.map(booked)).collect()
}
