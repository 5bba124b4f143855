//! Checks that the lab can run a network. A kernel or the lab lacks some features of the simulator.

use crate::LabError;
use weft_scenario::{CongestionControl, NetworkScenario, NetworkVariant, RouteSet, TcpSpec, Traffic, VpnService};

/// Refuses a network if the lab would run something other than the scenario describes.
pub(super) fn check(network: &NetworkScenario, variants: &[&NetworkVariant]) -> Result<(), LabError> {
    let refuse =
        |what: String| Err(LabError::Scenario(format!("{what}: the lab does not support it: use `weft-lab sim`")));
    if let Some(vpn) = network.vpns.first() {
        let kind = if matches!(vpn.service, VpnService::BestEffort) { "a VPN" } else { "a VPN with a promised rate" };
        return refuse(format!("`{}` is {kind} of a network", vpn.name));
    }
    for flow in &network.flows {
        if matches!(flow.traffic, Traffic::ShortFlows { .. } | Traffic::RequestResponse { .. } | Traffic::Ping { .. }) {
            return refuse(format!("flow `{}` is of a kind that only simulated hosts have", flow.name));
        }
    }
    for variant in variants {
        let name = &variant.name;
        if variant.routing.routes != RouteSet::Shortest {
            return refuse(format!("variant `{name}` has routes other than the shortest"));
        }
        if variant.proxy.is_some() {
            return refuse(format!("variant `{name}` has proxies"));
        }
        for flow in network.flows.iter().filter(|flow| flow.traffic.is_tcp()) {
            let tcp = variant.tcp_of(flow);
            if (TcpSpec { congestion: CongestionControl::Cubic, ..tcp }) != TcpSpec::default() {
                let what = "sets TCP options that the kernel lacks; only `congestion` may be set";
                return refuse(format!("flow `{}` of variant `{name}` {what}", flow.name));
            }
            if congestion(&tcp).is_none() {
                return refuse(format!(
                    "flow `{}` of variant `{name}` has a congestion control that the kernel lacks",
                    flow.name
                ));
            }
        }
    }
    Ok(())
}

/// Returns the kernel's name of a congestion control.
pub(super) fn congestion(tcp: &TcpSpec) -> Option<&'static str> {
    match tcp.congestion {
        CongestionControl::Reno => Some("reno"),
        CongestionControl::Cubic => Some("cubic"),
        CongestionControl::Bic => Some("bic"),
        CongestionControl::Bbr => Some("bbr"),
        CongestionControl::ExplicitRate => None,
    }
}
