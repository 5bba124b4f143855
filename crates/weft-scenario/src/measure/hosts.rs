//! Computes the results of the hosts behind the first node from the results of their flows.

use super::vpns::goodput_bps;
use crate::{FlowResult, HostResult, Scenario, jain};

/// Returns the result of each host that begins flows.
pub fn host_results(scenario: &Scenario, flows: &[FlowResult]) -> Vec<HostResult> {
    let of = |(number, name): (usize, &String)| {
        let is_own = |flow: &crate::Flow| flow.host == Some(number);
        HostResult {
            name: name.clone(),
            flows: scenario.flows.iter().filter(|flow| is_own(flow)).count(),
            goodput_bps: goodput_bps(scenario, flows, is_own).unwrap_or(0.0),
        }
    };
    scenario.hosts.iter().enumerate().map(of).collect()
}

/// Returns Jain's fairness index of the hosts' goodputs. Returns `None` for fewer than two hosts.
pub fn host_fairness(hosts: &[HostResult]) -> Option<f64> {
    jain(hosts.iter().map(|host| host.goodput_bps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_gets_what_its_flows_get() {
        let text = "name = \"t\"\nduration = \"10 s\"\n[[link]]\nname = \"a\"\nrate = \"10 Mbit/s\"\n\
            [[flow]]\nname = \"many\"\napp = \"iperf3\"\ncount = 3\nhost = \"b\"\n[[flow]]\nname = \"own\"\napp = \"iperf3\"\n\
            [[flow]]\nname = \"one\"\napp = \"iperf3\"\nhost = \"a\"\nstart = \"5 s\"\n";
        let scenario = Scenario::parse(text, "t").unwrap();
        let flow = |name: &str, goodput_bps: f64| FlowResult {
            name: name.into(),
            goodput_bps: Some(goodput_bps),
            ..FlowResult::default()
        };
        let flows = [flow("many-0", 1e6), flow("many-1", 2e6), flow("many-2", 3e6), flow("own", 9e6), flow("one", 4e6)];
        let hosts = host_results(&scenario, &flows);
        let got: Vec<_> = hosts.iter().map(|host| (host.name.as_str(), host.flows, host.goodput_bps)).collect();
        assert_eq!(got, [("b", 3, 6e6), ("a", 1, 2e6)], "the late flow has half of the time that counts");
        assert_eq!(host_fairness(&hosts), Some(0.8));
        assert_eq!(host_fairness(&hosts[..1]), None);
    }
}
