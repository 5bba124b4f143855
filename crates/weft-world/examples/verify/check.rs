//! One check: a figure and the bound that it must meet.

use serde_json::{Value, json};
use std::fmt::Write as _;

/// Width of a line's name column, in characters. Tuned: the longest name of all checks fits.
const NAME_WIDTH: usize = 86;
/// Width of a line's figure column, in characters.
const FIGURE_WIDTH: usize = 22;

/// The bound of a figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Bound {
    /// The figure must be at least this.
    AtLeast(f64),
    /// The figure must be at most this.
    AtMost(f64),
}

/// One check with its verdict.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    name: String,
    figure: Option<f64>,
    bound: Bound,
    unit: &'static str,
    skipped: Option<String>,
    detail: Value,
}

impl Check {
    /// Compares `figure` in `unit` with its bound. A check without a figure fails.
    pub fn new(name: impl Into<String>, figure: Option<f64>, bound: Bound, unit: &'static str) -> Check {
        let figure = figure.filter(|figure| figure.is_finite());
        Check { name: name.into(), figure, bound, unit, skipped: None, detail: Value::Null }
    }

    /// Returns a check that could not be made, with the reason. Its verdict is that it fails.
    pub fn skipped(name: impl Into<String>, bound: Bound, unit: &'static str, why: impl Into<String>) -> Check {
        Check { skipped: Some(why.into()), ..Check::new(name, None, bound, unit) }
    }

    /// Adds details for the JSON output.
    pub fn with(self, detail: Value) -> Check {
        Check { detail, ..self }
    }

    /// True if the figure is within its bound.
    pub fn is_ok(&self) -> bool {
        self.figure.is_some_and(|figure| match self.bound {
            Bound::AtLeast(least) => figure >= least,
            Bound::AtMost(most) => figure <= most,
        })
    }

    /// Returns the check as one line of aligned columns.
    pub fn line(&self) -> String {
        let verdict = if self.is_ok() { "ok" } else { "FALLS SHORT" };
        let figure = match (&self.skipped, self.figure) {
            (Some(_), _) => "skipped".to_owned(),
            (None, None) => "no figure".to_owned(),
            (None, Some(figure)) => self.quantity(figure),
        };
        let bound = match self.bound {
            Bound::AtLeast(least) => format!(">= {}", self.quantity(least)),
            Bound::AtMost(most) => format!("<= {}", self.quantity(most)),
        };
        let mut line = format!("{verdict:<11}  {:<NAME_WIDTH$}  {figure:>FIGURE_WIDTH$}  {bound}", self.name);
        if let Some(why) = &self.skipped {
            let _ = write!(line, "  ({why})");
        }
        line
    }

    /// Returns the check as JSON.
    ///
    /// `sense` states whether the bound is a minimum or a maximum.
    pub fn json(&self) -> Value {
        let (sense, bound) = match self.bound {
            Bound::AtLeast(least) => ("at-least", least),
            Bound::AtMost(most) => ("at-most", most),
        };
        let detail = self.skipped.as_ref().map_or(self.detail.clone(), |why| json!({ "skipped": why }));
        json!({
            "name": self.name, "figure": self.figure, "bound": bound, "sense": sense, "unit": self.unit, "ok": self.is_ok(),
            "detail": detail,
        })
    }

    /// Formats a value with its unit.
    ///
    /// Numbers of items have no decimals, times and percentages have one, ratios have three.
    fn quantity(&self, value: f64) -> String {
        match self.unit {
            "links" | "failures" | "files" | "folders" | "fields" | "times" | "names" | "crates" | "rooms" => {
                format!("{value:.0} {}", self.unit)
            }
            "%" | "ms" | "kB" => format!("{value:.1} {}", self.unit),
            unit => format!("{value:.3} {unit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_holds_on_its_side_of_the_bound_only() {
        let least = |figure| Check::new("c", figure, Bound::AtLeast(0.95), "of plain").is_ok();
        assert_eq!([least(Some(0.95)), least(Some(0.949)), least(Some(2.0))], [true, false, true]);
        let most = |figure| Check::new("c", figure, Bound::AtMost(20.0), "ms").is_ok();
        assert_eq!([most(Some(20.0)), most(Some(20.1)), most(Some(0.0))], [true, false, true]);
    }

    #[test]
    fn a_check_without_a_figure_fails() {
        let bound = Bound::AtMost(20.0);
        assert!(!Check::new("c", None, bound, "ms").is_ok());
        assert!(!Check::new("c", Some(f64::NAN), bound, "ms").is_ok());
        let skipped = Check::skipped("c", bound, "ms", "no kernel");
        assert!(!skipped.is_ok());
        assert!(skipped.line().starts_with("FALLS SHORT  c") && skipped.line().ends_with("(no kernel)"));
        assert_eq!(skipped.json()["detail"]["skipped"], "no kernel");
    }

    #[test]
    fn lines_are_aligned_and_carry_units() {
        let well = Check::new("short", Some(19.0), Bound::AtMost(20.0), "ms").line();
        let ill = Check::new("longer name", Some(0.5), Bound::AtLeast(0.95), "of plain").line();
        assert!(well.starts_with("ok ") && well.ends_with("19.0 ms  <= 20.0 ms"), "{well}");
        assert!(ill.ends_with("0.500 of plain  >= 0.950 of plain"), "{ill}");
        assert_eq!(well.find("<="), ill.find(">="));
    }
}
