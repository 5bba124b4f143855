//! Declares the raw form of a sweep's file, as serde reads it, and checks it.

use super::{Least, MixRanges, MixSource, Sweep};
use crate::error::{Checked, Source};
use crate::file::one_repeat;
use crate::quantity::{Fraction, Quantity};
use crate::{QueueSize, ScenarioError};
use serde::Deserialize;
use std::time::Duration;
use toml::Spanned;
use weft_units::Rate;

/// Maximum number of seeds, and therefore of mixes, in a sweep.
///
/// A larger number is probably a typing mistake.
const SEEDS_MAX: u64 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeFile {
    name: String,
    #[serde(default)]
    description: String,
    seeds: Spanned<Seeds>,
    draw: Option<Spanned<Draw>>,
    links: Option<Spanned<[u64; 2]>>,
    rate: Option<Spanned<[Quantity<Rate>; 2]>>,
    delay: Option<Spanned<[Quantity<Duration>; 2]>>,
    loss: Option<Spanned<[Quantity<Fraction>; 2]>>,
    queue: Option<Quantity<QueueSize>>,
    duration: Option<Spanned<Quantity<Duration>>>,
    warmup: Option<Spanned<Quantity<Duration>>>,
    #[serde(default = "one_repeat")]
    repeats: Spanned<u32>,
    #[serde(rename = "clear-by")]
    clear_by: Option<Quantity<Fraction>>,
    #[serde(default)]
    least: LeastFile,
}

/// The seeds in a file: `[1, 2, 3]`, or `{ from = 1, count = 500 }`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "seeds such as [1, 2, 3], or { from = 1, count = 500 }")]
enum Seeds {
    List(Vec<u64>),
    Range(SeedRange),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeedRange {
    from: u64,
    count: u64,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Draw {
    OneLink,
    Bundle,
}

/// The ratios of weft's goodput over all links to other goodputs that every mix must reach.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct LeastFile {
    #[serde(rename = "of-best-link-through-weft")]
    of_weft: Option<f64>,
    #[serde(rename = "of-best-link")]
    of_plain: Option<f64>,
    #[serde(rename = "of-bbr")]
    of_bbr: Option<f64>,
}

pub(super) fn read(source: &Source<'_>) -> Result<Sweep, ScenarioError> {
    let read: RecipeFile = crate::read::read(source)?;
    let mix_source = match &read.draw {
        None => MixSource::Ranges(read.ranges(source)?),
        Some(draw) => {
            read.only_drawn(source)?;
            match draw.get_ref() {
                Draw::OneLink => MixSource::OneLink,
                Draw::Bundle => MixSource::Bundle,
            }
        }
    };
    let least = Least { of_weft: read.least.of_weft, of_plain: read.least.of_plain, of_bbr: read.least.of_bbr };
    Ok(Sweep {
        seeds: seeds(source, read.seeds)?,
        name: read.name,
        description: read.description,
        source: mix_source,
        repeats: read.repeats.into_inner().max(1),
        clear_by: read.clear_by.map_or(0.0, |q| q.0.0),
        least,
    })
}

fn seeds(source: &Source<'_>, read: Spanned<Seeds>) -> Checked<Vec<u64>> {
    let place = read.span().start;
    match read.into_inner() {
        Seeds::List(seeds) if !seeds.is_empty() => Ok(seeds),
        Seeds::Range(SeedRange { from, count }) if (1..=SEEDS_MAX).contains(&count) => {
            Ok((0..count).map(|n| from.wrapping_add(n)).collect())
        }
        Seeds::List(_) => Err(source.error(place, "a sweep needs at least one seed")),
        Seeds::Range(_) => {
            Err(source.error(place, format!("`count`, the number of seeds, must be from 1 to {SEEDS_MAX}")))
        }
    }
}

impl RecipeFile {
    /// Fails if the file sets a key such as `rate` although its key `draw` makes all these choices.
    fn only_drawn(&self, source: &Source<'_>) -> Checked<()> {
        let places = [
            ("links", self.links.as_ref().map(Spanned::span)),
            ("rate", self.rate.as_ref().map(Spanned::span)),
            ("delay", self.delay.as_ref().map(Spanned::span)),
            ("loss", self.loss.as_ref().map(Spanned::span)),
            ("duration", self.duration.as_ref().map(Spanned::span)),
            ("warmup", self.warmup.as_ref().map(Spanned::span)),
        ];
        match places.into_iter().find_map(|(key, place)| Some((key, place?))) {
            Some((key, place)) => {
                Err(source.error(place.start, format!("`draw` chooses `{key}` itself: remove `{key}` or `draw`")))
            }
            None => Ok(()),
        }
    }

    fn ranges(&self, source: &Source<'_>) -> Checked<MixRanges> {
        let missing = |key: &str| {
            source.error(0, format!("a sweep needs `{key}`, or `draw = \"one-link\"`, which chooses it: add one"))
        };
        let links = self.links.as_ref().ok_or_else(|| missing("links"))?;
        let rate = self.rate.as_ref().ok_or_else(|| missing("rate"))?;
        let delay = self.delay.as_ref().ok_or_else(|| missing("delay"))?;
        let loss = self.loss.as_ref().ok_or_else(|| missing("loss"))?;
        let length = self.duration.as_ref().ok_or_else(|| missing("duration"))?;
        let rate = ordered(source, rate, |q| q.0)?;
        let delay = ordered(source, delay, |q| q.0)?;
        let loss = ordered(source, loss, |q| q.0.0)?;
        let count = ordered(source, links, |n| *n)?;
        if !(1..=16).contains(&count[0]) || count[1] > 16 {
            return Err(source.error(links.span().start, "a mix must have 1 to 16 links"));
        }
        let duration = length.get_ref().0;
        let warmup = self.warmup.as_ref().map_or(Duration::ZERO, |w| w.get_ref().0);
        if warmup >= duration {
            let place = self.warmup.as_ref().map_or(length.span().start, |w| w.span().start);
            return Err(source.error(place, "the warm-up must be shorter than the run"));
        }
        let queue = self.queue.map_or(QueueSize::Bdp(1.5), |q| q.0);
        Ok(MixRanges { links: count, rate, delay, loss, queue, duration, warmup })
    }
}

fn ordered<Q, T: PartialOrd + Copy>(
    source: &Source<'_>,
    range: &Spanned<[Q; 2]>,
    value: fn(&Q) -> T,
) -> Result<[T; 2], ScenarioError> {
    let [least, most] = range.get_ref().each_ref().map(value);
    if least <= most {
        Ok([least, most])
    } else {
        Err(source.error(range.span().start, "write the range as [least, most]"))
    }
}
