//! Row A1: the threshold T(N) of fast retransmit for each number of paths (paper 000, equation 1).

use super::super::Estimate;
use super::super::case::figure_2;
use super::super::laboratory::{Case, Laboratory};
use super::super::row::{Measured, Row, RowFinding, RowVerdict};
use super::super::sweep::PATHS;
use crate::network::build;
use weft_scenario::Traces;
use weft_sim::tcp::dup_thresh;

const EXPECTED: [u32; 5] = [3, 6, 6, 9, 9];

pub(super) const A1: Row = Row {
    id: "A1",
    figure: "Paper 000, equation 1",
    claim: "T is 3, 6, 6, 9, 9 for one to five paths",
    accept: "exactly",
    setup: "the threshold that flows get in Figure 2 with one to five paths",
    examine,
};

fn examine(_: &mut Laboratory) -> Result<RowFinding, String> {
    let thresholds = (1..=PATHS).map(threshold).collect::<Result<Vec<u32>, String>>()?;
    let mut measured = Measured::default();
    for (paths, threshold) in (1..).zip(&thresholds) {
        measured.add("T(N)", format!("N = {paths}"), Estimate::exact(f64::from(*threshold)));
    }
    Ok(RowFinding { measured, verdict: RowVerdict::of(thresholds == EXPECTED), ..RowFinding::default() })
}

fn threshold(paths: u32) -> Result<u32, String> {
    let Case { network, variant, .. } = figure_2(paths, 0, "spray-dup-thresh")?;
    let built = build(&network, &variant, 1, &Traces::new())?;
    Ok(built.flows.first().map_or(0, |flow| dup_thresh(flow.paths)))
}
