//! Row B12: the naval fleet, with weft's overlay and with plain TCP over the static route.

use super::super::Estimate;
use super::super::case::{FLEET, case};
use super::super::checks::Checks;
use super::super::laboratory::{Case, Laboratory, Outcomes};
use super::super::row::{Measured, Row, RowFinding};
use crate::network::NetworkRun;
use weft_scenario::DisturbanceResult;

pub(super) const B12: Row = Row {
    id: "B12",
    figure: "Paper 001, Figures 4 and 5",
    claim: "ships with two unlike satellite links each, and radio between them, fetch by ftp and http; up to ten impairments; ten times the goodput",
    accept: "ftp and http each 10 × plain TCP over the static route under every impairment, or the reason",
    setup: "the file's rates, delays, losses and ten impairments of 30 s are ours: the paper has none; plain TCP takes the geostationary link, the faster one; a goodput below 1 kbit/s counts as that in a quotient",
    examine,
};

const TIMES: f64 = 10.0;
/// Plain TCP's goodput counts as at least this when weft's goodput is divided by it, in bit/s.
///
/// The quotient is thus finite even if plain TCP delivers nothing.
const LEAST_BPS: f64 = 1e3;

fn examine(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let network = FLEET.read()?;
    let length = Some([network.duration, network.warmup]);
    let of = |variant| Ok::<_, String>(Case { length, ..case(&network, "as in the file", variant)? });
    let outcomes = lab.measure(&[of("static")?, of("weft")?])?;
    let [plain, weft] = &outcomes[..] else { return Err("the row needs the results of two variants".into()) };
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for (at, disturbance) in plain.first().map_or(&[][..], |run| &run.run.disturbances).iter().enumerate() {
        for (number, flow) in disturbance.flows.iter().enumerate() {
            let name = format!("{}: {}", flow.name, title(disturbance));
            let [without, with] = [plain, weft].map(|outcomes| goodputs_bps(outcomes, at, number));
            let quotients = without.iter().zip(&with).map(|(plain, weft)| weft / plain.max(LEAST_BPS));
            let quotient = Estimate::of(quotients);
            measured.add(&name, "static, Mbit/s", Estimate::of(without.iter().map(|bps| bps / 1e6)));
            measured.add(&name, "weft, Mbit/s", Estimate::of(with.iter().map(|bps| bps / 1e6)));
            measured.add(&name, "×", quotient);
            if !disturbance.what.is_empty() {
                checks.at_least(&name, quotient.mean, TIMES);
            }
        }
    }
    checks.check(!measured.0.is_empty(), || "the run was over before the first impairment".to_owned());
    let finding = checks.finding(measured);
    Ok(RowFinding { verdict: finding.verdict.or_reported(), ..finding })
}

fn title(disturbance: &DisturbanceResult) -> &str {
    if disturbance.what.is_empty() { "undisturbed" } else { &disturbance.what }
}

/// Returns the goodput of one `[[flow]]` entry during a disturbance, one value for each seed, in bit/s.
fn goodputs_bps(outcomes: &Outcomes, disturbance: usize, flow: usize) -> Vec<f64> {
    let of = |run: &NetworkRun| Some(run.run.disturbances.get(disturbance)?.flows.get(flow)?.goodput_bps);
    outcomes.iter().filter_map(of).collect()
}
