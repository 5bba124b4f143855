//! Rows A5 and A6: Figure 4 of paper 000, the receiver's rule for acknowledgments where packets are sprayed over paths.

use super::super::checks::Checks;
use super::super::laboratory::Laboratory;
use super::super::row::{Picture, Row, RowFinding};
use super::super::sweep::FigureSweep;

const SETUP: &str = "Figure 2, packet by packet in turn, T = 3; each receiver over its own single path; acknowledgements wait 200 ms at most";

pub(super) const ROWS: [Row; 2] = [
    Row {
        id: "A5",
        figure: "Paper 000, Figure 4 (a), (b)",
        claim: "without delayed acknowledgements, or with the standard ones, large differences make many paths worse than one",
        accept: "at 100 % below 1 for N = 5 with both, for N = 4 with the standard rule",
        setup: SETUP,
        examine: usual_receivers,
    },
    Row {
        id: "A6",
        figure: "Paper 000, Figure 4 (c)",
        claim: "the modified rule more than doubles goodput on two or three paths in spite of the differences; four or five gain no more",
        accept: "at 25 % ≥ 2 at N = 2, ≥ 3 at N = 3, and neither N = 4 nor N = 5 above N = 3",
        setup: SETUP,
        examine: modified_receiver,
    },
];

fn usual_receivers(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let (none, standard) = (FigureSweep::run(lab, "spray")?, FigureSweep::run(lab, "spray-standard-ack")?);
    let mut checks = Checks::default();
    checks.below("N = 5, 100 %, not delayed", none.ratio(5, 100).mean, 1.0);
    for paths in [4, 5] {
        checks.below(&format!("N = {paths}, 100 %, standard"), standard.ratio(paths, 100).mean, 1.0);
    }
    let mut measured = none.ratios("not delayed: ");
    measured.0.extend(standard.ratios("standard: ").0);
    let picture = Picture {
        row: "A5",
        file: "paper-000-figure-4-usual.svg",
        title: "Paper 000, Figure 4 (a), (b): the usual receivers",
        charts: vec![none.chart("(a) not delayed"), standard.chart("(b) standard delayed acknowledgements")],
    };
    Ok(RowFinding { picture: Some(picture), ..checks.finding(measured) })
}

fn modified_receiver(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let sweep = FigureSweep::run(lab, "spray-modified-ack")?;
    let ratio = |paths| sweep.ratio(paths, 25).mean;
    let mut checks = Checks::default();
    checks.at_least("N = 2, 25 %", ratio(2), 2.0);
    checks.at_least("N = 3, 25 %", ratio(3), 3.0);
    for paths in [4, 5] {
        checks.check(ratio(paths) <= ratio(3), || {
            format!("N = {paths}, 25 % is {:.2}, above N = 3 with {:.2}", ratio(paths), ratio(3))
        });
    }
    let picture = Picture {
        row: "A6",
        file: "paper-000-figure-4-modified.svg",
        title: "Paper 000, Figure 4 (c): the modified receiver",
        charts: vec![sweep.chart("(c) modified delayed acknowledgements")],
    };
    Ok(RowFinding {
        measured: sweep.ratios(""),
        verdict: checks.verdict(),
        remarks: checks.into_remarks(),
        picture: Some(picture),
        ..RowFinding::default()
    })
}
