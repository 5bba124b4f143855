//! What a row of the checklist is, and what came of it.

use super::Estimate;
use super::laboratory::Laboratory;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// A row of the checklist.
pub(super) struct Row {
    /// Its name there.
    pub id: &'static str,
    /// Which paper, and which figure or table of it.
    pub figure: &'static str,
    /// What the paper says.
    pub claim: &'static str,
    /// What we ask for; empty where a figure is only recorded.
    pub accept: &'static str,
    /// What is run, and what the paper leaves open.
    pub setup: &'static str,
    /// Runs it and judges.
    pub examine: fn(&mut Laboratory) -> Result<Finding, String>,
}

impl Row {
    /// The row with what came of it.
    pub fn result(&self, finding: Finding) -> RowResult {
        RowResult {
            id: self.id,
            figure: self.figure,
            claim: self.claim,
            setup: self.setup,
            measured: finding.measured,
            accept: self.accept,
            pass: finding.pass,
            remarks: finding.remarks,
        }
    }
}

/// What came of a row.
#[derive(Default)]
pub(super) struct Finding {
    pub measured: Measured,
    pub pass: bool,
    /// What else there is to say, with its numbers: why a row misses, what other assumptions give.
    pub remarks: Vec<String>,
    pub picture: Option<Picture>,
    pub surfaces: Option<Surfaces>,
}

/// A picture of a figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Picture {
    /// The row it belongs to.
    pub row: &'static str,
    /// The name of its file.
    pub file: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Its panels.
    pub charts: Vec<Chart>,
}

/// A picture of surfaces.
#[derive(Clone, PartialEq, Debug)]
pub struct Surfaces {
    /// The row it belongs to.
    pub row: &'static str,
    /// The name of its file.
    pub file: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What columns and rows are, with their units.
    pub axes: [&'static str; 2],
    /// The surfaces, in Mbit/s.
    pub surfaces: Vec<Surface>,
}

/// What something is at each of two settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Surface {
    /// Its name.
    pub name: String,
    /// The columns' settings.
    pub columns: Vec<String>,
    /// The rows' settings, and a value for each column.
    pub rows: Vec<(String, Vec<f64>)>,
}

impl Surface {
    /// A surface with the values of one row after another.
    pub(super) fn new(name: &str, columns: &[String], rows: &[String], values: &[Estimate]) -> Surface {
        let row =
            |(row, values): (&String, &[Estimate])| (row.clone(), values.iter().map(|value| value.mean).collect());
        let rows = rows.iter().zip(values.chunks(columns.len().max(1))).map(row).collect();
        Surface { name: name.to_owned(), columns: columns.to_vec(), rows }
    }
}

/// One panel of a picture.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// What is shown, with its unit.
    pub title: String,
    /// What runs to the right, with its unit.
    pub x_label: String,
    /// The names of the places 0, 1, …, whose values are bars; none where values lie on a scale.
    pub categories: Vec<String>,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// One curve.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, Estimate)>,
}

/// A figure that was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// What it is of, its row in a table.
    pub row: String,
    /// Its column there; empty where it stands alone.
    pub column: String,
    /// Its value.
    pub value: Estimate,
}

/// What was measured, in this order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measured(pub Vec<Figure>);

impl Measured {
    pub(super) fn add(&mut self, row: impl Into<String>, column: impl Into<String>, value: Estimate) {
        self.0.push(Figure { row: row.into(), column: column.into(), value });
    }
}

impl Figure {
    /// Its name in results.
    pub fn name(&self) -> String {
        if self.column.is_empty() { self.row.clone() } else { format!("{}, {}", self.row, self.column) }
    }
}

/// A row as results have it.
#[derive(Clone, PartialEq, Debug)]
pub struct RowResult {
    /// Its name in the checklist.
    pub id: &'static str,
    /// Which paper, and which figure or table of it.
    pub figure: &'static str,
    /// What the paper says.
    pub claim: &'static str,
    /// What is run, and what the paper leaves open.
    pub setup: &'static str,
    /// What was measured.
    pub measured: Measured,
    /// What we ask for; empty where a figure is only recorded.
    pub accept: &'static str,
    /// Whether it was met.
    pub pass: bool,
    /// What else there is to say.
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
        map.serialize_entry("pass", &self.pass)?;
        map.serialize_entry("remarks", &self.remarks)?;
        map.end()
    }
}

/// One figure for each name.
struct Named<'a, T>(&'a Measured, fn(Estimate) -> T);

impl<T: Serialize> Serialize for Named<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Named(Measured(figures), value) = self;
        serializer.collect_map(figures.iter().map(|figure| (figure.name(), value(figure.value))))
    }
}

/// To six digits after the point, so that results can be read.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
