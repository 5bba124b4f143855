//! A2 to A4: Figure 3, the threshold of fast retransmit where packets are sprayed.

use super::super::Estimate;
use super::super::checks::Checks;
use super::super::laboratory::Laboratory;
use super::super::row::{Finding, Measured, Picture, Row};
use super::super::sweep::{DIFFERENCES, PATHS, Sweep, goodput_mbps};

const SETUP: &str =
    "Figure 2, packet by packet in turn; path k (from 0) slower by the factor 1 + k·x, x on top of the columns";

pub(super) const ROWS: [Row; 3] = [
    Row {
        id: "A2",
        figure: "Paper 000, Figure 3, T = 3",
        claim: "with the default threshold many paths are even worse than one when their delays differ",
        accept: "the ratio falls as the difference grows for N ≥ 3; at 100 % below 1 for N = 4 and 5; at 25 % N = 5 below N = 2",
        setup: SETUP,
        examine: default_threshold,
    },
    Row {
        id: "A3",
        figure: "Paper 000, Figure 3, T(N)",
        claim: "with T(N) goodput rises in proportion to N, drastically better whatever the delays, less so as they differ more",
        accept: "R² > 0.99 over N at 0 %; at 25 % ≥ 0.9 × the ratio at 0 % for N = 2 to 4; at N = 5, 25 % ≥ 2 × the ratio with T = 3",
        setup: SETUP,
        examine: paper_threshold,
    },
    Row {
        id: "A4",
        figure: "Paper 000, Figure 3, N = 5",
        claim: "with T(5) = 9 a difference of 25 % beats none, since the larger bandwidth-delay product drops fewer packets",
        accept: "25 % above 0 %, or why not",
        setup: SETUP,
        examine: quarter_beats_none,
    },
];

fn default_threshold(lab: &mut Laboratory) -> Result<Finding, String> {
    let sweep = Sweep::run(lab, "spray")?;
    let ratio = |paths, difference| sweep.ratio(paths, difference).mean;
    let mut checks = Checks::default();
    for paths in 3..=PATHS {
        for pair in DIFFERENCES.windows(2) {
            let what = format!("N = {paths}: the ratio at {} %", pair[1]);
            checks.below(&what, ratio(paths, pair[1]), ratio(paths, pair[0]));
        }
    }
    for paths in [4, 5] {
        checks.below(&format!("N = {paths}, 100 %"), ratio(paths, 100), 1.0);
    }
    checks.below("N = 5, 25 %", ratio(5, 25), ratio(2, 25));
    let picture = Picture {
        row: "A2",
        file: "paper-000-figure-3-default.svg",
        title: "Paper 000, Figure 3: fast retransmit after 3 duplicates",
        charts: vec![sweep.chart("T = 3")],
    };
    Ok(Finding {
        measured: sweep.ratios(""),
        pass: checks.pass(),
        remarks: checks.into_remarks(),
        picture: Some(picture),
    })
}

fn paper_threshold(lab: &mut Laboratory) -> Result<Finding, String> {
    let sweep = Sweep::run(lab, "spray-dup-thresh")?;
    let with_three = Sweep::run(lab, "spray")?.ratio(5, 25).mean;
    let ratio = |paths, difference| sweep.ratio(paths, difference).mean;
    let mut checks = Checks::default();
    checks.at_least("R² at 0 %", sweep.straightness(0), 0.99);
    for paths in 2..=4 {
        checks.at_least(&format!("N = {paths}, 25 %"), ratio(paths, 25), 0.9 * ratio(paths, 0));
    }
    checks.at_least("N = 5, 25 %", ratio(5, 25), 2.0 * with_three);
    let mut measured = sweep.ratios("");
    measured.add("R² over N at 0 %", "", Estimate::exact(sweep.straightness(0)));
    measured.add("N = 5, 25 %, T = 3", "", Estimate::exact(with_three));
    let picture = Picture {
        row: "A3",
        file: "paper-000-figure-3-threshold.svg",
        title: "Paper 000, Figure 3: fast retransmit after T(N) duplicates",
        charts: vec![sweep.chart("T(N)")],
    };
    Ok(Finding { measured, pass: checks.pass(), remarks: checks.into_remarks(), picture: Some(picture) })
}

fn quarter_beats_none(lab: &mut Laboratory) -> Result<Finding, String> {
    let sweep = Sweep::run(lab, "spray-dup-thresh")?;
    let mut measured = Measured::default();
    for difference in [0, 25] {
        let outcomes = sweep.outcomes(5, difference);
        let mut add = |row: &str, value| measured.add(row, format!("{difference} %"), value);
        add("N = 5, T = 9", sweep.ratio(5, difference));
        add("Mbit/s", goodput_mbps(outcomes));
        let dropped = |lost: &dyn Fn(&str) -> bool| {
            let links = |outcome: &crate::network::NetworkRun| {
                outcome.run.links.iter().filter(|link| lost(&link.name)).map(|link| link.lost).sum::<f64>()
            };
            Estimate::of(outcomes.iter().map(links))
        };
        add("packets dropped in the core", dropped(&|name| name.starts_with("in") || name.starts_with("out")));
        add(
            "fast retransmits",
            Estimate::of(outcomes.iter().map(|outcome| outcome.sum(|sender| sender.fast_retransmits) as f64)),
        );
    }
    let mut checks = Checks::default();
    checks.check(sweep.ratio(5, 25).mean > sweep.ratio(5, 0).mean, || "25 % is not above 0 %".into());
    Ok(Finding { measured, pass: checks.pass(), remarks: checks.into_remarks(), picture: None })
}
