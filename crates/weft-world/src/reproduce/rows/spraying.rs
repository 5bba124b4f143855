//! Rows A2 to A4: Figure 3 of paper 000, the threshold of fast retransmit where packets are sprayed over paths.

use super::super::Estimate;
use super::super::case::figure_2;
use super::super::checks::Checks;
use super::super::laboratory::{Case, Laboratory, Outcomes};
use super::super::row::{Measured, Picture, Row, RowFinding, RowVerdict};
use super::super::sweep::{DIFFERENCES, FigureSweep, PATHS, goodput_mbps, ratio};
use weft_scenario::{Discipline, QueueSize};

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
        setup: "Figure 2 with five paths and T = 9; also with smaller queues, and with 25 % taken as the whole range of the delays",
        examine: quarter_beats_none,
    },
];

fn default_threshold(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let sweep = FigureSweep::run(lab, "spray")?;
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
    Ok(RowFinding {
        measured: sweep.ratios(""),
        verdict: checks.verdict(),
        remarks: checks.into_remarks(),
        picture: Some(picture),
        ..RowFinding::default()
    })
}

fn paper_threshold(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let sweep = FigureSweep::run(lab, "spray-dup-thresh")?;
    let with_three = FigureSweep::run(lab, "spray")?.ratio(5, 25).mean;
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
    Ok(RowFinding { picture: Some(picture), ..checks.finding(measured) })
}

/// One set of assumptions for Figure 2 of paper 000 with five paths and fast retransmit after T = 9 duplicates.
struct Assumption {
    what: &'static str,
    queue_packets: u64,
    /// Delay difference from path to path that stands for the paper's 25 %, in percent of the first path's delay.
    quarter: u32,
}

const ASSUMPTIONS: [Assumption; 4] = [
    Assumption { what: "as in the file", queue_packets: 100, quarter: 25 },
    Assumption { what: "queues of 50 packets", queue_packets: 50, quarter: 25 },
    Assumption { what: "the last path 24 % slower than the first", queue_packets: 100, quarter: 6 },
    Assumption { what: "both", queue_packets: 50, quarter: 6 },
];

fn quarter_beats_none(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let (mut measured, mut checks, mut better) = (Measured::default(), Checks::default(), Vec::new());
    for (number, assumption) in ASSUMPTIONS.iter().enumerate() {
        let outcomes = lab.measure(&[assumption.case(0)?, assumption.case(assumption.quarter)?])?;
        let gain = ratio(&outcomes[1], &outcomes[0]);
        for (outcomes, difference) in outcomes.iter().zip(["0 %", "25 %"]) {
            let row = format!("{}: {difference}", assumption.what);
            measured.add(&row, "Mbit/s", goodput_mbps(outcomes));
            measured.add(&row, "dropped in the core", dropped_in_core(outcomes));
            let spurious = outcomes.iter().map(|outcome| outcome.sum(|sender| sender.fast_retransmits) as f64);
            measured.add(&row, "fast retransmits", Estimate::of(spurious));
        }
        if gain.mean > 1.0 {
            better.push(assumption.what);
        }
        if number == 0 {
            checks.check(gain.mean > 1.0, || why_not(gain, &outcomes));
        }
    }
    let verdict = checks.verdict();
    let mut remarks = checks.into_remarks();
    if verdict == RowVerdict::Missed {
        let ahead = if better.is_empty() { "none of these".into() } else { better.join(", ") };
        remarks.push(format!("Assumptions under which 25 % is ahead: {ahead}."));
    }
    Ok(RowFinding { measured, verdict: verdict.or_reported(), remarks, ..RowFinding::default() })
}

fn why_not(gain: Estimate, outcomes: &[Outcomes]) -> String {
    let dropped = |outcomes: &Outcomes| dropped_in_core(outcomes).mean;
    format!(
        "25 % gives {:.2} of what 0 % gives. The core drops {:.0} packets at 0 % and {:.0} at 25 %, where most fast retransmits \
         answer what was late, not lost",
        gain.mean,
        outcomes.first().map_or(0.0, dropped),
        outcomes.last().map_or(0.0, dropped),
    )
}

impl Assumption {
    fn case(&self, difference: u32) -> Result<Case, String> {
        let mut case = figure_2(5, difference, "spray-dup-thresh")?;
        if self.queue_packets != 100 {
            for link in case.network.links_mut("*") {
                link.set_queue(QueueSize::Packets(self.queue_packets), Discipline::DropTail);
            }
            case.name += &format!(", queues of {}", self.queue_packets);
        }
        Ok(case)
    }
}

fn dropped_in_core(outcomes: &Outcomes) -> Estimate {
    let is_core = |name: &str| name.starts_with("in") || name.starts_with("out");
    Estimate::of(
        outcomes.iter().map(|outcome| {
            outcome.run.links.iter().filter(|link| is_core(&link.name)).map(|link| link.lost).sum::<f64>()
        }),
    )
}
