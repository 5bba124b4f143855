//! The scenario files of the reproduction, and the cases (variants to run) made from them.

use super::laboratory::Case;
use weft_scenario::{NetworkScenario, Scenario};

/// A scenario file that is compiled into the program.
#[derive(Clone, Copy)]
pub(super) struct CompiledScenario {
    pub name: &'static str,
    pub text: &'static str,
}

macro_rules! scenario_files {
    ($($constant:ident = $file:literal;)*) => {
        $(pub(super) const $constant: CompiledScenario =
            CompiledScenario { name: $file, text: include_str!(concat!("../../../../scenarios/", $file)) };)*
    };
}

scenario_files! {
    FIGURE_2 = "paper-000-figure-2.toml";
    FIGURE_6 = "paper-000-figure-6.toml";
    FIGURE_7 = "paper-000-figure-7.toml";
    ASYMMETRIC = "paper-000-asymmetric.toml";
    FIVE_VPNS = "paper-003-figure-2.toml";
    THREE_BOTTLENECKS = "paper-003-figure-7.toml";
    PROTOTYPE = "paper-003-prototype.toml";
    LINEAR = "paper-004-figure-5.toml";
    QUEUES = "paper-004-figure-7.toml";
    FLOOD = "paper-004-figure-8.toml";
    LEASED_LINE = "paper-004-figure-10.toml";
    FAIR_VPNS = "fair-vpns.toml";
    TABLE_1 = "paper-002-table1-sim.toml";
    OVERLAY = "paper-001-figure-6.toml";
    EXCHANGE = "paper-001-figure-2.toml";
    THREE_ROUTERS = "paper-001-max-min.toml";
    CHART = "chart.toml";
    OVER_LEGACY = "paper-001-overlay.toml";
    FLEET = "naval-fleet.toml";
    QUICK_START = "paper-001-quick-start.toml";
    ACCESS = "paper-002-access-sim.toml";
    HETEROGENEOUS = "paper-002-heterogeneous-sim.toml";
    STEP = "paper-002-step-sim.toml";
    CLEAN = "clean-links.toml";
    MIXED_PORT = "mixed-port.toml";
    VOICE = "voice-under-load.toml";
    HOME_OFFICE = "home-office.toml";
    THREE_HUNDRED = "three-hundred-connections.toml";
    PREEMPTION = "preemption.toml";
    FLOW_ALTERNATES = "flow-alternates.toml";
}

impl CompiledScenario {
    pub fn read(self) -> Result<NetworkScenario, String> {
        NetworkScenario::parse(self.text, self.name).map_err(|error| error.to_string())
    }
}

/// Parses a scenario file that describes two nodes, not a network.
pub(super) fn read_pair(file: CompiledScenario) -> Result<Scenario, String> {
    Scenario::parse(file.text, file.name).map_err(|error| error.to_string())
}

/// Returns one variant of a network as a case.
///
/// `label` distinguishes this network in the case's name from others that are made from the same file.
pub(super) fn case(network: &NetworkScenario, label: &str, variant: &str) -> Result<Case, String> {
    let found = network.variant(variant).ok_or_else(|| format!("{} has no variant `{variant}`", network.name))?;
    let name = format!("{}, {label}, {variant}", network.name);
    Ok(Case { name, network: network.clone(), variant: found.clone(), length: None })
}

/// Returns one variant of a network as a case that lasts as long as the scenario says.
pub(super) fn whole_case(network: &NetworkScenario, label: &str, variant: &str) -> Result<Case, String> {
    let length = Some([network.duration, network.warmup]);
    Ok(Case { length, ..case(network, label, variant)? })
}

/// Returns a case of paper 000, Figure 2, with this number of paths.
///
/// The delay of path k, counted from 0, exceeds that of path 0 by k times `difference_percent`.
pub(super) fn figure_2(paths: u32, difference_percent: u32, variant: &str) -> Result<Case, String> {
    let mut network = FIGURE_2.read()?;
    for path in 0..paths {
        let factor = 1.0 + f64::from(path * difference_percent) / 100.0;
        for half in ["in", "out"] {
            network.links_mut(&format!("{half}-{path}")).for_each(|link| link.scale_delay(factor));
        }
    }
    for path in (paths..).map(|path| format!("m{path}")) {
        if network.node(&path).is_none() {
            break;
        }
        network.remove_nodes(&path);
    }
    case(&network, &format!("{paths} paths, {difference_percent} %"), variant)
}

/// Returns a case of a network of three explicit paths with these weights.
pub(super) fn weighted(network: &NetworkScenario, weights: [u32; 3], variant: &str) -> Result<Case, String> {
    let mut network = network.clone();
    network.paths.iter_mut().zip(weights).for_each(|(path, weight)| path.weight = weight);
    case(&network, &format!("{weights:?}"), variant)
}
