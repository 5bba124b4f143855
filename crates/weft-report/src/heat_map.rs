//! Draws maps of coloured cells, which show one value for each pair of two settings.

use crate::style::{Area, FAINT, INK, MARGIN, Painted, TITLE_HEIGHT, WIDTH, paint_title, picture_error, svg, text};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};
use std::path::Path;
use std::{fs, io};

/// Number of maps that stand side by side in the picture.
const PER_LINE: usize = 2;
const SCALE_WIDTH: i32 = 90;
const MAP_WIDTH: i32 = (WIDTH as i32 - SCALE_WIDTH) / PER_LINE as i32;
const CELL_HEIGHT: i32 = 44;
/// Height above the cells of a map in pixels, for its title.
const TOP: i32 = 44;
/// Height below the cells of a map in pixels, for the columns' names and their meaning.
const BELOW: i32 = 56;
/// Width to the left of the cells of a map in pixels, for the rows' names and their meaning.
const LEFT: i32 = 76;
const BAR_WIDTH: i32 = 16;
/// Colours from low to high values, from light to dark. They also differ in greyscale.
const SCALE: [RGBColor; 5] = [
    RGBColor(247, 251, 255),
    RGBColor(174, 208, 232),
    RGBColor(72, 150, 200),
    RGBColor(14, 88, 158),
    RGBColor(6, 34, 82),
];
/// Position on the colour scale, from 0 (light) to 1 (dark), above which a cell's text is light.
const DARK: f64 = 0.5;

/// One map: a coloured cell for each pair of two settings.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HeatMap {
    /// The title of the map.
    pub title: String,
    /// The setting that the columns stand for, with its unit.
    pub x_label: String,
    /// The setting that the rows stand for, with its unit.
    pub y_label: String,
    /// The columns' names, from left to right.
    pub columns: Vec<String>,
    /// The rows from top to bottom: a name, and a value for each column.
    pub rows: Vec<(String, Vec<f64>)>,
}

impl HeatMap {
    fn values(&self) -> impl Iterator<Item = f64> {
        self.rows.iter().flat_map(|(_, values)| values.iter().copied()).filter(|value| value.is_finite())
    }

    fn height(&self) -> i32 {
        TOP + CELL_HEIGHT * self.rows.len() as i32 + BELOW
    }
}

/// Draws maps into an SVG file. All maps share one colour scale, which begins at zero.
///
/// `unit` is the unit of all values.
///
/// # Errors
/// Returns an error that names the file if it cannot be written.
pub fn heat_maps_picture(file: &Path, title: &str, subtitle: &str, unit: &str, maps: &[HeatMap]) -> io::Result<()> {
    picture(title, subtitle, unit, maps)
        .and_then(|svg| Ok(fs::write(file, svg)?))
        .map_err(|why| picture_error(file, &*why))
}

fn picture(title: &str, subtitle: &str, unit: &str, maps: &[HeatMap]) -> Result<String, Box<dyn std::error::Error>> {
    let most = maps.iter().flat_map(HeatMap::values).fold(0.0, f64::max);
    let most = if most > 0.0 { most } else { 1.0 };
    let lines: Vec<&[HeatMap]> = maps.chunks(PER_LINE).collect();
    let heights = lines.iter().map(|line| line.iter().map(HeatMap::height).max().unwrap_or(0));
    svg(TITLE_HEIGHT + heights.clone().sum::<i32>() as u32, |root| {
        paint_title(root, title, subtitle)?;
        let mut y = TITLE_HEIGHT as i32;
        for (line, height) in lines.iter().zip(heights.clone()) {
            for (map, x) in line.iter().zip((0..).step_by(MAP_WIDTH as usize)) {
                paint_map(root, map, most, (x, y))?;
            }
            y += height;
        }
        let bar_height = heights.clone().next().unwrap_or(0) - TOP - BELOW;
        paint_scale(root, unit, most, (WIDTH as i32 - SCALE_WIDTH + 8, TITLE_HEIGHT as i32 + TOP), bar_height)
    })
}

fn paint_map(root: &Area, map: &HeatMap, most: f64, (left, top): (i32, i32)) -> Painted {
    let small = |h, v| text(12, &FAINT, h, v);
    root.draw_text(&map.title, &text(13, &INK, HPos::Left, VPos::Top), (left + MARGIN, top + 4))?;
    root.draw_text(&map.y_label, &small(HPos::Left, VPos::Bottom), (left + MARGIN, top + TOP - 6))?;
    let (x0, y0) = (left + LEFT, top + TOP);
    let columns = map.columns.len().max(1) as i32;
    let width = (MAP_WIDTH - LEFT - MARGIN) / columns;
    for (row, (name, values)) in (0..).zip(&map.rows) {
        let y = y0 + row * CELL_HEIGHT;
        root.draw_text(name, &small(HPos::Right, VPos::Center), (x0 - 8, y + CELL_HEIGHT / 2))?;
        for (column, value) in (0..).zip(values).filter(|(_, value)| value.is_finite()) {
            let x = x0 + column * width;
            let part = value / most;
            root.draw(&Rectangle::new([(x, y), (x + width - 1, y + CELL_HEIGHT - 1)], colour(part).filled()))?;
            let ink = if part >= DARK { &WHITE } else { &INK };
            let middle = (x + width / 2, y + CELL_HEIGHT / 2);
            root.draw_text(&shown(*value), &text(13, ink, HPos::Center, VPos::Center), middle)?;
        }
    }
    let y = y0 + CELL_HEIGHT * map.rows.len() as i32;
    for (column, name) in (0..).zip(&map.columns) {
        root.draw_text(name, &small(HPos::Center, VPos::Top), (x0 + column * width + width / 2, y + 8))?;
    }
    root.draw_text(&map.x_label, &small(HPos::Center, VPos::Top), (x0 + columns * width / 2, y + 28))?;
    Ok(())
}

/// Draws the colour scale from zero to `most` with its values, the highest at the top.
fn paint_scale(root: &Area, unit: &str, most: f64, (x, y): (i32, i32), height: i32) -> Painted {
    const MARKS: i32 = 4;
    for step in 0..height {
        let part = 1.0 - f64::from(step) / f64::from(height);
        root.draw(&Rectangle::new([(x, y + step), (x + BAR_WIDTH, y + step + 1)], colour(part).filled()))?;
    }
    root.draw(&Rectangle::new([(x, y), (x + BAR_WIDTH, y + height)], FAINT.stroke_width(1)))?;
    for mark in 0..=MARKS {
        let at = y + height - height * mark / MARKS;
        let value = shown(most * f64::from(mark) / f64::from(MARKS));
        root.draw_text(&value, &text(12, &FAINT, HPos::Left, VPos::Center), (x + BAR_WIDTH + 6, at))?;
    }
    root.draw_text(unit, &text(12, &FAINT, HPos::Left, VPos::Bottom), (x, y - 8))?;
    Ok(())
}

/// Returns the colour at a position on the scale, 0 to 1.
fn colour(part: f64) -> RGBColor {
    let place = part.clamp(0.0, 1.0) * (SCALE.len() - 1) as f64;
    let below = (place as usize).min(SCALE.len() - 2);
    let (RGBColor(r, g, b), RGBColor(s, h, c)) = (SCALE[below], SCALE[below + 1]);
    let between =
        |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * (place - below as f64)).round() as u8;
    RGBColor(between(r, s), between(g, h), between(b, c))
}

/// Formats a value with as many digits as fit into a cell.
fn shown(value: f64) -> String {
    let digits = match value {
        value if value >= 99.95 => 0,
        value if value >= 9.995 || value == 0.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(title: &str, least: f64) -> HeatMap {
        HeatMap {
            title: title.into(),
            x_label: "one-way delay, ms".into(),
            y_label: "loss, %".into(),
            columns: vec!["10".into(), "100".into()],
            rows: vec![("0".into(), vec![146.2, 12.34]), ("5".into(), vec![least, f64::NAN])],
        }
    }

    #[test]
    fn cells_axes_and_scale_are_named() {
        let svg = picture("figure 3", "five seeds", "Mbit/s", &[map("BIC", 0.184), map("TCP-ER", 9.99)]).unwrap();
        let words = ["figure 3", "five seeds", "Mbit/s", "BIC", "TCP-ER", "one-way delay, ms", "loss, %"];
        assert!(words.iter().all(|word| svg.contains(word)));
        assert!(["146", "12.3", "0.18", "9.99"].iter().all(|value| svg.contains(&format!("\n{value}\n"))), "{svg}");
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn more_is_darker_throughout() {
        let light = |part: f64| {
            let RGBColor(r, g, b) = colour(part);
            u32::from(r) + u32::from(g) + u32::from(b)
        };
        let scale: Vec<u32> = (0..=20).map(|step| light(f64::from(step) / 20.0)).collect();
        assert!(scale.windows(2).all(|pair| pair[1] < pair[0]), "{scale:?}");
        assert_eq!((colour(-1.0), colour(2.0)), (SCALE[0], SCALE[4]));
    }
}
