//! Draws the picture of a result: a bar for each variant, then panels in the same colours.
//!
//! The panels show goodput over time, each ping, and each link's traffic.

use crate::panels::{self, Mark, Panel, PanelTrace, finer_near, link_traces, marks};
use crate::style::{
    Area, FAINT, INK, MARGIN, Painted, STRONG, TITLE_HEIGHT, WIDTH, paint_title, picture_error, svg, text,
};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};
use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};
use weft_scenario::{App, RunResult, Scenario, Series, VariantResult};

const BAR_PITCH: u32 = 28;
const BAR_THICKNESS: i32 = 18;
const PANEL_HEIGHT: u32 = 300;
const LABEL_WIDTH: i32 = 170;
const VALUE_WIDTH: i32 = 150;
const MUTED: [RGBColor; 4] =
    [RGBColor(144, 164, 174), RGBColor(188, 170, 140), RGBColor(165, 180, 140), RGBColor(184, 160, 190)];

type PictureLines<'a> = BTreeMap<&'a str, &'a [Series]>;

/// Draws `result` into an SVG file.
///
/// `series` contains the time series of one run of each variant, by the variant's name.
///
/// # Errors
/// Returns an error that names the file if it cannot be written.
pub fn run_picture(file: &Path, scenario: &Scenario, result: &RunResult, series: &PictureLines) -> io::Result<()> {
    picture(scenario, result, series)
        .and_then(|svg| Ok(fs::write(file, svg)?))
        .map_err(|why| picture_error(file, &*why))
}

fn picture(
    scenario: &Scenario,
    result: &RunResult,
    series: &PictureLines,
) -> Result<String, Box<dyn std::error::Error>> {
    let bars_height = BAR_PITCH * result.variants.len() as u32 + 24;
    let (colours, marks) = (colours(result), marks(scenario));
    let panels = panels(scenario, result, series, &colours, &marks);
    svg(TITLE_HEIGHT + bars_height + PANEL_HEIGHT * panels.len() as u32, |root| {
        let (title, rest) = root.split_vertically(TITLE_HEIGHT);
        let (bars, mut rest) = rest.split_vertically(bars_height);
        paint_title(&title, &result.scenario, &subtitle(scenario, result))?;
        paint_bars(&bars, result, &colours)?;
        for panel in &panels {
            let (area, below) = rest.split_vertically(PANEL_HEIGHT);
            panels::paint(&area, panel, &marks)?;
            rest = below;
        }
        Ok(())
    })
}

/// Returns the colour of each variant: muted for a variant with one link, strong for one with several links.
fn colours(result: &RunResult) -> BTreeMap<String, RGBColor> {
    let (mut strong, mut muted) = (STRONG.iter().cycle(), MUTED.iter().cycle());
    let mut colours: BTreeMap<String, RGBColor> = BTreeMap::new();
    // weft gets its colour first, so that it has the same colour in every picture.
    let weft_first =
        result.variants.iter().filter(|v| v.name == "weft").chain(result.variants.iter().filter(|v| v.name != "weft"));
    for variant in weft_first {
        let next = if variant.name.contains(':') {
            muted.next()
        } else if variant.link.is_some() {
            None
        } else {
            strong.next()
        };
        let of_link = || variant.link.as_ref().and_then(|link| colours.get(&format!("link:{link}")).copied());
        let colour = next.copied().or_else(of_link).or_else(|| strong.next().copied()).unwrap_or(INK);
        colours.insert(variant.name.clone(), colour);
    }
    colours
}

fn subtitle(scenario: &Scenario, result: &RunResult) -> String {
    let runs = if result.repeats == 1 { "one run".to_owned() } else { format!("medians of {} runs", result.repeats) };
    let is_predicted = result.variants.iter().any(|variant| variant.prediction.is_some());
    format!(
        "{} · {runs} of {:.0} s, the first {:.0} s not counted{}",
        scenario.links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>().join(" + "),
        result.duration_s,
        result.warmup_s,
        if is_predicted { " · black marks: what the weights allow" } else { "" },
    )
}

fn paint_bars(area: &Area, result: &RunResult, colours: &BTreeMap<String, RGBColor>) -> Painted {
    let left = MARGIN + LABEL_WIDTH;
    let span = WIDTH as i32 - left - VALUE_WIDTH - MARGIN;
    let predicted = result.variants.iter().filter_map(|v| v.prediction).map(|p| p.goodput_bps);
    let most =
        result.variants.iter().map(|v| v.goodput_bps).chain(predicted).chain([result.bound_bps]).fold(1.0, f64::max);
    let x = |bps: f64| left + (bps / most * f64::from(span)) as i32;
    let bottom = 16 + BAR_PITCH as i32 * result.variants.len() as i32;
    let bound = x(result.bound_bps);
    area.draw(&PathElement::new(vec![(bound, 10), (bound, bottom)], FAINT.stroke_width(1)))?;
    let label = format!("bound {:.1}", result.bound_bps / 1e6);
    area.draw_text(&label, &text(11, &FAINT, HPos::Right, VPos::Bottom), (bound - 4, 13))?;
    for (row, variant) in (0..).zip(&result.variants) {
        let top = 16 + row * BAR_PITCH as i32;
        let middle = top + BAR_THICKNESS / 2;
        let colour = colours.get(&variant.name).unwrap_or(&INK);
        let end = x(variant.goodput_bps).max(left + 1);
        area.draw_text(&label_of(variant), &text(14, &INK, HPos::Right, VPos::Center), (left - 10, middle))?;
        area.draw(&Rectangle::new([(left, top), (end, top + BAR_THICKNESS)], colour.filled()))?;
        if let Some(prediction) = variant.prediction {
            let mark = x(prediction.goodput_bps);
            area.draw(&PathElement::new(vec![(mark, top - 3), (mark, top + BAR_THICKNESS + 3)], INK.stroke_width(2)))?;
        }
        let value = format!("{:.1} Mbit/s · {:.0} %", variant.goodput_bps / 1e6, variant.efficiency * 100.0);
        area.draw_text(
            &value,
            &text(13, &INK, HPos::Left, VPos::Center),
            (end.max(bound * i32::from(end > bound - 90)) + 8, middle),
        )?;
    }
    Ok(())
}

fn label_of(variant: &VariantResult) -> String {
    match (&variant.link, variant.name.contains(':')) {
        (Some(link), false) => format!("{} ({link})", variant.name),
        _ => variant.name.clone(),
    }
}

/// Makes the panels below the bars. They show goodput, each ping, and the traffic of each link if weft ran.
fn panels<'a>(
    scenario: &Scenario,
    result: &RunResult,
    series: &PictureLines,
    colours: &BTreeMap<String, RGBColor>,
    marks: &[Mark],
) -> Vec<Panel<'a>> {
    let panel = |title, traces, has_dots, bound| Panel {
        title,
        traces,
        has_dots,
        bound,
        duration_s: result.duration_s,
        warmup_s: result.warmup_s,
    };
    let of_flows = |is_meant: fn(App) -> bool, points: &dyn Fn(&Series) -> Vec<(f64, f64)>| -> Vec<PanelTrace> {
        let names: Vec<&str> =
            scenario.flows.iter().filter(|flow| is_meant(flow.app)).map(|flow| flow.name.as_str()).collect();
        let trace = |variant: &VariantResult| {
            let all = series.get(variant.name.as_str())?;
            let found = all.iter().find(|series| names.contains(&series.name.as_str()))?;
            let colour = *colours.get(&variant.name).unwrap_or(&INK);
            Some(PanelTrace {
                name: variant.name.clone(),
                colour,
                points: points(found),
                is_thin: variant.name.contains(':'),
            })
        };
        result.variants.iter().filter_map(trace).collect()
    };
    let is_sparse = |app| matches!(app, App::Ping | App::Probe);
    let mbps = |series: &Series| finer_near(series, marks).into_iter().map(|(time, bps)| (time, bps / 1e6)).collect();
    let goodput = of_flows(|app| !matches!(app, App::Ping | App::Probe), &mbps);
    let delays = of_flows(is_sparse, &|series| series.points.clone());
    let of_weft = series.get("weft").map_or_else(Vec::new, |all| link_traces(scenario, all, marks));
    let all = [
        panel("goodput over time, Mbit/s", goodput, false, Some(result.bound_bps / 1e6)),
        panel("each ping or probe beside it, ms", delays, true, None),
        panel("what each link carries with weft, Mbit/s", of_weft, false, None),
    ];
    all.into_iter()
        .enumerate()
        .filter(|(at, panel)| *at == 0 || !panel.traces.is_empty())
        .map(|(_, panel)| panel)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_shows_every_variant() {
        let text = "name = \"pic\"\nduration = \"10 s\"\n[[link]]\nname = \"a\"\nrate = \"10 Mbit/s\"\n[[flow]]\napp = \"iperf3\"\n\
                    [[flow]]\napp = \"ping\"\n[[event]]\nat = \"4 s\"\nlink = \"a\"\ncut = \"down\"\nfor = \"2 s\"";
        let scenario = Scenario::parse(text, "t").unwrap();
        let variant = |name: &str| VariantResult::from_runs(name, None, Vec::new());
        let variants = ["link:a", "mptcp", "weft"].map(variant).to_vec();
        let result = RunResult {
            schema: 1,
            scenario: "pic".into(),
            world: "lab".into(),
            seed: 1,
            duration_s: 10.0,
            warmup_s: 2.0,
            repeats: 1,
            bound_bps: 9.6e6,
            variants,
            skipped: Vec::new(),
        };
        let series = |name: &str, unit, value: f64| Series {
            name: name.into(),
            unit,
            points: (0..100).map(|n| (f64::from(n) / 10.0, value)).collect(),
        };
        let points = [series("iperf3", "bit/s", 5e6), series("ping", "ms", 16.0), series("a.down", "bit/s", 5e6)];
        let svg = picture(&scenario, &result, &PictureLines::from([("weft", points.as_slice())])).unwrap();
        assert!(
            [
                "link:a",
                "mptcp",
                "weft",
                "seconds",
                "polyline",
                "a cut down",
                "over",
                "each ping",
                "what each link",
                "circle"
            ]
            .iter()
            .all(|word| svg.contains(word))
        );
    }
}
