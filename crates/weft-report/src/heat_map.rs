//! Figures over two parameters: a cell for each pair, its colour and its number the value. Panels side by side share one scale of colours.

use crate::style::{Area, FAINT, INK, MARGIN, Painted, TITLE_HEIGHT, WIDTH, paint_title, picture_error, svg, text};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};
use std::path::Path;
use std::{fs, io};

/// Panels beside each other at most.
const ACROSS: usize = 2;
const CELL_HEIGHT: i32 = 30;
/// Room for a panel's title, and for what stands below and left of its cells.
const PANEL_TOP: i32 = 30;
const PANEL_BOTTOM: i32 = 56;
const PANEL_LEFT: i32 = 72;
const GAP: i32 = 20;
/// The scale of colours below the panels.
const SCALE_HEIGHT: u32 = 56;
const SCALE_STEPS: i32 = 64;

/// From little to much, in even steps of lightness, so that it is read without colours too (after ColorBrewer's YlGnBu).
const COLOURS: [RGBColor; 6] = [
    RGBColor(250, 250, 226),
    RGBColor(199, 233, 180),
    RGBColor(127, 205, 187),
    RGBColor(65, 150, 196),
    RGBColor(34, 94, 168),
    RGBColor(8, 29, 88),
];

/// One panel.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HeatMap {
    /// What is shown, with its unit.
    pub title: String,
    /// What runs to the right, with its unit, and its values.
    pub x: (String, Vec<String>),
    /// What runs up, with its unit, and its values.
    pub y: (String, Vec<String>),
    /// A line for each value of y, a figure in it for each of x.
    pub values: Vec<Vec<f64>>,
}

impl HeatMap {
    fn height(&self) -> u32 {
        (PANEL_TOP + PANEL_BOTTOM) as u32 + CELL_HEIGHT as u32 * self.y.1.len() as u32
    }
}

/// Draws panels into an SVG file, two beside each other.
///
/// # Errors
/// When the file cannot be written; the error names it.
pub fn heat_maps_picture(file: &Path, title: &str, subtitle: &str, maps: &[HeatMap]) -> io::Result<()> {
    picture(title, subtitle, maps).and_then(|svg| Ok(fs::write(file, svg)?)).map_err(|why| picture_error(file, &*why))
}

fn picture(title: &str, subtitle: &str, maps: &[HeatMap]) -> Result<String, Box<dyn std::error::Error>> {
    let lines: Vec<&[HeatMap]> = maps.chunks(ACROSS).collect();
    let height = |line: &[HeatMap]| line.iter().map(HeatMap::height).max().unwrap_or(0);
    let most = maps.iter().flat_map(|map| map.values.iter().flatten()).copied().filter(|v| v.is_finite());
    let most = most.fold(0.0, f64::max);
    svg(TITLE_HEIGHT + lines.iter().map(|line| height(line)).sum::<u32>() + SCALE_HEIGHT, |root| {
        let (head, mut rest) = root.split_vertically(TITLE_HEIGHT);
        paint_title(&head, title, subtitle)?;
        for line in &lines {
            let (row, below) = rest.split_vertically(height(line));
            let width = (WIDTH as i32 - 2 * MARGIN - GAP) / ACROSS as i32;
            for (place, map) in (0..).zip(line.iter()) {
                paint_map(&row, MARGIN + place * (width + GAP), width, map, most)?;
            }
            rest = below;
        }
        paint_scale(&rest, most)
    })
}

fn paint_map(area: &Area, left: i32, width: i32, map: &HeatMap, most: f64) -> Painted {
    let (columns, rows) = (map.x.1.len().max(1) as i32, map.y.1.len() as i32);
    let cell_width = (width - PANEL_LEFT) / columns;
    let [x0, bottom] = [left + PANEL_LEFT, PANEL_TOP + rows * CELL_HEIGHT];
    let centre = |column: i32| x0 + column * cell_width + cell_width / 2;
    let middle = |row: i32| bottom - row * CELL_HEIGHT - CELL_HEIGHT / 2;
    area.draw_text(&map.title, &text(13, &INK, HPos::Left, VPos::Top), (left, 6))?;
    for (row, values) in (0..rows).zip(&map.values) {
        for (column, value) in (0..columns).zip(values) {
            let corner = (x0 + column * cell_width, bottom - (row + 1) * CELL_HEIGHT);
            let opposite = (corner.0 + cell_width - 1, corner.1 + CELL_HEIGHT - 1);
            let share = value / most;
            area.draw(&Rectangle::new([corner, opposite], colour(share).filled()))?;
            let ink = if share > 0.5 { &WHITE } else { &INK };
            let style = text(12, ink, HPos::Center, VPos::Center);
            area.draw_text(&shown(*value), &style, (centre(column), middle(row)))?;
        }
    }
    let faint = |h| text(12, &FAINT, h, VPos::Center);
    for (row, label) in (0..).zip(&map.y.1) {
        area.draw_text(label, &faint(HPos::Right), (x0 - 8, middle(row)))?;
    }
    for (column, label) in (0..).zip(&map.x.1) {
        area.draw_text(label, &faint(HPos::Center), (centre(column), bottom + 12))?;
    }
    area.draw_text(&map.x.0, &faint(HPos::Center), (x0 + columns * cell_width / 2, bottom + 34))?;
    let upright = faint(HPos::Center).transform(FontTransform::Rotate270);
    area.draw_text(&map.y.0, &upright, (left + 12, bottom - rows * CELL_HEIGHT / 2))?;
    Ok(())
}

fn paint_scale(area: &Area, most: f64) -> Painted {
    let (width, height) = (4 * SCALE_STEPS, 12);
    let left = (WIDTH as i32 - width) / 2;
    for step in 0..SCALE_STEPS {
        let corner = (left + 4 * step, 8);
        let fill = colour(f64::from(step) / f64::from(SCALE_STEPS - 1)).filled();
        area.draw(&Rectangle::new([corner, (corner.0 + 4, corner.1 + height)], fill))?;
    }
    for (share, place) in [(0.0, left), (0.5, left + width / 2), (1.0, left + width)] {
        area.draw_text(&shown(share * most), &text(12, &FAINT, HPos::Center, VPos::Top), (place, 26))?;
    }
    Ok(())
}

/// Between the two nearest of [`COLOURS`]; what is no number is white.
fn colour(share: f64) -> RGBColor {
    if !share.is_finite() {
        return WHITE;
    }
    let place = share.clamp(0.0, 1.0) * (COLOURS.len() - 1) as f64;
    let below = (place as usize).min(COLOURS.len() - 2);
    let part = place - below as f64;
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
    let (RGBColor(r, g, b), RGBColor(s, h, c)) = (COLOURS[below], COLOURS[below + 1]);
    RGBColor(mix(r, s), mix(g, h), mix(b, c))
}

/// With two or three digits that count.
fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_and_axis_is_named_and_the_scale_is_shared() {
        let map = |title: &str, factor: f64| HeatMap {
            title: title.into(),
            x: ("delay, ms".into(), vec!["7 ms".into(), "8 ms".into()]),
            y: ("loss, %".into(), vec!["one".into(), "two".into()]),
            values: vec![vec![factor, 2.0 * factor], vec![3.0 * factor, f64::NAN]],
        };
        let svg = picture("figure 6", "five seeds", &[map("legacy", 1.0), map("tcp-er", 30.0)]).unwrap();
        let words = ["figure 6", "legacy", "tcp-er", "delay, ms", "loss, %", "7 ms", "two", "3.00", "30.0", "90.0"];
        assert!(words.iter().all(|word| svg.contains(word)));
        assert!(picture("t", "s", &[]).is_ok());
    }

    #[test]
    fn colours_darken_with_the_value() {
        let lightness = |RGBColor(r, g, b): RGBColor| u32::from(r) + u32::from(g) + u32::from(b);
        let all: Vec<u32> = (0..=20).map(|n| lightness(colour(f64::from(n) / 20.0))).collect();
        assert!(all.is_sorted_by(|a, b| a > b), "{all:?}");
        assert_eq!(colour(f64::NAN), WHITE);
    }
}
