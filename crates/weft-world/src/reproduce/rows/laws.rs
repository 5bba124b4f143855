//! Row E-laws: runs all rows of paper 004 with both measures of the accumulation, by delay and by counted packets.

use super::super::laboratory::Laboratory;
use super::super::row::{Measured, Row, RowFinding, RowVerdict};

pub(super) const E_LAWS: Row = Row {
    id: "E-laws",
    figure: "Paper 004: accumulation by delay and by counts",
    claim: "a loop's accumulation grows by (λ − μ) T, counted over fixed intervals at both edges (§6.1)",
    accept: "reported: every row of paper 004 with the delay of markers as the measure, which the other rows have, and with the paper's counts",
    setup: "as rows E1 to E15; figures that are the same with both measures are left out",
    examine,
};

fn examine(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let (mut measured, mut missed) = (Measured::default(), Vec::new());
    let mut accepted: [Vec<&str>; 2] = Default::default();
    for row in super::all().iter().filter(|row| row.id.starts_with('E') && !super::is_own(row.id)) {
        let mut findings = Vec::new();
        for (place, is_counted) in [false, true].into_iter().enumerate() {
            lab.count_accumulation(is_counted);
            let finding = (row.examine)(lab);
            lab.count_accumulation(false);
            let finding = finding?;
            if finding.verdict != RowVerdict::Missed {
                accepted[place].push(row.id);
            }
            if is_counted {
                missed.extend(finding.remarks.iter().map(|remark| format!("{} by counts: {remark}", row.id)));
            }
            findings.push(finding.measured.0);
        }
        let [delay, counted] = &findings[..] else { continue };
        for (delay, counted) in delay.iter().zip(counted).filter(|(delay, counted)| delay != counted) {
            let name = format!("{}: {}", row.id, delay.name());
            measured.add(&name, "by delay", delay.value);
            measured.add(&name, "by counts", counted.value);
        }
    }
    let [delay, counted] = accepted.map(|rows| format!("{} ({})", rows.len(), rows.join(", ")));
    let mut remarks = vec![format!("Accepted by delay: {delay}. Accepted by counts: {counted}.")];
    remarks.extend(missed);
    Ok(RowFinding { measured, verdict: RowVerdict::Reported, remarks, ..RowFinding::default() })
}
