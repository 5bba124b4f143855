//! Row A7: Figure 5 of paper 000, forwarding by a hash of the flow.

use super::super::Estimate;
use super::super::checks::Checks;
use super::super::laboratory::{Laboratory, Outcomes};
use super::super::row::{Measured, Picture, Row, RowFinding};
use super::super::sweep::{DIFFERENCES, FigureSweep, PATHS};

pub(super) const A7: Row = Row {
    id: "A7",
    figure: "Paper 000, Figure 5",
    claim: "with forwarding by flow goodput rises in proportion to N, whatever the delays",
    accept: "R² > 0.99 over N at 0 %; at every difference ≥ 0.85 × the ratio at 0 %; the hash's balance is reported",
    setup: "Figure 2, flows hashed by addresses and ports (judged), and by source address alone, which here has ten values",
    examine,
};

fn examine(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let (flows, sources) = (FigureSweep::run(lab, "flow-hash")?, FigureSweep::run(lab, "flow-hash-source")?);
    let mut checks = Checks::default();
    checks.at_least("R² at 0 %", flows.straightness(0), 0.99);
    for paths in 2..=PATHS {
        let equal = flows.ratio(paths, 0).mean;
        for difference in &DIFFERENCES[1..] {
            let what = format!("N = {paths}, {difference} %");
            checks.at_least(&what, flows.ratio(paths, *difference).mean, 0.85 * equal);
        }
    }
    let (verdict, mut remarks) = (checks.verdict(), checks.into_remarks());
    remarks.push(why(&flows));
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
    Ok(RowFinding { measured, verdict, remarks, picture: Some(picture), ..RowFinding::default() })
}

/// Returns a text that explains the goodput ratios of this sweep.
///
/// It states which ratios the receive window of 100 segments allows, and the least ratio where the slowest path is at
/// most twice as slow as the fastest.
fn why(flows: &FigureSweep) -> String {
    let kept = |paths, difference| flows.ratio(paths, difference).mean / flows.ratio(paths, 0).mean;
    let bound = |paths, difference| most_by_window(paths, difference) / most_by_window(paths, 0);
    let cells = (2..=PATHS).flat_map(|paths| DIFFERENCES[1..].iter().map(move |difference| (paths, *difference)));
    let near = cells.filter(|(paths, difference)| (paths - 1) * difference <= 100).map(|(n, x)| kept(n, x));
    format!(
        "With a window of 100 segments the flows on a slow path cannot fill it: at N = 5, 100 %, where the last path has five times the \
         delay of the first, that alone leaves {:.2} of the ratio at 0 % ({:.2} measured), at N = 4 {:.2} ({:.2} measured). Where the \
         slowest path is at most twice as slow as the fastest, which the paper's axis may as well mean, every ratio is at least {:.2} \
         of that at 0 %.",
        bound(5, 100),
        kept(5, 100),
        bound(4, 100),
        kept(4, 100),
        near.fold(f64::INFINITY, f64::min),
    )
}

/// Returns the maximum payload rate in Mbit/s that the receive windows of 100 flows allow in Figure 2 of paper 000.
///
/// The flows are spread evenly over `paths` paths.
fn most_by_window(paths: u32, difference_percent: u32) -> f64 {
    const WINDOW_MBIT: f64 = 100.0 * 512.0 * 8.0 / 1e6;
    const PAYLOAD: f64 = 512.0 / 552.0;
    let count = f64::from(paths);
    let room = (100.0 - 50.0 / count) * PAYLOAD;
    let rtt_s = |path: u32| 2e-3 * (20.0 * (1.0 + f64::from(path * difference_percent) / 100.0) + 2.0);
    (0..paths).map(|path| room.min(100.0 / count * WINDOW_MBIT / rtt_s(path))).sum()
}

fn balance(measured: &mut Measured, row: &str, sweep: &FigureSweep) {
    for paths in 2..=PATHS {
        measured.add(row, format!("N = {paths}"), busiest_over_mean(sweep.outcomes(paths, 0)));
    }
}

/// Returns the number of bytes toward receivers on the busiest path, divided by the mean of all paths.
///
/// Each run gives one value.
fn busiest_over_mean(outcomes: &Outcomes) -> Estimate {
    Estimate::of(outcomes.iter().map(|outcome| {
        let is_path = |name: &str| name.starts_with("in-");
        let links = outcome.run.links.iter().filter(|link| is_path(&link.name) && link.direction == "up");
        let bytes: Vec<f64> = links.map(|link| link.sent_bytes).collect();
        let mean = bytes.iter().sum::<f64>() / bytes.len() as f64;
        bytes.into_iter().fold(0.0, f64::max) / mean
    }))
}

#[cfg(test)]
mod tests {
    use super::most_by_window;

    #[test]
    fn windows_fill_near_paths_and_not_far_ones() {
        let room = 90.0 * 512.0 / 552.0;
        assert!((most_by_window(5, 0) - 5.0 * room).abs() < 1e-9);
        // The flows fill paths 1 and 2. Each of paths 3 to 5 has 20 of the 100 flows. Each of these flows sends at most
        // one window of 51 200 bytes in a round trip. Together they do not fill the path.
        let far = most_by_window(5, 100);
        assert!((far - (2.0 * room + 20.0 * 0.4096 * (1.0 / 0.124 + 1.0 / 0.164 + 1.0 / 0.204))).abs() < 1e-9);
    }
}
