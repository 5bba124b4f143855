//! Draws the panels below the bars of a result: goodput, pings, and traffic of links over time.
//!
//! All panels mark the events.

use crate::style::{Area, FAINT, GRID, INK, MARGIN, Painted, STRONG, WIDTH, text};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};
use weft_scenario::{Action, Directions, EventTarget, Scenario, Series, TimedEvent};

/// Time over which a line's values are averaged far from events, in seconds.
const STEP_S: f64 = 1.0;
/// Maximum distance in time from an event at which a line shows each measured value instead of means, in seconds.
const NEAR_S: f64 = 2.0;
/// Width of the column beside a panel that names its lines, in pixels.
const LEGEND_WIDTH: u32 = 150;
const LEGEND_STEP: i32 = 18;
const TOP: i32 = 40;
const Y_LABELS: i32 = 56;
/// Approximate width of a character in a mark's label, in pixels.
const CHARACTER: f64 = 5.6;
const MARK: RGBColor = RGBColor(190, 60, 50);
const WARMUP: RGBColor = RGBColor(244, 246, 247);

/// A moment at which an event begins or ends, which all panels show, and its description.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Mark {
    pub(crate) at_s: f64,
    pub(crate) what: String,
}

/// Returns the moments at which the scenario's events begin and end, in order of time.
pub(crate) fn marks(scenario: &Scenario) -> Vec<Mark> {
    let mut marks = Vec::new();
    for event in &scenario.events {
        let at_s = event.at.as_secs_f64();
        marks.push(Mark { at_s, what: what(scenario, event) });
        let end = event.lasting.map(|time| at_s + time.as_secs_f64());
        marks.extend(end.map(|at_s| Mark { at_s, what: "over".to_owned() }));
    }
    marks.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    marks
}

fn what(scenario: &Scenario, event: &TimedEvent) -> String {
    let link = match &event.target {
        EventTarget::Link(link) => scenario.links.get(*link).map_or(String::new(), |link| format!("{} ", link.name)),
        EventTarget::Node(node) => scenario.nodes.get(*node).map_or(String::new(), |node| format!("{node} ")),
        EventTarget::Carrying(flow) => format!("{flow}'s link "),
        EventTarget::Weft => String::new(),
    };
    let how = match &event.action {
        Action::Rate(rate) => rate.to_string(),
        Action::Loss(loss) => format!("loss {} %", loss * 100.0),
        Action::Delay(delay) => format!("delay {} ms", delay.as_secs_f64() * 1e3),
        other => other.word().to_owned(),
    };
    let direction = match event.directions {
        Directions::Both => "",
        Directions::Up => " up",
        Directions::Down => " down",
    };
    format!("{link}{how}{direction}")
}

/// One line of a panel, or all dots of one colour.
pub(crate) struct PanelTrace {
    pub(crate) name: String,
    pub(crate) colour: RGBColor,
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) is_thin: bool,
}

/// The title, the lines and the time range of one panel.
pub(crate) struct Panel<'a> {
    pub(crate) title: &'a str,
    pub(crate) traces: Vec<PanelTrace>,
    /// True to draw each value as a dot, without a line.
    pub(crate) has_dots: bool,
    /// Upper bound of the panel's values, which a horizontal line shows. `None` if the values have no bound.
    pub(crate) bound: Option<f64>,
    pub(crate) duration_s: f64,
    pub(crate) warmup_s: f64,
}

/// Returns the means of a series over [`STEP_S`], but each single value within [`NEAR_S`] of a mark.
pub(crate) fn finer_near(series: &Series, marks: &[Mark]) -> Vec<(f64, f64)> {
    let is_near = |time: f64| marks.iter().any(|mark| (time - mark.at_s).abs() <= NEAR_S);
    let far = series.averaged(STEP_S).into_iter().filter(|(time, _)| !is_near(*time));
    let near = series.points.iter().copied().filter(|(time, _)| is_near(*time));
    let mut points: Vec<(f64, f64)> = far.chain(near).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

pub(crate) fn paint(area: &Area, panel: &Panel<'_>, marks: &[Mark]) -> Painted {
    let values = panel.traces.iter().flat_map(|trace| trace.points.iter().map(|(_, y)| *y));
    let most = values.chain(panel.bound).filter(|y| y.is_finite()).fold(0.0, f64::max).max(1e-3) * 1.05;
    let (plot, legend) = area.split_horizontally(WIDTH - LEGEND_WIDTH);
    let mut chart = ChartBuilder::on(&plot)
        .margin_left(MARGIN)
        .margin_right(12)
        .margin_top(TOP)
        .margin_bottom(12)
        .x_label_area_size(40)
        .y_label_area_size(Y_LABELS)
        .build_cartesian_2d(0.0..panel.duration_s, 0.0..most)?;
    chart.draw_series([Rectangle::new([(0.0, 0.0), (panel.warmup_s, most)], WARMUP.filled())])?;
    let decimals = if most < 10.0 { 1 } else { 0 };
    let seconds = usize::from(panel.duration_s < 10.0);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(FAINT)
        .y_labels(6)
        .x_labels(10)
        .label_style(text(12, &FAINT, HPos::Center, VPos::Center))
        .x_label_formatter(&|s| format!("{s:.seconds$}"))
        .y_label_formatter(&|y| format!("{y:.decimals$}"))
        .x_desc("seconds")
        .axis_desc_style(text(12, &FAINT, HPos::Center, VPos::Center))
        .draw()?;
    if let Some(bound) = panel.bound {
        chart.draw_series([PathElement::new(vec![(0.0, bound), (panel.duration_s, bound)], FAINT.stroke_width(1))])?;
    }
    for mark in marks {
        chart.draw_series([PathElement::new(vec![(mark.at_s, 0.0), (mark.at_s, most)], MARK.stroke_width(1))])?;
    }
    for trace in panel.traces.iter().rev() {
        let points = trace.points.iter().copied().filter(|(_, y)| y.is_finite());
        if panel.has_dots {
            chart.draw_series(points.map(|point| Circle::new(point, 2, trace.colour.filled())))?;
        } else {
            let width = if trace.is_thin { 2 } else { 3 };
            chart.draw_series([PathElement::new(points.collect::<Vec<_>>(), trace.colour.stroke_width(width))])?;
        }
    }
    name_marks(&plot, panel.duration_s, marks)?;
    name_traces(&legend, panel)?;
    area.draw_text(panel.title, &text(13, &INK, HPos::Left, VPos::Top), (MARGIN, 4))?;
    Ok(())
}

/// Draws the names of the marks above the panel, as far as they fit between its edges.
fn name_marks(plot: &Area, duration_s: f64, marks: &[Mark]) -> Painted {
    let (left, right) = (f64::from(MARGIN + Y_LABELS), f64::from(WIDTH - LEGEND_WIDTH) - 12.0);
    for (x, label) in labels(marks, duration_s, left, right) {
        plot.draw_text(&label, &text(11, &MARK, HPos::Left, VPos::Bottom), (x as i32, TOP - 3))?;
    }
    Ok(())
}

/// Returns the position and the text of each mark's label. Omits a label that would cover the previous one.
fn labels(marks: &[Mark], duration_s: f64, left: f64, right: f64) -> Vec<(f64, String)> {
    let (mut free, mut shown) = (left, Vec::new());
    for mark in marks {
        let wide = mark.what.chars().count() as f64 * CHARACTER;
        let at = left + mark.at_s / duration_s * (right - left);
        let x = at.min(right - wide);
        if x >= free && x + wide <= right + 0.5 {
            shown.push((x, mark.what.clone()));
            free = x + wide + CHARACTER;
        }
    }
    shown
}

fn name_traces(legend: &Area, panel: &Panel<'_>) -> Painted {
    for (row, trace) in (0..).zip(&panel.traces) {
        let y = TOP + LEGEND_STEP / 2 + row * LEGEND_STEP;
        legend.draw(&PathElement::new([(0, y), (18, y)], trace.colour.stroke_width(3)))?;
        let most = (f64::from(LEGEND_WIDTH) - 28.0) / (CHARACTER + 1.0);
        let name: String = trace.name.chars().take(most as usize).collect();
        legend.draw_text(&name, &text(12, &INK, HPos::Left, VPos::Center), (24, y))?;
    }
    Ok(())
}

/// Returns the traffic of each link over time as a line, in Mbit/s.
///
/// All lines are of one direction: the one in which the links together carry more.
pub(crate) fn link_traces(scenario: &Scenario, series: &[Series], marks: &[Mark]) -> Vec<PanelTrace> {
    let of = |direction: &str| -> Vec<PanelTrace> {
        let links = scenario.links.iter().zip(STRONG.iter().cycle());
        let trace = |(link, colour): (&weft_scenario::Link, &RGBColor)| {
            let name = format!("{}.{direction}", link.name);
            let found = series.iter().find(|series| series.name == name && series.unit == "bit/s")?;
            let points = finer_near(found, marks).into_iter().map(|(time, bps)| (time, bps / 1e6)).collect();
            Some(PanelTrace { name: link.name.clone(), colour: *colour, points, is_thin: true })
        };
        links.filter_map(trace).collect()
    };
    let load = |traces: &[PanelTrace]| traces.iter().flat_map(|trace| &trace.points).map(|(_, mbps)| mbps).sum::<f64>();
    let (down, up) = (of("down"), of("up"));
    if load(&up) > load(&down) { up } else { down }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(at_s: f64, what: &str) -> Mark {
        Mark { at_s, what: what.into() }
    }

    #[test]
    fn time_is_finer_near_events() {
        let points = (1..=200).map(|n| (f64::from(n) / 10.0, 1.0)).collect();
        let series = Series { name: "s".into(), unit: "bit/s", points };
        let shown = finer_near(&series, &[mark(10.0, "cut")]);
        let within = |from: f64, to: f64| shown.iter().filter(|(time, _)| (from..to).contains(time)).count();
        assert_eq!((within(8.0, 12.05), within(0.0, 7.95)), (41, 7));
        assert!(shown.is_sorted_by(|a, b| a.0 <= b.0));
    }

    #[test]
    fn no_label_leaves_its_plot_or_covers_another() {
        for seed in 0..200u32 {
            let draw = |n: u32| (seed * 7_919 + n * 104_729) % 1_000;
            let mut marks: Vec<Mark> = (0..draw(1) % 12)
                .map(|n| mark(f64::from(draw(n + 2)) / 10.0, &"x".repeat(draw(n + 40) as usize % 30 + 1)))
                .collect();
            marks.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
            let shown = labels(&marks, 100.0, 80.0, 798.0);
            let ends: Vec<(f64, f64)> =
                shown.iter().map(|(x, label)| (*x, x + label.len() as f64 * CHARACTER)).collect();
            assert!(ends.iter().all(|(from, to)| *from >= 80.0 && *to <= 799.0), "{ends:?}");
            assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0), "{ends:?}");
            assert!(marks.is_empty() || !shown.is_empty());
        }
    }
}
