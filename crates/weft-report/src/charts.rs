//! Draws curves in panels, one below the other: time series, and the figures of a reproduction.

use crate::style::{
    Area, FAINT, GRID, INK, MARGIN, Painted, STRONG, TITLE_HEIGHT, WIDTH, paint_title, picture_error, svg, text,
};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};
use std::ops::Range;
use std::path::Path;
use std::{fs, io};
use weft_scenario::Series;

const PANEL_HEIGHT: u32 = 260;
/// Width of the column beside a panel that names its curves, in pixels.
const LEGEND_WIDTH: u32 = 190;
/// Length of the line before a name in the legend, in pixels.
const LEGEND_LINE: i32 = 20;
/// Distance from one name to the next name in the legend, in pixels.
const LEGEND_STEP: i32 = 18;
const PANEL_TOP: i32 = 28;
/// Fraction of a category's width that the category's bars take together.
const BARS: f64 = 0.7;

/// One panel of a picture, with its axes and curves.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Chart {
    /// The quantity on the vertical axis, with its unit.
    pub title: String,
    /// The quantity on the horizontal axis, with its unit.
    pub x_label: String,
    /// Names of the positions 0, 1, … on the horizontal axis. The values there are drawn as bars.
    ///
    /// Empty if the horizontal axis is a scale.
    pub categories: Vec<String>,
    /// The curves. The first six have different colours.
    pub curves: Vec<Curve>,
}

/// One curve of a panel.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Curve {
    /// The name of the curve in the legend beside the panel.
    pub name: String,
    /// The curve's points, from left to right.
    pub points: Vec<(f64, f64)>,
    /// Half the width of each point's confidence interval, in the points' order. Empty if there are no intervals.
    pub half_widths: Vec<f64>,
}

impl Chart {
    /// Returns a panel with one curve for each time series, with all values divided by `scale`.
    ///
    /// A scale of 1e6 turns bit/s into Mbit/s.
    pub fn of_series<'a>(title: &str, series: impl IntoIterator<Item = &'a Series>, scale: f64) -> Chart {
        let curve = |series: &Series| Curve {
            name: series.name.clone(),
            points: series.points.iter().map(|(time_s, value)| (*time_s, value / scale)).collect(),
            half_widths: Vec::new(),
        };
        let curves = series.into_iter().map(curve).collect();
        Chart { title: title.into(), x_label: "seconds".into(), curves, ..Chart::default() }
    }

    /// True if all values on the vertical axis are whole numbers, as counts are.
    fn counts(&self) -> bool {
        let whole = |(_, y): &(f64, f64)| y.fract() == 0.0 || !y.is_finite();
        self.curves.iter().all(|curve| curve.half_widths.is_empty() && curve.points.iter().all(whole))
    }

    /// True if all points are at whole numbers on the horizontal axis, such as numbers of paths.
    fn has_whole_x(&self) -> bool {
        self.curves.iter().flat_map(|curve| &curve.points).all(|(x, _)| x.fract() == 0.0 || !x.is_finite())
    }

    fn x_labels(&self) -> usize {
        match self.categories.len() {
            0 if self.has_whole_x() => whole_labels(&self.x_range()),
            0 => 10,
            // One label for each category, and one empty label for each position halfway between two categories.
            categories => 2 * categories,
        }
    }

    /// Returns the text below the horizontal axis at the position `x`. It is empty halfway between two categories.
    fn label(&self, x: f64) -> String {
        if !self.categories.is_empty() {
            let category = (x.fract() == 0.0 && x >= 0.0).then(|| self.categories.get(x as usize)).flatten();
            category.cloned().unwrap_or_default()
        } else if self.has_whole_x() {
            format!("{x:.0}")
        } else {
            format!("{}", (x * 1e6).round() / 1e6)
        }
    }

    /// Returns the horizontal positions at which the bar of a point at `x` begins and ends.
    ///
    /// `curve` is the index of the point's curve. The bars of several curves stand side by side.
    fn bar(&self, curve: usize, x: f64) -> (f64, f64) {
        let width = BARS / self.curves.len().max(1) as f64;
        let start = x - BARS / 2.0 + curve as f64 * width;
        (start, start + width)
    }

    fn x_range(&self) -> Range<f64> {
        if !self.categories.is_empty() {
            return -0.5..self.categories.len() as f64 - 0.5;
        }
        let xs = || self.curves.iter().flat_map(|curve| &curve.points).map(|(x, _)| *x).filter(|x| x.is_finite());
        widened(xs().fold(f64::INFINITY, f64::min)..xs().fold(f64::NEG_INFINITY, f64::max))
    }

    /// Returns the range of the vertical axis. It begins at zero, or at the least value if that is negative.
    fn y_range(&self) -> Range<f64> {
        let ends = || self.curves.iter().flat_map(Curve::intervals).filter(|(_, low, high)| (high - low).is_finite());
        let least = ends().map(|(_, low, _)| low).fold(0.0, f64::min);
        let most = ends().map(|(_, _, high)| high).fold(0.0, f64::max);
        widened(least * 1.05..most * 1.05)
    }
}

impl Curve {
    /// Returns for each point its x, and the lower and the upper end of its confidence interval.
    fn intervals(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        let widths = self.half_widths.iter().copied().chain(std::iter::repeat(0.0));
        self.points.iter().zip(widths).map(|((x, y), width)| (*x, y - width, y + width))
    }
}

/// Returns the number of labels on an axis: one for each whole number in `range`, but at most ten.
fn whole_labels(range: &Range<f64>) -> usize {
    ((range.end - range.start) as usize + 1).min(10)
}

fn middle_of((start, end): (f64, f64)) -> f64 {
    f64::midpoint(start, end)
}

/// Returns `range`, or a wider range if it is empty or infinite, because an axis needs some width.
fn widened(range: Range<f64>) -> Range<f64> {
    if range.end > range.start {
        range
    } else if range.start.is_finite() {
        range.start..range.start + 1.0
    } else {
        0.0..1.0
    }
}

/// Draws charts into an SVG file, one below the other.
///
/// # Errors
/// Returns an error that names the file if it cannot be written.
pub fn charts_picture(file: &Path, title: &str, subtitle: &str, charts: &[Chart]) -> io::Result<()> {
    picture(title, subtitle, charts).and_then(|svg| Ok(fs::write(file, svg)?)).map_err(|why| picture_error(file, &*why))
}

fn picture(title: &str, subtitle: &str, charts: &[Chart]) -> Result<String, Box<dyn std::error::Error>> {
    svg(TITLE_HEIGHT + PANEL_HEIGHT * charts.len() as u32, |root| {
        let (head, mut rest) = root.split_vertically(TITLE_HEIGHT);
        paint_title(&head, title, subtitle)?;
        for chart in charts {
            let (panel, below) = rest.split_vertically(PANEL_HEIGHT);
            paint_chart(&panel, chart)?;
            rest = below;
        }
        Ok(())
    })
}

fn paint_chart(area: &Area, chart: &Chart) -> Painted {
    let (x_range, y_range) = (chart.x_range(), chart.y_range());
    let named = (2..=STRONG.len()).contains(&chart.curves.len());
    let (panel, legend) = area.split_horizontally(WIDTH - if named { LEGEND_WIDTH } else { 0 });
    let digits = if chart.counts() {
        0
    } else if y_range.end - y_range.start < 10.0 {
        2
    } else {
        0
    };
    let mut context = ChartBuilder::on(&panel)
        .margin_left(MARGIN)
        .margin_right(MARGIN)
        .margin_top(PANEL_TOP)
        .margin_bottom(12)
        .x_label_area_size(40)
        .y_label_area_size(52)
        .build_cartesian_2d(x_range, y_range)?;
    context
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(FAINT)
        .y_labels(6)
        .x_labels(chart.x_labels())
        .x_label_formatter(&|x| chart.label(*x))
        .label_style(text(12, &FAINT, HPos::Center, VPos::Center))
        .y_label_formatter(&|y| format!("{y:.digits$}"))
        .x_desc(&chart.x_label)
        .axis_desc_style(text(12, &FAINT, HPos::Center, VPos::Center))
        .draw()?;
    for (number, (curve, colour)) in chart.curves.iter().zip(STRONG.iter().cycle()).enumerate() {
        if chart.categories.is_empty() {
            context.draw_series([PathElement::new(curve.points.clone(), colour.stroke_width(2))])?;
        } else {
            context.draw_series(curve.points.iter().map(|&(x, y)| {
                let (start, end) = chart.bar(number, x);
                Rectangle::new([(start, 0.0), (end, y)], colour.filled())
            }))?;
        }
        let middle = |x: f64| if chart.categories.is_empty() { x } else { middle_of(chart.bar(number, x)) };
        let ink = if chart.categories.is_empty() { *colour } else { INK };
        let intervals = curve.intervals().filter(|(_, low, high)| high > low);
        context
            .draw_series(intervals.map(|(x, low, high)| {
                PathElement::new(vec![(middle(x), low), (middle(x), high)], ink.stroke_width(1))
            }))?;
    }
    if named {
        paint_legend(&legend, chart)?;
    }
    area.draw_text(&chart.title, &text(13, &INK, HPos::Left, VPos::Top), (MARGIN, 4))?;
    Ok(())
}

/// Draws the curves' names beside the panel, so that they cover no curve.
fn paint_legend(area: &Area, chart: &Chart) -> Painted {
    for (number, (curve, colour)) in (0..).zip(chart.curves.iter().zip(STRONG)) {
        let y = PANEL_TOP + LEGEND_STEP / 2 + number * LEGEND_STEP;
        area.draw(&PathElement::new([(0, y), (LEGEND_LINE, y)], colour.stroke_width(2)))?;
        area.draw_text(&curve.name, &text(12, &INK, HPos::Left, VPos::Center), (LEGEND_LINE + 6, y))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, bps: f64) -> Series {
        Series { name: name.into(), unit: "bit/s", points: (0..50).map(|n| (f64::from(n), bps)).collect() }
    }

    #[test]
    fn every_panel_and_curve_is_named() {
        let rates = Chart::of_series("goodput, Mbit/s", &[series("bulk", 5e6), series("short", 1e6)], 1e6);
        assert_eq!(rates.curves[0].points[1], (1.0, 5.0));
        let figure = Chart {
            title: "efficiency".into(),
            x_label: "paths".into(),
            curves: vec![Curve {
                name: "T(N)".into(),
                points: vec![(1.0, 0.9), (2.0, 0.8)],
                half_widths: vec![0.01, 0.02],
            }],
            ..Chart::default()
        };
        let svg = picture("figure 2", "five seeds", &[rates, figure]).unwrap();
        let words = ["figure 2", "five seeds", "goodput, Mbit/s", "bulk", "short", "seconds", "efficiency", "paths"];
        assert!(words.iter().all(|word| svg.contains(word)));
    }

    #[test]
    fn a_panel_without_extent_is_still_drawn() {
        let one_point = Curve { name: "a".into(), points: vec![(3.0, 0.0)], half_widths: Vec::new() };
        let unknown = Curve { name: "b".into(), points: vec![(f64::NAN, f64::NAN)], half_widths: Vec::new() };
        let chart = |curves| Chart { title: "t".into(), x_label: "x".into(), curves, ..Chart::default() };
        assert_eq!(chart(vec![one_point.clone()]).x_range(), 3.0..4.0);
        assert!(picture("t", "s", &[chart(Vec::new()), chart(vec![one_point]), chart(vec![unknown])]).is_ok());
    }
    #[test]
    fn categories_are_bars_with_their_names() {
        let of = |name: &str, high: f64| Curve {
            name: name.into(),
            points: (0..4).map(|n| (f64::from(n), high + f64::from(n))).collect(),
            half_widths: Vec::new(),
        };
        let categories: Vec<String> = ["ECMP", "delayed", "two paths", "three"].map(str::to_owned).to_vec();
        let curves = vec![of("here", 1.0), of("paper", 1.5)];
        let chart = Chart { title: "gain".into(), categories: categories.clone(), curves, ..Chart::default() };
        let bars: Vec<(f64, f64)> = (0..2).map(|curve| chart.bar(curve, 1.0)).collect();
        assert!(bars[0].1 <= bars[1].0 && bars[0].0 > 0.5 && bars[1].1 < 1.5, "bars cover each other: {bars:?}");
        let svg = picture("t", "s", &[chart]).unwrap();
        assert!(categories.iter().all(|name| svg.contains(name.as_str())), "{svg}");
        let bars = svg.lines().filter(|line| line.starts_with("<rect") && line.contains("#0072B2")).count();
        assert_eq!(bars, 4, "{svg}");
    }
}
