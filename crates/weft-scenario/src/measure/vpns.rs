//! Computes the results of VPNs between two nodes from the results of their flows.

use crate::{App, Flow, FlowDirection, FlowResult, Scenario, Series, VpnResult, VpnService, VpnShare, jain};
use std::collections::BTreeMap;

/// Time between two points of a VPN's time series, in seconds.
const SERIES_STEP_S: f64 = 0.5;
/// Size of the IPv4 and UDP headers, in bytes.
///
/// Standard: 20 bytes (RFC 791) and 8 bytes (RFC 768).
const UDP_HEADERS_LEN: u32 = 28;

/// The state of one VPN's loop in one direction at the end of a run, and its losses in the measured time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct EntryEnd {
    /// Rate that the loop allowed, in bit/s. `None` without a loop.
    pub rate_bps: Option<f64>,
    /// Number of bytes that the loop allowed in flight. `None` without a loop.
    ///
    /// For a loop with a rate it is the rate times the round-trip time.
    pub window_bytes: Option<f64>,
    /// Smoothed round-trip time of the loop in milliseconds. `None` without a loop.
    pub rtt_ms: Option<f64>,
    /// Bytes of the VPN that waited in queues along the route. `None` unless the loop's algorithm measures them.
    pub accumulation_bytes: Option<f64>,
    /// Packets of the VPN that were lost along the route in the measured time.
    pub lost: f64,
    /// Packets that the VPN's queue at the ingress edge dropped in the measured time.
    pub dropped: f64,
}

/// Returns the result of each VPN in each direction in which it has flows.
///
/// `entry` returns the final state of the loop of the VPN with this index in a direction.
pub fn vpn_results(
    scenario: &Scenario,
    flows: &[FlowResult],
    entry: impl Fn(usize, FlowDirection) -> EntryEnd,
) -> Vec<VpnResult> {
    let shares = scenario.last_shares();
    let [home, hub] = &scenario.nodes;
    let mut results = Vec::new();
    for (direction, from, to) in [(FlowDirection::Up, home, hub), (FlowDirection::Down, hub, home)] {
        let got: Vec<Option<f64>> = (0..scenario.vpns.len())
            .map(|vpn| goodput_bps(scenario, flows, |flow| flow.vpn == Some(vpn) && flow.direction == direction))
            .collect();
        let sum: f64 = got.iter().flatten().sum();
        let of_all = |bps: f64| if sum > 0.0 { bps / sum } else { 0.0 };
        for (number, (vpn, share)) in scenario.vpns.iter().zip(&shares).enumerate() {
            let Some(goodput_bps) = got.get(number).copied().flatten() else { continue };
            let EntryEnd { rate_bps, window_bytes, rtt_ms, accumulation_bytes, lost, dropped } =
                entry(number, direction);
            results.push(VpnResult {
                name: vpn.name.clone(),
                from: from.clone(),
                to: to.clone(),
                weight: share.weight.into(),
                promised_bps: Some(promised_bps(share)).filter(|bps| *bps > 0.0),
                goodput_bps,
                share: of_all(goodput_bps),
                rate_bps,
                window_bytes,
                rtt_ms,
                accumulation_bytes,
                lost,
                dropped,
                queue_ms_p50: None,
                queue_ms_p95: None,
            });
        }
    }
    results
}

/// Returns the sum of the goodputs of the flows for which `is_counted` is true, in bit/s.
///
/// It is averaged over the measured time of the run, even if a flow ran for less. Returns `None` if there are no such
/// flows.
pub(super) fn goodput_bps(
    scenario: &Scenario,
    flows: &[FlowResult],
    is_counted: impl Fn(&Flow) -> bool,
) -> Option<f64> {
    let counted_s = (scenario.duration - scenario.warmup).as_secs_f64();
    let own = scenario.flows.iter().filter(|flow| is_counted(flow));
    let bits = own.filter_map(|flow| {
        let result = flows.iter().find(|result| result.name == flow.name)?;
        let length = flow.stop.saturating_sub(flow.start.max(scenario.warmup));
        Some(result.goodput_bps? * length.as_secs_f64())
    });
    bits.reduce(|a, b| a + b).map(|bits| bits / counted_s)
}

fn promised_bps(share: &VpnShare) -> f64 {
    match share.service {
        VpnService::BestEffort => 0.0,
        VpnService::Assured(rate) | VpnService::Leased(rate) => rate.bps() as f64,
    }
}

/// Returns Jain's index of the ratios between each VPN's goodput and its fair share, in one direction.
///
/// The fair share is the promised rate plus a part of the remaining goodput, in proportion to the VPN's weight. It
/// never exceeds the rate that the VPN's flows ask for, and the other VPNs share the rest. The result is `None` for
/// fewer than two VPNs.
pub fn vpn_fairness(scenario: &Scenario, vpns: &[VpnResult], direction: FlowDirection) -> Option<f64> {
    let from = &scenario.nodes[usize::from(direction == FlowDirection::Down)];
    let claims: Vec<GoodputClaim> = vpns
        .iter()
        .filter(|vpn| vpn.from == *from)
        .map(|vpn| GoodputClaim {
            got: vpn.goodput_bps,
            promised: vpn.promised_bps.unwrap_or(0.0),
            weight: vpn.weight,
            asked: asked_bps(scenario, &vpn.name, direction),
        })
        .collect();
    jain(claims.iter().zip(due(&claims)).filter(|(_, due)| *due > 0.0).map(|(claim, due)| claim.got / due))
}

/// The goodput that one VPN got, and its claim on the total goodput. Rates are in bit/s.
struct GoodputClaim {
    got: f64,
    promised: f64,
    weight: f64,
    asked: f64,
}

/// Returns the fair share of each VPN in the total goodput, in bit/s, as [`vpn_fairness`] defines it.
fn due(claims: &[GoodputClaim]) -> Vec<f64> {
    let all: f64 = claims.iter().map(|claim| claim.got).sum();
    let mut due: Vec<Option<f64>> = vec![None; claims.len()];
    loop {
        let given: f64 = due.iter().flatten().sum();
        let open = || claims.iter().zip(&due).filter(|(_, due)| due.is_none()).map(|(claim, _)| claim);
        let rest = (all - given - open().map(|claim| claim.promised).sum::<f64>()).max(0.0);
        let weights: f64 = open().map(|claim| claim.weight).sum();
        let part = |claim: &GoodputClaim| claim.promised + rest * claim.weight / weights;
        let is_content = |claim: &GoodputClaim, due: &Option<f64>| due.is_none() && claim.asked < part(claim);
        match claims.iter().zip(&due).position(|(claim, due)| is_content(claim, due)) {
            Some(position) => due[position] = Some(claims[position].asked),
            None => return claims.iter().zip(due).map(|(claim, due)| due.unwrap_or_else(|| part(claim))).collect(),
        }
    }
}

/// Returns the maximum payload rate that a VPN's flows in one direction can use, in bit/s.
///
/// It is infinite if one of them is TCP.
fn asked_bps(scenario: &Scenario, vpn: &str, direction: FlowDirection) -> f64 {
    let of = |flow: &&Flow| flow.vpn.and_then(|vpn| scenario.vpns.get(vpn)).is_some_and(|own| own.name == vpn);
    let own = scenario.flows.iter().filter(of).filter(|flow| flow.direction == direction);
    own.map(|flow| match flow.app {
        App::Cbr => f64::from(flow.packet_bytes - UDP_HEADERS_LEN) * 8.0 / flow.interval.as_secs_f64(),
        App::Iperf3 | App::Http | App::Transfer | App::ShortFlows => f64::INFINITY,
        App::Ping | App::Probe => 0.0,
    })
    .sum()
}

/// Returns the goodput of every VPN over time, one series for each direction.
///
/// `series` contains the goodput of the flows over time.
pub fn vpn_series(scenario: &Scenario, series: &[Series]) -> Vec<Series> {
    let mut all = Vec::new();
    for (number, vpn) in scenario.vpns.iter().enumerate() {
        for (direction, word) in [(FlowDirection::Up, "up"), (FlowDirection::Down, "down")] {
            let own = scenario.flows.iter().filter(|flow| flow.vpn == Some(number) && flow.direction == direction);
            let own = own.filter_map(|flow| series.iter().find(|s| s.name == flow.name && s.unit == "bit/s"));
            let mut steps: BTreeMap<u64, f64> = BTreeMap::new();
            for (time_s, bps) in own.flat_map(|series| series.averaged(SERIES_STEP_S)) {
                *steps.entry((time_s / SERIES_STEP_S).round() as u64).or_default() += bps;
            }
            if !steps.is_empty() {
                let points = steps.into_iter().map(|(step, bps)| (step as f64 * SERIES_STEP_S, bps)).collect();
                all.push(Series { name: format!("vpn:{}.{word}", vpn.name), unit: "bit/s", points });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        let text = "name = \"t\"\nduration = \"10 s\"\nwarmup = \"2 s\"\n[policy]\nleasable = \"6 Mbit/s\"\n\
            [[link]]\nname = \"a\"\nrate = \"10 Mbit/s\"\n[[vpn]]\nname = \"x\"\n[[vpn]]\nname = \"y\"\n\
            [[flow]]\napp = \"iperf3\"\nvpn = \"x\"\ncount = 2\n[[flow]]\nname = \"late\"\napp = \"iperf3\"\nvpn = \"y\"\nstart = \"6 s\"\n\
            [[event]]\nat = \"5 s\"\nvpn = \"y\"\nleased = \"6 Mbit/s\"\n";
        Scenario::parse(text, "t").unwrap()
    }

    fn flow(name: &str, goodput_bps: f64) -> FlowResult {
        FlowResult { name: name.into(), goodput_bps: Some(goodput_bps), ..FlowResult::default() }
    }

    #[test]
    fn a_vpn_gets_what_its_flows_get_and_is_due_its_promise_and_its_part() {
        let flows = [flow("iperf3-0", 1e6), flow("iperf3-1", 1e6), flow("late", 16e6)];
        let results = vpn_results(&scenario(), &flows, |vpn, _| EntryEnd { lost: vpn as f64, ..EntryEnd::default() });
        let [x, y] = &results[..] else { panic!("{results:?}") };
        assert_eq!((x.goodput_bps, y.goodput_bps), (2e6, 8e6), "the late one has half of the time that counts");
        assert_eq!((x.share, y.share, y.lost), (0.2, 0.8, 1.0));
        assert_eq!((x.promised_bps, y.promised_bps), (None, Some(6e6)));
        let fairness = |results: &[VpnResult]| vpn_fairness(&scenario(), results, FlowDirection::Up);
        assert_eq!(fairness(&results), Some(1.0));
        assert_eq!(vpn_fairness(&scenario(), &results, FlowDirection::Down), None);
        let alike = [VpnResult { goodput_bps: 8e6, ..x.clone() }, VpnResult { promised_bps: None, ..y.clone() }];
        assert_eq!(fairness(&alike), Some(1.0));
        let starved = [VpnResult { goodput_bps: 0.0, ..x.clone() }, VpnResult { promised_bps: None, ..y.clone() }];
        assert_eq!(fairness(&starved), Some(0.5));
    }

    #[test]
    fn a_vpn_below_its_share_leaves_the_rest_to_others() {
        let claim = |got, promised, asked| GoodputClaim { got, promised, weight: 1.0, asked };
        assert_eq!(due(&[claim(46.0, 0.0, f64::INFINITY), claim(46.0, 50.0, 46.0)]), [46.0, 46.0]);
        assert_eq!(due(&[claim(7.0, 4.0, f64::INFINITY), claim(3.0, 0.0, 15.0)]), [7.0, 3.0]);
        let three = [claim(1.0, 0.0, 1.0), claim(5.0, 0.0, 6.0), claim(9.0, 0.0, f64::INFINITY)];
        assert_eq!(due(&three), [1.0, 6.0, 8.0]);
    }

    #[test]
    fn a_vpn_s_series_is_the_sum_of_its_flows() {
        let points = |bps: f64| (1..=20).map(|n| (f64::from(n) * 0.1, bps)).collect();
        let series =
            ["iperf3-0", "iperf3-1"].map(|name| Series { name: name.into(), unit: "bit/s", points: points(1e6) });
        let [x] = &vpn_series(&scenario(), &series)[..] else { panic!("one VPN has flows with series") };
        assert_eq!((x.name.as_str(), x.points[0], x.points.len()), ("vpn:x.up", (0.5, 2e6), 4));
    }
}
