//! A row beyond the checklist: acknowledgments over a return path that is fifty times narrower.
//!
//! It tests a claim of paper 000, §3.1.2.

use super::super::Estimate;
use super::super::case::{ASYMMETRIC as SCENARIO, case};
use super::super::laboratory::{Laboratory, Outcomes};
use super::super::row::{Measured, Row, RowFinding, RowVerdict};
use super::super::sweep::goodput_mbps;

pub(super) const ASYMMETRIC: Row = Row {
    id: "asymmetric",
    figure: "Paper 000, §3.1.2",
    claim: "fewer acknowledgements are useful where the way back is narrow",
    accept: "the modified rule sends fewer acknowledgements for each segment than the standard one, which sends fewer than none does",
    setup: "two paths, 50 Mbit/s there and 1 Mbit/s back, the second a quarter slower, ten FTPs packet by packet in turn",
    examine,
};

fn examine(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let network = SCENARIO.read()?;
    let variants = ["no-delay", "standard-ack", "modified-ack"];
    let cases =
        variants.map(|name| case(&network, "as in the file", name)).into_iter().collect::<Result<Vec<_>, _>>()?;
    let outcomes = lab.measure(&cases)?;
    let mut measured = Measured::default();
    for (name, outcomes) in variants.iter().zip(&outcomes) {
        measured.add(*name, "Mbit/s", goodput_mbps(outcomes));
        measured.add(*name, "acknowledgements a segment", acknowledgments_a_segment(outcomes));
    }
    let each: Vec<f64> = outcomes.iter().map(|outcomes| acknowledgments_a_segment(outcomes).mean).collect();
    measured.add(
        "acknowledgements saved by the modified rule, %",
        "",
        Estimate::exact((1.0 - each[2] / each[0]) * 100.0),
    );
    Ok(RowFinding {
        measured,
        verdict: RowVerdict::of(each[2] < each[1] && each[1] < each[0]),
        ..RowFinding::default()
    })
}

/// Returns the number of acknowledgments divided by the number of transmitted segments, retransmissions included.
///
/// Each run gives one value.
fn acknowledgments_a_segment(outcomes: &Outcomes) -> Estimate {
    Estimate::of(
        outcomes.iter().map(|outcome| outcome.acknowledgments as f64 / outcome.sum(|sender| sender.segments) as f64),
    )
}
