//! Changes each tuned constant by a quarter, and checks that no change makes weft much better.

use crate::check::{Bound, Check};
use crate::claim;
use crate::topic::Context;
use serde_json::json;

/// Seeds of the links. They are not among those that judge weft, because constants may be tuned with them.
const SEEDS: &str = "2000..2500";
/// Largest gain of the mean efficiency by a change of one constant, in percentage points.
///
/// A greater gain shows that the constant should be tuned again.
const MOST_GAIN: f64 = 1.0;

/// Runs the experiment. It takes hours, so a short run leaves it out.
pub fn run(context: &Context) -> Vec<Check> {
    if !context.full {
        return Vec::new();
    }
    context.progress.tell("tuned constants", 0, 1);
    let name = "largest certain gain by a change of a tuned constant by 25 %";
    let bound = Bound::AtMost(MOST_GAIN);
    let check = match claim::example("sensitivity", "tunable", &["--seeds", SEEDS]) {
        Ok(table) => Check::new(name, largest_gain(&table), bound, "points").with(json!({ "table": table })),
        Err(why) => Check::skipped(name, bound, "points", why),
    };
    vec![check]
}

/// Returns the largest gain in the table, less twice its standard error; `None` if the table has no gain.
fn largest_gain(table: &str) -> Option<f64> {
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let gains = rows.flat_map(|row| row.split('|').skip(2)).filter_map(certain_gain);
    gains.max_by(f64::total_cmp)
}

/// Returns the gain of a cell such as `+0.14 ± 0.23, -1, +1.8 %`, less twice its standard error.
fn certain_gain(cell: &str) -> Option<f64> {
    let (gain, rest) = cell.split_once('±')?;
    let (error, _) = rest.split_once(',')?;
    Some(gain.trim().parse::<f64>().ok()? - 2.0 * error.trim().parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::largest_gain;

    #[test]
    fn the_largest_gain_counts_less_twice_its_error() {
        let table = "2 links: efficiency 84.54 % in the mean\n\n| constant | −25 % | +25 % |\n|---|---|---|\n\
            | `a` | -0.68 ± 1.61, +0, +0.8 % | +2.50 ± 1.00, +0, -0.5 % |\n| `b` | not used on these links |\n\
            | `c` | +1.00 ± 0.10, -1, +0.0 % | -9.00 ± 0.00, +3, +0.0 % |\n";
        assert_eq!(largest_gain(table), Some(0.8));
        assert_eq!(largest_gain("| `b` | not used on these links |"), None);
    }
}
