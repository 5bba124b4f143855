//! History of the paths' measurements.
//!
//! It has one value per second for ten minutes, and one per minute for a day.

use std::collections::{BTreeMap, VecDeque};
use weft_engine::PathSnapshot;
use weft_units::{Duration, Instant};

use crate::daemon::shown::view;
use crate::status::{PathHistory, Point};

/// Interval between values in seconds, and their number, for ten minutes and for a day.
const SCALES: [(u64, usize); 2] = [(1, 600), (60, 1_440)];
/// Maximum number of paths with a history. Each takes 130 kB after a day.
///
/// A path that no longer exists is forgotten when its last value is a day old, or when a new path needs its space.
const MAX_PATHS: usize = 256;

/// Interval at which [`Histories::note`] must be called.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Key of a path: peer, link and remote address.
type Name = (String, String, String);

/// The histories of all paths.
#[derive(Debug, Default)]
pub struct Histories {
    paths: BTreeMap<Name, History>,
}

#[derive(Debug, Default)]
struct History {
    last: Option<Instant>,
    seconds: VecDeque<Point>,
    minutes: VecDeque<Point>,
    /// Values of the current minute, one per second.
    minute: Vec<Point>,
}

impl Histories {
    /// Records the present state of all paths, each with the name of its peer.
    ///
    /// A path that no longer exists gets an empty value. At [`MAX_PATHS`] a new path takes the place of one that no
    /// longer exists, or is ignored.
    pub fn note<'a>(&mut self, now: Instant, paths: impl Iterator<Item = (&'a str, PathSnapshot)>) {
        let mut is_full = false;
        for (peer, path) in paths {
            let name = (peer.to_owned(), path.link_name.clone(), view::remote(&path.remote));
            if self.paths.len() >= MAX_PATHS && !self.paths.contains_key(&name) {
                is_full = is_full || !self.forget_oldest_gone(now);
                if is_full {
                    continue;
                }
            }
            self.paths.entry(name).or_default().note(now, point(&path));
        }
        for history in self.paths.values_mut().filter(|history| history.last != Some(now)) {
            history.push(Point::default());
        }
        let [_, (step, count)] = SCALES;
        self.paths.retain(|_, history| {
            history.last.is_some_and(|last| now - last < Duration::from_secs(step * count as u64))
        });
    }

    /// Forgets the path that vanished first. Returns false if all paths exist.
    fn forget_oldest_gone(&mut self, now: Instant) -> bool {
        let is_gone = |history: &History| history.last.is_none_or(|last| now - last > INTERVAL * 2);
        let gone = self.paths.iter().filter(|(_, history)| is_gone(history));
        let oldest = gone.min_by_key(|(_, history)| history.last).map(|(name, _)| name.clone());
        oldest.is_some_and(|name| self.paths.remove(&name).is_some())
    }

    /// Returns the histories of a peer's paths.
    pub fn of(&self, peer: &str) -> Vec<PathHistory> {
        let of_peer = self.paths.iter().filter(|((name, _, _), _)| name == peer);
        let shown = |((_, link, remote), history): (&Name, &History)| PathHistory {
            link: link.clone(),
            remote: remote.clone(),
            seconds: history.seconds.iter().copied().collect(),
            minutes: history.minutes.iter().copied().collect(),
        };
        of_peer.map(shown).collect()
    }
}

impl History {
    fn note(&mut self, now: Instant, point: Point) {
        self.last = Some(now);
        self.push(point);
    }

    fn push(&mut self, point: Point) {
        let [(_, seconds), (minute, minutes)] = SCALES;
        push_bounded(&mut self.seconds, point, seconds);
        self.minute.push(point);
        if self.minute.len() as u64 >= minute {
            push_bounded(&mut self.minutes, mean(&self.minute), minutes);
            self.minute.clear();
        }
    }
}

fn push_bounded(ring: &mut VecDeque<Point>, point: Point, most: usize) {
    if ring.len() >= most {
        ring.pop_front();
    }
    ring.push_back(point);
}

fn point(path: &PathSnapshot) -> Point {
    let sensed = path.sensed.as_ref().filter(|sensed| sensed.age < Duration::from_secs(5));
    Point {
        rtt_us: path.rtt.map(|rtt| rtt.as_micros() as f64),
        loss: Some(path.loss),
        capacity_bps: sensed.and_then(|sensed| sensed.capacity).or(path.capacity).map(|rate| rate.bps() as f64),
        available_bps: sensed.and_then(|sensed| sensed.available).map(|rate| rate.bps() as f64),
    }
}

/// Returns the mean of the known values, for each quantity.
fn mean(points: &[Point]) -> Point {
    let of = |value: fn(&Point) -> Option<f64>| {
        let known: Vec<f64> = points.iter().filter_map(value).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    Point {
        rtt_us: of(|point| point.rtt_us),
        loss: of(|point| point.loss),
        capacity_bps: of(|point| point.capacity_bps),
        available_bps: of(|point| point.available_bps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_has_gone_leaves_a_blank_and_is_forgotten_after_a_day() {
        let mut histories = Histories::default();
        let name = ("hub".to_owned(), "wan".to_owned(), "192.0.2.1:1".to_owned());
        let point = Point { loss: Some(0.5), ..Point::default() };
        histories.paths.entry(name).or_default().note(Instant::ZERO, point);
        histories.note(Instant::from_millis(1_000), std::iter::empty());
        let [path] = &histories.of("hub")[..] else { panic!("{histories:?}") };
        assert_eq!(path.seconds, [point, Point::default()]);
        assert!(histories.of("home").is_empty());
        histories.note(Instant::from_millis(86_400_000), std::iter::empty());
        assert!(histories.of("hub").is_empty());
    }

    #[test]
    fn seconds_become_minutes_and_both_are_bounded() {
        let mut history = History::default();
        for i in 0..120 * 60u64 {
            let available_bps = (i % 60 >= 30).then_some((i / 60) as f64);
            let point = Point { rtt_us: Some((i % 60) as f64), loss: Some(0.0), capacity_bps: None, available_bps };
            history.note(Instant::from_millis(i * 1_000), point);
        }
        assert_eq!((history.seconds.len(), history.minutes.len()), (600, 120));
        let last = history.minutes.back().unwrap();
        assert_eq!((last.rtt_us, last.capacity_bps, last.available_bps), (Some(29.5), None, Some(119.0)));
        (0..2_000 * 60).for_each(|i| history.note(Instant::from_millis(i), *history.seconds.front().unwrap()));
        assert_eq!((history.seconds.len(), history.minutes.len()), (600, 1_440));
    }
}
