//! Rows C3 to C6: BIC and TCP-ER over three lossy links, with weights.

use super::super::Estimate;
use super::super::case::{ACCESS, HETEROGENEOUS, case, weighted};
use super::super::checks::Checks;
use super::super::laboratory::{Case, Laboratory};
use super::super::row::{Measured, Row, RowFinding, RowVerdict, Surface, Surfaces};
use super::super::sweep::goodput_mbps;
use super::weights::bound;
use weft_scenario::{CongestionControl, NetworkScenario, TcpRecovery};
use weft_units::Rate;

pub(super) const ROWS: [Row; 4] = [
    Row {
        id: "C3",
        figure: "Paper 002, Figure 3",
        claim: "over 50, 75 and 100 Mbit/s with 0.005 loss TCP-ER gets up to 146 Mbit/s near ⟨50, 70, 90⟩, BIC little and the same at all weights",
        accept: "TCP-ER ≥ 140 Mbit/s at its best, which is within 10 % of the capacities' ratio; BIC ≤ 40 at every weight",
        setup: "one connection, 5 ms each way, w₁ = 50, weights well mixed; the explicit rate is 0.97 of min Cᵢ·Σw/wᵢ",
        examine: surface,
    },
    Row {
        id: "C4",
        figure: "Paper 002, text",
        claim: "“a 0.1 % round trip packet loss rate”",
        accept: "the paper contradicts itself: 0.005 one way is about 1 % both ways; recorded with 0.005 and 0.0005",
        setup: "as C3 at ⟨50, 75, 100⟩",
        examine: both_losses,
    },
    Row {
        id: "C5",
        figure: "Paper 002, Figure 5",
        claim: "with 0.001 loss goodput follows the weights, most near ⟨450, 675, 900⟩, least at ⟨450, 825, 750⟩",
        accept: "TCP-ER has its most and its least where the paper has them (the weights allow 211.5 and 173.0); BIC stays below what they allow",
        setup: "as C3 with 0.001 loss and the weights the paper names",
        examine: swept_weights,
    },
    Row {
        id: "C6",
        figure: "Paper 002, Figure 6",
        claim: "links of 7, 6 and 5 Mbit/s give 6.7, 5.6 and 4.7 Mbit/s alone; over all of them at most their sum, 17.0, TCP-ER more than BIC",
        accept: "each link alone within 5 % of the paper's; TCP-ER ≥ 15.3 at its best weights, BIC below TCP-ER's best",
        setup: "one connection; loss 0.005, 0.0045, 0.002; 5, 8, 7 ms each way",
        examine: slow_links,
    },
];

/// Rates of the three links of Figures 3 to 5 of paper 002 in Mbit/s, with IP headers.
const RATES_MBPS: [f64; 3] = [50.0, 75.0, 100.0];
/// Weights w₂ of the second link in the sweep of paper 002, Figure 3, where the first link's weight w₁ is 50.
const W2: [u32; 5] = [30, 50, 75, 90, 110];
/// Weights w₃ of the third link in the sweep of paper 002, Figure 3, where the first link's weight w₁ is 50.
const W3: [u32; 5] = [50, 75, 100, 125, 150];
/// Weights w₂ of the second link in the sweep of paper 002, Figure 5, around ⟨w₁, w₂, w₃⟩ = ⟨450, 675, 900⟩.
const SWEPT_W2: [u32; 5] = [525, 600, 675, 750, 825];
/// Weights w₃ of the third link in the sweep of paper 002, Figure 5, around ⟨w₁, w₂, w₃⟩ = ⟨450, 675, 900⟩.
const SWEPT_W3: [u32; 5] = [750, 825, 900, 975, 1_050];
/// Rates of the three links of Figure 6 of paper 002, in Mbit/s.
const SLOW_MBPS: [f64; 3] = [7.0, 6.0, 5.0];
/// Weights w₂ of the second link in the sweep of paper 002, Figure 6, where the first link's weight w₁ is 7.
const SLOW_W2: [u32; 5] = [4, 5, 6, 7, 8];
/// Weights w₃ of the third link in the sweep of paper 002, Figure 6, where the first link's weight w₁ is 7.
const SLOW_W3: [u32; 5] = [3, 4, 5, 6, 7];

fn with_loss(loss: f64) -> Result<NetworkScenario, String> {
    let mut network = ACCESS.read()?;
    for link in network.links_mut("link*") {
        link.directions_mut().into_iter().for_each(|direction| direction.loss = loss);
    }
    Ok(network)
}

/// Returns the case with TCP-ER in place of BIC.
///
/// The explicit rate is 0.97 of the rate that links with these capacities carry together at these weights.
fn explicit(mut case: Case, capacities_mbps: [f64; 3], weights: [u32; 3]) -> Case {
    let rate = Rate::from_bps((bound(capacities_mbps, weights) * 0.97e6) as u64);
    for flow in &mut case.network.flows {
        flow.tcp.congestion = CongestionControl::ExplicitRate;
        flow.tcp.explicit_rate = rate;
        flow.tcp.recovery = TcpRecovery::Rack;
    }
    case.name += &format!(", explicit rate {rate}");
    case
}

fn surface(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let network = ACCESS.read()?;
    let grid: Vec<[u32; 2]> = W2.iter().flat_map(|w2| W3.map(|w3| [*w2, w3])).collect();
    let [bic, er] = weight_surfaces(lab, &network, RATES_MBPS, (50, &W2, &W3))?;
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for (name, found) in [("BIC", &bic), ("TCP-ER", &er)] {
        for ([w2, w3], found) in grid.iter().zip(found) {
            measured.add(format!("{name}, w₂ = {w2}, Mbit/s"), format!("w₃ = {w3}"), *found);
        }
    }
    for ([w2, w3], bic) in grid.iter().zip(&bic) {
        checks.check(bic.mean <= 40.0, || format!("BIC at ⟨50, {w2}, {w3}⟩ gives {:.1}", bic.mean));
    }
    let best = grid.iter().zip(&er).max_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean));
    let ([w2, w3], most) = best.ok_or("no weights")?;
    measured.add("TCP-ER's best, w₂ and w₃", "w₂", Estimate::exact(f64::from(*w2)));
    measured.add("TCP-ER's best, w₂ and w₃", "w₃", Estimate::exact(f64::from(*w3)));
    checks.check(most.mean >= 140.0, || format!("TCP-ER's best is {:.1}", most.mean));
    let is_near = |weight: u32, wanted: f64| (f64::from(weight) / wanted - 1.0).abs() <= 0.1;
    checks.check(is_near(*w2, 75.0) && is_near(*w3, 100.0), || format!("TCP-ER's best is at ⟨50, {w2}, {w3}⟩"));
    let surfaces = surfaces_of(
        "C3",
        "paper-002-figure-3.svg",
        "Paper 002, Figures 3 and 4: 50, 75 and 100 Mbit/s with 0.005 loss, w₁ = 50",
        [&W2, &W3],
        [&bic, &er],
    );
    Ok(RowFinding { surfaces: Some(surfaces), ..checks.finding(measured) })
}

fn surfaces_of(
    row: &'static str,
    file: &'static str,
    title: &'static str,
    [w2, w3]: [&[u32]; 2],
    [bic, er]: [&[Estimate]; 2],
) -> Surfaces {
    let [columns, rows] = [w3, w2].map(|weights| weights.iter().map(u32::to_string).collect::<Vec<_>>());
    let surface = |name: &str, found: &[Estimate]| Surface::new(name, &columns, &rows, found);
    Surfaces { row, file, title, axes: ["w₃", "w₂"], surfaces: vec![surface("BIC", bic), surface("TCP-ER", er)] }
}

/// Returns the goodputs of BIC and of TCP-ER over links of these capacities, in Mbit/s.
///
/// Each list has one value for each pair of the weights `w2` and `w3`. The first weight is always `w1`.
fn weight_surfaces(
    lab: &mut Laboratory,
    network: &NetworkScenario,
    capacities_mbps: [f64; 3],
    (w1, w2, w3): (u32, &[u32], &[u32]),
) -> Result<[Vec<Estimate>; 2], String> {
    let grid = w2.iter().flat_map(|w2| w3.iter().map(move |w3| [w1, *w2, *w3]));
    let bic = grid.clone().map(|weights| weighted(network, weights, "smooth")).collect::<Result<Vec<_>, _>>()?;
    let er: Vec<Case> =
        bic.iter().zip(grid).map(|(case, weights)| explicit(case.clone(), capacities_mbps, weights)).collect();
    let mut mbps = |cases: &[Case]| Ok::<_, String>(lab.measure(cases)?.iter().map(goodput_mbps).collect::<Vec<_>>());
    Ok([mbps(&bic)?, mbps(&er)?])
}

fn both_losses(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let mut measured = Measured::default();
    for loss in [0.005, 0.0005] {
        let case = lossy(loss, [50, 75, 100])?;
        let er = explicit(case.clone(), RATES_MBPS, [50, 75, 100]);
        for (name, case) in [("BIC", case), ("TCP-ER", er)] {
            let outcomes = lab.measure(&[case])?;
            measured.add(
                format!("{name} at ⟨50, 75, 100⟩, Mbit/s"),
                format!("loss {loss}"),
                goodput_mbps(&outcomes[0]),
            );
        }
    }
    Ok(RowFinding { measured, verdict: RowVerdict::Reported, ..RowFinding::default() })
}

fn lossy(loss: f64, weights: [u32; 3]) -> Result<Case, String> {
    let mut case = weighted(&with_loss(loss)?, weights, "smooth")?;
    case.name += &format!(", loss {loss}");
    Ok(case)
}

fn swept_weights(lab: &mut Laboratory) -> Result<RowFinding, String> {
    const WEIGHTS: [[u32; 3]; 5] =
        [[450, 675, 900], [450, 600, 900], [450, 750, 900], [450, 675, 750], [450, 825, 750]];
    const CAPACITIES: [f64; 3] = [47.0, 70.5, 94.0];
    let cases = WEIGHTS.map(|weights| lossy(0.001, weights)).into_iter().collect::<Result<Vec<_>, _>>()?;
    let (mut measured, mut checks, mut rows) = (Measured::default(), Checks::default(), Vec::new());
    for (weights, outcomes) in WEIGHTS.iter().zip(lab.measure(&cases)?) {
        let [a, b, c] = weights;
        let (row, bound) = (format!("⟨{a}, {b}, {c}⟩"), bound(CAPACITIES, *weights));
        let found = goodput_mbps(&outcomes);
        rows.push((row.clone(), [("BIC, Mbit/s", found), ("min Cᵢ·Σw/wᵢ", Estimate::exact(bound))]));
        checks.below(&row, found.mean, bound);
    }
    let er = cases.iter().zip(WEIGHTS).map(|(case, weights)| explicit(case.clone(), RATES_MBPS, weights));
    let er: Vec<Estimate> = lab.measure(&er.collect::<Vec<_>>())?.iter().map(goodput_mbps).collect();
    for ((row, figures), er) in rows.into_iter().zip(&er) {
        figures.into_iter().for_each(|(column, found)| measured.add(&row, column, found));
        measured.add(row, "TCP-ER, Mbit/s", *er);
    }
    let at = |extreme: Option<(usize, &Estimate)>| extreme.map(|(position, _)| position);
    let most = at(er.iter().enumerate().max_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean)));
    let least = at(er.iter().enumerate().min_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean)));
    checks.check(most == Some(0), || format!("TCP-ER has its most at number {most:?} of the weights"));
    checks.check(least == Some(4), || format!("TCP-ER has its least at number {least:?} of the weights"));
    let mut network = with_loss(0.001)?;
    network.name += ", loss 0.001";
    let found = weight_surfaces(lab, &network, RATES_MBPS, (450, &SWEPT_W2, &SWEPT_W3))?;
    let surfaces = surfaces_of(
        "C5",
        "paper-002-figure-5.svg",
        "Paper 002, Figure 5: 50, 75 and 100 Mbit/s with 0.001 loss, w₁ = 450",
        [&SWEPT_W2, &SWEPT_W3],
        [&found[0], &found[1]],
    );
    Ok(RowFinding { surfaces: Some(surfaces), ..checks.finding(measured) })
}

fn slow_links(lab: &mut Laboratory) -> Result<RowFinding, String> {
    const ALONE: [(&str, f64); 3] = [("link0", 6.7), ("link1", 5.6), ("link2", 4.7)];
    const WEIGHTS: [[u32; 3]; 5] = [[7, 6, 5], [67, 56, 47], [1, 1, 1], [5, 6, 7], [4, 2, 1]];
    let network = HETEROGENEOUS.read()?;
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for (name, paper) in ALONE {
        let outcomes = lab.measure(&[case(&network, "alone", name)?])?;
        let found = goodput_mbps(&outcomes[0]);
        measured.add(name, "Mbit/s", found);
        measured.add(name, "paper", Estimate::exact(paper));
        checks.check((found.mean / paper - 1.0).abs() <= 0.05, || {
            format!("{name} alone gives {:.2}, the paper {paper}", found.mean)
        });
    }
    let (mut best_bic, mut best_er) = (0.0f64, 0.0f64);
    for weights in WEIGHTS {
        let bic = weighted(&network, weights, "smooth")?;
        let er = explicit(bic.clone(), SLOW_MBPS, weights);
        let [bic, er] = [bic, er].map(|case| lab.measure(&[case]).map(|outcomes| goodput_mbps(&outcomes[0])));
        let ([a, b, c], bic, er) = (weights, bic?, er?);
        measured.add(format!("⟨{a}, {b}, {c}⟩"), "BIC, Mbit/s", bic);
        measured.add(format!("⟨{a}, {b}, {c}⟩"), "TCP-ER, Mbit/s", er);
        (best_bic, best_er) = (best_bic.max(bic.mean), best_er.max(er.mean));
    }
    checks.check(best_er >= 15.3, || format!("TCP-ER's best is {best_er:.2}"));
    checks.check(best_bic < best_er, || format!("BIC's best is {best_bic:.2}, TCP-ER's {best_er:.2}"));
    let found = weight_surfaces(lab, &network, SLOW_MBPS, (7, &SLOW_W2, &SLOW_W3))?;
    let surfaces = surfaces_of(
        "C6",
        "paper-002-figure-6.svg",
        "Paper 002, Figure 6: 7, 6 and 5 Mbit/s with their own losses and delays, w₁ = 7",
        [&SLOW_W2, &SLOW_W3],
        [&found[0], &found[1]],
    );
    Ok(RowFinding { surfaces: Some(surfaces), ..checks.finding(measured) })
}
