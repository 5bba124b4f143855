//! Rows C1 and C2: Table I of paper 002, strict weighted round robin over three equal links.

use super::super::Estimate;
use super::super::case::{TABLE_1, case, weighted};
use super::super::checks::Checks;
use super::super::laboratory::{Laboratory, Outcomes};
use super::super::row::{Measured, Row, RowFinding, RowVerdict};
use super::super::sweep::goodput_mbps;

pub(super) const ROWS: [Row; 2] = [
    Row {
        id: "C1",
        figure: "Paper 002, Table I",
        claim: "three links of 100 Mbit/s give 188 to 280 Mbit/s by their weights",
        accept: "each within 3 % of min Cᵢ·Σw/wᵢ, Cᵢ being what a link alone gives here",
        setup: "one BIC connection, as many packets on end as the weights say, queues of 1000 packets at the sender as Linux has them, so that nothing is lost",
        examine: table,
    },
    Row {
        id: "C2",
        figure: "Paper 002, text",
        claim: "“T(2, 2, 4) is about one-third of T(2, 2, 2)”",
        accept: "the paper's text is wrong, its own table has 188/280 = 67 %: within 3 points of 2/3",
        setup: "as C1",
        examine: one_third,
    },
];

/// The weights of the three links, and the goodput in Table I of paper 002 in Mbit/s.
const TABLE: [([u32; 3], f64); 10] = [
    ([2, 2, 2], 280.0),
    ([2, 2, 3], 220.0),
    ([2, 2, 4], 188.0),
    ([2, 3, 2], 220.0),
    ([2, 3, 3], 251.0),
    ([2, 3, 4], 211.0),
    ([2, 4, 4], 235.0),
    ([3, 3, 4], 235.0),
    ([3, 4, 3], 234.0),
    ([3, 4, 4], 258.0),
];

/// Returns the maximum total rate of strict weighted round robin over links of these capacities, in their unit.
///
/// It is min Cᵢ·Σw/wᵢ: the link whose capacity is the least for its weight limits all.
pub(super) fn bound(capacities: [f64; 3], weights: [u32; 3]) -> f64 {
    let sum = f64::from(weights.iter().sum::<u32>());
    capacities.iter().zip(weights).map(|(c, w)| c * sum / f64::from(w)).fold(f64::INFINITY, f64::min)
}

fn table(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let network = TABLE_1.read()?;
    let mut cases = vec![case(&network, "alone", "link0")?];
    for order in ["block", "smooth"] {
        for (weights, _) in TABLE {
            cases.push(weighted(&network, weights, order)?);
        }
    }
    let mut outcomes = lab.measure(&cases)?.into_iter();
    let alone = goodput_mbps(&outcomes.next().unwrap_or_default());
    let (block, smooth): (Vec<_>, Vec<_>) = (outcomes.by_ref().take(TABLE.len()).collect(), outcomes.collect());
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    measured.add("one link alone", "Mbit/s", alone);
    for (((weights, paper), block), smooth) in TABLE.iter().zip(&block).zip(&smooth) {
        let [a, b, c] = weights;
        let (row, bound, found) = (format!("⟨{a}, {b}, {c}⟩"), bound([alone.mean; 3], *weights), goodput_mbps(block));
        measured.add(&row, "Mbit/s", found);
        measured.add(&row, "min Cᵢ·Σw/wᵢ", Estimate::exact(bound));
        measured.add(&row, "paper", Estimate::exact(*paper));
        measured.add(&row, "well mixed", goodput_mbps(smooth));
        measured.add(&row, "timeouts then", timeouts(smooth));
        let off = (found.mean / bound - 1.0) * 100.0;
        checks.check(off.abs() <= 3.0, || format!("{row} is {off:+.1} % off the bound"));
    }
    Ok(checks.finding(measured))
}

fn timeouts(outcomes: &Outcomes) -> Estimate {
    Estimate::of(outcomes.iter().map(|outcome| outcome.sum(|sender| sender.timeouts) as f64))
}

fn one_third(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let network = TABLE_1.read()?;
    let cases = [weighted(&network, [2, 2, 4], "block")?, weighted(&network, [2, 2, 2], "block")?];
    let outcomes = lab.measure(&cases)?;
    let share = super::super::sweep::ratio(&outcomes[0], &outcomes[1]);
    let mut measured = Measured::default();
    measured.add("T(2, 2, 4) / T(2, 2, 2)", "", share);
    Ok(RowFinding {
        measured,
        verdict: RowVerdict::of((share.mean - 2.0 / 3.0).abs() <= 0.03),
        ..RowFinding::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_gives_the_papers_table_with_94_mbits_a_link() {
        for (weights, paper) in TABLE {
            assert!((bound([94.0; 3], weights) / paper - 1.0).abs() < 0.008, "{weights:?}");
        }
    }
}
