//! A9, A10: Figure 8, a backbone under three loads.

use super::super::Estimate;
use super::super::case::{FIGURE_7, case};
use super::super::checks::Checks;
use super::super::laboratory::{Laboratory, Outcomes};
use super::super::row::{Chart, Curve, Finding, Measured, Picture, Row};
use super::super::sweep::{goodput_mbps, ratio};
use weft_units::Rate;

const SETUP: &str =
    "Figure 7 as the scenario assumes it, since the paper's figure has no text; Pareto peaks of 30, 60 and 70 Mbit/s";

pub(super) const ROWS: [Row; 2] = [
    Row {
        id: "A9",
        figure: "Paper 000, Figure 8",
        claim: "light, heavy, congested: modified acknowledgements +43, +82, +94 %; T = 6 +56, +82, +92 %; by flow +61, +111, +122 %",
        accept: "signs and order (by flow above the others, more gain with more load); each within 25 points",
        setup: SETUP,
        examine: gains,
    },
    Row {
        id: "A10",
        figure: "Paper 000, Figure 8",
        claim: "with the usual receivers ECMP is worse than a single path when the load is light",
        accept: "below 1 with either receiver",
        setup: SETUP,
        examine: usual_receivers,
    },
];

const LOADS: [(&str, u64); 3] = [("light", 30), ("heavy", 60), ("congested", 70)];

/// What improves, and by how many percent under each load.
const GAINS: [(&str, [f64; 3]); 3] = [
    ("ecmp-modified-ack", [43.0, 82.0, 94.0]),
    ("ecmp-dup-thresh", [56.0, 82.0, 92.0]),
    ("two-lsps", [61.0, 111.0, 122.0]),
];

/// The outcomes of some variants, load by load.
fn under_loads<const N: usize>(lab: &mut Laboratory, variants: [&str; N]) -> Result<Vec<Vec<Outcomes>>, String> {
    let mut cases = Vec::new();
    for (load, peak) in LOADS {
        let mut network = FIGURE_7.read()?;
        network.flows_mut("*").for_each(|flow| flow.set_peak(Rate::from_mbps(peak)));
        for variant in variants {
            cases.push(case(&network, load, variant)?);
        }
    }
    Ok(lab.measure(&cases)?.chunks(N).map(<[Outcomes]>::to_vec).collect())
}

fn gain(outcomes: &Outcomes, single: &Outcomes) -> Estimate {
    let ratio = ratio(outcomes, single);
    Estimate { mean: (ratio.mean - 1.0) * 100.0, half_width: ratio.half_width * 100.0 }
}

fn gains(lab: &mut Laboratory) -> Result<Finding, String> {
    let outcomes = under_loads(lab, ["single", "ecmp-modified-ack", "ecmp-dup-thresh", "two-lsps"])?;
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for ((load, _), outcomes) in LOADS.iter().zip(&outcomes) {
        measured.add("single, Mbit/s", *load, goodput_mbps(&outcomes[0]));
    }
    let mut curves = Vec::new();
    for (number, (name, paper)) in GAINS.iter().enumerate() {
        let found: Vec<Estimate> = outcomes.iter().map(|of_load| gain(&of_load[number + 1], &of_load[0])).collect();
        for (((load, _), found), paper) in LOADS.iter().zip(&found).zip(paper) {
            measured.add(format!("{name}, gain in %"), *load, *found);
            checks.check(found.mean > 0.0, || format!("{name}, {load}: no gain"));
            checks.check((found.mean - paper).abs() <= 25.0, || {
                format!("{name}, {load}: {:+.0} %, the paper {paper:+.0} %", found.mean)
            });
        }
        for (pair, loads) in found.windows(2).zip(LOADS.windows(2)) {
            checks.check(pair[1].mean > pair[0].mean, || {
                format!("{name}: no more gain {} than {}", loads[1].0, loads[0].0)
            });
        }
        curves.push(curve(name, &found));
        curves.push(curve(&format!("{name}, paper"), &paper.map(Estimate::exact)));
    }
    for ((load, _), of_load) in LOADS.iter().zip(&outcomes) {
        let [modified, threshold, by_flow] = [1, 2, 3].map(|number| gain(&of_load[number], &of_load[0]).mean);
        checks.check(by_flow > modified.max(threshold), || format!("{load}: by flow is not the best"));
    }
    let chart = Chart {
        title: "gain over the single path, %".into(),
        x_label: "peak of each Pareto source, Mbit/s".into(),
        curves,
    };
    let picture = Picture {
        row: "A9",
        file: "paper-000-figure-8.svg",
        title: "Paper 000, Figure 8: a backbone under three loads",
        charts: vec![chart],
    };
    Ok(Finding { measured, pass: checks.pass(), remarks: checks.into_remarks(), picture: Some(picture) })
}

fn curve(name: &str, values: &[Estimate]) -> Curve {
    let points = LOADS.iter().zip(values).map(|((_, peak), value)| (*peak as f64, *value));
    Curve { name: name.into(), points: points.collect() }
}

fn usual_receivers(lab: &mut Laboratory) -> Result<Finding, String> {
    let outcomes = under_loads(lab, ["single", "ecmp", "ecmp-standard-ack"])?;
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for (number, name) in [(1, "not delayed"), (2, "standard")] {
        for ((load, _), of_load) in LOADS.iter().zip(&outcomes) {
            measured.add(name, *load, ratio(&of_load[number], &of_load[0]));
        }
        checks.below(&format!("{name}, light"), ratio(&outcomes[0][number], &outcomes[0][0]).mean, 1.0);
    }
    Ok(Finding { measured, pass: checks.pass(), remarks: checks.into_remarks(), picture: None })
}
