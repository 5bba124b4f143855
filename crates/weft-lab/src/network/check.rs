//! Checks that the lab can run a network scenario.
//!
//! A kernel or the lab lacks some features that the simulator has.

use crate::LabError;
use weft_scenario::{CongestionControl, NetworkScenario, NetworkVariant, RouteSet, TcpSpec, Traffic, VpnService};
use weft_units::Rate;

/// Returns an error if the lab cannot run the network as the scenario describes it.
pub(super) fn check(network: &NetworkScenario, variants: &[&NetworkVariant]) -> Result<(), LabError> {
    let refuse = |what: String| Err(LabError::Scenario(format!("{what}: run the scenario with `weft-lab sim`")));
    if let Some(vpn) = network.vpns.first() {
        let kind = if matches!(vpn.service, VpnService::BestEffort) { "a VPN" } else { "a VPN with a promised rate" };
        return refuse(format!(
            "the scenario has [[node]] tables and {kind} named `{}`, but the lab runs VPNs only without [[node]] tables",
            vpn.name
        ));
    }
    for flow in &network.flows {
        if matches!(flow.traffic, Traffic::ShortFlows { .. } | Traffic::RequestResponse { .. } | Traffic::Ping { .. }) {
            return refuse(format!("flow `{}` has an `app` that only the simulator has", flow.name));
        }
    }
    for variant in variants {
        let name = &variant.name;
        if variant.routing.routes != RouteSet::Shortest {
            return refuse(format!(
                "variant `{name}` needs `routes = \"shortest\"`, because the lab has no other routes"
            ));
        }
        check_proxies(network, variant).or_else(refuse)?;
        for flow in network.flows.iter().filter(|flow| flow.traffic.is_tcp()) {
            let tcp = variant.tcp_of(flow);
            if !is_of_kernel(&tcp) {
                return refuse(format!(
                    "flow `{}` of variant `{name}` sets TCP options that the kernel lacks; only `congestion`, \
                     `explicit-rate` and `window` may be set",
                    flow.name
                ));
            }
            if congestion(&tcp).is_none() || (is_explicit(&tcp) && tcp.explicit_rate == Rate::ZERO) {
                return refuse(format!(
                    "flow `{}` of variant `{name}` has congestion = \"explicit-rate\" without a rate in \
                     `explicit-rate`, but the lab's routers grant no rates",
                    flow.name
                ));
            }
        }
    }
    Ok(())
}

/// True if `tcp` sets only options that a kernel's socket has: congestion control, explicit rate and window.
fn is_of_kernel(tcp: &TcpSpec) -> bool {
    let TcpSpec { congestion, explicit_rate, window_segments, .. } = *tcp;
    TcpSpec { congestion, explicit_rate, window_segments, ..TcpSpec::default() } == *tcp
}

fn is_explicit(tcp: &TcpSpec) -> bool {
    tcp.congestion == CongestionControl::ExplicitRate
}

/// Checks that the daemons' proxies support the variant's settings. The error names the missing feature.
fn check_proxies(network: &NetworkScenario, variant: &NetworkVariant) -> Result<(), String> {
    let name = &variant.name;
    let mut proxied = network.flows.iter().filter_map(|flow| variant.proxy_tcp_of(flow));
    let Some((_, first)) = proxied.next() else { return Ok(()) };
    if variant.overlay.is_none() {
        return Err(format!("variant `{name}` has proxies but no overlay, without which the lab runs no proxies"));
    }
    if std::iter::once(first).chain(proxied.map(|(_, tcp)| tcp)).any(|tcp| tcp.congestion != first.congestion) {
        return Err(format!(
            "the proxies of variant `{name}` have different congestion controls, but in the lab all proxies use one"
        ));
    }
    if congestion(&first).is_none()
        || !is_of_kernel(&first)
        || (is_explicit(&first) && first.explicit_rate > Rate::ZERO)
    {
        return Err(format!(
            "the `proxy` table of variant `{name}` may have only `congestion` and `window`, because proxies in the lab \
             get their rate from the paths"
        ));
    }
    Ok(())
}

/// Returns the kernel's name of the flow's congestion control. Returns `None` if the kernel has no such one.
pub(super) fn congestion(tcp: &TcpSpec) -> Option<&'static str> {
    match tcp.congestion {
        CongestionControl::Reno => Some("reno"),
        CongestionControl::Cubic => Some("cubic"),
        CongestionControl::Bic => Some("bic"),
        CongestionControl::Bbr => Some("bbr"),
        CongestionControl::ExplicitRate => Some(weft_tcp_er::congestion::NAME),
    }
}
