//! Row A8: Figure 6 of paper 000, explicit paths against equal-cost multipath.

use super::super::Estimate;
use super::super::case::{FIGURE_6, case};
use super::super::checks::Checks;
use super::super::laboratory::Laboratory;
use super::super::row::{Measured, Picture, Row, RowChart, RowCurve, RowFinding};
use super::super::sweep::{goodput_mbps, ratio};

pub(super) const A8: Row = Row {
    id: "A8",
    figure: "Paper 000, Figure 6",
    claim: "over a single path: ECMP with modified acknowledgements 1.80, with T = 6 1.94; by flow over two explicit paths 2.1, three 3.8",
    accept: "each within 20 %; by capacity and background two paths give (155 − 50)/(100 − 50) = 2.1, three (255 − 50)/50 = 4.1",
    setup: "Figure 6 as the text describes it; R0–R2 155 Mbit/s, all other core links 100 Mbit/s",
    examine,
};

/// The variants, and for each the ratio of its goodput to that of a single path in the paper, if the paper gives one.
const VARIANTS: [(&str, Option<f64>); 6] = [
    ("ecmp", None),
    ("ecmp-standard-ack", None),
    ("ecmp-modified-ack", Some(1.80)),
    ("ecmp-dup-thresh", Some(1.94)),
    ("two-lsps", Some(2.1)),
    ("three-lsps", Some(3.8)),
];

fn examine(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let network = FIGURE_6.read()?;
    let names = ["single"].into_iter().chain(VARIANTS.map(|(name, _)| name));
    let cases = names.map(|name| case(&network, "as in the file", name)).collect::<Result<Vec<_>, _>>()?;
    let outcomes = lab.measure(&cases)?;
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    let (mut ours, mut papers) = (Vec::new(), Vec::new());
    measured.add("single", "Mbit/s", goodput_mbps(&outcomes[0]));
    for (number, ((name, paper), outcomes_of)) in VARIANTS.iter().zip(&outcomes[1..]).enumerate() {
        let found = ratio(outcomes_of, &outcomes[0]);
        measured.add(*name, "Mbit/s", goodput_mbps(outcomes_of));
        measured.add(*name, "× single", found);
        ours.push((number as f64, found));
        if let Some(paper) = paper {
            papers.push((number as f64, Estimate::exact(*paper)));
            checks.check((found.mean / paper - 1.0).abs() <= 0.2, || {
                format!(
                    "{name} is {:.2}, {:+.0} % of the paper's {paper}",
                    found.mean,
                    (found.mean / paper - 1.0) * 100.0
                )
            });
        }
    }
    let chart = RowChart {
        title: "goodput over that of the single path".into(),
        x_label: String::new(),
        categories: VARIANTS.map(|(name, _)| name.to_owned()).to_vec(),
        curves: vec![RowCurve { name: "here".into(), points: ours }, RowCurve { name: "paper".into(), points: papers }],
    };
    let picture = Picture {
        row: "A8",
        file: "paper-000-figure-6.svg",
        title: "Paper 000, Figure 6: explicit paths against equal-cost multipath",
        charts: vec![chart],
    };
    Ok(RowFinding { picture: Some(picture), ..checks.finding(measured) })
}
