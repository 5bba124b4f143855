//! C3 to C6, the legacy half: BIC over three lossy links by weights. Explicit rates come with their own experiments.

use super::super::Estimate;
use super::super::case::{ACCESS, HETEROGENEOUS, case, weighted};
use super::super::checks::Checks;
use super::super::laboratory::{Case, Laboratory};
use super::super::row::{Chart, Curve, Finding, Measured, Panels, Picture, Row};
use super::super::sweep::goodput_mbps;
use weft_scenario::Network;

pub(super) const ROWS: [Row; 4] = [
    Row {
        id: "C3",
        figure: "Paper 002, Figure 3",
        claim: "over 50, 75 and 100 Mbit/s with 0.005 loss BIC gets little, and the same at all weights",
        accept: "BIC ≤ 40 Mbit/s at every weight",
        setup: "one BIC connection, 5 ms each way, w₁ = 50, weights well mixed",
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
        accept: "recorded: BIC stays below what the weights allow (TCP-ER's half has the maximum and minimum)",
        setup: "as C3 with 0.001 loss and the weights the paper names",
        examine: swept_weights,
    },
    Row {
        id: "C6",
        figure: "Paper 002, Figure 6",
        claim: "links of 7, 6 and 5 Mbit/s give 6.7, 5.6 and 4.7 Mbit/s alone; BIC over all of them less than their sum, 17.0",
        accept: "each link alone within 5 % of the paper's; BIC over all below 17.0",
        setup: "one BIC connection; loss 0.005, 0.0045, 0.002; 5, 8, 7 ms each way",
        examine: slow_links,
    },
];

const W2: [u32; 5] = [30, 50, 75, 90, 110];
const W3: [u32; 5] = [50, 75, 100, 125, 150];

fn with_loss(loss: f64) -> Result<Network, String> {
    let mut network = ACCESS.read()?;
    for link in network.links_mut("link*") {
        link.directions_mut().into_iter().for_each(|direction| direction.spec.loss = loss);
    }
    Ok(network)
}

fn surface(lab: &mut Laboratory) -> Result<Finding, String> {
    let network = ACCESS.read()?;
    let grid: Vec<[u32; 2]> = W2.iter().flat_map(|w2| W3.map(|w3| [*w2, w3])).collect();
    let cases =
        grid.iter().map(|[w2, w3]| weighted(&network, [50, *w2, *w3], "smooth")).collect::<Result<Vec<_>, _>>()?;
    let found: Vec<Estimate> = lab.measure(&cases)?.iter().map(goodput_mbps).collect();
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for ([w2, w3], found) in grid.iter().zip(&found) {
        measured.add(format!("w₂ = {w2}, Mbit/s"), format!("w₃ = {w3}"), *found);
        checks.check(found.mean <= 40.0, || format!("⟨50, {w2}, {w3}⟩ gives {:.1}", found.mean));
    }
    let curves = W2.iter().zip(found.chunks(W3.len())).map(|(w2, found)| Curve {
        name: format!("w₂ = {w2}"),
        points: W3.iter().zip(found).map(|(w3, found)| (f64::from(*w3), *found)).collect(),
    });
    let chart = Chart { title: "BIC, Mbit/s, w₁ = 50".into(), x_label: "w₃".into(), curves: curves.collect() };
    let picture = Picture {
        row: "C3",
        file: "paper-002-figure-3.svg",
        title: "Paper 002, Figure 3: BIC over 50, 75 and 100 Mbit/s with 0.005 loss",
        panels: Panels::Charts(vec![chart]),
    };
    Ok(Finding { picture: Some(picture), ..checks.finding(measured) })
}

fn both_losses(lab: &mut Laboratory) -> Result<Finding, String> {
    let mut measured = Measured::default();
    for loss in [0.005, 0.0005] {
        let case = lossy(loss, [50, 75, 100])?;
        let outcomes = lab.measure(&[case])?;
        measured.add("⟨50, 75, 100⟩, Mbit/s", format!("loss {loss}"), goodput_mbps(&outcomes[0]));
    }
    Ok(Finding { measured, pass: true, ..Finding::default() })
}

fn lossy(loss: f64, weights: [u32; 3]) -> Result<Case, String> {
    let mut case = weighted(&with_loss(loss)?, weights, "smooth")?;
    case.name += &format!(", loss {loss}");
    Ok(case)
}

fn swept_weights(lab: &mut Laboratory) -> Result<Finding, String> {
    const WEIGHTS: [[u32; 3]; 5] =
        [[450, 675, 900], [450, 600, 900], [450, 750, 900], [450, 675, 750], [450, 825, 750]];
    const CAPACITIES: [f64; 3] = [47.0, 70.5, 94.0];
    let cases = WEIGHTS.map(|weights| lossy(0.001, weights)).into_iter().collect::<Result<Vec<_>, _>>()?;
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for (weights, outcomes) in WEIGHTS.iter().zip(lab.measure(&cases)?) {
        let [a, b, c] = weights;
        let (row, bound) = (format!("⟨{a}, {b}, {c}⟩"), super::weights::bound(CAPACITIES, *weights));
        let found = goodput_mbps(&outcomes);
        measured.add(&row, "Mbit/s", found);
        measured.add(&row, "min Cᵢ·Σw/wᵢ", Estimate::exact(bound));
        checks.below(&row, found.mean, bound);
    }
    Ok(checks.finding(measured))
}

fn slow_links(lab: &mut Laboratory) -> Result<Finding, String> {
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
    for weights in WEIGHTS {
        let outcomes = lab.measure(&[weighted(&network, weights, "smooth")?])?;
        let ([a, b, c], found) = (weights, goodput_mbps(&outcomes[0]));
        measured.add(format!("⟨{a}, {b}, {c}⟩"), "Mbit/s", found);
        checks.below(&format!("⟨{a}, {b}, {c}⟩"), found.mean, 17.0);
    }
    Ok(checks.finding(measured))
}
