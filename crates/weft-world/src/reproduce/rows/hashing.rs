//! A7: Figure 5, forwarding by flow.

use super::super::Estimate;
use super::super::checks::Checks;
use super::super::laboratory::{Laboratory, Outcomes};
use super::super::row::{Finding, Measured, Picture, Row};
use super::super::sweep::{DIFFERENCES, PATHS, Sweep};

pub(super) const A7: Row = Row {
    id: "A7",
    figure: "Paper 000, Figure 5",
    claim: "with forwarding by flow goodput rises in proportion to N, whatever the delays",
    accept: "R² > 0.99 over N at 0 %; at every difference ≥ 0.85 × the ratio at 0 %; the hash's balance is reported",
    setup: "Figure 2, flows hashed by addresses and ports (judged), and by source address alone, which here has ten values",
    examine,
};

fn examine(lab: &mut Laboratory) -> Result<Finding, String> {
    let (flows, sources) = (Sweep::run(lab, "flow-hash")?, Sweep::run(lab, "flow-hash-source")?);
    let mut checks = Checks::default();
    checks.at_least("R² at 0 %", flows.straightness(0), 0.99);
    for paths in 2..=PATHS {
        let equal = flows.ratio(paths, 0).mean;
        for difference in &DIFFERENCES[1..] {
            let what = format!("N = {paths}, {difference} %");
            checks.at_least(&what, flows.ratio(paths, *difference).mean, 0.85 * equal);
        }
    }
    let mut measured = flows.ratios("");
    measured.add("R² over N at 0 %", "", Estimate::exact(flows.straightness(0)));
    measured.0.extend(sources.ratios("by source: ").0);
    measured.add("by source: R² over N at 0 %", "", Estimate::exact(sources.straightness(0)));
    balance(&mut measured, "busiest path over mean", &flows);
    balance(&mut measured, "by source: busiest path over mean", &sources);
    let picture = Picture {
        row: "A7",
        file: "paper-000-figure-5.svg",
        title: "Paper 000, Figure 5: forwarding by flow",
        charts: vec![flows.chart("hash of addresses and ports"), sources.chart("hash of the source address")],
    };
    Ok(Finding { measured, pass: checks.pass(), remarks: checks.into_remarks(), picture: Some(picture) })
}

fn balance(measured: &mut Measured, row: &str, sweep: &Sweep) {
    for paths in 2..=PATHS {
        measured.add(row, format!("N = {paths}"), busiest_over_mean(sweep.outcomes(paths, 0)));
    }
}

/// Flows that send over the busiest path, over those of the mean path, told by the bytes towards the receivers.
fn busiest_over_mean(outcomes: &Outcomes) -> Estimate {
    Estimate::of(outcomes.iter().map(|outcome| {
        let is_path = |name: &str| name.starts_with("in-");
        let links = outcome.run.links.iter().filter(|link| is_path(&link.name) && link.direction == "up");
        let bytes: Vec<f64> = links.map(|link| link.sent_bytes).collect();
        let mean = bytes.iter().sum::<f64>() / bytes.len() as f64;
        bytes.into_iter().fold(0.0, f64::max) / mean
    }))
}
