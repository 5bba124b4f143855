//! A row of the checklist (one claim of a paper), and its result.

use super::Estimate;
use super::laboratory::Laboratory;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// The verdict on a row: whether the condition for its acceptance was met.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RowVerdict {
    /// The condition was met.
    Met,
    /// The condition was not met.
    #[default]
    Missed,
    /// The checklist requires only that figures are reported, or also accepts that the condition is not met.
    Reported,
}

impl RowVerdict {
    /// Returns the verdict on a row, given whether its condition was met.
    pub(super) fn of(is_met: bool) -> RowVerdict {
        if is_met { RowVerdict::Met } else { RowVerdict::Missed }
    }

    /// Returns the verdict of a row that may miss its condition if the reason is reported.
    pub(super) fn or_reported(self) -> RowVerdict {
        if self == RowVerdict::Missed { RowVerdict::Reported } else { self }
    }

    /// Returns the verdict's name in results.
    pub fn word(self) -> &'static str {
        match self {
            RowVerdict::Met => "yes",
            RowVerdict::Missed => "no",
            RowVerdict::Reported => "reported",
        }
    }
}

/// A row of the checklist.
pub(super) struct Row {
    /// The row's name in the checklist.
    pub id: &'static str,
    /// The number of the paper, and the figure, table or section in it, for example "Paper 000, Figure 8".
    pub figure: &'static str,
    /// The claim of the paper, which the row tests.
    pub claim: &'static str,
    /// The condition under which the row is accepted.
    pub accept: &'static str,
    /// The cases that run, and the assumptions where the paper leaves a setting open.
    pub setup: &'static str,
    /// Runs the cases of the row and tests the condition.
    pub examine: fn(&mut Laboratory) -> Result<RowFinding, String>,
}

impl Row {
    /// Returns the row with its result. `seeds` is the number of seeds with which its cases ran.
    pub fn result(&self, finding: RowFinding, seeds: u64) -> RowResult {
        RowResult {
            id: self.id,
            figure: self.figure,
            claim: self.claim,
            setup: self.setup,
            seeds,
            measured: finding.measured,
            accept: self.accept,
            verdict: finding.verdict,
            remarks: finding.remarks,
        }
    }
}

/// What the runs of a row have shown.
#[derive(Default)]
pub(super) struct RowFinding {
    pub measured: Measured,
    pub verdict: RowVerdict,
    /// Remarks that the row computes: conditions that were not met, or the results of other assumptions.
    ///
    /// Explanations by people are in `docs/reproduction-notes.md`.
    pub remarks: Vec<String>,
    pub picture: Option<Picture>,
    pub surfaces: Option<Surfaces>,
}

/// A picture with charts, as in one figure of a paper.
#[derive(Clone, PartialEq, Debug)]
pub struct Picture {
    /// The name of the checklist row to which the picture belongs.
    pub row: &'static str,
    /// The name of the picture's file.
    pub file: &'static str,
    /// The title of the picture.
    pub title: &'static str,
    /// The charts in the picture.
    pub charts: Vec<RowChart>,
}

/// A picture with surfaces, each of which shows a value for each pair of two settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Surfaces {
    /// The name of the checklist row to which the picture belongs.
    pub row: &'static str,
    /// The name of the picture's file.
    pub file: &'static str,
    /// The title of the picture.
    pub title: &'static str,
    /// Names of the settings of the columns and of the rows, with their units.
    pub axes: [&'static str; 2],
    /// The surfaces in the picture. Their values are in Mbit/s.
    pub surfaces: Vec<Surface>,
}

/// A value for each pair of two settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Surface {
    /// The name of the surface.
    pub name: String,
    /// Settings of the columns, as text.
    pub columns: Vec<String>,
    /// For each row: its setting as text, and its value for each column.
    pub rows: Vec<(String, Vec<f64>)>,
}

impl Surface {
    /// Returns a surface. `values` has the values of one row after another; the surface shows their means.
    pub(super) fn new(name: &str, columns: &[String], rows: &[String], values: &[Estimate]) -> Surface {
        let row =
            |(row, values): (&String, &[Estimate])| (row.clone(), values.iter().map(|value| value.mean).collect());
        let rows = rows.iter().zip(values.chunks(columns.len().max(1))).map(row).collect();
        Surface { name: name.to_owned(), columns: columns.to_vec(), rows }
    }
}

/// One chart of a picture.
#[derive(Clone, PartialEq, Debug)]
pub struct RowChart {
    /// The quantity on the vertical axis, with its unit.
    pub title: String,
    /// The quantity on the horizontal axis, with its unit.
    pub x_label: String,
    /// Names of the positions 0, 1, … of the horizontal axis. The values there are drawn as bars.
    ///
    /// Empty if the horizontal axis is a scale.
    pub categories: Vec<String>,
    /// The curves of the chart.
    pub curves: Vec<RowCurve>,
}

/// One curve of a chart.
#[derive(Clone, PartialEq, Debug)]
pub struct RowCurve {
    /// The curve's name.
    pub name: String,
    /// Points of the curve, from left to right: the value on the horizontal axis, and the estimate.
    pub points: Vec<(f64, Estimate)>,
}

/// A measured figure: its row and column in a table, and its value.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Name of the quantity, which is the table's row.
    pub row: String,
    /// Name of the table's column. Empty if the figure stands alone in its row.
    pub column: String,
    /// The measured value.
    pub value: Estimate,
}

/// The figures that a row of the checklist measured, in the order in which they are shown.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measured(pub Vec<Figure>);

impl Measured {
    pub(super) fn add(&mut self, row: impl Into<String>, column: impl Into<String>, value: Estimate) {
        self.0.push(Figure { row: row.into(), column: column.into(), value });
    }
}

impl Figure {
    /// Returns the figure's name in results.
    pub fn name(&self) -> String {
        if self.column.is_empty() { self.row.clone() } else { format!("{}, {}", self.row, self.column) }
    }
}

/// A row of the checklist with its result, as results show it.
#[derive(Clone, PartialEq, Debug)]
pub struct RowResult {
    /// The row's name in the checklist.
    pub id: &'static str,
    /// The number of the paper, and the figure, table or section in it.
    pub figure: &'static str,
    /// The claim of the paper.
    pub claim: &'static str,
    /// The cases that run, and the assumptions where the paper leaves a setting open.
    pub setup: &'static str,
    /// Number of seeds: the row's cases ran with the seeds from 1 to this one. Zero if nothing is random.
    pub seeds: u64,
    /// The figures that the row measured.
    pub measured: Measured,
    /// The condition under which the row is accepted.
    pub accept: &'static str,
    /// The verdict on the row: whether the condition was met.
    pub verdict: RowVerdict,
    /// Remarks that the row computes: conditions that were not met, or the results of other assumptions.
    pub remarks: Vec<String>,
}

impl Serialize for RowResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", self.id)?;
        map.serialize_entry("figure", self.figure)?;
        map.serialize_entry("claim", self.claim)?;
        map.serialize_entry("measured", &Named(&self.measured, |estimate| rounded(estimate.mean)))?;
        map.serialize_entry("ci95", &Named(&self.measured, |estimate| estimate.interval().map(rounded)))?;
        map.serialize_entry("accept", self.accept)?;
        map.serialize_entry("seeds", &self.seeds)?;
        map.serialize_entry("verdict", self.verdict.word())?;
        map.serialize_entry("pass", &(self.verdict != RowVerdict::Missed))?;
        map.serialize_entry("remarks", &self.remarks)?;
        map.end()
    }
}

/// Serializes measured figures as a map from their names to values, which the function computes.
struct Named<'a, T>(&'a Measured, fn(Estimate) -> T);

impl<T: Serialize> Serialize for Named<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Named(Measured(figures), value) = self;
        serializer.collect_map(figures.iter().map(|figure| (figure.name(), value(figure.value))))
    }
}

/// Rounds to six decimal places, so that results are readable.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
