//! Sizes, colours and helpers that all pictures share.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::io;
use std::path::Path;

pub(crate) const WIDTH: u32 = 960;
pub(crate) const TITLE_HEIGHT: u32 = 64;
pub(crate) const MARGIN: i32 = 24;

pub(crate) const INK: RGBColor = RGBColor(38, 50, 56);
pub(crate) const FAINT: RGBColor = RGBColor(120, 134, 140);
pub(crate) const GRID: RGBColor = RGBColor(228, 232, 234);
/// Colours for lines and bars of several links, from the palette of Okabe and Ito.
///
/// Colour-blind readers distinguish them.
pub(crate) const STRONG: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
];

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Painted = Result<(), Box<dyn std::error::Error>>;

pub(crate) fn text(size: i32, colour: &RGBColor, h: HPos, v: VPos) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(colour).pos(Pos::new(h, v))
}

/// Draws the title of a picture, and below it the line `subtitle` that explains it.
pub(crate) fn paint_title(area: &Area, title: &str, subtitle: &str) -> Painted {
    area.draw_text(title, &text(22, &INK, HPos::Left, VPos::Top), (MARGIN, 14))?;
    area.draw_text(subtitle, &text(13, &FAINT, HPos::Left, VPos::Top), (MARGIN, 40))?;
    Ok(())
}

/// Returns the SVG text of a picture on white that is `height` pixels high.
pub(crate) fn svg(height: u32, paint: impl FnOnce(&Area) -> Painted) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    paint(&root)?;
    root.present()?;
    drop(root);
    Ok(svg)
}

/// Returns an error that names the file of the picture and the reason why it was not drawn.
pub(crate) fn picture_error(file: &Path, why: &dyn std::error::Error) -> io::Error {
    io::Error::other(format!("{}: {why}", file.display()))
}
