//! `weft-lab reproduce`: runs rows of the reproduction checklist in virtual time.

use crate::cli::ReproduceOptions;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use std::{fs, io, thread};
use weft_config::outcome::{Failure, Outcome, json};
use weft_report::{Chart, Curve, HeatMap, charts_picture, heat_maps_picture};
use weft_world::reproduce::{self, Effort, Progress, Reproduction, RowVerdict, Surface, document, reproduce};

/// Default number of seeds with which each case of a row runs.
const SEEDS: u64 = 5;
/// Default number of seeds with which each case of a row runs with `--quick`.
const QUICK_SEEDS: u64 = 2;

/// Runs rows. The document and its pictures in `--out` grow with every finished row.
pub fn run(options: &ReproduceOptions) -> Result<Outcome, Failure> {
    let is_all = options.rows.iter().any(|row| row == "all");
    let rows = if is_all { Vec::new() } else { options.rows.clone() };
    let effort = Effort {
        seeds: options.seeds.unwrap_or(if options.quick { QUICK_SEEDS } else { SEEDS }),
        quick: options.quick,
        threads: thread::available_parallelism().map_or(1, usize::from),
    };
    let shown = !options.quiet && (std::io::stderr().is_terminal() || !options.json);
    let keep = |so_far: &Reproduction| match &options.out {
        Some(directory) => write(directory, so_far),
        None => Ok(()),
    };
    let result = reproduce(&rows, effort, &Bar::new(shown), keep).map_err(Failure::new)?;
    print!("{}", if options.json { json(&result)? } else { table(&result) });
    Ok(if result.rows.iter().all(|row| row.verdict != RowVerdict::Missed) { Outcome::Well } else { Outcome::Failed })
}

/// Writes the document and its pictures. Rows of an earlier document that were not run remain in it.
fn write(directory: &Path, result: &Reproduction) -> Result<(), String> {
    let pictures = directory.join("figures");
    let failed = |path: &Path, why: io::Error| format!("{}: {why}", path.display());
    fs::create_dir_all(&pictures).map_err(|why| failed(&pictures, why))?;
    let subtitle = format!("{} seeds; means with 95 % confidence intervals", result.seeds);
    for picture in &result.pictures {
        let charts: Vec<Chart> = picture.charts.iter().map(chart).collect();
        charts_picture(&pictures.join(picture.file), picture.title, &subtitle, &charts)
            .map_err(|why| why.to_string())?;
    }
    for picture in &result.surfaces {
        let maps: Vec<HeatMap> = picture.surfaces.iter().map(|surface| heat_map(surface, picture.axes)).collect();
        let subtitle = format!("goodput in Mbit/s, means of {} seeds", result.seeds);
        heat_maps_picture(&pictures.join(picture.file), picture.title, &subtitle, "Mbit/s", &maps)
            .map_err(|why| why.to_string())?;
    }
    let file = directory.join("reproduction.md");
    let earlier = match fs::read_to_string(&file) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.map_err(|why| failed(&file, why))?,
    };
    fs::write(&file, document(result, "figures", &earlier)).map_err(|why| failed(&file, why))
}

fn chart(chart: &reproduce::RowChart) -> Chart {
    let curve = |curve: &reproduce::RowCurve| Curve {
        name: curve.name.clone(),
        points: curve.points.iter().map(|(x, value)| (*x, value.mean)).collect(),
        half_widths: curve.points.iter().map(|(_, value)| value.half_width).collect(),
    };
    Chart {
        title: chart.title.clone(),
        x_label: chart.x_label.clone(),
        categories: chart.categories.clone(),
        curves: chart.curves.iter().map(curve).collect(),
    }
}

fn heat_map(surface: &Surface, [x_label, y_label]: [&str; 2]) -> HeatMap {
    HeatMap {
        title: surface.name.clone(),
        x_label: x_label.to_owned(),
        y_label: y_label.to_owned(),
        columns: surface.columns.clone(),
        rows: surface.rows.clone(),
    }
}

fn table(result: &Reproduction) -> String {
    let mut text = String::new();
    for row in &result.rows {
        let _ = writeln!(text, "{:<11} {:<8} {}", row.id, row.verdict.word(), row.figure);
        for remark in &row.remarks {
            let _ = writeln!(text, "{:<16} {remark}", "");
        }
    }
    text
}

/// Progress bar over the runs of a row.
struct Bar {
    shown: bool,
    bar: Mutex<ProgressBar>,
}

impl Bar {
    fn new(shown: bool) -> Bar {
        Bar { shown, bar: Mutex::new(ProgressBar::hidden()) }
    }

    fn with(&self, act: impl FnOnce(&mut ProgressBar)) {
        act(&mut self.bar.lock().unwrap_or_else(|poison| poison.into_inner()));
    }
}

impl Progress for Bar {
    fn begin(&self, what: &str, runs: usize) {
        let target = if self.shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let fresh = ProgressBar::with_draw_target(Some(runs as u64), target);
        let template = "{msg:11} {bar:32.cyan/blue} {pos}/{len} runs  {eta_precise} left";
        fresh.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        fresh.set_message(what.to_owned());
        fresh.enable_steady_tick(Duration::from_millis(250));
        self.with(|bar| {
            bar.finish_and_clear();
            *bar = fresh;
        });
    }

    fn advance(&self) {
        self.with(|bar| bar.inc(1));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.with(|bar| bar.finish_and_clear());
    }
}
